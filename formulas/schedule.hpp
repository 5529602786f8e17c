#pragma once

#include <cstdint>
#include <iterator>
#include <span>

#include "formulas/hops.hpp"
#include "formulas/layout.hpp"
#include "formulas/units.hpp"

namespace plan {

/// Shape of a pipeline run. The laws for equal stages are written as text in formulas/textbook_pipeline.hpp.
struct Pipeline {
  Schedule schedule = Schedule::OneFOneB;
  int pp = 1;
  int vp = 1;
  std::int64_t micro_batches = 1;
  int group = 0;  ///< micro-batches per virtual stage group (interleaved); 0 = pp
};

/// Model chunks that a rank holds under a schedule.
enum class Chunks : std::uint8_t { One, Two, Many };

/// What a schedule is, one row each.
struct ScheduleRow {
  Schedule schedule;
  Chunks chunks;
  bool v_shaped;         ///< each rank holds chunks r and 2 pp - 1 - r: the first and last stage share rank 0
  bool splits_backward;  ///< gradients of inputs and of weights are separate operations
  bool pairs;            ///< a forward of one micro-batch runs beside a backward of another
  int copies;            ///< of its stage's parameters that a rank holds
};
inline constexpr ScheduleRow kScheduleRows[] = {
    {Schedule::GPipe, Chunks::One, false, false, false, 1},
    {Schedule::OneFOneB, Chunks::One, false, false, false, 1},
    {Schedule::Interleaved, Chunks::Many, false, false, false, 1},
    {Schedule::BreadthFirst, Chunks::Many, false, false, false, 1},
    {Schedule::ZbH1, Chunks::One, false, true, false, 1},
    {Schedule::ZbH2, Chunks::One, false, true, false, 1},
    {Schedule::ZbV, Chunks::Two, true, true, false, 1},
    {Schedule::VHalf, Chunks::Two, true, true, false, 1},
    {Schedule::VMin, Chunks::Two, true, true, false, 1},
    {Schedule::DualPipe, Chunks::One, false, true, true, 2},
    {Schedule::DualPipeV, Chunks::Two, true, true, true, 1},  // two half-size chunks are one copy of a 1/pp stage
};
static_assert(std::size(kScheduleRows) == kSchedules);
static_assert([] {
  for (int i = 0; i < kSchedules; ++i)
    if (static_cast<int>(kScheduleRows[i].schedule) != i) return false;
  return true;
}());
[[nodiscard]] constexpr const ScheduleRow& schedule_row(Schedule schedule) {
  return kScheduleRows[static_cast<std::size_t>(schedule)];
}

/// Can a rank hold `vp` chunks under the schedule?
[[nodiscard]] constexpr bool takes_chunks(Schedule schedule, int vp) {
  switch (schedule_row(schedule).chunks) {
    case Chunks::One: return vp == 1;
    case Chunks::Two: return vp == 2;
    case Chunks::Many: return vp > 1;
  }
  return false;
}

/// Whole-stage times of one pipeline rank for one micro-batch.
///
/// "Stage" is 1/pp of the model, that is all vp chunks of the rank together. A DualPipe rank holds two
/// stages, r and pp-1-r, and a micro-batch meets only one of them: give the mean of the two.
struct StageTime {
  Seconds forward{};
  Seconds backward_input{};   ///< gradient of the input, recompute included
  Seconds backward_weight{};  ///< gradient of the weights
  Seconds pair{};             ///< DualPipe, DualPipeV: one forward overlapped with one backward; 0 = forward + backward
  constexpr Seconds backward() const { return backward_input + backward_weight; }
  constexpr Seconds work() const { return forward + backward(); }
};

/// Peak activations that `rank` (0 first) holds from forward to weight gradient, in units of one
/// micro-batch through the rank's whole stage: chunks / vp where a stage is cut into chunks. For DualPipe
/// the unit is one stage of 1/pp of the model, although the rank holds two (plan-formulas(7) D5).
///
/// Zero-bubble schedules keep part of a micro-batch's activations (the inputs of its linear layers) until
/// the weight gradient is done; this counts all of them that long, which is safe.
[[nodiscard]] double in_flight(const Pipeline& pipeline, int rank);

/// The same, counted only until the input gradient is done: what a schedule with split backward frees early.
[[nodiscard]] double in_flight_input(const Pipeline& pipeline, int rank);

/// Makespan of the pipeline, split so that `busy + bubble + hop` is the whole.
struct PipelineTime {
  Seconds busy{};    ///< work of the bottleneck stage, all micro-batches
  Seconds bubble{};  ///< waiting for other stages
  Seconds hop{};     ///< exposed point-to-point transfers
  Seconds total() const { return busy + bubble + hop; }
};

/// `stages` has pp entries, one a rank. Exact for equal stages and hops, checked by simulation; for unequal ones the
/// longest of the paths that can bind, see schedule.cpp. Chunks of a rank are taken as equal. Allocates nothing, O(pp)
/// where hops are equal.
[[nodiscard]] PipelineTime pipeline_time(const Pipeline& pipeline, std::span<const StageTime> stages, const Hops& hops);

/// Is the combination possible (pp even for DualPipe, vp > 1 for interleaved, limits on micro-batches)?
[[nodiscard]] bool schedule_allows(const Pipeline& pipeline);

/// Does the schedule compute input and weight gradients as separate operations?
[[nodiscard]] constexpr bool splits_backward(Schedule schedule) { return schedule_row(schedule).splits_backward; }

/// Does each rank hold two chunks, r and 2 pp - 1 - r, so that the first and last stage share rank 0?
[[nodiscard]] constexpr bool v_shaped(Schedule schedule) { return schedule_row(schedule).v_shaped; }

/// Copies of the stage's parameters that a rank holds: 2 for DualPipe.
[[nodiscard]] constexpr int parameter_copies(Schedule schedule) { return schedule_row(schedule).copies; }

}  // namespace plan
