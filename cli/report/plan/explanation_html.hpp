#pragma once

#include <string>

#include "cli/explain/explanation.hpp"

namespace plan {

/// A block of HTML: equation, symbols, numbers put in, result, source, notes, below a heading that says the title.
[[nodiscard]] std::string html_explanation(const Explanation& explanation);
/// The same with the title first.
[[nodiscard]] std::string html_titled_explanation(const Explanation& explanation);
/// An explanation as Markdown, under a heading of its own.
[[nodiscard]] std::string markdown_explanation(const Explanation& explanation);

}  // namespace plan
