#pragma once

#include <string>
#include <string_view>

#include "cli/request/table/command_table.hpp"
#include "cli/request/table/option_table.hpp"
#include "cli/terminal/terminal.hpp"

namespace plan {

/// Help of one verb, from the tables. `full` adds the explanations of `--help`.
[[nodiscard]] std::string help_text(const Command& command, bool full, const Terminal& terminal);

/// A completion script for bash, zsh or fish, from the tables.
[[nodiscard]] std::string completion_script(std::string_view shell);

/// "plan 0.1.0".
[[nodiscard]] std::string version_text();

}  // namespace plan
