#pragma once

#include "formulas/layout.hpp"
#include "formulas/model.hpp"
#include "formulas/training.hpp"
#include "formulas/units.hpp"

namespace plan {

/// Tokens that one rank works on per micro-batch, before tensor parallelism splits them: b s / c.
[[nodiscard]] double rank_tokens(const Training& training, const Layout& layout);

/// Bytes that one layer keeps on one rank from its forward to its backward pass, per micro-batch.
/// One field per fate: what a recompute module can drop stands apart from the rest (plan-formulas(7) D1-D4).
struct LayerLedger {
  double mixer_input = 0;        ///< residual stream into the mixer's norm
  double mixer_norm = 0;         ///< that norm's output, the input of its first GEMM
  double mixer = 0;              ///< q, k, v, latents, scan states, input of the output projection
  double latent_up = 0;          ///< of MLA: what the up-projections and RoPE make (mla_up_proj)
  double core = 0;               ///< softmax statistics, or the s*s tensors without flash (core_attn)
  double ffn_input = 0;          ///< residual stream into the FFN's norm
  double ffn_norm = 0;           ///< that norm's output
  double mlp = 0;                ///< dense FFN: the activation's input (mlp)
  double mlp_activation = 0;     ///< dense FFN: the activation's output (mlp, mlp_act)
  double router = 0;             ///< logits and probabilities
  double routed = 0;             ///< permuted tokens and activation inputs of the experts (moe)
  double routed_activation = 0;  ///< activation outputs of the experts (moe, moe_act)
  double routed_output = 0;      ///< copies of the experts' outputs (older dispatchers)
  double shared = 0;             ///< shared experts (moe, shared_experts)
  double statistics = 0;         ///< one or two numbers a token and norm
  double masks = 0;              ///< residual dropout

  /// Everything that backward of the FFN frees before backward of the mixer starts.
  double ffn() const {
    return ffn_input + ffn_norm + mlp + mlp_activation + router + routed + routed_activation + routed_output + shared;
  }
  double total() const { return mixer_input + mixer_norm + mixer + latent_up + core + ffn() + statistics + masks; }
  bool operator==(const LayerLedger&) const = default;
};

/// The ledger of one layer under the layout's tp, cp, ep, etp, micro_batch and sequence parallelism.
///
/// Assumes dropout masks of one byte, RoPE and residual additions that save nothing. Fused norms keep no copy of the
/// residual in fp32; PyTorch's own RMSNorm, written out, keeps that copy in place of its input, and the normalised
/// input before the weight (transformers, LlamaRMSNorm). Sources: [KOR] for GPT, [TE] and [MCORE] read for Llama, MLA
/// and MoE; Mamba-2 and DeltaNet derived from the arguments that their kernels save.
[[nodiscard]] LayerLedger layer_ledger(const Model& model, const Layer& layer, const Training& training,
                                       const Layout& layout);

/// Bytes left of a ledger when `modules` (RecomputeModule bits) are dropped and rebuilt.
/// `fused_norms`: the norm's output is rebuilt with the GEMM that it is fused into.
[[nodiscard]] double kept_selective(const LayerLedger& ledger, unsigned modules, bool fused_norms);

/// What stays on the GPU of a ledger when the inputs of `training.offload.modules` wait in host memory: of the norms
/// the residual stream, of the attention q, k and v, of its projection the attention's output, of the experts the
/// permuted tokens, of their activation its input [MCORE].
[[nodiscard]] LayerLedger left_on_gpu(LayerLedger ledger, const Layer& layer, const Model& model,
                                      const Training& training, const Layout& layout);

/// Bytes of one layer that wait there: all that it keeps if whole layers go, else what is not left.
[[nodiscard]] inline double offloaded_bytes(const LayerLedger& whole, const LayerLedger& left, const Offload& offload) {
  return offload.layers > 0 ? whole.total() : whole.total() - left.total();
}

/// Seconds by which copies of `bytes` over the host link outlast the work that runs beside them; 0: link unknown.
[[nodiscard]] constexpr double offload_stall(double bytes, BytesPerSecond link, double work) {
  const double copies = link.value > 0 ? bytes / link.value : 0;
  return copies > work ? copies - work : 0;
}

/// Bytes left under torchtitan's "selective op": the layer's input, the attention kernel's output and
/// statistics, and the output of every second matrix product; the rest is rebuilt [TT].
[[nodiscard]] double kept_ops(const Model& model, const Layer& layer, const LayerLedger& ledger,
                              const Training& training, const Layout& layout);

/// Bytes left when the whole layer is rebuilt from its input: 2 N h, split by sequence parallelism.
[[nodiscard]] double layer_checkpoint(const Model& model, const Training& training, const Layout& layout);

/// Bytes per element of a tensor that is kept only as the input of a GEMM.
[[nodiscard]] double gemm_input_bytes(Precision precision);

// The closed forms of the textbooks stand, as text and code, in formulas/textbook_activations.hpp.

}  // namespace plan
