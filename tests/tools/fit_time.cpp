// Fits the cost model's global constants to published runs and scores them with one suite left out at a time:
//     fit_time [--rows FILE] [--write] presets/calibration.yaml tests/published/runs/*.csv
// Prints the constants and the tables of man/plan-validation.7, and puts constants and intervals into the YAML file
// with --write; the next build has them. Into the FILE of --rows goes ln(predicted / measured) of every run, with its
// own suite left out and not, beside what it may depend on.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "planner/answer/estimate.hpp"
#include "planner/runs/run_rates.hpp"
#include "planner/runs/validate.hpp"
#include "tests/contents.hpp"
#include "tests/tools/intervals.hpp"
#include "tests/tools/pairs.hpp"
#include "tests/tools/published.hpp"
#include "tests/tools/time_fit.hpp"

namespace {

using namespace plan;
using namespace plan::fit;

constexpr int kRounds = 4;      // of linearising and improving
constexpr int kMoreRounds = 2;  // with a suite left out, while they move it by more than kMoved of a constant
constexpr double kMoved = 0.05;
constexpr double kCoverage = 0.90;

/// Rows that agree in it differ in their layout alone.
std::string job_of(const Run& run) {
  return fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", run.suite, run.model, run.seq.value_or(0),
                     run.global_batch.value_or(0), run.gpus.value_or(0), run.gpu, run.precision, run.attention,
                     run.framework, run.fact("release"), run.task);
}

