#pragma once

#include <string>
#include <vector>

#include "formulas/layout.hpp"
#include "planner/answer/estimate.hpp"
#include "planner/problem/axes.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// The main axes on one line: "tp 8   cp 1   pp 16 (vp 8)   dp 128   micro_batch 1 x 16".
[[nodiscard]] std::string axes_text(const Estimate& estimate, bool moe);

/// Everything else that was chosen: "zero 1", "interleaved", "sequence parallel", "no recompute", "bf16", ...
[[nodiscard]] std::vector<std::string> choices(const Problem& problem, const Estimate& estimate);

/// What `other` chooses differently from `best` apart from the axes of the next-best table: "mb 2", "zero 3".
[[nodiscard]] std::vector<std::string> other_choices(const Layout& best, const Layout& other);

/// "mxfp8 (bf16 in the first 1 and last 1 layers)".
[[nodiscard]] std::string precision_words(const Training& training);

/// The layout as `--layout` takes it back, every axis named.
[[nodiscard]] std::string layout_flag(const Layout& layout);

}  // namespace plan
