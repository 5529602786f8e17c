// A whole step from the event simulator, for traces and timelines. Tested by tests/cli/replay_test.cpp: the total and
// every stage's peak are the estimate's, for every schedule.
#include "planner/estimate/replay.hpp"

#include <algorithm>
#include <string_view>

#include "planner/estimate/stages.hpp"

namespace plan {
namespace {

using Work = PipelineWork;

PeakDuring peak_during(std::string_view instant) {
  if (instant == "optimizer step") return PeakDuring::OptimizerStep;
  return instant.ends_with("backward") ? PeakDuring::Backward : PeakDuring::Forward;
}

bool forwards(Work work) { return work == Work::Forward || work == Work::Pair; }

/// Activations of a rank that peaks in its optimizer step while the pipeline runs. They are linear in the micro-batches
/// held, and so many are held in two imagined runs that the peak is in the pipeline.
RealBytes pipeline_activations(const MemoryModel& memory, const Layout& layout, int rank, const StageContent& content,
                               double held) {
  constexpr double kMany = 1e6;
  const auto at = [&](double count) { return RealBytes(memory.stage(layout, rank, content, count).activations); };
  const RealBytes first = at(kMany), slope = (at(2 * kMany) - first) / kMany;
  return std::max(RealBytes(), first + slope * (held - kMany));
}

RankMemory rank_memory(const StageMemory& stage, std::string_view instant) {
  RankMemory out;
  const Bytes alive = stage.transient - stage.reserve;
  out.alive = alive, out.activations = stage.activations;
  out.steady = stage.total() - stage.activations - alive;
  out.during = peak_during(instant);
  return out;
}

/// Copies the simulated events, shifted and scaled, with what the rank holds around each.
void place_ops(StepReplay& step, const PipelineRun& run) {
  std::vector<double> now(static_cast<std::size_t>(step.pipeline.pp), 0.0);
  step.ops.reserve(run.events.size());
  for (const PipelineEvent& event : run.events) {
    double& holds = now[static_cast<std::size_t>(event.rank)];
    ReplayedOp out{
        event.rank, event.op, step.gather + event.start * step.scale, step.gather + event.end * step.scale, holds,
        holds,      holds};
    if (forwards(event.op.work)) out.held += 1;
    out.held_after = out.held;
    const Work work = event.op.work;
    if (work == Work::Backward || work == Work::WeightGradient || work == Work::Pair) out.held_after -= 1;
    holds = out.held_after;
    step.ops.push_back(out);
  }
}

/// When each rank first reaches its peak.
void find_peaks(StepReplay& step) {
  std::vector<bool> found(step.memory.size(), false);
  for (const ReplayedOp& op : step.ops) {
    const auto rank = static_cast<std::size_t>(op.rank);
    RankMemory& memory = step.memory[rank];
    const bool kind = memory.during == PeakDuring::Forward ? forwards(op.op.work) : op.op.work != Work::Forward;
    if (found[rank] || op.held < step.most_held[rank] || !kind) continue;
    found[rank] = true;
    memory.peak_at = op.start;
  }
  for (RankMemory& memory : step.memory)
    if (memory.during == PeakDuring::OptimizerStep) memory.peak_at = step.gather + step.pipeline_time + step.reduce;
}

void fill_memory(StepReplay& step, const Plan& plan, const Evaluator& evaluator) {
  const Layout& layout = plan.best.layout;
  const MemoryModel model(plan.problem, layout);
  for (int rank = 0; rank < layout.pp; ++rank) {
    const Stages& stages = evaluator.stages();
    const auto at = static_cast<std::size_t>(stages.content_of[static_cast<std::size_t>(rank)]);
    const StageContent& content = stages.contents[at];
    const double most = held(step.pipeline, rank);
    RankMemory memory =
        rank_memory(plan.best.stages[static_cast<std::size_t>(rank)], model.peak_instant(layout, rank, content, most));
    if (memory.during == PeakDuring::OptimizerStep)
      memory.activations = std::min(memory.alive, pipeline_activations(model, layout, rank, content, most));
    step.memory.push_back(memory);
  }
}

/// Exposed time of the data-parallel rows: parameters come before the pipeline, gradients after it.
void split_data_parallel(StepReplay& step, const Estimate& best) {
  for (const Communication& row : best.communication)
    if (row.axis == Axis::Dp && row.op == Collective::AllGather) step.gather = step.gather + row.exposed;
  step.gather = std::min(step.gather, best.terms.dp);
  step.reduce = best.terms.dp - step.gather;
}

}  // namespace

Result<StepReplay> replay(const Plan& plan) {
  const Estimate& best = plan.best;
  if (!best.layout.stages.empty())
    return fail({"conflicting_flags",
                 "no timeline, trace or page draws stages of unequal strategies",
                 {},
                 {"the screen, `--json`, csv and markdown have them"}});
  StepReplay step;
  step.pipeline = pipeline_of(plan.problem, best.layout);
  const std::int64_t operations = pipeline_operations(step.pipeline);
  if (operations > kMostReplayed)
    return fail({"too_long",
                 "a step of " + std::to_string(operations) + " operations is too long to draw; at most " +
                     std::to_string(kMostReplayed),
                 {},
                 {"a smaller `--global-batch` has the same pattern with fewer micro-batches"}});
  const CostModel costs(plan.problem, split_of(best.layout));
  Evaluator evaluator(plan.problem, costs, best.layout);
  evaluator.recompute(best.layout.recompute);
  for (int rank = 0; rank < step.pipeline.pp; ++rank) step.costs.push_back(evaluator.cost(rank));
  split_data_parallel(step, best);
  const Terms& terms = best.terms;
  step.pipeline_time = terms.compute + terms.recompute + terms.tp + terms.cp + terms.ep + terms.bubble + terms.pp;
  step.optimizer = terms.optimizer, step.straggler = terms.straggler;

  const PipelineRun run =
      simulate_pipeline(step.pipeline, chunk_times(step.pipeline, evaluator.times()), evaluator.hops());
  if (run.makespan.value > 0) step.scale = step.pipeline_time / run.makespan;
  step.hops = evaluator.hops();
  for (const RankRun& rank : run.ranks) step.most_held.push_back(rank.peak_held);
  fill_memory(step, plan, evaluator);
  place_ops(step, run);
  find_peaks(step);
  return step;
}

OpParts parts_of(const StepReplay& step, const ReplayedOp& replayed) {
  const StageCost& cost = step.costs[static_cast<std::size_t>(replayed.rank)];
  const double share = 1.0 / step.pipeline.vp;
  OpParts out;
  switch (replayed.op.work) {
    case Work::Forward: out.work = cost.forward; break;
    case Work::Backward: out.work = cost.backward_input + cost.backward_weight; break;
    case Work::InputGradient: out.work = cost.backward_input; break;
    case Work::WeightGradient: out.work = cost.backward_weight; break;
    case Work::Pair: out.work = cost.pair(); break;
  }
  if (replayed.op.work != Work::Forward && replayed.op.work != Work::WeightGradient)
    out.recompute = share * cost.recompute.total();
  out.work = share * out.work;
  return out;
}

}  // namespace plan
