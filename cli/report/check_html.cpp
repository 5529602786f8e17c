// The verdict of `plan check` as one page, for a design review: the numbers of the screen, limits as bars against the
// budget. Tested by tests/cli/check_formats_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "cli/report/check.hpp"
#include "cli/report/check_text.hpp"
#include "cli/report/page.hpp"
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
  const bool baseline = !job.baseline.empty() || job.measured;
  HtmlTable table{.head = {"limit", "now", "budget"}, .rows = {}, .text_columns = 1};
  if (baseline) table.head.emplace_back("change");
  table.head.insert(table.head.end(), {"margin", "verdict"});
  for (const Finding& f : job.findings) {
    std::vector<std::string> row = {escape_html(f.rule), escape_html(f.now), escape_html(f.limit)};
    if (baseline) row.push_back(escape_html(f.change));
    row.push_back(escape_html(f.margin));
    row.push_back(state_cell(f.state));
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
      "<p>{} GiB of {} GiB, {} a step</p>\n{}\n", gib(e.peak), gib(e.capacity), seconds_text(e.step_time),
      svg_bar({{colour, used, "predicted peak"}, {kRoomLeft, std::max(limit - used, 0.0), "free"}}, limit));
}

std::string broken(const Finding& f) {
  std::string out = fmt::format("<p><b>{}</b>: {}", escape_html(f.rule), escape_html(f.message));
  if (f.place.line > 0) out += fmt::format(" (<code>{}:{}</code>)", escape_html(f.place.file), f.place.line);
  out += "</p>\n<ul>\n";
  for (const std::string& fact : f.facts) out += fmt::format("<li>{}</li>\n", escape_html(fact));
  for (const Cause& cause : f.causes) out += fmt::format("<li>cause: {}</li>\n", escape_html(cause_text(f, cause)));
  for (const std::string& help : f.help) out += fmt::format("<li>{}</li>\n", escape_html(help));
  return out + "</ul>\n";
}

std::string suggestions(const CheckedJob& job) {
  HtmlTable table{.head = {"smallest changes that pass every limit, one at a time", "memory", "step"}, .rows = {}};
  for (const Suggestion& s : job.suggestions)
    table.rows.push_back({escape_html(steps_text(s, true)) + (s.restores ? ", restores the baseline" : ""),
                          fmt::format("{} GiB", gib(s.peak)), seconds_text(s.step_time)});
  return html_table(table);
}

std::string job_section(const CheckedJob& job, std::size_t number) {
  const std::string title = job.name.empty() ? job.title : fmt::format("{}: {}", job.name, job.title);
  std::string body;
  for (const Note& note : job.notes) body += fmt::format("<p class=\"dim\">{}</p>\n", escape_html(note.text));
  if (!job.baseline.empty()) body += fmt::format("<p>compared with {}</p>\n", escape_html(job.baseline));
  body += memory_bar(job) + limits(job);
  for (const Finding& f : job.findings)
    if (f.state != State::Pass) body += broken(f);
  return html_section(fmt::format("job{}", number), title, body + suggestions(job));
}

}  // namespace

std::string check_html(const CheckReport& report) {
  std::string body = fmt::format("<h1>plan check: {}</h1>\n", escape_html(summary_text(report)));
  for (std::size_t i = 0; i < report.jobs.size(); ++i) body += job_section(report.jobs[i], i + 1);
  return html_page("plan check", kStyle, body);
}

}  // namespace plan
