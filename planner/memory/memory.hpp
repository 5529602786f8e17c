#pragma once

#include <array>
#include <vector>

#include "formulas/activation.hpp"
#include "formulas/layout.hpp"
#include "formulas/model.hpp"
#include "formulas/nccl_buffers.hpp"
#include "formulas/states.hpp"
#include "formulas/training.hpp"
#include "formulas/transient.hpp"
#include "planner/answer/estimate.hpp"
#include "planner/memory/resident.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// Memory facts that depend only on how a layer is split (tp, cp, ep, etp, micro_batch, recompute,
/// sequence parallelism), computed once and shared by all layouts that split it so.
struct LayerMemory {
  double dense_parameters = 0;   ///< on this rank, dense gradient group
  double expert_parameters = 0;  ///< on this rank, expert gradient group
  double trained_dense = 0;      ///< of them, with gradient and optimizer state (adapters under LoRA)
  double trained_expert = 0;
  double quantised_parameters = 0;         ///< of them, weights of GEMMs in fp8 or fp4, which keep quantised copies
  double expert_quantised_parameters = 0;  ///< of those, weights of experts
  RealBytes saved{};                       ///< per micro-batch kept from forward to backward, no recompute
  RealBytes kept{};                        ///< the same under the layout's selective recompute
  RealBytes checkpoint{};                  ///< kept if the layer is fully recomputed
  RealBytes offloaded{};                   ///< waits in host memory instead, per micro-batch
  RealBytes forward_transient{};           ///< alive only while this layer's forward runs
  RealBytes backward_transient{};          ///< alive only while this layer's backward runs, what it rebuilds included
  RealBytes fresh_grads{};  ///< 16-bit gradients of its weights, not reduced yet, when backward needs most
};

/// Memory facts of what lies at the ends of the pipeline: embedding, head, loss and prediction modules.
struct EndMemory {
  double embedding_parameters = 0;  ///< with learned positions
  double head_parameters = 0;       ///< head and final norm; the embedding's copy when tied
  double shared_parameters = 0;     ///< of the head, what the embedding holds already when tied
  RealBytes embedding_saved{};      ///< per micro-batch
  RealBytes head_saved{};           ///< per micro-batch: inputs of final norm and head
  RealBytes logits_saved{};         ///< per micro-batch: what the loss keeps
  RealBytes loss_transient{};       ///< logits in all copies at the loss's own peak
  RealBytes loss_hole{};            ///< what the loss has freed and cannot use again
  RealBytes head_backward{};        ///< logits' gradient and the head's input gradient
  RealBytes head_resident{};        ///< gathered head input, kept once used
  double mtp_parameters = 0;        ///< one prediction module besides its layers: projection and norms
  RealBytes mtp_saved{};            ///< one pass of a prediction module besides its layers
};

inline constexpr int kMaxLayerKinds = 16;

/// What of a cluster decides on the buffers of its collectives.
[[nodiscard]] NcclPlatform nccl_platform(const Cluster& cluster);

/// What one pipeline rank holds: how many layers of each kind, and which ends.
struct StageContent {
  std::array<int, kMaxLayerKinds> layers_of_kind{};  ///< indexed by model kind
  bool embedding = false;
  bool head = false;
  bool hands_on = true;  ///< its output, to the next stage: not so for layers with others of the stage behind them
  int mtp = 0;           ///< multi-token prediction modules
  int cell = 0;          ///< of a pipeline whose stages differ in strategy or GPU (planner/estimate/evaluate.hpp, Cell)
  bool operator==(const StageContent&) const = default;
};

/// Layers of one kind that a rank holds, those of its prediction modules among them.
[[nodiscard]] int layers_held(const Model& model, const StageContent& content, int kind);
/// The same, a layer that runs twice on its weights counted twice: each pass keeps activations of its own.
[[nodiscard]] int layers_run(const Model& model, const StageContent& content, int kind);

/// The three readings of one peak that tools print.
struct MemoryKinds {
  Bytes allocated{};  ///< torch.cuda.max_memory_allocated
  Bytes reserved{};   ///< torch.cuda.max_memory_reserved: with what the allocator cannot hand out again, or has not yet
  Bytes device{};     ///< nvidia-smi: with the CUDA context and NCCL's buffers
};
/// What each tool would print of a stage at its peak, in whole bytes.
[[nodiscard]] inline MemoryKinds memory_kinds(const StageMemory& stage) {
  const Bytes reserved = stage.total() - stage.outside();
  return {reserved - stage.reserve - stage.late_grads, reserved + stage.cached, stage.total() + stage.cached};
}