std::vector<Timed> timed_runs(std::span<const Run> runs, const Catalogue& catalogue) {
  std::vector<Timed> result;
  for (const Run& run : runs) {
    if (run.status != "ok" || run.quality == "C" || run.task.starts_with("functional-test")) continue;
    const Result<RunProblem> built = problem_of(run, catalogue);
    if (!built) continue;
    if (const auto measured = measured_step_time(run, *built); measured && *measured > 0)
      result.push_back({run.id, run.suite, run.model, job_of(run), *built, *measured});
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

/// The largest step of a constant, as a share of it: what waits for launches answers to large ones by leaps.
double moved(const Calibration& from, const Calibration& to) {
  double most = 0;
  for (const Constant& constant : constants())
    most = std::max(most, std::abs(to.*constant.member / from.*constant.member - 1));
  return most;
}

/// Residuals of every run under constants that its own suite had no part in, and those constants by that suite.
struct LeftOut {
  std::vector<double> residual{};
  std::map<std::string, Calibration> fitted{};
};

LeftOut leave_out(std::vector<Timed>& runs, const Linear& linear, const Calibration& fitted) {
  LeftOut result{.residual = std::vector<double>(runs.size())};
  for (const std::string& suite : suites_of(runs)) {
    Calibration from = fitted, others = improve(runs, linear, fitted, suite);
    for (int round = 0; round < kMoreRounds && moved(from, others) > kMoved; ++round)
      from = others, others = improve(runs, linearise(runs, from), from, suite);
    const std::vector<double> logs = residuals(runs, others);
    for (std::size_t i = 0; i < runs.size(); ++i)
      if (runs[i].suite == suite) result.residual[i] = logs[i];
    result.fitted.emplace(suite, others);
  }
  return result;
}

/// What every constant is with all suites, and the least and the most that it becomes without one of them.
void print_moves(const Calibration& fitted, const std::map<std::string, Calibration>& left_out) {
  fmt::print("\n{:<16}{:>9}  {:>9}  {:<18}{:>9}  {}\n", "constant", "all", "least", "without", "most", "without");
  for (const Constant& constant : constants()) {
    const auto by_value = [&](const auto& a, const auto& b) {
      return a.second.*constant.member < b.second.*constant.member;
    };
    const auto [least, most] = std::minmax_element(left_out.begin(), left_out.end(), by_value);
    fmt::print("{:<16}{:>9.4g}  {:>9.4g}  {:<18}{:>9.4g}  {}\n", constant.name, fitted.*constant.member,
               least->second.*constant.member, least->first, most->second.*constant.member, most->first);
  }
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

/// Residuals with what they may depend on: seconds of every term, and how the prediction answers to each constant.
bool write_rows(const char* file, std::span<const Timed> runs, const Linear& linear, std::span<const double> outside) {
  std::ofstream out(file);
  out << "id,suite,guessed,measured_s,left_out,all";
  for (const auto& [name, term] : kTimeTerms) out << ',' << name << "_s";
  for (const Constant& constant : constants()) out << ",d_" << constant.name;
  out << '\n';
  for (std::size_t i = 0; i < runs.size(); ++i) {
    out << fmt::format("{},{},{:d},{:.5g},{:.4f},{:.4f}", runs[i].id, runs[i].suite, runs[i].run.guessed,
                       runs[i].measured, outside[i], linear.residual[i]);
    const Terms terms = estimate(runs[i].run.problem, runs[i].run.layout).terms;
    for (const auto& [name, term] : kTimeTerms) out << fmt::format(",{:.4g}", (terms.*term).value);
    for (const double slope : linear.slope[i]) out << fmt::format(",{:.4f}", slope);
    out << '\n';
  }
  return out.good();
}

std::vector<Residual> time_residuals(std::span<const Timed> runs, std::span<const double> outside) {
  std::vector<Residual> rows;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunProblem& run = runs[i].run;
    const Estimate predicted = estimate(run.problem, run.layout);
    rows.push_back({runs[i].suite, -outside[i], doubts_of(run.problem, predicted.terms, run.guessed)});
  }
  return rows;
}

/// All pairs of layouts of one job, predicted without their own suite.
std::vector<Pair> layout_pairs(std::span<const Timed> runs, std::span<const double> outside) {
  std::map<std::string, std::vector<std::size_t>> jobs;
  for (std::size_t i = 0; i < runs.size(); ++i)
    if (!runs[i].run.guessed) jobs[runs[i].job].push_back(i);
  std::vector<Terms> terms;
  for (const Timed& run : runs) terms.push_back(estimate(run.run.problem, run.run.layout).terms);
  const PairedSpread parts = paired_parts(0);
  std::vector<Pair> pairs;
  for (const auto& [job, members] : jobs)
    for (std::size_t a = 0; a < members.size(); ++a)
      for (std::size_t b = a + 1; b < members.size(); ++b) {
        const double spread = paired_spread(terms[members[a]], terms[members[b]]);
        const double moved = std::sqrt(std::max(0.0, spread * spread - parts.same * parts.same)) / parts.different;
        pairs.push_back({runs[members[a]].suite, outside[members[b]] - outside[members[a]], moved});
      }
  return pairs;
}

std::vector<KindResidual> memory_residuals(std::span<const Run> runs, const Catalogue& catalogue) {
  std::vector<KindResidual> rows;
  for (const ScoredRun& run : validate(runs, catalogue).runs)
    if (run.memory)
      rows.push_back({run.run.memory_kind, run.run.suite, std::log(run.memory->measured / run.memory->predicted)});
  return rows;
}

/// presets/calibration.yaml with what was fitted; empty if it lacks a key.
std::string rewritten(std::string text, const Calibration& fitted, const Conformal& time, const PairedFit& pair,
                      const MemoryBands& memory) {
  bool found = true;
  const auto put = [&](const std::string& key, const std::string& value) {
    text = with_value(std::move(text), key, value, found);
  };
  for (const Constant& constant : constants()) put(constant.name, fmt::format("{:.4g}", fitted.*constant.member));
  std::string scale;
  for (const double value : time.scale) scale += fmt::format("{}{:.3f}", scale.empty() ? "" : ", ", value);
  put("scale", "[" + scale + "]");
  put("low", fmt::format("{:.3f}", time.low));
  put("high", fmt::format("{:.3f}", time.high));
  put("left_out_coverage", fmt::format("{:.3f}", time.coverage));
  put("same", fmt::format("{:.3f}", pair.same));
  put("different", fmt::format("{:.3f}", pair.different));
  for (const KindBand& row : memory.bands)
    put(row.kind,
        fmt::format("{{low: {:.3f}, high: {:.3f}, runs: {}}}", row.interval.low, row.interval.high, row.runs));
  return found ? text : "";
}

void print_intervals(const Conformal& time, const MemoryBands& memory) {
  fmt::print("\nintervals of suites left out cover {:.1f} %, macro; high over low {:.2f}\n", 100 * time.coverage,
             time.width);
  fmt::print(
      "memory of suites left out: {:.1f} %, macro over suites and kinds; least width {:.1f} times their distance\n",
      100 * memory.coverage, memory.multiple);
  for (const KindBand& row : memory.bands)
    fmt::print("{:<20} {:.3f} to {:.3f}, {} runs\n", row.kind, row.interval.low, row.interval.high, row.runs);
  for (const SuiteCoverage& row : memory.suites)
    fmt::print("left out {:<20} {:<20} {:>3.0f} % of {}\n", row.kind, row.suite, 100 * row.share, row.runs);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<Run> runs;
  std::string rows, constants_file;
  bool write = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--write") {
      write = true;
    } else if (word == "--rows" && i + 1 < argc) {
      rows = argv[++i];
    } else if (constants_file.empty()) {
      constants_file = word;
    } else {
      const auto read = read_runs(contents_of(argv[i]), argv[i]);
      if (!read) return fmt::print(stderr, "fit_time: {}: {}\n", argv[i], read.error().front().message), 2;
      runs.insert(runs.end(), read->begin(), read->end());
    }
  }
  if (runs.empty())
    return fmt::print(stderr, "usage: fit_time [--rows FILE] [--write] CALIBRATION.yaml RUNS.csv...\n"), 2;
  const std::string before = contents_of(constants_file.c_str());
  if (!read_beliefs(before)) return fmt::print(stderr, "fit_time: {} lacks a constant\n", constants_file), 2;
  const Catalogue catalogue = preset_catalogue();
  std::vector<Timed> timed = timed_runs(runs, catalogue);
  Calibration fitted = start();
  Linear linear = linearise(timed, fitted);
  for (int round = 0; round < kRounds; ++round) {
    fitted = improve(timed, linear, fitted, "");
    linear = linearise(timed, fitted);
  }
  print_constants(fitted);
  const LeftOut left_out = leave_out(timed, linear, fitted);
  const std::vector<double>& outside = left_out.residual;
  print_table(timed, linear.residual, outside);
  print_moves(fitted, left_out.fitted);
  if (!rows.empty() && !write_rows(rows.c_str(), timed, linear, outside))
    return fmt::print(stderr, "fit_time: cannot write {}\n", rows), 2;

  const Conformal time = conformal(time_residuals(timed, outside), kCoverage);
  const MemoryBands memory = memory_bands(memory_residuals(runs, catalogue), kCoverage);
  const PairedFit pair = paired_fit(layout_pairs(timed, outside));
  print_intervals(time, memory);
  fmt::print("pairs of layouts: {} of {} suites, same {:.3f}, different {:.3f}\n", pair.pairs, pair.suites, pair.same,
             pair.different);
  if (!write) return 0;
  const std::string after = rewritten(before, fitted, time, pair, memory);
  if (after.empty()) return fmt::print(stderr, "fit_time: {} lacks an interval\n", constants_file), 2;
  return (std::ofstream(constants_file) << after).good() ? 0 : 2;
}
