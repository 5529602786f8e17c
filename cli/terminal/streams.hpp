#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "cli/terminal/terminal.hpp"

namespace plan {

/// Where a command writes. Text is collected and written by `main` at the end, so that nothing is
/// on stdout after an error and tests read the strings.
struct Streams {
  std::string out{};
  std::string err{};
  Terminal out_terminal{};
  Terminal err_terminal{};
  /// Where a command that goes on writes what it knows by now; without it that is collected in `out` too.
  std::function<void(std::string_view)> write_now{};
  bool quiet = false;          ///< no progress either
  bool leave_at_once = false;  ///< threads that cannot be ended are left behind: no destructor may run under them
};

/// Exit statuses, the same in every command.
enum ExitStatus : int { kYes = 0, kNo = 1, kError = 2, kNotMeasured = 3, kInterrupted = 130 };

}  // namespace plan
