// What a pipeline costs whose stages differ in strategy. Tested by tests/planner/stage_cells_test.cpp.
#include "planner/estimate/stage_cells.hpp"

#include <algorithm>

#include "formulas/kernel_laws.hpp"
#include "formulas/rank_grid.hpp"

namespace plan {

const Problem& StageModels::problem(int offload) {
  std::unique_ptr<Problem>& known = problems_[offload];
  if (!known) {
    known = std::make_unique<Problem>(whole_);
    known->training.offload.layers = offload;
  }
  return *known;
}

const CostModel& StageModels::costs(int offload, const Layout& layout) {
  std::unique_ptr<CostModel>& known = costs_[{offload, split_of(layout)}];
  if (!known) known = std::make_unique<CostModel>(problem(offload), split_of(layout));
  return *known;
}

const MemoryModel& StageModels::memory(int offload, const Layout& layout) {
  std::unique_ptr<MemoryModel>& known =
      memory_[MemoryKey(offload, split_of(layout), layout.pp, layout.recompute.kind, layout.recompute.modules)];
  if (!known) known = std::make_unique<MemoryModel>(problem(offload), layout);
  return *known;
}

std::vector<Cell> StageModels::cells(const Layout& layout) {
  std::vector<Cell> cells;
  for (int stage = 0; stage < layout.pp; ++stage) {
    const StageStrategy& own = layout.stages[static_cast<std::size_t>(stage)];
    const bool part =
        !own.behind.empty();  // where kinds of layers differ, two such stages may hold other ones in a run
    if (stage > 0 && !part && own == layout.stages[static_cast<std::size_t>(stage) - 1]) {
      ++cells.back().stages;
      continue;
    }
    const std::vector<StageStrategy> runs = runs_of(own);
    for (std::size_t run = 0; run < runs.size(); ++run) {
      const int offload = runs[run].offload;
      Layout alone = layout_of_run(layout, runs[run]);
      const CostModel& costs = this->costs(offload, alone);
      const MemoryModel& memory = this->memory(offload, alone);
      Resharding input = run > 0 ? resharding(whole_, cells.back().layout, alone) : Resharding{};
      cells.push_back({&problem(offload), &costs, &memory, std::move(alone), run == 0 ? 1 : 0, runs[run].layers, part,
                       std::move(input)});
    }
  }
  return cells;
}

Hops StageModels::hops(const Layout& layout) const {
  if (layout.pp == 1) return {};
  std::vector<RealBytes> in, out;
  for (const StageStrategy& stage : layout.stages) {
    in.push_back(hand_over_bytes(whole_, layout_of_run(layout, stage)));
    out.push_back(stage.behind.empty() ? in.back()
                                       : hand_over_bytes(whole_, layout_of_run(layout, stage.behind.back())));
  }
  std::vector<Seconds> each;
  const std::vector<std::size_t> tiers = hop_tiers(whole_.cluster, layout);
  for (std::size_t stage = 0; stage < tiers.size(); ++stage) {
    const RealBytes wider = std::max(out[stage], in[(stage + 1) % in.size()]);
    each.push_back(hop_seconds<double>(whole_.cluster, wider, tiers[stage]));
  }
  return Hops(each);
}

Estimate estimate_stages(const Problem& problem, const Layout& layout) {
  StageModels models(problem);
  const std::vector<Cell> cells = models.cells(layout);
  Estimate result = estimate_cells(problem, cells, models.hops(layout));
  std::vector<int> layers = std::move(result.layout.chunk_layers);
  result.layout = layout;
  result.layout.chunk_layers = std::move(layers);
  return result;
}

}  // namespace plan
