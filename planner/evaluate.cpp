// Layout -> step time and peak memory, from the costs of its split. Tested by tests/planner/estimate_test.cpp.
#include "planner/evaluate.hpp"

#include <algorithm>
#include <cmath>

#include "formulas/communication.hpp"
#include "formulas/efficiency.hpp"
#include "formulas/reliability.hpp"

namespace plan {
namespace {

bool pairs_micro_batches(Schedule schedule) {
  return schedule == Schedule::DualPipe || schedule == Schedule::DualPipeV;
}

}  // namespace

Pipeline pipeline_of(const Problem& problem, const Layout& layout) {
  return {.schedule = layout.schedule,
          .pp = layout.pp,
          .vp = layout.vp,
          .micro_batches = micro_batches(problem.training.global_batch, layout.dp, layout.micro_batch)};
}

double held(const Pipeline& pipeline, int rank) {
  return in_flight(pipeline, rank) * (pipeline.schedule == Schedule::DualPipe ? 0.5 : 1);
}

double slowest_of(int ranks) {
  return ranks > 1 ? straggler_step({.mean = 0, .deviation = 1, .groups = static_cast<double>(ranks)}).value : 0;
}

std::int64_t sharding_passes(const Pipeline& pipeline) {
  switch (pipeline.schedule) {
    case Schedule::GPipe:
    case Schedule::BreadthFirst: return 1;
    case Schedule::Interleaved: return (pipeline.micro_batches + pipeline.pp - 1) / pipeline.pp;
    default: return pipeline.micro_batches;
  }
}

void Evaluator::place(const Layout& layout) {
  layout_ = layout;
  pipeline_ = pipeline_of(problem_, layout);
  stages_ = plan_stages(problem_, costs_, layout);
  stage_costs_.clear(), content_layers_.clear();
  for (const StageContent& content : stages_.contents) {
    double layers = 0;
    for (const int count : content.layers_of_kind) layers += count;
    content_layers_.push_back(layers);
    stage_costs_.push_back(stage_cost(content));
  }
  hop_ = 0;
  if (layout.pp > 1) {
    const double tokens = static_cast<double>(problem_.training.seq) * layout.micro_batch / layout.cp;
    const double bytes = hidden_bytes(tokens, problem_.model.hidden) / (layout.sequence_parallel ? layout.tp : 1);
    hop_ = send_time(problem_.cluster, bytes, layout.world() / layout.pp, layout.pp).value /
           problem_.cluster.calibration.scale_out;
  }
  straggler_ = problem_.cluster.calibration.jitter * slowest_of(layout.world());
  find_holders();
  recompute({});
}

void Evaluator::add_block(StageCost& sum, const LayerCost& cost, double count) const {
  sum.forward += count * cost.forward;
  sum.backward_input += count * cost.backward_input;
  sum.backward_weight += count * cost.backward_weight;
  if (splits_backward(layout_.schedule)) sum.backward_input.tp += count * cost.split_penalty;
  sum.paired_ep += count * cost.paired_ep;
}

StageCost Evaluator::stage_cost(const StageContent& content) const {
  // A DualPipe rank holds two stages but each micro-batch meets one of them.
  const double visits = layout_.schedule == Schedule::DualPipe ? 0.5 : 1;
  StageCost sum;
  for (int kind = 0; kind < costs_.kinds(); ++kind)
    if (const int count = content.layers_of_kind[static_cast<std::size_t>(kind)]; count > 0)
      add_block(sum, costs_.layer(kind), visits * count);
  const bool spread = problem_.training.stack.vocab_parallel;
  if (spread || content.embedding) add_block(sum, costs_.embedding(), spread ? visits / layout_.pp : visits);
  if (spread || content.head) add_block(sum, costs_.head(), spread ? visits / layout_.pp : visits);
  if (problem_.training.stack.ep_overlap && !pairs_micro_batches(layout_.schedule))
    sum.forward.ep = sum.backward_input.ep = sum.paired_ep / 2;
  return sum;
}

Phase Evaluator::recompute_cost(const StageContent& content, const Recompute& choice) const {
  Phase sum;
  if (choice.kind == RecomputeKind::None) return sum;
  double layers = 0;
  for (const int count : content.layers_of_kind) layers += count;
  const double covered = choice.layers > 0 && layers > 0 ? std::min(1.0, choice.layers / layers) : 1.0;
  const double visits = layout_.schedule == Schedule::DualPipe ? 0.5 : 1;
  for (int kind = 0; kind < costs_.kinds(); ++kind) {
    const int count = content.layers_of_kind[static_cast<std::size_t>(kind)];
    if (count == 0) continue;
    sum += visits * count *
           (choice.kind == RecomputeKind::Full ? covered * costs_.full_recompute(kind)
                                               : costs_.selective_recompute(kind, choice.modules));
  }
  return sum;
}

void Evaluator::recompute(const Recompute& choice) {
  times_.clear();
  for (std::size_t i = 0; i < stage_costs_.size(); ++i)
    stage_costs_[i].recompute = recompute_cost(stages_.contents[i], choice);
  double slowest = -1;
  for (int rank = 0; rank < layout_.pp; ++rank) {
    const StageCost& cost = stage_costs_[content_of(rank)];
    StageTime time{.forward = Seconds(cost.forward.total()),
                   .backward_input = Seconds(cost.backward_input.total() + cost.recompute.total()),
                   .backward_weight = Seconds(cost.backward_weight.total())};
    if (pairs_micro_batches(layout_.schedule) && cost.forward.ep > 0)
      time.pair = Seconds(cost.total() - cost.forward.ep - cost.backward_input.ep + cost.paired_ep);
    times_.push_back(time);
    if (cost.total() > slowest) slowest = cost.total(), bottleneck_ = rank;
  }
  run_ = pipeline_time(pipeline_, times_, Seconds(hop_));
}

double Evaluator::least_time() const { return terms({}).total().value; }

void Evaluator::find_holders() {
  holders_.clear();
  for (int rank = 0; rank < layout_.pp; ++rank) {
    const Holder holder{stages_.content_of[static_cast<std::size_t>(rank)], rank, held(pipeline_, rank)};
    const auto same = std::find_if(holders_.begin(), holders_.end(), [&](const Holder& other) {
      return other.content == holder.content && (other.rank > 0) == (rank > 0);
    });
    if (same == holders_.end())
      holders_.push_back(holder);
    else if (holder.held > same->held)
      *same = holder;
  }
}

void Evaluator::price_sharding(const Layout& layout, const MemoryModel& memory,
                               std::vector<DataParallel>& prices) const {
  const Training& training = problem_.training;
  const Cluster& cluster = problem_.cluster;
  const Calibration& fit = cluster.calibration;
  const auto time = [&](Collective op, double bytes, Group group) {
    if (group.size <= 1 || bytes <= 0) return 0.0;
    const bool inside = group.inside(cluster.scale_up_size()) == group.size;
    return collective_time(cluster, op, bytes, group).value / (inside ? fit.scale_up : fit.scale_out);
  };
  const double element = training.stack.states == StateLayout::Fsdp2 ? 4 : training.grad_bytes;
  const double weight = is_fp8(training.precision) && training.stack.fp8_param_gather ? 1 : training.weight_bytes();
  // Dense states shard over `shard` neighbours and replicate over the rest; experts over their own group.
  // Both directions of DualPipe reduce the same stage, so its group is twice as large.
  const int directions = layout.schedule == Schedule::DualPipe ? 2 : 1;
  const int shard = layout.shard_group();
  const Group all{layout.dense_group() * directions, layout.tp}, inner{shard, layout.tp};
  const Group outer{layout.dense_group() / shard, layout.tp * shard};
  const Group experts{layout.expert_dp() * directions, layout.etp * layout.ep};
  prices.clear();
  for (const StageContent& content : stages_.contents) {
    double dense = 0, expert = 0;
    for (int kind = 0; kind < costs_.kinds(); ++kind) {
      const double count = content.layers_of_kind[static_cast<std::size_t>(kind)];
      dense += count * memory.layer(kind).trained_dense;
      expert += count * memory.layer(kind).trained_expert;
    }
    if (!training.adapters()) {
      if (content.embedding) dense += memory.ends().embedding_parameters;
      if (content.head) dense += memory.ends().head_parameters + content.mtp * memory.ends().mtp_parameters;
    }
    DataParallel price;
    if (layout.zero == 0) {
      price.reduce =
          time(Collective::AllReduce, dense * element, all) + time(Collective::AllReduce, expert * element, experts);
    } else {
      price.reduce = time(Collective::ReduceScatter, dense * element, inner) +
                     time(Collective::AllReduce, dense * element / shard, outer) +
                     time(Collective::ReduceScatter, expert * element, experts);
      price.gather =
          time(Collective::AllGather, dense * weight, inner) + time(Collective::AllGather, expert * weight, experts);
    }
    if (layout.zero == 3) {  // fetched layer by layer
      const double messages = content_layers_[prices.size()] * training.stack.gathers_per_layer;
      price.gather += std::max(0.0, messages - 1) * time(Collective::AllGather, 1, inner);
      price.reduce += std::max(0.0, messages - 1) * time(Collective::ReduceScatter, 1, inner);
    }
    // Zero the gradients, read them for the norm, then Adam: 30 bytes a parameter (formulas.md F4).
    const double group = layout.zero == 0 ? 1 : shard, expert_group = layout.zero == 0 ? 1 : layout.expert_dp();
    const double bytes = dense * (4 + 34 / group) + expert * (4 + 34 / expert_group);
    price.optimizer = memory_bound_time(cluster.gpu, bytes, 20).value / fit.memory_bound;
    prices.push_back(price);
  }
}

/// ZeRO-3: the next block's gather hides under this block's compute, forward and backward.
double Evaluator::block_exposed(const StageCost& cost, const DataParallel& price, double layers) const {
  const double tax = problem_.cluster.calibration.overlap_tax;
  const bool overlaps = problem_.training.stack.overlap_param_gather;
  const auto hide = [&](double comm, double compute) {
    if (!overlaps) return comm;
    return std::max(0.0, comm - compute) + tax * std::min(comm, compute);
  };
  const double blocks = std::max(1.0, layers);
  const double again = problem_.training.stack.reshard_after_forward ? price.gather + price.reduce : price.reduce;
  return blocks *
         (hide(price.gather / blocks, cost.forward.total() / blocks) + hide(again / blocks, cost.backward() / blocks));
}

Evaluator::Exposed Evaluator::exposed(const Layout& layout, std::span<const DataParallel> prices) const {
  const Stack& stack = problem_.training.stack;
  const double tax = problem_.cluster.calibration.overlap_tax;
  const double passes = static_cast<double>(sharding_passes(pipeline_));
  // Interleaved chunks reduce (and fetch) one by one, aligned over the ranks: all but the last hide under the others'
  // micro-batches, which pass in groups of pp.
  const bool by_chunk = layout.schedule == Schedule::Interleaved && layout.vp > 1;
  const double last = by_chunk ? 1.0 / layout.vp : 1.0, others = (1 - last) * layout.pp;
  const auto expose = [&](double comm, double pass, double slack, bool overlap) {
    const double early = std::min((1 - last) * comm, others * pass);
    const double hidden = overlap ? early + std::min(comm - early, slack) : 0;
    return comm - hidden + tax * hidden;
  };
  Exposed worst;
  double before_forward = 0, before_backward = 0;  // work of earlier ranks: slack before this rank is waited for
  for (int rank = 0; rank < layout.pp; ++rank) {
    const std::size_t content = content_of(rank);
    const StageCost& cost = stage_costs_[content];
    const DataParallel& price = prices[content];
    worst.optimizer = std::max(worst.optimizer, price.optimizer);
    if (layout.zero == 3) {
      worst.reduce = std::max(worst.reduce, passes * block_exposed(cost, price, content_layers_[content]));
      continue;
    }
    // Rank 0 hides its buckets under its own last backward pass, later ranks under the drain of the pipeline.
    const double backward = cost.backward(), forward = cost.forward.total();
    const double reduce_slack = rank == 0 ? 0.9 * last * backward : before_backward;
    const double gather_slack = rank == 0 ? 0.9 * last * forward : before_forward;
    const double repeated = layout.zero == 2 ? (passes - 1) * std::max(tax * price.reduce, price.reduce - backward) : 0;
    worst.reduce =
        std::max(worst.reduce, repeated + expose(price.reduce, backward, reduce_slack, stack.overlap_grad_reduce));
    worst.gather = std::max(worst.gather, expose(price.gather, forward, gather_slack, stack.overlap_param_gather));
    before_forward += forward / layout.vp, before_backward += backward / layout.vp;
  }
  return worst;
}

Terms Evaluator::terms(const Exposed& exposed) const {
  // The busy time splits as the bottleneck's own micro-batches do.
  const StageCost& cost = stage_costs_[content_of(bottleneck_)];
  const double share = run_.busy.value / cost.total();
  const Phase work = cost.forward + cost.backward_input + cost.backward_weight;
  Terms terms;
  terms.compute = Seconds(share * work.compute);
  terms.recompute = Seconds(share * cost.recompute.total());
  terms.tp = Seconds(share * work.tp);
  terms.cp = Seconds(share * work.cp);
  terms.ep = Seconds(share * work.ep);
  terms.pp = run_.hop;
  terms.bubble = run_.bubble;
  terms.dp = Seconds(exposed.reduce + exposed.gather);
  terms.optimizer = Seconds(exposed.optimizer + problem_.cluster.calibration.fixed_step_ms * 1e-3);
  terms.straggler = Seconds(terms.total().value * straggler_);
  return terms;
}

double Evaluator::step_time(const Layout& layout, std::span<const DataParallel> prices) const {
  return terms(exposed(layout, prices)).total().value;
}

double Evaluator::peak_memory(const Layout& layout, const MemoryModel& memory) const {
  std::int64_t peak = 0;
  for (const Holder& holder : holders_) {
    const StageContent& content = stages_.contents[static_cast<std::size_t>(holder.content)];
    peak = std::max(peak, memory.stage(layout, holder.rank, content, holder.held).total().value);
  }
  return static_cast<double>(peak);
}

}  // namespace plan
