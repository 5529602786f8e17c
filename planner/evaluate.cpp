// Layout -> step time and memory, from the costs of its split. Tested by tests/planner/estimate_test.cpp.
#include "planner/evaluate.hpp"

#include <algorithm>
#include <cmath>

#include "formulas/communication.hpp"
#include "formulas/efficiency.hpp"
#include "formulas/reliability.hpp"

namespace plan {
namespace {

bool zero_bubble(Schedule schedule) {
  switch (schedule) {
    case Schedule::ZbH1:
    case Schedule::ZbH2:
    case Schedule::ZbV:
    case Schedule::VHalf:
    case Schedule::VMin:
    case Schedule::DualPipe:
    case Schedule::DualPipeV: return true;
    default: return false;
  }
}

bool pairs_micro_batches(Schedule schedule) {
  return schedule == Schedule::DualPipe || schedule == Schedule::DualPipeV;
}

Pipeline pipeline_of(const Problem& problem, const Layout& layout) {
  return {.schedule = layout.schedule,
          .pp = layout.pp,
          .vp = layout.vp,
          .micro_batches = micro_batches(problem.training.global_batch, layout.dp, layout.micro_batch)};
}

/// Layers of a stage that full recomputation covers: all of them, or the first `layers` (block).
double recomputed_share(const Layout& layout, int layers) {
  const int block = layout.recompute.layers;
  return block <= 0 || layers == 0 ? 1.0 : std::min(1.0, static_cast<double>(block) / layers);
}

}  // namespace

std::int64_t sharding_passes(const Problem& problem, const Layout& layout) {
  const std::int64_t m = micro_batches(problem.training.global_batch, layout.dp, layout.micro_batch);
  switch (layout.schedule) {
    case Schedule::GPipe:
    case Schedule::BreadthFirst: return 1;
    case Schedule::Interleaved: return (m + layout.pp - 1) / layout.pp;
    default: return m;
  }
}

void Evaluator::add_block(StageCost& sum, const LayerCost& cost, double count, bool split_backward) const {
  sum.forward += count * cost.forward;
  sum.backward_input += count * cost.backward_input;
  sum.backward_weight += count * cost.backward_weight;
  if (split_backward) sum.backward_input.tp += count * cost.split_penalty;
  sum.paired_ep += count * cost.paired_ep;
}

StageCost Evaluator::stage_cost(const Layout& layout, const StageContent& content) const {
  const bool split = zero_bubble(layout.schedule);
  StageCost sum;
  int layers = 0;
  for (int kind = 0; kind < costs_.kinds(); ++kind) layers += content.layers_of_kind[static_cast<std::size_t>(kind)];
  for (int kind = 0; kind < costs_.kinds(); ++kind) {
    const int count = content.layers_of_kind[static_cast<std::size_t>(kind)];
    if (count == 0) continue;
    add_block(sum, costs_.layer(kind), count, split);
    if (layout.recompute.kind == RecomputeKind::Full)
      sum.recompute += count * recomputed_share(layout, layers) * costs_.full_recompute(kind);
    else if (layout.recompute.kind == RecomputeKind::Selective)
      sum.recompute += static_cast<double>(count) * costs_.selective_recompute(kind, layout.recompute.modules);
  }
  if (content.embedding) add_block(sum, costs_.embedding(), 1, split);
  if (content.head) add_block(sum, costs_.head(), 1, split);
  if (layout.schedule == Schedule::DualPipe) {
    // A rank holds two stages but each micro-batch visits one of them.
    sum.forward = 0.5 * sum.forward, sum.backward_input = 0.5 * sum.backward_input;
    sum.backward_weight = 0.5 * sum.backward_weight, sum.recompute = 0.5 * sum.recompute;
    sum.paired_ep *= 0.5;
  }
  if (problem_.training.stack.ep_overlap && !pairs_micro_batches(layout.schedule)) {
    sum.forward.ep = sum.paired_ep / 2;
    sum.backward_input.ep = sum.paired_ep / 2;
  }
  return sum;
}

DataParallel Evaluator::data_parallel(const Layout& layout, const StageContent& content, const MemoryModel& memory,
                                      const StageCost& cost) const {
  double dense = 0, expert = 0, layers = 0;
  for (int kind = 0; kind < costs_.kinds(); ++kind) {
    const double count = content.layers_of_kind[static_cast<std::size_t>(kind)];
    dense += count * memory.layer(kind).trained_dense;
    expert += count * memory.layer(kind).trained_expert;
    layers += count;
  }
  if (!problem_.training.adapters()) {
    if (content.embedding) dense += memory.ends().embedding_parameters;
    if (content.head) dense += memory.ends().head_parameters + content.mtp * memory.ends().mtp_parameters;
  }
  const Training& training = problem_.training;
  const Cluster& cluster = problem_.cluster;
  const Calibration& fit = cluster.calibration;
  const auto time = [&](Collective op, double bytes, Group group) {
    const bool inside = group.inside(cluster.scale_up_size()) == group.size;
    return collective_time(cluster, op, bytes, group).value / (inside ? fit.scale_up : fit.scale_out);
  };
  const double element = training.stack.states == StateLayout::Fsdp2 ? 4 : training.grad_bytes;
  const double weight = is_fp8(training.precision) && training.stack.fp8_param_gather ? 1 : training.weight_bytes();

  // Dense states shard over `shard` neighbours and replicate over the rest; experts over their own group.
  const int shard = layout.shard_group();
  const Group all{layout.dense_group(), layout.tp}, inner{shard, layout.tp};
  const Group outer{layout.dense_group() / shard, layout.tp * shard};
  const Group experts{layout.expert_dp(), layout.etp * layout.ep};
  DataParallel result;
  if (layout.zero == 0) {
    result.reduce = time(Collective::AllReduce, dense * element, all);
    if (expert > 0) result.reduce += time(Collective::AllReduce, expert * element, experts);
  } else {
    result.reduce = time(Collective::ReduceScatter, dense * element, inner) +
                    time(Collective::AllReduce, dense * element / shard, outer);
    result.gather = time(Collective::AllGather, dense * weight, inner);
    if (expert > 0) {
      result.reduce += time(Collective::ReduceScatter, expert * element, experts);
      result.gather += time(Collective::AllGather, expert * weight, experts);
    }
  }
  if (layout.zero == 3 && layers > 0) {
    // One block at a time: the next block's gather hides under this block's compute.
    const double block = 1 / layers;
    const double forward = result.gather * block, backward = (result.gather + result.reduce) * block;
    const auto hide = [&](double comm, double compute) {
      return std::max(0.0, comm - compute) + fit.overlap_tax * std::min(comm, compute);
    };
    const double forward_compute = cost.forward.total() * block;
    const double backward_compute =
        (cost.backward_input.total() + cost.backward_weight.total() + cost.recompute.total()) * block;
    const double again = training.stack.reshard_after_forward ? backward : result.reduce * block;
    result.exposed_per_pass = layers * (hide(forward, forward_compute) + hide(again, backward_compute));
  }
  const double group = layout.zero == 0 ? 1 : shard;
  const double expert_group = layout.zero == 0 ? 1 : layout.expert_dp();
  // Zero the gradients, read them for the norm, then Adam: 30 bytes a parameter (formulas.md F4).
  const double bytes = dense * (4 + 34 / group) + expert * (4 + 34 / expert_group);
  result.optimizer = memory_bound_time(cluster.gpu, bytes, 20).value / fit.memory_bound;
  return result;
}

void Evaluator::expose_data_parallel(const Layout& layout, const Stages& stages, Step& step) const {
  const Stack& stack = problem_.training.stack;
  const double tax = problem_.cluster.calibration.overlap_tax;
  const double passes = static_cast<double>(sharding_passes(problem_, layout));
  double before_forward = 0, before_backward = 0;  // work of earlier ranks: slack before this rank is waited for
  for (int rank = 0; rank < layout.pp; ++rank) {
    const auto content = static_cast<std::size_t>(stages.content_of[static_cast<std::size_t>(rank)]);
    const StageCost& cost = stage_costs_[content];
    const DataParallel& dp = data_parallel_[content];
    const double forward = cost.forward.total() / layout.vp;
    const double backward =
        (cost.backward_input.total() + cost.backward_weight.total() + cost.recompute.total()) / layout.vp;
    const auto expose = [&](double comm, double slack, bool overlap) {
      if (!overlap) return comm;
      const double hidden = std::min(comm, slack);
      return comm - hidden + tax * hidden;
    };
    if (layout.zero == 3) {
      step.reduce_exposed = std::max(step.reduce_exposed, passes * dp.exposed_per_pass);
    } else {
      // Rank 0 hides its buckets under its last backward pass, later ranks under the drain of the pipeline.
      const double reduce_slack = rank == 0 ? 0.9 * backward * layout.vp : before_backward;
      const double gather_slack = rank == 0 ? 0.9 * forward * layout.vp : before_forward;
      const double repeated =
          layout.zero == 2 ? (passes - 1) * std::max(tax * dp.reduce, dp.reduce - backward * layout.vp) : 0;
      step.reduce_exposed =
          std::max(step.reduce_exposed, repeated + expose(dp.reduce, reduce_slack, stack.overlap_grad_reduce));
      step.gather_exposed = std::max(step.gather_exposed, expose(dp.gather, gather_slack, stack.overlap_param_gather));
    }
    before_forward += forward, before_backward += backward;
  }
}

Evaluator::Step Evaluator::step(const Layout& layout, const Stages& stages, const MemoryModel& memory) {
  stage_costs_.clear(), data_parallel_.clear(), times_.clear();
  for (const StageContent& content : stages.contents) {
    stage_costs_.push_back(stage_cost(layout, content));
    data_parallel_.push_back(data_parallel(layout, content, memory, stage_costs_.back()));
  }
  Step step;
  double slowest = -1, optimizer = 0;
  for (int rank = 0; rank < layout.pp; ++rank) {
    const auto content = static_cast<std::size_t>(stages.content_of[static_cast<std::size_t>(rank)]);
    const StageCost& cost = stage_costs_[content];
    StageTime time{.forward = Seconds(cost.forward.total()),
                   .backward_input = Seconds(cost.backward_input.total() + cost.recompute.total()),
                   .backward_weight = Seconds(cost.backward_weight.total())};
    if (pairs_micro_batches(layout.schedule) && cost.forward.ep > 0)
      time.pair = Seconds(cost.total() - cost.forward.ep - cost.backward_input.ep + cost.paired_ep);
    times_.push_back(time);
    if (cost.total() > slowest) slowest = cost.total(), step.bottleneck = rank;
    optimizer = std::max(optimizer, data_parallel_[content].optimizer);
  }
  const double tokens = static_cast<double>(problem_.training.seq) * layout.micro_batch / layout.cp;
  const double hop_bytes = hidden_bytes(tokens, problem_.model.hidden) / (layout.sequence_parallel ? layout.tp : 1);
  if (layout.pp > 1)
    step.hop = send_time(problem_.cluster, hop_bytes, layout.world() / layout.pp, layout.pp).value /
               problem_.cluster.calibration.scale_out;

  const PipelineTime run = pipeline_time(pipeline_of(problem_, layout), times_, Seconds(step.hop));
  expose_data_parallel(layout, stages, step);

  // The busy time splits as the bottleneck's own micro-batches do.
  const StageCost& cost =
      stage_costs_[static_cast<std::size_t>(stages.content_of[static_cast<std::size_t>(step.bottleneck)])];
  const double share = run.busy.value / cost.total();
  const Phase work = cost.forward + cost.backward_input + cost.backward_weight;
  Terms& terms = step.terms;
  terms.compute = Seconds(share * work.compute);
  terms.recompute = Seconds(share * cost.recompute.total());
  terms.tp = Seconds(share * work.tp);
  terms.cp = Seconds(share * work.cp);
  terms.ep = Seconds(share * work.ep);
  terms.pp = run.hop;
  terms.bubble = run.bubble;
  terms.dp = Seconds(step.reduce_exposed + step.gather_exposed);
  terms.optimizer = Seconds(optimizer + problem_.cluster.calibration.fixed_step_ms * 1e-3);
  terms.straggler =
      Seconds(terms.total().value * problem_.cluster.calibration.jitter * expected_maximum(layout.world()));
  return step;
}

double Evaluator::peak_memory(const Layout& layout, const Stages& stages, const MemoryModel& memory) const {
  const Pipeline pipeline = pipeline_of(problem_, layout);
  std::int64_t peak = 0;
  for (int rank = 0; rank < layout.pp; ++rank) {
    const auto content = static_cast<std::size_t>(stages.content_of[static_cast<std::size_t>(rank)]);
    peak =
        std::max(peak, memory.stage(layout, rank, stages.contents[content], in_flight(pipeline, rank)).total().value);
  }
  return static_cast<double>(peak);
}

double Evaluator::step_time(const Layout& layout, const Stages& stages, const MemoryModel& memory) {
  return step(layout, stages, memory).terms.total().value;
}

Score Evaluator::score(const Layout& layout, const Stages& stages, const MemoryModel& memory) {
  return {step_time(layout, stages, memory), peak_memory(layout, stages, memory)};
}

}  // namespace plan
