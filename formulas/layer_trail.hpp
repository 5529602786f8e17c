#pragma once

#include <cstdint>
#include <vector>

#include "formulas/bf16_layers.hpp"
#include "formulas/layer_ledger.hpp"
#include "formulas/layer_weights.hpp"
#include "formulas/model.hpp"
#include "formulas/quantising.hpp"

/// The inside of a layer: each mixer and each FFN tells, in a file of its own, which tensors it keeps, once for all who
/// ask (layer_rows.hpp). V is double or Traced (traced.hpp).
namespace plan {

/// What every line is made of, per rank.
template <class V>
struct RankSizes {
  RankSizes(const Model& m, const Training& run, const Layout& split)
      : model(m),
        training(run),
        layout(split),
        tokens(
            symbol<V>("N", rank_tokens(run, split), "tokens of a micro-batch on the rank", "seq, micro_batch and cp")),
        hidden(symbol<V>("h", m.hidden, "hidden width", "model")),
        element(symbol<V>("e", activation_bytes(run.precision), "bytes of an activation", "precision")),
        t(symbol<V>("t", split.tp, "tensor-parallel ranks", "layout")),
        r(symbol<V>("r", split.sequence_parallel ? split.tp : 1,
                    "ranks that share the sequence between tensor-parallel parts", "layout")) {}

  const Model& model;
  const Training& training;
  const Layout& layout;
  V tokens;   ///< N
  V hidden;   ///< h
  V element;  ///< e: bytes of an activation
  V t;        ///< divides what tensor parallelism always splits
  V r;        ///< divides what it splits only together with the sequence
};

template <class V>
struct LayerSizes : RankSizes<V> {
  LayerSizes(const Model& m, const Layer& l, const Training& run, const Layout& split)
      : RankSizes<V>(m, run, split),
        layer(l),
        precision(precision_of(l, run)),
        input(
            symbol<V>("i", gemm_input_bytes(precision).value, "bytes of a tensor kept as a GEMM's input", "precision")),
        quantised(is_narrow(precision)) {}

  const Layer& layer;
  Precision precision;  ///< of this layer's products
  V input;              ///< i: bytes of a tensor kept only as a GEMM's input
  bool quantised;       ///< a tensor may be kept both as itself and as a quantised GEMM input
};

/// A tensor that backward reads again.
struct Tensor {
  Fate fate;
  const char* name;           ///< its letters, for `plan explain activations.k.k_0.NAME`
  const char* what;           ///< in words
  std::uint16_t offload = 0;  ///< OffloadModule bit that sends it to host memory
};

/// Takes the tensors that a layer keeps, in bytes of a token: sums them by fate, or writes them down.
template <class V>
class Keeper;

template <>
class Keeper<double> {
 public:
  explicit Keeper(unsigned away) : away_(away) {}
  void keep(const Tensor& tensor, double bytes) {
    if (!(tensor.offload & away_)) ledger_[tensor.fate] += RealBytes(bytes);
  }
  LayerLedger& ledger() { return ledger_; }

 private:
  unsigned away_;  ///< OffloadModule bits of what goes to host memory
  LayerLedger ledger_{};
};

template <>
class Keeper<Traced> {
 public:
  explicit Keeper(Traced tokens) : tokens_(std::move(tokens)) {}
  void keep(const Tensor& tensor, const Traced& bytes) {
    if (bytes.value() == 0) return;
    tensors_.push_back({tensor.fate, tensor.offload, tensor.name, tensor.what, tokens_ * bytes});
  }
  std::vector<KeptTensor>& tensors() { return tensors_; }

 private:
  Traced tokens_;
  std::vector<KeptTensor> tensors_{};
};

/// All-to-all and all-gather context parallelism keep the kernel's output beside its reordered copy [TE].
[[nodiscard]] bool keeps_output_twice(const Training& training, const Layout& layout);

/// Bytes a token of softmax statistics, or of the scores where no fused kernel spares them; `heads` on the rank.
template <class V>
void keep_core(Keeper<V>& out, const LayerSizes<V>& n, const V& heads);

/// Bytes of an element of what the activation of an FFN reads: some stacks keep it in fp8.
template <class V>
V activation_input_bytes(const LayerSizes<V>& n) {
  if (!n.training.stack.fp8_activation_input) return n.element;
  return smaller(V(1.0), n.element);
}

/// Projections in front of an FFN's activation, as a factor of its width.
template <class V>
V gates(bool gated) {
  return symbol<V>("g", gated ? 2 : 1, "projections before the activation: gate and up, or up alone", "model");
}

/// Copies of a token among the experts, as its rank holds them before expert tensor parallelism gathers them.
template <class V>
V routed_copies(const LayerSizes<V>& n) {
  const double imbalance = n.training.stack.routing_imbalance;
  const V chosen = symbol<V>("k", n.layer.moe.top_k, "experts of a token", "model");
  if (imbalance == 1) return chosen / n.r;
  return chosen * symbol<V>("u", imbalance, "tokens of the most loaded rank over the mean", "stack") / n.r;
}

/// Width that the experts see of a token.
template <class V>
V routed_width(const LayerSizes<V>& n) {
  const MoeShape& shape = n.layer.moe;
  return symbol<V>("d", shape.latent > 0 ? shape.latent : n.model.hidden, "width that experts see", "model");
}

/// Width of the keys, and of the values, on one rank.
template <class V>
V kv_on_rank(const AttentionShape& shape, const V& t) {
  return shared_heads_on_rank(symbol<V>("g", shape.kv_heads, "heads of keys and values", "model"),
                              symbol<V>("d", shape.head_dim, "width of a head", "model"), t);
}

/// Width of the queries of one rank.
template <class V>
V q_on_rank(const AttentionShape& shape, const V& t) {
  return symbol<V>("q", shape.q(), "width of all queries", "model") / t;
}

}  // namespace plan
