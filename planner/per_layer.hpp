#pragma once

#include <cstdint>
#include <optional>

#include "planner/plan.hpp"

namespace plan {

/// Runs of layers inside stages, each with tp, ZeRO and recomputation of its own (planner/layer_search.hpp), beside
/// layouts whose layers do alike.
struct PerLayer {
  /// The fastest that Galvatron runs; none: nothing is faster than the fastest whose layers are alike.
  std::optional<Estimate> best{};
  Difference difference{};     ///< of its step to the recommended layout's
  std::int64_t pipelines = 0;  ///< (GPUs of a stage, sequences that it takes, ZeRO) that were looked into
  bool exact = true;           ///< nothing faster was left out
};

/// Strategies of runs of layers beside a plan whose layers do alike: the fastest that Galvatron runs, if it is faster
/// than the fastest plan. Of a plan whose figures are of one framework's software none: it runs no such lists.
[[nodiscard]] PerLayer per_layer(const Plan& plan);

}  // namespace plan
