// What a row says it measured: the seconds of its step, in whichever figure, and whether its figures can be of one run.
// Tested by tests/acceptance/run_mistakes_test.cpp.
#include "planner/runs/run_rates.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <vector>

#include "formulas/efficiency.hpp"
#include "formulas/flops.hpp"
#include "planner/estimate/physics.hpp"
#include "planner/runs/run_mistakes.hpp"

namespace plan {
namespace {

/// Rounded as far as sources print, and counted by formulas that differ in small terms, figures of one step differ by
/// less: tokens by their digits, FLOPs by what a convention counts of a model.
constexpr double kTokensApart = 0.1, kFlopsApart = 0.3;
/// A card's memory as its maker rounds it up, 16 GiB of 15.8, or as thousands of MiB: 81.9 of 80 GiB.
constexpr double kRoundedUp = 1.04;

/// FLOPs of a token that are all forward passes and all backward ones, the head's forward pass once.
Flops with_all_recomputed(const Model& model, double seq) {
  const ModelFlops forward = model_flops(model, seq, Mask::Full);
  return 4 * forward.total() - forward.head;
}

/// FLOPs of a token by the row's convention; none if it names none.
std::optional<Flops> flops_by_convention(const Run& run, const RunProblem& built) {
  const Model& model = built.problem.model;
  const double seq = static_cast<double>(built.problem.training.seq);
  const std::optional<FlopsConvention> convention = convention_of(run);
  if (!convention) return std::nullopt;
  if (run.flops_convention == "hardware" && built.layout.recompute.kind == RecomputeKind::Full)
    return with_all_recomputed(model, seq);
  return model_flops_per_token(model, seq, *convention);
}

/// FLOPs/s of a GPU that a column states, with its name.
struct StatedRate {
  std::string_view column;
  double flops_per_s = 0;
  double most = 0;  ///< where the source may have meant the peak of a narrower format
};

std::vector<StatedRate> rates_of(const Run& run, const Problem& problem) {
  std::vector<StatedRate> rates;
  const auto add = [&](std::string_view column, double rate, double narrower) {
    if (rate > 0) rates.push_back({column, rate, rate * narrower});
  };
  const Gpu& gpu = problem.cluster.gpu;
  const double usual = peak_of_16_bits(gpu).value,
               own = gpu.peak[static_cast<std::size_t>(gemm_dtype(problem.training.precision))].value;
  add("tflops_per_gpu", run.tflops_per_gpu.value_or(0) * 1e12, 1);
  add("mfu", run.mfu.value_or(0) * usual, usual > 0 ? std::max(own / usual, 1.0) : 1);
  return rates;
}

double tokens_of(const RunProblem& built) {
  return static_cast<double>(built.problem.training.tokens_per_step()) / built.problem.gpus;
}

std::string tokens_mistake(const Run& run, const RunProblem& built) {
  if (run.step_time_s.value_or(0) <= 0 || run.tokens_per_s_per_gpu.value_or(0) <= 0) return {};
  const double step = tokens_of(built) / *run.tokens_per_s_per_gpu, ratio = step / *run.step_time_s;
  if (ratio <= 1 + kTokensApart && ratio >= 1 - kTokensApart) return {};
  return fmt::format("`tokens_per_s_per_gpu` is a step of {:.4g} s, `step_time_s` is {:.4g}", step, *run.step_time_s);
}

/// A rate of FLOPs beside a step in seconds. Without a convention any of them will do. What is counted of adapters is
/// nobody's convention.
std::string flops_mistake(const Run& run, const RunProblem& built, double measured) {
  const double peak = peak_flops(built.problem.cluster.gpu, built.problem.training.precision);
  if (peak > 0 && run.tflops_per_gpu.value_or(0) * 1e12 > most_printed_flops(built.problem, built.layout.tp))
    return fmt::format("`tflops_per_gpu` {} is more than the peak of {}, {:.4g}", *run.tflops_per_gpu,
                       built.problem.cluster.gpu.name, peak / 1e12);
  if (built.problem.training.adapters()) return {};
  const std::optional<Flops> stated = flops_by_convention(run, built);
  CountedFlops counted = counted_by_any(built.problem.model, static_cast<double>(built.problem.training.seq));
  if (stated && run.flops_convention != "hardware") counted = {stated->value, stated->value};
  for (const StatedRate& rate : rates_of(run, built.problem)) {
    const double least = counted.least * tokens_of(built) / rate.most / (1 + kFlopsApart),
                 most = counted.most * tokens_of(built) / rate.flops_per_s * (1 + kFlopsApart);
    if (measured < least || measured > most)
      return fmt::format("`{}` is a step of {:.4g} s, and the row's is {:.4g}", rate.column,
                         counted.most * tokens_of(built) / rate.flops_per_s, measured);
  }
  return {};
}

/// Whether a row gives its step by what passes no convention of FLOPs: seconds, or tokens.
bool states_step(const Run& run) { return run.step_time_s.has_value() || run.tokens_per_s_per_gpu.value_or(0) > 0; }

}  // namespace

CountedFlops counted_by_any(const Model& model, double seq) {
  CountedFlops counted{std::numeric_limits<double>::max(), 0};
  const auto count = [&](Flops flops) {
    counted.least = std::min(counted.least, flops.value), counted.most = std::max(counted.most, flops.value);
  };
  for (const FlopsNote& known : kFlopsConventions) count(model_flops_per_token(model, seq, known.convention));
  count(with_all_recomputed(model, seq));
  return counted;
}

double most_printed_flops(const Problem& problem, int tp) {
  const double peak = peak_flops(problem.cluster.gpu, problem.training.precision);
  const double least = least_compute(problem, tp).value;
  if (least <= 0) return peak;
  const double tokens = static_cast<double>(problem.training.tokens_per_step()) / problem.gpus;
  const CountedFlops counted = counted_by_any(problem.model, static_cast<double>(problem.training.seq));
  return std::max(peak, counted.most * tokens / least);
}

std::optional<double> measured_step_time(const Run& run, const RunProblem& built) {
  if (run.step_time_s) return run.step_time_s;
  if (run.tokens_per_s_per_gpu.value_or(0) > 0) return tokens_of(built) / *run.tokens_per_s_per_gpu;
  const std::vector<StatedRate> rates = rates_of(run, built.problem);
  const std::optional<Flops> flops = rates.empty() ? std::nullopt : flops_by_convention(run, built);
  if (!flops) return std::nullopt;
  return flops->value * tokens_of(built) / rates.front().flops_per_s;
}

std::string rate_remark_of(const Run& run, const RunProblem& built) {
  const std::optional<double> measured = measured_step_time(run, built);
  return states_step(run) && *measured > 0 ? flops_mistake(run, built, *measured) : "";
}

std::string figure_mistake_of(const Run& run, const RunProblem& built) {
  if (std::string tokens = tokens_mistake(run, built); !tokens.empty()) return tokens;
  const std::optional<double> measured = measured_step_time(run, built);
  if (measured && *measured > 0) {
    if (std::string flops = states_step(run) ? "" : flops_mistake(run, built, *measured); !flops.empty()) return flops;
    if (const Seconds least = least_compute(built.problem, built.layout.tp); *measured < least.value)
      return fmt::format("a step of {:.4g} s, and the GPUs need {:.4g} at their peak", *measured, least.value);
  }
  const double memory = static_cast<double>(built.problem.cluster.gpu.memory.value) / kGiB;
  const double most = memory * (run.memory_kind == "printed" ? kLooseUnit : kRoundedUp);
  if (run.status == "ok" && run.peak_memory_gib.value_or(0) > most)
    return fmt::format("`peak_memory_gib` {} is more than {} has, {:.1f} GiB", *run.peak_memory_gib,
                       built.problem.cluster.gpu.name, memory);
  return {};
}

std::string far_step(double measured, double predicted, double high) {
  constexpr double kFar = 20;
  if (!(predicted > 0) || measured < kFar * high) return {};
  return fmt::format("a step of {:.4g} s takes {:.0f} times what is predicted: are they seconds, and of one step?",
                     measured, measured / predicted);
}

}  // namespace plan
