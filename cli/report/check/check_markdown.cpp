// GitHub's Markdown, for a step summary or a comment. Tested by tests/cli/check_formats_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "cli/report/check/check.hpp"
#include "cli/report/check/check_text.hpp"
#include "cli/terminal/format.hpp"

namespace plan {
namespace {

/// Text that Markdown and HTML take as it is.
std::string plain(std::string_view text) {
  std::string out;
  for (const char c : clean_text(text)) {
    if (c == '\n' || c == '\t') {
      out += ' ';
    } else if (c == '<' || c == '>' || c == '&') {
      out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : "&amp;";
    } else {
      if (std::string_view("\\`*_[]|#@").find(c) != std::string_view::npos) out += '\\';
      out += c;
    }
  }
  return out;
}

std::string row(const CheckRow& limit, bool changes) {
  const std::string_view bold = limit.state == State::Fail ? "**" : "", word = state_word(limit.state);
  std::string out = fmt::format("| {}{}{} | {}{}{} | {} |", bold, plain(limit.rule), bold, bold, plain(limit.now), bold,
                                plain(limit.budget));
  if (changes) out += fmt::format(" {} |", plain(limit.change));
  return out + fmt::format(" {}{}{}{}{} |\n", bold, word, bold, limit.margin.empty() ? "" : ", ", plain(limit.margin));
}

std::string broken_text(const Finding& f) {
  std::string out = fmt::format("- **{}**: {}", plain(f.rule), plain(f.message));
  if (f.place.line > 0) out += fmt::format(" (`{}:{}`)", f.place.file, f.place.line);
  out += "\n";
  for (const std::string& reason : reasons_of(f)) out += fmt::format("  - {}\n", plain(reason));
  return out;
}

std::string help_text(const CheckedJob& job) {
  const CheckHelp help = help_for(job);
  if (help.what.empty()) return "";
  std::string out = fmt::format("\n**help**: {}\n", help.what);
  if (!job.suggestions.empty()) out += "\n| change | memory | step |\n|---|--:|--:|\n";
  for (const Suggestion& s : job.suggestions)
    out += fmt::format("| {}{} | {} | {} |\n", plain(steps_text(s, true)), s.restores ? ", restores the baseline" : "",
                       memory_text(s.peak), seconds_text(s.step_time));
  if (!help.larger.empty()) out += fmt::format("\n{}:\n\n", help.larger);
  for (const std::string& limit : help.allowed) out += fmt::format("- {}\n", plain(limit));
  return out;
}

std::string job_text(const CheckedJob& job) {
  std::string out = fmt::format("#### {}\n\n", plain(title_of(job)));
  for (const std::string& line : basis_of(job)) out += plain(line) + "  \n";
  out += "\n";
  for (const Note& note : job.notes) out += fmt::format("> {}\n>\n", plain(note.text));
  if (!job.notes.empty()) out += "\n";
  const CheckTable table = check_table(job);
  const bool changes = !table.change.empty();
  out += fmt::format("| limit | {} | budget |{} |\n|---|--:|--:|{}---|\n", table.now,
                     changes ? fmt::format(" {} |", table.change) : "", changes ? "--:|" : "");
  for (const CheckRow& limit : table.rows) out += row(limit, changes);
  std::string broken;
  for (const Finding& f : job.findings)
    if (f.state != State::Pass) broken += broken_text(f);
  if (!broken.empty()) out += "\n" + broken;
  return out + help_text(job) + "\n";
}

bool quiet(const CheckedJob& job) {
  return std::all_of(job.findings.begin(), job.findings.end(), [](const Finding& f) { return f.state == State::Pass; });
}

}  // namespace

std::string check_markdown(const CheckReport& report) {
  std::string out = fmt::format("### plan check: {}\n\n", summary_text(report)), passed;
  for (const CheckedJob& job : report.jobs) (quiet(job) && report.jobs.size() > 1 ? passed : out) += job_text(job);
  if (!passed.empty()) out += "<details><summary>jobs that pass</summary>\n\n" + passed + "</details>\n";
  return out;
}

}  // namespace plan
