#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>

#include "formulas/layer_rows.hpp"
#include "planner/rules/frameworks.hpp"
#include "planner/rules/rules.hpp"

/// The rules of each framework, one table a file with the row that says what else it does; planner/rules/rules.cpp and
/// frameworks.cpp join them.
namespace plan {

[[nodiscard]] std::span<const Rule> common_rules();            ///< of every framework
[[nodiscard]] std::span<const Rule> earlier_megatron_rules();  ///< that newer releases of Megatron no longer have

/// Words that several tables share.
namespace rule {

/// FSDP2 has one switch: weights, gradients and all states lie in host memory together, or none of them.
inline bool offloads_all_or_none(const Offload& offload) { return offload.optimizer == (offload.parameters ? 1 : 0); }
/// Are states that are sharded at all shared out over everybody? A group of all is what no word for it means.
inline bool shards_over_all(const Layout& l) { return l.shard_group() == l.dense_group(); }
constexpr bool divides(std::int64_t part, std::int64_t whole) { return part > 0 && whole % part == 0; }

/// Every layer kind of the model satisfies `check`.
template <class Check>
bool all_kinds(const Problem& problem, Check check) {
  return std::all_of(problem.model.kinds.begin(), problem.model.kinds.end(), check);
}

/// Each rank of `tp` has whole KV heads, and as many as the others.
inline bool whole_kv_heads(const Problem& problem, std::int64_t tp) {
  return all_kinds(problem, [&](const Layer& kind) { return divides(tp, mixer_row(kind.mixer).kv_heads(kind)); });
}

/// What of a model several frameworks cannot build, for their rows' `lacks`.
inline constexpr std::string_view kOtherNorms = "layers with another number of norms than two",
                                  kNormsOfAllHeads = "norms over all of a layer's heads together",
                                  kEmbeddingNorm = "a norm behind the embedding", kHeadBias = "a bias in the head";

/// Whole-layer checkpointing, or none.
inline bool full_or_none(const Recompute& recompute) {
  return recompute.kind == RecomputeKind::None ||
         (recompute.kind == RecomputeKind::Full && recompute.layers == 0 && recompute.uniform <= 1);
}

inline std::int64_t micro_batches_of(const Problem& problem, const Layout& layout) {
  return micro_batches(problem.training.global_batch, layout.dp, layout.micro_batch);
}

}  // namespace rule
}  // namespace plan
