#pragma once

#include <cstdint>

#include "formulas/cluster.hpp"
#include "formulas/formula.hpp"
#include "formulas/model.hpp"
#include "formulas/training.hpp"

namespace plan {

/// Bytes of the hidden states of one micro-batch in bf16: the tensor that tensor and pipeline
/// parallelism move. `tokens` = b s / c.
[[nodiscard]] constexpr double hidden_bytes(double tokens, std::int64_t hidden) {
  return 2.0 * tokens * static_cast<double>(hidden);
}

/// Full size of the keys and values that context parallelism exchanges: 2 tensors of N c kv / t, bf16.
[[nodiscard]] constexpr double context_kv_bytes(double tokens_per_rank, int cp, double kv_width, int tp) {
  return 2.0 * 2.0 * tokens_per_rank * cp * kv_width / tp;
}

/// Full size of the tensors that Ulysses exchanges before attention (q, k, v) and after it (o), per rank, bf16.
[[nodiscard]] constexpr double ulysses_in_bytes(double tokens_per_rank, double q_width, double kv_width, int tp) {
  return 2.0 * tokens_per_rank * (q_width + 2 * kv_width) / tp;
}
[[nodiscard]] constexpr double ulysses_out_bytes(double tokens_per_rank, double q_width, int tp) {
  return 2.0 * tokens_per_rank * q_width / tp;
}

/// Send buffer of one expert all-to-all: every token to its top_k experts.
///   N_t = tokens of this rank after the tensor split, `element` = bytes per element
[[nodiscard]] constexpr double dispatch_bytes(double tokens, std::int64_t top_k, std::int64_t width, double element) {
  return tokens * static_cast<double>(top_k) * static_cast<double>(width) * element;
}

/// Expected number of distinct nodes that hold the `top_k` experts of a token when experts are spread
/// evenly over `nodes` nodes and routing is uniform: G (1 - C(E - E/G, k) / C(E, k)).
///   source   plan-formulas(7) E6
[[nodiscard]] double distinct_nodes(std::int64_t experts, std::int64_t top_k, int nodes);

}  // namespace plan
