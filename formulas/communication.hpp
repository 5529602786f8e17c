#pragma once

#include <cstdint>

#include "formulas/cluster.hpp"
#include "formulas/layout.hpp"
#include "formulas/model.hpp"
#include "formulas/real_bytes.hpp"
#include "formulas/training.hpp"

namespace plan {

/// The hidden states of one micro-batch: the tensor that tensor and pipeline parallelism move.
/// `tokens` = b s / c, `precision` of the training: 4 bytes an element in fp32, else 2.
[[nodiscard]] constexpr RealBytes hidden_bytes(double tokens, std::int64_t hidden, Precision precision) {
  return RealBytes(activation_bytes(precision) * tokens * static_cast<double>(hidden));
}

/// Context ranks that turn shares of the sequence into shares of the heads by all-to-all; the others pass keys round or
/// gather them. `hybrid` = those of a hybrid.
[[nodiscard]] constexpr int exchanging_ranks(CpKind kind, int cp, int hybrid) {
  switch (kind) {
    case CpKind::Ulysses: return cp;
    case CpKind::Hybrid: return hybrid;
    case CpKind::Ring:
    case CpKind::AllGather: break;
  }
  return 1;
}

/// Send buffer of one expert all-to-all: every token to its top_k experts.
///   N_t = tokens of this rank after the tensor split, `element` = bytes per element
[[nodiscard]] constexpr RealBytes dispatch_bytes(double tokens, std::int64_t top_k, std::int64_t width,
                                                 double element) {
  return RealBytes(tokens * static_cast<double>(top_k) * static_cast<double>(width) * element);
}

/// Expected number of distinct nodes that hold the `top_k` experts of a token when experts are spread
/// evenly over `nodes` nodes and routing is uniform: G (1 - C(E - E/G, k) / C(E, k)).
///   source   plan-formulas(7) E6
[[nodiscard]] double distinct_nodes(std::int64_t experts, std::int64_t top_k, int nodes);

}  // namespace plan