/// Sums over the layers of a stage, embedding and head included where it holds them.
struct StageSums {
  double dense = 0, expert = 0, trained_dense = 0, trained_expert = 0, ends = 0;
  double quantised = 0, expert_quantised = 0;  ///< weights that have quantised copies
  double block = 0;                            ///< parameters of the largest layer
  RealBytes fresh_grads{};                     ///< most of LayerMemory's
  RealBytes saved{}, kept{}, checkpoint{}, largest_saved{};
  RealBytes offloaded{};  ///< of modules whose activations wait in host memory
  RealBytes forward{}, backward{};
  unsigned kinds = 0;
  int layers = 0;
  bool moe = false;
};

/// Layers of a chunk that full recomputation rebuilds at once: `uniform` of them, of a smaller chunk all. `layers` are
/// the rank's, in `vp` chunks.
[[nodiscard]] int rebuilt_together(const Recompute& recompute, int vp, int layers);
/// Inputs that a rank keeps of so many layers, all of them recomputed: one for every group that is rebuilt at once. The
/// last group of a chunk may be smaller.
[[nodiscard]] int inputs_kept(const Recompute& recompute, int vp, int layers);

/// What sharding decides of a rank's memory: the same under every recomputation and schedule.
struct ShardedMemory {
  Bytes weights{}, grads{}, optimizer{}, communication{};
  RealBytes forward{};         ///< weights gathered while a layer's forward runs
  RealBytes backward{};        ///< the same in backward, with the gradients of the block
  RealBytes next_backward{};   ///< FSDP2: the same once a layer's gradients, and not the head's, are being reduced
  RealBytes last_backward{};   ///< FSDP2: and in the first layer, beside the embedding
  RealBytes head{};            ///< the same while the loss runs
  RealBytes head_reduced{};    ///< FSDP2: the head's weights, their gradient and what its reduction reads
  RealBytes pool{};            ///< FSDP2: most bytes of the pool that gathers fill on their own stream
  RealBytes late_grads{};      ///< of the gradients, none before the first backward
  RealBytes embedding{};       ///< what is whole while the embedding's gradient appears and is reduced
  RealBytes embedding_late{};  ///< of the gradients, what is not there then
  RealBytes second_late{};     ///< FSDP2: and in the second layer's backward pass
  RealBytes step{};            ///< what the optimizer step adds
  RealBytes flat{};            ///< of it, in pieces so large that no other memory serves them
  RealBytes resident{};        ///< neither state nor activation, but there at every possible peak
  RealBytes host{};            ///< beside them: states in host memory
  Bytes states() const { return weights + grads + optimizer; }
};

/// What recomputation and schedule decide of a rank's memory, whatever is sharded.
struct ActivityMemory {
  RealBytes activations{};
  RealBytes forward{};              ///< alive only in one layer's forward
  RealBytes backward{};             ///< and in its backward, what it rebuilds included
  RealBytes at_head{};              ///< activations when the loss runs
  RealBytes but_one{};              ///< activations once the last layer's backward pass is done
  RealBytes of_two{};               ///< activations in the second layer's backward pass
  RealBytes of_one{};               ///< activations in the first layer's backward pass
  RealBytes embedding{};            ///< activations when the embedding's gradient appears
  RealBytes embedding_transient{};  ///< that gradient and the one that it came from
  RealBytes host{};                 ///< beside them: activations in host memory
  bool moe = false, has_head = false, has_embedding = false;
};

/// The tensors of one layer by where they are between its forward and its backward pass.
struct LayerTensors {
  std::vector<KeptTensor> kept{};       ///< on the GPU
  std::vector<KeptTensor> rebuilt{};    ///< nowhere: computed again
  std::vector<KeptTensor> offloaded{};  ///< in host memory
};

/// All micro-batches pass the loss before the first backward only where the two are not interleaved.
[[nodiscard]] constexpr bool loss_waits(Schedule schedule) { return schedule_row(schedule).passes == Passes::Once; }

/// Memory of all stages of a problem under layouts that split layers the same way.
class MemoryModel {
 public:
  /// Precomputes everything that depends on tp, cp, ep, etp, micro_batch, sequence parallelism and recompute.
  /// The model has at most kMaxLayerKinds kinds of layer. `problem` must outlive the object.
  MemoryModel(const Problem& problem, const Layout& layout);

