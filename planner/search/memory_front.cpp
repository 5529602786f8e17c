// Some points of the front of memory against step time. Tested by tests/planner/search_test.cpp.
#include "planner/search/memory_front.hpp"

#include <algorithm>

#include "planner/search/search.hpp"

namespace plan {
namespace {

constexpr double kStep = 0.85;  // of the memory that the point before needs

}  // namespace

std::vector<Estimate> memory_front(const Problem& problem, int most_points) {
  std::vector<Estimate> front;
  Problem limited = problem;
  limited.free_switches = 0;  // as the whole front, of the job as it stands
  limited.objective = Objective::StepTime, limited.top = 1, limited.pareto = false;
  while (static_cast<int>(front.size()) < most_points) {
    const SearchResult found = find_layouts(limited);
    if (found.ranking.best().empty()) break;
    Estimate next = estimate(problem, found.ranking.best().front().layout);
    if (!front.empty() && next.peak >= front.back().peak) break;  // only at risk does anything fit still
    limited.cluster.gpu.memory = round_bytes(kStep * static_cast<double>(next.peak_high.value));
    front.push_back(std::move(next));
  }
  return front;
}

std::vector<Estimate> with_point(std::vector<Estimate> front, const Estimate& point) {
  const auto beats = [](const Estimate& a, const Estimate& b) {
    return a.step_time <= b.step_time && a.peak <= b.peak;
  };
  if (std::any_of(front.begin(), front.end(), [&](const Estimate& other) { return beats(other, point); })) return front;
  std::erase_if(front, [&](const Estimate& other) { return beats(point, other); });
  const auto slower = std::find_if(front.begin(), front.end(),
                                   [&](const Estimate& other) { return other.step_time > point.step_time; });
  front.insert(slower, point);
  return front;
}

}  // namespace plan
