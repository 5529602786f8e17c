#pragma once

#include <string>
#include <vector>

#include "cli/request/table/args.hpp"
#include "formulas/result.hpp"

namespace plan {

/// Reads a command line without the program's name. Every mistake at once: unknown flags and verbs with the
/// nearest known one, flags that belong to another verb, missing values.
[[nodiscard]] Result<Args> parse_arguments(const std::vector<std::string>& words);

}  // namespace plan
