// When the software behind published runs was current. Tested by tests/planner/run_stack_test.cpp.
#include "planner/runs/run_dates.hpp"

#include <cctype>
#include <charconv>
#include <limits>

namespace plan {

std::optional<int> month_in(std::string_view text) {
  const auto digits = [&](std::size_t at, std::size_t count) {
    int value = 0;
    const bool whole =
        at + count <= text.size() &&
        std::from_chars(text.data() + at, text.data() + at + count, value).ptr == text.data() + at + count;
    return whole ? std::optional(value) : std::nullopt;
  };
  const auto month = [](int year, std::optional<int> number) {
    return number && *number >= 1 && *number <= 12 ? std::optional(year * 12 + *number - 1) : std::nullopt;
  };
  for (std::size_t at = 0; at + 5 <= text.size(); ++at) {
    const auto letter = [&](std::size_t place) { return static_cast<unsigned char>(text[place]); };
    if (!std::isdigit(letter(at)) || (at > 0 && std::isalnum(letter(at - 1)))) continue;
    std::optional<int> found;
    if (const auto year = digits(at, 4); year && text[at + 4] == '-' && *year >= 2000)
      found = month(*year, digits(at + 5, 2));
    else if (year && text[at + 4] == '.' && digits(at + 5, 5))
      found = month(2000 + *year / 100, *year % 100);
    else if (const auto short_year = digits(at, 2); short_year && text[at + 2] == '.')
      found = month(2000 + *short_year, digits(at + 3, 2));
    if (found) return found;
  }
  return std::nullopt;
}

int software_month(const Run& run) {
  if (const auto month = month_in(run.fact("release"))) return *month;
  return month_in(run.source).value_or(std::numeric_limits<int>::max());
}

}  // namespace plan
