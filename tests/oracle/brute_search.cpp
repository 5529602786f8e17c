#include "oracle/brute_search.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "formulas/layer_rows.hpp"
#include "formulas/rank_grid.hpp"
#include "planner/estimate/evaluate.hpp"
#include "planner/memory/host_memory.hpp"
#include "planner/problem/axes.hpp"
#include "planner/rules/frameworks.hpp"
#include "planner/rules/rules.hpp"
#include "planner/search/enumerate.hpp"

namespace plan::oracle {
namespace {

/// Every choice of the axes but recomputation and layers, without a look at any rule: what the brute force scores, and
/// what tests/planner/space_test.cpp counts.
struct Space {
  const Problem& problem;
  const std::function<void(const Layout&)>& visit;

  /// Micro-batches that nobody fixed: of up to 131,072 tokens a rank, and in a pipeline 1, 2, 4, 8, ..., beside
  /// 3, 5, 6 and 7 where 8 does not divide a replica's sequences. Replicas that do not divide the batch are one choice,
  /// which a rule rejects.
  bool tried(const Layout& l) const {
    const std::int64_t size = l.micro_batch, batch = problem.training.global_batch;
    if (batch % l.dp != 0) return size == 1;
    return batch % (size * l.dp) == 0 &&
           (l.pp == 1 || (size & (size - 1)) == 0 || (size < 9 && batch / l.dp % 8 != 0)) &&
           (size == 1 || size * problem.training.seq <= 131072);
  }

  /// Chunks of a rank that a schedule has, and any number that the user fixed.
  bool has_chunks(const Layout& l) const {
    if (l.vp == problem.fixed.vp) return true;
    switch (schedule_row(l.schedule).chunks) {
      case Chunks::One: return l.vp == 1;
      case Chunks::Two: return l.vp == 2;
      case Chunks::Many: return l.vp > 1 && l.vp * l.pp <= problem.model.depth() + 2;
    }
    return false;
  }

  /// Whether a pipeline with replicas meets a tier of the network between its inner block and the job: elsewhere both
  /// orders of the axes are one.
  bool both_orders(const Layout& l) const {
    return l.dp > 1 && std::any_of(problem.cluster.tiers.begin(), problem.cluster.tiers.end(), [&](const Tier& tier) {
             return tier.size > l.tp * l.cp && tier.size < problem.gpus;
           });
  }

  void shardings(Layout layout) const {
    for (layout.zero = 0; layout.zero <= 3; ++layout.zero)
      for (layout.shard = 0; layout.shard < layout.dense_group(); ++layout.shard)
        if (layout.shard != 1 && layout.dense_group() % std::max(1, layout.shard) == 0 &&
            (layout.zero > 0 || layout.shard == 0))
          visit(layout);
  }

  /// Interleaved micro-batches pass a chunk in the smallest groups, or in groups of two or four a stage.
  void groups(Layout layout) const {
    const int pp = layout.schedule == Schedule::Interleaved ? layout.pp : 0;
    for (layout.group = 0; layout.group <= std::max(4 * pp, problem.fixed.group.value_or(0)); ++layout.group)
      if (layout.group == 0 || layout.group == problem.fixed.group || layout.group == 2 * pp || layout.group == 4 * pp)
        shardings(layout);
  }

  void schedules(Layout layout) const {
    const AxisOrder usual = problem.fixed.order.value_or(AxisOrder::PipelineOutermost);
    layout.order = usual;
    if (layout.pp == 1) return shardings(layout);
    for (const ScheduleRow& row : kScheduleRows) {
      layout.schedule = row.schedule;
      for (layout.vp = 1; layout.vp <= problem.model.depth() + 2; ++layout.vp)
        for (const AxisOrder order : {AxisOrder::PipelineOutermost, AxisOrder::DataOutermost}) {
          layout.order = order;
          if (has_chunks(layout) && (order == usual || both_orders(layout))) groups(layout);
        }
    }
  }

  void contexts(Layout layout) const {
    if (layout.cp == 1) return schedules(layout);
    for (const CpKind kind : {CpKind::Ring, CpKind::AllGather, CpKind::Ulysses, CpKind::Hybrid}) {
      layout.cp_kind = kind;
      const int parts = kind == CpKind::Hybrid ? layout.cp - 1 : 1;
      for (layout.cp_ulysses = kind == CpKind::Hybrid ? 2 : 1; layout.cp_ulysses <= parts; ++layout.cp_ulysses)
        if (layout.cp % layout.cp_ulysses == 0) schedules(layout);
    }
  }

