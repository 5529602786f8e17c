// How many GPUs to leave idle. What of their number divides neither batch nor sequence nor heads is left to the
// pipeline, and layers that do not divide among its stages make all of them wait for the fullest. Tested by
// tests/planner/fewer_gpus_test.cpp.
#include "planner/choice/fewer_gpus.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>

#include "planner/rules/rules.hpp"

namespace plan {
namespace {

/// The part of a number of GPUs that no axis but pp can take.
std::int64_t left_to_stages(const Problem& problem, std::int64_t gpus) {
  for (const std::int64_t axis : {problem.training.global_batch, heads_of(problem.model), problem.training.seq})
    if (axis > 0) gpus /= std::gcd(gpus, axis);
  return gpus;
}

constexpr int kSeveral = 4;               // nodes: fewer are cut
constexpr double kNearBelow = 0.5;        // of the GPUs
constexpr int kNearNumbers = 64;          // looked at for one that the batch divides
constexpr int kMany = 64;                 // nodes: one of them cut is not worth a search
constexpr std::size_t kCut = 2;           // numbers that cut a node, where whole nodes keep fewer GPUs busy
constexpr std::size_t kMostTwos = 3;      // numbers that more twos divide
constexpr std::size_t kMostReplicas = 3;  // numbers that the batch splits into more replicas
constexpr std::size_t kMostDivide = 3;    // numbers that divide well

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

bool few_nodes(const Problem& problem) {
  constexpr int kFewNodes = 16;
  return problem.gpus <= kFewNodes * std::max(1, problem.cluster.gpus_per_node);
}

bool divides_well(const Problem& problem, int gpus) {
  std::int64_t left = gpus / std::gcd(std::int64_t{gpus}, problem.training.global_batch);
  while (left % 2 == 0) left /= 2;
  return left == 1;
}

std::vector<int> near_below(const Problem& problem) {
  const int node = std::max(1, problem.cluster.gpus_per_node), unit = problem.gpus > kSeveral * node ? node : 1;
  std::vector<int> numbers;
  for (int gpus = (problem.gpus - 1) / unit * unit; gpus > 0 && gpus >= kNearBelow * problem.gpus; gpus -= unit)
    numbers.push_back(gpus);
  return numbers;
}

namespace {

/// A number of GPUs, and how many of them are busy.
struct Busy {
  int gpus = 0;
  double busy = 0;
};

/// Of the multiples of `unit` below the problem's number, those that keep more than `least` busy, at most `most`, the
/// most busy first and of equals the largest.
std::vector<Busy> busiest(const Problem& problem, int unit, double least, std::size_t most) {
  std::vector<Busy> best;
  for (int gpus = (problem.gpus - 1) / unit * unit; gpus > least; gpus -= unit) {  // no more than that many can be busy
    const double these = busy_gpus(problem, gpus);
    if (these <= least) continue;
    const auto place = std::find_if(best.begin(), best.end(), [&](const Busy& other) { return these > other.busy; });
    best.insert(place, {gpus, these});
    if (best.size() > most) best.pop_back();
    if (best.size() == most) least = best.back().busy;
  }
  return best;
}

}  // namespace

std::vector<int> fewer_but_busier(const Problem& problem, double busy, std::size_t most) {
  if (divides_well(problem, problem.gpus)) return {};
  const int node = std::max(1, problem.cluster.gpus_per_node), unit = problem.gpus >= kSeveral * node ? node : 1;
  std::vector<int> numbers;
  const auto add = [&](int gpus) {
    if (std::find(numbers.begin(), numbers.end(), gpus) == numbers.end()) numbers.push_back(gpus);
  };
  int well = (problem.gpus - 1) / unit * unit;
  while (well > 0 && !divides_well(problem, well)) well -= unit;
  if (well > 0) add(well);
  double whole = busy;  // of the busiest number of whole nodes
  for (const Busy& each : busiest(problem, unit, busy, most)) add(each.gpus), whole = std::max(whole, each.busy);
  if (unit > 1 && problem.gpus < kMany * node)
    for (const Busy& each : busiest(problem, 1, whole, kCut)) add(each.gpus);
  return numbers;
}

std::vector<int> fewer_with_more_replicas(const Problem& problem, bool any) {
  const int node = std::max(1, problem.cluster.gpus_per_node), unit = problem.gpus >= kMany * node ? node : 1;
  const auto replicas = [&](int gpus) { return std::gcd(std::int64_t{gpus}, problem.training.global_batch); };
  std::vector<int> numbers;
  std::int64_t most = any ? 0 : replicas(problem.gpus), before = most;
  std::optional<int> next;  // the first behind the last with more than all but that
  int gpus = (problem.gpus - 1) / unit * unit;
  for (int i = 0; i < kNearNumbers && gpus > 0; ++i, gpus -= unit) {
    const std::int64_t these = replicas(gpus);
    if (these > most)
      numbers.push_back(gpus), before = most, most = these, next.reset();
    else if (these > before && !next)
      next = gpus;
  }
  if (next && numbers.back() % node != 0) numbers.push_back(*next);  // nothing may run where a node is cut
  if (numbers.size() > kMostReplicas) numbers.erase(numbers.begin(), numbers.end() - kMostReplicas);
  return numbers;
}

std::vector<int> fewer_that_divide(const Problem& problem) {
  std::int64_t odd = problem.training.global_batch;
  while (odd > 0 && odd % 2 == 0) odd /= 2;
  std::vector<int> numbers;
  for (std::int64_t part = 1; part <= odd && part < problem.gpus; part += 2) {
    if (odd % part != 0) continue;
    const auto twos = std::bit_floor(static_cast<unsigned>((problem.gpus - 1) / part));
    numbers.push_back(static_cast<int>(part * twos));
  }
  std::sort(numbers.begin(), numbers.end(), std::greater<>());
  if (numbers.size() > kMostDivide) numbers.resize(kMostDivide);
  return numbers;
}

std::vector<int> fewer_with_more_twos(const Problem& problem) {
  std::vector<int> numbers;
  const auto gpus = static_cast<unsigned>(std::max(1, problem.gpus));
  for (unsigned twos = std::bit_floor(gpus); twos > 1 && gpus % twos != 0 && numbers.size() < kMostTwos; twos /= 2)
    if (const int number = static_cast<int>(gpus / twos * twos); numbers.empty() || numbers.back() != number)
      numbers.push_back(number);
  return numbers;
}

}  // namespace plan
