// The best layout over several pools: strategies of each pool's run in the order of a bound from below of the step,
// every split of the layers on small problems. Tested against brute force by tests/planner/pools_test.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "planner/choice/choice.hpp"
#include "planner/pools/pools.hpp"
#include "planner/problem/axes.hpp"
#include "planner/rules/frameworks.hpp"
#include "planner/rules/rules.hpp"
#include "planner/search/enumerate.hpp"
#include "planner/search/family_search.hpp"
#include "planner/search/search.hpp"

namespace plan {
namespace {

/// Combinations of strategies that are looked at: of more than that the fastest strategies of each pool stay.
constexpr double kMostCombinations = 400000;
/// How many of the combinations are priced in full, with their layers placed on the stages.
constexpr std::int64_t kMostPlaced = 2000;

/// A pool's strategy with the time of one micro-batch through each kind of layer, at least.
struct Choice {
  Layout layout{};
  std::vector<Seconds> kinds{};
  Seconds whole{};  ///< all layers of the model
  /// By ZeRO stage and way to recompute: layers that a stage holds at most, as far as looked into.
  mutable std::map<std::pair<int, std::size_t>, int> most_layers{};
};

Choice choice_of(PoolModels& models, int pool, const Layout& layout) {
  const CostModel& costs = models.costs(pool, layout);
  Choice choice{layout, {}, {}, {}};
  for (int kind = 0; kind < costs.kinds(); ++kind) choice.kinds.push_back(least_work(costs.layer(kind)));
  for (const int kind : models.whole().model.layers) choice.whole += choice.kinds[static_cast<std::size_t>(kind)];
  return choice;
}

/// What a step takes at least with these runs, front to back, however their layers are placed. Stage s begins
/// when a micro-batch is through the stages before it, both ways: w_1 + ... + w_(s-1) + m w_s seconds pass at least.
/// Weighted by any v_s / (sum of the duals), that bounds what all layers take: the duals are solved from the back.
Seconds least_step(const Problem& problem, const std::vector<const Choice*>& runs) {
  const Layout& front = runs.front()->layout;
  const auto m = static_cast<double>(micro_batches(problem.training.global_batch, front.dp, front.micro_batch));
  double duals = 0, layers = 0;
  for (auto run = runs.rbegin(); run != runs.rend(); ++run)
    for (int stage = 0; stage < (*run)->layout.pp; ++stage) duals += std::max(0.0, 1 / (*run)->whole.value - duals) / m;
  for (const int kind : problem.model.layers) {
    double least = std::numeric_limits<double>::infinity();
    for (const Choice* run : runs) least = std::min(least, run->kinds[static_cast<std::size_t>(kind)] / run->whole);
    layers += least;
  }
  const double straggler = 1 + problem.cluster.calibration.jitter * slowest_of(problem.gpus);
  return Seconds(duals > 0 ? kBelow * straggler * layers / duals : 0);
}

struct Combination {
  Seconds least{};
  std::vector<int> pools{};
  std::vector<const Choice*> runs{};
};

/// Could a framework run both beside each other, but for what is decided later?
bool same_strategy(const Problem& problem, const Layout& a, Layout b) {
  b.pp = a.pp;
  if (problem.mesh_per_pool) b.tp = a.tp, b.dp = a.dp, b.micro_batch = a.micro_batch, b.etp = a.etp;
  if (problem.mesh_per_pool) b.sequence_parallel = a.sequence_parallel;
  return a == b;
}

/// What is fixed for one pool's run: its own axes over those of all, without what counts all stages.
Fixed fixed_of(const Problem& problem, int pool) {
  Fixed fixed = problem.fixed;
  fixed.pp.reset(), fixed.chunk_layers.reset(), fixed.vp.reset(), fixed.order.reset();
  if (problem.pool_fixed.empty()) return fixed;
  return overlaid(fixed, problem.pool_fixed[static_cast<std::size_t>(pool)]);
}

class Search {
 public:
  Search(PoolModels& models, bool bounds, bool at_risk) : models_(models), whole_(models.whole()), bounds_(bounds) {
    for (std::size_t pool = 0; pool < whole_.pools.size(); ++pool)
      capacity_.push_back(usable_memory(models.problem(static_cast<int>(pool)), at_risk));
    found_.at_risk = at_risk;
  }

