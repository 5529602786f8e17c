// What Hetu-Galvatron's strategy files can say. Tested by tests/launch/galvatron_test.cpp.
#include "planner/rules/galvatron.hpp"

#include <fmt/core.h>

#include "formulas/names.hpp"
#include "planner/problem/stage_layout.hpp"

namespace plan {
namespace {

std::string lacks_of_job(const Training& training) {
  if (training.offload.any()) return "is written here without offload";
  if (training.stack.cuda_graphs || training.stack.graph_scopes != 0) return "is written here without CUDA graphs";
  if (training.adapters()) return "has no key for adapters";
  if (training.precision != Precision::Bf16)
    return fmt::format("has no key for {}: its strategies say nothing of precision, and bf16 is read",
                       name(training.precision));
  if (training.optimizer != Optimizer::Adam) return fmt::format("has no key for {}", name(training.optimizer));
  return "";
}

/// Does one run of layers exchange context in a way for which the file has no key?
bool lacks_context(const Layout& l) {
  return l.cp > 1 &&
         (l.cp_kind == CpKind::Hybrid || l.cp_kind == CpKind::AllGather || (l.cp_kind == CpKind::Ulysses && l.tp > 1));
}
constexpr const char* kContexts = "has a context ring, or Ulysses in place of tensor parallelism";

std::string lacks_of_axes(const Layout& l) {
  if (l.vp > 1 || (l.schedule != Schedule::OneFOneB && l.schedule != Schedule::GPipe))
    return "runs 1f1b or gpipe, one chunk a stage";
  if (l.ep > 1 || l.etp > 1) return "is written here without expert parallelism";
  if (lacks_context(l)) return kContexts;
  if (l.shard > 0 && l.shard != l.dense_group()) return "shards states over all of dp * cp";
  if (l.order != AxisOrder::PipelineOutermost) return "has the pipeline outermost";
  return "";
}

}  // namespace

GalvatronLack galvatron_lacks(const Problem& problem, const Layout& layout) {
  if (std::string text = lacks_of_axes(layout); !text.empty()) return {std::move(text)};
  if (std::string text = lacks_of_job(problem.training); !text.empty()) return {std::move(text)};
  std::vector<StageStrategy> runs;
  for (const StageStrategy& stage : layout.stages)
    for (StageStrategy& run : runs_of(stage)) runs.push_back(std::move(run));
  if (layout.stages.empty()) runs.push_back({layout.recompute});
  int beside = -1;  // the one default of layers that are not under ZeRO-3
  for (const StageStrategy& run : runs) {
    const Layout own = layout_of_run(layout, run);
    if (own.recompute.kind == RecomputeKind::Selective || own.recompute.uniform > 1)
      return {"recomputes whole layers, one by one", "add `--layout recompute=full`"};
    if (lacks_context(own)) return {kContexts};
    if (run.offload > 0) return {"is written here without offload"};
    if (own.zero == 3) continue;
    if (own.zero == 1) return {"has no key for zero 1: ddp, zero2 and zero3", "add `--layout zero2`"};
    if (beside >= 0 && own.zero != beside) return {"has one default beside zero3 for all layers"};
    beside = own.zero;
  }
  return {};
}

}  // namespace plan
