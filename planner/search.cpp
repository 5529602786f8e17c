// Branch and bound over families of layouts: the same optimum and front as evaluating every one.
// Families are taken in the order of a lower bound of their step time, in batches of fixed size, so
// that the answer and the counts do not depend on the number of threads.
// Tested against brute force by tests/planner/search_test.cpp.
#include "planner/search.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "planner/family_search.hpp"
#include "planner/in_parallel.hpp"
#include "planner/uncertainty.hpp"

namespace plan {
namespace {

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
  in_parallel(splits.size(), thread_count(problem), [&](std::size_t i, unsigned) {
    built.at(*splits[i]) = std::make_unique<CostModel>(problem, *splits[i]);
  });
  for (auto& [split, model] : built) costs.emplace(split, std::move(*model));

  std::vector<Costed> costed;
  costed.reserve(families.size());
  for (const Family& family : families) {
    const CostModel& model = costs.at(split_of(family.layout));
    costed.push_back({family.layout, &model, 0});
  }
  in_parallel(costed.size(), thread_count(problem), [&](std::size_t i, unsigned) {
    costed[i].bound = least_family_time(problem, *costed[i].costs, costed[i].layout);
  });
  std::stable_sort(costed.begin(), costed.end(), [](const Costed& a, const Costed& b) { return a.bound < b.bound; });
  return costed;
}

/// Later batches are bigger: by then most families are hopeless, and a batch has work for all threads.
std::size_t batch_size(std::size_t start) { return std::clamp<std::size_t>(start, 32, 2048); }

SearchResult search_all(const Problem& problem, const std::vector<Costed>& families, bool at_risk, bool bounds,
                        std::int64_t most) {
  SearchResult found;
  found.ranking = Ranking(problem.objective, problem.top);
  found.at_risk = at_risk;
  Tally tally;
  std::int64_t too_big = 0;
  const unsigned threads = thread_count(problem);
  std::vector<FamilySearch> searches;
  for (unsigned t = 0; t < threads; ++t) searches.emplace_back(problem, usable_memory(problem, at_risk), bounds);
  for (std::size_t start = 0; start < families.size() && found.judged < most;) {
    const std::size_t count = std::min(batch_size(start), families.size() - start);
    std::vector<std::optional<FamilyOutcome>> outcomes(count);
    in_parallel(count, threads, [&](std::size_t i, unsigned thread) {
      outcomes[i] = searches[thread].run(families[start + i], found.ranking, found.front);
    });
    for (const auto& outcome : outcomes) {
      found.ranking.merge(outcome->ranking);
      found.front.merge(outcome->front);
      tally.merge(outcome->tally);
      found.stats.fit += outcome->fit;
      found.stats.pruned += outcome->pruned;
      too_big += outcome->too_big;
    }
    found.judged = static_cast<std::int64_t>(start + count);
    start += count;
  }
  found.stats.rejected = tally.rows();
  if (too_big > 0) found.stats.rejected.push_back({"does_not_fit", too_big});
  found.stats.legal = found.stats.fit + found.stats.pruned + too_big;
  found.stats.considered = found.stats.legal + tally.total();
  return found;
}

}  // namespace

double usable_memory(const Problem& problem, bool at_risk) {
  const Interval interval = memory_interval(problem);
  return static_cast<double>(problem.cluster.gpu.memory.value) / (at_risk ? interval.low : interval.high);
}

SearchResult find_layouts(const Problem& problem, bool bounds, std::int64_t most) {
  Tally outer;
  const std::vector<Family> families = enumerate_families(problem, outer);
  std::map<Split, CostModel> costs;
  const std::vector<Costed> costed = cost_families(problem, families, costs);
  SearchResult found = search_all(problem, costed, false, bounds, most);
  if (found.ranking.best().empty()) {
    const std::int64_t judged = found.judged;
    found = search_all(problem, costed, true, bounds, most - judged);
    found.judged += judged;
  }
  for (const Rejected& row : outer.rows()) {
    found.stats.considered += row.count;
    found.stats.rejected.push_back(row);
  }
  return found;
}

}  // namespace plan
