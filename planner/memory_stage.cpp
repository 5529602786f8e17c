// Memory of one pipeline rank: which states it shares out, and the moment at which it peaks.
#include <algorithm>

#include "formulas/nccl_buffers.hpp"
#include "formulas/transient.hpp"
#include "planner/memory.hpp"

namespace plan {
namespace {

/// Rounds, and stops at an exbibyte: no GPU has it, and all parts of a stage together still fit in 64 bits.
Bytes whole_bytes(double bytes) { return round_bytes(std::min(bytes, 0x1p60)); }

/// DeepSpeed's default buckets, in elements.
constexpr double kReduceBucket = 5e8, kGatherBucket = 5e8, kPrefetchBucket = 5e7;

/// All micro-batches pass the loss before the first backward only without interleaving of the two.
bool loss_waits(Schedule schedule) { return schedule == Schedule::GPipe || schedule == Schedule::BreadthFirst; }

}  // namespace

/// HSDP instances split the expert group as they split the dense one.
MemoryModel::Shares MemoryModel::shares_of(const Layout& layout) {
  if (layout.zero == 0) return {};
  const int experts = layout.expert_dp();
  const double instances = layout.shard > 0 ? static_cast<double>(layout.dense_group()) / layout.shard : 1;
  return {state_shares(layout.zero, layout.shard_group()),
          state_shares(layout.zero, std::max(1.0, experts / instances))};
}

void MemoryModel::fill_states(ShardedMemory& memory, const Layout& layout, const StageSums& sums,
                              const Shares& shares) const {
  const Training& training = problem_->training;
  const StateBytes& bytes = state_bytes_[static_cast<std::size_t>(layout.zero)];
  const StateShares& dense = shares.dense;
  const StateShares& expert = shares.expert;
  const bool adapters = training.adapters();
  const double ends = adapters ? 0 : sums.ends;
  // DualPipe: the content is the rank's two stages; their states are sharded over both directions' ranks.
  const double share = layout.schedule == Schedule::DualPipe && layout.zero > 0 ? 0.5 : 1;
  const double base = adapters ? frozen_bytes_ * ((sums.dense - sums.trained_dense) * dense.weights +
                                                  (sums.expert - sums.trained_expert) * expert.weights) +
                                     2 * sums.ends * dense.weights
                               : 0;
  const double weights =
      bytes.weights * ((sums.trained_dense + ends) * dense.weights + sums.trained_expert * expert.weights);
  const double grads = bytes.grads * ((sums.trained_dense + ends) * dense.grads + sums.trained_expert * expert.grads);
  const double hidden = bytes.master + bytes.moments + bytes.optimizer_grads;
  const double outer = bytes.master + bytes.ends + bytes.optimizer_grads;
  const double optimizer =
      (hidden * sums.trained_dense + outer * ends) * dense.optimizer + hidden * sums.trained_expert * expert.optimizer;
  const double quantised = layout.zero < 3 ? quantised_bytes_ * sums.gemm : 0;
  const bool away = training.offload.parameters && layout.zero >= 2;
  memory.weights = whole_bytes(away ? quantised : base + weights + quantised);
  memory.grads = whole_bytes(away ? 0 : grads);
  memory.optimizer = whole_bytes(share * optimizer * (1 - training.offload.optimizer));
}

/// What the optimizer step adds for its own duration.
double MemoryModel::step_bytes(const Layout& layout, const StageSums& sums, const Shares& shares) const {
  const Training& training = problem_->training;
  const double ends = training.adapters() ? 0 : sums.ends;
  const double parameters =
      (sums.trained_dense + ends) * shares.dense.optimizer + sums.trained_expert * shares.expert.optimizer;
  double bytes = state_bytes_[static_cast<std::size_t>(layout.zero)].step * parameters;
  bytes = std::max(bytes, muon_);  // Newton-Schulz iterations
  if (training.stack.states == StateLayout::DeepSpeed && layout.zero > 0)
    bytes += 2 * std::min(kGatherBucket, sums.trained_dense + sums.trained_expert + ends);
  return bytes;
}

/// Weights that fully sharded data parallelism has whole while a layer's forward runs: this block, the
/// retained gather output and the next block's.
double MemoryModel::gathered_forward(const Layout& layout, const StageSums& sums) const {
  const Training& training = problem_->training;
  switch (training.stack.states) {
    case StateLayout::Megatron: return layout.zero == 3 ? 6 * sums.block : 0;
    case StateLayout::MegatronFsdp: return layout.zero == 3 ? (4 + 2.0 * training.grad_bytes) * sums.block : 0;
    case StateLayout::Fsdp2: {
      const double all = 2 * (sums.dense + sums.expert + sums.ends);
      if (layout.zero < 2) return 0;
      return layout.zero == 2 || !training.stack.reshard_after_forward ? all : 6 * sums.block;
    }
    case StateLayout::DeepSpeed:
      return layout.zero == 3 ? 2 * (2 * sums.block + std::min(kPrefetchBucket, sums.dense + sums.expert)) : 0;
  }
  return 0;
}

/// The same in backward: this block and the prefetched one, gradients, and the input of the previous
/// reduce-scatter in the reduction's type, the head's at first.
double MemoryModel::gathered_backward(const Layout& layout, const StageContent& content, const StageSums& sums,
                                      double forward) const {
  const Training& training = problem_->training;
  const double reduced = content.head ? std::max(sums.block, ends_.head_parameters) : sums.block;
  switch (training.stack.states) {
    case StateLayout::Megatron:
      if (layout.zero == 3) return 6 * sums.block + training.grad_bytes * reduced;
      return layout.zero == 2 ? training.grad_bytes * sums.block : 0;
    case StateLayout::MegatronFsdp: return forward;
    case StateLayout::Fsdp2: {
      if (layout.zero < 2) return 0;
      const double weights = layout.zero == 2 || !training.stack.reshard_after_forward ? forward : 4 * sums.block;
      return weights + 2 * sums.block + training.grad_bytes * reduced;
    }
    case StateLayout::DeepSpeed:
      if (layout.zero < 2) return 0;
      return forward + 2 * sums.block;
  }
  return forward;
}

/// Neither state nor activation, but there at every possible peak.
double MemoryModel::resident_transient(const Layout& layout, int rank, const StageContent& content,
                                       const StageSums& sums) const {
  double bytes = dummy_gradients(sums.kinds) + workspaces_ + loader_mask_;
  if (content.head || sums.moe) bytes += torch_workspaces_;
  if (sums.moe) bytes += grouped_workspaces_;
  if (content.head) bytes += ends_.head_resident;
  if (rank > 0) bytes += stale_;
  if (problem_->training.stack.states == StateLayout::DeepSpeed && layout.zero > 0)  // two, filled in turn
    bytes += 2 * 2 * std::min(kReduceBucket, sums.trained_dense + sums.trained_expert + sums.ends);
  return bytes;
}

ShardedMemory MemoryModel::sharded(const Layout& layout, int rank, const StageContent& content,
                                   const StageSums& sums) const {
  ShardedMemory memory;
  const Shares shares = shares_of(layout);
  fill_states(memory, layout, sums, shares);
  memory.communication =
      whole_bytes(nccl_buffers(layout, problem_->cluster.gpus_per_node, generation_, problem_->cluster.nccl));
  memory.forward = gathered_forward(layout, sums);
  memory.backward = gathered_backward(layout, content, sums, memory.forward);
  memory.head = memory.forward > 0 ? 2 * ends_.head_parameters : 0;
  memory.step = step_bytes(layout, sums, shares);
  memory.resident = resident_transient(layout, rank, content, sums);
  return memory;
}

ActivityMemory MemoryModel::activity(const Layout& layout, const StageContent& content, const StageSums& sums,
                                     double in_flight) const {
  const bool embedding = has_embedding(content), head = has_head(content);
  // Each time that the stages meet for the loss, one more micro-batch waits (arXiv:2411.05288).
  in_flight += training_.stack.vocab_barriers;
  const Recompute& recompute = layout.recompute;
  double held = sums.kept, rebuilt = 0;
  if (recompute.kind == RecomputeKind::Full && sums.layers > 0) {
    const int group = std::max(1, recompute.uniform);
    const double share = static_cast<double>(recomputed_layers(recompute, layout.vp, sums.layers)) / sums.layers;
    held = share * sums.checkpoint / group + (1 - share) * sums.saved;
    rebuilt = share > 0 ? group * sums.largest_saved - sums.checkpoint / sums.layers : 0;
  }
  if (const int away = training_.offload.layers; away > 0 && sums.layers > 0)
    held *= std::max(0.0, 1 - static_cast<double>(away) / sums.layers);
  ActivityMemory out{.forward = sums.forward, .backward = rebuilt + sums.backward};
  out.moe = sums.moe, out.has_head = head;
  out.activations = in_flight * (held + (embedding ? ends_.embedding_saved : 0));
  out.activations += content.mtp * ends_.mtp_saved;
  if (!problem_->training.stack.frees_stage_outputs && !head) out.activations += in_flight * stale_;
  const double waiting = head && loss_waits(layout.schedule) ? in_flight - 1 : 0;
  out.activations += waiting * (ends_.head_saved + ends_.logits_saved);
  out.at_head = out.activations + ends_.head_saved;
  out.has_embedding = embedding && !problem_->training.adapters();  // its gradient is dense
  out.embedding = std::max(0.0, in_flight - 1) * held;
  out.embedding_transient = 2 * ends_.embedding_parameters + stale_;
  return out;
}

MemoryModel::Instant MemoryModel::peak(const ShardedMemory& sharded, const ActivityMemory& activity) const {
  Instant best{activity.moe ? "moe forward" : "forward", activity.activations, activity.forward + sharded.forward};
  const auto consider = [&best](const Instant& instant) {
    if (instant.activations + instant.transient > best.activations + best.transient) best = instant;
  };
  consider({"layer backward", activity.activations, activity.backward + sharded.backward});
  if (activity.has_head) {
    consider({"loss", activity.at_head, ends_.loss_transient + sharded.forward + sharded.head});
    consider({"head backward", activity.at_head, ends_.head_backward + sharded.forward + sharded.head});
  }
  if (activity.has_embedding)  // apart from the buffer
    consider({"embedding backward", activity.embedding, activity.embedding_transient + sharded.backward});
  consider({"optimizer step", 0, sharded.step});
  best.transient += sharded.resident;
  return best;
}

Bytes MemoryModel::reserve_of(Bytes states, const Instant& instant) const {
  const double usual = problem_->cluster.calibration.allocator_reserve;
  return whole_bytes(usual * allocator_reserve(static_cast<double>(states.value), instant.activations,
                                               instant.transient, problem_->training.stack.expandable_segments));
}

Bytes MemoryModel::total(const ShardedMemory& sharded, const ActivityMemory& activity) const {
  const Instant instant = peak(sharded, activity);
  const Bytes states = sharded.states();
  return states + whole_bytes(instant.activations) + whole_bytes(instant.transient) + reserve_of(states, instant) +
         sharded.communication + problem_->cluster.gpu.context;
}

double MemoryModel::least_total(const ShardedMemory& sharded, const ActivityMemory& activity) const {
  const Instant instant = peak(sharded, activity);
  const double alive = instant.activations + instant.transient, states = static_cast<double>(sharded.states().value);
  const bool expandable = problem_->training.stack.expandable_segments;
  const double wasted =
      std::min(allocator_reserve(states, alive, 0, expandable), allocator_reserve(states, 0, alive, expandable));
  constexpr double kRounding = 4;  // bytes, of the parts that total() rounds
  return states + alive + problem_->cluster.calibration.allocator_reserve * wasted - kRounding +
         static_cast<double>((sharded.communication + problem_->cluster.gpu.context).value);
}

StageMemory MemoryModel::stage(const Layout& layout, int rank, const StageContent& content, double in_flight) const {
  const StageSums total = sums(content);
  const ShardedMemory states = sharded(layout, rank, content, total);
  const Instant instant = peak(states, activity(layout, content, total, in_flight));
  StageMemory memory;
  memory.stage = rank;
  memory.layers = total.layers;
  memory.weights = states.weights, memory.grads = states.grads, memory.optimizer = states.optimizer;
  memory.activations = whole_bytes(instant.activations);
  memory.reserve = reserve_of(states.states(), instant);
  memory.transient = whole_bytes(instant.transient) + memory.reserve;
  memory.communication = states.communication;
  memory.context = problem_->cluster.gpu.context;
  return memory;
}

const char* MemoryModel::peak_instant(const Layout& layout, int rank, const StageContent& content,
                                      double in_flight) const {
  const StageSums total = sums(content);
  return peak(sharded(layout, rank, content, total), activity(layout, content, total, in_flight)).name;
}

}  // namespace plan
