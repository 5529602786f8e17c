#pragma once

#include <string>
#include <string_view>

namespace plan {

/// Does a line print a loss, or a norm of gradients, that is no number? Such a step runs as fast as any other, so that
/// nothing else of a log shows it.
[[nodiscard]] bool has_no_number(std::string_view line);

/// How many lines did, behind what else is said of a log: ", 3 lines whose loss or gradient is no number". Empty: none.
[[nodiscard]] std::string no_number_text(double lines);

}  // namespace plan
