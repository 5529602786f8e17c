#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/settings/settings.hpp"

/// The statements of a Python module, and where its expressions part. Nothing is run.
namespace plan::python {

/// Lines joined while brackets are open or a line ends in a backslash; comments dropped.
struct Statement {
  std::string text{};
  int line = 0;
  int column = 0;
  int indent = 0;  ///< of its first line; behind a header on the same line, one more
};

/// The statements of a file, or where a bracket is never closed.
[[nodiscard]] Result<std::vector<Statement>> statements_of(const LaunchSource& source);

/// Cuts at `separator` outside brackets and quotes.
[[nodiscard]] std::vector<std::string_view> split_outside(std::string_view text, char separator);
/// Cuts at each sign of an assignment, not at comparisons: `a = b = 2` is three parts.
[[nodiscard]] std::vector<std::string_view> split_assignment(std::string_view text);
/// The words outside quotes that are names, each with all that is behind its dots: `config.training.steps`.
[[nodiscard]] std::vector<std::string_view> names_in(std::string_view text);
[[nodiscard]] bool is_name(std::string_view text);
/// `8_192 // 2` as a shell writes it, `8192 / 2`; empty where the sum is none of whole numbers.
[[nodiscard]] std::string with_shell_signs(std::string_view sum);
/// `FullAC.Config()` and nothing else; what is between its brackets.
[[nodiscard]] bool is_call(std::string_view text);
[[nodiscard]] std::string_view arguments_of(std::string_view call);
/// One quoted word and nothing else.
[[nodiscard]] bool is_quoted(std::string_view text);

}  // namespace plan::python