  PooledSearch run() {
    collect();
    std::vector<int> order(whole_.pools.size());
    std::iota(order.begin(), order.end(), 0);
    do combine(order);
    while (std::next_permutation(order.begin(), order.end()));
    std::stable_sort(all_.begin(), all_.end(),
                     [](const Combination& a, const Combination& b) { return a.least < b.least; });
    std::int64_t placed = 0, left = 0;
    for (const Combination& one : all_) {
      ++found_.stats.considered, ++found_.stats.legal;
      const bool one_strategy = std::all_of(one.runs.begin(), one.runs.end(), [&](const Choice* run) {
        return same_strategy(whole_, run->layout, one.runs.front()->layout);
      });
      if (bounds_ && placed >= kMostPlaced) {
        --found_.stats.legal, ++left;
        continue;
      }
      if ((named(whole_.framework) && !one_strategy) || hopeless(one.least, one_strategy)) {
        ++found_.stats.pruned;
        continue;
      }
      ++placed;
      fits_ = false;
      shard(one, one_strategy);
      if (fits_) ++found_.stats.fit;
    }
    if (left > 0) found_.stats.rejected.push_back({"not_looked_into", left});
    return std::move(found_);
  }

 private:
  /// Strategies of every pool by their number of micro-batches.
  using ByBatches = std::map<std::int64_t, std::vector<Choice>>;

  void collect() {
    for (int pool = 0; pool < static_cast<int>(whole_.pools.size()); ++pool) {
      alone_.push_back(pool_alone(whole_, pool)), recomputes_.push_back(pooled_recomputes(whole_, pool));
      ByBatches choices;
      for (const Layout& layout : run_choices(whole_, pool))
        choices[micro_batches(whole_.training.global_batch, layout.dp, layout.micro_batch)].push_back(
            choice_of(models_, pool, layout));
      choices_.push_back(std::move(choices));
    }
    if (!bounds_) return;
    double product = 0;
    for (const auto& [batches, first] : choices_.front()) {
      double here = 1;
      for (const ByBatches& pool : choices_)
        here *= pool.contains(batches) ? static_cast<double>(pool.at(batches).size()) : 0;
      product += here;
    }
    if (product <= kMostCombinations) return;
    const double keep = std::pow(kMostCombinations / product, 1.0 / static_cast<double>(choices_.size()));
    for (ByBatches& pool : choices_)
      for (auto& [batches, list] : pool) {
        std::stable_sort(list.begin(), list.end(), [](const Choice& a, const Choice& b) {
          return a.whole / a.layout.pp < b.whole / b.layout.pp;
        });
        list.resize(static_cast<std::size_t>(std::ceil(keep * static_cast<double>(list.size()))));
      }
  }

  void combine(const std::vector<int>& order) {
    for (const auto& [batches, first] : choices_[static_cast<std::size_t>(order.front())]) {
      Combination one{{}, order, {}};
      extend(one, batches);
    }
  }

  void extend(Combination& one, std::int64_t batches) {
    if (one.runs.size() == one.pools.size()) {
      int stages = 0;
      for (const Choice* run : one.runs) stages += run->layout.pp;
      if (stages > whole_.model.depth() || (whole_.fixed.pp && *whole_.fixed.pp != stages)) return;
      if (whole_.fixed.chunk_layers && static_cast<int>(whole_.fixed.chunk_layers->size()) != stages) return;
      Layout together = one.runs.front()->layout;
      together.pp = stages;
      if (!schedule_allows(pipeline_of(whole_, together))) return;
      one.least = least_step(whole_, one.runs);
      all_.push_back(one);
      return;
    }
    const ByBatches& pool = choices_[static_cast<std::size_t>(one.pools[one.runs.size()])];
    const auto list = pool.find(batches);
    if (list == pool.end()) return;
    for (const Choice& choice : list->second) {
      one.runs.push_back(&choice);
      extend(one, batches);
      one.runs.pop_back();
    }
  }

  /// Can nothing so slow be an answer? What all pools run the same way may be one that a framework runs.
  [[nodiscard]] bool hopeless(Seconds least, bool one_strategy) const {
    if (!bounds_) return false;
    const std::optional<PooledCandidate>& beaten = one_strategy ? found_.runs : found_.paper;
    return beaten && least > beaten->score.step_time;
  }

