// Fits the cost model's global constants to published runs and scores them with one suite left out at a time:
//     fit_time [--rows FILE] tests/published/runs/*.csv
// Prints the constants, the table of man/plan-validation.7 and the intervals of planner/uncertainty.cpp; into FILE goes
// ln(predicted / measured) of every run, with its own suite left out and not.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "planner/runs/validate.hpp"
#include "presets/default_cluster.hpp"
#include "presets/efficiency_reader.hpp"
#include "presets/store.hpp"
#include "tests/tools/time_fit.hpp"

namespace {

using namespace plan;
using namespace plan::fit;

constexpr int kRounds = 5;      // of linearising and improving
constexpr int kMoreRounds = 3;  // with a suite left out: what waits for launches answers to them by leaps
constexpr double kCoverage = 0.90;
constexpr double kFewRuns = 8;  // from as many runs on suites weigh alike in the intervals of memory
constexpr std::string_view kStateNames[] = {"Megatron", "FSDP2", "DeepSpeed", "Megatron-FSDP"};

Catalogue presets() {
  static std::map<std::string, std::optional<Model>> models;
  static std::map<std::string, std::optional<Cluster>> clusters;
  Catalogue catalogue;
  catalogue.model = [](std::string_view name) {
    auto [at, fresh] = models.try_emplace(std::string(name));
    if (fresh)
      if (auto found = load_model(name, StoreOptions{})) at->second = found->value;
    return at->second;
  };
  catalogue.cluster = [](std::string_view gpu, int gpus_per_node, int) {
    auto [at, fresh] = clusters.try_emplace(fmt::format("{}/{}", gpu, gpus_per_node));
    if (!fresh) return at->second;
    if (auto found = load_cluster_of_gpu(gpu, StoreOptions{})) {
      Cluster cluster = found->value;
      if (cluster.tiers.front().size == cluster.gpus_per_node) cluster.tiers.front().size = gpus_per_node;
      cluster.gpus_per_node = gpus_per_node;
      at->second = cluster;
    }
    return at->second;
  };
  return catalogue;
}

std::vector<Timed> timed_runs(std::span<const Run> runs, const Catalogue& catalogue) {
  std::vector<Timed> result;
  for (const Run& run : runs) {
    if (run.status != "ok" || run.quality == "C" || run.task.starts_with("functional-test")) continue;
    const Result<RunProblem> built = problem_of(run, catalogue);
    if (!built) continue;
    if (const auto measured = measured_step_time(run, *built); measured && *measured > 0)
      result.push_back({run.id, run.suite, *built, *measured});
  }
  return result;
}

std::set<std::string> suites_of(std::span<const Timed> runs) {
  std::set<std::string> suites;
  for (const Timed& run : runs) suites.insert(run.suite);
  return suites;
}

Calibration start() {
  Calibration calibration;
  for (const Constant& constant : constants()) calibration.*constant.member = constant.prior;
  return calibration;
}

void print_constants(const Calibration& fitted) {
  for (const Constant& constant : constants())
    fmt::print("{:<16} {:>9.4g}   prior {:g}, spread {:g}\n", constant.name, fitted.*constant.member, constant.prior,
               constant.spread);
}

struct Score {
  double median = 0, mean = 0, p90 = 0, bias = 0;
};

Score score(const std::vector<double>& logs) {
  Score result;
  std::vector<double> errors;
  for (const double log : logs) {
    const double error = std::exp(log) - 1;
    errors.push_back(std::abs(error));
    result.mean += std::abs(error) / static_cast<double>(logs.size());
    result.bias += error / static_cast<double>(logs.size());
  }
  result.median = quantile(errors, 0.5), result.p90 = quantile(errors, 0.9);
  return result;
}

/// Residuals of every run under constants that its own suite had no part in.
std::vector<double> left_out_residuals(std::vector<Timed>& runs, const Linear& linear, const Calibration& fitted) {
  std::vector<double> result(runs.size());
  for (const std::string& suite : suites_of(runs)) {
    Calibration others = improve(runs, linear, fitted, suite);
    for (int round = 0; round < kMoreRounds; ++round) others = improve(runs, linearise(runs, others), others, suite);
    const std::vector<double> logs = residuals(runs, others);
    for (std::size_t i = 0; i < runs.size(); ++i)
      if (runs[i].suite == suite) result[i] = logs[i];
  }
  return result;
}

void print_table(std::span<const Timed> runs, std::span<const double> inside, std::span<const double> outside) {
  fmt::print("\n{:<18}{:>5}  {:>7}{:>7}{:>7}{:>7}   {:>7}{:>7}\n", "suite", "n", "median", "mean", "p90", "bias",
             "median", "p90");
  Score macro, macro_inside;
  const std::set<std::string> suites = suites_of(runs);
  const auto n = static_cast<double>(suites.size());
  for (const std::string& suite : suites) {
    std::vector<double> own, other;
    for (std::size_t i = 0; i < runs.size(); ++i)
      if (runs[i].suite == suite) own.push_back(inside[i]), other.push_back(outside[i]);
    const Score in = score(own), out = score(other);
    fmt::print("{:<18}{:>5}  {:>7.1f}{:>7.1f}{:>7.1f}{:>+7.1f}   {:>7.1f}{:>7.1f}\n", suite, own.size(),
               100 * out.median, 100 * out.mean, 100 * out.p90, 100 * out.bias, 100 * in.median, 100 * in.p90);
    macro.median += out.median / n, macro.mean += out.mean / n, macro.p90 += out.p90 / n, macro.bias += out.bias / n;
    macro_inside.median += in.median / n, macro_inside.p90 += in.p90 / n;
  }
  fmt::print("{:<18}{:>5}  {:>7.1f}{:>7.1f}{:>7.1f}{:>+7.1f}   {:>7.1f}{:>7.1f}\n", "macro", runs.size(),
             100 * macro.median, 100 * macro.mean, 100 * macro.p90, 100 * macro.bias, 100 * macro_inside.median,
             100 * macro_inside.p90);
}

bool write_rows(const char* file, std::span<const Timed> runs, std::span<const double> inside,
                std::span<const double> outside) {
  std::ofstream out(file);
  out << "id,suite,regime,left_out,all\n";
  for (std::size_t i = 0; i < runs.size(); ++i)
    out << fmt::format("{},{},\"{}\",{:.4f},{:.4f}\n", runs[i].id, runs[i].suite,
                       kRegimeNames[static_cast<std::size_t>(regime_of(runs[i].run.problem))], outside[i], inside[i]);
  return out.good();
}

/// A run's prediction over its measurement, as a logarithm, and what it is grouped by.
struct Miss {
  std::string group;
  std::string suite;
  double log = 0;
};

/// How much a run counts in an interval: suites weigh alike from `few` runs on.
double vote(double runs, double few) { return std::min(1.0, few / runs); }

/// What every group's measurements lie between, as factors on the prediction.
void print_intervals(const char* title, const std::vector<Miss>& misses, double few) {
  std::map<std::string, double> count;
  for (const Miss& miss : misses) ++count[miss.suite];
  std::map<std::string, std::vector<Weighted>> groups;
  for (const Miss& miss : misses) groups[miss.group].push_back({-miss.log, vote(count[miss.suite], few)});
  fmt::print("\n{}\n", title);
  for (const auto& [name, ratios] : groups)
    fmt::print("  {{{:.3f}, {:.3f}}},  // {}, {}\n", std::exp(weighted_quantile(ratios, (1 - kCoverage) / 2)),
               std::exp(weighted_quantile(ratios, (1 + kCoverage) / 2)), name, ratios.size());
}

void print_memory_intervals(std::span<const Run> runs, const Catalogue& catalogue) {
  std::vector<Miss> by_kind, by_states;
  for (const ScoredRun& run : validate(runs, catalogue).runs) {
    if (!run.memory) continue;
    const double log = std::log(run.memory->predicted / run.memory->measured);
    by_kind.push_back({run.run.memory_kind, run.run.suite, log});
    // Printed figures are loose in unit and scope, tests' models tiny: they say little about a worst rank.
    if (run.run.memory_kind == "printed" || run.run.task.starts_with("functional-test")) continue;
    const Problem problem = problem_of(run.run, catalogue)->problem;
    const std::string states(kStateNames[static_cast<std::size_t>(problem.training.stack.states)]);
    by_states.push_back({states + (problem.model.moe() ? ", mixture of experts" : ""), run.run.suite, log});
  }
  print_intervals("memory intervals by what was read", by_kind, kFewRuns);
  print_intervals("memory intervals by how states are laid out", by_states, kFewRuns);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<Run> runs;
  const bool rows = argc > 2 && std::string_view(argv[1]) == "--rows";
  for (int i = rows ? 3 : 1; i < argc; ++i) {
    std::stringstream text;
    text << std::ifstream(argv[i]).rdbuf();
    const auto read = read_runs(text.str(), argv[i]);
    if (!read) return fmt::print(stderr, "fit_time: {}: {}\n", argv[i], read.error().front().message), 2;
    runs.insert(runs.end(), read->begin(), read->end());
  }
  if (runs.empty()) return fmt::print(stderr, "usage: fit_time [--rows FILE] RUNS.csv...\n"), 2;
  const Catalogue catalogue = presets();
  std::vector<Timed> timed = timed_runs(runs, catalogue);
  Calibration fitted = start();
  Linear linear = linearise(timed, fitted);
  for (int round = 0; round < kRounds; ++round) {
    fitted = improve(timed, linear, fitted, "");
    linear = linearise(timed, fitted);
  }
  print_constants(fitted);
  const std::vector<double> outside = left_out_residuals(timed, linear, fitted);
  print_table(timed, linear.residual, outside);
  if (rows && !write_rows(argv[2], timed, linear.residual, outside))
    return fmt::print(stderr, "fit_time: cannot write {}\n", argv[2]), 2;

  std::vector<Miss> misses;
  for (std::size_t i = 0; i < timed.size(); ++i)
    for (const double log : {outside[i], linear.residual[i]})
      misses.push_back(
          {std::string(kRegimeNames[static_cast<std::size_t>(regime_of(timed[i].run.problem))]), timed[i].suite, log});
  print_intervals("step time intervals, of residuals with and without the own suite", misses, 2 * kSuiteVotes);
  print_memory_intervals(runs, catalogue);
  return 0;
}
