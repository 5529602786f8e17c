#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/terminal/terminal.hpp"
#include "planner/estimate/replay.hpp"

namespace plan {

/// What a rank does at a moment, as pictures show it.
enum class Doing : std::uint8_t { Idle, Forward, Backward, WeightGradient, Pair, Gather, Reduce, Optimizer, Straggler };

/// A rank's step cut into `cells` equal pieces of time: what it does in the middle of each, with the micro-batch.
struct TimelineCell {
  Doing doing = Doing::Idle;
  int micro_batch = -1;
  int back_micro_batch = -1;  ///< of a pair
  bool first_part = true;     ///< of a pair: within its first third, where the picture shows the forward
};
[[nodiscard]] std::vector<TimelineCell> timeline_cells(const StepReplay& step, int rank, Seconds from, Seconds to,
                                                       int cells);

/// Ranks to draw: all, or the first, the last and others evenly between.
[[nodiscard]] std::vector<int> drawn_ranks(int ranks, int most);

/// The pipeline in at most `terminal.width` columns, 80 at most: digits are forwards, small letters backwards, capitals
/// weight gradients, dots waiting. Where an operation is narrower than a column, F, B and W without numbers.
[[nodiscard]] std::string timeline_text(const StepReplay& step, const Terminal& terminal);

/// The whole step as HTML with inline SVG, a row a rank.
[[nodiscard]] std::string timeline_html(const StepReplay& step);

}  // namespace plan
