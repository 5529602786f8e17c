// The ways to run a job that a search compares: as it stands and with switches on, each with its families priced and in
// the order of their bounds. Tested by tests/planner/search_test.cpp.
#include "planner/search/ways.hpp"

#include <algorithm>
#include <numeric>
#include <thread>
#include <utility>

#include "planner/cost/layer_cost.hpp"
#include "planner/search/in_parallel.hpp"
#include "planner/search/search.hpp"
#include "planner/search/switches.hpp"

namespace plan {

unsigned thread_count(const Problem& problem) {
  return problem.threads > 0 ? static_cast<unsigned>(problem.threads)
                             : std::max(1u, std::thread::hardware_concurrency());
}

std::vector<Costed> cost_families(const Problem& problem, std::vector<Family> families, RealBytes capacity,
                                  Seconds slowest, std::map<Split, Priced>& splits) {
  std::vector<RealBytes> states;
  std::vector<Priced*> priced;  // by family; none if nothing of it can fit
  LeastStatesOfAny least(problem);
  for (const Family& family : families) {
    states.push_back(least.of(family.layout));
    priced.push_back(states.back() <= capacity ? &splits.try_emplace(split_of(family.layout)).first->second : nullptr);
  }
  std::vector<std::pair<const Split*, Priced*>> each;
  for (auto& [split, costs] : splits) each.emplace_back(&split, &costs);
  std::vector<CommonCosts> known(thread_count(problem));
  const std::vector<int> layers = layers_of_kinds(problem.model);
  in_parallel(each.size(), thread_count(problem), [&](std::size_t i, unsigned thread) {
    const auto& [split, costs] = each[i];
    costs->work.emplace(problem, costs->costs.emplace(problem, *split, &known[thread]), layers);
  });

  const LeastTimes times(problem);
  std::vector<LeastTime> bounds;
  bounds.reserve(families.size());
  for (std::size_t i = 0; i < families.size(); ++i)
    bounds.push_back(priced[i] ? times.of(*priced[i]->work, families[i].layout, slowest)
                               : LeastTime{Seconds::infinity()});
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
    sorted.push_back({std::move(families[i].layout), priced[i] ? &*priced[i]->costs : nullptr, bounds[i], states[i],
                      fewest, priced[i] ? priced[i]->work->waiting : 0});
  }
  return sorted;
}

std::vector<std::size_t> together(std::span<const Costed> families) {
  std::vector<std::size_t> order(families.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return degrees_of(families[a].layout) < degrees_of(families[b].layout);
  });
  return order;
}

RealBytes most_memory(const Problem& problem, bool bounds) {
  return bounds ? usable_memory(problem, true) : RealBytes::infinity();
}

std::vector<SwitchMask> switch_choices(const Problem& problem) {
  std::vector<SwitchMask> all;
  if (problem.objective == Objective::Memory) return all;
  const unsigned free = turnable_switches(problem);
  // Weights leave with the optimizer, and it leaves without them where a framework has a word for that.
  const bool alone = offloads_states_alone(problem);
  for (unsigned some = free; some != 0; some = (some - 1) & free) {
    const bool states = (some & kSwitchOptimizer) != 0, weights = (some & kSwitchWeights) != 0;
    if (weights ? states : !states || alone) all.push_back(static_cast<SwitchMask>(some));
  }
  std::sort(all.begin(), all.end(), fewer_switches);
  return all;
}

std::shared_ptr<Way> switched(const Way& base, SwitchMask on, Seconds slowest, bool bounds) {
  auto way = std::make_shared<Way>(with_switches(base.problem, on));
  way->problem.pareto = false;  // the front is of the job as it stands
  const bool graphs = (on & kSwitchGraphs) != 0, lighter = (on & kSwitchOptimizer) != 0;
  // Graphs that save no time may save room where activations go to the host: norms, whose copies take some, stay.
  const bool for_time = graphs && (on & kSwitchActivations) == 0;
  std::vector<Family> families;
  for (const Costed& family : base.families) {
    const double waiting = graphs ? family.waiting : 0;
    const bool helps =
        family.costs == nullptr ? lighter : (!for_time || waiting > 0) && (1 - waiting) * family.bound.any <= slowest;
    if (helps || !bounds) families.push_back({family.layout});
  }
  way->families =
      cost_families(way->problem, std::move(families), most_memory(way->problem, bounds), slowest, way->splits);
  return way;
}

}  // namespace plan
