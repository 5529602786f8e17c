#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formulas/units.hpp"

namespace plan {

/// Numbers as people read them. Inside, everything is SI; only this header turns it into text.

/// GiB with one decimal, or two below 1: "63.0".
[[nodiscard]] std::string gib(Bytes bytes);
/// "63.0 GiB"; below 1 GiB in MiB, below 0.01 MiB in bytes.
[[nodiscard]] std::string memory_text(Bytes bytes);
/// Decimal units, as networks are sold: "1.2 GB".
[[nodiscard]] std::string traffic_text(Bytes bytes);
/// "6.31 s", "43.1 ms", "1234 s": three digits.
[[nodiscard]] std::string seconds_text(Seconds time);
/// "45 s", "5.1 min", "3.1 h", "12.4 days": what people say of a wait.
[[nodiscard]] std::string duration_text(Seconds time);
/// Three digits and a decimal letter: "405.9 B", "16.8 M", "15.6 T"; whole numbers below 100 000 in full.
[[nodiscard]] std::string count_text(double count);
/// "41.4 %".
[[nodiscard]] std::string percent(double ratio, int decimals = 1);
/// With its sign: "+4.1", "-0.3"; what rounds to nothing has none: "0.0".
[[nodiscard]] std::string signed_number(double value, int decimals);
/// A difference as a share: "+4.1 %"; "0.0 %".
[[nodiscard]] std::string signed_percent(double ratio, int decimals = 1);
/// Does a number written out say that there is nothing: "0.00"?
[[nodiscard]] bool reads_zero(std::string_view number);
/// Digits in groups of three: "45 634 027 520".
[[nodiscard]] std::string grouped(std::int64_t value);
/// `digits` significant digits without exponent or trailing zeros where the size allows: "21.25", "8192".
[[nodiscard]] std::string number_text(double value, int digits = 6);

/// Values rounded to `decimals` so that they add up to their rounded sum (largest remainder).
[[nodiscard]] std::vector<double> apportion(const std::vector<double>& values, int decimals);

/// Time in a table whose rows add up: unit and decimals that give the total three digits.
struct TimeScale {
  double factor = 1;
  int decimals = 2;
  const char* unit = "s";
  const char* long_unit = "seconds";
};
[[nodiscard]] TimeScale time_scale(Seconds total);

}  // namespace plan
