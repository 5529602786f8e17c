// Which points a probe measures, in which order, within which time. Tested by tests/hwprobe/sweep_test.cpp.
#include "hwprobe/sweep/sweep.hpp"

#include <algorithm>
#include <random>

#include "hwprobe/sweep/sweep_builder.hpp"

namespace plan {
namespace {

/// Drops the points of least information until the rest fits.
void keep_budget(Sweep& sweep, double budget_s) {
  const auto total = [&] {
    double sum = 0;
    for (const SweepPoint& p : sweep.points) sum += p.cost_s;
    return sum;
  };
  sweep.seconds = sweep.wanted_s = total();
  while (sweep.seconds > budget_s && !sweep.points.empty()) {
    const auto worst = std::max_element(sweep.points.begin(), sweep.points.end(), [](const auto& a, const auto& b) {
      return std::pair(a.priority, a.cost_s) < std::pair(b.priority, b.cost_s);
    });
    if (worst->priority == 0) break;
    sweep.skipped.push_back({worst->id, "budget"});
    sweep.seconds -= worst->cost_s;
    sweep.points.erase(worst);
  }
}

}  // namespace

double default_budget(Depth depth, int ranks, int nodes) {
  if (depth == Depth::Standard) return 600;
  if (depth == Depth::Thorough) return 1800;
  return nodes > 1 ? 360 : ranks > 1 ? 180 : 45;
}

Sweep plan_sweep(const SweepRequest& request) {
  SweepBuilder b{request};
  add_memory(b);
  add_bandwidth(b);
  add_gemms(b);
  add_attention(b);
  add_kernels(b);
  add_host_link(b);
  add_collectives(b);
  add_overlap(b);
  if (request.ranks_per_node > 1) add_pairs(b);
  keep_budget(b.sweep, request.budget_s);
  std::mt19937 shuffle(20261121);  // the same order on every machine
  for (auto begin = b.sweep.points.begin(); begin != b.sweep.points.end();) {
    const auto end =
        std::find_if(begin, b.sweep.points.end(), [&](const auto& p) { return p.section != begin->section; });
    if (begin->section != Section::Collectives)  // those run by communicator, sizes upwards
      for (auto i = end - begin - 1; i > 0; --i)
        std::swap(begin[i], begin[static_cast<long>(shuffle() % static_cast<unsigned long>(i + 1))]);
    begin = end;
  }
  return std::move(b.sweep);
}

}  // namespace plan
