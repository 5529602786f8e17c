#include "formulas/transient.hpp"

#include <algorithm>
#include <cmath>

#include "formulas/activation.hpp"
#include "formulas/parameters.hpp"

namespace plan {
namespace {

/// Sizes that every transient is made of, per rank.
struct Sizes {
  double tokens;   ///< N
  double hidden;   ///< N h elements
  double shard;    ///< N h, divided by t under sequence parallelism
  double slice;    ///< 1 / t
  double element;  ///< bytes of an activation
};

Sizes sizes(const Model& model, const Training& training, const Layout& layout) {
  const double tokens = rank_tokens(training, layout);
  const double hidden = tokens * static_cast<double>(model.hidden);
  return {tokens, hidden, layout.sequence_parallel ? hidden / layout.tp : hidden, 1.0 / layout.tp,
          training.precision == Precision::Fp32 ? 4.0 : 2.0};
}

/// Widths of queries, keys and values of one rank's attention.
struct AttentionWidths {
  double heads = 0;
  double q = 0, k = 0, v = 0;
  bool grouped = false;
};

AttentionWidths attention_widths(const Layer& layer, int tp) {
  const double t = tp;
  if (layer.mixer == Mixer::Attention) {
    const AttentionShape& shape = layer.attention;
    const double kv = static_cast<double>(std::max<std::int64_t>(shape.kv_heads, tp) * shape.head_dim) / t;
    return {static_cast<double>(shape.heads) / t, static_cast<double>(shape.q()) / t, kv, kv,
            shape.kv_heads < shape.heads};
  }
  if (layer.mixer == Mixer::Latent) {
    const double heads = static_cast<double>(layer.latent.heads) / t;
    const double qk = heads * static_cast<double>(layer.latent.qk_dim());
    return {heads, qk, qk, heads * static_cast<double>(layer.latent.value_dim), false};
  }
  return {};
}

/// Keys and values of all cp ranks: ring attention in TE and all-gather keep every block in the forward
/// pass. All-to-all holds what it sends beside what it receives.
double context_buffers(const Layer& layer, const Layout& layout, Sizes n) {
  if (layout.cp == 1) return 0;
  const AttentionWidths w = attention_widths(layer, layout.tp);
  switch (layout.cp_kind) {
    case CpKind::Ring:
    case CpKind::AllGather: return n.element * n.tokens * (w.k + w.v) * layout.cp;
    case CpKind::Ulysses: return n.element * n.tokens * 2 * w.q;
    case CpKind::Hybrid:
      return n.element * n.tokens * ((w.k + w.v) * layout.cp / std::max(1, layout.cp_ulysses) + 2 * w.q);
  }
  return 0;
}

/// Rows that reach the experts of one rank.
double routed_rows(const MoeShape& shape, const Training& training, const Layout& layout, Sizes n) {
  const double tokens = layout.sequence_parallel ? n.tokens * n.slice : n.tokens;
  return tokens * static_cast<double>(shape.top_k) * training.stack.routing_imbalance * layout.etp;
}

/// Permuted tokens, what the all-to-all returned, what the experts sort or make, and the combined copy
/// are alive together; three token-sized tensors stand beside them.
double moe_forward(const Model& model, const MoeShape& shape, const Training& training, const Layout& layout, Sizes n) {
  const double width = static_cast<double>(shape.latent > 0 ? shape.latent : model.hidden);
  return n.element * (4 * routed_rows(shape, training, layout, n) * width + 3 * n.shard);
}

/// Incoming gradient, its permuted copy, gradient of the experts' activation input.
double moe_backward(const Model& model, const MoeShape& shape, const Training& training, const Layout& layout,
                    Sizes n) {
  const double width = static_cast<double>(shape.latent > 0 ? shape.latent : model.hidden);
  const double inner = static_cast<double>(shape.expert_width) * (shape.gated ? 2 : 1) / layout.etp;
  return n.element * (n.shard + routed_rows(shape, training, layout, n) * (width + inner));
}

/// FlashAttention-2's fp32 dQ (rows padded to 128) and softmax sums, gradients of output, q, k and v,
/// and of keys and values once per query head before groups are summed.
double attention_backward(const Layer& layer, const Training& training, const Layout& layout, Sizes n) {
  const AttentionWidths w = attention_widths(layer, layout.tp);
  if (w.heads == 0) return n.element * n.shard;
  const double sequence = static_cast<double>(training.seq) / layout.cp;
  const double rows = layout.micro_batch * std::ceil(sequence / 128) * 128;
  const double kernel = 4 * rows * w.q + 4 * n.tokens * w.heads + (w.grouped ? n.element * n.tokens * 2 * w.q : 0);
  // Without a fused kernel, the gradients of probabilities and of scores; PyTorch's masked_fill makes one more, and a
  // softmax of several operations both in fp32.
  const double copies = training.stack.fused_pointwise ? 2 : 3;
  const double wide = training.stack.fused_softmax ? 0 : 2 * 4;
  const double squares = (copies * n.element + wide) * n.tokens * static_cast<double>(training.seq) * w.heads;
  return n.element * (n.shard + n.tokens * (2 * w.q + w.k + w.v)) + (training.stack.flash_attention ? kernel : squares);
}

/// fp32 copies of the logits at the peak of PyTorch's loss: log-probabilities and the two gradients of its
/// backward pass; one more in the loss-parallel form (torch/distributed/tensor/parallel/loss.py).
double eager_loss_bytes(int tp) { return tp > 1 ? 16 : 12; }

}  // namespace

LayerTransient layer_transient(const Model& model, const Layer& layer, const Training& training, const Layout& layout) {
  const Sizes n = sizes(model, training, layout);
  LayerTransient out;
  out.forward = context_buffers(layer, layout, n);
  if (layer.ffn == Ffn::Dense) {
    const double inner = n.tokens * static_cast<double>(layer.dense.width) * (layer.dense.gated ? 2 : 1) * n.slice;
    out.ffn_backward = n.element * (n.shard + inner);
  }
  if (layer.ffn == Ffn::Moe) {
    out.forward = std::max(out.forward, moe_forward(model, layer.moe, training, layout, n));
    out.ffn_backward = moe_backward(model, layer.moe, training, layout, n);
  }
  out.attention_backward = attention_backward(layer, training, layout, n);
  return out;
}

double vocab_rows(const Model& model, const Training& training, const Layout& layout) {
  if (training.stack.states == StateLayout::Megatron || training.stack.states == StateLayout::MegatronFsdp)
    return static_cast<double>(padded_vocab(model.vocab, layout.tp)) / layout.tp;
  return static_cast<double>(model.vocab) / layout.tp;
}

HeadMemory head_memory(const Model& model, const Training& training, const Layout& layout) {
  const Sizes n = sizes(model, training, layout);
  const bool split = training.stack.vocab_parallel_loss;
  const double logits = n.tokens * vocab_rows(model, training, layout) * (split ? 1 : layout.tp);
  const double statistics = (model.norm == Norm::Layer ? 8.0 : 4.0) * n.shard / static_cast<double>(model.hidden);
  const double scattered = layout.sequence_parallel ? n.element * n.shard : 0;  // input gradient, reduced
  HeadMemory out;
  out.resident = layout.sequence_parallel ? n.element * n.hidden : 0;
  out.saved = 2 * n.element * n.shard + statistics;
  double gradient = 0;
  switch (training.stack.cross_entropy) {
    case CrossEntropy::FusedInPlace: out.logits = out.loss = gradient = n.element * logits; break;
    case CrossEntropy::Unfused:
      out.logits = 4 * logits;
      out.loss = ((training.stack.loss_in_place ? 4 : 8) + n.element) * logits;
      gradient = n.element * logits;
      break;
    case CrossEntropy::Eager:
      out.logits = ((split ? 0 : n.element) + 4) * logits;
      // Whole logits belong to the model's output, which the training loop holds. Split ones are let go, but fp32
      // gradients do not fit where 16-bit logits lay.
      out.loss = ((split ? 0 : n.element) + eager_loss_bytes(split ? layout.tp : 1)) * logits;
      out.hole = split ? n.element * logits : 0;
      gradient = n.element * logits;
      break;
    case CrossEntropy::Compiled:
      out.logits = n.element * logits;
      out.loss = 2 * n.element * logits;
      gradient = n.element * logits;
      break;
    case CrossEntropy::FusedFp32:
      out.logits = 4 * logits;
      out.loss = (4 + n.element) * logits;
      gradient = 4 * logits;
      break;
    case CrossEntropy::Chunked:
      constexpr double kChunks = 8;
      out.loss = (training.stack.fused_pointwise ? 2 * n.element : eager_loss_bytes(1)) * logits / kChunks;
      out.loss += 4 * n.shard;  // gradient of the head's input, in fp32
      gradient = out.loss;
      break;
  }
  if (!split && layout.tp > 1) {
    // The local slice stands beside the whole, which was put together from the pieces of a gather, which came out of a
    // flat buffer of NCCL's (c10d, ProcessGroupNCCL::allgather): 16-bit blocks, too small for fp32 gradients.
    out.loss += n.element * logits / layout.tp;
    out.hole += n.element * logits * (2.0 - 1.0 / layout.tp);
  } else if (!split) {
    out.loss += n.element * logits;  // labels are shifted against a copy (transformers, ForCausalLMLoss)
  }
  out.backward = gradient + n.element * n.hidden + scattered;
  return out;
}

double embedding_saved(const Model& model, const Training& training, const Layout& layout) {
  const Sizes n = sizes(model, training, layout);
  return 8 * n.tokens + (training.dropout > 0 ? n.shard : 0);
}

double stale_gradient(const Model& model, const Training& training, const Layout& layout) {
  const Sizes n = sizes(model, training, layout);
  return n.element * n.shard;
}

}  // namespace plan
