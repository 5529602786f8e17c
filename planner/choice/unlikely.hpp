#pragma once

#include <string>
#include <vector>

#include "formulas/cluster.hpp"

namespace plan {

/// Which numbers of the hardware no accelerator has beside its others, one sentence each: `bf16 peak 0.989 TFLOP/s
/// beside memory_bandwidth 3.35 TB/s`. Empty for any that was ever built, and for what a sweep makes of one.
[[nodiscard]] std::vector<std::string> unlikely_numbers(const Cluster& cluster);

}  // namespace plan
