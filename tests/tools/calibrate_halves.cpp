// Whether a calibration helps: for each suite and GPU, constants fitted to one half of the runs, chosen by a hash of
// their names, and the step times of the other half before and after.
//     calibrate_halves tests/published/runs/*.csv
// Prints a line for each, with the constants that left what is usual, and ends with 1 if any grew worse.
#include <fmt/core.h>

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "planner/runs/calibrate.hpp"
#include "tests/contents.hpp"
#include "tests/tools/published.hpp"

namespace {

using namespace plan;

constexpr std::size_t kFewest = 8;  // of a half

/// FNV-1a, which is the same everywhere.
std::uint64_t hash(std::string_view text) {
  std::uint64_t value = 14695981039346656037u;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return value;
}

/// Runs that state a step time and a configuration.
bool scored(const ScoredRun& run) { return run.step_time.has_value(); }

/// One half fitted, the other predicted.
struct Halves {
  std::vector<Run> fitted{}, left{};
};

Catalogue on(const Catalogue& presets, const Calibration& calibration) {
  Catalogue own = presets;
  own.cluster = [presets, calibration](std::string_view gpu, int per_node, int gpus) {
    std::optional<Cluster> cluster = presets.cluster(gpu, per_node, gpus);
    if (cluster) cluster->calibration = calibration;
    return cluster;
  };
  return own;
}

ErrorScore step_errors(const std::vector<Run>& runs, const Catalogue& catalogue) {
  std::vector<Compared> pairs;
  for (const ScoredRun& run : validate(runs, catalogue).runs)
    if (run.step_time) pairs.push_back(*run.step_time);
  return score_errors(pairs);
}

std::string stand_ins(const CalibrationResult& result) {
  std::string names;
  for (const FittedConstant& constant : result.constants)
    if (constant.stands_in()) names += fmt::format(" {} {:+.1f} sd", constant.field->name, constant.deviations());
  return names.empty() ? "" : " ;" + names;
}

}  // namespace

int main(int argc, char** argv) {
  std::map<std::string, Halves> groups;
  const Catalogue presets = fit::preset_catalogue();
  for (int i = 1; i < argc; ++i) {
    const auto runs = read_runs(contents_of(argv[i]), argv[i]);
    if (!runs) return fmt::print(stderr, "calibrate_halves: {}: {}\n", argv[i], runs.error().front().message), 2;
    for (const ScoredRun& run : validate(*runs, presets).runs) {
      if (!scored(run)) continue;
      Halves& halves = groups[run.run.suite + " on " + run.run.gpu];
      (hash(run.run.id) % 2 == 0 ? halves.fitted : halves.left).push_back(run.run);
    }
  }
  int worse = 0, all = 0;
  fmt::print("{:<40}{:>5}{:>6}{:>18}{:>18}\n", "suite and GPU", "fit", "left", "median before", "after");
  for (const auto& [name, halves] : groups) {
    if (halves.fitted.size() < kFewest || halves.left.size() < kFewest) continue;
    const Result<CalibrationResult> found = calibrate(halves.fitted, presets);
    if (!found) continue;
    const ErrorScore before = step_errors(halves.left, presets);
    const ErrorScore after = step_errors(halves.left, on(presets, found->calibration));
    ++all, worse += after.median_ape > before.median_ape ? 1 : 0;
    fmt::print("{:<40}{:>5}{:>6}{:>16.1f} %{:>16.1f} %{}\n", name, halves.fitted.size(), halves.left.size(),
               100 * before.median_ape, 100 * after.median_ape, stand_ins(*found));
  }
  fmt::print("{} of {} better\n", all - worse, all);
  return worse > 0 ? 1 : 0;
}