  void experts(Layout layout) const {
    const int experts = problem.model.moe() ? static_cast<int>(problem.model.experts()) : 1;
    const std::optional<int> fixed = problem.fixed.etp;  // any, where the user says so
    for (layout.etp = 1; layout.etp <= std::max(layout.tp, fixed.value_or(1)); ++layout.etp) {
      if (layout.etp != fixed && layout.etp != 1 && (layout.tp % layout.etp != 0 || !problem.model.moe())) continue;
      for (layout.ep = 1; layout.ep <= std::max(experts, problem.fixed.ep.value_or(1)); ++layout.ep)
        for (layout.micro_batch = 1; layout.micro_batch <= problem.training.global_batch; ++layout.micro_batch)
          if ((layout.ep == problem.fixed.ep || experts % layout.ep == 0) &&
              (layout.micro_batch == problem.fixed.micro_batch || tried(layout)))
            contexts(layout);
    }
  }

  void grids() const {
    Layout layout;
    for (layout.tp = 1; layout.tp <= problem.gpus; ++layout.tp)
      for (layout.cp = 1; layout.tp * layout.cp <= problem.gpus; ++layout.cp)
        for (layout.pp = 1; layout.tp * layout.cp * layout.pp <= problem.gpus; ++layout.pp) {
          if (problem.gpus % (layout.tp * layout.cp * layout.pp) != 0) continue;
          layout.dp = problem.gpus / (layout.tp * layout.cp * layout.pp);
          const bool split =
              framework_row(problem.framework).splits_sequence && problem.training.seq / layout.cp % layout.tp == 0;
          layout.sequence_parallel = layout.tp > 1 && problem.fixed.sequence_parallel.value_or(split);
          experts(layout);
        }
  }
};

/// Collects the candidates of one job.
struct Collector {
  const Problem& problem;
  RealBytes capacity, host;
  std::vector<Candidate>& found;
  std::map<Split, CostModel> known{};

  /// Exactly what was fixed, whatever the axis.
  bool wanted(const Layout& l) const {
    bool all = true;
    each_axis([&](const auto& axis) {
      if (axis.key == "layers" || axis.key == "recompute") return;  // chosen below
      if (const auto& value = problem.fixed.*axis.fixed; value && !(*value == l.*axis.value)) all = false;
    });
    return all && (!problem.fixed.chunk_layers || suits(*problem.fixed.chunk_layers, l));
  }

  /// A number for each chunk, every layer of the model on one of them.
  bool suits(const std::vector<int>& layers, const Layout& l) const {
    int sum = 0;
    for (const int count : layers) sum += count;
    return static_cast<int>(layers.size()) == l.pp * l.vp && sum == problem.model.depth();
  }

  bool legal(const Layout& layout) const {
    for (const Level level :
         {Level::Grid, Level::Experts, Level::MicroBatch, Level::Context, Level::Schedule, Level::Sharding})
      if (broken_rule(problem, layout, level) >= 0) return false;
    return true;
  }

  /// What ranks leave in the memory of their node, rank by rank.
  RealBytes most_on_a_node(const Layout& layout, const Evaluator& evaluator, const MemoryModel& memory) const {
    const RankGrid grid(layout);
    std::vector<RealBytes> nodes(static_cast<std::size_t>(layout.world() / problem.cluster.gpus_per_node) + 1);
    const Stages& stages = evaluator.stages();
    std::vector<RealBytes> of_stage;
    for (int stage = 0; stage < layout.pp; ++stage) {
      const int content = stages.content_of[static_cast<std::size_t>(stage)];
      const StageContent& held = stages.contents[static_cast<std::size_t>(content)];
      of_stage.push_back(RealBytes(memory.stage(layout, stage, held, evaluator.held_by(stage)).host));
    }
    for (int rank = 0; rank < layout.world(); ++rank)
      nodes[static_cast<std::size_t>(rank / problem.cluster.gpus_per_node)] +=
          of_stage[static_cast<std::size_t>(grid.place(rank).pp)];
    return *std::max_element(nodes.begin(), nodes.end());
  }

