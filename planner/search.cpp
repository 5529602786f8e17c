// Branch and bound over families of layouts: the same optimum and front as evaluating every one.
// Families are taken in the order of a lower bound of their step time, in batches of fixed size, so
// that the answer and the counts do not depend on the number of threads.
// Tested against brute force by tests/planner/search_test.cpp.
#include "planner/search.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <thread>
#include <tuple>

#include "planner/uncertainty.hpp"

namespace plan {
namespace {

constexpr std::size_t kBatch = 64;

auto order_key(const Candidate& c) {
  const Layout& l = c.layout;
  return std::tuple(c.score.step_time, c.score.peak, l.tp, l.pp, l.cp, l.ep, l.etp, l.vp, l.micro_batch, l.zero,
                    l.shard, l.schedule, l.cp_kind, l.cp_ulysses, l.recompute.kind, l.recompute.modules,
                    l.recompute.layers);
}

/// Least seconds that one micro-batch takes on the whole model: no recomputation, no bubble, expert
/// exchange hidden wherever some schedule could hide it.
double least_work(const Problem& problem, const CostModel& costs) {
  const auto least = [](const LayerCost& cost) {
    const Phase work = cost.forward + cost.backward_input + cost.backward_weight;
    return work.total() - work.ep + std::min(work.ep, cost.paired_ep);
  };
  double sum = least(costs.embedding()) + least(costs.head());
  for (const int kind : problem.model.layers) sum += least(costs.layer(kind));
  return sum;
}

struct Costed {
  Layout layout{};
  const CostModel* costs = nullptr;
  double bound = 0;  ///< the step is never faster
};

/// Search of one family: everything that a thread needs, nothing shared but what it reads.
class FamilySearch {
 public:
  FamilySearch(const Problem& problem, double capacity, bool bounds)
      : problem_(problem), capacity_(capacity), bounds_(bounds) {}

  struct Outcome {
    Ranking ranking;
    Front front{};
    Tally tally{};
    std::int64_t fit = 0, too_big = 0, pruned = 0;
  };

  Outcome run(const Costed& family, const Ranking& incumbent) {
    Outcome outcome{Ranking(problem_.objective, problem_.top)};
    incumbent_ = &incumbent;
    Evaluator evaluator(problem_, *family.costs);
    for (const Run& run : enumerate_runs(problem_, family.layout, outcome.tally)) {
      Layout layout = family.layout;
      layout.schedule = run.schedule, layout.vp = run.vp;
      if (problem_.fixed.chunk_layers) layout.chunk_layers = *problem_.fixed.chunk_layers;
      search_run(layout, family, evaluator, outcome);
    }
    return outcome;
  }

 private:
  void search_run(Layout layout, const Costed& family, Evaluator& evaluator, Outcome& outcome) {
    evaluator.place(layout);
    const std::vector<int>& stage_layers = evaluator.stages().stage_layers;
    const int deepest = *std::max_element(stage_layers.begin(), stage_layers.end());
    const auto recomputes = enumerate_recomputes(problem_, family.costs->modules_present(), deepest);
    const auto shardings = enumerate_shardings(problem_, layout, outcome.tally);
    if (recomputes.empty()) {  // the one that the user fixed
      const int rule = broken_rule(problem_, problem_.fixed.recompute.value_or(Recompute{}));
      return outcome.tally.reject(rule, static_cast<std::int64_t>(shardings.size()));
    }
    const auto prune = [&](std::size_t layouts) { outcome.pruned += static_cast<std::int64_t>(layouts); };
    if (hopeless(std::max(family.bound, evaluator.least_time()), outcome))
      return prune(recomputes.size() * shardings.size());

    prices_.resize(shardings.size());
    for (std::size_t i = 0; i < shardings.size(); ++i) {
      layout.zero = shardings[i].zero, layout.shard = shardings[i].shard;
      evaluator.price_sharding(layout, memory_model(layout, {}), prices_[i]);
    }
    for (const Recompute& recompute : recomputes) {
      evaluator.recompute(recompute);
      if (hopeless(evaluator.least_time(), outcome)) {
        prune(shardings.size());
        continue;
      }
      layout.recompute = recompute;
      const MemoryModel& memory = memory_model(layout, recompute);
      for (std::size_t i = 0; i < shardings.size(); ++i) {
        layout.zero = shardings[i].zero, layout.shard = shardings[i].shard;
        const double step_time = evaluator.step_time(layout, prices_[i]);
        if (hopeless(step_time, outcome)) {
          prune(1);
          continue;
        }
        const double peak = evaluator.peak_memory(layout, memory);
        if (peak > capacity_) {
          ++outcome.too_big;
          continue;
        }
        ++outcome.fit;
        const Candidate candidate{layout, {step_time, peak}};
        outcome.ranking.offer(candidate);
        if (problem_.pareto) outcome.front.offer(candidate);
      }
    }
  }

