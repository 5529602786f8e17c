#pragma once

#include "formulas/model.hpp"
#include "formulas/training.hpp"
#include "formulas/transient.hpp"

/// Laws of what a rank holds whatever runs: V is double and Held RealBytes, or both Traced for who asks how
/// (formulas/traced.hpp).
namespace plan {

/// What graphs of a layer's parts need while they run. It lies in their own pool, which nothing else allocates from
/// (torch.cuda.graph_pool_handle).
template <class Held>
Held graph_pool(const Layer& layer, const LayerTransientOf<Held>& transient, std::uint16_t scopes) {
  Held bytes(0.0);
  if (scopes & kGraphAttention)
    bytes = larger(bytes, lettered("a", transient.attention_backward, "backward of the mixer", "bytes"));
  const bool dense = layer.ffn == Ffn::Dense && (scopes & kGraphMlp);
  const bool experts = layer.ffn == Ffn::Moe && (scopes & kGraphExperts);
  if (experts) bytes = larger(bytes, lettered("d", transient.forward, "dispatched tokens", "bytes"));
  if (dense || experts) bytes = larger(bytes, lettered("f", transient.ffn_backward, "backward of the FFN", "bytes"));
  return bytes;
}

/// s * s attention mask that the data loader makes: of the sequence's own ranks, a row for each of their tokens.
template <class V>
BytesOf<V> loader_mask(const Training& training, const Layout& layout) {
  if (!training.stack.loader_attention_mask) return BytesOf<V>(0.0);
  return BytesOf<V>(
      symbol<V>("N", rank_tokens(training, layout), "tokens of a micro-batch on the rank", "seq, micro_batch and cp") *
      symbol<V>("s", training.seq, "tokens of a sequence", "seq"));
}

/// Most bytes of the pool that FSDP2's gathers fill on their own stream, which serves nothing else.
template <class V>
BytesOf<V> gather_pool(double block, double head) {
  return BytesOf<V>(larger(4.0 * symbol<V>("B", block, "parameters of the largest layer on the rank", kShapeOrigin),
                           2.0 * symbol<V>("H", head, "parameters of the head on the rank", kShapeOrigin)));
}

/// What of that pool is in use at a moment.
enum class PoolUse { None, Forward, Backward, Embedding };

/// What of it is not: `forward`: weights gathered in a layer's forward, `embedding`: with the embedding's gradient.
template <class Held>
Held pool_left(PoolUse use, const Held& pool, const Held& forward, const Held& embedding) {
  switch (use) {
    case PoolUse::None: break;
    case PoolUse::Forward: return larger(Held(0.0), pool - smaller(pool, forward) * 2.0 / 3.0);
    case PoolUse::Backward: return larger(Held(0.0), pool - smaller(pool, forward) * 2.0 / 3.0 / 2.0);
    case PoolUse::Embedding: return larger(Held(0.0), pool - smaller(pool, embedding));
  }
  return pool;
}

}  // namespace plan
