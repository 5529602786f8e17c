#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/answer/estimate.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// What an earlier report says of a job, as far as it can be set back. Empty: not known.
struct EarlierJob {
  Layout layout{};
  std::optional<std::int64_t> seq{}, global_batch{};
  std::optional<int> gpus{};
  std::optional<Precision> precision{};
  std::optional<Optimizer> optimizer{};
};

/// One choice that differs from the earlier job, and the job with that one set back.
struct Restoration {
  std::string key{};  ///< "recompute", "micro_batch", "seq", ...: as in `inputs` and layouts
  Problem problem{};
  Layout layout{};
  std::optional<Estimate> estimate{};  ///< empty where that one alone cannot be set back
};

/// Every choice in which the job differs from what it was, in the order of the layout's keys, each set back alone. dp
/// follows from the other axes; etp and sequence parallelism go with tp; vp, the schedule and its groups with pp, where
/// both moved.
[[nodiscard]] std::vector<Restoration> restorations(const Problem& problem, const Layout& layout,
                                                    const EarlierJob& earlier);

}  // namespace plan
