#pragma once

#include <string>
#include <string_view>

#include "cli/terminal/streams.hpp"
#include "formulas/result.hpp"

namespace plan {

/// An error as people read it: the fact, the place with a caret, what led to it, and what would work.
[[nodiscard]] std::string diagnostic(const Error& error, const Terminal& terminal);

/// Prints every error to `err`, clears `out`, and returns the exit status: 1 when the answer is no
/// (codes `no_layout`, `does_not_fit`, `does_not_divide`), else 2.
/// `done`: what was not done because of them, for the last line.
int report_errors(const Errors& all, Streams& streams, std::string_view done = "computed");

/// The place, its line and carets underneath; empty for no place.
[[nodiscard]] std::string source_frame(const Place& place, const Terminal& terminal);

}  // namespace plan
