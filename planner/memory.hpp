#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "formulas/layout.hpp"
#include "formulas/model.hpp"
#include "formulas/training.hpp"
#include "planner/estimate.hpp"
#include "planner/problem.hpp"

namespace plan {

/// Memory facts that depend only on how a layer is split (tp, cp, ep, etp, micro_batch, recompute,
/// sequence parallelism), computed once and shared by all layouts that split it so.
struct LayerMemory {
  double dense_parameters = 0;   ///< on this rank, dense gradient group
  double expert_parameters = 0;  ///< on this rank, expert gradient group
  double trained_dense = 0;      ///< of them, with gradient and optimizer state (adapters under LoRA)
  double trained_expert = 0;
  double saved = 0;                ///< bytes kept per micro-batch from forward to backward, no recompute
  double kept = 0;                 ///< the same under the layout's recompute choice
  double checkpoint = 0;           ///< bytes kept if the layer is fully recomputed
  double forward_transient = 0;    ///< alive only while this layer's forward runs
  double backward_transient = 0;   ///< alive only while this layer's backward runs
  double recompute_transient = 0;  ///< rebuilt before this layer's backward: what `kept` lacks of `saved`
  double gathered = 0;             ///< bytes of the unsharded block while FSDP works on it
};

/// The same for what stands at the ends of the pipeline.
struct EndMemory {
  double embedding_parameters = 0;
  double head_parameters = 0;  ///< head and final norm; the embedding's copy when tied over stages
  double embedding_saved = 0;  ///< per micro-batch
  double head_saved = 0;       ///< per micro-batch: final norm, head input, logits as the loss keeps them
  double head_transient = 0;   ///< at the loss's peak
  double mtp_parameters = 0;   ///< one prediction module: its layers and projection
  double mtp_saved = 0;
};

inline constexpr int kMaxLayerKinds = 16;

/// What one pipeline rank holds: how many layers of each kind, and which ends.
struct StageContent {
  std::array<int, kMaxLayerKinds> layers_of_kind{};  ///< indexed by model kind
  bool embedding = false;
  bool head = false;
  int mtp = 0;  ///< multi-token prediction modules
};

/// The three readings of one peak that tools print.
struct MemoryKinds {
  Bytes allocated{};  ///< torch.cuda.max_memory_allocated
  Bytes reserved{};   ///< torch.cuda.max_memory_reserved: with what the allocator cannot hand out again
  Bytes device{};     ///< nvidia-smi: with the CUDA context and NCCL's buffers
};
[[nodiscard]] inline MemoryKinds memory_kinds(const StageMemory& stage) {
  const Bytes reserved = stage.total() - stage.communication - stage.context;
  return {reserved - stage.reserve, reserved, stage.total()};
}

/// Memory of all stages of a problem under layouts that split layers alike.
class MemoryModel {
 public:
  /// Precomputes everything that depends on tp, cp, ep, etp, micro_batch, sequence parallelism and recompute.
  MemoryModel(const Problem& problem, const Layout& layout);

  const LayerMemory& layer(int kind) const { return layers_[static_cast<std::size_t>(kind)]; }
  const EndMemory& ends() const { return ends_; }

  /// Memory of `rank` (0 first) of `layout`, which may differ from the constructor's only in pp, vp,
  /// dp, zero, shard, schedule and chunk_layers. `in_flight` is in whole-stage micro-batches.
  [[nodiscard]] StageMemory stage(const Layout& layout, int rank, const StageContent& content, double in_flight) const;

  /// Name of the instant at which the stage peaks: "loss backward", "moe forward", "optimizer step", ...
  [[nodiscard]] const char* peak_instant(const Layout& layout, int rank, const StageContent& content,
                                         double in_flight) const;

 private:
  const Problem* problem_;
  std::vector<LayerMemory> layers_;
  EndMemory ends_;
};

}  // namespace plan
