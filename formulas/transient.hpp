#pragma once

#include <array>
#include <cstdint>

#include "formulas/cluster.hpp"
#include "formulas/layout.hpp"
#include "formulas/model.hpp"
#include "formulas/real_bytes.hpp"
#include "formulas/states.hpp"
#include "formulas/traced.hpp"
#include "formulas/training.hpp"

namespace plan {

/// Alive only while one layer runs (plan-formulas(7) D6 b-e). Held: RealBytes, or Traced for who asks how.
template <class Held>
struct LayerTransientOf {
  Held forward{0.0};             ///< MoE dispatcher, key-value buffers of context parallelism
  Held ffn_backward{0.0};        ///< incoming gradient, gradient of the activation's input
  Held attention_backward{0.0};  ///< gradients in and out, fp32 dQ accumulator, expanded dK and dV
};
using LayerTransient = LayerTransientOf<RealBytes>;
[[nodiscard]] LayerTransient layer_transient(const Model& model, const Layer& layer, const Training& training,
                                             const Layout& layout);
[[nodiscard]] LayerTransientOf<Traced> traced_transient(const Model& model, const Layer& layer,
                                                        const Training& training, const Layout& layout);

/// What the head and its loss keep and need, per micro-batch (plan-formulas(7) D6 a).
template <class Held>
struct HeadMemoryOf {
  Held saved{0.0};     ///< inputs of final norm and head
  Held logits{0.0};    ///< what the loss keeps for its backward pass
  Held loss{0.0};      ///< logits in all their copies at the loss's own peak
  Held hole{0.0};      ///< freed logits whose place is too small for their gradients: reserved, not allocated
  Held backward{0.0};  ///< logits' gradient with the head's input gradient, whole and scattered
  Held resident{0.0};  ///< head input gathered over sequence parallel ranks, a buffer kept once used
};
using HeadMemory = HeadMemoryOf<RealBytes>;
[[nodiscard]] HeadMemory head_memory(const Model& model, const Training& training, const Layout& layout);
[[nodiscard]] HeadMemoryOf<Traced> traced_head(const Model& model, const Training& training, const Layout& layout);

/// Rows of embedding and head on one rank: Megatron pads the vocabulary, others split it as it is.
[[nodiscard]] double vocab_rows(const Model& model, const Training& training, const Layout& layout);

/// What the embedding keeps: token ids, dropout mask.
[[nodiscard]] RealBytes embedding_saved(const Model& model, const Training& training, const Layout& layout);
[[nodiscard]] Traced traced_embedding(const Model& model, const Training& training, const Layout& layout);

/// Gradient that a pipeline stage behind the first keeps referenced after it sent it: 2 N h / t.
[[nodiscard]] RealBytes stale_gradient(const Model& model, const Training& training, const Layout& layout);

/// Shape of a linear's weight on one rank and how many the layer has of it.
struct LinearShape {
  double rows = 0;
  double columns = 0;
  double count = 1;
  bool expert = false;
  double numel() const { return rows * columns; }
};

/// The linears of a layer on one rank; unused entries have no rows.
struct LinearShapes {
  std::array<LinearShape, 12> shapes{};
  int size = 0;
  void add(const LinearShape& shape) {
    if (shape.rows > 0 && shape.columns > 0 && shape.count > 0) shapes[static_cast<std::size_t>(size++)] = shape;
  }
  /// Weights of all linears together, or of those of experts.
  double numel(bool experts_only = false) const {
    double sum = 0;
    for (int i = 0; i < size; ++i) {
      const LinearShape& shape = shapes[static_cast<std::size_t>(i)];
      if (shape.expert || !experts_only) sum += shape.numel() * shape.count;
    }
    return sum;
  }
};
[[nodiscard]] LinearShapes linear_shapes(const Model& model, const Layer& layer, const Layout& layout);

/// The generation whose constants an architecture takes: its own, or of those fitted the one of its time, whose tensor
/// cores have the same narrow types. An unknown one takes the plainest.
[[nodiscard]] constexpr GpuGeneration generation(Architecture architecture) {
  switch (architecture) {
    case Architecture::Unknown:
    case Architecture::Volta:
    case Architecture::Turing:
    case Architecture::Ampere:
    case Architecture::Cdna2:
    case Architecture::TpuV3:
    case Architecture::TpuV4:
    case Architecture::TpuV5e:
    case Architecture::TpuV5p: return GpuGeneration::Ampere;
    case Architecture::Ada:
    case Architecture::Hopper:
    case Architecture::Cdna3:
    case Architecture::Gaudi2:
    case Architecture::Gaudi3:
    case Architecture::TpuV6e:
    case Architecture::TpuV7:
    case Architecture::NeuronV3: return GpuGeneration::Hopper;
    case Architecture::Blackwell:
    case Architecture::RtxBlackwell:
    case Architecture::Cdna4: return GpuGeneration::Blackwell;
  }
  return GpuGeneration::Ampere;
}

/// cuBLAS workspace that TransformerEngine allocates per stream: 32 MiB from Hopper on, 4 MiB before [TE].
[[nodiscard]] constexpr RealBytes gemm_workspace(GpuGeneration generation) {
  return RealBytes((generation == GpuGeneration::Ampere ? 4.0 : 32.0) * kMiB);
}
/// Streams of the grouped GEMM, each with its own workspace [TE].
inline constexpr double kGroupedGemmStreams = 4;

/// Workspaces of PyTorch's own matrix products (head, router): one for the forward thread and one for
/// autograd's. :4096:8 = 32 MiB on Hopper and in deterministic mode, :4096:2:16:8 = 8.125 MiB elsewhere
/// [PyTorch CublasHandlePool.cpp].
[[nodiscard]] constexpr RealBytes torch_workspaces(GpuGeneration generation, bool deterministic) {
  const bool large = deterministic || generation == GpuGeneration::Hopper;
  return RealBytes(2 * (large ? 32.0 : 8.125) * kMiB);
}
/// Allocated beside everything counted here: random states, scalars, small tables. What is left of
/// Megatron's measured static memory after states and workspaces: 2.0, 3.1 and 4.0 MiB on three stacks.
inline constexpr RealBytes kStaticResidue{3.0 * kMiB};

/// What the caching allocator holds beyond what is allocated, of all that is: segments that hold both live and freed
/// blocks. Reserved peaks of 19 runs without expandable segments lie 2.8 to 9.3 % above the allocated ones (SimuMax,
/// docs/b200), and fit verdicts of 457 runs on a memory-bound cluster part best at 4 %; expandable segments map pages
/// instead: 2 %.
[[nodiscard]] constexpr double allocator_reserve(bool expandable_segments) { return expandable_segments ? 0.02 : 0.04; }

// The largest of these are written as text in formulas/textbook/textbook_activations.hpp and textbook_collectives.hpp.

}  // namespace plan
