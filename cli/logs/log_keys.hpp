#pragma once

#include <span>
#include <string_view>

#include "cli/logs/measured_run.hpp"

namespace plan {

/// One number that a framework prints, by the words before it.
struct LogKey {
  std::string_view key;  ///< the text right before the number
  LogFigure figure;
  double scale = 1;  ///< to SI: 1e-3 for milliseconds, 2^30 for GB that are GiB
};

/// A kind of line: it holds `anchor`, and numbers follow its keys.
struct LogLine {
  std::string_view dialect;
  std::string_view anchor;
  std::span<const LogKey> keys;
  bool is_step = true;         ///< false: printed beside steps, so it does not name the framework by itself
  std::string_view unless{};   ///< a line that holds this is of another kind: evaluation, growing batches
  std::string_view counter{};  ///< the text before the step's number, where every rank may print the step
};

/// Words with which a framework says that training is over.
[[nodiscard]] std::span<const std::string_view> end_words();

/// All kinds of lines that are known. The first whose anchor a line holds reads it.
[[nodiscard]] std::span<const LogLine> log_lines();

}  // namespace plan
