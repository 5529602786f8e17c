// How many GPUs to leave idle. What of their number divides neither batch nor sequence nor heads is left to the
// pipeline, and layers that do not divide among its stages make all of them wait for the fullest. Tested by
// tests/planner/fewer_gpus_test.cpp.
#include "planner/fewer_gpus.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "planner/rules/rules.hpp"

namespace plan {
namespace {

/// The part of a number of GPUs that no axis but pp can take.
std::int64_t left_to_stages(const Problem& problem, std::int64_t gpus) {
  for (const std::int64_t axis : {problem.training.global_batch, heads_of(problem.model), problem.training.seq})
    if (axis > 0) gpus /= std::gcd(gpus, axis);
  return gpus;
}

constexpr int kSeveral = 4;  // nodes: fewer are cut

}  // namespace

double busy_gpus(const Problem& problem, int gpus) {
  const std::int64_t depth = problem.model.depth();
  double best = 0;
  const std::int64_t least = left_to_stages(problem, gpus);
  for (std::int64_t pp = least; pp <= depth && pp <= gpus; pp += least) {
    if (gpus % pp != 0) continue;
    const double slots = static_cast<double>(pp * ((depth + pp - 1) / pp));
    // Embedding and head may count as a layer each on the two ends.
    const double fuller = static_cast<double>(pp * ((depth + 2 + pp - 1) / pp));
    best = std::max({best, static_cast<double>(depth) / slots, static_cast<double>(depth + 2) / fuller});
  }
  return best * gpus;
}

bool divides_well(const Problem& problem, int gpus) {
  std::int64_t left = gpus / std::gcd(std::int64_t{gpus}, problem.training.global_batch);
  while (left % 2 == 0) left /= 2;
  return left == 1;
}

std::vector<int> fewer_but_busier(const Problem& problem, double busy, std::size_t most) {
  struct Busy {
    int gpus = 0;
    double busy = 0;
  };
  if (divides_well(problem, problem.gpus)) return {};
  const int node = std::max(1, problem.cluster.gpus_per_node), unit = problem.gpus >= kSeveral * node ? node : 1;
  const int first = (problem.gpus - 1) / unit * unit;
  std::vector<int> numbers;
  int well = first;
  while (well > 0 && !divides_well(problem, well)) well -= unit;
  if (well > 0) numbers.push_back(well);
  std::vector<Busy> best;  // in order
  for (int gpus = first; gpus > 0 && numbers.size() < most; gpus -= unit) {
    const bool full = best.size() + numbers.size() == most;
    const double least = full ? best.back().busy : busy;
    if (gpus <= least) break;  // no more than that many can be busy
    const double these = busy_gpus(problem, gpus);
    if (these <= least || std::find(numbers.begin(), numbers.end(), gpus) != numbers.end()) continue;
    const auto place = std::find_if(best.begin(), best.end(), [&](const Busy& other) { return these > other.busy; });
    best.insert(place, {gpus, these});
    if (full) best.pop_back();
  }
  for (const Busy& each : best) numbers.push_back(each.gpus);
  return numbers;
}

}  // namespace plan
