// Data-parallel work of a rank: gradients summed, parameters gathered, optimizer stepped. Tested by
// tests/planner/estimate_test.cpp.
#include "planner/estimate/sharding_price.hpp"

#include <algorithm>
#include <string>
#include <type_traits>

#include "formulas/kernel_laws.hpp"
#include "formulas/names.hpp"
#include "formulas/rank_grid.hpp"
#include "formulas/textbook/textbook_states.hpp"
#include "formulas/transient.hpp"
#include "planner/cost/gathered.hpp"

namespace plan {
namespace {

/// DeepSpeed's bf16 optimizer keeps fp32 gradients whole, and its pipeline engine all-reduces them
/// (_bf16_reduce_grads in runtime/pipe/engine.py), though each rank updates its shard alone.
bool sums_whole_gradients(const Training& training, const Layout& layout) {
  // Until it kept gradients in one buffer by default (contiguous_gradients, DeepSpeed pull request 1199 of July 2021),
  // stage 3 summed whole buckets of them on every rank (stage3.py, buffered_reduce_fallback).
  if (layout.zero == 3) return training.stack.shards_in_lists;
  return training.stack.states == StateLayout::DeepSpeed && layout.zero == 1 && layout.pp > 1 &&
         training.precision == Precision::Bf16;
}

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
  void add(ShardingMessage::What what, Collective op, Group group, RealBytes bytes, double passes, double parts = 1) {
    if (group.size > 1 && bytes > RealBytes())
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

ShardingMessages ShardingPricer::messages(const Layout& layout, const StageSums& sums, const StageContent& content,
                                          double passes) const {
  using What = ShardingMessage::What;
  const Training& training = problem_.training;
  const RealBytes element(training.grad_bytes);
  const RealBytes weight(training.weight_bytes());
  // Weights of GEMMs alone are gathered in fp8: embedding, head and norms stay in 16 bits.
  const bool in_fp8 = is_fp8(training.precision) && training.stack.fp8_param_gather;
  const RealBytes less = in_fp8 ? weight - RealBytes(1) : RealBytes();
  const double dense = sums.trained_dense + (training.adapters() ? 0 : sums.ends), expert = sums.trained_expert;
  const double reduces = layout.zero == 3 || (layout.zero == 2 && !training.stack.reduces_once) ? passes : 1;
  const bool refetches = layout.recompute.kind == RecomputeKind::Full && lets_go(training, layout, sums);
  const bool again = gathers_each_pass(training, layout);
  const double gathers = layout.zero == 3
                             ? passes * ((training.stack.reshard_after_forward ? 2 : 1) + (refetches ? 1 : 0))
                         : again ? passes
                                 : 1;
  const bool whole = layout.zero == 0 || sums_whole_gradients(training, layout);
  const RankGrid grid(layout);
  Messages messages;
  // ZeRO-3 moves layer by layer, and fetches the frozen base of adapters as well.
  const bool layered = layout.zero == 3;
  const bool frozen = (layered || again) && training.adapters();
  const auto share = [&](double parameters, double fetched, double quantised, const Shards& ranks, double parts) {
    const RealBytes weights = fetched * weight - (training.adapters() && !frozen ? 0 : quantised) * less;
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
      messages.add(What::Outer, Collective::AllReduce, ranks.between, RealBytes(4 * parameters / ranks.inside.size),
                   1.0 / training.local.steps);
    if (layout.zero > 0 && !layered && training.stack.broadcasts_shards)
      messages.add(What::Gather, Collective::Broadcast, ranks.inside, weights, gathers, ranks.inside.size);
    else if (layout.zero > 0)
      messages.add(What::Gather, Collective::AllGather, ranks.inside, weights, gathers, parts);
  };
  const Shards of_dense = shards_of(layout, grid, grid.dense(), training.local);
  const Shards of_experts = shards_of(layout, grid, grid.expert(), training.local);
  share(dense, frozen ? sums.dense + sums.ends : dense, sums.quantised - sums.expert_quantised, of_dense,
        layered ? std::max(1, sums.layers * training.stack.gathers_per_layer) : 1);
  share(expert, frozen ? sums.expert : expert, sums.expert_quantised, of_experts,
        layered ? std::max(1, expert_layers(content)) : 1);
  if (layout.zero > 0)
    messages.out.dense_owners = of_dense.inside.size, messages.out.expert_owners = of_experts.inside.size;
  if (shares_table(problem_, layout, content))
    messages.add(What::Table, Collective::AllReduce, grid.both_ends(),
                 vocab_rows(problem_.model, training, layout) * static_cast<double>(problem_.model.hidden) * element,
                 1);
  return messages.out;
}

int ShardingPricer::expert_layers(const StageContent& content) const {
  const Model& model = problem_.model;
  int layers = 0;
  for (std::size_t kind = 0; kind < model.kinds.size(); ++kind)
    if (model.kinds[kind].ffn == Ffn::Moe) layers += layers_held(model, content, static_cast<int>(kind));
  return layers;
}

/// PyTorch's collectives on lists of tensors go through a flat buffer, from or into which every rank's share is copied
/// by a call of its own (ProcessGroupNCCL::allgather, reduce_scatter). DeepSpeed makes the list again for each of them,
/// a view for a rank, once it has waited for all work of the GPU, in a buffer of zeros (partition_parameters.py,
/// _allgather_param). A sum of whole gradients is made in a copy, divided there and copied back (stage3.py,
/// allreduce_bucket).
template <class V>
SecondsOf<V> ShardingPricer::list_copies(const ShardingMessage& message, const Cluster& cluster) const {
  if (!problem_.training.stack.shards_in_lists) return SecondsOf<V>(0.0);
  const Calibration& fit = cluster.calibration;
  const auto passes = [&](double count) {
    const V copied = count * symbol<V>("y", message.bytes.value, "bytes of the tensors", kShapeOrigin);
    return memory_bound_law<V>(cluster.gpu, copied, V(0.0)) /
           symbol<V>("c", fit.memory_bound, "share of that rate that training reaches", kConstantsOrigin);
  };
  if (message.op == Collective::AllReduce) return passes(6);
  // A view launches nothing and is taken to cost the host half of a call that does.
  constexpr double kCalls = 1 + 0.5;
  const V launches = kCalls * symbol<V>("q", message.parts, "messages of a pass", "layout") *
                     symbol<V>("g", message.group.size, "ranks of the group", "layout");
  const V gap = symbol<V>("h", fit.kernel_gap_us, "microseconds of a launch", kConstantsOrigin);
  return launch_law(launches, gap) + passes(message.op == Collective::AllGather ? 3 : 2);
}

/// Time of one pass of a message, in as many parts as it comes.
template <class V>
SecondsOf<V> ShardingPricer::pass_law(const ShardingMessage& message, const Cluster& own) const {
  // A table that both ends of the pipeline hold goes from the first cell to the last.
  const Cluster& cluster = message.what == ShardingMessage::What::Table ? problem_.cluster : own;
  const auto time = [&](RealBytes bytes) { return collective_seconds<V>(cluster, message.op, bytes, message.group); };
  if (message.parts <= 1) return time(message.bytes);
  return lettered("a", time(message.bytes), "all of it in one message", "s") +
         (symbol<V>("q", message.parts, "messages of a pass", "layout") - 1.0) *
             lettered("l", time(RealBytes(1)), "a message of one byte", "s") +
         list_copies<V>(message, cluster);
}
template Seconds ShardingPricer::pass_law<double>(const ShardingMessage&, const Cluster&) const;

namespace {

/// What a rank trains, and how it is shared out.
struct Stepped {
  double dense = 0, expert = 0;  ///< parameters
  double dense_owners = 1, expert_owners = 1;
  int of_host = 1;  ///< ranks of its host
};

/// Seconds to send gradients to the host, step them there beside those of the other ranks of it, and fetch weights, one
/// after the other as Megatron does unless it is told otherwise (`--overlap-cpu-optimizer-d2h-h2d`).
template <class V>
SecondsOf<V> host_seconds(const Cluster& cluster, const V& away, const V& owned, int of_host) {
  SecondsOf<V> seconds = textbook::host_step_law<V>(
      away, owned, symbol<V>("g", of_host, "ranks of a host", "layout"),
      symbol<V>("R", textbook::kHostAdamRate, "parameters a second that a host steps", "ZeRO-Offload, table 4"));
  if (const double link = cluster.gpu.host_link.value; link > 0)
    seconds = seconds + textbook::offload_law<V>(away, owned,
                                                 symbol<V>("H", link, "bytes a second to host memory", "GPU preset"));
  return seconds;
}

/// Seconds to zero the gradients (4 bytes of each), then of what the rank steps to read them for the norm (4) and for
/// Adam in fp32 with the weight written in 16 bits too (30: plan-formulas(7) F4). States
/// in host memory are stepped there, while their gradients and weights cross the link. Copies that train apart read and
/// write parameters, those that they last had together and momentum every so many steps.
template <class V>
SecondsOf<V> step_seconds(const Training& training, const Cluster& cluster, const Stepped& what) {
  const Gpu& gpu = cluster.gpu;
  const Offload& offload = training.offload;
  const V dense = symbol<V>("P", what.dense, "parameters that the rank trains", "layout");
  const V expert = symbol<V>("P_e", what.expert, "parameters of experts that the rank trains", "layout");
  const V owned = dense / symbol<V>("d", what.dense_owners, "ranks that share their states", "layout") +
                  expert / symbol<V>("d_e", what.expert_owners, "ranks that share the states of experts", "layout");
  const V away = symbol<V>("o", offload.optimizer, "share of the states in host memory", "optimizer");
  const V adam = offload.optimizer > 0 ? 34.0 * (1.0 - away) : V(34.0);
  const V reached =
      symbol<V>("c", cluster.calibration.memory_bound, "share of that rate that training reaches", kConstantsOrigin);
  const V kernels = symbol<V>("n", 20.0, "kernels", "stack");
  SecondsOf<V> seconds = memory_bound_law<V>(gpu, 4.0 * (dense + expert) + adam * owned, kernels) / reached;
  if (training.local.any())
    seconds = seconds +
              memory_bound_law<V>(gpu, 6.0 * 4.0 * owned, symbol<V>("n_l", 3.0, "kernels of the outer step", "stack")) /
                  reached /
                  symbol<V>("L", training.local.steps, "steps between two of the outer optimizer", "optimizer");
  if (offload.optimizer > 0) return seconds + host_seconds<V>(cluster, away, owned, what.of_host);
  return seconds;
}

/// Frozen weights beside adapters take no step.
Stepped stepped(const Training& training, const StageSums& sums, const ShardingMessages& messages, int of_host) {
  return {sums.trained_dense + (training.adapters() ? 0 : sums.ends), sums.trained_expert, messages.dense_owners,
          messages.expert_owners, of_host};
}

/// "reduce_scatter over 64 ranks: one pass".
std::string words_of(const ShardingMessage& message) {
  return std::string(name(message.op)) + " over " + std::to_string(message.group.size) + " ranks: one pass";
}

}  // namespace

template <class V>
ShardingPrice<SecondsOf<V>> ShardingPricer::price(const Layout& layout, const StageSums& sums,
                                                  const StageContent& content, const Cluster& cluster,
                                                  RealBytes least_bytes) const {
  using Time = SecondsOf<V>;
  using What = ShardingMessage::What;
  const Training& training = problem_.training;
  const Gpu& gpu = cluster.gpu;
  ShardingPrice<Time> price;
  const ShardingMessages sent = messages(layout, sums, content, 1);  // one pass of each is what counts here
  int number = 0;
  for (const ShardingMessage& message : sent) {
    ++number;
    if (message.bytes < least_bytes) continue;
    Time& sum = message.what == What::Reduce ? price.reduce : message.what == What::Gather ? price.gather : price.table;
    Time pass(0.0);
    if constexpr (std::is_same_v<V, double>)
      pass = pass_time(message, cluster);
    else
      pass = lettered<V>(
          "t", number, pass_law<V>(message, cluster), [&] { return words_of(message); }, "s");
    if (message.what == What::Outer) pass = pass * symbol<V>("o", message.passes, "of them a step", "optimizer");
    sum = sum + pass;
  }
  const int of_host = std::min(std::max(cluster.gpus_per_node, 1), layout.world());
  const Stepped what = stepped(training, sums, sent, of_host);
  if (lets_go(training, layout, sums)) price.refetch = price.gather;
  const Offload& offload = training.offload;
  if (offload.parameters && layout.zero >= 2 && gpu.host_link.value > 0) {
    // The shard is fetched before every gather, its gradient sent away behind every reduction.
    const double owned = what.dense / what.dense_owners + what.expert / what.expert_owners;
    const V link = symbol<V>("H", gpu.host_link.value, "bytes a second to host memory", "GPU preset");
    const auto crossed = [&](const char* letter, double bytes, const char* meaning) {
      return Time(symbol<V>(letter, bytes, meaning, "layout") / link);
    };
    const double element = training.stack.states == StateLayout::Fsdp2 ? 4 : training.weight_bytes();
    price.gather =
        price.gather + crossed("y_p", owned * element, "bytes of the rank's shard, fetched from host memory");
    price.reduce =
        price.reduce + crossed("y_g", owned * training.grad_bytes, "bytes of its gradients, sent to host memory");
  }
  price.optimizer = step_seconds<V>(training, cluster, what);
  return price;
}

template DataParallel ShardingPricer::price<double>(const Layout&, const StageSums&, const StageContent&,
                                                    const Cluster&, RealBytes) const;
template ShardingPrice<Traced> ShardingPricer::price<Traced>(const Layout&, const StageSums&, const StageContent&,
                                                             const Cluster&, RealBytes) const;

}  // namespace plan