  void run(Layout layout) {
    if (!wanted(layout)) return;
    layout.chunk_layers = problem.fixed.chunk_layers.value_or(std::vector<int>{});
    if (!legal(layout)) return;
    const Split split = split_of(layout);
    const CostModel& costs = known.try_emplace(split, problem, split).first->second;
    Evaluator evaluator(problem, costs, layout);
    for (const Recompute& recompute : enumerate_recomputes(problem, least_deepest(problem, layout))) {
      layout.recompute = recompute;
      if (broken_rule(problem, layout) >= 0) continue;
      const MemoryModel memory(problem, layout);
      evaluator.place(layout);
      evaluator.recompute(recompute);
      const Score score{evaluator.step_terms(layout, memory).total(), evaluator.peak_memory(layout, memory)};
      if (score.peak <= capacity && most_on_a_node(layout, evaluator, memory) <= host)
        found.push_back({layout, score, accepting(problem, layout, wanted_frameworks(problem)), problem.switched});
    }
  }
};

/// Every layout of the job as it stands.
void search_one(const Problem& problem, bool at_risk, std::vector<Candidate>& found) {
  Collector collector{problem, usable_memory(problem, at_risk), usable_host(problem, at_risk), found};
  each_choice(problem, [&](const Layout& layout) { collector.run(layout); });
}

/// Every module that some layer of the model can send to host memory: attention's own parts, what Megatron wraps around
/// them, and the routed experts'. The norm in front of a FFN that shares its mixer's norm is none.
std::uint16_t every_offload_module(const Model& model) {
  unsigned all = 0;
  for (const Layer& layer : model.kinds) {
    const bool attention = layer.mixer == Mixer::Attention || layer.mixer == Mixer::Latent;
    if (attention) all |= kOffloadQkvLinear | kOffloadCoreAttention | kOffloadAttentionProjection;
    if (attention || layer.mixer == Mixer::DeltaNet) all |= kOffloadAttentionNorm;
    if (layer.ffn == Ffn::Moe) all |= kOffloadExpertFc1 | kOffloadMoeActivation;
    const bool own_norm = layer.mixer == Mixer::None || layer.norms > 1;
    if (layer.ffn != Ffn::None && own_norm) all |= kOffloadMlpNorm;
  }
  return static_cast<std::uint16_t>(all);
}

}  // namespace

void each_choice(const Problem& problem, const std::function<void(const Layout&)>& visit) {
  Space{problem, visit}.grids();
}

Problem switched_by_hand(const Problem& problem, SwitchMask on) {
  Problem job = problem;
  job.switched = on, job.free_switches = 0;
  if ((on & kSwitchOptimizer) != 0) job.training.offload.optimizer = 1;
  if ((on & kSwitchWeights) != 0) job.training.offload.parameters = true;
  if ((on & kSwitchActivations) != 0) job.training.offload.modules = every_offload_module(problem.model);
  if ((on & kSwitchGraphs) == 0) return job;
  for (const Layer& layer : problem.model.kinds) {
    int scopes = job.training.stack.graph_scopes;
    scopes |= mixer_row(layer.mixer).graph;
    scopes |= layer.ffn == Ffn::Moe ? kGraphRouter | kGraphPreprocess : int{kGraphMlp};
    job.training.stack.graph_scopes = static_cast<std::uint16_t>(scopes);
  }
  return job;
}

std::vector<Candidate> brute_search(const Problem& problem, bool at_risk) {
  std::vector<Candidate> found;
  const bool launches = framework_with(problem.framework, &FrameworkRow::graphs_of_parts) != nullptr;
  const bool linked = problem.cluster.gpu.host_link.value > 0;
  const Optimizer optimizer = problem.training.optimizer;
  const bool elementwise =  // and in whole numbers of bytes: what hosts step
      optimizer != Optimizer::Muon && optimizer != Optimizer::Adafactor && optimizer != Optimizer::Adam8bit;
  const bool optimizers =
      linked && elementwise && framework_with(problem.framework, &FrameworkRow::offloads_optimizer) != nullptr;
  const bool activations = linked && framework_with(problem.framework, &FrameworkRow::offloads_activations) != nullptr;
  const std::span<const FrameworkRow> rows = frameworks();
  const bool weights = linked && elementwise && std::any_of(rows.begin(), rows.end(), [&](const FrameworkRow& row) {
                         return row.offloads_weights && named(row.framework) &&
                                (wanted_frameworks(problem) & framework_bit(row.framework)) != 0;
                       });
  const unsigned has = (launches ? unsigned{kSwitchGraphs} : 0) |
                       (optimizers || weights ? unsigned{kSwitchOptimizer} : 0) |
                       (weights ? unsigned{kSwitchWeights} : 0) |
                       (activations && every_offload_module(problem.model) != 0 ? unsigned{kSwitchActivations} : 0);
  for (unsigned on = 0; on <= has; ++on) {
    if ((on & kSwitchWeights) != 0 ? (on & kSwitchOptimizer) == 0 : (on & kSwitchOptimizer) != 0 && !optimizers)
      continue;
    const bool asked = problem.objective != Objective::Memory && (on & ~problem.free_switches) == 0;
    if (on == 0 || ((on & ~has) == 0 && asked))
      search_one(switched_by_hand(problem, static_cast<SwitchMask>(on)), at_risk, found);
  }
  return found;
}

}  // namespace plan::oracle
