// Words of a POSIX shell. Tested by tests/cli/options_test.cpp and tests/launch/capture_test.cpp.
#include "presets/shell_quoted.hpp"

namespace plan {

std::string shell_quoted(std::string_view text) {
  const bool plain = !text.empty() && text.find_first_not_of(
                                          "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                          "0123456789_-+=./:%@,") == std::string_view::npos;
  if (plain) return std::string(text);
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace plan
