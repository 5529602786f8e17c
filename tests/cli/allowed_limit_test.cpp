// Words of `plan check` about a limit are true: what it says would be allowed is kept, a digit tighter is not, and the
// room that it names is the difference between the figure and the limit.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <cmath>
#include <map>

#include "check_files.hpp"

using namespace plan;
using namespace plan::checks;

namespace {

struct Metric {
  const char* name;
  const char* sense;
  const char* unit;
  const char* hopeless;  ///< a limit that no job of the test keeps
  const char* easy;      ///< and one that every job keeps
  double step;           ///< of the limit that is offered
};
constexpr Metric kMetrics[] = {
    {"memory.peak", "at most", "GiB", "1 GiB", "900 GiB", 1},
    {"memory.weights", "at most", "GiB", "0.1 GiB", "900 GiB", 1},
    {"memory.activations", "at most", "GiB", "0.1 GiB", "900 GiB", 1},
    {"step_time", "at most", "s", "0.01 s", "9000 s", 0.1},
    {"mfu", "at least", "%", "99 %", "1 %", 1},
};
constexpr const char* kLayouts[] = {"tp2,pp2,mb2", "tp8,pp4,vp2,mb4"};

std::string budget(const std::string& layout, const std::string& metric, const std::string& limit) {
  return fmt::format(
      "budget: 1\nmodel: llama3-8b\ngpus: 64 x h100-sxm\nseq: 8192\nglobal_batch: 256\nlayout: {}\nlimits:\n  {}: {}\n",
      layout, metric, limit);
}

/// The limit that a screen offers for a metric: behind the budget's name and its own, to the end of the line.
std::string offered(const std::string& screen, const std::string& metric) {
  const std::string words = "in b.yaml: " + metric + ": at ";
  const std::size_t at = screen.find(words);
  if (at == std::string::npos) return {};
  return screen.substr(at + words.size() - 3, screen.find('\n', at) - at - words.size() + 3);
}

}  // namespace

TEST_CASE("the limit that is said to be kept is kept, and a digit tighter it is not") {
  const Folder folder;
  const auto status = [&](const std::string& layout, const Metric& metric, const std::string& limit) {
    folder.write("b.yaml", budget(layout, metric.name, limit));
    return run({"check", "--budget", "b.yaml"});
  };
  int offers = 0;
  for (const char* layout : kLayouts)
    for (const Metric& metric : kMetrics) {
      CAPTURE(layout);
      CAPTURE(metric.name);
      const Ran failed = status(layout, metric, fmt::format("{} {}", metric.sense, metric.hopeless));
      CHECK(failed.status == kNo);
      const std::string limit = offered(failed.out, metric.name);
      CAPTURE(failed.out);
      if (limit.empty()) continue;
      ++offers;
      CHECK(limit.starts_with(metric.sense));
      CHECK(limit.ends_with(metric.unit));
      CHECK(status(layout, metric, limit).status == kYes);
      const double value = std::stod(limit.substr(std::string(metric.sense).size()));
      const double tighter = std::string(metric.sense) == "at most" ? value - metric.step : value + metric.step;
      CHECK(status(layout, metric, fmt::format("{} {:.6g} {}", metric.sense, tighter, metric.unit)).status == kNo);
    }
  CHECK(offers >= 8);
}

TEST_CASE("the room that a limit leaves, or lacks, is the difference of the two figures that are shown") {
  const Folder folder;
  const std::map<std::string, double> units{{"GiB", std::exp2(30)}, {"MiB", std::exp2(20)}, {"s", 1},
                                            {"ms", 1e-3},           {"points", 0.01},       {"%", 0.01}};
  const char* const layout = kLayouts[1];
  for (const Metric& metric : kMetrics)
    for (const bool kept : {false, true}) {
      CAPTURE(layout);
      CAPTURE(metric.name);
      CAPTURE(kept);
      folder.write("b.yaml", budget(layout, metric.name,
                                    fmt::format("{} {}", metric.sense, kept ? metric.easy : metric.hopeless)));
      const Json limit = limit_of(run_json({"check", "--budget", "b.yaml"}), metric.name);
      const bool most = std::string(metric.sense) == "at most";
      const double counted = limit["counted"], bound = limit["bound"]["value"], margin = limit["margin"];
      CHECK(margin == doctest::Approx(most ? bound - counted : counted - bound));
      CHECK((margin >= 0) == kept);
      CHECK(limit["now_low"].get<double>() <= limit["now"].get<double>());
      CHECK(limit["now"].get<double>() <= limit["now_high"].get<double>());
      CHECK((counted == limit["now_high"].get<double>() || counted == limit["now_low"].get<double>() ||
             counted == limit["now"].get<double>()));
      const std::string screen = run({"check", "--budget", "b.yaml"}).out;
      const std::size_t row = screen.find(std::string("  ") + metric.name + " ");
      REQUIRE(row != std::string::npos);
      const std::string line = screen.substr(row, screen.find('\n', row) - row);
      CAPTURE(line);
      const char* words = kept ? " left" : most ? "over by " : "short by ";
      const std::size_t at = line.find(words);
      REQUIRE(at != std::string::npos);
      std::size_t begin = kept ? line.rfind("  ", at) + 2 : at + std::string(words).size(), end = 0;
      const std::string room = line.substr(begin);
      const double shown = std::stod(room, &end);
      const std::size_t unit = room.find_first_not_of(' ', end);
      const double scale = units.at(room.substr(unit, room.find(' ', unit) - unit));
      CHECK(shown * scale == doctest::Approx(std::fabs(margin)).epsilon(0.01 + 0.1 * scale / std::fabs(margin)));
    }
}

TEST_CASE("the stages that a limit on memory names are those that need as much as the worst") {
  const Folder folder;
  for (const char* layout : {"tp2,pp2,mb2", "tp2,pp8,vp2,mb1", "tp1,pp4,mb1,recompute=full", "tp4"}) {
    CAPTURE(layout);
    folder.write("b.yaml", budget(layout, "memory.peak", "at most 1 GiB"));
    const Json report = run_json({"check", "--budget", "b.yaml"}), limit = limit_of(report, "memory.peak");
    const Json& stages = report["jobs"][0]["plan"]["best"]["memory"]["stages"];
    const std::string message = limit["message"];
    CAPTURE(message);
    if (stages.size() == 1) {
      CHECK(message.starts_with("each GPU needs "));
      continue;
    }
    const auto shown = [&](std::size_t stage) {
      return std::lround(stages[stage]["total_bytes"].get<double>() / std::exp2(30) * 10);
    };
    const std::size_t worst = report["jobs"][0]["plan"]["best"]["memory"]["peak_stage"];
    std::size_t first = worst, last = worst;
    while (first > 0 && shown(first - 1) == shown(worst)) --first;
    while (last + 1 < stages.size() && shown(last + 1) == shown(worst)) ++last;
    CHECK(message.starts_with(first == last ? fmt::format("stage {} needs ", first)
                                            : fmt::format("stages {}-{} need ", first, last)));
    CHECK(message.ends_with(", the budget allows at most 1 GiB"));
  }
}
