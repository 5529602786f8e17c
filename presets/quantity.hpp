#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plan {

/// What a number with a unit measures.
enum class Dimension { Bytes, ByteRate, FlopRate, Time, Power, Price, Ratio, Tokens, Sequences };

/// A value in the base unit (bytes, bytes/s, FLOP/s, s, W, USD/h, 1), or why the text is none.
struct ParsedQuantity {
  double value = 0;
  std::string problem{};  ///< empty when it parsed; else the predicate: "needs a unit", "is not a number", ...
  std::string help{};
  std::vector<std::string> instead{};  ///< what may be meant, each of which parses; `help` says to write it
  explicit operator bool() const { return problem.empty(); }
};

/// "79.6 GiB", "989.4 TFLOP/s", "450 GB/s", "400 Gb/s", "2.8 us", "700 W", "3 USD/h", "30 %",
/// "8192 tokens", "2048 sequences". The whole text must
/// match. A ratio is a percentage or a bare number.
[[nodiscard]] ParsedQuantity parse_quantity(std::string_view text, Dimension dimension);

/// The shortest text in the largest unit of which there is at least one; parses back to the same value.
[[nodiscard]] std::string format_quantity(double value, Dimension dimension);

/// A whole decimal number. Neither sign "+", fractions, exponents nor separators.
[[nodiscard]] std::optional<std::int64_t> parse_integer(std::string_view text);

/// A finite decimal number, with exponent if need be.
[[nodiscard]] std::optional<double> parse_number(std::string_view text);

/// A text whose number has separators of thousands (`2,048`, `81,559 MiB`, `2_048`, `2'048`, `2 048`), written without
/// them; none where it has none. Such numbers are not taken, as a comma separates the items of lists too: this
/// is what to write.
[[nodiscard]] std::optional<std::string> without_separators(std::string_view text);

}  // namespace plan
