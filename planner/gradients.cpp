// Data-parallel work of an Evaluator: gradients summed, parameters gathered, optimizer stepped, and what of it the
// pipeline hides. Tested by tests/planner/estimate_test.cpp.
#include <algorithm>

#include "formulas/kernel_laws.hpp"
#include "formulas/rank_grid.hpp"
#include "formulas/textbook_states.hpp"
#include "formulas/transient.hpp"
#include "planner/evaluate.hpp"

namespace plan {

bool sums_whole_gradients(const Training& training, const Layout& layout) {
  // Until it kept gradients in one buffer by default (contiguous_gradients, DeepSpeed pull request 1199 of July 2021),
  // stage 3 summed whole buckets of them on every rank (stage3.py, buffered_reduce_fallback).
  if (layout.zero == 3) return training.stack.shards_in_lists;
  return training.stack.states == StateLayout::DeepSpeed && layout.zero == 1 && layout.pp > 1 &&
         training.precision == Precision::Bf16;
}

namespace {

/// Ranks that share one copy of a state out among them, and the ranks that hold the same share of other copies.
struct Shards {
  Group all, inside, between;
};

/// HSDP cuts the replicas of dense states and those of experts into as many instances. Both directions of DualPipe hold
/// the same stages on opposite ranks of the pipeline.
Shards shards_of(const Layout& layout, const RankGrid& grid, const Replicas& replicas, const LocalUpdates& local) {
  const bool both = both_ways(layout.schedule);
  const int instances = local.any() ? local.copies : layout.dense_group() / layout.shard_group();
  const int ranks = replicas.size(), inside = std::max(1, ranks / instances);
  const auto everywhere = [&](int size) {
    return both ? grid.with_opposite(replicas.some(size)) : replicas.some(size);
  };
  return {everywhere(local.any() ? inside : ranks), everywhere(inside), replicas.some(ranks / inside, inside)};
}

/// Collects the messages of one rank content.
struct Messages {
  ShardingMessages out{};
  void add(ShardingMessage::What what, Collective op, Group group, double bytes, double passes, double parts = 1) {
    if (group.size > 1 && bytes > 0)
      out.all[static_cast<std::size_t>(out.count++)] = {what, op, group, bytes, passes, parts};
  }
};

/// A table of embeddings of which first and last stage hold a copy each: the head's when tied, or that of the
/// prediction modules' input. A rank with both ends, as under V-shaped schedules, holds it once.
bool shares_table(const Problem& problem, const Layout& layout, const StageContent& content) {
  const bool copies = problem.model.tied || problem.model.mtp.depth > 0;
  return copies && layout.pp > 1 && content.embedding != content.head && !problem.training.adapters() &&
         problem.training.stack.vocab_barriers == 0;
}

/// DeepSpeed keeps gathered weights that it needs again within as many elements (stage3_max_reuse_distance). A larger
/// layer that is recomputed is fetched for that and then for its backward pass.
constexpr double kReuseDistance = 1e9;

bool lets_go(const Training& training, const Layout& layout, const StageSums& sums) {
  return layout.zero == 3 && training.stack.states == StateLayout::DeepSpeed &&
         (sums.dense + sums.expert) / std::max(1, sums.layers) > kReuseDistance;
}

}  // namespace

ShardingMessages Evaluator::sharding_messages(const Layout& layout, const StageSums& sums,
                                              const StageContent& content) const {
  using What = ShardingMessage::What;
  const Training& training = problem_.training;
  const double element = training.grad_bytes;
  const double weight = is_fp8(training.precision) && training.stack.fp8_param_gather ? 1 : training.weight_bytes();
  const double more = training.weight_bytes() - weight;  // of layers that stay in bf16
  const double dense = sums.trained_dense + (training.adapters() ? 0 : sums.ends), expert = sums.trained_expert;
  const double rounds = static_cast<double>(sharding_passes(pipeline_));
  const double reduces = layout.zero == 3 || (layout.zero == 2 && !training.stack.reduces_once) ? rounds : 1;
  const bool refetches = layout.recompute.kind == RecomputeKind::Full && lets_go(training, layout, sums);
  const double gathers =
      layout.zero == 3 ? rounds * ((training.stack.reshard_after_forward ? 2 : 1) + (refetches ? 1 : 0)) : 1;
  const bool whole = layout.zero == 0 || sums_whole_gradients(training, layout);
  const RankGrid grid(layout);
  Messages messages;
  // ZeRO-3 moves layer by layer, and fetches the frozen base of adapters as well.
  const bool layered = layout.zero == 3;
  const bool frozen = layered && training.adapters();
  const auto share = [&](double parameters, double fetched, double in_bf16, const Shards& ranks, double parts) {
    const double weights = fetched * weight + in_bf16 * more;
    if (whole) {
      messages.add(What::Reduce, Collective::AllReduce, ranks.all, parameters * element, reduces, layered ? parts : 1);
    } else {
      messages.add(What::Reduce, Collective::ReduceScatter, ranks.inside, parameters * element, reduces, parts);
      if (!training.local.any())
        messages.add(What::Reduce, Collective::AllReduce, ranks.between, parameters * element / ranks.inside.size,
                     reduces, parts);
    }
    // Copies that train apart meet with what their fp32 parameters moved, each rank with its share.
    if (training.local.any())
      messages.add(What::Outer, Collective::AllReduce, ranks.between, 4 * parameters / ranks.inside.size,
                   1.0 / training.local.steps);
    if (layout.zero > 0 && !layered && training.stack.broadcasts_shards)
      messages.add(What::Gather, Collective::Broadcast, ranks.inside, weights, gathers, ranks.inside.size);
    else if (layout.zero > 0)
      messages.add(What::Gather, Collective::AllGather, ranks.inside, weights, gathers, parts);
  };
  const Shards of_dense = shards_of(layout, grid, grid.dense(), training.local);
  const Shards of_experts = shards_of(layout, grid, grid.expert(), training.local);
  share(dense, frozen ? sums.dense + sums.ends : dense, sums.bf16_dense, of_dense,
        layered ? std::max(1, sums.layers * training.stack.gathers_per_layer) : 1);
  share(expert, frozen ? sums.expert : expert, sums.bf16_expert, of_experts,
        layered ? std::max(1, expert_layers(content)) : 1);
  if (layout.zero > 0)
    messages.out.dense_owners = of_dense.inside.size, messages.out.expert_owners = of_experts.inside.size;
  if (shares_table(problem_, layout, content))
    messages.add(What::Table, Collective::AllReduce, grid.both_ends(),
                 vocab_rows(problem_.model, training, layout) * static_cast<double>(problem_.model.hidden) * element,
                 1);
  return messages.out;
}

int Evaluator::expert_layers(const StageContent& content) const {
  const Model& model = problem_.model;
  const auto routed = [&](int kind) { return model.kinds[static_cast<std::size_t>(kind)].ffn == Ffn::Moe; };
  int layers = content.mtp * static_cast<int>(std::count_if(model.mtp.kinds.begin(), model.mtp.kinds.end(), routed));
  for (int kind = 0; kind < costs_.kinds(); ++kind)
    if (routed(kind)) layers += content.layers_of_kind[static_cast<std::size_t>(kind)];
  return layers;
}

/// PyTorch's collectives on lists of tensors go through a flat buffer, from or into which every rank's share is copied
/// by a call of its own (ProcessGroupNCCL::allgather, reduce_scatter). DeepSpeed makes the list anew for each of them,
/// a view for a rank, once it has waited for all work of the GPU, in a buffer of zeros (partition_parameters.py,
/// _allgather_param). A sum of whole gradients is made in a copy, divided there and copied back (stage3.py,
/// allreduce_bucket).
double Evaluator::list_copies(const ShardingMessage& message, const Cluster& cluster) const {
  if (!problem_.training.stack.shards_in_lists) return 0;
  const Calibration& fit = cluster.calibration;
  const auto passes = [&](double count) {
    return memory_bound_time(cluster.gpu, RealBytes(count * message.bytes), 0).value / fit.memory_bound;
  };
  if (message.op == Collective::AllReduce) return passes(6);
  // A view launches nothing and is taken to cost the host half of a call that does.
  constexpr double kCalls = 1 + 0.5;
  const double launches = kCalls * message.parts * message.group.size * fit.kernel_gap_us * 1e-6;
  return launches + passes(message.op == Collective::AllGather ? 3 : 2);
}

double Evaluator::pass_seconds(const ShardingMessage& message, const StageContent& content) const {
  // A table that both ends of the pipeline hold goes from the first cell to the last.
  const Cluster& cluster =
      message.what == ShardingMessage::What::Table ? problem_.cluster : problem_of(content).cluster;
  const bool inside = message.group.inside(cluster.scale_up_size()) == message.group.size;
  const auto time = [&](double bytes) {
    return collective_time(cluster, message.op, RealBytes(bytes), message.group).value /
           (inside ? cluster.calibration.scale_up : cluster.calibration.scale_out);
  };
  if (message.parts <= 1) return time(message.bytes);
  return time(message.bytes) + (message.parts - 1) * time(1) + list_copies(message, cluster);
}

namespace {

/// What a rank trains, and how it is shared out.
struct Stepped {
  double dense = 0, expert = 0;  ///< parameters
  double dense_owners = 1, expert_owners = 1;
};

/// Seconds to zero the gradients, read them for the norm, then Adam: 30 bytes a parameter (plan-formulas(7) F4). States
/// in host memory are stepped there, while their gradients and weights cross the link. Copies that train apart read and
/// write parameters, those that they last had together and momentum every so many steps.
template <class V>
V step_seconds(const Training& training, const Cluster& cluster, const Stepped& what) {
  const Gpu& gpu = cluster.gpu;
  const Offload& offload = training.offload;
  const V dense = symbol<V>("P", what.dense, "parameters that the rank trains", "layout");
  const V expert = symbol<V>("P_e", what.expert, "parameters of experts that the rank trains", "layout");
  const V owned = dense / symbol<V>("d", what.dense_owners, "ranks that share their states", "layout") +
                  expert / symbol<V>("d_e", what.expert_owners, "ranks that share the states of experts", "layout");
  const V away = symbol<V>("o", offload.optimizer, "share of the states in host memory", "optimizer");
  const V adam = offload.optimizer > 0 ? 34.0 * (1.0 - away) : V(34.0);
  const V reached = symbol<V>("c", cluster.calibration.memory_bound, "share of that rate that training reaches",
                              "cluster's constants");
  const V kernels = symbol<V>("n", 20.0, "kernels", "stack");
  V seconds = memory_bound_law<V>(gpu, 4.0 * (dense + expert) + adam * owned, kernels) / reached;
  if (training.local.any())
    seconds = seconds +
              memory_bound_law<V>(gpu, 6.0 * 4.0 * owned, symbol<V>("n_l", 3.0, "kernels of the outer step", "stack")) /
                  reached /
                  symbol<V>("L", training.local.steps, "steps between two of the outer optimizer", "optimizer");
  if (offload.optimizer > 0 && gpu.host_link.value > 0)
    seconds =
        seconds + textbook::offload_law<V>(
                      away, owned, symbol<V>("H", gpu.host_link.value, "bytes a second to host memory", "GPU preset"));
  return seconds;
}

/// Frozen weights beside adapters take no step.
Stepped stepped(const Training& training, const StageSums& sums, const ShardingMessages& messages) {
  return {sums.trained_dense + (training.adapters() ? 0 : sums.ends), sums.trained_expert, messages.dense_owners,
          messages.expert_owners};
}

}  // namespace

Traced Evaluator::traced_step(const Layout& layout, const StageSums& sums, const StageContent& content) const {
  const Stepped what = stepped(problem_.training, sums, sharding_messages(layout, sums, content));
  return step_seconds<Traced>(problem_.training, problem_of(content).cluster, what);
}

DataParallel Evaluator::price(const Layout& layout, const StageSums& sums, const StageContent& content,
                              RealBytes least_bytes) const {
  const Training& training = problem_.training;
  const Cluster& cluster = problem_of(content).cluster;
  const Gpu& gpu = cluster.gpu;
  DataParallel price;
  const ShardingMessages messages = sharding_messages(layout, sums, content);
  for (const ShardingMessage& message : messages) {
    if (message.bytes < least_bytes.value) continue;
    double& sum = message.what == ShardingMessage::What::Reduce   ? price.reduce
                  : message.what == ShardingMessage::What::Gather ? price.gather
                                                                  : price.table;
    sum += pass_time(message, content) * (message.what == ShardingMessage::What::Outer ? message.passes : 1);
  }
  const Stepped what = stepped(training, sums, messages);
  if (lets_go(training, layout, sums)) price.refetch = price.gather;
  const Offload& offload = training.offload;
  if (offload.parameters && layout.zero >= 2 && gpu.host_link.value > 0) {
    // The shard is fetched before every gather, its gradient sent away behind every reduction.
    const double owned = what.dense / what.dense_owners + what.expert / what.expert_owners;
    price.gather +=
        owned * (training.stack.states == StateLayout::Fsdp2 ? 4 : training.weight_bytes()) / gpu.host_link.value;
    price.reduce += owned * training.grad_bytes / gpu.host_link.value;
  }
  price.optimizer = step_seconds<double>(training, cluster, what);
  return price;
}

void Evaluator::price_sharding(const Layout& layout, const MemoryModel& memory,
                               std::vector<DataParallel>& prices) const {
  prices.clear();
  for (const StageContent& content : stages().contents) {
    DataParallel sum;
    each_state(content, [&](const StageContent& part) {
      sum += price(layout_of(part, layout), memory_of(part, memory).sums(part), part);
    });
    prices.push_back(sum);
  }
}

/// ZeRO-3: the next block's gather hides under this block's compute, forward and backward.
double Evaluator::block_exposed(const StageCost& cost, const DataParallel& price, double layers, bool rebuilt) const {
  const double tax = problem_.cluster.calibration.overlap_tax;
  const bool overlaps = problem_.training.stack.overlap_param_gather;
  const auto hide = [&](double comm, double compute) {
    if (!overlaps) return comm;
    return std::max(0.0, comm - compute) + tax * std::min(comm, compute);
  };
  const double blocks = std::max(1.0, layers);
  const double again =
      (problem_.training.stack.reshard_after_forward ? price.gather : 0) + price.reduce + (rebuilt ? price.refetch : 0);
  return blocks *
         (hide(price.gather / blocks, cost.forward.total() / blocks) + hide(again / blocks, cost.backward() / blocks));
}

Evaluator::Exposed Evaluator::exposed(const Layout& layout, std::span<const DataParallel> prices) const {
  const Stack& stack = problem_.training.stack;
  const double tax = problem_.cluster.calibration.overlap_tax;
  // Interleaved chunks reduce (and fetch) one by one, aligned over the ranks: all but the last hide under the others'
  // micro-batches, which pass group by group.
  const bool by_chunk = schedule_row(layout.schedule).passes == Passes::EachGroup;
  const double last = by_chunk ? 1.0 / layout.vp : 1.0, others = by_chunk ? (1 - last) * pipeline_.group : 0;
  const auto expose = [&](double comm, double pass, double slack, bool overlap) {
    const double early = std::min((1 - last) * comm, others * pass);
    const double hidden = overlap ? early + std::min(comm - early, slack) : 0;
    return comm - hidden + tax * hidden;
  };
  Exposed worst;
  double before_forward = 0, before_backward = 0;  // work of earlier ranks: slack before this rank is waited for
  auto holder = placement_->holders.begin();
  for (const Segment& segment : placement_->segments) {
    const auto content = static_cast<std::size_t>(segment.content);
    const StageCost& cost = stage_costs_[content];
    if (cells_.empty()) {  // of ranks that do the same the first has the least slack, rank 0 apart
      if (holder == placement_->holders.end()) break;
      if (holder->first != segment.first) {
        before_forward += segment.ranks * cost.forward.total() / layout.vp;
        before_backward += segment.ranks * cost.backward() / layout.vp;
        continue;
      }
      ++holder;
    }
    const DataParallel& price = prices[content];
    const Layout& own = layout_of(stages().contents[content], layout);
    const StageRuns* runs = runs_of(stages().contents[content]);
    worst.optimizer = std::max(worst.optimizer, price.optimizer);
    worst.table = std::max(worst.table, price.table);  // once the gradients are reduced, with nothing left to hide it
    if (runs == nullptr && own.zero == 3) {
      worst.reduce = std::max(worst.reduce, passes_ * block_exposed(cost, price, placement_->layers[content],
                                                                    own.recompute.kind == RecomputeKind::Full));
      continue;
    }
    // Rank 0 hides its buckets under its own last backward pass, later ranks under the drain of the pipeline:
    // of equal ones the first has the least time.
    const double backward = cost.backward(), forward = cost.forward.total();
    const double reduce_slack = segment.first == 0 ? 0.9 * last * backward : before_backward;
    const double gather_slack = segment.first == 0 ? 0.9 * last * forward : before_forward;
    const auto repeated = [&](double seconds) {
      return stack.reduces_once ? 0.0 : (passes_ - 1) * std::max(tax * seconds, seconds - backward);
    };
    double reduce = price.reduce, gather = price.gather, besides = own.zero == 2 ? repeated(reduce) : 0;
    if (runs != nullptr) {
      const Moved apart = moved_of_runs(*runs);
      reduce = apart.late.reduce, gather = apart.late.gather, besides = apart.blocks + repeated(apart.repeated);
      if (apart.all_blocks) {
        worst.reduce = std::max(worst.reduce, apart.blocks);
        continue;
      }
    }
    worst.reduce = std::max(worst.reduce, besides + expose(reduce, backward, reduce_slack, stack.overlap_grad_reduce));
    worst.gather = std::max(worst.gather, expose(gather, forward, gather_slack, stack.overlap_param_gather));
    before_forward += segment.ranks * forward / layout.vp, before_backward += segment.ranks * backward / layout.vp;
  }
  return worst;
}

}  // namespace plan
