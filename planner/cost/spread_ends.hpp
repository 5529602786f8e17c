#pragma once

#include <vector>

#include "planner/cost/cost.hpp"

namespace plan {

/// Messages of one micro-batch between stages that share embedding and head (Stack::vocab_barriers): none of them finds
/// work of its own to hide under, since the next pass of the loss waits for each.
struct SpreadMessages {
  std::vector<Message> messages{};
  Seconds forward{}, backward{};  ///< the sums of their times
};
[[nodiscard]] SpreadMessages spread_messages(const Problem& problem, const Layout& layout);

}  // namespace plan
