#pragma once

#include <span>

#include "formulas/textbook/catalog_entry.hpp"
#include "formulas/textbook/sources.hpp"

/// How large a batch is worth having (plan-formulas(7) G).
namespace plan {

struct LossValueInput {
  double loss = 0;  ///< l
};
inline constexpr Formula kCriticalBatch{"critical-batch",
                                        "Critical batch size at a training loss",
                                        "2e8/l^(1/0.21)",
                                        "tokens",
                                        "Kaplan et al. 2020, arXiv:2001.08361",
                                        "Loss in nats a token. At this batch steps and examples are both twice their "
                                        "least."};
[[nodiscard]] double critical_batch(const LossValueInput& in);

struct ComputeInput {
  double flops = 0;  ///< C
};
inline constexpr Formula kDeepSeekBatch{"best-batch", "Best batch size for a compute budget", "0.292*C^0.3271",
                                        "tokens", "DeepSeek-AI 2024, arXiv:2401.02954"};
[[nodiscard]] double best_batch(const ComputeInput& in);

struct TradeInput {
  double least = 0;     ///< S_min
  double batch = 0;     ///< B
  double critical = 0;  ///< B_crit
};
inline constexpr Formula kSteps{"steps-needed", "Optimizer steps at a batch size", "S_min*(1 + B_crit/B)", "steps",
                                "McCandlish et al. 2018, arXiv:1812.06162"};
[[nodiscard]] constexpr double steps_needed(const TradeInput& in) { return in.least * (1 + in.critical / in.batch); }

struct ExamplesInput {
  double least = 0;     ///< E_min
  double batch = 0;     ///< B
  double critical = 0;  ///< B_crit
};
inline constexpr Formula kExamples{
    "examples-needed",
    "Tokens needed at a batch size",
    "E_min*(1 + B/B_crit)",
    "tokens",
    "McCandlish et al. 2018, arXiv:1812.06162",
    "(S/S_min - 1)(E/E_min - 1) = 1: doubling the batch of a run beyond the critical one "
    "saves ever fewer steps."};
[[nodiscard]] constexpr double examples_needed(const ExamplesInput& in) {
  return in.least * (1 + in.batch / in.critical);
}

struct TokensInput {
  double sequences = 0;  ///< B
  double seq = 0;        ///< s
};
inline constexpr Formula kTokensPerStep{"tokens-per-step", "Tokens of one optimizer step", "B*s", "tokens",
                                        source::kDerived};
[[nodiscard]] constexpr double tokens_per_step(const TokensInput& in) { return in.sequences * in.seq; }

struct MicroBatchesInput {
  double global_batch = 0;  ///< B
  double dp = 1;            ///< d
  double micro_batch = 1;   ///< b
};
inline constexpr Formula kMicroBatches{
    "micro-batches", "Micro-batches of a step on each rank", "B/(d*b)", "", source::kDerived, "Must be whole."};
[[nodiscard]] constexpr double micro_batches_per_rank(const MicroBatchesInput& in) {
  return in.global_batch / (in.dp * in.micro_batch);
}

[[nodiscard]] std::span<const CatalogEntry> batch_formulas();

}  // namespace plan
