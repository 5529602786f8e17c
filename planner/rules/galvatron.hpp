#pragma once

#include <string>

#include "planner/problem/problem.hpp"

namespace plan {

/// What of a layout Galvatron has no word for, as the end of a sentence that begins with its name, and what would help.
struct GalvatronLack {
  std::string text{}, help{};
};

/// Galvatron takes tp, ZeRO and recomputation of every layer by itself (galvatron/utils/config_utils.py). Empty text:
/// it runs the layout. Its own software is not modelled: figures are those of the problem's stack.
[[nodiscard]] GalvatronLack galvatron_lacks(const Problem& problem, const Layout& layout);

}  // namespace plan
