#pragma once

// Messages that run beside the products of a step, or wait between them. Each kind is one switch of a framework's
// software: Megatron's --overlap-grad-reduce, --overlap-param-gather, --tp-comm-overlap,
// --no-overlap-p2p-communication and --overlap-moe-expert-parallel-comm; DeepSpeed's overlap_comm has the first alone.

#include <cstdint>
#include <string>
#include <string_view>

#include "formulas/training.hpp"

namespace plan {

/// One kind of message, by its word and by the member of a Stack that says whether it overlaps.
struct OverlapPart {
  std::uint8_t bit;
  std::string_view name;
  bool Stack::*on;
};

enum OverlapBit : std::uint8_t {
  kOverlapGrads = 1,    ///< reductions of gradients, beside the backward pass
  kOverlapParams = 2,   ///< gathers of updated parameters, beside the next forward pass
  kOverlapTp = 4,       ///< tensor parallelism's gathers and scatters, in chunks beside their products
  kOverlapP2p = 8,      ///< hand-overs between the stages of an interleaved pipeline
  kOverlapExperts = 16  ///< one micro-batch's all-to-alls, beside another's products
};

inline constexpr OverlapPart kOverlapParts[] = {{kOverlapGrads, "grads", &Stack::overlap_grad_reduce},
                                                {kOverlapParams, "params", &Stack::overlap_param_gather},
                                                {kOverlapTp, "tp", &Stack::tp_overlap},
                                                {kOverlapP2p, "p2p", &Stack::p2p_overlap},
                                                {kOverlapExperts, "experts", &Stack::ep_overlap}};

inline constexpr std::uint8_t kOverlapAll = kOverlapGrads | kOverlapParams | kOverlapTp | kOverlapP2p | kOverlapExperts;

/// What of it the software runs beside compute.
[[nodiscard]] constexpr std::uint8_t overlapping(const Stack& stack) {
  unsigned all = 0;
  for (const OverlapPart& part : kOverlapParts)
    if (stack.*part.on) all |= part.bit;
  return static_cast<std::uint8_t>(all);
}

/// The words of some of it, joined: "grads+tp"; "none".
[[nodiscard]] std::string overlap_words(unsigned parts);

}  // namespace plan
