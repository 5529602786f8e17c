// What hardware cannot do. Tested by tests/cli/edited_hardware_test.cpp.
#include "planner/estimate/physics.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "formulas/flops.hpp"

namespace plan {
double peak_flops(const Gpu& gpu, Precision precision) {
  double peak = 0;
  for (const DType dtype : {gemm_dtype(precision), DType::Bf16, DType::Fp16})
    peak = std::max(peak, gpu.peak[static_cast<std::size_t>(dtype)].value);
  return peak;
}

Seconds least_compute(const Problem& problem, int tp) {
  const Training& training = problem.training;
  const FlopsOptions options = flops_options(training, tp);
  const double flops =
      model_flops_per_token(problem.model, static_cast<double>(training.seq), FlopsConvention::ModelCausal, options)
          .value *
      static_cast<double>(training.tokens_per_step());
  const double peak = peak_flops(problem.cluster.gpu, training.precision);
  return Seconds(peak > 0 ? flops / (peak * problem.gpus) : 0);
}

Seconds least_step(const Problem& problem, const Estimate& estimate) {
  const Gpu& gpu = problem.cluster.gpu;
  double least = least_compute(problem, estimate.layout.tp).value;
  // A dense weight is read in every micro-batch, in one byte at least; half a byte in fp4. A table of embeddings is
  // not, nor an expert without tokens.
  if (!problem.model.moe() && gpu.memory_bandwidth.value > 0 && problem.training.stack.vocab_barriers == 0)
    for (std::size_t stage = 1; stage + 1 < estimate.stages.size(); ++stage)
      least = std::max(least, static_cast<double>(estimate.micro_batches) / 2 *
                                  static_cast<double>(estimate.stages[stage].weights.value) / 8 /
                                  gpu.memory_bandwidth.value);
  return Seconds(least);
}

std::optional<Error> beyond_physics(const Problem& problem, const Estimate& estimate) {
  const Seconds least = least_step(problem, estimate);
  if (estimate.step_time.value >= least.value * (1 - 1e-9)) return std::nullopt;
  return Error{"beyond_physics",
               fmt::format("internal error: a step of {:.6g} s, and {} takes {:.6g} s at its stated peaks",
                           estimate.step_time.value, problem.cluster.gpu.name, least.value),
               {},
               {"please report it with the command and its files; the answer is withheld"}};
}

}  // namespace plan
