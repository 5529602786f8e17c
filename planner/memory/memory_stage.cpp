// Memory of one pipeline rank: which states it shares out, and the moment at which it peaks.
#include <algorithm>

#include "formulas/nccl_buffers.hpp"
#include "formulas/quantising.hpp"
#include "formulas/transient.hpp"
#include "planner/memory/memory.hpp"

namespace plan {
namespace {

/// Rounds, and stops at an exbibyte: no GPU has it, and all parts of a stage together still fit in 64 bits.
Bytes whole_bytes(RealBytes bytes) { return round_bytes(std::min(bytes.value, 0x1p60)); }

/// DeepSpeed's default bucket, in elements, and what stage 3 keeps gathered at most, tensors used next among it.
constexpr double kGatherBucket = 5e8, kMostLive = 1e9;
/// Parameters of a rank that DeepSpeed's stage 3 steps at once by default (sub_group_size).
constexpr double kSubGroup = 1e9;

}  // namespace

/// HSDP instances split the expert group as they split the dense one.
MemoryModel::Shares MemoryModel::shares_of(const Layout& layout) const {
  if (layout.zero == 0) return {};
  const StateLayout states = training_.stack.states;
  const int experts = layout.expert_dp();
  const double instances = layout.shard > 0 ? static_cast<double>(layout.dense_group()) / layout.shard : 1;
  return {state_shares(layout.zero, layout.shard_group(), states),
          state_shares(layout.zero, std::max(1.0, experts / instances), states)};
}

/// A stack that shards weights and gathers them for every layer quantises what it gathered, or keeps one copy of its
/// own share.
RealBytes MemoryModel::quantised_bytes(const Layout& layout) const {
  if (quantised_bytes_ == RealBytes() || (layout.zero == 3 && !primary_)) return {};
  const RealBytes copies = layout.zero == 3 ? gemm_input_bytes(training_.precision) : quantised_bytes_;
  return copies - RealBytes(primary_ ? training_.weight_bytes() : 0);
}

/// Bytes of quantised copies of the GEMMs' weights, less the 16-bit weights that they stand in for.
RealBytes MemoryModel::quantised(const Layout& layout, const StageSums& sums, const Shares& shares) const {
  return quantised_bytes(layout) * ((sums.quantised - sums.expert_quantised) * shares.dense.weights +
                                    sums.expert_quantised * shares.expert.weights);
}

void MemoryModel::fill_states(ShardedMemory& memory, const Layout& layout, const StageSums& sums,
                              const Shares& shares) const {
  const Training& training = problem_->training;
  const StateBytes& bytes = state_bytes_[static_cast<std::size_t>(layout.zero)];
  const StateShares& dense = shares.dense;
  const StateShares& expert = shares.expert;
  const bool adapters = training.adapters();
  const double ends = adapters ? 0 : sums.ends;
  // Both ways: the content is the rank's two stages; their states are sharded over both directions' ranks.
  const double share = layout.zero > 0 ? stages_met(layout.schedule) : 1;
  const RealBytes base = adapters ? frozen_bytes_ * ((sums.dense - sums.trained_dense) * dense.weights +
                                                     (sums.expert - sums.trained_expert) * expert.weights) +
                                        RealBytes(2 * sums.ends * dense.weights)
                                  : RealBytes();
  const RealBytes weights =
      bytes.weights * ((sums.trained_dense + ends) * dense.weights + sums.trained_expert * expert.weights);
  const RealBytes grads =
      bytes.grads * ((sums.trained_dense + ends) * dense.grads + sums.trained_expert * expert.grads);
  const RealBytes hidden = bytes.master + bytes.moments + bytes.optimizer_grads;
  const RealBytes outer = bytes.master + bytes.ends + bytes.optimizer_grads;
  const RealBytes optimizer =
      (hidden * sums.trained_dense + outer * ends) * dense.optimizer + hidden * sums.trained_expert * expert.optimizer;
  const RealBytes copies = quantised(layout, sums, shares);
  const bool away = training.offload.parameters && layout.zero >= 2;
  memory.weights = whole_bytes(away ? std::max(RealBytes(), copies) : base + weights + copies);
  memory.grads = whole_bytes(away ? RealBytes() : grads);
  memory.optimizer = whole_bytes(share * optimizer * (1 - training.offload.optimizer));
  if (!training.offload.any()) return;
  memory.host = share * (optimizer + host_gradients(layout, sums, shares)) * training.offload.optimizer;
  if (away) memory.host += base + weights;
}

/// Gradients as the optimizer on the host reads them: fp32, of the parameters that the rank steps (Megatron core,
/// optimizer/cpu_offloading/hybrid_optimizer.py; DeepSpeed: 16 bytes a parameter with master and moments,
/// estimate_zero2_model_states_mem_needs; fully_shard's CPUOffloadPolicy). Less what counts as a state already.
RealBytes MemoryModel::host_gradients(const Layout& layout, const StageSums& sums, const Shares& shares) const {
  constexpr RealBytes kStepped(4);
  const double ends = problem_->training.adapters() ? 0 : sums.ends;
  const StateBytes& bytes = state_bytes_[static_cast<std::size_t>(layout.zero)];
  return std::max(RealBytes(), kStepped - bytes.optimizer_grads) *
         ((sums.trained_dense + ends) * shares.dense.optimizer + sums.trained_expert * shares.expert.optimizer);
}

/// What the optimizer step adds for its own duration.
void MemoryModel::fill_step(ShardedMemory& memory, const Layout& layout, const StageSums& sums,
                            const Shares& shares) const {
  const Training& training = problem_->training;
  const double ends = training.adapters() ? 0 : sums.ends;
  const double whole = sums.trained_dense + sums.trained_expert + ends;
  const double parameters =
      (sums.trained_dense + ends) * shares.dense.optimizer + sums.trained_expert * shares.expert.optimizer;
  const StateBytes& bytes = state_bytes_[static_cast<std::size_t>(layout.zero)];
  memory.step = std::max(bytes.step * parameters, muon_);  // muon_: Newton-Schulz iterations
  if (training.stack.states != StateLayout::DeepSpeed) return;
  if (layout.zero == 3) {  // no weights are gathered
    const double together = std::min(parameters * (1 - training.offload.optimizer), kSubGroup);
    memory.flat = memory.step = std::max(bytes.step * together, muon_);
    return;
  }
  memory.flat = std::max(memory.step, bytes.reduction * whole);
  if (layout.zero == 0) return;
  const RealBytes gathered(2 * std::min(kGatherBucket, whole));
  memory.step += gathered, memory.flat += gathered;
}

/// Weights that fully sharded data parallelism has whole while a layer's forward runs: this block, the
/// retained gather output and the next block's.
RealBytes MemoryModel::gathered_forward(const Layout& layout, const StageSums& sums) const {
  const Training& training = problem_->training;
  switch (states_of(layout)) {
    case StateLayout::Megatron: return RealBytes(layout.zero == 3 ? 6 * sums.block : 0);
    case StateLayout::MegatronFsdp:
      return layout.zero == 3 ? (2 * gathered_bytes() + RealBytes(2.0 * training.grad_bytes)) * sums.block
                              : RealBytes();
    case StateLayout::Fsdp2:
      if (layout.zero < 2) return {};
      if (training.stack.gathers_tensors) return stays_whole(layout) ? whole_weights(sums) : RealBytes(2 * sums.block);
      return unsharded_grads(layout, sums) + (stays_whole(layout) ? whole_weights(sums) : RealBytes(6 * sums.block));
    case StateLayout::DeepSpeed:  // module by module
      return RealBytes(
          layout.zero == 3 ? 2 * std::min(std::max(kMostLive, largest_), sums.dense + sums.expert + sums.ends) : 0);
  }
  return {};
}

/// What is gathered in the backward pass: this block and the prefetched one, gradients, and the input of the previous
/// reduce-scatter in the reduction's type, the head's at first where that is larger.
RealBytes MemoryModel::gathered_backward(const Layout& layout, const StageContent& content, const StageSums& sums,
                                         RealBytes forward) const {
  const Training& training = problem_->training;
  switch (states_of(layout)) {
    case StateLayout::Megatron: {
      const double reduced = content.head ? std::max(sums.block, ends_.head_parameters) : sums.block;
      if (layout.zero == 3) return RealBytes(6 * sums.block + training.grad_bytes * reduced);
      return RealBytes(layout.zero == 2 ? training.grad_bytes * sums.block : 0);
    }
    case StateLayout::MegatronFsdp: return forward;
    case StateLayout::Fsdp2:  // by XLA a block's gradients, each reduced alone; by fully_shard see fill_fsdp2
      return layout.zero >= 2 && training.stack.gathers_tensors ? forward + RealBytes(2 * sums.block) : RealBytes();
    case StateLayout::DeepSpeed:
      if (layout.zero < 2) return {};
      return forward + RealBytes(2 * (layout.zero == 3 ? largest_ : sums.block));
  }
  return forward;
}

/// What fully_shard adds at the head: its weights alone while the loss runs, since the last layer is sharded again and
/// its gather's output is gone; then its gradient, the input of their reduction and, as it came, the last layer.
/// Gathers fill a pool of their own stream, which serves nothing else; sharded gradients appear with the first
/// backward. When the embedding's gradient is reduced, last of all, no layer is whole any more.
void MemoryModel::fill_fsdp2(ShardedMemory& memory, const Layout& layout, const StageContent& content,
                             const StageSums& sums) const {
  const Training& training = problem_->training;
  if (training.stack.states != StateLayout::Fsdp2 || layout.zero < 2) return;
  const double head = ends_.head_parameters;
  const RealBytes grads = unsharded_grads(layout, sums);
  const bool once = micro_batches(training.global_batch, layout.dp, layout.micro_batch) <= 1;
  const auto gathered = [&](double parameters) {
    return stays_whole(layout) ? whole_weights(sums) : RealBytes(2 * parameters);
  };
  memory.head = grads + gathered(head);
  if (!training.adapters()) {
    memory.head_reduced = grads + gathered(sums.block) + RealBytes((2 + training.grad_bytes) * head);
    // Taken in chunks, the loss comes with its backward pass: the head's gradients add up under it.
    if (training.stack.cross_entropy == CrossEntropy::Chunked) memory.head += RealBytes(training.grad_bytes * head);
  }
  if (!training.stack.gathers_tensors) memory.pool = gather_pool<double>(sums.block, head);
  // When the embedding's gradient appears, every other one is sharded, and so is every weight but XLA's.
  if (grads == RealBytes() && !training.adapters()) {
    const double embedding = ends_.embedding_parameters;
    memory.embedding = (training.stack.gathers_tensors ? gathered(embedding) : RealBytes()) +
                       RealBytes(training.grad_bytes * embedding);
    if (once) memory.embedding_late = RealBytes(4 * shares_of(layout).dense.grads * embedding);
  }
  if (once || grads > RealBytes()) memory.late_grads = memory.grads;
  if (!training.stack.gathers_tensors) fill_fsdp2_backward(memory, layout, content, sums);
}

/// What fully_shard has whole in a layer's backward pass: weights of this layer and, as they came, of the one before
/// it; the layer's fresh gradients; and the input of the reduction that was started last, in its type: the head's at
/// first, then a layer's. Before the first layer comes the embedding.
void MemoryModel::fill_fsdp2_backward(ShardedMemory& memory, const Layout& layout, const StageContent& content,
                                      const StageSums& sums) const {
  const Training& training = problem_->training;
  const bool whole = stays_whole(layout), adapters = training.adapters();
  const RealBytes own(2 * sums.block), grads = unsharded_grads(layout, sums);
  memory.backward = (whole ? whole_weights(sums) : 2 * own) + sums.fresh_grads;
  if (grads > RealBytes()) {  // what a backward pass gathered stays until the last micro-batch
    memory.backward += grads;
    memory.last_backward = whole_weights(sums) + sums.fresh_grads + grads;
    return;
  }
  const RealBytes reduced =
      adapters ? training.grad_bytes / 2.0 * sums.fresh_grads : RealBytes(training.grad_bytes * sums.block);
  const RealBytes embedding(has_embedding(content) ? 2 * ends_.embedding_parameters : 0);
  memory.next_backward = memory.backward + reduced;
  const RealBytes layer_grads(adapters ? 0 : 4 * shares_of(layout).dense.grads * sums.block);
  memory.second_late = std::min(memory.late_grads, memory.embedding_late + 2 * layer_grads);
  memory.last_backward = (whole ? whole_weights(sums) : own + embedding) + sums.fresh_grads + reduced;
  if (has_head(content) && !adapters) memory.backward += RealBytes(training.grad_bytes * ends_.head_parameters);
}

/// One weight as it is gathered.
RealBytes MemoryModel::gathered_bytes() const {
  return primary_ ? gemm_input_bytes(training_.precision) : RealBytes(training_.weight_bytes());
}

/// Does FSDP2 keep the 16-bit weights whole from forward to backward?
bool MemoryModel::stays_whole(const Layout& layout) const {
  return layout.zero == 2 || !training_.stack.reshard_after_forward;
}

RealBytes MemoryModel::whole_weights(const StageSums& sums) {
  return RealBytes(2 * (sums.dense + sums.expert + sums.ends));
}

/// Under pipelines PyTorch's stages reduce gradients with the last micro-batch only; until then every rank sums them
/// whole, in the reduction's type (PipelineStage, set_requires_gradient_sync).
RealBytes MemoryModel::unsharded_grads(const Layout& layout, const StageSums& sums) const {
  const Training& training = problem_->training;
  if (layout.pp == 1 || micro_batches(training.global_batch, layout.dp, layout.micro_batch) <= 1) return {};
  const double ends = training.adapters() ? 0 : sums.ends;
  return RealBytes(training.grad_bytes * (sums.trained_dense + sums.trained_expert + ends));
}

ShardedMemory MemoryModel::sharded(const Layout& layout, int rank, const StageContent& content,
                                   const StageSums& sums) const {
  ShardedMemory memory;
  const Shares shares = shares_of(layout);
  fill_states(memory, layout, sums, shares);
  memory.communication = whole_bytes(nccl_buffers(layout, nccl_));
  memory.forward = gathered_forward(layout, sums);
  memory.backward = gathered_backward(layout, content, sums, memory.forward);
  memory.head = memory.forward > RealBytes() ? memory.forward + RealBytes(2 * ends_.head_parameters) : RealBytes();
  memory.embedding = memory.backward;
  fill_fsdp2(memory, layout, content, sums);
  fill_step(memory, layout, sums, shares);
  memory.resident = resident_transient(layout, rank, content, sums);
  return memory;
}

int rebuilt_together(const Recompute& recompute, int vp, int layers) {
  return std::clamp((layers + vp - 1) / std::max(1, vp), 1, std::max(1, recompute.uniform));
}

int inputs_kept(const Recompute& recompute, int vp, int layers) {
  const int group = std::max(1, recompute.uniform), smaller = layers / vp, larger = layers % vp;
  const auto inputs = [&](int chunk) { return (chunk + group - 1) / group; };
  return larger * inputs(smaller + 1) + (vp - larger) * inputs(smaller);
}

ActivityMemory MemoryModel::activity(const Layout& layout, const StageContent& content, const StageSums& sums,
                                     double in_flight) const {
  const bool embedding = has_embedding(content), head = has_head(content);
  // Each time that the stages meet for the loss, one more micro-batch waits (arXiv:2411.05288).
  in_flight += training_.stack.vocab_barriers;
  const Recompute& recompute = layout.recompute;
  RealBytes held = sums.kept, rebuilt;
  if (recompute.kind == RecomputeKind::Full && sums.layers > 0) {
    const int group = rebuilt_together(recompute, layout.vp, sums.layers);
    const double inputs = static_cast<double>(inputs_kept(recompute, layout.vp, sums.layers)) / sums.layers;
    const double share = static_cast<double>(recomputed_layers(recompute, layout.vp, sums.layers)) / sums.layers;
    held = share * inputs * sums.checkpoint + (1 - share) * sums.saved;
    // The input that they are rebuilt from is kept already; it is as large before a layer of any kind.
    rebuilt = share > 0 ? group * sums.largest_saved - layers_.front().checkpoint : RealBytes();
  }
  ActivityMemory out{.forward = sums.forward, .backward = rebuilt + sums.backward};
  if (const int away = training_.offload.layers; away > 0 && sums.layers > 0) {
    const double share = std::min(1.0, static_cast<double>(away) / sums.layers);
    // In a pipeline a chunk's share is on its way out, or back in beside that of the chunk at work. Without one, layers
    // behind are done before the first that was away comes back.
    const RealBytes chunk = layout.pp > 1 ? share * held / std::max(1, layout.vp) : RealBytes();
    out.host = in_flight * share * held;
    held = held * (1 - share);
    out.forward += chunk, out.backward += 2 * chunk;
  }
  if (training_.offload.modules != 0) out.host = in_flight * sums.offloaded;
  out.moe = sums.moe, out.has_head = head;
  out.activations = in_flight * (held + (embedding ? ends_.embedding_saved : RealBytes()));
  out.activations += content.mtp * problem_->model.mtp.passes * ends_.mtp_saved;
  if (!problem_->training.stack.frees_stage_outputs && !head && content.hands_on) out.activations += in_flight * stale_;
  const double waiting = head && loss_waits(layout.schedule) ? in_flight - 1 : 0;
  out.activations += waiting * (ends_.head_saved + ends_.logits_saved);
  out.at_head = out.activations + ends_.head_saved;
  const RealBytes one = held / std::max(1, sums.layers);
  out.but_one = out.activations - one;
  out.of_one = std::max(0.0, in_flight - 1) * held + one;
  out.of_two = sums.layers > 1 ? out.of_one + one : out.of_one;
  out.has_embedding = embedding && !problem_->training.adapters();  // its gradient is dense
  out.embedding = std::max(0.0, in_flight - 1) * held;
  out.embedding_transient = RealBytes(2 * ends_.embedding_parameters) + stale_;
  return out;
}

MemoryModel::Instant MemoryModel::peak(const ShardedMemory& sharded, const ActivityMemory& activity) const {
  const RealBytes late = sharded.late_grads;
  Instant best{activity.moe ? "moe forward" : "forward", activity.activations, activity.forward + sharded.forward,
               PoolUse::Forward, late};
  const auto consider = [&best](const Instant& instant) {
    if (instant.alive() > best.alive()) best = instant;
  };
  consider({"layer backward", activity.activations, activity.backward + sharded.backward, PoolUse::Backward, late});
  if (sharded.next_backward > RealBytes()) {
    // Of all layers between the last and the first, one of these two holds most.
    const RealBytes beside = activity.backward + sharded.next_backward;
    consider({"next layer backward", activity.but_one, beside, PoolUse::Backward, late});
    consider({"second layer backward", activity.of_two, beside, PoolUse::Backward, sharded.second_late});
  }
  if (sharded.last_backward > RealBytes())
    consider({"first layer backward", activity.of_one, activity.backward + sharded.last_backward, PoolUse::Embedding,
              sharded.next_backward > RealBytes() ? sharded.embedding_late : late});
  if (activity.has_head) {
    consider({"loss", activity.at_head, ends_.loss_transient + sharded.head, PoolUse::None, late, ends_.loss_hole});
    consider({"head backward", activity.at_head, ends_.head_backward + sharded.head, PoolUse::None, late});
    if (sharded.head_reduced > RealBytes())
      consider({"head reduction", activity.activations, sharded.head_reduced, PoolUse::None, late});
  }
  if (activity.has_embedding)  // apart from the buffer
    consider({"embedding backward", activity.embedding, activity.embedding_transient + sharded.embedding,
              PoolUse::Embedding, sharded.embedding_late});
  best.cached = cached(sharded, best);
  consider({.name = "optimizer step", .transient = sharded.step, .cached = best.cached});
  best.transient += sharded.resident;
  return best;
}

/// What the allocator holds at a peak besides: the step's flat buffers are larger than any piece that the layers left,
/// and they have segments of their own. Mapped pages serve both.
RealBytes MemoryModel::cached(const ShardedMemory& sharded, const Instant& work) const {
  if (training_.stack.expandable_segments) return {};
  return std::min(sharded.flat, std::max(RealBytes(), work.alive()));
}

Bytes MemoryModel::reserve_of(const ShardedMemory& sharded, const Instant& instant) const {
  return whole_bytes(reserve(sharded, instant));
}

/// What lies outside the allocator, category by category.
StageMemory MemoryModel::outer(const ShardedMemory& sharded) const {
  StageMemory memory;
  memory.communication = sharded.communication;
  memory.context = problem_->cluster.gpu.context;
  return memory;
}

Bytes MemoryModel::outside(const ShardedMemory& sharded) const { return outer(sharded).outside(); }

Bytes MemoryModel::total(const ShardedMemory& sharded, const ActivityMemory& activity) const {
  const Instant instant = peak(sharded, activity);
  return sharded.states() + whole_bytes(instant.activations) + whole_bytes(instant.transient) +
         reserve_of(sharded, instant) + outside(sharded);
}

RealBytes MemoryModel::least_total(const ShardedMemory& sharded, const ActivityMemory& activity) const {
  const Instant instant = peak(sharded, activity);
  const RealBytes alive = sharded.states() + instant.alive();
  const RealBytes wasted =
      problem_->cluster.calibration.allocator_reserve * allocator_reserve(training_.stack.expandable_segments) * alive;
  constexpr RealBytes kRounding{4};  // of the parts that total() rounds
  return alive + wasted - kRounding + outside(sharded);
}

StageMemory MemoryModel::stage(const Layout& layout, int rank, const StageContent& content, double in_flight) const {
  const StageSums total = sums(content);
  StageMemory memory = stage(sharded(layout, rank, content, total), activity(layout, content, total, in_flight));
  memory.stage = rank;
  memory.layers = total.layers;
  return memory;
}

StageMemory MemoryModel::stage(const ShardedMemory& states, const ActivityMemory& activity) const {
  const Instant instant = peak(states, activity);
  StageMemory memory = outer(states);
  memory.weights = states.weights, memory.grads = states.grads, memory.optimizer = states.optimizer;
  memory.activations = whole_bytes(instant.activations);
  memory.reserve = reserve_of(states, instant);
  memory.late_grads = whole_bytes(instant.late_grads);
  memory.cached = whole_bytes(instant.cached);
  memory.host = whole_bytes(states.host + activity.host);
  memory.transient = whole_bytes(instant.transient) + memory.reserve;
  return memory;
}

const char* MemoryModel::peak_instant(const Layout& layout, int rank, const StageContent& content,
                                      double in_flight) const {
  const StageSums total = sums(content);
  return peak(sharded(layout, rank, content, total), activity(layout, content, total, in_flight)).name;
}

}  // namespace plan
