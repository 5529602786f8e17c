#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "formulas/model.hpp"
#include "formulas/traced.hpp"

/// The weights of a layer, one by one: what parameters, FLOPs of matrix products, adapters, distinct shapes and their
/// explanation are all sums over. Each mixer and FFN lists its own (mixer_attention.cpp, ffn_moe.cpp, ...).
namespace plan {

/// Width on one rank of heads that several query heads share: they are copied when there are fewer than tensor ranks.
template <class V>
V shared_heads_on_rank(const V& heads, const V& width, const V& t) {
  return larger(heads, t) * width / t;
}

/// Which axis splits a weight.
enum class Spread : std::uint8_t {
  Tensor,       ///< tensor parallelism, by columns or rows
  Whole,        ///< none: norms, router, latent down-projections
  Expert,       ///< expert parallelism, and tensor parallelism within experts
  ExpertWhole,  ///< expert parallelism alone: second biases of experts
};

/// What a matrix product belongs to; recomputation and MFU count these apart.
enum class LayerPart : std::uint8_t { Mixer, LatentUp, Dense, Experts, Shared, Router };

/// One weight of the unsplit layer: a matrix of `out` rows and `in` columns, or a vector of `out` elements (`in` 0).
struct Weight {
  const char* what = "";
  LayerPart part = LayerPart::Mixer;
  Spread spread = Spread::Tensor;
  std::int64_t out = 0;
  std::int64_t in = 0;
  std::int64_t kv_out = 0;    ///< rows beside them that belong to heads of keys and values
  std::int64_t kv_heads = 0;  ///< those heads: copied where there are fewer than tensor ranks
  /// A linear of the layer proper, which may carry an adapter and whose gradients a stack may cache by shape. Router,
  /// indexer and gates are matrix products without either.
  bool linear = true;
  std::int64_t linears = 1;  ///< that it is where a stack does not fuse what reads one input
  bool joined = false;       ///< runs as one product with the weight before it
  bool second = false;       ///< of a pair: split by what it reads, where others are split by what they make

  bool matrix() const { return in > 0; }
  bool expert() const { return spread == Spread::Expert || spread == Spread::ExpertWhole; }
  std::int64_t numel() const { return (out + kv_out) * (matrix() ? in : 1); }

  /// Rows, or a vector's elements, on one of `tp` ranks; of an expert, on one of the `etp` ranks that share it.
  double rows_on_rank(int tp, int etp) const;
  /// Columns likewise; 1 for a vector.
  double columns_on_rank(int tp, int etp) const;

 private:
  double shared_by(int tp, int etp) const;
};

/// All weights of a layer.
class LayerWeights {
 public:
  void add(const Weight& weight) {
    if (weight.out + weight.kv_out > 0) weights_[size_++] = weight;
  }
  const Weight* begin() const { return weights_.data(); }
  const Weight* end() const { return weights_.data() + size_; }

 private:
  std::array<Weight, 24> weights_{};  // latent attention with an indexer and experts have 22
  std::size_t size_ = 0;
};

// One mixer or FFN each; `h` is the hidden width.

void add_attention_weights(LayerWeights& out, std::int64_t h, const AttentionShape& shape);
void add_latent_weights(LayerWeights& out, std::int64_t h, const LatentShape& shape);
void add_mamba_weights(LayerWeights& out, std::int64_t h, const Mamba2Shape& shape);
void add_delta_weights(LayerWeights& out, std::int64_t h, const DeltaNetShape& shape);
void add_dense_weights(LayerWeights& out, std::int64_t h, const DenseShape& shape);
void add_moe_weights(LayerWeights& out, std::int64_t h, const MoeShape& shape);

}  // namespace plan
