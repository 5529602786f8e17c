// What `plan validate` prints for people: one line a suite, at most 80 columns. Tested by
// tests/cli/validation_test.cpp and tests/golden/validate.
#include "cli/report/validation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "cli/report/format.hpp"

namespace plan {
namespace {

constexpr std::size_t kMostReasons = 12;
constexpr int kNameColumns = 18;

using Suites = std::vector<std::pair<std::string, const SuiteScore*>>;

/// "+1.2 %", signed.
std::string signed_percent(double ratio) { return fmt::format("{:+.1f} %", 100 * ratio); }

std::string share(double ratio, int n) { return n == 0 ? "-" : fmt::format("{:.0f} %", 100 * ratio); }

std::string heading(const Terminal& terminal, std::string_view name, std::string_view columns) {
  return fmt::format("\n{}{}\n", paint(terminal, Style::Bold, fmt::format("{:<{}}", name, kNameColumns + 2)), columns);
}

/// A suite's name cut to its column; `overall` stands apart by its weight alone.
std::string label(const std::string& name) {
  const bool fits = name.size() <= static_cast<std::size_t>(kNameColumns);
  return fmt::format("  {:<{}}", fits ? name : name.substr(0, kNameColumns - 1) + "~", kNameColumns);
}

std::string time_table(const Suites& suites, const Terminal& terminal) {
  std::string out;
  for (const auto& [name, score] : suites) {
    const ErrorScore& e = score->step_time;
    if (e.n == 0) continue;
    out += fmt::format("{}  {:>6} {:>8} {:>8} {:>8} {:>9} {:>7}\n", label(name), e.n, percent(e.median_ape),
                       percent(e.mape), percent(e.p90_ape), signed_percent(e.bias),
                       share(score->coverage.step_time, score->coverage.step_times));
  }
  if (out.empty()) return out;
  return heading(terminal, "Step time", "     n   median     mean      p90      bias  inside") + out;
}

std::string memory_table(const Suites& suites, const Terminal& terminal) {
  std::string out;
  for (const auto& [name, score] : suites) {
    bool first = true;
    for (const auto& [kind, e] : score->memory) {
      const std::string inside = first ? share(score->coverage.memory, score->coverage.memories) : "";
      out += fmt::format("{}  {:<19} {:>5} {:>8} {:>8} {:>9} {:>7}\n", label(first ? name : ""), kind, e.n,
                         percent(e.median_ape), percent(e.p90_ape), signed_percent(e.bias), inside);
      first = false;
    }
  }
  if (out.empty()) return out;
  return heading(terminal, "Memory", "  kind                    n   median      p90      bias  inside") + out;
}

std::string fit_table(const Suites& suites, const Terminal& terminal) {
  std::string out;
  for (const auto& [name, score] : suites)
    if (score->fit.n > 0)
      out += fmt::format("{}  {:>6} {:>8} {:>9}\n", label(name), score->fit.n, score->fit.correct,
                         percent(score->fit.balanced_accuracy));
  if (out.empty()) return out;
  return heading(terminal, "Fits or not", "     n  correct  balanced") + out;
}

std::string ranking_table(const Suites& suites, const Terminal& terminal) {
  std::string out;
  for (const auto& [name, score] : suites)
    if (score->ranking.groups > 0)
      out += fmt::format("{}  {:>6} {:>14} {:>11} {:>12.2f}\n", label(name), score->ranking.groups,
                         percent(score->ranking.median_regret), percent(score->ranking.p90_regret),
                         score->ranking.kendall_tau);
  if (out.empty()) return out;
  return heading(terminal, "Choosing a layout", "groups  median regret  p90 regret  Kendall tau") + out;
}

/// Reasons with their number of rows, the most common first.
std::string reasons_table(const Validation& validation, const Terminal& terminal) {
  std::map<std::string, int> count;
  for (const ScoredRun& run : validation.runs)
    if (!run.reason.empty()) ++count[run.reason];
  if (count.empty()) return {};
  std::vector<std::pair<std::string, int>> reasons(count.begin(), count.end());
  std::stable_sort(reasons.begin(), reasons.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string out = fmt::format("\n{}\n", paint(terminal, Style::Bold, "Not scored"));
  int rest = 0;
  for (std::size_t i = 0; i < reasons.size(); ++i) {
    if (i >= kMostReasons)
      rest += reasons[i].second;
    else
      out += fmt::format("{:>6}  {}\n", reasons[i].second, wrap(reasons[i].first, terminal.width, 8));
  }
  if (rest > 0) out += fmt::format("{:>6}  for other reasons\n", rest);
  out += fmt::format("        {}\n", paint(terminal, Style::Dim, "each by name: --rows FILE or --json"));
  return out;
}

}  // namespace

std::string validation_text(const Validation& validation, const Terminal& terminal) {
  Suites suites;
  for (const auto& [name, score] : validation.suites) suites.emplace_back(name, &score);
  if (suites.size() != 1) suites.emplace_back("overall", &validation.overall);
  const std::size_t rows = validation.runs.size();
  std::string out = fmt::format("{} run{}, {} scored in {} suite{}\n", rows, rows == 1 ? "" : "s", validation.scored,
                                validation.suites.size(), validation.suites.size() == 1 ? "" : "s");
  out += time_table(suites, terminal);
  out += memory_table(suites, terminal);
  out += fit_table(suites, terminal);
  out += ranking_table(suites, terminal);
  out += reasons_table(validation, terminal);
  if (validation.scored > 0)
    out += fmt::format("\n{}\n", wrap("Errors are |predicted / measured - 1|; bias is their signed mean, inside the "
                                      "share of measurements within the printed interval. Overall weighs every suite "
                                      "the same.",
                                      std::min(terminal.width, 80), 0));
  return out;
}

}  // namespace plan
