// The trace is read back as JSON: tracks nest, times and bytes are the estimate's, arrows join what they say.
#include "cli/report/plan/trace.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "cli/report/page/timeline.hpp"
#include "scheduled_plans.hpp"

namespace plan {
namespace {

using doctest::Approx;
using nlohmann::json;

using scheduled::plan_of;

/// Every schedule, dense and sparse, with and without recomputation.
std::vector<Plan> plans() {
  std::vector<Plan> out;
  for (scheduled::Case row : scheduled::cases()) {
    if (static_cast<int>(row.layout.schedule) % 2 == 0) row.layout.recompute.kind = RecomputeKind::Full;
    out.push_back(plan_of(row.model, row.layout));
  }
  out.push_back(plan_of("8b", Layout{.tp = 8, .dp = 1}));
  return out;
}

constexpr double kRounding = 0.0021;  ///< microseconds: two ends rounded to nanoseconds

using Track = std::pair<int, int>;
std::map<Track, std::vector<json>> slices(const json& trace) {
  std::map<Track, std::vector<json>> out;
  for (const json& event : trace["traceEvents"])
    if (event["ph"] == "X") out[{event["pid"], event["tid"]}].push_back(event);
  for (auto& [track, list] : out)
    std::stable_sort(list.begin(), list.end(), [](const json& a, const json& b) { return a["ts"] < b["ts"]; });
  return out;
}

/// Under DualPipe and DualPipeV outer ranks run more micro-batches alone, rather than in pairs, than the middle ones,
/// whose work the terms are: seconds that this costs a rank.
double work_alone(const StepReplay& step, int rank) {
  const Pipeline& pipe = step.pipeline;
  const bool v = pipe.schedule == Schedule::DualPipeV;
  if (!v && pipe.schedule != Schedule::DualPipe) return 0;
  const int half = v ? pipe.pp : pipe.pp / 2, place = v ? rank : std::min(rank, pipe.pp - 1 - rank);
  const int more = std::max(0, half - 2 - place);  // of the rank's chunks
  const StageCost& cost = step.costs[static_cast<std::size_t>(rank)];
  return (v ? 0.5 : 1) * more * (cost.work().total() - cost.pair().total()).value;
}

}  // namespace

TEST_CASE("a trace ends when the estimate does, and no slice overlaps another on its track") {
  for (const Plan& plan : plans()) {
    CAPTURE(name(plan.best.layout.schedule));
    const StepReplay step = replay(plan).value();
    const json trace = json::parse(trace_report(plan, step));
    double end = 0;
    for (const auto& entry : slices(trace)) {
      const auto& track = entry.first;
      const auto& list = entry.second;
      CAPTURE(track.first);
      CAPTURE(track.second);
      double before = 0;
      for (const json& slice : list) {
        CHECK(slice["ts"].get<double>() >= before - kRounding);
        before = slice["ts"].get<double>() + slice["dur"].get<double>();
        end = std::max(end, before);
      }
    }
    CHECK(std::fabs(end - plan.best.step_time.value * 1e6) < kRounding);
    CHECK(trace["otherData"]["step_time_s"] == plan.best.step_time.value);
    CHECK(trace["otherData"]["operations_left_out"] == 0);
  }
}

TEST_CASE("the memory counter of every stage peaks at the estimate's total, where the mark is") {
  for (const Plan& plan : plans()) {
    CAPTURE(name(plan.best.layout.schedule));
    const json trace = json::parse(trace_report(plan, replay(plan).value()));
    std::map<int, double> most, marks;
    std::map<std::pair<int, double>, double> at;
    for (const json& event : trace["traceEvents"]) {
      if (event["ph"] == "C") {
        const double bytes = event["args"]["bytes"];
        double& held = at[{event["pid"], event["ts"]}];
        held = std::max(held, bytes);
        most[event["pid"]] = std::max(most[event["pid"]], bytes);
      }
      if (event["ph"] == "i") marks[event["pid"]] = event["ts"];
    }
    REQUIRE(most.size() == plan.best.stages.size());
    for (const auto& [stage, bytes] : most) {
      CHECK(
          bytes ==
          Approx(static_cast<double>(plan.best.stages[static_cast<std::size_t>(stage)].total().value)).epsilon(1e-12));
      CHECK(at[{stage, marks[stage]}] == bytes);
    }
  }
}

TEST_CASE("slices of the slowest stage add up to the estimate's terms") {
  for (const Plan& plan : plans()) {
    CAPTURE(name(plan.best.layout.schedule));
    const StepReplay step = replay(plan).value();
    const json trace = json::parse(trace_report(plan, step));
    std::map<int, double> compute, tp, ep;
    for (const auto& [track, list] : slices(trace))
      for (const json& slice : list) {
        const std::string text = slice["name"];
        if (text == "optimizer" || text.starts_with("wait")) continue;
        const double seconds = slice["dur"].get<double>() * 1e-6 / step.scale;
        if (track.second == 0) compute[track.first] += seconds;
        if (track.second == 1) tp[track.first] += seconds;
        if (track.second == 3) ep[track.first] += seconds;
      }
    const Terms& terms = plan.best.terms;
    const double busy = (terms.compute + terms.recompute + terms.tp + terms.ep).value;
    double most = 0;
    for (const auto& [stage, seconds] : compute) {
      const double more = work_alone(step, stage);
      most = std::max(most, seconds + tp[stage] + ep[stage] - more);
    }
    CHECK(most == Approx(busy).epsilon(1e-5));
  }
}

TEST_CASE("every hand-over has both ends, each inside a slice, and goes forward in time") {
  for (const Plan& plan : plans()) {
    CAPTURE(name(plan.best.layout.schedule));
    const json trace = json::parse(trace_report(plan, replay(plan).value()));
    std::map<int, json> starts, ends;
    for (const json& event : trace["traceEvents"]) {
      if (event["ph"] == "s") CHECK(starts.emplace(event["id"], event).second);
      if (event["ph"] == "f") CHECK(ends.emplace(event["id"], event).second);
    }
    REQUIRE(starts.size() == ends.size());
    if (plan.best.layout.pp > 1) CHECK(starts.size() >= 2 * 3 * 16);
    const auto tracks = slices(trace);
    for (const auto& [id, start] : starts) {
      const json& end = ends.at(id);
      CHECK(start["pid"] != end["pid"]);
      CHECK_FALSE(start.contains("bp"));
      CHECK(end["bp"] == "e");  // it points to the slice that it ends in, not to the next one
      for (const char* key : {"name", "cat"}) CHECK(start[key] == end[key]);
      CHECK(start["ts"] <= end["ts"]);
      for (const json& event : {start, end}) {
        const double at = event["ts"];
        const std::vector<json>& list = tracks.at({event["pid"], event["tid"]});
        const bool inside = std::any_of(list.begin(), list.end(), [&](const json& slice) {
          const double from = slice["ts"];
          return from <= at + kRounding && at <= from + slice["dur"].get<double>() + kRounding;
        });
        CHECK(inside);
      }
    }
  }
}

TEST_CASE("a long step keeps its ends and says what is left out") {
  const Plan plan = plan_of("405b", Layout{.tp = 8, .pp = 4, .dp = 1, .sequence_parallel = true}, 512);
  const StepReplay step = replay(plan).value();
  REQUIRE(step.ops.size() == 4 * 2 * 512);
  const json trace = json::parse(trace_report(plan, step, 300));
  const int left = trace["otherData"]["operations_left_out"];
  CHECK(left > 3000);
  int drawn = 0, said = 0;
  double end = 0;
  for (const auto& [track, list] : slices(trace)) {
    double before = 0;
    for (const json& slice : list) {
      const std::string text = slice["name"];
      if (track.second == 0 && (text.starts_with("forward") || text.starts_with("backward"))) ++drawn;
      if (text.ends_with("not drawn")) said += std::stoi(text);
      CHECK(slice["ts"].get<double>() >= before - kRounding);
      before = slice["ts"].get<double>() + slice["dur"].get<double>();
      end = std::max(end, before);
    }
  }
  CHECK(said == left);
  CHECK(drawn + left == 4 * 2 * 512);
  CHECK(std::fabs(end - plan.best.step_time.value * 1e6) < kRounding);
}

TEST_CASE("the terminal's timeline has one letter an operation where they fit") {
  StepReplay step;
  step.pipeline = {Schedule::OneFOneB, 4, 1, 8};
  const std::vector<StageTime> stages(4, {Seconds(1), Seconds(1), Seconds(1), {}});
  const PipelineRun run = simulate_pipeline(step.pipeline, chunk_times(step.pipeline, stages), Seconds(0));
  for (const PipelineEvent& event : run.events)
    step.ops.push_back({event.rank, event.op, event.start, event.end, 0, 0, 0});
  step.pipeline_time = run.makespan;
  Terminal narrow;
  narrow.width = 72;
  CHECK(timeline_text(step, narrow) ==
        "Pipeline, 1f1b: 4 stages, 8 micro-batches, 33.0 s\n"
        "  stage 0  0123......aa4bb5cc6dd7ee.ff.gg.hh\n"
        "  stage 1  .012....aa3bb4cc5dd6ee7ff.gg.hh..\n"
        "  stage 2  ..01..aa2bb3cc4dd5ee6ff7gg.hh....\n"
        "  stage 3  ...0aa1bb2cc3dd4ee5ff6gg7hh......\n"
        "  digits forward, letters backward, dots waiting; a column is 1.00 s\n");
}

TEST_CASE("every timeline fits 80 columns") {
  for (const Plan& plan : plans()) {
    CAPTURE(name(plan.best.layout.schedule));
    const std::string text = timeline_text(replay(plan).value(), Terminal{});
    for (const int width : {50, 60}) {  // a legend of several lines hangs below its first
      std::istringstream narrow(timeline_text(replay(plan).value(), Terminal{.width = width}));
      std::string line;
      for (std::getline(narrow, line); std::getline(narrow, line);) {
        CAPTURE(line);
        CHECK(line.find_first_not_of(' ') == 2);
      }
    }
    CHECK(timeline_text(replay(plan).value(), Terminal{.width = 200}) == text);  // lines of 80 are read with ease
    std::istringstream lines(text);
    int number = 0;
    for (std::string line; std::getline(lines, line); ++number) {
      CAPTURE(line);
      CHECK(line.size() <= 80);
      if (number > 0) CHECK(line.find_first_not_of(' ') == 2);  // rows, and the legend's lines below each other
    }
    CHECK(std::count(text.begin(), text.end(), '\n') >= plan.best.layout.pp + 2);
  }
}

}  // namespace plan
