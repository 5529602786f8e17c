#pragma once

#include <string>
#include <utility>
#include <vector>

#include "formulas/layout.hpp"
#include "formulas/result.hpp"
#include "planner/runs/runs.hpp"

/// Axes of a layout that no column of a run says: facts in its notes, by the key and in the words of the axis.
namespace plan {

/// The layout, with what facts of the run say of it; an error for a word that is no value of its axis.
[[nodiscard]] Result<Layout> with_axis_facts(const Run& run, Layout layout);

/// The facts that make `read` what `own` is, in axes that facts can say: {"cp_kind", "ulysses"}.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> axis_facts(const Layout& own, const Layout& read);

}  // namespace plan
