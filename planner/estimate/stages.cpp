// Placement of layers on pipeline ranks. Tested by tests/planner/estimate_test.cpp.
#include "planner/estimate/stages.hpp"

#include <algorithm>

#include "formulas/partition.hpp"
#include "formulas/schedule.hpp"
#include "planner/rules/frameworks.hpp"
#include "planner/rules/rules.hpp"

namespace plan {

StageContent layers_between(const Model& model, const StageContent& before, const StageContent& up_to, StageEnds ends) {
  StageContent content = up_to;
  for (std::size_t kind = 0; kind < content.layers_of_kind.size(); ++kind)
    content.layers_of_kind[kind] -= before.layers_of_kind[kind];
  content.embedding = ends.first, content.head = ends.last;
  if (content.head) content.mtp = model.mtp.depth;
  return content;
}
namespace {

/// Seconds.
double work(const LayerCost& cost) {
  return (cost.forward.total() + cost.backward_input.total() + cost.backward_weight.total()).value;
}

std::vector<int> balanced_chunks(const Problem& problem, const CostModel& costs, const Layout& layout) {
  const FrameworkRow& framework = framework_row(problem.framework);
  if (framework.ends_outside)
    return std::vector<int>(static_cast<std::size_t>(layout.pp) * layout.vp,
                            problem.model.depth() / layout.pp / layout.vp);
  if (plain_stages_only(problem)) {
    std::vector<int> plain = plain_chunks(problem.model.depth(), layout.pp * layout.vp);
    if (!plain.empty()) return plain;
  }
  std::vector<double> layer_costs;
  layer_costs.reserve(problem.model.layers.size());
  for (const int kind : problem.model.layers) layer_costs.push_back(work(costs.layer(kind)));
  const PartitionCost cost{layer_costs, work(costs.embedding()), work(costs.head())};
  if (layout.vp == 1) return partition_layers(cost, layout.pp);
  return partition_interleaved(cost, layout.pp, layout.vp, v_shaped(layout.schedule), !framework.empty_chunks);
}

/// Ranks that run chunk `chunk`; two under DualPipe, whose directions meet in the middle.
std::vector<int> ranks_of(const Layout& layout, int chunk) {
  if (both_ways(layout.schedule)) return {chunk, layout.pp - 1 - chunk};
  return {rank_of_chunk(chunk, layout.pp, v_shaped(layout.schedule))};
}

}  // namespace

Stages plan_stages(const Problem& problem, const CostModel& costs, const Layout& layout, std::span<const int> cells) {
  Stages stages;
  stages.chunk_layers = layout.chunk_layers.empty() ? balanced_chunks(problem, costs, layout) : layout.chunk_layers;

  std::vector<StageContent> by_rank(static_cast<std::size_t>(layout.pp));
  std::size_t next = 0;
  const int chunks = static_cast<int>(layout.chunks());
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const std::size_t end = next + static_cast<std::size_t>(stages.chunk_layers[static_cast<std::size_t>(chunk)]);
    for (const int rank : ranks_of(layout, chunk)) {
      StageContent& content = by_rank[static_cast<std::size_t>(rank)];
      for (std::size_t layer = next; layer < end; ++layer)
        ++content.layers_of_kind[static_cast<std::size_t>(problem.model.layers[layer])];
      content.embedding |= chunk == 0;
      if (chunk == chunks - 1) content.head = true, content.mtp = problem.model.mtp.depth;
    }
    next = end;
  }
  for (std::size_t rank = 0; rank < cells.size(); ++rank) by_rank[rank].cell = cells[rank];
  for (const StageContent& content : by_rank) {
    // Most ranks hold what the rank before holds.
    auto found = stages.content_of.empty() ? stages.contents.end() : stages.contents.begin() + stages.content_of.back();
    if (found == stages.contents.end() || *found != content)
      found = std::find(stages.contents.begin(), stages.contents.end(), content);
    if (found == stages.contents.end()) found = stages.contents.insert(found, content);
    stages.content_of.push_back(static_cast<int>(found - stages.contents.begin()));
    int layers = 0;
    for (const int count : content.layers_of_kind) layers += count;
    stages.stage_layers.push_back(layers);
  }
  return stages;
}

std::vector<Segment> segments_of(const Stages& stages) {
  std::vector<Segment> segments;
  for (std::size_t rank = 0; rank < stages.content_of.size(); ++rank)
    // The first rank is a case of its own: what it holds and waits for differs from its twins'.
    if (rank > 1 && stages.content_of[rank] == segments.back().content)
      ++segments.back().ranks;
    else
      segments.push_back({stages.content_of[rank], static_cast<int>(rank), 1});
  return segments;
}

}  // namespace plan
