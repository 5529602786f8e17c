#pragma once

#include <string>

#include "cli/explain/explanation.hpp"

namespace plan {

/// A block of HTML: equation, symbols, numbers put in, result, source, notes.
[[nodiscard]] std::string html_explanation(const Explanation& explanation);
/// An explanation as Markdown, under a heading of its own.
[[nodiscard]] std::string markdown_explanation(const Explanation& explanation);

}  // namespace plan
