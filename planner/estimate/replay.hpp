#pragma once

#include <cstdint>
#include <vector>

#include "formulas/result.hpp"
#include "planner/answer/plan.hpp"
#include "planner/estimate/evaluate.hpp"
#include "planner/estimate/simulate.hpp"

namespace plan {

/// Operations of a whole step that a replay takes at most: about 200 MB of events.
inline constexpr std::int64_t kMostReplayed = std::int64_t{1} << 21;

/// The operations during which a stage reaches its peak.
enum class PeakDuring : std::uint8_t { Forward, Backward, OptimizerStep };

/// What a rank holds over the step; the peak is the estimate's.
struct RankMemory {
  RealBytes steady{};       ///< states, buffers, context and the allocator's reserve: all the time
  RealBytes activations{};  ///< when it holds the most micro-batches
  RealBytes alive{};        ///< for an instant, at the peak
  PeakDuring during = PeakDuring::Backward;
  Seconds peak_at{};  ///< first time that the peak is reached, from the beginning of the step
  RealBytes peak() const { return during == PeakDuring::OptimizerStep ? steady + alive : steady + activations + alive; }
};

/// One operation of a rank in the replayed step.
struct ReplayedOp {
  int rank = 0;
  PipelineOp op{};
  Seconds start{}, end{};  ///< from the beginning of the step
  double held_before = 0;  ///< micro-batches through chunks, held at the start, this operation's not counted
  double held = 0;         ///< the same with it
  double held_after = 0;
};

/// One optimizer step, operation by operation: parameters gathered, the pipeline, gradients reduced, the optimizer, the
/// wait for the slowest rank.
struct StepReplay {
  Pipeline pipeline{};
  std::vector<ReplayedOp> ops{};     ///< rank by rank, each in order of time
  std::vector<StageCost> costs{};    ///< by rank: one micro-batch through its stage, before `scale`
  std::vector<double> most_held{};   ///< by rank, in the units of ReplayedOp::held
  std::vector<RankMemory> memory{};  ///< by rank
  double scale = 1;                  ///< estimate's pipeline time / replayed: 1 for equal stages
  Hops hops{};                       ///< hand-overs between ranks, before `scale`
  Seconds gather{}, pipeline_time{}, reduce{}, optimizer{}, straggler{};  ///< one after another
  Seconds total() const { return gather + pipeline_time + reduce + optimizer + straggler; }
};

/// Replays the best layout of a plan with the event simulator. The estimate's closed form of the pipeline is exact for
/// equal stages; where unequal ones replay longer or shorter, all operations are scaled to it, so that the total is the
/// estimate's. Error `too_long` beyond kMostReplayed operations.
[[nodiscard]] Result<StepReplay> replay(const Plan& plan);

/// Parts of an operation, before scaling, in the order in which they are drawn.
struct OpParts {
  Seconds recompute{};
  Phase work{};
};
[[nodiscard]] OpParts parts_of(const StepReplay& step, const ReplayedOp& op);

}  // namespace plan
