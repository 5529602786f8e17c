#pragma once

#include <cstdint>

#include "formulas/layout.hpp"
#include "formulas/units.hpp"

namespace plan {

/// Shape of a pipeline run. The laws for equal stages are written as text in formulas/textbook/textbook_pipeline.hpp.
struct Pipeline {
  Schedule schedule = Schedule::OneFOneB;
  int pp = 1;
  int vp = 1;
  std::int64_t micro_batches = 1;
  int group = 0;  ///< interleaved: micro-batches that pass a chunk before the next one's turn; 0 = pp
  /// A stage begins its next step when its own weights are updated, not when those of all stages are: what a step
  /// takes is then the time between two, not the time from its first operation to its last.
  bool rolls_on = false;
};

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

}  // namespace plan
