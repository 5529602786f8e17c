// `plan check` on a terminal (style after rustc's diagnostics). Tested by tests/golden/check*.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <set>

#include "cli/report/check/check.hpp"
#include "cli/report/check/check_text.hpp"
#include "cli/terminal/diagnostic.hpp"
#include "cli/terminal/format.hpp"

namespace plan {
namespace {

Style style_of(State state) {
  return state == State::Fail ? Style::Bad : state == State::Warn ? Style::Warn : Style::Good;
}

using Row = std::array<std::string, 5>;

std::string padded(const std::string& text, int width, bool right) {
  const std::string space(static_cast<std::size_t>(std::max(0, width - display_width(text))), ' ');
  return right ? space + text : text + space;
}

/// Name, figure, limit, room and change of each limit; the change only if there is a baseline and room for it.
std::string table(const CheckedJob& job, const Terminal& terminal) {
  std::vector<Row> rows;
  for (const Finding& f : job.findings) {
    const bool since = f.verdict && f.verdict->limit.since_baseline;
    const std::string rule = since ? f.rule.substr(0, f.rule.find(".since_")) : f.rule;
    rows.push_back({rule, f.now, (since ? "since baseline " : "") + f.limit, f.margin, since ? "" : f.change});
  }
  std::array<int, 5> widths{};
  for (const Row& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i]));
  const int fixed = 8 + widths[0] + 2 + widths[1] + 2 + widths[2] + 2 + widths[3];
  const bool change = widths[4] > 0 && fixed + 2 + widths[4] <= terminal.width;
  std::string out;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    const State state = job.findings[i].state;
    std::string line = fmt::format("  {}  {}  {}  {}  {}", paint(terminal, style_of(state), state_word(state)),
                                   padded(row[0], widths[0], false), padded(row[1], widths[1], true),
                                   padded(row[2], widths[2], false), padded(row[3], change ? widths[3] : 0, false));
    if (change) line += "  " + padded(row[4], widths[4], true);
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string labelled(const char* label, const std::string& text, const Terminal& terminal) {
  const int indent = 5 + static_cast<int>(std::string_view(label).size());
  return fmt::format("   = {}{}\n", label, wrap(text, terminal.width, indent));
}

std::string suggestions(const CheckedJob& job, const Terminal& terminal) {
  const std::string label = paint(terminal, Style::Good, "help:");
  const CheckHelp help = help_for(job);
  std::string allowed;
  for (const std::string& limit : help.allowed) allowed += fmt::format("        {}\n", limit);
  if (help.what.empty()) return "";
  if (job.suggestions.empty())
    return fmt::format("{} {}{}{}\n{}", label, help.what, help.larger.empty() ? "" : "; ", help.larger, allowed);
  std::size_t widest = 0;
  for (const Suggestion& s : job.suggestions) widest = std::max(widest, steps_text(s, true).size());
  std::string out = fmt::format("{} {}\n", label, help.what);
  for (const Suggestion& s : job.suggestions) {
    const std::string steps = steps_text(s, true), price = price_text(s);
    const bool beside = 8 + static_cast<int>(widest + 2 + price.size()) <= terminal.width;
    out += beside ? fmt::format("        {:<{}}  {}\n", steps, widest, price)
                  : fmt::format("        {}\n          {}\n", wrap(steps, terminal.width, 10), price);
  }
  if (!allowed.empty()) out += fmt::format("      {}\n{}", help.larger, allowed);
  return out;
}

/// `said`: facts and causes that are printed above already, which are not said again.
std::string explained(const Finding& finding, std::set<std::string>& said, const Terminal& terminal) {
  const bool warning = finding.state == State::Warn;
  const std::string label = fmt::format("{}[{}]:", warning ? "warning" : "error", finding.rule);
  std::string out = fmt::format("{} {}\n", paint(terminal, warning ? Style::Warn : Style::Bad, label),
                                wrap(finding.message, terminal.width, 7, display_width(label) + 1));
  out += source_frame(finding.place, terminal);
  for (const std::string& fact : finding.facts)
    if (said.insert(fact).second) out += labelled("", fact, terminal);
  for (const Cause& cause : finding.causes)
    if (const std::string text = cause_text(finding, cause); said.insert(text).second)
      out += labelled("cause: ", text, terminal);
  for (const std::string& help : finding.help)
    out += fmt::format("{} {}\n", paint(terminal, Style::Good, "help:"), wrap(help, terminal.width, 6));
  return out;
}

bool all_pass(const CheckedJob& job) {
  return std::all_of(job.findings.begin(), job.findings.end(), [](const Finding& f) { return f.state == State::Pass; });
}

/// What a verdict rests on, below a job that is said in one line.
std::string basis(const CheckedJob& job, const Terminal& terminal) {
  std::string out;
  for (const Note& note : job.notes)
    if (note.code == "not_stated" || note.code == "not_used")
      out += paint(terminal, Style::Dim, "      " + wrap(note.text, terminal.width, 8, 6)) + "\n";
  return out;
}

std::string job_text(const CheckedJob& job, bool alone, const Terminal& terminal) {
  const std::string where = job.name.empty() ? job.budget : fmt::format("{}: {}", job.budget, job.name);
  const std::string title = fmt::format("{}: {}", where, job.title);
  if (!alone && all_pass(job))
    return fmt::format("{}  {}: {} limits hold\n", paint(terminal, Style::Good, "pass"), title, job.findings.size()) +
           basis(job, terminal);
  std::string out = paint(terminal, Style::Bold, title) + "\n";
  for (const std::string& line : basis_of(job)) out += line + "\n";
  out += "\n" + table(job, terminal) + "\n";
  std::set<std::string> said;
  for (const Finding& finding : job.findings)
    if (finding.state != State::Pass) out += explained(finding, said, terminal) + "\n";
  const std::string help = suggestions(job, terminal);
  if (!help.empty()) out += help + "\n";
  std::string notes;
  for (const Note& note : job.notes)
    notes += paint(terminal, Style::Dim, fmt::format("note: {}", wrap(note.text, terminal.width, 6))) + "\n";
  return out + notes + (notes.empty() ? "" : "\n");
}

}  // namespace

std::string check_human(const CheckReport& report, const Terminal& terminal) {
  std::string out;
  for (const CheckedJob& job : report.jobs) out += job_text(job, report.jobs.size() == 1, terminal);
  const bool failed = report.count(State::Fail) > 0;
  return out + paint(terminal, failed ? Style::Bad : Style::Good, summary_text(report)) + "\n";
}

}  // namespace plan
