#pragma once

#include <cstdint>
#include <initializer_list>

#include "formulas/model.hpp"
#include "formulas/training.hpp"
#include "formulas/units.hpp"

/// What a mixer computes on one rank, operator by operator. A mixer says it once, in its own file; who prices operators
/// (planner/cost/layer_cost.hpp) takes them.
namespace plan {

/// The three products of a linear.
struct LinearTime {
  Seconds forward{}, data{}, weight{};
};

/// Bytes that PyTorch's chain of kernels reads and writes for one element where nothing fuses it, counted kernel by
/// kernel with 16-bit activations and fp32 inside norms; none: one kernel does it (LayerNorm, GELU).
struct KernelChain {
  double forward = 0, backward = 0;
};
/// To fp32, square, mean, scale, back to 16 bits, weight.
inline constexpr KernelChain kRmsNormChain{6 + 8 + 4 + 8 + 6 + 4, 4 + 8 + 6 + 8 + 16 + 16 + 12 + 6};
/// x cos + rotate_half(x) sin: two products, negation, concatenation, sum.
inline constexpr KernelChain kRotaryChain{4 + 4 + 2 + 4 + 6, 4 + 4 + 2 + 4 + 6};
/// silu(a) b: activation and product; two products and the activation's own gradient.
inline constexpr KernelChain kGatedChain{4 + 6, 6 + 6 + 6};

/// What a norm runs kernel by kernel; nothing where one kernel does all of it.
[[nodiscard]] inline KernelChain norm_chain(const Model& model, const Stack& stack) {
  return model.norm == Norm::Rms && !stack.fused_norms ? kRmsNormChain : KernelChain{};
}

/// Memory-bound work on rows x width elements.
struct Pointwise {
  const char* what;
  double rows, width;
  double forward, backward;  ///< bytes read and written of an element
  double kernels;
  std::uint16_t module = 0;
  KernelChain chain{};
};

/// Scores of queries against keys, softmax, and the values that it weighs.
struct AttentionCore {
  double heads, kv_heads;  ///< on the rank
  double qk_dim, v_dim;
  std::int64_t window = 0;  ///< keys that a query can reach; 0 = all before it
  std::int64_t top_k = 0;   ///< keys that it then chooses; 0 = all of them
  bool fused = true;        ///< false: no kernel spares the scores of the whole sequence
};

/// A chunked scan of so many FLOPs, with the convolution, gate and states around it.
struct ScanCore {
  Flops flops;
  double width;          ///< of what the convolution passes on
  double read, written;  ///< elements of a token that context ranks exchange for heads, and back
};

/// Where operators run, and on how much.
struct LayerOnRank {
  const Model& model;
  const Training& training;
  const Layer& layer;
  double hidden;        ///< h
  double t;             ///< tensor-parallel ranks
  double c;             ///< context-parallel ranks
  double tokens;        ///< of one micro-batch on the rank
  double shard_tokens;  ///< of them, those of its share of the sequence between tensor-parallel parts
};

class LayerOperators {
 public:
  virtual ~LayerOperators() = default;
  LayerOperators(const LayerOperators&) = delete;
  LayerOperators& operator=(const LayerOperators&) = delete;

  /// A matrix product with a weight of `out` rows and `in` columns; `module`: RecomputeModule bit that repeats it.
  virtual LinearTime product(double tokens, double out, double in, std::uint16_t module = 0) = 0;
  /// Products of one input, `widths` wide: one where a stack keeps their weights in one, else one each.
  virtual LinearTime products(double tokens, std::initializer_list<double> widths, double in, bool fused) = 0;
  virtual void pointwise(const Pointwise& work) = 0;
  virtual void attention(const AttentionCore& core) = 0;
  virtual void scan(const ScanCore& core) = 0;
  /// Messages of tensor parallelism: before the first linear, which reads `in` elements of a token, and after the last,
  /// which writes `out`. `first` computes beside them.
  virtual void messages(double in, double out, const LinearTime& first) = 0;

 protected:
  LayerOperators() = default;
};

}  // namespace plan
