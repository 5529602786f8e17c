#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

/// Pipeline schedules and what each of them is, one row a schedule. Its laws are in formulas/schedule.cpp, the order
/// of its operations in planner/estimate/pipeline_order.cpp.
namespace plan {

enum class Schedule : std::uint8_t {
  GPipe,
  OneFOneB,
  Interleaved,
  BreadthFirst,
  ZbH1,
  ZbH2,
  ZbV,
  VHalf,
  VMin,
  DualPipe,
  DualPipeV
};

/// Model chunks that a rank holds under a schedule.
enum class Chunks : std::uint8_t { One, Two, Many };

/// How often a step fetches a chunk's shards again. Once: all micro-batches go forward before the first goes backward.
enum class Passes : std::uint8_t { EachMicroBatch, EachGroup, Once };

struct ScheduleRow {
  Schedule schedule;
  std::string_view name;
  std::string_view takes;    ///< what it asks of pp and of the micro-batches, in words
  std::string_view torch{};  ///< its name in torch.distributed.pipelining, where that has it
  Chunks chunks = Chunks::One;
  Passes passes = Passes::EachMicroBatch;
  bool v_shaped = false;         ///< each rank holds chunks r and 2 pp - 1 - r: the first and last stage share rank 0
  bool splits_backward = false;  ///< gradients of inputs and of weights are separate operations
  bool pairs = false;            ///< a forward of one micro-batch runs beside a backward of another
  /// Every second micro-batch enters at the last rank: a rank holds stages r and pp - 1 - r, both whole, and a
  /// micro-batch meets one of them.
  bool both_ways = false;
};

inline constexpr std::string_view kFillsPipeline = "at least pp micro-batches";
inline constexpr ScheduleRow kScheduleRows[] = {
    {.schedule = Schedule::GPipe,
     .name = "gpipe",
     .takes = "at least one micro-batch",
     .torch = "GPipe",
     .passes = Passes::Once},
    {.schedule = Schedule::OneFOneB, .name = "1f1b", .takes = "at least one micro-batch", .torch = "1F1B"},
    {.schedule = Schedule::Interleaved,
     .name = "interleaved",
     .takes = "at least pp micro-batches, in groups of pp or more with none or pp left over",
     .torch = "Interleaved1F1B",
     .chunks = Chunks::Many,
     .passes = Passes::EachGroup},
    {.schedule = Schedule::BreadthFirst,
     .name = "breadth-first",
     .takes = kFillsPipeline,
     .torch = "LoopedBFS",
     .chunks = Chunks::Many,
     .passes = Passes::Once},
    {.schedule = Schedule::ZbH1, .name = "zb-h1", .takes = "at least one micro-batch", .splits_backward = true},
    {.schedule = Schedule::ZbH2, .name = "zb-h2", .takes = "at least one micro-batch", .splits_backward = true},
    {.schedule = Schedule::ZbV,
     .name = "zb-v",
     .takes = kFillsPipeline,
     .torch = "ZBVZeroBubble",
     .chunks = Chunks::Two,
     .v_shaped = true,
     .splits_backward = true},
    {.schedule = Schedule::VHalf,
     .name = "v-half",
     .takes = kFillsPipeline,
     .chunks = Chunks::Two,
     .v_shaped = true,
     .splits_backward = true},
    {.schedule = Schedule::VMin,
     .name = "v-min",
     .takes = kFillsPipeline,
     .chunks = Chunks::Two,
     .v_shaped = true,
     .splits_backward = true},
    {.schedule = Schedule::DualPipe,
     .name = "dualpipe",
     .takes = "an even pp, and an even number of micro-batches, at least 2 pp",
     .splits_backward = true,
     .pairs = true,
     .both_ways = true},
    {.schedule = Schedule::DualPipeV,  // two half-size chunks are one copy of a 1/pp stage
     .name = "dualpipev",
     .takes = "at least 2 pp micro-batches",
     .torch = "DualPipeV",
     .chunks = Chunks::Two,
     .v_shaped = true,
     .splits_backward = true,
     .pairs = true},
};
inline constexpr int kSchedules = static_cast<int>(std::size(kScheduleRows));
static_assert([] {
  for (int i = 0; i < kSchedules; ++i)
    if (static_cast<int>(kScheduleRows[i].schedule) != i) return false;
  return true;
}());

/// What a schedule is: its row of the table above.
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

/// Does the schedule compute input and weight gradients as separate operations?
[[nodiscard]] constexpr bool splits_backward(Schedule schedule) { return schedule_row(schedule).splits_backward; }

/// Does each rank hold two chunks, r and 2 pp - 1 - r, so that the first and last stage share rank 0?
[[nodiscard]] constexpr bool v_shaped(Schedule schedule) { return schedule_row(schedule).v_shaped; }

/// Does every second micro-batch enter at the last rank?
[[nodiscard]] constexpr bool both_ways(Schedule schedule) { return schedule_row(schedule).both_ways; }

/// Copies of the stage's parameters that a rank holds.
[[nodiscard]] constexpr int parameter_copies(Schedule schedule) { return both_ways(schedule) ? 2 : 1; }

/// Share of the stages that a rank holds which one micro-batch meets.
[[nodiscard]] constexpr double stages_met(Schedule schedule) { return both_ways(schedule) ? 0.5 : 1; }

}  // namespace plan
