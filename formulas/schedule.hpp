#pragma once

#include <cstdint>
#include <span>

#include "formulas/formula.hpp"
#include "formulas/layout.hpp"
#include "formulas/units.hpp"

namespace plan {

/// Shape of a pipeline run.
struct Pipeline {
  Schedule schedule = Schedule::OneFOneB;
  int pp = 1;
  int vp = 1;
  std::int64_t micro_batches = 1;
  int group = 0;  ///< micro-batches per virtual stage group (interleaved); 0 = pp
};

/// Whole-stage times of one pipeline rank for one micro-batch (all its chunks together).
struct StageTime {
  Seconds forward{};
  Seconds backward_input{};   ///< gradient of the input, recompute included
  Seconds backward_weight{};  ///< gradient of the weights
  Seconds pair{};             ///< DualPipe: one forward overlapped with one backward; 0 = forward + backward
  Seconds backward() const { return backward_input + backward_weight; }
};

/// Peak activations that `rank` (0 first) holds, in units of one micro-batch through the rank's whole
/// stage: chunks / vp for interleaved. Exact (formulas.md D5).
[[nodiscard]] double in_flight(const Pipeline& pipeline, int rank);

/// Copies of the stage's parameters that a rank holds: 2 for DualPipe.
[[nodiscard]] int parameter_copies(Schedule schedule);

/// Makespan of the pipeline, split so that `busy + bubble + hop` is the whole.
struct PipelineTime {
  Seconds busy{};    ///< micro_batches * work of the bottleneck stage
  Seconds bubble{};  ///< waiting for other stages
  Seconds hop{};     ///< exposed point-to-point transfers
  Seconds total() const { return busy + bubble + hop; }
};

/// `stages` has pp entries. `hop` is the latency of handing one activation to the next stage (F6).
[[nodiscard]] PipelineTime pipeline_time(const Pipeline& pipeline, std::span<const StageTime> stages, Seconds hop);

/// Is the combination possible (pp even for DualPipe, vp > 1 for interleaved, m limits)?
[[nodiscard]] bool schedule_allows(const Pipeline& pipeline);

}  // namespace plan
