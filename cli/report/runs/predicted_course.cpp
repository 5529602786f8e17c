// The course of a predicted step, to be drawn below the measured one. Inside an operation of the pipeline the layers'
// messages lie between its kernels; they are drawn in as many places as the stage has layers.
// Tested by tests/cli/diagnose_test.cpp.
#include "cli/report/runs/predicted_course.hpp"

#include <algorithm>
#include <utility>

#include "cli/logs/course.hpp"
#include "planner/estimate/replay.hpp"

namespace plan {
namespace {

/// An operation that takes `time`, layer by layer.
void add_operation(Course& course, const OpParts& parts, Seconds time, int layers) {
  const Seconds whole = parts.recompute + parts.work.total();
  if (!(whole > Seconds())) return course.add(Observable::Compute, time);
  const double scale = time / whole / layers;
  for (int layer = 0; layer < layers; ++layer)
    for (const auto& [part, length] :
         {std::pair{Observable::Compute, parts.recompute + parts.work.compute},
          std::pair{Observable::Tp, parts.work.tp}, std::pair{Observable::Cp, parts.work.cp},
          std::pair{Observable::Ep, parts.work.ep}})
      course.add(part, length * scale);
}

}  // namespace

std::vector<Observable> predicted_course(const Plan& plan) {
  const Result<StepReplay> step = replay(plan);
  if (!step) return {};
  constexpr int kMostLayers = 64;  // more than these no picture tells apart
  const std::vector<int>& stages = plan.best.stage_layers;
  const int layers = std::clamp(stages.empty() ? 1 : stages.front(), 1, kMostLayers);
  Course course(step->total());
  course.add(Observable::Dp, step->gather);
  Seconds now = step->gather;
  for (const ReplayedOp& op : step->ops) {
    if (op.rank != 0) continue;
    course.add(Observable::Pipeline, op.start - now);
    add_operation(course, parts_of(*step, op), op.end - op.start, layers);
    now = op.end;
  }
  course.add(Observable::Pipeline, step->gather + step->pipeline_time - now);
  // As parts_of(Problem, Estimate) files them: ranks wait for the slowest where gradients are summed.
  const bool reduces = plan.best.layout.dense_group() > 1;
  course.add(Observable::Dp, step->reduce + (reduces ? step->straggler : Seconds()));
  const Seconds fixed = std::min(plan.problem.cluster.calibration.fixed_step(), step->optimizer);
  course.add(Observable::Optimizer, step->optimizer - fixed);
  course.add(Observable::Idle, fixed + (reduces ? Seconds() : step->straggler));
  return course.parts();
}

}  // namespace plan
