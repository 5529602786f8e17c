#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "formulas/layout.hpp"
#include "formulas/real_bytes.hpp"
#include "formulas/traced.hpp"
#include "formulas/training.hpp"

/// What a layer keeps from its forward to its backward pass: the words of it. Which tensors those are each mixer and
/// feed-forward says (layer_trail.hpp), and what becomes of them activation.hpp.
namespace plan {

/// Tokens that one rank works on per micro-batch, before tensor parallelism splits them: b s / c.
[[nodiscard]] inline double rank_tokens(const Training& training, const Layout& layout) {
  return static_cast<double>(training.seq) * layout.micro_batch / layout.cp;
}

/// What recomputation may do with a tensor that a layer keeps: one value for all that a module drops together
/// (plan-formulas(7) D1-D4).
enum class Fate : std::uint8_t {
  MixerInput,        ///< residual stream into the mixer's norm
  MixerNorm,         ///< that norm's output, the input of its first GEMM
  Mixer,             ///< q, k, v, latents, scan states, input of the output projection
  LatentUp,          ///< of MLA: what the up-projections and RoPE make (mla_up_proj)
  Core,              ///< softmax statistics, or the s*s tensors without flash (core_attn)
  FfnInput,          ///< residual stream into the FFN's norm
  FfnNorm,           ///< that norm's output
  Mlp,               ///< dense FFN: the activation's input (mlp)
  MlpActivation,     ///< dense FFN: the activation's output (mlp, mlp_act)
  Router,            ///< logits and probabilities
  Routed,            ///< permuted tokens and activation inputs of the experts (moe)
  RoutedActivation,  ///< activation outputs of the experts (moe, moe_act)
  RoutedOutput,      ///< copies of the experts' outputs (older dispatchers)
  Shared,            ///< shared experts (moe, shared_experts)
  Statistics,        ///< one or two numbers a token and norm
  Masks,             ///< residual dropout
};
inline constexpr std::size_t kFates = 16;

/// Bytes that one layer keeps on one rank from its forward to its backward pass, per micro-batch, by their fate.
class LayerLedger {
 public:
  RealBytes& operator[](Fate fate) { return bytes_[static_cast<std::size_t>(fate)]; }
  RealBytes operator[](Fate fate) const { return bytes_[static_cast<std::size_t>(fate)]; }
  /// Everything that backward of the FFN frees before backward of the mixer starts.
  RealBytes ffn() const { return sum(Fate::FfnInput, Fate::Shared); }
  RealBytes total() const { return sum(Fate::MixerInput, Fate::Masks); }
  /// All of it `times` over: from a token to the tokens of a micro-batch.
  void scale(double times) {
    for (RealBytes& bytes : bytes_) bytes = bytes * times;
  }
  bool operator==(const LayerLedger&) const = default;

 private:
  RealBytes sum(Fate first, Fate last) const {
    RealBytes bytes;
    for (auto fate = static_cast<std::size_t>(first); fate <= static_cast<std::size_t>(last); ++fate)
      bytes += bytes_[fate];
    return bytes;
  }
  std::array<RealBytes, kFates> bytes_{};
};

/// Fates as a set: bit i is the i-th.
using Fates = std::uint32_t;
[[nodiscard]] constexpr Fates bit_of(Fate fate) { return Fates{1} << static_cast<unsigned>(fate); }

/// One tensor of a layer's ledger with its equation: bytes of a micro-batch on the rank.
struct KeptTensor {
  Fate fate;
  std::uint16_t offload;  ///< OffloadModule bit that sends it to host memory; 0 = none
  const char* name;       ///< its letters within the layer
  const char* what;
  Traced bytes;
};

}  // namespace plan
