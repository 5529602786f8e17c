#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formulas/result.hpp"

namespace plan {

/// Hosts of a Slurm node list in its order: `a[1-3,07-10]-ib,b,c[0-1][2-3]`. Ranges keep their zero padding, several
/// brackets multiply, at most 65,536 names. What Slurm could not have written is an error that quotes the part.
[[nodiscard]] Result<std::vector<std::string>> expand_nodelist(std::string_view text);

}  // namespace plan
