#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "formulas/result.hpp"

namespace plan {

/// Line and column of a byte offset of a JSON text, from 1, with the line itself.
[[nodiscard]] Place json_place(const std::string& text, const std::string& file, std::size_t offset);

/// Where and why a text is no JSON: that it ends too early, that something follows its end, or what stands there that
/// other formats have and JSON has not.
[[nodiscard]] Error json_syntax_error(const nlohmann::json::parse_error& error, const std::string& text,
                                      const std::string& file);

}  // namespace plan
