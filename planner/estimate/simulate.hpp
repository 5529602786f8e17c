#pragma once

#include <span>
#include <vector>

#include "formulas/schedule.hpp"
#include "planner/estimate/pipeline_order.hpp"

namespace plan {

/// One operation with its place in time.
struct PipelineEvent {
  int rank = 0;
  PipelineOp op{};
  Seconds start{}, end{};
};

/// What one rank does over the step.
struct RankRun {
  Seconds busy{};
  double peak_held = 0;  ///< most that it holds at once, in the units of `held`
  Seconds peak_at{};     ///< start of the operation that first reaches it
};

struct PipelineRun {
  std::vector<PipelineEvent> events;  ///< rank by rank, each in order of time
  std::vector<RankRun> ranks;
  Seconds makespan{};
};

/// Runs the schedule operation by operation: every rank does its operations in order, each as soon as its
/// input has arrived, and handing a result to another rank takes its hop without holding anyone up.
///
/// `chunks` has one entry a model chunk (model_chunks()), with the times of one micro-batch through that
/// chunk. `held` says what a micro-batch of each chunk holds from the start of its forward to the end of
/// its weight gradient, say bytes; empty means 1 each. A pair of two chunks saves the mean of what their
/// own pairs would save. Linear in the number of operations. The pipeline must be one that
/// schedule_allows().
[[nodiscard]] PipelineRun simulate_pipeline(const Pipeline& pipeline, std::span<const StageTime> chunks,
                                            const Hops& hops, std::span<const double> held = {});

/// The makespan alone, without the list of events.
[[nodiscard]] Seconds simulate_makespan(const Pipeline& pipeline, std::span<const StageTime> chunks, const Hops& hops);

/// Chunk times from whole-stage times: each rank's chunks take equal parts. For DualPipe the ranks' times
/// are those of the chunks.
[[nodiscard]] std::vector<StageTime> chunk_times(const Pipeline& pipeline, std::span<const StageTime> stages);

}  // namespace plan