  const LayerMemory& layer(int kind) const { return layers_[static_cast<std::size_t>(kind)]; }
  const EndMemory& ends() const { return ends_; }
  /// Training as the stack runs it on this GPU: what the laws of this model are asked with.
  const Training& training() const { return training_; }

  /// The tensors that layer(kind).kept sums up under the modules chosen for recomputation, each with its equation;
  /// under recomputation of whole layers or single operations all that layer(kind).saved sums up.
  [[nodiscard]] LayerTensors tensors(int kind) const;

  /// Bytes for each weight of a GEMM that its quantised copies take beyond the 16-bit weight that they stand in for.
  [[nodiscard]] RealBytes quantised_bytes(const Layout& layout) const;

  /// Changes what is recomputed; everything else stays as constructed.
  void recompute(const Recompute& choice);

  /// Memory of `rank` (0 first) of `layout`, which may differ from the constructor's only in pp, vp,
  /// dp, zero, shard, schedule and chunk_layers. `in_flight` is in whole-stage micro-batches.
  [[nodiscard]] StageMemory stage(const Layout& layout, int rank, const StageContent& content, double in_flight) const;
  /// The same of parts that are known; this model is that of the stage's last layers.
  [[nodiscard]] StageMemory stage(const ShardedMemory& sharded, const ActivityMemory& activity) const;

  /// Name of the instant at which the stage peaks: "loss", "moe forward", "optimizer step", ...
  [[nodiscard]] const char* peak_instant(const Layout& layout, int rank, const StageContent& content,
                                         double in_flight) const;
  const char* peak_instant(const ShardedMemory& sharded, const ActivityMemory& activity) const {
    return peak(sharded, activity).name;
  }

  // How two parts of the rank's memory come about: ShardedMemory::resident, and what of its peak the allocator wastes.

  [[nodiscard]] Traced traced_resident(const Layout& layout, int rank, const StageContent& content) const;
  [[nodiscard]] Traced traced_reserve(const Layout& layout, int rank, const StageContent& content,
                                      double in_flight) const;

  // A stage's memory in parts, so that a search computes each as rarely as it changes.

  /// Parameters and bytes of all that a rank with this content holds, under the recomputation chosen last.
  [[nodiscard]] StageSums sums(const StageContent& content) const;
  /// Depends on the sums' parameters, on dp, zero, shard and whether the schedule is DualPipe.
  [[nodiscard]] ShardedMemory sharded(const Layout& layout, int rank, const StageContent& content,
                                      const StageSums& sums) const;
  /// Depends on vp, schedule and the chosen recomputation.
  [[nodiscard]] ActivityMemory activity(const Layout& layout, const StageContent& content, const StageSums& sums,
                                        double in_flight) const;
  /// What the rank takes at least: never above total(), and smaller parts never make it larger. total() itself
  /// may grow when a part shrinks, since the allocator wastes more at some instants than at others.
  [[nodiscard]] RealBytes least_total(const ShardedMemory& sharded, const ActivityMemory& activity) const;
  /// Memory of the rank at its peak: stage().total().
  [[nodiscard]] Bytes total(const ShardedMemory& sharded, const ActivityMemory& activity) const;

 private:
  /// What a rank holds of the states of dense and expert parameters.
  struct Shares {
    StateShares dense, expert;
  };
  /// A moment of the step at which memory may peak.
  struct Instant {
    const char* name = "";
    RealBytes activations{};
    RealBytes transient{};
    PoolUse pool{};          ///< what of the transient is from the pool of gathers
    RealBytes late_grads{};  ///< of the states, not there yet
    RealBytes hole{};        ///< freed before, in a place that nothing later fits
    RealBytes cached{};      ///< of other moments of the step, which the allocator could give back
    RealBytes alive() const { return activations + transient - late_grads; }
  };
  /// A weight shape and the layer kinds (bits) that have it; bit kMaxLayerKinds is the head.
  struct Shape {
    double rows = 0, columns = 0;
    unsigned owners = 0;
  };

