// The verdict of `plan check` as one page, for a design review: the numbers of the screen, limits as bars against the
// budget. Tested by tests/cli/check_formats_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "cli/report/check/check.hpp"
#include "cli/report/check/check_text.hpp"
#include "cli/report/page/page.hpp"
#include "cli/terminal/format.hpp"

namespace plan {
namespace {

constexpr std::string_view kStyle =
    ".fail{color:var(--bad);font-weight:600}.warn{font-weight:600}.pass{color:var(--good)}\n";
constexpr int kWithin = 5, kDoubtful = 3, kBeyond = 6, kRoomLeft = 9;  ///< colours of the page's palette

std::string state_cell(State state) {
  const char* tone = state == State::Fail ? "fail" : state == State::Warn ? "warn" : "pass";
  return fmt::format("<span class=\"{}\">{}</span>", tone, state_word(state));
}

std::string limits(const CheckedJob& job) {
  const CheckTable limits = check_table(job);
  HtmlTable table{.head = {"limit", limits.now, "budget"}, .rows = {}, .text_columns = 1};
  if (!limits.change.empty()) table.head.push_back(limits.change);
  table.head.insert(table.head.end(), {"margin", "verdict"});
  for (const CheckRow& limit : limits.rows) {
    std::vector<std::string> row = {escape_html(limit.rule), escape_html(limit.now), escape_html(limit.budget)};
    if (!limits.change.empty()) row.push_back(escape_html(limit.change));
    row.push_back(escape_html(limit.margin));
    row.push_back(state_cell(limit.state));
    table.rows.push_back(std::move(row));
  }
  return html_table(table);
}

/// The peak against the GPU's memory, as the memory bars of a plan.
std::string memory_bar(const CheckedJob& job) {
  if (!job.plan) return "";
  const Estimate& e = job.plan->best;
  const double widest = static_cast<double>(std::max(e.capacity, e.peak).value);
  if (!(widest > 0)) return "";
  const double used = static_cast<double>(e.peak.value) / widest,
               limit = static_cast<double>(e.capacity.value) / widest;
  const int colour = e.fits == Fits::Yes ? kWithin : e.fits == Fits::AtRisk ? kDoubtful : kBeyond;
  return fmt::format(
      "<p>{} of {}</p>\n{}\n", memory_text(e.peak), memory_text(e.capacity),
      svg_bar({{colour, used, "predicted peak"}, {kRoomLeft, std::max(limit - used, 0.0), "free"}}, limit));
}

std::string broken(const Finding& f) {
  std::string out = fmt::format("<p><b>{}</b>: {}", escape_html(f.rule), escape_html(f.message));
  if (f.place.line > 0) out += fmt::format(" (<code>{}:{}</code>)", escape_html(f.place.file), f.place.line);
  out += "</p>\n<ul>\n";
  for (const std::string& reason : reasons_of(f)) out += fmt::format("<li>{}</li>\n", escape_html(reason));
  return out + "</ul>\n";
}

std::string help_section(const CheckedJob& job) {
  const CheckHelp help = help_for(job);
  if (help.what.empty()) return "";
  HtmlTable table{.head = {help.what, "memory", "step"}, .rows = {}};
  for (const Suggestion& s : job.suggestions)
    table.rows.push_back({escape_html(steps_text(s, true)) + (s.restores ? ", restores the baseline" : ""),
                          memory_text(s.peak), seconds_text(s.step_time)});
  std::string out = table.rows.empty() ? fmt::format("<p>{}</p>\n", help.what) : html_table(table);
  if (!help.larger.empty()) out += fmt::format("<p>{}</p>\n", help.larger);
  return out + html_lines(help.allowed, "");
}

std::string job_section(const CheckedJob& job, std::size_t number) {
  std::string body = html_lines(basis_of(job), "");
  for (const Note& note : job.notes) body += fmt::format("<p class=\"dim\">{}</p>\n", escape_html(note.text));
  body += memory_bar(job) + limits(job);
  for (const Finding& f : job.findings)
    if (f.state != State::Pass) body += broken(f);
  return html_section(fmt::format("job{}", number), title_of(job), body + help_section(job));
}

}  // namespace

std::string check_html(const CheckReport& report) {
  std::string body = fmt::format("<h1>plan check: {}</h1>\n", escape_html(summary_text(report)));
  for (std::size_t i = 0; i < report.jobs.size(); ++i) body += job_section(report.jobs[i], i + 1);
  return html_page("plan check", kStyle, body);
}

}  // namespace plan
