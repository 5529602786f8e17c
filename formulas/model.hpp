#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plan {

/// What mixes tokens in a layer.
enum class Mixer : std::uint8_t { None, Attention, Latent, Mamba2, DeltaNet };

/// What follows the mixer.
enum class Ffn : std::uint8_t { None, Dense, Moe };

enum class Norm : std::uint8_t { Rms, Layer };

/// Normalisation of queries and keys: none, over each head, or over the whole projection.
enum class QkNorm : std::uint8_t { None, PerHead, Full };

/// Multi-head, grouped-query and multi-query attention. q = heads * head_dim, kv = kv_heads * head_dim.
struct AttentionShape {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  bool qkv_bias = false;
  bool out_bias = false;
  QkNorm qk_norm = QkNorm::None;
  bool sinks = false;        ///< one learned logit per head (gpt-oss)
  bool output_gate = false;  ///< query projection twice as wide (Qwen3-Next)
  std::int64_t window = 0;   ///< sliding window in tokens; 0 = full

  std::int64_t q() const { return heads * head_dim; }
  std::int64_t kv() const { return kv_heads * head_dim; }
  bool operator==(const AttentionShape&) const = default;
};

/// Multi-head latent attention (DeepSeek). `q_rank` 0 means a direct query projection.
struct LatentShape {
  std::int64_t heads = 0;
  std::int64_t q_rank = 0;
  std::int64_t kv_rank = 0;
  std::int64_t nope_dim = 0;
  std::int64_t rope_dim = 0;
  std::int64_t value_dim = 0;
  std::int64_t index_heads = 0;  ///< sparse-attention indexer (V3.2, GLM-5); 0 = none
  std::int64_t index_dim = 0;
  std::int64_t index_top_k = 0;  ///< tokens each query attends to; 0 = all

  std::int64_t qk_dim() const { return nope_dim + rope_dim; }
  bool operator==(const LatentShape&) const = default;
};

/// Mamba-2 mixer: inner width heads * head_dim.
struct Mamba2Shape {
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t groups = 0;
  std::int64_t state = 0;
  std::int64_t conv = 0;
  bool operator==(const Mamba2Shape&) const = default;
};

/// Gated DeltaNet (Qwen3-Next).
struct DeltaNetShape {
  std::int64_t key_heads = 0;
  std::int64_t value_heads = 0;
  std::int64_t key_dim = 0;
  std::int64_t value_dim = 0;
  std::int64_t conv = 0;
  bool operator==(const DeltaNetShape&) const = default;
};

struct DenseShape {
  std::int64_t width = 0;
  bool gated = true;  ///< SwiGLU/GeGLU (three matrices) against GELU/relu^2 (two)
  bool bias = false;
  bool operator==(const DenseShape&) const = default;
};

struct MoeShape {
  std::int64_t experts = 0;
  std::int64_t top_k = 0;
  std::int64_t expert_width = 0;
  std::int64_t shared_width = 0;  ///< all shared experts together
  bool gated = true;
  bool expert_bias = false;  ///< biases in the experts (gpt-oss)
  bool router_bias = false;  ///< a learned bias in the router (gpt-oss)
  bool score_bias = false;   ///< load-balancing bias, a buffer and not a parameter
  bool shared_gate = false;  ///< gate on the shared expert (Qwen1.5-MoE, Qwen3-Next)
  std::int64_t latent = 0;   ///< experts on a narrower width (Nemotron-3 Super); 0 = hidden
  bool operator==(const MoeShape&) const = default;
};

struct MixerRow;  // formulas/layer_rows.hpp
struct FfnRow;

/// One row a mixer, in the order of Mixer; each has a file of its own, mixer_*.cpp.
extern const MixerRow kNoMixer, kAttentionMixer, kLatentMixer, kMamba2Mixer, kDeltaNetMixer;
inline constexpr const MixerRow* kMixerRows[] = {&kNoMixer, &kAttentionMixer, &kLatentMixer, &kMamba2Mixer,
                                                 &kDeltaNetMixer};

/// Likewise one a feed-forward, ffn_*.cpp.
extern const FfnRow kNoFfn, kDenseFfn, kMoeFfn;
inline constexpr const FfnRow* kFfnRows[] = {&kNoFfn, &kDenseFfn, &kMoeFfn};

/// One kind of layer. Only the shapes that `mixer` and `ffn` name count.
struct Layer {
  Mixer mixer = Mixer::Attention;
  Ffn ffn = Ffn::Dense;
  AttentionShape attention{};
  LatentShape latent{};
  Mamba2Shape mamba{};
  DeltaNetShape delta{};
  DenseShape dense{};
  MoeShape moe{};
  int norms = 2;         ///< norms over the hidden width: 2, Gemma 4, Nemotron-H 1, Falcon parallel 1
  bool in_bf16 = false;  ///< its products stay in bf16 where the training's are in fp8 or fp4
  bool operator==(const Layer&) const = default;
};

/// Are the layers of one shape, whatever the format of their products?
inline bool same_shape(Layer a, const Layer& b) {
  a.in_bf16 = b.in_bf16;
  return a == b;
}

/// Multi-token prediction: extra layers after the last, each with its projection and three norms.
struct Mtp {
  int depth = 0;               ///< prediction modules; 0 = none
  int passes = 1;              ///< times each module runs, every time one token further, with the same weights
  std::vector<int> kinds{};    ///< layer kinds of one module, front to back
  bool own_embedding = false;  ///< the checkpoint stores embedding and head again
  /// Times that a module's layers, projection and head are computed.
  constexpr int runs() const { return depth * passes; }
  bool operator==(const Mtp&) const = default;
};

/// A decoder as the planner sees it: distinct layer kinds and, front to back, which kind each layer is.
struct Model {
  std::string name{};
  std::int64_t hidden = 0;
  std::int64_t vocab = 0;
  bool tied = false;           ///< head shares the embedding's weights
  std::int64_t positions = 0;  ///< learned position embeddings; 0 = none (RoPE, ALiBi)
  Norm norm = Norm::Rms;
  bool norm_bias = true;        ///< only for Norm::Layer (MPT has none)
  bool norm_weights = true;     ///< norms scale what they have normalised (OLMo 1 does not)
  bool embedding_norm = false;  ///< a norm after the embedding (BLOOM)
  bool head_bias = false;
  std::vector<Layer> kinds{};
  std::vector<int> layers{};  ///< index into `kinds`, one per layer
  Mtp mtp{};
  double dropout = 0;                        ///< residual and attention dropout of the published recipe
  std::int64_t extra_parameters = 0;         ///< vision tower and the like: in the checkpoint, not trained here
  std::int64_t default_seq = 4096;           ///< the published pre-training sequence
  std::int64_t default_global_batch = 1024;  ///< sequences, likewise

  int depth() const { return static_cast<int>(layers.size()); }
  /// Parameters of one norm for each element of its width: scale, and shift for LayerNorm with bias.
  int norm_vectors() const { return !norm_weights ? 0 : norm == Norm::Layer && norm_bias ? 2 : 1; }
  bool moe() const {
    for (const Layer& kind : kinds)
      if (kind.ffn == Ffn::Moe) return true;
    return false;
  }
  /// Routed experts of a layer, the same in all MoE layers of a model; 0 if dense.
  std::int64_t experts() const {
    for (const Layer& kind : kinds)
      if (kind.ffn == Ffn::Moe) return kind.moe.experts;
    return 0;
  }
  bool operator==(const Model&) const = default;
};

}  // namespace plan