  /// Every rank has a part of embedding and head where the vocabulary is spread over the stages.
  bool has_embedding(const StageContent& stage) const { return training_.stack.vocab_barriers > 0 || stage.embedding; }
  bool has_head(const StageContent& stage) const { return training_.stack.vocab_barriers > 0 || stage.head; }
  Instant peak(const ShardedMemory& sharded, const ActivityMemory& activity) const;
  void add_shape(double rows, double columns, unsigned owner);
  /// TransformerEngine hands autograd one bf16 tensor per distinct weight shape in place of the gradients that its
  /// GEMMs already added up.
  template <class V>
  BytesOf<V> dummy_gradients(unsigned owners) const;
  Traced traced_graph_pool() const;
  /// Neither state nor activation, but there at every possible peak.
  template <class V>
  BytesOf<V> resident_law(const Layout& layout, int rank, const StageContent& content, const StageSums& sums) const;
  /// What the allocator wastes of all that is held, the place of a tensor that was freed, and an idle pool.
  template <class V>
  BytesOf<V> reserve_law(const BytesOf<V>& held, const BytesOf<V>& hole, const BytesOf<V>& pool) const;
  RealBytes reserve(const ShardedMemory& sharded, const Instant& instant) const;
  RealBytes gathered_bytes() const;
  bool stays_whole(const Layout& layout) const;
  static RealBytes whole_weights(const StageSums& sums);
  RealBytes unsharded_grads(const Layout& layout, const StageSums& sums) const;
  void fill_fsdp2(ShardedMemory& memory, const Layout& layout, const StageContent& content,
                  const StageSums& sums) const;
  void fill_fsdp2_backward(ShardedMemory& memory, const Layout& layout, const StageContent& content,
                           const StageSums& sums) const;
  RealBytes resident_transient(const Layout& layout, int rank, const StageContent& content,
                               const StageSums& sums) const;
  RealBytes gathered_forward(const Layout& layout, const StageSums& sums) const;
  RealBytes gathered_backward(const Layout& layout, const StageContent& content, const StageSums& sums,
                              RealBytes forward) const;
  Shares shares_of(const Layout& layout) const;
  void fill_states(ShardedMemory& memory, const Layout& layout, const StageSums& sums, const Shares& shares) const;
  RealBytes host_gradients(const Layout& layout, const StageSums& sums, const Shares& shares) const;
  void fill_step(ShardedMemory& memory, const Layout& layout, const StageSums& sums, const Shares& shares) const;
  RealBytes cached(const ShardedMemory& sharded, const Instant& work) const;
  /// What the allocator does not see, whatever the moment.
  [[nodiscard]] StageMemory outer(const ShardedMemory& sharded) const;
  Bytes outside(const ShardedMemory& sharded) const;
  Bytes reserve_of(const ShardedMemory& sharded, const Instant& instant) const;
  RealBytes quantised(const Layout& layout, const StageSums& sums, const Shares& shares) const;
  StateLayout states_of(const Layout& l) const { return l.zero >= 2 ? sharded_ : problem_->training.stack.states; }

  const Problem* problem_;
  Training training_;  ///< as the stack runs it on this GPU
  Layout split_;       ///< the constructor's, with the chosen recomputation
  GpuGeneration generation_ = GpuGeneration::Hopper;
  StateLayout sharded_ = StateLayout::Megatron;  ///< of the states from zero 2 on
  NcclPlatform nccl_{};
  std::vector<LayerMemory> layers_;
  std::vector<LayerLedger> ledgers_;
  std::vector<RealBytes> backward_work_;  ///< by kind, of backward_transient: what backward itself needs
  std::vector<Shape> shapes_;
  EndMemory ends_;
  RealBytes graph_{};                        ///< of CUDA graphs of parts of a layer: what their pool keeps to itself
  RealBytes stale_{};                        ///< gradient that a stage behind the first keeps after sending it
  RealBytes loader_mask_{};                  ///< s * s attention mask of the data loader
  std::array<StateBytes, 4> state_bytes_{};  ///< by ZeRO stage
  RealBytes workspaces_{};                   ///< of TransformerEngine, on every rank
  RealBytes torch_workspaces_{};             ///< of ranks with a head or a router
  RealBytes grouped_workspaces_{};           ///< of ranks with experts
  double largest_ = 0;                       ///< parameters of the largest linear
  RealBytes muon_{};                         ///< Newton-Schulz copies of the largest matrix
  bool caches_dummies_ = false;
  RealBytes frozen_bytes_{2};
  RealBytes quantised_bytes_{};  ///< beside or, where primary_, in place of two bytes
  bool primary_ = false;         ///< weights of GEMMs are stored quantised
};

}  // namespace plan
