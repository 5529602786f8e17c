// `plan explain TERM`: how a number of the report comes about. Tested by tests/cli/explain_test.cpp.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>
#include <vector>

#include "cli/commands/commands.hpp"
#include "cli/commands/plan_report.hpp"
#include "cli/explain/explain.hpp"
#include "cli/report/page/page.hpp"
#include "cli/report/parts/choice_text.hpp"
#include "cli/report/plan/explanation_html.hpp"
#include "cli/report/plan/json.hpp"
#include "cli/report/sweep/sweep_inputs.hpp"
#include "cli/request/resolve.hpp"
#include "cli/request/unstated.hpp"
#include "cli/terminal/diagnostic.hpp"
#include "cli/terminal/numbers.hpp"
#include "cli/terminal/progress.hpp"
#include "cli/terminal/words.hpp"
#include "formulas/textbook/catalog.hpp"
#include "planner/answer/layout_text.hpp"
#include "planner/planner.hpp"

namespace plan {
namespace {

constexpr int kMostStages = 1 << 20;

/// What others call the terms, between blanks.
constexpr std::pair<std::string_view, std::string_view> kTermsElsewhere[] = {
    {"time step latency iteration-time iteration step-latency", "step_time"},
    {"tokens-per-s tokens-per-second tps tokens/s speed samples-per-second", "throughput"},
    {"tgs tokens-per-gpu tokens-per-s-per-gpu", "throughput_per_gpu"},
    {"tflops flops utilization utilisation efficiency", "mfu"},
    {"hfu", "mfu_hardware"},
    {"peak peak-memory vram hbm oom gpu-memory max-memory", "memory"},
    {"params parameters weight", "weights"},
    {"gradients gradient grad", "grads"},
    {"optimizer-states adam states", "optimizer"},
    {"activation", "activations"},
    {"pipeline-bubble bubbles", "bubble"},
    {"tensor-parallel tensor", "tp"},
    {"pipeline-parallel pipeline", "pp"},
    {"data-parallel allreduce all-reduce gradient-sync fsdp zero", "dp"},
    {"expert-parallel alltoall all-to-all moe", "ep"},
    {"context-parallel ring-attention", "cp"},
    {"recomputation checkpointing activation-checkpointing", "recompute"},
    {"topology mapping rank-order", "placement"}};

/// A term that none is: by another name of it, or as what else the command line says about it.
std::vector<std::string> help_for_term(const std::string& word) {
  const std::string low = folded(word);
  for (const auto& [words, term] : kTermsElsewhere)
    if (among_words(words, low)) return {fmt::format("write `plan explain {}`", term)};
  for (const std::string_view money : {"cost", "days", "price", "energy", "usd", "dollars"})
    if (low == money) return {"days and cost of a run are printed with `--tokens 15T`"};
  std::string name = low;
  std::replace(name.begin(), name.end(), ' ', '-');
  if (find_formula(name) == nullptr) return {};
  return {fmt::format("it is a formula and no term of a step: `plan show formula {}`", name)};
}

/// A plan and what of it is asked for.
struct Explained {
  Plan plan;
  std::vector<Explanation> terms;
};

Result<Explained> explanations(const Args& args, const Streams& streams) {
  const Result<Problem> problem = resolve_problem(args);
  if (!problem) return fail(problem.error());
  Result<Plan> plan = args.layout ? plan_layout(*problem) : search_with_progress(*problem, streams);
  if (!plan) return fail(plan.error());
  if (!plan->best.layout.stages.empty())
    return fail({"conflicting_flags",
                 "`plan explain` tells of stages that all do the same, and those of `stages=` differ",
                 {},
                 {"explain one of them: write what it does as `recompute=` in place of `stages=`"}});
  int stage = plan->best.peak_stage;
  if (args.stage) {
    const Result<std::int64_t> typed = read_count("--stage", *args.stage, 0, kMostStages);
    if (!typed) return fail(typed.error());
    stage = static_cast<int>(*typed);
  }
  if (!args.all) {
    Result<Explanation> one = explain(*plan, args.words[0], stage);
    if (!one) {
      if (const auto help = help_for_term(args.words[0]); !help.empty() && one.error().front().code == "unknown_term")
        one.error().front().help = help;
      return fail(one.error());
    }
    return Explained{std::move(*plan), {std::move(*one)}};
  }
  std::vector<Explanation> all;
  for (const Term& term : terms())
    if (Result<Explanation> one = explain(*plan, term.name, stage)) all.push_back(std::move(*one));
  return Explained{std::move(*plan), std::move(all)};
}

std::string json_text(const Explained& explained, bool all) {
  Json json = all ? json_explanations(explained.terms) : json_explanation(explained.terms[0]);
  json["layout"] = layout_flag(explained.plan.best.layout);
  json["framework"] = framework_of(explained.plan);
  json["unstated"] = unstated_json(explained.plan.problem.inputs);
  json["unused"] = notes_json(explained.plan.problem.unused);
  return dump(json);
}

/// Whose figures they are, where a search chose the framework.
std::vector<std::string> framework_lines(const Plan& plan) {
  std::vector<std::string> lines;
  for (const Note& note : plan.notes)
    if (note.code == "framework_chosen") lines.push_back(note.text);
  return lines;
}

std::string markdown_head(const Plan& plan, bool all) {
  std::string out = all ? "# How every number comes about\n\n" : "";
  out += fmt::format("{}, {}\n\n", job_text(plan.problem.inputs), axes_text(plan.best, plan.problem.model.moe()));
  for (const std::string& line : unstated_lines(plan.problem)) out += fmt::format("> {}\n\n", line);
  for (const std::string& line : framework_lines(plan)) out += fmt::format("> {}\n\n", line);
  return out;
}

std::string page(const Explained& explained) {
  const Plan& plan = explained.plan;
  const std::string job = job_text(plan.problem.inputs);
  std::string body = fmt::format("<h1>{}</h1>\n", escape_html(job));
  body += html_lines(warning_lines(plan), "bad") + html_lines(unstated_lines(plan.problem), "dim");
  body += html_lines(framework_lines(plan), "dim");
  body += fmt::format("<p><b>{}</b></p>\n", escape_html(axes_text(plan.best, plan.problem.model.moe())));
  for (const Explanation& e : explained.terms)
    body += html_section(e.name, fmt::format("{} = {}", e.title, value_text(e.value, e.unit)), html_explanation(e));
  return html_page("plan explain: " + job, "", body);
}

std::string whole(const Explained& explained, const Args& args, const Terminal& terminal) {
  if (wants_json(args)) return json_text(explained, args.all);
  if (args.format == "html") return page(explained);
  const std::vector<Explanation>& all = explained.terms;
  std::string out = args.format == "markdown"
                        ? markdown_head(explained.plan, args.all)
                        : job_lines(explained.plan, terminal) + dim_lines(framework_lines(explained.plan), terminal) +
                              axes_text(explained.plan.best, explained.plan.problem.model.moe()) + "\n\n";
  bool first = true;
  for (const Explanation& e : all) {
    if (args.format == "markdown")
      out += markdown_explanation(e);
    else if (args.all)
      each_explanation(e, [&](const Explanation& one) {
        out += (first ? "" : "\n") + human_explanation(one, terminal);
        first = false;
      });
    else
      out += human_explanation(e, terminal);
  }
  return out;
}

}  // namespace

int run_explain(const Args& args, Streams& streams) {
  if (args.words.empty() != args.all)
    return report_errors(
        {{"missing_word", "`plan explain` needs one term, or `--all`", {}, {"list the terms with `plan list terms`"}}},
        streams);
  const Result<Explained> found = explanations(args, streams);
  if (!found) return report_errors(found.error(), streams);
  streams.out = whole(*found, args, streams.out_terminal);
  return kYes;
}

}  // namespace plan
