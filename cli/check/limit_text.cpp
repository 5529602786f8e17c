// The words of a limit, and figures in its unit. Tested by tests/cli/limit_text_test.cpp.
#include "cli/check/limit_text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "cli/terminal/format.hpp"
#include "formulas/text.hpp"
#include "formulas/units.hpp"
#include "presets/quantity.hpp"
#include "presets/suggest.hpp"

namespace plan {
namespace {

/// Takes `word` off the front of `text` if it is there as a whole word.
bool take_word(std::string_view& text, std::string_view word) {
  const std::string_view s = trim(text);
  if (!s.starts_with(word) || (s.size() > word.size() && s[word.size()] != ' ' && s[word.size()] != '\t')) return false;
  text = trim(s.substr(word.size()));
  return true;
}

struct UnitRow {
  MetricUnit unit;
  std::string_view word, example;  ///< word that a counted unit takes after the number
  bool needed;
};
constexpr UnitRow kCounted[] = {{MetricUnit::Rate, "tokens/s", "2.5M tokens/s", true},
                                {MetricUnit::Count, "GPUs", "1024", false},
                                {MetricUnit::Hours, "GPU-hours", "30M GPU-hours", true},
                                {MetricUnit::Money, "USD", "60M USD", true}};

/// nullptr for a unit that measures.
const UnitRow* counted_row(MetricUnit unit) {
  const auto* row =
      std::find_if(std::begin(kCounted), std::end(kCounted), [&](const UnitRow& one) { return one.unit == unit; });
  return row == std::end(kCounted) ? nullptr : row;
}

struct Value {
  double value = 0;
  bool relative = false;
  std::string code{}, problem{}, help{};
};

Value mistake(std::string code, std::string problem, std::string help) {
  return {0, false, std::move(code), std::move(problem), std::move(help)};
}

/// "2.5M tokens/s": a decimal letter and the word of the unit.
Value read_counted(const UnitRow& row, std::string_view text) {
  const std::size_t end = std::min(text.find_first_not_of("+-0123456789.eE"), text.size());
  const std::optional<double> number = parse_number(text.substr(0, end));
  if (!number) return mistake("bad_value", "is not a number with a unit", fmt::format("write `{}`", row.example));
  std::string_view rest = trim(text.substr(end));
  double factor = 1;
  constexpr std::array<std::pair<char, double>, 5> kLetters = {
      {{'k', 1e3}, {'K', 1e3}, {'M', 1e6}, {'B', 1e9}, {'T', 1e12}}};
  for (const auto& [letter, size] : kLetters)
    if (!rest.empty() && rest[0] == letter && (rest.size() == 1 || rest[1] == ' ')) {
      factor = size, rest = trim(rest.substr(1));
      break;
    }
  if (rest.empty() && row.needed)
    return mistake("missing_unit", "needs a unit", fmt::format("write `{} {}`", text, row.word));
  if (const auto plain = without_separators(text))
    return mistake("bad_value", "has separators in its number", fmt::format("write `{}`", *plain));
  if (!rest.empty() && rest != row.word)
    return mistake("bad_value", "has an unknown unit", fmt::format("write it in {}: `{}`", row.word, row.example));
  return {*number * factor, false, {}, {}, {}};
}

Dimension dimension_of_unit(MetricUnit unit) {
  if (unit == MetricUnit::Time) return Dimension::Time;
  return unit == MetricUnit::Ratio ? Dimension::Ratio : Dimension::Bytes;
}

std::string_view example_of(MetricUnit unit) {
  switch (unit) {
    case MetricUnit::Memory: return "60 GiB";
    case MetricUnit::Traffic: return "40 GB";
    case MetricUnit::Time: return "6.5 s";
    case MetricUnit::Ratio: return "40 %";
    case MetricUnit::Rate:
    case MetricUnit::Count:
    case MetricUnit::Hours:
    case MetricUnit::Money: break;
  }
  return counted_row(unit)->example;
}

Value read_absolute(MetricUnit unit, std::string_view text) {
  if (const UnitRow* row = counted_row(unit)) return read_counted(*row, text);
  const ParsedQuantity parsed = parse_quantity(text, dimension_of_unit(unit));
  if (parsed.problem == "needs a unit") {
    const std::string_view s = trim(text);
    const std::string help = unit == MetricUnit::Time
                                 ? fmt::format("write `{} s` or `{} ms`", s, s)
                                 : fmt::format("write `{} {}`", s, unit == MetricUnit::Memory ? "GiB" : "GB");
    return mistake("missing_unit", parsed.problem, help);
  }
  if (!parsed) return mistake("bad_value", parsed.problem, parsed.help);
  if (unit == MetricUnit::Ratio && text.find('%') == std::string_view::npos)
    return mistake("missing_unit", "needs a unit",
                   fmt::format("write `{} %`", number_text(parsed.value * (parsed.value <= 1 ? 100 : 1))));
  return {parsed.value, false, {}, {}, {}};
}

/// The change since a baseline: a share, or a difference in the metric's unit.
Value read_change(MetricUnit unit, std::string_view text) {
  std::string_view s = trim(text);
  if (s.starts_with('+')) s = trim(s.substr(1));
  if (s.ends_with('%')) {
    const ParsedQuantity parsed = parse_quantity(s, Dimension::Ratio);
    if (!parsed) return mistake("bad_value", parsed.problem, parsed.help);
    return {parsed.value, true, {}, {}, {}};
  }
  if (unit == MetricUnit::Ratio) {
    if (!s.ends_with("points"))
      return mistake("missing_unit", "needs a unit", "write `+2 %` (of the baseline) or `+1 points`");
    const std::optional<double> points = parse_number(trim(s.substr(0, s.size() - 6)));
    if (!points) return mistake("bad_value", "is not a number with a unit", "write `-1 points`");
    return {*points / 100, false, {}, {}, {}};
  }
  Value value = read_absolute(unit, s);
  if (value.code == "missing_unit") value.help += fmt::format(", or a share: `+{} %`", s);
  return value;
}

/// Whether a limit of this size makes sense; Ratio is at most 1, the rest is positive.
std::string senseless(MetricUnit unit, double value) {
  if (!(value > 0)) return "is not above zero";
  if (unit == MetricUnit::Ratio && value > 1) return "is above 100 %";
  return value > 1e18 ? "is out of range" : "";
}

/// The comma behind a bound, or the end: one between the digits of a number separates nothing.
std::size_t end_of_bound(std::string_view text, std::size_t begin) {
  const auto digit = [&](std::size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '9'; };
  std::size_t end = text.find(',', begin);
  while (end != std::string_view::npos && end > 0 && digit(end - 1) && digit(end + 1)) end = text.find(',', end + 1);
  return std::min(end, text.size());
}

}  // namespace

tl::expected<Limit, LimitMistake> read_limit(std::string_view text, Metric metric, bool since_baseline) {
  const MetricUnit unit = metric_row(metric).unit;
  const std::string example =
      since_baseline
          ? "at most +2 %"
          : fmt::format("{} {}", metric_row(metric).more_is_better ? "at least" : "at most", example_of(unit));
  Limit limit{.metric = metric, .since_baseline = since_baseline};
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = end_of_bound(text, begin);
    const std::string_view whole = trim(text.substr(begin, end - begin));
    const auto wrong = [&](std::string_view part, std::string code, std::string problem, std::string help) {
      const std::size_t offset = part.empty() ? begin : static_cast<std::size_t>(part.data() - text.data());
      return tl::unexpected(LimitMistake{std::move(code), std::move(problem), offset, part.size(), std::move(help)});
    };
    std::string_view part = whole;
    const bool warn = take_word(part, "warn");
    const std::string_view sensed = part;
    Bound bound;
    if (take_word(part, "at least"))
      bound.sense = Sense::AtLeast;
    else if (!take_word(part, "at most"))
      return wrong(sensed, "bad_limit", "says neither `at most` nor `at least`", fmt::format("write `{}`", example));
    Value value = since_baseline ? read_change(unit, part) : read_absolute(unit, part);
    if (value.problem.empty() && !since_baseline)
      if (std::string problem = senseless(unit, value.value); !problem.empty())
        value = mistake("out_of_range", std::move(problem), fmt::format("write `{}`", example));
    if (value.help.starts_with("write `") && !value.problem.empty() && !value.help.starts_with("write `at "))
      value.help.insert(7, bound.sense == Sense::AtMost ? "at most " : "at least ");
    if (!value.problem.empty()) return wrong(part, value.code, value.problem, value.help);
    bound.value = value.value, bound.relative = value.relative;
    bound.text = fmt::format("{} {}", bound.sense == Sense::AtMost ? "at most" : "at least", part);
    std::optional<Bound>& slot = warn ? limit.warn : limit.fail;
    if (slot)
      return wrong(whole, "given_twice", warn ? "warns twice" : "has two limits",
                   "only one, and one more after `warn`");
    slot = std::move(bound);
    begin = end + 1;
    if (end == text.size()) break;
  }
  return limit;
}

