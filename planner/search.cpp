// Branch and bound over families of layouts: the same optimum and front as evaluating every one.
// Families are taken in the order of a lower bound of their step time, in batches of fixed size, so
// that the answer and the counts do not depend on the number of threads.
// Tested against brute force by tests/planner/search_test.cpp.
#include "planner/search.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <thread>
#include <tuple>
#include <utility>

#include "planner/family_search.hpp"
#include "planner/in_parallel.hpp"
#include "planner/layer_cost.hpp"
#include "planner/plainness.hpp"
#include "planner/switches.hpp"
#include "planner/uncertainty.hpp"

namespace plan {
namespace {

unsigned thread_count(const Problem& problem) {
  return problem.threads > 0 ? static_cast<unsigned>(problem.threads)
                             : std::max(1u, std::thread::hardware_concurrency());
}

/// A split's costs, and what of them bounds its families.
struct Priced {
  std::optional<CostModel> costs{};
  std::optional<SplitWork> work{};
};

/// Prices every split of which something may fit into `capacity`, and puts the families in the order of their bounds:
/// of what is best. Those that are surely slower than `slowest` seconds come behind, in no order, and last those of
/// which nothing fits.
std::vector<Costed> cost_families(const Problem& problem, std::vector<Family> families, double capacity, double slowest,
                                  std::map<Split, Priced>& splits) {
  std::vector<double> states;
  std::vector<Priced*> priced;  // by family; none if nothing of it can fit
  LeastStates least(problem);
  for (const Family& family : families) {
    states.push_back(least.of(family.layout));
    priced.push_back(states.back() <= capacity ? &splits.try_emplace(split_of(family.layout)).first->second : nullptr);
  }
  std::vector<std::pair<const Split*, Priced*>> each;
  for (auto& [split, costs] : splits) each.emplace_back(&split, &costs);
  std::vector<CommonCosts> known(thread_count(problem));
  in_parallel(each.size(), thread_count(problem), [&](std::size_t i, unsigned thread) {
    const auto& [split, costs] = each[i];
    costs->work.emplace(problem, costs->costs.emplace(problem, *split, &known[thread]));
  });

  const LeastTimes times(problem);
  std::vector<LeastTime> bounds;
  bounds.reserve(families.size());
  for (std::size_t i = 0; i < families.size(); ++i)
    bounds.push_back(priced[i] ? times.of(*priced[i]->work, families[i].layout)
                               : LeastTime{std::numeric_limits<double>::infinity()});
  std::vector<std::size_t> order(families.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const bool memory = problem.objective == Objective::Memory;
  auto end = order.end();
  if (!memory) {
    end = std::stable_partition(order.begin(), end, [&](std::size_t i) { return bounds[i].any <= slowest; });
    std::stable_partition(end, order.end(), [&](std::size_t i) { return priced[i] != nullptr; });
  }
  std::stable_sort(order.begin(), end, [&](std::size_t a, std::size_t b) {
    return memory ? states[a] < states[b] : bounds[a].any < bounds[b].any;
  });
  std::vector<Costed> sorted;
  sorted.reserve(families.size());
  for (const std::size_t i : order) {
    const int fewest = fewest_layers(problem, priced[i] ? &*priced[i]->work : nullptr, families[i].layout);
    sorted.push_back({std::move(families[i].layout), priced[i] ? &*priced[i]->costs : nullptr, bounds[i], fewest,
                      priced[i] ? priced[i]->work->waiting : 0});
  }
  return sorted;
}

/// Later batches are bigger: by then most families are hopeless, and a batch has work for all threads.
std::size_t batch_size(std::size_t start) { return std::clamp<std::size_t>(start, 32, 2048); }

std::vector<FamilySearch> searches_of(const Problem& problem, bool at_risk, bool bounds, const Extent& extent = {}) {
  std::vector<FamilySearch> searches;
  for (unsigned t = 0; t < thread_count(problem); ++t)
    searches.emplace_back(problem, usable_memory(problem, at_risk), bounds, extent);
  return searches;
}

/// Is nothing left in this family and in those behind it that the caller asked for? `divides`: some layout is legal.
bool all_behind(const Problem& problem, const Extent& extent, const Costed& family, const Kept& kept, bool divides) {
  if (!extent.best_alone) return false;
  if (family.costs == nullptr && divides) return true;  // nothing of them fits
  if (problem.objective == Objective::Memory) return false;
  const Ranking& ranking = kept.ranking;
  return family.bound.any > extent.slowest || (ranking.full() && family.bound.any > ranking.last().score.step_time);
}

/// Does anything that a wanted framework runs fit for certain?
bool anything_fits(const Problem& problem, const std::vector<Costed>& families) {
  std::vector<FamilySearch> searches = searches_of(problem, false, true, {.best_alone = true});
  const Kept none(problem);
  constexpr std::size_t kAtOnce = 32;
  for (std::size_t start = 0; start < families.size() && families[start].costs != nullptr; start += kAtOnce) {
    std::vector<char> fits(std::min(kAtOnce, families.size() - start));
    in_parallel(fits.size(), static_cast<unsigned>(searches.size()), [&](std::size_t i, unsigned thread) {
      fits[i] = !searches[thread].run(families[start + i], none).kept.ranking.best().empty();
    });
    if (std::find(fits.begin(), fits.end(), 1) != fits.end()) return true;
  }
  return false;
}

/// Layouts that may be as fast as the fastest.
std::vector<Candidate> near_of(const Ranking& near) {
  std::vector<Candidate> all = near.best();
  if (!all.empty()) std::erase_if(all, [&](const Candidate& c) { return !within(c, all.front(), kNear); });
  return all;
}

/// The job as it stands or with some of the switches on that it leaves free, and its families with what they cost.
struct Way {
  explicit Way(Problem job) : problem(std::move(job)) {}
  Problem problem;
  std::map<Split, Priced> splits{};
  std::vector<Costed> families{};
};

/// Bytes beyond which nothing is priced.
double most_memory(const Problem& problem, bool bounds) {
  return bounds ? usable_memory(problem, true) : std::numeric_limits<double>::infinity();
}

/// Choices of the switches that a job leaves free, fewer of them first.
std::vector<SwitchMask> switch_choices(const Problem& problem) {
  std::vector<SwitchMask> all;
  if (problem.objective == Objective::Memory) return all;
  const unsigned free = turnable_switches(problem);
  for (unsigned some = free; some != 0; some = (some - 1) & free) all.push_back(static_cast<SwitchMask>(some));
  std::sort(all.begin(), all.end(), fewer_switches);
  return all;
}

/// The job with some switches on, and of its families those whose layouts may take at most `slowest` seconds. Graphs
/// shorten a pass by what the GPU waits for launches at most, and a step by no larger share of it than its passes;
/// their pools take memory.
std::unique_ptr<Way> switched(const Way& base, SwitchMask on, double slowest, bool bounds) {
  auto way = std::make_unique<Way>(with_switches(base.problem, on));
  way->problem.pareto = false;  // the front is of the job as it stands
  const bool graphs = (on & kSwitchGraphs) != 0, offload = (on & kSwitchOffload) != 0;
  std::vector<Family> families;
  for (const Costed& family : base.families) {
    const double waiting = graphs ? family.waiting : 0;
    const bool helps =
        family.costs == nullptr ? offload : (!graphs || waiting > 0) && (1 - waiting) * family.bound.any <= slowest;
    if (helps || !bounds) families.push_back({family.layout});
  }
  way->families =
      cost_families(way->problem, std::move(families), most_memory(way->problem, bounds), slowest, way->splits);
  return way;
}

/// The plainest layout of one way to set the switches that costs no more than is allowed, if it is plainer than
/// `best`. Families are taken in the order of how plain they are at best, so that most are never looked at.
std::optional<Candidate> plainest_of(const Way& way, const Allowance& allowance, bool at_risk, bool bounds,
                                     std::optional<Candidate> best) {
  const Problem& problem = way.problem;
  std::vector<Costed> families;
  std::copy_if(way.families.begin(), way.families.end(), std::back_inserter(families),
               [&](const Costed& family) { return !bounds || family.bound.any <= allowance.slowest(); });
  std::stable_sort(families.begin(), families.end(), [&](const Costed& a, const Costed& b) {
    return plainness(problem, {a.layout}) < plainness(problem, {b.layout});
  });
  std::vector<FamilySearch> searches = searches_of(problem, at_risk, bounds);
  for (std::size_t start = 0; start < families.size();) {
    const std::size_t count = std::min<std::size_t>(32, families.size() - start);
    std::vector<std::optional<Candidate>> each(count);
    in_parallel(count, static_cast<unsigned>(searches.size()), [&](std::size_t i, unsigned thread) {
      each[i] = searches[thread].plainest(families[start + i], allowance, best);
    });
    for (const std::optional<Candidate>& one : each)
      if (one && (!best || plainer(problem, *one, *best))) best = one;
    start += count;
  }
  return best;
}

/// The plainest of the layouts that are as good as the fastest. No layout with a switch on is plainer than one without.
std::optional<Candidate> plainest(const Way& base, const SearchResult& found, bool bounds) {
  if (found.ranking.best().empty()) return std::nullopt;
  const Candidate& fastest = found.ranking.best().front();
  if (base.problem.objective == Objective::Memory) return fastest;
  const Allowance allowance(fastest.score.step_time, Draws(found.near_terms));
  std::optional<Candidate> best = plainest_of(base, allowance, found.at_risk, bounds, std::nullopt);
  for (const SwitchMask on : switch_choices(base.problem)) {
    if (best && std::popcount(best->switched) < std::popcount(on)) break;
    const auto way = switched(base, on, allowance.slowest(), bounds);
    best = plainest_of(*way, allowance, found.at_risk, bounds, best);
  }
  return best;
}

/// An order of families in which those with the same degrees, which share most, are neighbours.
std::vector<std::size_t> together(std::span<const Costed> families) {
  const auto degrees = [&](std::size_t i) {
    const Layout& l = families[i].layout;
    return std::tuple(l.tp, l.cp, l.pp, l.dp, l.ep, l.etp);
  };
  std::vector<std::size_t> order(families.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return degrees(a) < degrees(b); });
  return order;
}

/// What searches of a job found so far.
struct Progress {
  explicit Progress(const Problem& problem) : kept(problem) {}
  Kept kept;
  Tally tally{};
  SearchStats stats{};
  std::int64_t too_big = 0, judged = 0;
};

/// Seconds of the slowest layout that still changes what is kept.
double slowest_kept(const Kept& kept, const Extent& extent) {
  const Ranking& ranking = kept.ranking;
  if (!ranking.full()) return extent.slowest;
  const double last = ranking.last().score.step_time;
  const double near = extent.best_alone ? 0 : (1 + kNear) * ranking.best().front().score.step_time;
  return std::min(extent.slowest, std::max(last, near));
}

/// Families in their order, until nothing behind them is asked for.
void search_families(const Way& way, bool at_risk, bool bounds, const Extent& extent, Progress& progress) {
  const std::vector<Costed>& families = way.families;
  std::vector<FamilySearch> searches = searches_of(way.problem, at_risk, bounds, extent);
  const auto threads = static_cast<unsigned>(searches.size());
  for (std::size_t start = 0; start < families.size() && progress.judged < extent.families;) {
    const bool divides = progress.stats.fit + progress.stats.pruned + progress.too_big > 0;
    if (all_behind(way.problem, extent, families[start], progress.kept, divides)) break;
    // Nobody counts how much slower the job would be with a switch on.
    if (way.problem.switched != 0 && bounds && families[start].bound.any > slowest_kept(progress.kept, extent)) break;
    const std::size_t count = std::min(batch_size(start), families.size() - start);
    std::vector<std::optional<FamilyOutcome>> outcomes(count);
    const std::vector<std::size_t> order = together(std::span(families).subspan(start, count));
    in_parallel(count, threads, [&](std::size_t i, unsigned thread) {
      outcomes[order[i]] = searches[thread].run(families[start + order[i]], progress.kept);
    });
    for (const auto& outcome : outcomes) {
      progress.kept.merge(outcome->kept);
      progress.tally.merge(outcome->tally);
      progress.stats.fit += outcome->fit, progress.stats.pruned += outcome->pruned;
      progress.too_big += outcome->too_big;
    }
    progress.judged += static_cast<std::int64_t>(count);
    start += count;
  }
}

/// Of the steps of candidates, each with its switches.
std::vector<Terms> terms_of_each(const Problem& problem, const std::vector<Candidate>& candidates) {
  std::map<SwitchMask, std::vector<std::size_t>> alike;
  for (std::size_t i = 0; i < candidates.size(); ++i) alike[candidates[i].switched].push_back(i);
  std::vector<Terms> all(candidates.size());
  for (const auto& [on, places] : alike) {
    std::vector<Layout> layouts;
    for (const std::size_t i : places) layouts.push_back(candidates[i].layout);
    const std::vector<Terms> terms = terms_of(on == 0 ? problem : with_switches(problem, on), layouts);
    for (std::size_t i = 0; i < places.size(); ++i) all[places[i]] = terms[i];
  }
  return all;
}

SearchResult search_all(const Way& base, bool at_risk, bool bounds, const Extent& extent) {
  SearchResult found;
  Progress progress(base.problem);
  found.at_risk = at_risk;
  search_families(base, at_risk, bounds, extent, progress);
  for (const SwitchMask on : switch_choices(base.problem)) {
    const auto way = switched(base, on, slowest_kept(progress.kept, extent), bounds);
    search_families(*way, at_risk, bounds, extent, progress);
  }
  Kept& kept = progress.kept;
  found.ranking = std::move(kept.ranking), found.paper = std::move(kept.paper), found.front = std::move(kept.front);
  found.near = near_of(kept.near), found.judged = progress.judged;
  if (extent.families == Extent{}.families && !extent.best_alone) {
    found.near_terms = terms_of_each(base.problem, found.near);
    found.recommended = plainest(base, found, bounds);
  }
  found.stats = progress.stats;
  found.stats.rejected = progress.tally.rows();
  if (progress.too_big > 0) found.stats.rejected.push_back({"does_not_fit", progress.too_big});
  found.stats.legal = found.stats.fit + found.stats.pruned + progress.too_big;
  found.stats.considered = found.stats.legal + progress.tally.total();
  return found;
}

}  // namespace

Kept::Kept(const Problem& problem)
    : ranking(problem.objective, problem.top),
      paper(problem.objective, 1),
      near(problem.objective, kMostNear, same_degrees) {}

void Kept::offer(const Problem& problem, const Candidate& candidate) {
  paper.offer(candidate);
  if (candidate.runs_on == 0) return;
  ranking.offer(candidate);
  if (problem.objective != Objective::Memory) near.offer(candidate);
  if (problem.pareto) front.offer(candidate);
}

void Kept::merge(const Kept& other) {
  ranking.merge(other.ranking), paper.merge(other.paper), near.merge(other.near), front.merge(other.front);
}

double usable_memory(const Problem& problem, bool at_risk) {
  if (!at_risk && !problem.headroom.accept_risk) return certain_memory(problem);
  return std::max(certain_memory(problem),
                  static_cast<double>(problem.cluster.gpu.memory.value) / memory_interval(problem).low);
}

namespace {

SearchResult find(const Problem& problem, const Extent& extent, bool bounds) {
  Tally outer;
  Way base(problem);
  base.families = cost_families(problem, enumerate_families(problem, outer), most_memory(problem, bounds),
                                extent.slowest, base.splits);
  SearchResult found = search_all(base, false, bounds, extent);
  // What may fit is no answer to who says how much has to stay free, nor to who wants it fast and certain.
  const bool fast = std::isfinite(extent.slowest), certain = problem.headroom.bytes || problem.headroom.share || fast;
  if (found.ranking.best().empty() && fast) found.slower = anything_fits(problem, base.families);
  if (found.ranking.best().empty() && !certain) {
    const std::int64_t judged = found.judged;
    Extent rest = extent;
    if (rest.families != Extent{}.families) rest.families -= judged;
    found = search_all(base, true, bounds, rest);
    found.judged += judged;
  }
  for (const Rejected& row : outer.rows()) {
    found.stats.considered += row.count;
    found.stats.rejected.push_back(row);
  }
  return found;
}

}  // namespace

SearchResult find_layouts(const Problem& problem, const Extent& extent) { return find(problem, extent, true); }

SearchResult find_layouts(const Problem& problem, bool bounds) { return find(problem, {}, bounds); }

}  // namespace plan
