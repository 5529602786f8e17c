#pragma once

#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <utility>

#include "cli/logs/log_read.hpp"

namespace plan {

/// The log that this text is, which must be one.
inline MeasuredLog must_read(const std::string& text) {
  std::istringstream in(text);
  Result<MeasuredLog> log = read_log(in, "out.log");
  REQUIRE(log.has_value());
  return std::move(*log);
}

}  // namespace plan
