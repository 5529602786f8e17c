// Which pipelines are searched for strategies of single layers: those that Galvatron runs. Tested by
// tests/planner/layer_search_test.cpp.
#include "planner/stages/per_layer.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "planner/estimate/uncertainty.hpp"
#include "planner/rules/complete_layout.hpp"
#include "planner/rules/galvatron.hpp"
#include "planner/search/enumerate.hpp"
#include "planner/search/search.hpp"
#include "planner/stages/layer_search.hpp"

namespace plan {
namespace {

/// tp and cp.
using Width = std::pair<int, int>;

/// Stages of as many GPUs that take as many sequences at once: what layers of one stage agree in. Tensor ranks split
/// the sequence in all layers or in none, and context ranks exchange it in one way.
struct StageKey {
  bool mixed = false;  ///< in layers of unequal cp
  int cp = 0;          ///< of all layers; 0 where mixed
  int pp = 1;
  CpKind kind = CpKind::Ring;
  Schedule schedule = Schedule::OneFOneB;
  int gpus = 1, sequences = 1;
  bool sequence_parallel = false;
  Width experts{};  ///< those are spread over the ranks of all layers in the same way
  auto operator<=>(const StageKey&) const = default;
};

struct Stages {
  Layout widest{};                            ///< of the largest replica, of those the largest tp
  std::map<Width, std::vector<int>> zeros{};  ///< ZeRO that each can have
};

/// What layers beside those of `layout` may be: all of its cp, or of any, then with context ranks of either kind.
std::vector<StageKey> keys_of(const Problem& problem, const Layout& l) {
  StageKey key{.cp = l.cp,
               .pp = l.pp,
               .kind = l.cp_kind,
               .schedule = l.schedule,
               .gpus = l.tp * l.cp * l.dp,
               .sequences = l.dp * l.micro_batch,
               .sequence_parallel = l.tp == 1 || l.sequence_parallel};
  if (problem.model.moe()) {
    key.experts = {l.tp, l.cp};
    return {key};
  }
  std::vector<StageKey> keys{key};
  key.mixed = true, key.cp = 0;
  for (const CpKind kind : {CpKind::Ring, CpKind::Ulysses})
    if (key.kind = kind; l.cp == 1 || l.cp_kind == kind) keys.push_back(key);
  return keys;
}

void add_stages(Stages& stages, const Layout& layout, CpKind kind) {
  const auto width = [](const Layout& l) { return std::pair(l.tp * l.cp, l.tp); };
  std::vector<int>& zeros = stages.zeros[{layout.tp, layout.cp}];
  if (std::find(zeros.begin(), zeros.end(), layout.zero) == zeros.end()) zeros.push_back(layout.zero);
  if (width(stages.widest) > width(layout)) return;
  stages.widest = layout, stages.widest.cp_kind = kind;
}

std::map<StageKey, Stages> stages_of(const Problem& problem) {
  std::map<StageKey, Stages> all;
  Tally tally;
  for (const Family& family : enumerate_families(problem, tally)) {
    for (const Pipelining& run : enumerate_runs(problem, family.layout, tally)) {
      Layout layout = run_of(problem, family.layout, run);
      for (const Sharding& sharding : enumerate_shardings(problem, layout, tally)) {
        if (sharding.shard > 0 && sharding.shard != layout.dense_group()) continue;
        layout.zero = sharding.zero, layout.shard = 0;
        if (!galvatron_lacks(problem, layout).text.empty()) continue;
        for (const StageKey& key : keys_of(problem, layout)) add_stages(all[key], layout, key.kind);
      }
    }
  }
  // Mixed widths of which all have one cp are in the list already, as stages of that cp.
  std::erase_if(all, [](const auto& entry) {
    const auto& widths = entry.second.zeros;
    return entry.first.mixed && std::all_of(widths.begin(), widths.end(), [&](const auto& width) {
             return width.first.second == widths.begin()->first.second;
           });
  });
  return all;
}

/// What a layer of so many tensor and context ranks does its own way.
StageStrategy own_width(const Width& width, const Layout& base) {
  return {.tp = width.first == base.tp ? 0 : width.first, .cp = width.second == base.cp ? 0 : width.second};
}

/// What a layer may do: any tp and cp of the stages, ZeRO-3 or `zero`, recomputed or not.
std::vector<StageStrategy> ways_of(const Problem& problem, const Stages& stages, const Layout& base, int zero) {
  std::vector<StageStrategy> ways;
  for (const Recompute& recompute : enumerate_recomputes(problem, 1)) {
    const bool whole = recompute.kind == RecomputeKind::Full && recompute.uniform <= 1;
    if (recompute.kind != RecomputeKind::None && !whole) continue;
    for (const auto& [width, zeros] : stages.zeros)
      for (const int own : zeros) {
        if (own != 3 && own != zero) continue;
        ways.push_back(own_width(width, base));
        if (whole) ways.back().recompute = {.kind = RecomputeKind::Full};
        if (own != base.zero) ways.back().zero = own;
      }
  }
  return ways;
}

struct Pipelines {
  bool mixed = false;  ///< layers of unequal cp
  Layout base{};
  std::vector<StageStrategy> ways{};
  Seconds least{};  ///< of a step
};

/// Time of a step at least, each layer under the tp and cp that suit it best.
Seconds least_of(StageModels& models, const Problem& problem, const Layout& base, const Stages& stages) {
  std::vector<Seconds> least;
  for (const auto& [width, zeros] : stages.zeros) {
    const CostModel& costs = models.costs(problem.training.offload.layers, layout_of_run(base, own_width(width, base)));
    least.resize(static_cast<std::size_t>(costs.kinds()), Seconds::infinity());
    for (int kind = 0; kind < costs.kinds(); ++kind) {
      Seconds& known = least[static_cast<std::size_t>(kind)];
      known = std::min(known, costs.layer(kind).least());
    }
  }
  Seconds trip;
  for (const int kind : problem.model.layers) trip += least[static_cast<std::size_t>(kind)];
  const double straggler = 1 + problem.cluster.calibration.jitter * slowest_of(problem.gpus);
  return least_step(kBelow * trip * straggler, problem, base);
}

std::vector<Pipelines> pipelines_of(StageModels& models, const Problem& problem) {
  std::vector<Pipelines> all;
  for (const auto& [key, stages] : stages_of(problem)) {
    std::vector<int> defaults;
    for (const auto& [width, zeros] : stages.zeros)
      for (const int zero : zeros)
        if (zero != 3 && std::find(defaults.begin(), defaults.end(), zero) == defaults.end()) defaults.push_back(zero);
    if (defaults.empty()) defaults.push_back(3);
    for (const int zero : defaults) {
      Layout base = stages.widest;
      base.zero = zero;
      all.push_back({key.mixed, base, ways_of(problem, stages, base, zero), least_of(models, problem, base, stages)});
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const Pipelines& a, const Pipelines& b) {
    return std::pair(a.mixed, a.least) < std::pair(b.mixed, b.least);
  });
  return all;
}

/// What a search has cost, in stages whose memory was asked for: a mix takes the time of a twenty-fifth of one.
std::int64_t effort(const StageSearch& found) { return found.stages + found.followed / 25; }

}  // namespace

StageSearch find_runs(const Problem& problem, RealBytes capacity, Seconds beat) {
  StageSearch found;
  StageModels models(problem);
  Seconds known = beat;
  std::int64_t most = kMostStages;  // of one cp first, then a quarter as many of several
  bool mixed = false;
  for (const Pipelines& one : pipelines_of(models, problem)) {
    if (one.least > known || one.ways.empty()) continue;
    if (one.mixed && !mixed) mixed = true, most = effort(found) + kMostStages / 4;
    if (effort(found) >= most) {
      found.exact = false;
      continue;
    }
    const StageSearch here = best_runs(models, problem, one.base, one.ways, capacity, known);
    ++found.pipelines;
    found.stages += here.stages, found.followed += here.followed, found.exact = found.exact && here.exact;
    if (!here.best || broken_rule(problem, here.best->layout) >= 0) continue;
    if (!galvatron_lacks(problem, here.best->layout).text.empty()) continue;
    known = here.best->score.step_time, found.best = here.best;
  }
  return found;
}

PerLayer per_layer(const Plan& plan) {
  const Problem& problem = plan.problem;
  PerLayer out;
  if (named(problem.framework)) return out;
  const Seconds beat = (1 - 1e-9) * plan.fastest->step_time;
  StageSearch found = find_runs(problem, usable_memory(problem, plan.best.fits == Fits::AtRisk), beat);
  out.pipelines = found.pipelines, out.exact = found.exact;
  if (!found.best) return out;
  out.best = estimate(problem, found.best->layout);
  if (out.best->fits > plan.best.fits) {  // the search of stages looks at GPUs alone
    out.best.reset();
    return out;
  }
  out.difference = paired_difference(problem, *out.best, plan.best);
  return out;
}

}  // namespace plan
