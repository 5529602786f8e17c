#pragma once

#include <string>
#include <string_view>

namespace plan {

/// SHA-256 of `bytes` in hexadecimal, as sha256sum prints it.
[[nodiscard]] std::string sha256(std::string_view bytes);

}  // namespace plan