  bool hopeless(double bound, const Outcome& outcome) const {
    if (!bounds_ || problem_.pareto || problem_.objective == Objective::Memory) return false;
    const auto beaten = [&](const Ranking& ranking) {
      return ranking.full() && bound > ranking.last().score.step_time;
    };
    return beaten(*incumbent_) || beaten(outcome.ranking);
  }

  /// Memory facts of a family under one recomputation; the same for all its schedules and shardings.
  const MemoryModel& memory_model(Layout layout, const Recompute& recompute) {
    for (const auto& [key, model] : memories_)
      if (key == recompute) return *model;
    layout.recompute = recompute;
    memories_.emplace_back(recompute, std::make_unique<MemoryModel>(problem_, layout));
    return *memories_.back().second;
  }

  const Problem& problem_;
  double capacity_;
  bool bounds_;
  const Ranking* incumbent_ = nullptr;
  std::vector<std::pair<Recompute, std::unique_ptr<MemoryModel>>> memories_{};
  std::vector<std::vector<DataParallel>> prices_{};
};

/// Runs `work(i)` for i in [0, count) on `threads` threads.
template <class Work>
void in_parallel(std::size_t count, unsigned threads, const Work& work) {
  if (threads <= 1 || count <= 1) {
    for (std::size_t i = 0; i < count; ++i) work(i);
    return;
  }
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> pool;
  for (unsigned t = 0; t < std::min<std::size_t>(threads, count); ++t)
    pool.emplace_back([&] {
      for (std::size_t i = next++; i < count; i = next++) work(i);
    });
  for (std::thread& thread : pool) thread.join();
}

unsigned thread_count(const Problem& problem) {
  return problem.threads > 0 ? static_cast<unsigned>(problem.threads)
                             : std::max(1u, std::thread::hardware_concurrency());
}

/// Costs of every split, and the families in the order of their bounds.
std::vector<Costed> cost_families(const Problem& problem, const std::vector<Family>& families,
                                  std::map<Split, CostModel>& costs) {
  std::vector<const Split*> splits;
  std::map<Split, std::unique_ptr<CostModel>> built;
  for (const Family& family : families) built.try_emplace(split_of(family.layout));
  for (auto& [split, model] : built) splits.push_back(&split);
  in_parallel(splits.size(), thread_count(problem),
              [&](std::size_t i) { built.at(*splits[i]) = std::make_unique<CostModel>(problem, *splits[i]); });
  for (auto& [split, model] : built) costs.emplace(split, std::move(*model));

  const double straggler = 1 + problem.cluster.calibration.jitter * slowest_of(problem.gpus);
  std::vector<Costed> costed;
  costed.reserve(families.size());
  for (const Family& family : families) {
    const CostModel& model = costs.at(split_of(family.layout));
    const double m =
        static_cast<double>(micro_batches(problem.training.global_batch, family.layout.dp, family.layout.micro_batch));
    const double busy = m * least_work(problem, model) / family.layout.pp;
    // A shade below, so that rounding never puts the bound above the value it bounds.
    costed.push_back({family.layout, &model, 0.999999 * straggler * busy});
  }
  std::stable_sort(costed.begin(), costed.end(), [](const Costed& a, const Costed& b) { return a.bound < b.bound; });
  return costed;
}

SearchResult search_all(const Problem& problem, const std::vector<Costed>& families, bool at_risk, bool bounds) {
  SearchResult found;
  found.ranking = Ranking(problem.objective, problem.top);
  found.at_risk = at_risk;
  Tally tally;
  std::int64_t too_big = 0;
  const double capacity = usable_memory(problem, at_risk);
  for (std::size_t start = 0; start < families.size(); start += kBatch) {
    const std::size_t count = std::min(kBatch, families.size() - start);
    std::vector<std::optional<FamilySearch::Outcome>> outcomes(count);
    in_parallel(count, thread_count(problem), [&](std::size_t i) {
      outcomes[i] = FamilySearch(problem, capacity, bounds).run(families[start + i], found.ranking);
    });
    for (const auto& outcome : outcomes) {
      found.ranking.merge(outcome->ranking);
      found.front.merge(outcome->front);
      tally.merge(outcome->tally);
      found.stats.fit += outcome->fit;
      found.stats.pruned += outcome->pruned;
      too_big += outcome->too_big;
    }
  }
  found.stats.rejected = tally.rows();
  if (too_big > 0) found.stats.rejected.push_back({"does_not_fit", too_big});
  found.stats.legal = found.stats.fit + found.stats.pruned + too_big;
  found.stats.considered = found.stats.legal + tally.total();
  return found;
}

}  // namespace

bool better(Objective objective, const Candidate& a, const Candidate& b) {
  if (objective == Objective::Memory && a.score.peak != b.score.peak) return a.score.peak < b.score.peak;
  return order_key(a) < order_key(b);
}

bool same_degrees(const Layout& a, const Layout& b) {
  const auto key = [](const Layout& l) { return std::tuple(l.tp, l.cp, l.pp, l.vp, l.dp, l.ep, l.etp, l.micro_batch); };
  return key(a) == key(b);
}

void Ranking::offer(const Candidate& candidate) {
  if (full() && !better(objective_, candidate, best_.back())) return;
  const auto twin = std::find_if(best_.begin(), best_.end(),
                                 [&](const Candidate& c) { return same_degrees(c.layout, candidate.layout); });
  if (twin != best_.end()) {
    if (!better(objective_, candidate, *twin)) return;
    best_.erase(twin);
  }
  const auto place =
      std::find_if(best_.begin(), best_.end(), [&](const Candidate& c) { return better(objective_, candidate, c); });
  best_.insert(place, candidate);
  if (best_.size() > size_) best_.pop_back();
}

void Ranking::merge(const Ranking& other) {
  for (const Candidate& candidate : other.best_) offer(candidate);
}

void Front::offer(const Candidate& candidate) {
  const auto beats = [](const Candidate& a, const Candidate& b) {
    if (a.score.step_time > b.score.step_time || a.score.peak > b.score.peak) return false;
    if (a.score.step_time < b.score.step_time || a.score.peak < b.score.peak) return true;
    return order_key(a) < order_key(b);  // equal in both: keep one, always the same
  };
  for (const Candidate& member : members_)
    if (beats(member, candidate)) return;
  std::erase_if(members_, [&](const Candidate& member) { return beats(candidate, member); });
  const auto place = std::find_if(members_.begin(), members_.end(), [&](const Candidate& member) {
    return candidate.score.step_time < member.score.step_time;
  });
  members_.insert(place, candidate);
}

void Front::merge(const Front& other) {
  for (const Candidate& candidate : other.members_) offer(candidate);
}

bool Front::dominates(double step_time, double peak) const {
  return std::any_of(members_.begin(), members_.end(), [&](const Candidate& member) {
    return member.score.step_time <= step_time && member.score.peak <= peak;
  });
}

double usable_memory(const Problem& problem, bool at_risk) {
  const Interval interval = memory_interval(problem);
  return static_cast<double>(problem.cluster.gpu.memory.value) / (at_risk ? interval.low : interval.high);
}

SearchResult find_layouts(const Problem& problem, bool bounds) {
  Tally outer;
  const std::vector<Family> families = enumerate_families(problem, outer);
  std::map<Split, CostModel> costs;
  const std::vector<Costed> costed = cost_families(problem, families, costs);
  SearchResult found = search_all(problem, costed, false, bounds);
  if (found.ranking.best().empty()) found = search_all(problem, costed, true, bounds);
  for (const Rejected& row : outer.rows()) {
    found.stats.considered += row.count;
    found.stats.rejected.push_back(row);
  }
  return found;
}

}  // namespace plan
