#pragma once

#include <cstdint>
#include <string_view>

#include "formulas/layout.hpp"

namespace plan {

/// Does the value of an axis, by its key, mean anything beside the layout's other axes? Without stages no schedule
/// does.
[[nodiscard]] bool means_something(std::string_view axis, const Layout& layout);

/// The layout with each axis as it comes out in a step of so many micro-batches: what is left open has its value, and
/// what means nothing is as a layout starts out. Two layouts that train alike are then equal, but for layers that
/// nobody placed: where those go, costs say.
[[nodiscard]] Layout spelled_out(Layout layout, std::int64_t micro_batches);

}  // namespace plan
