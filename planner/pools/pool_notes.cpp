// What a report on several kinds of GPU must say first. Tested by tests/planner/pools_test.cpp.
#include <fmt/format.h>

#include <algorithm>

#include "planner/choice/hardware_notes.hpp"
#include "planner/memory/host_memory.hpp"
#include "planner/pools/pools.hpp"

namespace plan {
namespace {

/// Steps that differ by less count as equally fast.
constexpr double kAsFast = 0.02;

std::string pool_text(const Problem& problem, int pool) {
  const Pool& one = problem.pools[static_cast<std::size_t>(pool)];
  return fmt::format("{} x {}", one.gpus, one.cluster.gpu.name);
}

}  // namespace

std::vector<Note> pooled_notes(const PoolModels& models, const Estimate& estimate, bool runs) {
  const Problem& problem = models.whole();
  std::vector<Note> notes;
  const std::vector<Layout> layouts = layouts_of(pooled_layout(estimate));
  if (!runs)
    notes.push_back({"no_framework",
                     std::string("no framework of the list runs this: it takes pools whose strategies "
                                 "differ in more than their layers, or libraries that do not talk to "
                                 "each other") +
                         (suits_meshes(layouts) ? "; FlagScale's process meshes, one for each kind of GPU, are what "
                                                  "`plan emit flagscale` writes"
                                                : "")});
  if (runs && problem.mesh_per_pool)
    notes.push_back({"flagscale", "FlagScale runs it, with a process mesh for each kind of GPU"});
  std::string order;
  int first = 0;
  for (const PoolRun& run : estimate.runs) {
    order += fmt::format("{}{}-{} on {}", order.empty() ? "" : ", ", first, first + run.gpus - 1, run.gpu);
    first += run.gpus;
  }
  if (runs && !problem.mesh_per_pool)
    notes.push_back({"pool_order", "rank order decides which stage is where: start ranks " + order});
  for (std::size_t pool = 0; pool < problem.pools.size(); ++pool) {
    const bool at_risk = pool == 0 && estimate.fits == Fits::AtRisk;
    for (Note& note : hardware_notes(models.problem(static_cast<int>(pool)), at_risk))
      if (std::none_of(notes.begin(), notes.end(), [&](const Note& n) { return n.text == note.text; }))
        notes.push_back(std::move(note));
  }
  for (const PoolRun& run : estimate.runs) {
    Estimate alone;
    alone.host = run.host, alone.host_capacity = run.host_capacity;
    for (Note& note : host_notes(models.problem(run.pool), alone)) notes.push_back(std::move(note));
  }
  return notes;
}

void add_alone_notes(Plan& plan) {
  const PoolAlone* fastest = nullptr;
  for (const PoolAlone& alone : plan.alone)
    if (alone.best && (fastest == nullptr || alone.best->step_time < fastest->best->step_time)) fastest = &alone;
  if (fastest == nullptr) return;
  const double mixed = plan.best.step_time.value, alone = fastest->best->step_time.value;
  const std::string name = pool_text(plan.problem, fastest->pool);
  if (alone <= (1 + kAsFast) * mixed)
    plan.notes.insert(
        plan.notes.begin(),
        {"pool_alone", fmt::format("{} alone take {:.3g} s a step, all pools together {:.3g} s: leave the "
                                   "others to another job",
                                   name, alone, mixed)});
  else
    plan.notes.push_back({"pools_gain", fmt::format("all pools together are {:.0f} % faster than {} alone ({:.3g} s)",
                                                    100 * (alone / mixed - 1), name, alone)});
}

}  // namespace plan
