// A plan as one page, for a design review: the same numbers as the screen, each with its formula a click away.
// Tested by tests/cli/html_test.cpp and tests/cli/walk_test.cpp.
#include <fmt/format.h>

#include <algorithm>

#include "cli/explain/explain.hpp"
#include "cli/report/page/page.hpp"
#include "cli/report/page/timeline.hpp"
#include "cli/report/parts/choice_text.hpp"
#include "cli/report/parts/tables.hpp"
#include "cli/report/plan/html_parts.hpp"
#include "cli/report/plan/report.hpp"
#include "cli/request/unstated.hpp"
#include "cli/terminal/format.hpp"
#include "cli/terminal/words.hpp"
#include "planner/answer/layout_text.hpp"
#include "planner/estimate/replay.hpp"

namespace plan {
namespace {

constexpr std::string_view kStyle = R"(
.timeline{display:grid;grid-template-columns:max-content 1fr;gap:2px .6rem;align-items:center;font-variant-numeric:tabular-nums}
.timeline svg{stroke-width:10}
.timeline>:nth-child(odd){text-align:right;color:var(--dim)}
.answer{font-size:1.1rem;font-weight:600;word-spacing:.1rem}
)";

std::string title_of(const Problem& problem) {
  return fmt::format("{} on {} x {}", problem.model.name, problem.gpus, problem.cluster.gpu.name);
}

std::string head(const Plan& plan) {
  const Problem& problem = plan.problem;
  std::string out;
  out += html_lines(warning_lines(plan), "bad");
  out += fmt::format("<h1>{}</h1>\n<p>{}; {}</p>\n", escape_html(title_of(problem)), parameters_text(problem.model),
                     batch_text(problem.training));
  out += html_lines(unstated_lines(problem), "dim");
  return out + fmt::format("<p class=\"answer\">{}</p>\n<p>{}</p>\n",
                           escape_html(axes_text(plan.best, problem.model.moe())),
                           escape_html(fmt::format("{}", fmt::join(choices(problem, plan.best), ", "))));
}

std::string tiles(const Plan& plan, const RunOptions& options) {
  std::string out = "<div class=\"tiles\">\n";
  for (const Headline& one : headlines(plan, options)) {
    const char* tone = one.fits == Fits::Yes ? " class=\"good\"" : one.fits == Fits::No ? " class=\"bad\"" : "";
    out +=
        fmt::format("<div class=\"tile\">{}<b>{}</b><small{}>{}</small></div>\n", one.name, one.value, tone, one.more);
  }
  return out + "</div>\n";
}

std::string headline_formulas(const Plan& plan) {
  std::string out;
  for (const char* word : {"step_time", "throughput", "mfu"}) out += formula_details(plan, word, plan.best.peak_stage);
  return out;
}

std::string pipeline(const Plan& plan) {
  const Result<StepReplay> step = replay(plan);
  if (!step) return fmt::format("<p>{}</p>\n", escape_html(step.error()[0].message));
  return fmt::format("<p class=\"dim\">{}, {} micro-batches of {}</p>\n", name(step->pipeline.schedule),
                     step->pipeline.micro_batches, plan.best.layout.micro_batch) +
         timeline_html(*step);
}

std::string facts(const Plan& plan, const RunOptions& options) {
  HtmlTable table{.head = {"", ""}, .rows = {}, .text_columns = 9};
  for (const auto& list : {choice_facts(plan), failure_facts(plan, options), subject_facts(plan, options)})
    for (const Fact& fact : list) table.rows.push_back({fact.name, escape_html(fact.text)});
  if (options.spares > 0) table.rows.push_back({"spare GPUs", fmt::format("{}", options.spares)});
  return html_table(table);
}

std::string advised(const Plan& plan) {
  HtmlTable table{.head = {"change", "tokens/s", "USD a token", "layout"}, .rows = {}, .text_columns = 1};
  for (const ShownAdvice& row : shown_advice(plan))
    table.rows.push_back({escape_html(row.change), row.faster, row.cheaper, escape_html(row.layout)});
  return table.rows.empty() ? "" : html_table(table);
}

std::string why(const Plan& plan) {
  std::string out;
  for (const std::string& sentence : plan.why) out += fmt::format("<li>{}</li>\n", escape_html(sentence));
  return out.empty() ? "" : "<h2>Why</h2>\n<ul>\n" + out + "</ul>\n";
}

}  // namespace

std::string html_report(const Plan& plan, const RunOptions& options) {
  std::string body = head(plan) + tiles(plan, options) + facts(plan, options) + why(plan) + headline_formulas(plan);
  body += html_section("front", "Step time against memory", front_html(plan));
  body += html_section("memory", "Memory per GPU", memory_html(plan));
  body += html_section("time", "Step time", time_html(plan));
  body += html_section("communication", "Communication", communication_html(plan));
  body += html_section("pipeline", "Pipeline", pipeline(plan));
  body += html_section("next", "Other ideas", runners_up_html(plan));
  body += html_section("advice", "One change at a time", advised(plan));
  body += html_section("search", "Search", search_html(plan));
  body += html_section("inputs", "Inputs", inputs_html(plan));
  std::string notes;
  for (const Note& note : plan.notes)
    if (!is_shown_above(note)) notes += fmt::format("<p>note: {}</p>\n", escape_html(note.text));
  for (const BrokenThumb& broken : plan.thumbs)
    notes += fmt::format("<p>rule: {}; {}</p>\n", escape_html(broken.text), escape_html(broken.why));
  return html_page("plan: " + title_of(plan.problem), kStyle, body + notes);
}

}  // namespace plan
