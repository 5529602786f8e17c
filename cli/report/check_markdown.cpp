// GitHub's Markdown, for a step summary or a comment. Tested by tests/cli/check_formats_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "cli/check/limit_text.hpp"
#include "cli/report/check.hpp"
#include "cli/report/check_text.hpp"
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

std::string before_after(const Finding& f) {
  if (!f.verdict || !f.verdict->before || f.verdict->limit.since_baseline) return plain(f.now);
  const Texts texts = distinct_texts(f.unit, *f.verdict->before, f.verdict->now.value);
  return texts.a == texts.b ? plain(f.now) : fmt::format("{} → {}", plain(texts.a), plain(f.now));
}

std::string row(const Finding& f, bool baseline) {
  const std::string_view bold = f.state == State::Fail ? "**" : "";
  const bool since = f.verdict && f.verdict->limit.since_baseline;
  std::string out = fmt::format("| {}{}{} | {}{}{} | {} |", bold, plain(f.rule), bold, bold, before_after(f), bold,
                                plain(since ? f.limit + " since baseline" : f.limit));
  if (baseline)
    out += fmt::format(" {} |", since ? "" : plain(f.predicted ? figure_text(f.unit, *f.predicted) : f.change));
  const std::string_view word = state_word(f.state);
  return out + fmt::format(" {}{}{}{}{} |\n", bold, word, bold, f.margin.empty() ? "" : ", ", plain(f.margin));
}

std::string broken_text(const CheckedJob& job, const Finding& f) {
  std::string out = fmt::format("- **{}**: {}", plain(f.rule), plain(f.message));
  if (f.place.line > 0) out += fmt::format(" (`{}:{}`)", f.place.file, f.place.line);
  out += "\n";
  for (const std::string& fact : f.facts) out += fmt::format("  - {}\n", plain(fact));
  for (const Cause& cause : f.causes) out += fmt::format("  - cause: {}\n", plain(cause_text(f, cause)));
  for (const std::string& help : f.help) out += fmt::format("  - {}\n", plain(help));
  static_cast<void>(job);
  return out;
}

std::string job_text(const CheckedJob& job) {
  const bool baseline = !job.baseline.empty() || job.measured;
  const char* now = job.measured ? "now" : "before → now";
  const std::string title = job.name.empty() ? job.title : fmt::format("{}: {}", job.name, job.title);
  std::string out = fmt::format("#### {}\n\n", plain(title));
  for (const Note& note : job.notes) out += fmt::format("> {}\n>\n", plain(note.text));
  if (!job.notes.empty()) out += "\n";
  out += fmt::format("| limit | {} | budget |{} |\n|---|--:|--:|{}---|\n", baseline ? now : "now",
                     job.measured ? " predicted |"
                     : baseline   ? " change |"
                                  : "",
                     baseline ? "--:|" : "");
  for (const Finding& f : job.findings) out += row(f, baseline);
  std::string broken;
  for (const Finding& f : job.findings)
    if (f.state != State::Pass) broken += broken_text(job, f);
  if (!broken.empty()) out += "\n" + broken;
  if (!job.suggestions.empty()) {
    out += "\nSmallest changes that pass every limit, one at a time:\n\n| change | memory | step |\n|---|--:|--:|\n";
    for (const Suggestion& s : job.suggestions)
      out += fmt::format("| {}{} | {} | {} |\n", plain(steps_text(s, true)),
                         s.restores ? ", restores the baseline" : "", memory_text(s.peak), seconds_text(s.step_time));
  }
  return out + "\n";
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