  void shard(const Combination& one, bool one_strategy) {
    for (const int zero : whole_.fixed.zero ? std::vector<int>{*whole_.fixed.zero} : std::vector<int>{0, 1, 2, 3}) {
      PooledLayout layout;
      bool legal = true;
      for (std::size_t i = 0; i < one.runs.size(); ++i) {
        PooledRun run{one.pools[i], one.runs[i]->layout};
        const Fixed& fixed = fixed_of(whole_, run.pool);
        run.layout.zero = fixed.zero.value_or(zero), run.layout.shard = fixed.shard.value_or(0);
        legal = legal && broken_rule(alone_[static_cast<std::size_t>(run.pool)], run.layout, Level::Sharding) < 0;
        layout.runs.push_back(std::move(run));
      }
      if (legal) rebuild(one, layout, 0, one_strategy, whole_.model.depth());
    }
  }

  /// Every way to recompute on each pool.
  void rebuild(const Combination& one, PooledLayout& layout, std::size_t run, bool one_strategy, int unplaced) {
    if (run == layout.runs.size()) {
      if (unplaced <= 0) place(one, layout, one_strategy);
      return;
    }
    const std::vector<Recompute>& ways = recomputes_[static_cast<std::size_t>(layout.runs[run].pool)];
    for (std::size_t way = 0; way < ways.size(); ++way) {
      layout.runs[run].layout.recompute = ways[way];
      const bool still = one_strategy && ways[way] == layout.runs.front().layout.recompute;
      if (named(whole_.framework) && !still) continue;
      const int most = bounds_ ? most_layers(*one.runs[run], layout.runs[run], way) : whole_.model.depth();
      rebuild(one, layout, run + 1, still, unplaced - most * layout.runs[run].layout.pp);
    }
  }

  /// Layers of the lightest kind that fit into a stage with one micro-batch in flight and neither end of the model.
  int most_layers(const Choice& choice, const PooledRun& run, std::size_t way) {
    const auto [found, fresh] = choice.most_layers.try_emplace({run.layout.zero, way}, 0);
    if (!fresh) return found->second;
    const MemoryModel& memory = models_.memory(run.pool, run.layout, 2);
    Layout layout = run.layout;
    layout.pp = 2;
    constexpr double kAbove = 1.02;  // what depends on the number of stages
    const auto fits = [&](std::size_t kind, int layers) {
      StageContent content;
      content.layers_of_kind[kind] = layers;
      return memory.stage(layout, 1, content, 1).total() <= kAbove * capacity_[static_cast<std::size_t>(run.pool)];
    };
    for (std::size_t kind = 0; kind < whole_.model.kinds.size(); ++kind) {
      int low = 0, high = whole_.model.depth();
      while (low < high) {
        const int middle = (low + high + 1) / 2;
        if (fits(kind, middle))
          low = middle;
        else
          high = middle - 1;
      }
      found->second = std::max(found->second, low);
    }
    return found->second;
  }

  void place(const Combination& one, PooledLayout layout, bool one_strategy) {
    std::vector<Choice> slower;  // what is rebuilt counts
    slower.reserve(one.runs.size());
    std::vector<const Choice*> runs;
    for (std::size_t i = 0; i < one.runs.size(); ++i) {
      const PooledRun& run = layout.runs[i];
      Choice choice = *one.runs[i];
      const CostModel& costs = models_.costs(run.pool, run.layout);
      const Recompute& r = run.layout.recompute;
      for (int kind = 0; kind < costs.kinds(); ++kind) {
        if (r.kind == RecomputeKind::Full && r.layers == 0)
          choice.kinds[static_cast<std::size_t>(kind)] += costs.full_recompute(kind).total();
        if (r.kind == RecomputeKind::Selective)
          choice.kinds[static_cast<std::size_t>(kind)] += costs.selective_recompute(kind, r.modules).total();
      }
      choice.whole = {};
      for (const int kind : whole_.model.layers) choice.whole += choice.kinds[static_cast<std::size_t>(kind)];
      slower.push_back(std::move(choice));
      runs.push_back(&slower.back());
    }
    if (hopeless(least_step(whole_, runs), one_strategy)) return;
    std::vector<RealBytes> capacity;
    for (const PooledRun& run : layout.runs) capacity.push_back(capacity_[static_cast<std::size_t>(run.pool)]);
    const std::optional<PooledCandidate>& known = one_strategy ? found_.runs : found_.paper;
    const Seconds beat = known && bounds_ ? known->score.step_time : Seconds::infinity();
    const std::optional<FoundSplit> split = split_of_layers(layout, capacity, beat);
    if (!split) return;
    fits_ = true;
    auto next = split->layers.begin();
    for (PooledRun& run : layout.runs) {
      run.layout.chunk_layers.assign(next, next + run.layout.pp);
      next += run.layout.pp;
    }
    PooledCandidate candidate{std::move(layout), split->score};
    if (!found_.paper || better(whole_, candidate, *found_.paper)) found_.paper = candidate;
    if (!one_strategy || (found_.runs && !better(whole_, candidate, *found_.runs))) return;
    if (!frameworks_that_run(whole_, candidate.layout).empty()) found_.runs = std::move(candidate);
  }

