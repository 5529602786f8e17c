// What lives only while one layer, the head or the loss runs (plan-formulas(7) D6). Written once for the search and for
// `plan explain`: V is double or Traced. Tested by tests/formulas/transient_test.cpp, tests/planner/simumax_test.cpp.
#include "formulas/transient.hpp"

#include "formulas/activation.hpp"
#include "formulas/layer_rows.hpp"
#include "formulas/layer_trail.hpp"
#include "formulas/parameters.hpp"

namespace plan {
namespace {

/// Elements of one token-wide tensor on the rank, which sequence parallelism splits.
template <class V>
V shard(const RankSizes<V>& n) {
  return n.tokens * n.hidden / n.r;
}

template <class V>
AttentionWidths<V> attention_widths(const Layer& layer, const V& t) {
  const MixerRow& mixer = mixer_row(layer.mixer);
  if constexpr (std::is_same_v<V, double>)
    return mixer.widths(layer, t);
  else
    return mixer.traced_widths(layer, t);
}

template <class V>
ScanWidths<V> scan_widths(const Layer& layer, const V& t, const V& c) {
  const MixerRow& mixer = mixer_row(layer.mixer);
  if constexpr (std::is_same_v<V, double>)
    return mixer.scan_widths(layer, t, c);
  else
    return mixer.traced_scan_widths(layer, t, c);
}

/// Keys and values of all cp ranks: ring attention in TE and all-gather keep every block in the forward
/// pass. All-to-all holds what it sends beside what it receives, which a scan then keeps.
template <class V>
V context_buffers(const LayerSizes<V>& n) {
  const Layout& layout = n.layout;
  const AttentionWidths<V> w = attention_widths(n.layer, n.t);
  const MixerCore core = core_of(n.layer);
  if (layout.cp == 1 || core == MixerCore::None) return 0.0;
  const V ranks = symbol<V>("c", layout.cp, "context-parallel ranks", "layout");
  const V tokens = n.element * n.tokens;
  if (core == MixerCore::Scan) return tokens * scan_widths(n.layer, n.t, ranks).in;
  switch (layout.cp_kind) {
    case CpKind::Ring:
    case CpKind::AllGather: return tokens * (w.k + w.v) * ranks;
    case CpKind::Ulysses: return tokens * 2 * w.q;
    case CpKind::Hybrid: {
      const V inner = symbol<V>("c_u", std::max(1, layout.cp_ulysses), "of them, those of the all-to-all", "layout");
      return tokens * ((w.k + w.v) * ranks / inner + 2 * w.q);
    }
  }
  return 0.0;
}

/// Rows that reach the experts of one rank.
template <class V>
V routed_rows(const LayerSizes<V>& n) {
  return n.tokens * routed_copies(n) * symbol<V>("x_t", n.layout.etp, "ranks that share an expert", "layout");
}

/// Permuted tokens, what the all-to-all returned, what the experts sort or make, and the combined copy are alive
/// together, beside three token-sized tensors.
template <class V>
V moe_forward(const LayerSizes<V>& n) {
  return n.element * (4 * routed_rows(n) * routed_width(n) + 3 * shard(n));
}

/// Incoming gradient, its permuted copy, gradient of the experts' activation input.
template <class V>
V moe_backward(const LayerSizes<V>& n) {
  const MoeShape& shape = n.layer.moe;
  const V inner = symbol<V>("f", shape.expert_width, "width of an expert", "model") * gates<V>(shape.gated) /
                  symbol<V>("x_t", n.layout.etp, "ranks that share an expert", "layout");
  return n.element * (shard(n) + routed_rows(n) * (routed_width(n) + inner));
}

/// Incoming gradient, gradient of the activation's input. Where a linear keeps what it gathered, its gradient comes
/// whole from the sequence's ranks too.
template <class V>
V dense_backward(const LayerSizes<V>& n) {
  const DenseShape& shape = n.layer.dense;
  const V width = symbol<V>("f", shape.width, "width of the FFN", "model");
  const V incoming = n.training.stack.keeps_gathered ? n.tokens * n.hidden : shard(n);
  return n.element * (incoming + n.tokens * width * gates<V>(shape.gated) / n.t);
}

/// FlashAttention-2's fp32 dQ (rows padded to 128) and softmax sums, gradients of output, q, k and v,
/// and of keys and values once per query head before groups are summed.
template <class V>
V attention_backward(const LayerSizes<V>& n) {
  const Training& training = n.training;
  const AttentionWidths<V> w = attention_widths(n.layer, n.t);
  if (!w.any) return n.element * shard(n);
  const V sequence = symbol<V>("s", training.seq, "tokens of a sequence", "seq");
  const V outside = n.element * (shard(n) + n.tokens * (2 * w.q + w.k + w.v));
  if (training.stack.flash_attention) {
    const V ranks = symbol<V>("c", n.layout.cp, "context-parallel ranks", "layout");
    const V rows = symbol<V>("b", n.layout.micro_batch, "sequences of a micro-batch", "layout") *
                   rounded_up(sequence / ranks / 128) * 128;
    const V kernel = 4 * rows * w.q + 4 * n.tokens * w.heads;
    return outside + (w.grouped ? kernel + n.element * n.tokens * 2 * w.q : kernel);
  }
  // Without a fused kernel, the gradients of probabilities and of scores; PyTorch's masked_fill makes one more, and a
  // softmax of several operations both in fp32. A compiler casts where it sums.
  const Stack& stack = training.stack;
  const double copies = stack.fused_pointwise ? 2 : 3;
  const V squares = copies * n.element + (stack.fused_softmax || stack.fused_pointwise ? 0.0 : 2.0 * 4);
  return outside + squares * n.tokens * sequence * w.heads;
}

/// fp32 copies of the logits at the peak of PyTorch's loss: log-probabilities and the two gradients of its
/// backward pass; one more in the loss-parallel form (torch/distributed/tensor/parallel/loss.py).
double eager_loss_bytes(int tp) { return tp > 1 ? 16 : 12; }

template <class V>
LayerTransientOf<BytesOf<V>> transient_of(const LayerSizes<V>& n) {
  using Held = BytesOf<V>;
  LayerTransientOf<Held> out;
  out.forward = Held(context_buffers(n));
  if (n.layer.ffn == Ffn::Dense) out.ffn_backward = Held(dense_backward(n));
  if (n.layer.ffn == Ffn::Moe) {
    const Held experts(moe_forward(n));
    out.forward = n.layout.cp > 1 ? larger(lettered("a", out.forward, "keys and values of other ranks", "bytes"),
                                           lettered("x", experts, "dispatched tokens", "bytes"))
                                  : experts;
    out.ffn_backward = Held(moe_backward(n));
  }
  out.attention_backward = Held(attention_backward(n));
  return out;
}

/// Logits of the loss, in elements, and what is kept and needed of them, by the kind of loss.
template <class V>
void fill_loss(HeadMemoryOf<BytesOf<V>>& out, BytesOf<V>& gradient, const RankSizes<V>& n, const V& logits) {
  using Held = BytesOf<V>;
  const Stack& stack = n.training.stack;
  const bool split = stack.vocab_parallel_loss;
  const Held e(n.element), fp32(4.0);
  switch (stack.cross_entropy) {
    case CrossEntropy::FusedInPlace: out.logits = out.loss = gradient = e * logits; break;
    case CrossEntropy::Unfused:
      out.logits = fp32 * logits;
      out.loss = (Held(stack.loss_in_place ? 4.0 : 8.0) + e) * logits;
      gradient = e * logits;
      break;
    case CrossEntropy::Eager:
      // Whole logits belong to the model's output, which the training loop holds. Split ones are let go, but fp32
      // gradients do not fit where 16-bit logits lay.
      out.logits = split ? fp32 * logits : (e + fp32) * logits;
      out.loss = split ? Held(eager_loss_bytes(n.layout.tp)) * logits : (e + Held(eager_loss_bytes(1))) * logits;
      if (split) out.hole = e * logits;
      gradient = e * logits;
      break;
    case CrossEntropy::Compiled:
      out.logits = e * logits;
      out.loss = 2 * e * logits;
      gradient = e * logits;
      break;
    case CrossEntropy::FusedFp32:
      out.logits = fp32 * logits;
      out.loss = (fp32 + e) * logits;
      gradient = fp32 * logits;
      break;
    case CrossEntropy::Chunked:
      constexpr double kChunks = 8;
      out.loss = (stack.fused_pointwise ? 2 * e : e + Held(eager_loss_bytes(1))) * logits / kChunks;
      out.loss = out.loss + fp32 * shard(n);  // gradient of the head's input, in fp32
      gradient = 2 * e * logits / kChunks + fp32 * shard(n);
      break;
  }
}

template <class V>
HeadMemoryOf<BytesOf<V>> head_of(const RankSizes<V>& n) {
  using Held = BytesOf<V>;
  const Layout& layout = n.layout;
  const bool split = n.training.stack.vocab_parallel_loss;
  const V rows = symbol<V>("V", vocab_rows(n.model, n.training, layout), "rows of the head on the rank", kShapeOrigin);
  const V logits = split ? n.tokens * rows : n.tokens * rows * n.t;
  const Held e(n.element);
  HeadMemoryOf<Held> out;
  const bool gathers = layout.sequence_parallel && layout.tp > 1, keeps = n.training.stack.keeps_gathered;
  if (gathers && !keeps) out.resident = e * (n.tokens * n.hidden);
  out.saved = e * shard(n) + e * (gathers && keeps ? n.tokens * n.hidden : shard(n)) +
              Held(n.model.norm == Norm::Layer ? 8.0 : 4.0) * n.tokens / n.r;
  Held gradient(0.0);
  fill_loss(out, gradient, n, logits);
  if (!split && layout.tp > 1) {
    // The local slice is held beside the whole, which was put together from the pieces of a gather, which came out of a
    // flat buffer of NCCL's (c10d, ProcessGroupNCCL::allgather): 16-bit blocks, too small for fp32 gradients.
    out.loss = out.loss + e * logits / n.t;
    out.hole = out.hole + e * logits * (2 - 1 / n.t);
  } else if (!split) {
    out.loss = out.loss + e * logits;  // labels are shifted against a copy (transformers, ForCausalLMLoss)
  }
  out.backward = gradient + e * (n.tokens * n.hidden);
  if (layout.sequence_parallel) out.backward = out.backward + e * shard(n);  // input gradient, reduced
  return out;
}

template <class V>
V embedding_of(const RankSizes<V>& n) {
  return n.training.dropout > 0 ? 8 * n.tokens + shard(n) : 8 * n.tokens;
}

}  // namespace

LayerTransient layer_transient(const Model& model, const Layer& layer, const Training& training, const Layout& layout) {
  return transient_of(LayerSizes<double>(model, layer, training, layout));
}
LayerTransientOf<Traced> traced_transient(const Model& model, const Layer& layer, const Training& training,
                                          const Layout& layout) {
  return transient_of(LayerSizes<Traced>(model, layer, training, layout));
}

double vocab_rows(const Model& model, const Training& training, const Layout& layout) {
  if (training.stack.states == StateLayout::Megatron || training.stack.states == StateLayout::MegatronFsdp)
    return static_cast<double>(padded_vocab(model.vocab, layout.tp)) / layout.tp;
  return static_cast<double>(model.vocab) / layout.tp;
}

HeadMemory head_memory(const Model& model, const Training& training, const Layout& layout) {
  return head_of(RankSizes<double>(model, training, layout));
}
HeadMemoryOf<Traced> traced_head(const Model& model, const Training& training, const Layout& layout) {
  return head_of(RankSizes<Traced>(model, training, layout));
}

RealBytes embedding_saved(const Model& model, const Training& training, const Layout& layout) {
  return RealBytes(embedding_of(RankSizes<double>(model, training, layout)));
}
Traced traced_embedding(const Model& model, const Training& training, const Layout& layout) {
  return embedding_of(RankSizes<Traced>(model, training, layout));
}

RealBytes stale_gradient(const Model& model, const Training& training, const Layout& layout) {
  return layer_checkpoint(model, training, layout);
}

LinearShapes linear_shapes(const Model& model, const Layer& layer, const Layout& layout) {
  LinearShapes out;
  for (const Weight& w : layer_weights(model, layer)) {
    if (!w.matrix() || !w.linear) continue;
    const double rows = w.rows_on_rank(layout.tp, layout.etp);
    const double count = w.expert() ? static_cast<double>(layer.moe.experts) / layout.ep : 1.0;
    if (w.joined)
      out.shapes[static_cast<std::size_t>(out.size - 1)].rows += rows;
    else
      out.add({rows, w.columns_on_rank(layout.tp, layout.etp), count, w.expert()});
  }
  return out;
}

}  // namespace plan
