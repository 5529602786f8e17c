#pragma once

#include <string>
#include <vector>

#include "formulas/result.hpp"
#include "planner/runs/diagnosis.hpp"

namespace plan {

/// What `nvidia-smi --query-gpu=... --format=csv -l` wrote while a job ran, as evidence: throttling, a GPU whose clock
/// lies below the others', links of a lower generation than they can have. Columns are found by their names, in any
/// order; a file without any that tells something is an error.
[[nodiscard]] Result<std::vector<Evidence>> read_smi(const std::string& path);

}  // namespace plan
