// What stages that differ have to agree in. Tested by tests/planner/stage_cells_test.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "planner/problem/axes.hpp"
#include "planner/problem/stage_layout.hpp"
#include "planner/rules/rules.hpp"

namespace plan {

namespace {

/// What is wrong with one run of layers; `place` names it.
std::string run_fault(const Problem& problem, const Layout& layout, const StageStrategy& own,
                      const std::string& place) {
  if (own.offload > 0 && (own.recompute.kind != RecomputeKind::None || problem.training.offload.modules != 0))
    return fmt::format("{} offloads whole layers and treats activations in another way, too", place);
  if (own.tp <= 0 && own.cp <= 0) return "";
  if (problem.model.moe())
    return fmt::format("experts are spread over the ranks of all stages: leave `@{}` out", own.tp > 0 ? "tp" : "cp");
  if (own.cp > 0 && layout.cp_kind == CpKind::Hybrid)
    return fmt::format("{} has a cp of its own: a ring, gathers or Ulysses, and no hybrid of two", place);
  const std::int64_t gpus = static_cast<std::int64_t>(layout.tp) * layout.cp * layout.dp;
  const std::int64_t replica =
      static_cast<std::int64_t>(own.tp > 0 ? own.tp : layout.tp) * (own.cp > 0 ? own.cp : layout.cp);
  if (gpus % replica != 0 || layout.micro_batch * replica % (static_cast<std::int64_t>(layout.tp) * layout.cp) != 0)
    return fmt::format(
        "a stage of {} GPUs that takes {} * {} sequences at once has no {}: dp and micro_batch would be no whole "
        "numbers",
        gpus, layout.dp, layout.micro_batch,
        own.cp > 0 ? fmt::format("tp * cp {}", replica) : fmt::format("tp {}", own.tp));
  const Layout alone = layout_of_run(layout, own);
  for (const Level level : {Level::Grid, Level::Context})
    if (const int rule = broken_rule(problem, alone, level); rule >= 0)
      return fmt::format("{}: {}", place, broken_text(problem, alone, rule));
  return "";
}

/// An activation goes from one run to the next in whole replicas: those of one side make up those of the other.
std::string neighbours_fault(const Layout& layout, const std::vector<StageStrategy>& runs, int stage) {
  for (std::size_t run = 1; run < runs.size(); ++run) {
    const Layout before = layout_of_run(layout, runs[run - 1]), behind = layout_of_run(layout, runs[run]);
    const int small = std::min(before.tp * before.cp, behind.tp * behind.cp);
    const int large = std::max(before.tp * before.cp, behind.tp * behind.cp);
    if (large % small != 0)
      return fmt::format("runs {} and {} of stage {} have replicas of {} and {} GPUs, and none divides the other",
                         run - 1, run, stage, before.tp * before.cp, behind.tp * behind.cp);
  }
  return "";
}

/// What is wrong with a stage of several runs, beside the runs themselves.
std::string runs_fault(const Problem& problem, const Layout& layout, int stage) {
  const StageStrategy& own = layout.stages[static_cast<std::size_t>(stage)];
  if (layout.vp != 1 || both_ways(layout.schedule) || problem.training.stack.vocab_barriers > 0)
    return "layers of one stage differ only where it runs one chunk, one way, with its own embedding and head";
  if (layout.chunk_layers.empty() && layout.pp > 1)
    return "layers of one stage differ: say with `layers=` how many each stage has";
  const int layers = layout.pp == 1 ? problem.model.depth()
                     : stage < static_cast<int>(layout.chunk_layers.size())
                         ? layout.chunk_layers[static_cast<std::size_t>(stage)]
                         : 0;
  long long named = 0;
  for (const StageStrategy& run : runs_of(own)) named += run.layers;
  if (named >= layers)
    return fmt::format("stage {} has {} layers, and its first {} leave none for the last run", stage, layers, named);
  return "";
}

}  // namespace

std::string stages_fault(const Problem& problem, const Layout& layout) {
  if (static_cast<int>(layout.stages.size()) != layout.pp)
    return fmt::format("it has {} for pp {}", layout.stages.size(), layout.pp);
  if (layout.recompute.kind != RecomputeKind::None)
    return fmt::format("recompute={} is given beside what each stage recomputes", recompute_text(layout.recompute));
  bool widths = false;
  for (int stage = 0; stage < layout.pp; ++stage) {
    const std::vector<StageStrategy> runs = runs_of(layout.stages[static_cast<std::size_t>(stage)]);
    if (runs.size() > 1)
      if (std::string fault = runs_fault(problem, layout, stage); !fault.empty()) return fault;
    for (std::size_t run = 0; run < runs.size(); ++run) {
      const std::string place =
          runs.size() > 1 ? fmt::format("run {} of stage {}", run, stage) : fmt::format("stage {}", stage);
      if (std::string fault = run_fault(problem, layout, runs[run], place); !fault.empty()) return fault;
      widths = widths || has_own_axes(runs[run]);
    }
    if (std::string fault = neighbours_fault(layout, runs, stage); !fault.empty()) return fault;
  }
  if (widths && (layout.vp != 1 || both_ways(layout.schedule) || layout.shard > 0 ||
                 layout.order != AxisOrder::PipelineOutermost))
    return "stages of unequal tp, cp or ZeRO run one chunk each, one way, with the pipeline outermost and without "
           "`shard`";
  return "";
}

}  // namespace plan
