// The reports of layouts over several pools: the best, and one that was given. Tested by tests/planner/pools_test.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "formulas/schedule.hpp"
#include "planner/choice/choice.hpp"
#include "planner/choice/hardware_notes.hpp"
#include "planner/estimate/physics.hpp"
#include "planner/estimate/uncertainty.hpp"
#include "planner/pools/pools.hpp"
#include "planner/problem/axes.hpp"
#include "planner/rules/complete_layout.hpp"
#include "planner/rules/frameworks.hpp"
#include "planner/rules/rules.hpp"

namespace plan {
namespace {

/// A pipeline over pools takes one chunk a stage, which goes through it in one direction.
bool suits_pools(Schedule schedule) { return takes_chunks(schedule, 1) && parameter_copies(schedule) == 1; }

const Fixed& axes_of(const Problem& problem, int pool) {
  static const Fixed kNone;
  return problem.pool_fixed.empty() ? kNone : problem.pool_fixed[static_cast<std::size_t>(pool)];
}

/// Micro-batches so large that each pool takes as many sequences at once as the one that takes most.
void level_micro_batches(const Problem& problem, PooledLayout& layout) {
  int most = 1;
  for (const PooledRun& run : layout.runs) most = std::max(most, run.layout.dp * run.layout.micro_batch);
  for (PooledRun& run : layout.runs) {
    const bool fixed = problem.fixed.micro_batch || axes_of(problem, run.pool).micro_batch;
    if (!fixed && most % run.layout.dp == 0) run.layout.micro_batch = most / run.layout.dp;
  }
}

/// Layers as they are fixed, of the whole pipeline or of all pools; empty if they are not.
Result<std::vector<int>> fixed_layers(const Problem& problem, int stages) {
  std::vector<int> layers = problem.fixed.chunk_layers.value_or(std::vector<int>{});
  std::size_t pools = 0;
  for (const Fixed& own : problem.pool_fixed) {
    if (!own.chunk_layers) continue;
    ++pools;
    layers.insert(layers.end(), own.chunk_layers->begin(), own.chunk_layers->end());
  }
  const bool partly = pools > 0 && (pools < problem.pools.size() || problem.fixed.chunk_layers);
  if (partly)
    return fail({"no_layout",
                 "`layers=` is given for some pools and not for others",
                 {},
                 {"give it for every pool, or for none: plan then places them by speed and memory"}});
  const int sum = std::accumulate(layers.begin(), layers.end(), 0);
  if (!layers.empty() && static_cast<int>(layers.size()) != stages)
    return fail({"no_layout", fmt::format("`layers=` has {} numbers for {} stages", layers.size(), stages)});
  if (!layers.empty() && sum != problem.model.depth())
    return fail({"no_layout", fmt::format("`layers=` places {} layers, and {} has {}", sum, problem.model.name,
                                          problem.model.depth())});
  return layers;
}

void place(PooledLayout& layout, const std::vector<int>& layers) {
  auto next = layers.begin();
  for (PooledRun& run : layout.runs) {
    run.layout.chunk_layers.assign(next, next + run.layout.pp);
    next += run.layout.pp;
  }
}

/// The best plan of each pool by itself, without switches that nobody stated: they are not of all pools together
/// either.
std::vector<PoolAlone> each_alone(const Problem& problem) {
  std::vector<PoolAlone> all;
  for (int pool = 0; pool < static_cast<int>(problem.pools.size()); ++pool) {
    PoolAlone alone{pool, std::nullopt};
    Problem own = pool_alone(problem, pool);
    own.top = 1, own.pareto = false, own.free_switches = 0;
    const RunnableSearch one = find_on_at_most(own);
    if (one.result.recommended) alone.best = estimate(one.problem, one.result.recommended->layout);
    all.push_back(std::move(alone));
  }
  return all;
}

}  // namespace

std::optional<Error> unsuited_words(const Problem& problem, bool places_layers) {
  const auto refuse = [](std::string text) {
    return Error{"no_layout", std::move(text), {}, {"leave that word out, or name one kind of GPU"}};
  };
  std::vector<Fixed> all = problem.pool_fixed;
  all.push_back(problem.fixed);
  for (const Fixed& fixed : all) {
    if (fixed.vp.value_or(1) != 1 || (fixed.schedule && !suits_pools(*fixed.schedule)))
      return refuse("pipelines over several pools run 1f1b, gpipe, zb-h1 or zb-h2, with one chunk a stage");
    if (fixed.order.value_or(AxisOrder::PipelineOutermost) != AxisOrder::PipelineOutermost)
      return refuse("over several pools the pipeline is the outermost axis: data parallelism stays inside a pool");
  }
  for (const Fixed& fixed : problem.pool_fixed)
    if (places_layers && fixed.chunk_layers)
      return refuse("a search over pools places the layers: `plan estimate` takes `layers=` for each pool");
  return std::nullopt;
}

std::optional<std::string> broken_text(const Problem& problem, const PooledLayout& layout) {
  const auto named_pool = [&](const PooledRun& run) {
    const Pool& pool = problem.pools[static_cast<std::size_t>(run.pool)];
    return fmt::format("{} x {}", pool.gpus, pool.cluster.gpu.name);
  };
  const PooledRun& front = layout.runs.front();
  if (layout.stages() > problem.model.depth())
    return fmt::format("{} stages for {} layers", layout.stages(), problem.model.depth());
  for (const PooledRun& run : layout.runs) {
    const Layout& own = run.layout;
    if (own.vp != 1 || !suits_pools(own.schedule) || own.order != AxisOrder::PipelineOutermost)
      return "pipelines over several pools run 1f1b, gpipe, zb-h1 or zb-h2, one chunk a stage, outermost";
    if (own.schedule != front.layout.schedule) return "all pools run the same schedule";
    Problem alone = pool_alone(problem, run.pool);
    alone.framework = Framework::None;
    alone.fixed.pp = own.pp, alone.fixed.dp = own.dp, alone.fixed.chunk_layers.reset();
    Layout unsplit = own;
    unsplit.chunk_layers.clear();
    if (own.pp == 1) unsplit.schedule = Schedule::OneFOneB;
    if (const int rule = broken_rule(alone, unsplit); rule >= 0)
      return fmt::format("{}: {}", named_pool(run), plan::broken_text(alone, unsplit, rule));
    if (own.dp * own.micro_batch != front.layout.dp * front.layout.micro_batch)
      return fmt::format(
          "all pools take as many micro-batches in a step: dp {} * micro_batch {} on {}, and {} * {} on {}", own.dp,
          own.micro_batch, named_pool(run), front.layout.dp, front.layout.micro_batch, named_pool(front));
    for (const int count : own.chunk_layers)
      if (count < 1) return "every stage has a layer";
  }
  Layout whole = front.layout;
  whole.pp = layout.stages();
  if (!schedule_allows(pipeline_of(problem, whole)))
    return fmt::format("the schedule does not accept {} stages and {} micro-batches", whole.pp,
                       pipeline_of(problem, whole).micro_batches);
  if (!named(problem.framework)) return std::nullopt;
  if (problem.mesh_per_pool) {
    if (suits_meshes(layouts_of(layout)) && !frameworks_that_run(problem, layout).empty()) return std::nullopt;
    return fmt::format(
        "process meshes differ in tp, dp, micro_batch and stages alone, under 1f1b without FSDP, each as {} runs it",
        framework_titles(&FrameworkRow::mesh_per_pool));
  }
  if (!as_one(layout)) return "no framework of plan's list runs stages that differ in more than their layers";
  if (frameworks_that_run(problem, layout).empty()) return "the framework does not run it";
  return std::nullopt;
}

Result<PooledLayout> complete_pooled(const Problem& problem) {
  if (std::optional<Error> error = unsuited_words(problem, false)) return fail(*std::move(error));
  PooledLayout layout;
  for (int pool = 0; pool < static_cast<int>(problem.pools.size()); ++pool) {
    Problem alone = pool_alone(problem, pool);
    alone.fixed = overlaid(alone.fixed, axes_of(problem, pool));
    if (problem.fixed.chunk_layers) alone.fixed.chunk_layers.reset();
    if (problem.fixed.pp && !axes_of(problem, pool).pp) {  // counts all stages: those of a pool follow from its GPUs
      const Fixed& fixed = alone.fixed;
      const int model = fixed.tp.value_or(1) * fixed.cp.value_or(1);
      const int grid = model * fixed.dp.value_or(problem.gpus / (model * *problem.fixed.pp));
      alone.fixed.pp = grid > 0 && alone.gpus % grid == 0 ? std::optional<int>(alone.gpus / grid) : std::nullopt;
    }
    PooledRun run{pool, complete_layout(alone)};
    run.layout.chunk_layers.clear();
    layout.runs.push_back(std::move(run));
  }
  level_micro_batches(problem, layout);
  if (problem.fixed.pp && *problem.fixed.pp != layout.stages())
    return fail({"no_layout",
                 fmt::format("pp {} counts the stages of all pools, and those of the pools are {}", *problem.fixed.pp,
                             layout.stages()),
                 {},
                 {"give each pool its own, as in `--layout tp8,pp2/tp8,pp4`"}});
  const Result<std::vector<int>> fixed = fixed_layers(problem, layout.stages());
  if (!fixed) return fail(fixed.error());
  if (!fixed->empty()) place(layout, *fixed);
  if (const std::optional<std::string> broken = broken_text(problem, layout))
    return fail({"no_layout", fmt::format("the layout is not possible: {}", *broken)});
  if (!fixed->empty()) return layout;
  PoolModels models(problem);
  std::vector<RealBytes> capacity, any;
  for (const PooledRun& run : layout.runs) {
    capacity.push_back(certain_memory(models.problem(run.pool)));
    any.push_back(RealBytes::infinity());
  }
  std::optional<FoundSplit> split = best_split(models, layout, capacity);
  if (!split) split = best_split(models, layout, any);
  place(layout, split->layers);
  return layout;
}

Result<Plan> plan_pooled(const Problem& problem) {
  const Result<PooledLayout> layout = complete_pooled(problem);
  if (!layout) return fail(layout.error());
  PoolModels models(problem);
  Plan plan = {.problem = problem, .best = estimate(models, *layout)};
  if (std::optional<Error> error = beyond_physics(problem, plan.best)) return fail(*std::move(error));
  for (const Framework framework : frameworks_that_run(problem, *layout))
    plan.runs_on.push_back({framework, plan.best.step_time, plan.best.fits});
  plan.search.considered = plan.search.legal = 1;
  plan.search.fit = plan.best.fits == Fits::No ? 0 : 1;
  plan.notes = pooled_notes(models, plan.best, !plan.runs_on.empty());
  return plan;
}

Result<Plan> search_pooled(const Problem& problem) {
  if (std::optional<Error> error = unsuited_words(problem, true)) return fail(*std::move(error));
  PoolModels models(problem);
  const PooledSearch found = find_pooled(models);
  std::vector<PoolAlone> alone = each_alone(problem);
  if (!found.paper) {
    Error error{"no_layout", fmt::format("no pipeline over all pools fits: {} combinations of their strategies tried",
                                         found.stats.considered)};
    for (const PoolAlone& one : alone)
      if (const Pool& pool = problem.pools[static_cast<std::size_t>(one.pool)]; one.best)
        error.help.push_back(fmt::format("{} alone fits: `--gpus {} --gpu {}`, {:.3g} s a step", pool.cluster.gpu.name,
                                         pool.gpus, pool.cluster.gpu.name, one.best->step_time.value));
    return fail(std::move(error));
  }
  Plan plan;
  plan.alone = std::move(alone);
  const PooledCandidate& chosen = found.runs ? *found.runs : *found.paper;
  plan.problem = problem, plan.search = found.stats;
  plan.best = estimate(models, chosen.layout);
  plan.fastest = plan.best;
  plan.fastest_on_paper = estimate(models, found.paper->layout);
  for (const Estimate* one : {&plan.best, &*plan.fastest_on_paper})
    if (std::optional<Error> error = beyond_physics(problem, *one)) return fail(*std::move(error));
  for (const Framework framework : frameworks_that_run(problem, chosen.layout))
    plan.runs_on.push_back({framework, plan.best.step_time, plan.best.fits});
  const auto runs_on_one = [&](const PooledLayout& layout) {
    return problem.mesh_per_pool ? suits_meshes(layouts_of(layout)) : as_one(layout).has_value();
  };
  if (found.runs && !runs_on_one(found.paper->layout)) plan.paper_lacks = "pools with strategies of their own";
  plan.notes = pooled_notes(models, plan.best, !plan.runs_on.empty());
  for (const Rejected& row : found.stats.rejected)
    plan.notes.push_back({"search_bounded", fmt::format("{} of {} combinations of strategies were not looked into, the "
                                                        "slowest by their bounds: one of them may be faster",
                                                        row.count, found.stats.considered)});
  add_alone_notes(plan);
  return plan;
}

}  // namespace plan
