#pragma once

#include <string>
#include <string_view>

namespace plan {

/// What is in the place of a flag of another tool that no single flag says, in a sentence; empty if it is no word
/// of the field. `folded_name`: without dashes in front, in small letters with hyphens.
[[nodiscard]] std::string said_of_flag(std::string_view folded_name);

/// How what a flag of Megatron-LM states is read; empty if it has no such flag.
[[nodiscard]] std::string said_of_megatron(std::string_view folded_name);

}  // namespace plan
