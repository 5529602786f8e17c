#pragma once

#include <string>
#include <vector>

#include "formulas/real_bytes.hpp"
#include "formulas/result.hpp"
#include "planner/runs/diagnosis.hpp"

namespace plan {

/// What the lines of nvidia-smi add up to.
struct SmiSummary {
  std::vector<Evidence> evidence{};
  RealBytes memory_used{};  ///< of the fullest GPU at its peak; 0: no such column
};

/// What `nvidia-smi --query-gpu=... --format=csv -l` wrote while a job ran, as evidence: throttling, a GPU whose clock
/// lies below the others', links of a lower generation than they can have. Columns are found by their names, in any
/// order; a file without any that tells something is an error.
[[nodiscard]] Result<SmiSummary> read_smi(const std::string& path);

}  // namespace plan