  [[nodiscard]] std::optional<FoundSplit> split_of_layers(const PooledLayout& layout,
                                                          const std::vector<RealBytes>& capacity, Seconds beat) {
    if (!whole_.fixed.chunk_layers) return best_split(models_, layout, capacity, beat);
    PooledEvaluator evaluator(models_, layout);
    const std::optional<Score> score = evaluator.score(*whole_.fixed.chunk_layers, capacity);
    if (!score) return std::nullopt;
    return FoundSplit{*whole_.fixed.chunk_layers, *score};
  }

  PoolModels& models_;
  const Problem& whole_;
  bool bounds_, fits_ = false;
  std::vector<RealBytes> capacity_{};  ///< by pool
  std::vector<Problem> alone_{};
  std::vector<std::vector<Recompute>> recomputes_{};
  std::vector<ByBatches> choices_{};
  std::vector<Combination> all_{};
  PooledSearch found_{};
};

}  // namespace

std::vector<Layout> run_choices(const Problem& problem, int pool) {
  Problem alone = pool_alone(problem, pool);
  alone.fixed = fixed_of(problem, pool);
  Tally tally;
  std::vector<Layout> all;
  for (Family& family : enumerate_families(alone, tally)) {
    family.layout.schedule = alone.fixed.schedule.value_or(Schedule::OneFOneB);
    all.push_back(std::move(family.layout));
  }
  return all;
}

std::vector<Recompute> pooled_recomputes(const Problem& problem, int pool) {
  Problem alone = pool_alone(problem, pool);
  alone.fixed = fixed_of(problem, pool);
  std::vector<Recompute> all = enumerate_recomputes(alone, 1);
  if (!alone.fixed.recompute)
    std::erase_if(all, [](const Recompute& r) {
      return r.kind == RecomputeKind::Selective && (r.modules & (r.modules - 1)) != 0;
    });
  return all;
}

bool better(const Problem& problem, const PooledCandidate& a, const PooledCandidate& b) {
  const auto [time, peak] = a.score;
  if (problem.objective == Objective::Memory && peak != b.score.peak) return peak < b.score.peak;
  if (time != b.score.step_time) return time < b.score.step_time;
  if (peak != b.score.peak) return peak < b.score.peak;
  const auto name_of = [&](const PooledRun& run) -> const std::string& {
    return problem.pools[static_cast<std::size_t>(run.pool)].cluster.name;
  };
  for (std::size_t i = 0; i < a.layout.runs.size() && i < b.layout.runs.size(); ++i) {
    const PooledRun &one = a.layout.runs[i], &other = b.layout.runs[i];
    if (name_of(one) != name_of(other)) return name_of(one) < name_of(other);
    if (precedes(one.layout, other.layout) || precedes(other.layout, one.layout))
      return precedes(one.layout, other.layout);
  }
  return false;
}

PooledSearch find_pooled(PoolModels& models, bool bounds) {
  PooledSearch found = Search(models, bounds, false).run();
  const Headroom& headroom = models.whole().headroom;
  if (found.paper || headroom.bytes || headroom.share) return found;
  return Search(models, bounds, true).run();
}

}  // namespace plan
