// The replayed step has the estimate's total, its terms and its peaks, for every schedule and uneven stages.
#include "planner/estimate/replay.hpp"
#include "planner/planner.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "scheduled_plans.hpp"

namespace plan {
namespace {

using doctest::Approx;

using scheduled::Case;
using scheduled::cases;

Plan plan_of(const Case& row) {
  Plan plan = scheduled::plan_of(row.model, row.layout);
  REQUIRE(plan.best.micro_batches == 16);
  return plan;
}

TEST_CASE("the total of the replay is the estimate's step time, and its work the estimate's terms") {
  for (const Case& row : cases()) {
    CAPTURE(row.model);
    CAPTURE(name(row.layout.schedule));
    const Plan plan = plan_of(row);
    const StepReplay step = replay(plan).value();
    CHECK(step.total().value == Approx(plan.best.step_time.value).epsilon(1e-12));
    CHECK(step.scale == Approx(1).epsilon(0.1));
    Seconds end{};
    std::map<int, Phase> work;
    std::map<int, Seconds> recompute;
    for (const ReplayedOp& op : step.ops) {
      end = std::max(end, op.end);
      const OpParts parts = parts_of(step, op);
      CHECK((parts.recompute + parts.work.total()).value * step.scale ==
            Approx((op.end - op.start).value).epsilon(op.op.work == PipelineWork::Pair ? 0.05 : 1e-6));
      work[op.rank] += parts.work, recompute[op.rank] += parts.recompute;
    }
    CHECK(end.value == Approx((step.gather + step.pipeline_time).value).epsilon(1e-12));
    Seconds most;
    for (const auto& [rank, phase] : work) most = std::max(most, phase.total() + recompute[rank]);
    const Terms& terms = plan.best.terms;
    const double busy = (terms.compute + terms.recompute + terms.tp + terms.cp + terms.ep).value;
    CHECK(most.value == Approx(busy).epsilon(0.02));
  }
}

TEST_CASE("the most that a rank holds is the estimate's peak, at the time that is named") {
  for (const Case& row : cases()) {
    CAPTURE(row.model);
    CAPTURE(name(row.layout.schedule));
    const Plan plan = plan_of(row);
    const StepReplay step = replay(plan).value();
    for (std::size_t rank = 0; rank < step.memory.size(); ++rank) {
      const RankMemory& memory = step.memory[rank];
      CHECK(memory.peak().value == Approx(static_cast<double>(plan.best.stages[rank].total().value)).epsilon(1e-12));
      CHECK(step.most_held[rank] / step.pipeline.vp == Approx(in_flight(step.pipeline, static_cast<int>(rank))));
      CHECK(memory.peak_at >= step.gather);
      CHECK(memory.peak_at <= step.gather + step.pipeline_time + step.reduce);
      const bool at_an_op = std::any_of(step.ops.begin(), step.ops.end(), [&](const ReplayedOp& op) {
        return op.rank == static_cast<int>(rank) && op.start == memory.peak_at && op.held == step.most_held[rank];
      });
      CHECK((at_an_op || memory.during == PeakDuring::OptimizerStep));
    }
  }
}

TEST_CASE("what a rank holds begins and ends with nothing") {
  for (const Case& row : cases()) {
    const StepReplay step = replay(plan_of(row)).value();
    for (std::size_t i = 0; i < step.ops.size(); ++i) {
      const bool first = i == 0 || step.ops[i - 1].rank != step.ops[i].rank;
      const bool last = i + 1 == step.ops.size() || step.ops[i + 1].rank != step.ops[i].rank;
      if (first) CHECK(step.ops[i].held_before == 0);
      if (last) CHECK(step.ops[i].held_after == 0);
    }
  }
}

TEST_CASE("a step too long to draw is refused") {
  const Problem problem = scheduled::problem_of("8b", 8, 1 << 20);
  const Plan plan = plan_layout(problem, Layout{.pp = 8}).value();
  CHECK(replay(plan).error()[0].code == "too_long");
}

}  // namespace
}  // namespace plan
