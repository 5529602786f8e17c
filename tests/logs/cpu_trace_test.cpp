// Traces that PyTorch 2.6 wrote of a small model on a CPU, one process and two with gloo (tests/logs/traces), read
// beside a painter: at each moment it looks through all operators of each thread for the innermost one.
#include <doctest/doctest.h>
#include <zlib.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/logs/trace.hpp"

using namespace plan;
using Json = nlohmann::json;

namespace {

std::string unpacked(const std::string& path) {
  std::string out;
  gzFile file = gzopen(path.c_str(), "rb");
  std::array<char, 65536> buffer{};
  for (int n = 0; (n = gzread(file, buffer.data(), buffer.size())) > 0;)
    out.append(buffer.data(), static_cast<std::size_t>(n));
  gzclose(file);
  return out;
}

struct Op {
  double start, end;
  bool message, update;
};

/// Shares of the last two steps: compute, optimizer, messages alone, nothing.
std::array<double, 4> painted(const Json& trace, double& step) {
  std::map<int, std::vector<Op>> threads;
  std::vector<std::pair<double, double>> steps;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    const std::string name = event["name"], category = event.value("cat", "");
    const double start = event["ts"], end = start + event["dur"].get<double>();
    if (name.find("ProfilerStep#") == 0) steps.emplace_back(start, end);
    const bool update = name.find("Optimizer.step#") == 0, gloo = name.find("gloo:") == 0;
    if (category != "cpu_op" && !update && !gloo) continue;
    threads[event["tid"]].push_back({start, end, gloo || name.find("c10d::") == 0, update});
  }
  std::array<double, 4> parts{};
  double all = 0;
  for (std::size_t i = steps.size() - 2; i < steps.size(); ++i) {
    constexpr double kEvery = 3.7;  // microseconds
    for (double t = steps[i].first; t < steps[i].second; t += kEvery) {
      bool compute = false, optimizer = false, message = false;
      for (const auto& [thread, ops] : threads) {
        const Op* innermost = nullptr;
        bool updating = false;
        for (const Op& op : ops) {
          if (t < op.start || t >= op.end) continue;
          updating = updating || op.update;
          if (innermost == nullptr || op.start >= innermost->start) innermost = &op;
        }
        if (innermost == nullptr) continue;
        (updating ? optimizer : innermost->message ? message : compute) = true;
      }
      parts[compute ? 0 : optimizer ? 1 : message ? 2 : 3] += kEvery;
      all += kEvery;
    }
  }
  step = all / 2 * 1e-6;
  for (double& part : parts) part *= 0.5e-6;
  return parts;
}

Result<Trace> first_trace(Result<std::vector<Trace>> traces) {
  if (!traces) return tl::unexpected(std::move(traces).error());
  REQUIRE(traces->size() == 1);
  return std::move(traces->front());
}

}  // namespace

TEST_CASE("a trace of a CPU is read as a painter sees it, one process and two with gloo") {
  for (const char* name : {"cpu-one-process", "cpu-gloo-rank0", "cpu-gloo-rank1"}) {
    CAPTURE(name);
    const std::string path = std::string(PLAN_SOURCE_DIR "/tests/logs/traces/") + name + ".json.gz";
    const Result<Trace> trace = first_trace(read_traces(path));
    REQUIRE(trace.has_value());
    CHECK(trace->of_cpu);
    CHECK(trace->steps.size() == 3);
    const bool gloo = std::string(name) != "cpu-one-process";
    std::set<std::string> ops;
    for (const TraceGroup& group : trace->groups) ops.insert(group.op);
    CHECK(ops.contains("all_reduce") == gloo);
    const TraceTimes times = trace_times(*trace, std::vector<Observable>(trace->groups.size(), Observable::Dp), 0);
    CHECK(times.steps == 2);
    double step = 0;
    const std::array<double, 4> expected = painted(Json::parse(unpacked(path)), step);
    const auto part = [&](Observable of) { return times.parts[static_cast<std::size_t>(of)]; };
    const double close = 0.005 * step;
    CHECK(std::abs(part(Observable::Step) - step) < close);
    CHECK(std::abs(part(Observable::Compute) - expected[0]) < close);
    CHECK(std::abs(part(Observable::Optimizer) - expected[1]) < close);
    CHECK(std::abs(part(Observable::Dp) - expected[2]) < close);
    CHECK(std::abs(part(Observable::Idle) - expected[3]) < close);
    CHECK(times.families[static_cast<std::size_t>(KernelFamily::Gemm)] > 0);
    CHECK((part(Observable::Dp) > 0) == gloo);
  }
}
