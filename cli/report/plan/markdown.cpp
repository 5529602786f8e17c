// A plan as Markdown, for pull requests and notes: the screen's tables with the screen's numbers.
// Tested by tests/cli/walk_test.cpp.
#include <fmt/format.h>

#include <cmath>

#include "cli/report/parts/choice_text.hpp"
#include "cli/report/parts/tables.hpp"
#include "cli/report/plan/report.hpp"
#include "cli/request/unstated.hpp"
#include "cli/terminal/format.hpp"
#include "cli/terminal/words.hpp"
#include "planner/answer/layout_text.hpp"

namespace plan {
namespace {

constexpr int kMostStageRows = 16, kWholeText = 1000;

std::string heading(const Plan& plan) {
  const Problem& p = plan.problem;
  return fmt::format("## {} on {} x {}\n\n{}; {}\n\n**{}**  \n{}\n\n", p.model.name, p.gpus, p.cluster.gpu.name,
                     parameters_text(p.model), batch_text(p.training), axes_text(plan.best, p.model.moe()),
                     fmt::join(choices(p, plan.best), ", "));
}

std::string answer(const Plan& plan, const RunOptions& options) {
  std::string out = "| | | interval |\n|---|--:|---|\n";
  for (const Headline& one : headlines(plan, options))
    out += fmt::format("| {} | {} | {} |\n", one.name, one.value, one.more);
  for (const auto& facts : {subject_facts(plan, options), failure_facts(plan, options), choice_facts(plan)})
    for (const Fact& fact : facts) out += fmt::format("| {} | {} | |\n", fact.name, fact.text);
  if (options.spares > 0) out += fmt::format("| spare GPUs | {} | |\n", options.spares);
  return out + "\n";
}

std::string memory(const Estimate& e) {
  std::string out = fmt::format(
      "### Memory per GPU, GiB\n\nHighest in stage {}{}{}.\n\n| stage | weights | grads | optim | acts | other | total "
      "|\n|---|--:|--:|--:|--:|--:|--:|\n",
      e.peak_stage, e.peak_instant.empty() ? "" : ": ", e.peak_instant);
  for (const StageRow& row : stage_rows(e.stages, kMostStageRows)) {
    out += fmt::format("| {} |", stage_name(row));
    double total = 0;
    for (const double part : shown_categories(row.memory)) out += fmt::format(" {:.1f} |", part), total += part;
    out += fmt::format(" {:.1f} |\n", total);
  }
  return out + "\n";
}

std::string step_time(const Estimate& e) {
  const TimeScale scale = time_scale(e.step_time);
  std::string out = fmt::format("### Step time\n\n| term | {} | share |\n|---|--:|--:|\n", scale.unit);
  for (const ShownTerm& term : shown_terms(e))
    out += fmt::format("| {} | {:.{}f} | {:.0f} % |\n", term.name, term.shown, scale.decimals, term.percent);
  return out + "\n";
}

std::string communication(const Estimate& e) {
  if (e.communication.empty()) return "";
  std::string out =
      "### Communication of a rank in a step\n\n| message | over | times | sent | time | exposed |\n"
      "|---|---|--:|--:|--:|--:|\n";
  for (const Communication& c : e.communication)
    out += fmt::format("| {} {} | {} on {} | {} | {} | {} | {} |\n", name(c.axis), name(c.op), c.group.size, c.tier,
                       count_text(std::round(c.count)), traffic_text(c.per_step), seconds_text(c.time),
                       seconds_text(c.exposed));
  return out + "\n";
}

std::string others(const Plan& plan) {
  std::string out;
  const bool moe = plan.problem.model.moe();
  if (!plan.runners_up.empty()) {
    out +=
        "### Other ideas\n\n| | layout | step | | 90 % of draws | GiB | against the best "
        "|\n|--:|---|--:|--:|--:|--:|---|\n";
    for (std::size_t i = 0; i < plan.runners_up.size(); ++i) {
      const RunnerUp& r = plan.runners_up[i];
      out += fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", i + 2, axis_columns({&r.estimate.layout}, moe)[0],
                         step_text(plan, r.estimate.step_time),
                         signed_percent(r.estimate.step_time / plan.best.step_time - 1), difference_text(r.difference),
                         gib(r.estimate.peak), against_text(plan, r, kWholeText));
    }
    out += "\n";
  }
  if (plan.front.empty()) return out;
  out += "### Step time against memory\n\n| step | GiB | layout |\n|--:|--:|---|\n";
  for (const Estimate& e : plan.front)
    out += fmt::format("| {} | {} | {}  {} |\n", step_text(plan, e.step_time), gib(e.peak),
                       axis_columns({&e.layout}, moe)[0], fmt::join(other_choices(plan.best.layout, e.layout), "  "));
  return out + "\n";
}

std::string advised(const Plan& plan) {
  if (!plan.advice) return "";
  std::string out = "\n### One change at a time\n\n| change | tokens/s | USD a token | layout |\n|---|--:|--:|---|\n";
  for (const ShownAdvice& row : shown_advice(plan))
    out += fmt::format("| {} | {} | {} | {} |\n", row.change, row.faster, row.cheaper, row.layout);
  return out;
}

}  // namespace

std::string markdown_report(const Plan& plan, const RunOptions& options) {
  std::string out = heading(plan) + quoted_lines(unstated_lines(plan.problem)) + answer(plan, options) +
                    memory(plan.best) + step_time(plan.best) + communication(plan.best) + others(plan);
  if (!plan.why.empty()) out += fmt::format("Why: {}\n\n", fmt::join(plan.why, "; "));
  for (const Note& note : plan.notes)
    if (!is_shown_above(note)) out += fmt::format("> note: {}\n", note.text);
  for (const BrokenThumb& broken : plan.thumbs) out += fmt::format("> rule: {}; {}\n", broken.text, broken.why);
  return out + advised(plan);
}

}  // namespace plan