std::string figure_text(MetricUnit unit, double value) {
  switch (unit) {
    case MetricUnit::Memory: return memory_text(round_bytes(value));
    case MetricUnit::Traffic: return traffic_text(round_bytes(value));
    case MetricUnit::Time: return seconds_text(Seconds(value));
    case MetricUnit::Ratio: return percent(value);
    case MetricUnit::Rate: return count_text(value) + " tokens/s";
    case MetricUnit::Count: return count_text(value);
    case MetricUnit::Hours: return count_text(value) + " GPU-hours";
    case MetricUnit::Money: return count_text(value) + " USD";
  }
  return {};
}

std::string change_text(MetricUnit unit, double change) {
  if (change == 0) return "=";
  const char* sign = change < 0 ? "-" : "+";
  const double size = std::fabs(change);
  if (unit == MetricUnit::Ratio) return fmt::format("{}{:.1f} points", sign, 100 * size);
  return sign + figure_text(unit, size);
}

Texts distinct_texts(MetricUnit unit, double a, double b) {
  Texts texts{figure_text(unit, a), figure_text(unit, b)};
  if (a == b || texts.a != texts.b) return texts;
  const auto exact = [&](double value) {
    switch (unit) {
      case MetricUnit::Memory:
      case MetricUnit::Traffic: return fmt::format("{} bytes", grouped(round_bytes(value).value));
      case MetricUnit::Time: return fmt::format("{} s", value);
      case MetricUnit::Ratio: return fmt::format("{} %", 100 * value);
      case MetricUnit::Rate:
      case MetricUnit::Count:
      case MetricUnit::Hours:
      case MetricUnit::Money: break;
    }
    return fmt::format("{}", value);
  };
  return {exact(a), exact(b)};
}

}  // namespace plan
