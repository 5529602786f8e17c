// What stages that differ have to agree in. Tested by tests/planner/stage_cells_test.cpp.
#include <fmt/format.h>

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
  if (own.tp <= 0) return "";
  if (problem.model.moe()) return "experts are spread over the ranks of all stages alike: leave `@tp` out";
  if (layout.dp * layout.tp % own.tp != 0 || layout.micro_batch * own.tp % layout.tp != 0)
    return fmt::format(
        "a stage of {} * {} GPUs that takes {} * {} sequences at once has no tp {}: dp and micro_batch "
        "would be no whole numbers",
        layout.tp, layout.dp, layout.dp, layout.micro_batch, own.tp);
  const Layout alone = layout_of_run(layout, own);
  const int rule = broken_rule(problem, alone, Level::Grid);
  return rule < 0 ? "" : fmt::format("{}: {}", place, broken_text(problem, alone, rule));
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
    return fmt::format("recompute={} stands beside what each stage recomputes", recompute_text(layout.recompute));
  bool widths = false;
  for (int stage = 0; stage < layout.pp; ++stage) {
    const std::vector<StageStrategy> runs = runs_of(layout.stages[static_cast<std::size_t>(stage)]);
    if (runs.size() > 1)
      if (std::string fault = runs_fault(problem, layout, stage); !fault.empty()) return fault;
    for (std::size_t run = 0; run < runs.size(); ++run) {
      const std::string place =
          runs.size() > 1 ? fmt::format("run {} of stage {}", run, stage) : fmt::format("stage {}", stage);
      if (std::string fault = run_fault(problem, layout, runs[run], place); !fault.empty()) return fault;
      widths = widths || runs[run].zero >= 0 || runs[run].tp > 0;
    }
  }
  if (widths && (layout.vp != 1 || both_ways(layout.schedule) || layout.shard > 0 ||
                 layout.order != AxisOrder::PipelineOutermost))
    return "stages of unequal tp or ZeRO run one chunk each, one way, with the pipeline outermost and without `shard`";
  return "";
}

}  // namespace plan
