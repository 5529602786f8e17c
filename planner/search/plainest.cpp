// The plainest of the layouts that are as good as the fastest: what is recommended. Tested by
// tests/planner/search_test.cpp.
#include "planner/search/plainest.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <set>
#include <utility>

#include "planner/memory/host_memory.hpp"
#include "planner/search/in_parallel.hpp"
#include "planner/search/plainness.hpp"

namespace plan {

std::vector<FamilySearch> searches_of(const Problem& problem, bool at_risk, bool bounds, const Extent& extent) {
  std::vector<FamilySearch> searches;
  for (unsigned t = 0; t < thread_count(problem); ++t)
    searches.emplace_back(problem, usable_memory(problem, at_risk), usable_host(problem, at_risk), bounds, extent);
  return searches;
}

void Searched::add(std::shared_ptr<Way> way, Seconds time) {
  Of some;
  std::set<const CostModel*> used;
  for (std::size_t i = 0; i < way->families.size(); ++i)
    if (const Costed& family = way->families[i]; may_take(family, way->shortest[i], time))
      some.families.push_back({family, way->shortest[i]}), used.insert(family.costs);
  std::vector<Costed>().swap(way->families);
  std::erase_if(way->splits, [&](const auto& split) { return !used.contains(&*split.second.costs); });
  some.way = std::move(way);
  ways.push_back(std::move(some));
}

namespace {

/// The plainest layout of one way to set the switches that costs no more than is allowed, if it is plainer than
/// `best`. Families are taken in the order of how plain they are at best, so that most are never looked at.
std::optional<Candidate> plainest_of(const Searched::Of& of, const Searched& searched, const Allowance& allowance,
                                     std::optional<Candidate> best) {
  const Problem& problem = of.way->problem;
  std::vector<Costed> families;
  for (const Searched::Family& one : of.families)
    if (searched.may_take(one.family, one.shortest, allowance.slowest())) families.push_back(one.family);
  std::stable_sort(families.begin(), families.end(), [&](const Costed& a, const Costed& b) {
    return plainness(problem, {a.layout}) < plainness(problem, {b.layout});
  });
  std::vector<FamilySearch> searches = searches_of(problem, searched.at_risk, searched.bounds);
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

}  // namespace

std::optional<Candidate> plainest(const SearchResult& found, Seconds within) {
  if (found.ranking.best().empty() || !found.searched) return std::nullopt;
  const Candidate& fastest = found.ranking.best().front();
  const Searched& searched = *found.searched;
  if (searched.ways.front().way->problem.objective == Objective::Memory) return fastest;
  const Allowance allowance(fastest.score.step_time, Draws(found.near_terms), within);
  std::optional<Candidate> best;
  for (const Searched::Of& of : searched.ways) {
    if (best && std::popcount(best->switched) < std::popcount(of.way->problem.switched)) break;
    best = plainest_of(of, searched, allowance, best);
  }
  return best;
}

}  // namespace plan
