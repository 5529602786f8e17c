// `plan explain TERM`: how a number of the report comes about. Tested by tests/cli/explain_test.cpp.
#include <fmt/core.h>

#include <utility>
#include <vector>

#include "cli/commands/commands.hpp"
#include "cli/explain/explain.hpp"
#include "cli/report/explanation_html.hpp"
#include "cli/request/resolve.hpp"
#include "cli/terminal/diagnostic.hpp"
#include "cli/terminal/numbers.hpp"
#include "cli/terminal/progress.hpp"
#include "planner/problem/complete_layout.hpp"

namespace plan {
namespace {

constexpr int kMostStages = 1 << 20;

Result<std::vector<Explanation>> explanations(const Args& args, const Streams& streams) {
  const Result<Problem> problem = resolve_problem(args);
  if (!problem) return fail(problem.error());
  const Result<Plan> plan =
      args.layout ? plan_layout(*problem, complete_layout(*problem)) : search_with_progress(*problem, streams);
  if (!plan) return fail(plan.error());
  int stage = plan->best.peak_stage;
  if (args.stage) {
    const Result<std::int64_t> typed = read_count("--stage", *args.stage, 0, kMostStages);
    if (!typed) return fail(typed.error());
    stage = static_cast<int>(*typed);
  }
  if (!args.all) {
    Result<Explanation> one = explain(*plan, args.words[0], stage);
    if (!one) return fail(one.error());
    return std::vector<Explanation>{std::move(*one)};
  }
  std::vector<Explanation> all;
  for (const Term& term : terms())
    if (Result<Explanation> one = explain(*plan, term.name, stage)) all.push_back(std::move(*one));
  return all;
}

std::string whole(const std::vector<Explanation>& all, const Args& args, const Terminal& terminal) {
  if (wants_json(args)) return args.all ? json_explanations(all) : json_explanation(all[0]);
  std::string out;
  if (args.format == "markdown" && args.all) out = "# How every number comes about\n\n";
  for (const Explanation& e : all) {
    if (args.format == "markdown")
      out += markdown_explanation(e);
    else if (args.all)
      each_explanation(
          e, [&](const Explanation& one) { out += (out.empty() ? "" : "\n") + human_explanation(one, terminal); });
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
  const Result<std::vector<Explanation>> found = explanations(args, streams);
  if (!found) return report_errors(found.error(), streams);
  streams.out = whole(*found, args, streams.out_terminal);
  return kYes;
}

}  // namespace plan
