#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "formulas/result.hpp"
#include "planner/problem/problem.hpp"
#include "planner/search/search.hpp"

namespace plan {

/// Why no layout exists, with the smallest changes that would make one, each computed by the same
/// search with a single input changed.
[[nodiscard]] Error explain_no_layout(const Problem& problem, const SearchResult& found);

/// "tp 8  cp 1  pp 16 (vp 8)  dp 128": the degrees that differ from 1, tp, pp and dp always.
[[nodiscard]] std::string degrees_text(const Layout& layout);

/// "1051.3 GiB"
[[nodiscard]] std::string gib_text(RealBytes bytes);

/// A change that works: its flags, the layout that it has, and its peak beside the GPU's memory.
[[nodiscard]] Change suggested_change(std::string flags, const Layout& layout, RealBytes peak, RealBytes capacity);

}  // namespace plan
