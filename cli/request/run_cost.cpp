// What the whole training run takes and costs at the speed of a plan. Tested by tests/cli/human_test.cpp.
#include "cli/request/run_cost.hpp"

#include "cli/terminal/numbers.hpp"

namespace plan {

Result<RunOptions> resolve_run(const Args& args) {
  RunOptions options;
  Errors errors;
  if (args.tokens) {
    const Result<double> tokens = read_amount("--tokens", *args.tokens);
    if (tokens)
      options.tokens = *tokens;
    else
      errors = tokens.error();
  }
  if (args.price) {
    const Result<double> price = read_amount("--price", *args.price, 1e6);
    if (price)
      options.price_per_hour = *price;
    else
      errors.insert(errors.end(), price.error().begin(), price.error().end());
  }
  if (!errors.empty()) return fail(std::move(errors));
  return options;
}

std::optional<RunCost> run_cost(const Plan& plan, const RunOptions& options) {
  if (!options.tokens || !(plan.best.tokens_per_s > 0)) return std::nullopt;
  RunCost run{*options.tokens, Seconds(*options.tokens / plan.best.tokens_per_s), 0, std::nullopt};
  run.gpu_hours = run.time.value / 3600 * plan.problem.gpus;
  const double price = options.price_per_hour.value_or(plan.problem.cluster.gpu.price_per_hour);
  if (price > 0) run.usd = run.gpu_hours * price;
  return run;
}

double gpu_hours(const Estimate& e, int gpus, double tokens) { return tokens / e.tokens_per_s / 3600 * gpus; }

}  // namespace plan
