// `plan explain TERM`: how a number of the report comes about. Tested by tests/cli/explain_test.cpp.
#include <fmt/format.h>

#include "cli/commands.hpp"
#include "cli/complete_layout.hpp"
#include "cli/diagnostic.hpp"
#include "cli/explain.hpp"
#include "cli/numbers.hpp"
#include "cli/progress.hpp"
#include "cli/resolve.hpp"

namespace plan {
namespace {

constexpr int kMostStages = 1 << 20;

Result<Explanation> explanation(const Args& args, const Streams& streams) {
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
  return explain(*plan, args.words[0], stage);
}

}  // namespace

int run_explain(const Args& args, Streams& streams) {
  if (args.words.empty())
    return report_errors({{"missing_word", "`plan explain` needs a term", {}, {"list all with `plan list terms`"}}},
                         streams);
  const Result<Explanation> found = explanation(args, streams);
  if (!found) return report_errors(found.error(), streams);
  streams.out = wants_json(args) ? json_explanation(*found) : human_explanation(*found, streams.out_terminal);
  return kYes;
}

}  // namespace plan
