#pragma once

#include <string>
#include <string_view>

namespace plan {

/// `text` as one word of a POSIX shell: in scripts that are written, and in commands that are proposed.
[[nodiscard]] std::string shell_quoted(std::string_view text);

}  // namespace plan
