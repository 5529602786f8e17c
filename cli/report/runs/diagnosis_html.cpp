// `plan diagnose --format html`: the measured step over the predicted one as two bars of the same scale, the figures,
// and what it could be. One page, no script. Tested by tests/cli/diagnose_test.cpp.
#include <fmt/format.h>

#include <algorithm>

#include "cli/report/page/page.hpp"
#include "cli/report/runs/diagnosis.hpp"
#include "cli/report/runs/diagnosis_rows.hpp"
#include "cli/report/runs/predicted_course.hpp"
#include "cli/request/unstated.hpp"
#include "cli/terminal/format.hpp"
#include "planner/answer/layout_text.hpp"

namespace plan {
namespace {

/// Parts of a step one after another; `of` picks the measured or the predicted seconds.
std::string step_bar(const Diagnosis& diagnosis, double ComparedPart::*of, double whole) {
  std::vector<BarPart> parts;
  for (const ComparedPart& part : diagnosis.parts)
    if (part.part != Observable::Step && whole > 0)
      parts.push_back({static_cast<int>(part.part), part.*of / whole,
                       fmt::format("{} {}", part_name(part.part), seconds_text(Seconds(part.*of)))});
  if (parts.empty())  // the log alone: the step as it is
    for (const ComparedPart& part : diagnosis.parts)
      if (whole > 0) parts.push_back({0, part.*of / whole, fmt::format("step {}", seconds_text(Seconds(part.*of)))});
  return svg_bar(parts);
}

/// The course of one step, which takes `share` of the picture's width; equal pieces become one.
std::string course_bar(const std::vector<Observable>& course, double share) {
  std::vector<BarPart> parts;
  const double piece = share / static_cast<double>(course.size());
  for (const Observable part : course) {
    const auto colour = static_cast<int>(part);
    if (parts.empty() || parts.back().colour != colour) parts.push_back({colour, 0, std::string(part_name(part))});
    parts.back().share += piece;
  }
  return svg_bar(parts);
}

/// The timeline of a measured step over the predicted one, on one scale.
std::string courses(const DiagnosisReport& report, double measured, double predicted) {
  const double whole = std::max(measured, predicted);
  if (report.traces.empty() || report.traces.front().course.empty() || !(measured > 0)) return {};
  std::string out =
      fmt::format("<p>measured, as it went</p>\n{}\n", course_bar(report.traces.front().course, measured / whole));
  if (const std::vector<Observable> course = predicted_course(report.plan); !course.empty())
    out +=
        fmt::format("<p>predicted, as a rank of the first stage goes</p>\n{}\n", course_bar(course, predicted / whole));
  return out;
}

std::string bars(const DiagnosisReport& report) {
  const Diagnosis& found = report.diagnosis;
  double measured = 0, predicted = 0;
  std::vector<std::pair<int, std::string>> legend;
  for (const ComparedPart& part : found.parts) {
    if (part.part == Observable::Step) measured = part.measured, predicted = part.predicted;
    if (part.part != Observable::Step)
      legend.emplace_back(static_cast<int>(part.part), std::string(part_name(part.part)));
  }
  const double whole = std::max(measured, predicted);
  if (whole <= 0) return {};
  return courses(report, measured, predicted) +
         fmt::format("<p>measured, {}</p>\n{}\n<p>predicted, {}</p>\n{}\n{}", seconds_text(Seconds(measured)),
                     step_bar(found, &ComparedPart::measured, whole), seconds_text(Seconds(predicted)),
                     step_bar(found, &ComparedPart::predicted, whole), html_legend(legend));
}

std::string figures(const DiagnosisReport& report) {
  HtmlTable table{{"part", "measured", "predicted", "off", "interval of the model", "beyond it"}, {}};
  for (const ComparedRow& row : compared_rows(report))
    table.rows.push_back({escape_html(row.part), row.measured, row.predicted, row.off, row.interval,
                          row.stands_out ? "<b>stands out</b>" : ""});
  return html_table(table);
}

std::string trace_tables(const DiagnosisReport& report) {
  if (report.traces.empty()) return {};
  HtmlTable kernels{{fmt::format("kernels of the trace ({} steps)", report.traces.front().steps), "a step"}, {}};
  for (const TraceRow& row : kernel_rows(report)) kernels.rows.push_back({escape_html(row.what), row.time});
  HtmlTable ranks{{"rank", "compute", "communication", "idle"}, {}};
  for (const RankRow& rank : rank_rows(report))
    ranks.rows.push_back({escape_html(rank.file), rank.compute, rank.communication, rank.idle});
  return html_table(kernels) + html_table(ranks);
}

std::string suspects(const DiagnosisReport& report) {
  if (const std::string none = unsuspected_text(report.diagnosis); !none.empty())
    return fmt::format("<p>{}</p>\n", escape_html(none));
  if (report.diagnosis.parts.empty()) return {};
  std::string out = "<ol>\n";
  for (const SuspectRow& row : suspect_rows(report)) {
    out += fmt::format("<li>{}: {}<br>look at {}<br>settle by {}", row.share, escape_html(row.fault),
                       escape_html(row.look), escape_html(row.settle));
    for (const std::string& seen : row.evidence) out += fmt::format("<br>{}", escape_html(seen));
    out += "</li>\n";
  }
  return out + "</ol>\n";
}

}  // namespace

std::string diagnosis_html(const DiagnosisReport& report) {
  const Problem& problem = report.plan.problem;
  const std::string title = fmt::format("{} on {} x {}: measured beside predicted", problem.model.name, problem.gpus,
                                        problem.cluster.gpu.name);
  std::string body = fmt::format("<h1>{}</h1>\n", escape_html(title));
  body += html_lines(unstated_lines(problem), "dim");
  body += fmt::format("<p><b>{}</b></p>\n", escape_html(axes_text(report.plan.best, problem.model.moe())));
  body += html_lines(measured_lines(report), "dim");
  body += html_section("step", "The step", bars(report));
  body += html_section("figures", "Figures", figures(report));
  body += html_section("trace", "The trace", trace_tables(report));
  std::string memory;
  for (const std::string& line : memory_lines(report)) memory += fmt::format("<p>{}</p>\n", escape_html(line));
  body += html_section("memory", "Memory", memory);
  body += html_section("causes", "What it could be, likeliest first", suspects(report));
  std::string notes;
  for (const Note& note : report.notes) notes += fmt::format("<p>{}</p>\n", escape_html(note.text));
  body += html_section("notes", "Notes", notes);
  return html_page(title, "", body);
}

}  // namespace plan
