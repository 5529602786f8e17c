// Branch and bound over families of layouts: the same optimum and front as evaluating every one.
// Families are taken in the order of a lower bound of their step time, in batches of fixed size, so
// that the answer and the counts do not depend on the number of threads.
// Tested against brute force by tests/planner/search_test.cpp.
#include "planner/search/search.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "planner/estimate/uncertainty.hpp"
#include "planner/memory/host_memory.hpp"
#include "planner/search/family_search.hpp"
#include "planner/search/in_parallel.hpp"
#include "planner/search/plainest.hpp"
#include "planner/search/plainness.hpp"
#include "planner/search/switches.hpp"
#include "planner/search/ways.hpp"

namespace plan {
namespace {

/// Later batches are bigger: by then most families are hopeless, and a batch has work for all threads.
std::size_t batch_size(std::size_t start) { return std::clamp<std::size_t>(start, 32, 512); }

/// Is nothing left in this family and in those behind it that the caller asked for? `divides`: some layout is legal.
bool all_behind(const Problem& problem, const Extent& extent, const Costed& family, const Kept& kept, bool divides) {
  if (family.costs == nullptr && divides && (extent.best_alone || extent.if_any)) return true;  // nothing of them fits
  if (!extent.best_alone) return false;
  if (problem.objective == Objective::Memory) return false;
  const Ranking& ranking = kept.ranking;
  return family.bound.any > extent.slowest || (ranking.full() && family.bound.any > ranking.last().score.step_time);
}

constexpr std::ptrdiff_t kSmallest = 256;  // families, of which one fits most often if any does

/// Does anything that a wanted framework runs fit for certain? The smallest is asked first, and `most` are.
bool anything_fits(const Problem& problem, const std::vector<Costed>& families, std::ptrdiff_t most) {
  std::vector<const Costed*> left;
  for (const Costed& family : families)
    if (family.costs != nullptr) left.push_back(&family);
  const auto smaller = [](const Costed* a, const Costed* b) {
    return std::tie(a->states, a->layout.micro_batch) < std::tie(b->states, b->layout.micro_batch);
  };
  std::vector<FamilySearch> searches = searches_of(problem, false, true, {.best_alone = true});
  const Kept none(problem);
  auto at = left.begin();
  const auto last = at + std::min(most, left.end() - at);
  // One of the first fits most often, and the rest need no order.
  for (std::ptrdiff_t some = 16, together = std::ssize(searches); at != last; some = last - at, together = 64) {
    const auto end = at + std::min(some, last - at);
    std::partial_sort(at, end, left.end(), smaller);
    while (at != end) {
      const auto count = std::min<std::ptrdiff_t>(together, end - at);
      std::vector<char> fits(static_cast<std::size_t>(count));
      in_parallel(fits.size(), static_cast<unsigned>(searches.size()), [&](std::size_t i, unsigned thread) {
        fits[i] = !searches[thread].run(*at[static_cast<std::ptrdiff_t>(i)], none).kept.ranking.best().empty();
      });
      if (std::find(fits.begin(), fits.end(), 1) != fits.end()) return true;
      at += count;
    }
  }
  return false;
}

/// Layouts that may be as fast as the fastest.
std::vector<Candidate> near_of(const Ranking& near) {
  std::vector<Candidate> all = near.best();
  if (!all.empty()) std::erase_if(all, [&](const Candidate& c) { return !within(c, all.front(), kNear); });
  return all;
}

/// A search that kept these in the end kept of all that take no longer the fastest of each choice of degrees.
Seconds complete_to(const Ranking& near) {
  if (near.best().empty()) return {};
  const Seconds share = (1 + kNear) * near.best().front().score.step_time;
  return near.full() ? std::min(share, near.last().score.step_time) : share;
}

/// What searches of a job found so far.
struct Progress {
  explicit Progress(const Problem& problem) : kept(problem) {}
  Kept kept;
  Tally tally{};
  SearchStats stats{};
  std::int64_t too_big = 0, judged = 0;
  bool counts = false;  ///< what was left of families of which nothing can fit is counted now
};

/// Step of the slowest layout that still changes what is kept.
Seconds slowest_kept(const Kept& kept, const Extent& extent) {
  const Ranking& ranking = kept.ranking;
  if (!ranking.full()) return extent.slowest;
  const Seconds last = ranking.last().score.step_time;
  const Seconds near = extent.best_alone ? Seconds() : (1 + kNear) * ranking.best().front().score.step_time;
  return std::min(extent.slowest, std::max(last, near));
}

void take(const FamilyOutcome& outcome, Progress& progress) {
  progress.kept.merge(outcome.kept);
  progress.tally.merge(outcome.tally);
  progress.stats.fit += outcome.fit, progress.stats.pruned += outcome.pruned;
  progress.too_big += outcome.too_big;
}

/// Is nothing of the families from one on worth a look, in an answer that counts them all? Those with switches on are
/// not counted behind what there is to beat.
bool rest_counts_alone(const Way& way, const Extent& extent, FamilySearch& search, const Progress& progress,
                       std::size_t start) {
  if (extent.best_alone || extent.families != Extent{}.families) return false;
  const Costed& family = way.families[start];
  const bool ordered = way.problem.switched == 0 && extent.slowest == Seconds::infinity();
  return (family.costs == nullptr ? !extent.if_any : ordered) && search.counts_alone(family, progress.kept);
}

/// Counts the families from one on of which nothing is worth a look, those that differ in nothing that counts at once.
void count_rest(const Way& way, std::vector<FamilySearch>& searches, Progress& progress, std::size_t start) {
  std::map<std::tuple<Degrees, int, bool>, std::pair<const Costed*, std::int64_t>> alike;
  const auto rest = std::span(way.families).subspan(start);
  for (const Costed& family : rest) {
    const std::tuple key(degrees_of(family.layout), family.layout.micro_batch, family.costs == nullptr);
    ++alike.try_emplace(key, &family, 0).first->second.second;
  }
  std::vector<std::pair<const Costed*, std::int64_t>> each;
  for (const auto& like : alike) each.push_back(like.second);
  std::vector<FamilyOutcome> outcomes(searches.size(), FamilyOutcome{Kept(way.problem)});
  in_parallel(each.size(), static_cast<unsigned>(searches.size()), [&](std::size_t i, unsigned thread) {
    searches[thread].count(*each[i].first, each[i].second, outcomes[thread]);
  });
  for (const FamilyOutcome& outcome : outcomes) take(outcome, progress);
  progress.judged += std::ssize(rest);
}

/// Families in their order from one on, until nothing behind them is asked for or `end` is reached; the first that was
/// not looked into and may be yet.
std::size_t search_families(Way& way, bool at_risk, bool bounds, const Extent& extent, Progress& progress,
                            std::size_t start = 0, std::size_t end = std::numeric_limits<std::size_t>::max()) {
  const std::vector<Costed>& families = way.families;
  way.shortest.resize(families.size(), Seconds::infinity());
  std::vector<FamilySearch> searches = searches_of(way.problem, at_risk, bounds, extent);
  const auto threads = static_cast<unsigned>(searches.size());
  while (start < std::min(end, families.size()) && progress.judged < extent.families) {
    const bool divides = progress.stats.fit + progress.stats.pruned + progress.too_big > 0;
    // Nobody counts how much slower the job would be with a switch on.
    if (way.problem.switched != 0 && bounds && !progress.counts &&
        families[start].bound.any > slowest_kept(progress.kept, extent))
      return families.size();
    if (all_behind(way.problem, extent, families[start], progress.kept, divides)) break;
    if (bounds && end >= families.size() && rest_counts_alone(way, extent, searches.front(), progress, start)) {
      count_rest(way, searches, progress, start);
      return families.size();
    }
    const std::size_t count = std::min(batch_size(start), families.size() - start);
    std::vector<std::optional<FamilyOutcome>> outcomes(count);
    const std::vector<std::size_t> order = together(std::span(families).subspan(start, count));
    in_parallel(count, threads, [&](std::size_t i, unsigned thread) {
      outcomes[order[i]] = searches[thread].run(families[start + order[i]], progress.kept);
    });
    for (std::size_t i = 0; i < count; ++i) {
      take(*outcomes[i], progress);
      way.shortest[start + i] = outcomes[i]->shortest;
    }
    progress.judged += static_cast<std::int64_t>(count);
    start += count;
  }
  return start;
}

/// What the steps of candidates go to, each computed with the switches that its candidate turned on.
std::vector<Terms> terms_of_each(const Problem& problem, const std::vector<Candidate>& candidates) {
  std::map<SwitchMask, std::vector<std::size_t>> by_switches;
  for (std::size_t i = 0; i < candidates.size(); ++i) by_switches[candidates[i].switched].push_back(i);
  std::vector<Terms> all(candidates.size());
  for (const auto& [on, places] : by_switches) {
    std::vector<Layout> layouts;
    for (const std::size_t i : places) layouts.push_back(candidates[i].layout);
    const std::vector<Terms> terms = terms_of(on == 0 ? problem : with_switches(problem, on), layouts);
    for (std::size_t i = 0; i < places.size(); ++i) all[places[i]] = terms[i];
  }
  return all;
}

/// Counts the layouts of the families that were left from `next[i]` on of each way because nothing of them can fit.
void count_unfit(const std::vector<std::shared_ptr<Way>>& ways, const std::vector<std::size_t>& next, bool at_risk,
                 Extent extent, Progress& progress) {
  extent.if_any = false, progress.counts = true;
  for (std::size_t i = 0; i < ways.size(); ++i) search_families(*ways[i], at_risk, true, extent, progress, next[i]);
}

constexpr std::size_t kManyFamilies = 16'384;

/// Offers the fastest layouts of the first families that a wanted framework runs. Of many families most have bounds
/// below steps that are met late otherwise, and would be looked into for nothing.
void offer_fastest(Way& base, bool at_risk, Extent extent, Kept& kept) {
  Progress first(base.problem);
  extent.best_alone = true, extent.families = kManyFamilies / 16;
  search_families(base, at_risk, true, extent, first);
  base.shortest.clear();
  for (const Candidate& candidate : first.kept.ranking.best()) kept.offer(base.problem, candidate);
}

/// For the choice among what was found, if anything was.
std::shared_ptr<const Searched> looked_into(std::vector<std::shared_ptr<Way>> ways, bool at_risk, bool bounds,
                                            const Ranking& near, const SearchResult& found) {
  if (found.ranking.best().empty()) return nullptr;
  Searched searched{.ways = {}, .at_risk = at_risk, .bounds = bounds, .complete = complete_to(near)};
  const Seconds slowest = slowest_plain(found.ranking.best().front().score.step_time);
  for (std::shared_ptr<Way>& way : ways) searched.add(std::move(way), slowest);
  return std::make_shared<const Searched>(std::move(searched));
}

SearchResult search_all(std::shared_ptr<Way> first, bool at_risk, bool bounds, Extent extent) {
  Way& base = *first;
  SearchResult found;
  Progress progress(base.problem);
  found.at_risk = at_risk;
  base.shortest.clear();
  const std::vector<SwitchMask> choices = switch_choices(base.problem);
  // What a switch makes faster leaves less to look at without it, once it is known what there is to beat.
  constexpr std::size_t kFirst = 128;
  const bool all = extent.families == Extent{}.families;
  const bool apart = bounds && !choices.empty() && all;
  extent.if_any = extent.if_any && bounds && all && !extent.best_alone;
  // Under no framework's rules the first families have fast layouts most often.
  const bool many = base.families.size() > kManyFamilies && base.problem.framework != Framework::None;
  if (bounds && all && !extent.best_alone && many) offer_fastest(base, at_risk, extent, progress.kept);
  std::size_t next = search_families(base, at_risk, bounds, extent, progress, 0, apart ? kFirst : base.families.size());
  const bool known = apart && progress.kept.ranking.full();
  if (!known) next = search_families(base, at_risk, bounds, extent, progress, next);
  std::vector<std::shared_ptr<Way>> ways = {std::move(first)};
  std::vector<std::size_t> left = {next};
  for (const SwitchMask on : choices) {
    ways.push_back(switched(base, on, slowest_kept(progress.kept, extent), bounds));
    left.push_back(search_families(*ways.back(), at_risk, bounds, extent, progress));
  }
  if (known) left.front() = search_families(base, at_risk, bounds, extent, progress, next);
  Kept& kept = progress.kept;
  if (extent.if_any && !kept.ranking.best().empty()) count_unfit(ways, left, at_risk, extent, progress);
  if (!kept.ranking.best().empty()) found.paper = std::move(kept.paper);
  found.ranking = std::move(kept.ranking), found.front = std::move(kept.front);
  found.near = near_of(kept.near), found.judged = progress.judged;
  if (all && !extent.best_alone) {
    found.near_terms = terms_of_each(base.problem, found.near);
    found.searched = looked_into(std::move(ways), at_risk, bounds, kept.near, found);
    found.recommended = plainest(found);
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

RealBytes usable_memory(const Problem& problem, bool at_risk) {
  if (!at_risk && !problem.headroom.accept_risk) return certain_memory(problem);
  return std::max(certain_memory(problem), RealBytes(problem.cluster.gpu.memory) / memory_interval(problem).low);
}

namespace {

/// May a wanted framework run any layout of these families, whatever it takes?
bool some_run(const Problem& problem, const std::vector<Family>& families) {
  const FrameworkMask wanted = wanted_frameworks(problem);
  if (wanted == 0) return false;
  Tally uncounted;
  InnerSpace inner(problem);
  return std::any_of(families.begin(), families.end(), [&](const Family& family) {
    FrameworkMask left = wanted;
    for (const Level level : {Level::Grid, Level::Experts, Level::MicroBatch, Level::Context})
      left = accepting(problem, family.layout, level, left);
    if (left == 0) return false;
    const std::vector<Pipelining> runs = enumerate_runs(problem, family.layout, uncounted, inner);
    return std::any_of(runs.begin(), runs.end(), [&](const Pipelining& run) {
      return accepting(problem, run_of(problem, family.layout, run), Level::Schedule, left) != 0;
    });
  });
}

/// Legal layouts of a job of which no wanted framework runs any: counted, and none is looked into. Where nobody reads
/// the counts, as many as tell that there are any.
SearchResult count_alone(const Problem& problem, std::span<const Family> families, const Extent& extent) {
  Progress progress(problem);
  const auto legal = [&] { return progress.stats.pruned + progress.too_big; };
  while (!families.empty() && !((extent.best_alone || extent.if_any) && legal() > 0)) {
    const std::size_t count = std::min<std::size_t>(512, families.size());
    Way way(problem);
    for (const Family& family : families.first(count)) way.families.push_back({.layout = family.layout});
    search_families(way, false, true, extent, progress);
    families = families.subspan(count);
  }
  SearchResult found;
  found.stats = progress.stats, found.stats.pruned += progress.too_big, found.none_run = true;
  found.stats.rejected = progress.tally.rows();
  found.stats.legal = found.stats.pruned, found.stats.considered = found.stats.legal + progress.tally.total();
  return found;
}

/// What may fit is no answer to who says how much has to stay free, nor to who wants it fast and certain.
SearchResult search_certain_first(const Problem& problem, std::vector<Family> families, const Extent& extent,
                                  bool bounds) {
  if (bounds && !some_run(problem, families)) return count_alone(problem, families, extent);
  const auto base = std::make_shared<Way>(problem);
  base->families =
      cost_families(problem, std::move(families), most_memory(problem, bounds), extent.slowest, base->splits);
  const bool fast = extent.slowest < Seconds::infinity();
  const bool at_risk_too = !(problem.headroom.bytes || problem.headroom.share || fast || extent.certain);
  Extent sure = extent;
  sure.if_any |= at_risk_too;
  SearchResult found;
  if (!extent.none_certain || !at_risk_too) found = search_all(base, false, bounds, sure);
  if (!found.ranking.best().empty()) return found;
  if (fast) found.slower = anything_fits(problem, base->families, kSmallest);
  if (!at_risk_too) return found;
  const std::int64_t judged = found.judged;
  Extent rest = extent;
  if (rest.families != Extent{}.families) rest.families -= judged;
  found = search_all(base, true, bounds, rest);
  found.judged += judged;
  return found;
}

SearchResult find(const Problem& problem, const Extent& extent, bool bounds) {
  Tally outer;
  std::vector<Family> families = enumerate_families(problem, outer);
  SearchResult found = search_certain_first(problem, std::move(families), extent, bounds);
  for (const Rejected& row : outer.rows()) {
    found.stats.considered += row.count;
    found.stats.rejected.push_back(row);
  }
  return found;
}

}  // namespace

bool anything_fits(const Problem& problem) {
  Tally uncounted;
  std::map<Split, Priced> splits;
  const std::vector<Costed> families = cost_families(problem, enumerate_families(problem, uncounted),
                                                     most_memory(problem, true), Seconds::infinity(), splits);
  return anything_fits(problem, families, std::ssize(families));
}

SearchResult find_layouts(const Problem& problem, const Extent& extent) { return find(problem, extent, true); }

SearchResult find_layouts(const Problem& problem, bool bounds) { return find(problem, {}, bounds); }

}  // namespace plan
