#pragma once

#include <cstdint>
#include <vector>

#include "formulas/layer_ledger.hpp"
#include "formulas/layout.hpp"
#include "formulas/model.hpp"
#include "formulas/real_bytes.hpp"
#include "formulas/traced.hpp"
#include "formulas/training.hpp"
#include "formulas/units.hpp"

namespace plan {

/// The ledger of one layer under the layout's tp, cp, ep, etp, micro_batch and sequence parallelism.
///
/// Assumes dropout masks of one byte, RoPE and residual additions that save nothing. Fused norms keep no copy of the
/// residual in fp32; PyTorch's own RMSNorm, written out, keeps that copy in place of its input, and the normalised
/// input before the weight (transformers, LlamaRMSNorm). Sources: [KOR] for GPT, [TE] and [MCORE] read for Llama, MLA
/// and MoE; Mamba-2 and DeltaNet derived from the arguments that their kernels save.
[[nodiscard]] LayerLedger layer_ledger(const Model& model, const Layer& layer, const Training& training,
                                       const Layout& layout);

/// Fates whose tensors recomputing `modules` (RecomputeModule bits) drops. `fused_norms`: the norm's output is rebuilt
/// with the GEMM that it is fused into, that of the dense FFN with its `mlp`, where there is one.
[[nodiscard]] Fates dropped(unsigned modules, bool fused_norms, bool mlp);

/// Bytes left of a ledger when `modules` are dropped and rebuilt.
[[nodiscard]] RealBytes kept_selective(const LayerLedger& ledger, unsigned modules, bool fused_norms);

/// OffloadModule bits of those of `training.offload.modules` whose inputs leave the GPU in this layer: not what its
/// mixer leaves there, nor a norm at the edge of what CUDA graphs launch (core_v0.19.0, transformer_layer.py,
/// _set_offload_modules).
[[nodiscard]] unsigned leaving_modules(const Layer& layer, const Training& training);

/// What stays on the GPU of a ledger when the inputs of `training.offload.modules` wait in host memory: of the norms
/// the residual stream, of the attention q, k and v, of its projection the attention's output, of the experts the
/// permuted tokens, of their activation its input [MCORE].
[[nodiscard]] LayerLedger left_on_gpu(const LayerLedger& ledger, const Layer& layer, const Model& model,
                                      const Training& training, const Layout& layout);

/// Bytes of one layer that wait there: all that it keeps if whole layers go, else what is not left.
[[nodiscard]] inline RealBytes offloaded_bytes(const LayerLedger& whole, const LayerLedger& left,
                                               const Offload& offload) {
  return offload.layers > 0 ? whole.total() : whole.total() - left.total();
}

/// By how much copies of `bytes` over the host link outlast the work that runs beside them; nothing: link unknown.
[[nodiscard]] constexpr Seconds offload_stall(RealBytes bytes, BytesPerSecond link, Seconds work) {
  const Seconds copies = link.value > 0 ? bytes / link : Seconds();
  return copies > work ? copies - work : Seconds();
}

/// Bytes left under torchtitan's "selective op": the layer's input, the attention kernel's output and
/// statistics, and the output of every second matrix product; the rest is rebuilt [TT].
[[nodiscard]] RealBytes kept_ops(const Model& model, const Layer& layer, const LayerLedger& ledger,
                                 const Training& training, const Layout& layout);

/// Bytes left when the whole layer is rebuilt from its input: 2 N h, split by sequence parallelism.
[[nodiscard]] RealBytes layer_checkpoint(const Model& model, const Training& training, const Layout& layout);

// The laws above with a report: each computes what its namesake does, by the same lines.

/// Tensors that add up to layer_ledger.
[[nodiscard]] std::vector<KeptTensor> kept_tensors(const Model& model, const Layer& layer, const Training& training,
                                                   const Layout& layout);
/// kept_ops; `total` and `core` mean the whole ledger and its softmax statistics.
[[nodiscard]] Traced traced_ops(const Model& model, const Layer& layer, const Traced& total, const Traced& core,
                                const Training& training, const Layout& layout);
[[nodiscard]] Traced traced_checkpoint(const Model& model, const Training& training, const Layout& layout);

// The closed forms of the textbooks are, as text and code, in formulas/textbook/textbook_activations.hpp.

}  // namespace plan
