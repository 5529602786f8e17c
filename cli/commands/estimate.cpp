// `plan estimate`: the same report for one layout. Tested by tests/cli/screens_test.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cli/check/check.hpp"
#include "cli/commands/commands.hpp"
#include "cli/commands/plan_report.hpp"
#include "cli/request/resolve.hpp"
#include "cli/request/words/layout_flag.hpp"
#include "cli/terminal/diagnostic.hpp"
#include "formulas/keep_errors.hpp"
#include "planner/choice/nearest.hpp"
#include "planner/choice/remedy.hpp"
#include "planner/choice/thumb.hpp"
#include "planner/planner.hpp"
#include "planner/pools/pools.hpp"
#include "planner/problem/axes.hpp"
#include "planner/rules/complete_layout.hpp"

namespace plan {
namespace {

/// The flags that make of the job the one of a remedy: of `--layout` the words that were typed, and those without which
/// the layout would be completed in another way.
std::string flags_of(const Problem& problem, const Layout& layout, const Fixed& typed, const Remedy& remedy) {
  Fixed words = typed;
  each_axis([&](const auto& axis) {
    if (words.*axis.fixed) words.*axis.fixed = remedy.layout.*axis.value;
  });
  Fixed others = problem.fixed;
  each_axis([&](const auto& axis) {
    if (typed.*axis.fixed) (others.*axis.fixed).reset();
  });
  // No word says "as it comes": another pipeline does without the split and the stages of a file by itself.
  words.chunk_layers.reset(), others.chunk_layers.reset();
  if (remedy.layout.stages.empty()) words.stages.reset(), others.stages.reset();
  each_axis([&](const auto& axis) {
    Problem stated = remedy.problem;
    stated.fixed = overlaid(others, words);
    if (!(complete_layout(stated).*axis.value == remedy.layout.*axis.value))
      words.*axis.fixed = remedy.layout.*axis.value;
  });
  std::vector<std::string> flags;
  if (!(words == typed)) flags.push_back(fmt::format("--layout {}", fmt::join(fixed_words(words), ",")));
  for (const std::string& key : input_choice_keys())
    if (const std::string text = choice_text(key, remedy.problem, remedy.layout);
        text != choice_text(key, problem, layout))
      flags.push_back(fmt::format("--{} {}", key == "global_batch" ? "global-batch" : key, text));
  return fmt::format("{}", fmt::join(flags, " "));
}

/// Why the layout is impossible, with the smallest changes after which it is not; of those that fit for certain, if any
/// does, else of those that may.
Errors impossible(const Problem& problem, const Args& args, Errors errors) {
  const Result<Fixed> typed = args.layout ? read_layout(*args.layout) : Fixed{};
  const Layout layout = complete_layout(problem);
  std::vector<Remedy> remedies;
  for (const Fits least : {Fits::Yes, Fits::AtRisk, Fits::No}) {
    const auto accepts = [least](const Problem&, const Estimate& e) { return e.fits <= least; };
    if (remedies.empty()) remedies = find_remedies({problem, layout, accepts, {}});
  }
  for (const Remedy& remedy : remedies)
    errors.front().changes.push_back(suggested_change(flags_of(problem, layout, typed.value_or(Fixed{}), remedy),
                                                      remedy.layout, remedy.estimate.peak, remedy.estimate.capacity));
  return errors;
}

}  // namespace

int run_estimate(const Args& args, Streams& streams) {
  Result<Problem> problem = resolve_problem(args);
  const Result<RunOptions> run = resolve_run(args);
  Errors errors;
  if (!args.layout && args.from.empty())
    errors.push_back({"missing_flag", "`--layout` is missing", {}, {"write `--layout tp8,pp16`; `plan` finds one"}});
  keep_errors(errors, problem);
  keep_errors(errors, run);
  if (!errors.empty()) return report_errors(errors, streams);
  const bool pooled = !problem->pools.empty();
  Result<Plan> plan = pooled ? plan_pooled(*problem) : plan_layout(*problem);
  const bool dropped = !plan && plan.error().front().code == "meaningless_word";
  if (!plan && (pooled || dropped)) return report_errors(plan.error(), streams);
  if (!plan) return report_errors(impossible(*problem, args, plan.error()), streams);
  add_launch_notes(*plan);
  if (!pooled) plan->thumbs = broken_rules_of_thumb(plan->problem, plan->best, run->tokens);
  Result<std::string> report = plan_report(args, *plan, *run, streams.out_terminal);
  if (!report) return report_errors(report.error(), streams);
  streams.out = std::move(*report);
  return plan->best.fits == Fits::Yes ? kYes : kNo;
}

}  // namespace plan
