// What `plan validate` prints for people: one line a suite, at most 80 columns. Tested by
// tests/cli/validation_test.cpp and tests/golden/validate.
#include "cli/report/runs/validation.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/terminal/format.hpp"

namespace plan {
namespace {

constexpr std::size_t kMostReasons = 12;
constexpr int kNameColumns = 18;

using Suites = std::vector<std::pair<std::string, const SuiteScore*>>;

std::string share(double ratio, int n) { return n == 0 ? "-" : fmt::format("{:.0f} %", 100 * ratio); }

std::string heading(const Terminal& terminal, std::string_view name, std::string_view columns) {
  return fmt::format("\n{}{}\n", paint(terminal, Style::Bold, fmt::format("{:<{}}", name, kNameColumns + 2)), columns);
}

/// A suite's name cut to its column; `overall` differs by its weight alone.
std::string label(const std::string& name) {
  const bool fits = name.size() <= static_cast<std::size_t>(kNameColumns);
  return fmt::format("  {:<{}}", fits ? name : name.substr(0, kNameColumns - 1) + "~", kNameColumns);
}

std::string time_table(const Suites& suites, const Terminal& terminal) {
  std::string out;
  for (const auto& [name, score] : suites) {
    const ErrorScore& e = score->step_time;
    if (e.n == 0) continue;
    out += fmt::format("{}{:>6} {:>8} {:>8} {:>8} {:>9} {:>7}\n", label(name), e.n, percent(e.median_ape),
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
      out += fmt::format("{} {:<19} {:>4} {:>8} {:>8} {:>8}", label(first ? name : ""), kind, e.n,
                         percent(e.median_ape), percent(e.p90_ape), signed_percent(e.bias));
      out += first ? fmt::format(" {:>7}\n", share(score->coverage.memory, score->coverage.memories)) : "\n";
      first = false;
    }
  }
  if (out.empty()) return out;
  return heading(terminal, "Memory", " kind                   n   median      p90     bias  inside") + out;
}

std::string fit_table(const Suites& suites, const Terminal& terminal) {
  std::string out;
  for (const auto& [name, score] : suites)
    if (score->fit.n > 0)
      out += fmt::format("{}{:>6} {:>8} {:>9}\n", label(name), score->fit.n, score->fit.correct,
                         percent(score->fit.balanced_accuracy));
  if (out.empty()) return out;
  return heading(terminal, "Fits or not", "     n  correct  balanced") + out;
}

std::string ranking_table(const Suites& suites, const Terminal& terminal) {
  std::string out;
  for (const auto& [name, score] : suites)
    if (score->ranking.groups > 0)
      out += fmt::format("{}{:>6} {:>14} {:>11} {:>12.2f}\n", label(name), score->ranking.groups,
                         percent(score->ranking.median_regret), percent(score->ranking.p90_regret),
                         score->ranking.kendall_tau);
  if (out.empty()) return out;
  return heading(terminal, "Choosing a layout", "groups  median regret  p90 regret  Kendall tau") + out;
}

/// What is between backquotes left out: rows with the same reason for different names count together.
std::string template_of(const std::string& reason) {
  std::string out;
  bool quoted = false;
  for (const char c : reason) {
    if (c == '`') quoted = !quoted;
    if (!quoted || c == '`') out += c;
  }
  return out;
}

/// Rows of which one sentence holds; `first` is the sentence of the first of them.
struct Missed {
  std::string first{};
  int rows = 0;
  bool several = false;
};

/// Sentences with their number of rows, the most common first.
std::vector<Missed> most_common(const std::vector<std::string>& sentences) {
  std::map<std::string, Missed> by_template;
  for (const std::string& sentence : sentences) {
    Missed& missed = by_template[template_of(sentence)];
    if (missed.rows++ == 0) missed.first = sentence;
    missed.several |= missed.first != sentence;
  }
  std::vector<Missed> reasons;
  for (auto& [key, missed] : by_template) reasons.push_back(std::move(missed));
  std::stable_sort(reasons.begin(), reasons.end(), [](const Missed& a, const Missed& b) { return a.rows > b.rows; });
  return reasons;
}

std::string sentences_table(const std::vector<std::string>& sentences, std::string_view title,
                            const Terminal& terminal) {
  const std::vector<Missed> reasons = most_common(sentences);
  if (reasons.empty()) return {};
  std::string out = fmt::format("\n{}\n", paint(terminal, Style::Bold, title));
  int rest = 0;
  for (std::size_t i = 0; i < reasons.size(); ++i) {
    const std::string text = reasons[i].several ? reasons[i].first + ", or the like" : reasons[i].first;
    if (i >= kMostReasons)
      rest += reasons[i].rows;
    else
      out += fmt::format("{:>6}  {}\n", reasons[i].rows, wrap(text, terminal.width, 8));
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
  std::vector<std::string> remarks, reasons;
  for (const ScoredRun& run : validation.runs) {
    remarks.insert(remarks.end(), run.remarks.begin(), run.remarks.end());
    if (!run.reason.empty()) reasons.push_back(run.reason);
  }
  out += sentences_table(remarks, "Scored, but", terminal);
  out += sentences_table(reasons, "Not scored", terminal);
  if (validation.scored > 0)
    out += fmt::format("\n{}\n", wrap("Errors are |predicted / measured - 1|; bias is their signed mean, inside the "
                                      "share of measurements within the printed interval. Overall weighs every suite "
                                      "the same.",
                                      std::min(terminal.width, 80), 0));
  return out;
}

}  // namespace plan
