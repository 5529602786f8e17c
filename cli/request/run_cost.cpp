// What the whole training run takes and costs at the speed of a plan. Tested by tests/cli/human_test.cpp and
// tests/cli/failures_test.cpp.
#include "cli/request/run_cost.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "cli/terminal/numbers.hpp"
#include "formulas/keep_errors.hpp"
#include "formulas/text.hpp"
#include "formulas/textbook/cost.hpp"
#include "presets/quantity.hpp"

namespace plan {
namespace {

constexpr double kMostHours = 1e9, kMostStorage = 1e18, kMostRestart = 1e8, kHour = 3600;

/// A number with a unit, above nothing and at most `most`. What is proposed instead is taken.
Result<double> read_quantity(const char* flag, const std::string& text, Dimension dimension, double most,
                             const char* example) {
  const auto taken = [&](double value) { return value > 0 && value <= most; };
  const ParsedQuantity read = parse_quantity(text, dimension);
  if (read && taken(read.value)) return read.value;
  std::string instead = example;
  std::vector<std::string> all = read.instead;
  if (dimension == Dimension::Time && read.problem == "needs a unit")  // as long as the example lasts: in its unit
    all.insert(all.begin(), fmt::format("{} {}", text, trim(std::string_view(example), "0123456789.")));
  for (const std::string& one : all)
    if (const ParsedQuantity meant = parse_quantity(one, dimension); meant && taken(meant.value)) {
      instead = one;
      break;
    }
  std::erase(instead, ' ');  // of its unit: one word needs no quotes
  std::string wrong =
      fmt::format("`{}` takes {}, not `{}`", flag, dimension == Dimension::Time ? "a time" : "a bandwidth", text);
  if (read)
    wrong = read.value > 0
                ? fmt::format("`{}` must be at most {}, got `{}`", flag, format_quantity(most, dimension), text)
                : fmt::format("`{}` must be more than 0, got `{}`", flag, text);
  return fail({"bad_value", std::move(wrong), {}, {fmt::format("write `{} {}`", flag, instead)}});
}

/// Tokens are whole, and so is what a letter makes of a decimal fraction, which is binary here: 8.2 times 1e12 is off
/// by less than this share. A true fraction of a token lacks the letter of its size.
Result<double> read_tokens(const std::string& text) {
  constexpr double kRounding = 1e-12;
  Result<double> tokens = read_amount("--tokens", text);
  if (!tokens) return tokens;
  const double whole = std::round(*tokens);
  if (std::abs(*tokens - whole) <= kRounding * whole) return whole;
  std::vector<std::string> help;
  for (const char letter : {'T', 'B'})
    if (const std::string lettered = text + letter; read_amount("--tokens", lettered))
      help.push_back(fmt::format("write `--tokens {}`", lettered));
  if (help.empty()) help.push_back(fmt::format("write `--tokens {:.0f}`", std::max(1.0, whole)));
  return fail({"bad_number", fmt::format("`--tokens {}` is no whole number of tokens", text), {}, std::move(help)});
}

}  // namespace

Result<RunOptions> resolve_run(const Args& args) {
  RunOptions options;
  Errors errors;
  const auto take = [&](const char* key, const Args::Text& typed, auto read, auto store) {
    if (!typed) return;
    const auto value = read(*typed);
    if (!keep_errors(errors, value)) return;
    store(*value);
    options.inputs.push_back({key, *typed, Origin::Flag});
  };
  take("tokens", args.tokens, read_tokens, [&](double tokens) { options.tokens = tokens; });
  take(
      "price_per_hour", args.price,
      [](const std::string& text) { return read_amount("--price", text, kMostPrice, "2.5"); },
      [&](double price) { options.price_per_hour = price; });
  if (args.spares)  // a mistake in it is reported with the problem's, which knows how many GPUs there are
    if (const auto spares = read_count("--spares", *args.spares, 0, kMostRanks))
      options.spares = static_cast<int>(*spares);
  take(
      "gpu_mtbf", args.gpu_mtbf,
      [](const std::string& text) {
        return read_quantity("--gpu-mtbf", text, Dimension::Time, kMostHours * kHour, "50700h");
      },
      [&](double seconds) { options.failures.gpu_mtbf_hours = seconds / kHour; });
  take(
      "storage", args.storage,
      [](const std::string& text) {
        return read_quantity("--storage", text, Dimension::ByteRate, kMostStorage, "2TB/s");
      },
      [&](double rate) { options.failures.storage_bytes_per_s = rate; });
  take(
      "restart", args.restart,
      [](const std::string& text) { return read_quantity("--restart", text, Dimension::Time, kMostRestart, "10min"); },
      [&](double seconds) { options.failures.restart = Seconds(seconds); });
  if (!errors.empty()) return fail(std::move(errors));
  return options;
}

std::optional<double> RunCost::expected_usd() const {
  if (!usd) return std::nullopt;
  return *usd / goodput.value_or(1);
}

std::optional<RunCost> run_cost(const Plan& plan, const RunOptions& options) {
  if (!options.tokens || !(plan.best.tokens_per_s > 0)) return std::nullopt;
  RunCost run{*options.tokens, Seconds(*options.tokens / plan.best.tokens_per_s), 0, std::nullopt, std::nullopt};
  run.gpu_hours = run.time.value / kHour * (plan.problem.gpus + options.spares);
  const double price = options.price_per_hour.value_or(plan.problem.cluster.gpu.price_per_hour);
  if (price > 0) run.usd = run_cost(CostInput{run.gpu_hours, price, 1}).value;
  if (const std::optional<Goodput> goodput = goodput_of(plan.problem, options.failures)) run.goodput = goodput->ratio;
  return run;
}

double gpu_hours(const Estimate& e, int gpus, double tokens) { return tokens / e.tokens_per_s / 3600 * gpus; }

}  // namespace plan
