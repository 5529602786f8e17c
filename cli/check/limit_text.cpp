// The words of a limit, and figures in its unit. Tested by tests/cli/limit_text_test.cpp.
#include "cli/check/limit_text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <optional>
#include <utility>

#include "cli/terminal/format.hpp"
#include "cli/terminal/number_words.hpp"
#include "cli/terminal/words.hpp"
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
constexpr UnitRow kCountedUnits[] = {{MetricUnit::Rate, "tokens/s", "2.5M tokens/s", true},
                                     {MetricUnit::Count, "GPUs", "1024", false},
                                     {MetricUnit::Hours, "GPU-hours", "30M GPU-hours", true},
                                     {MetricUnit::Money, "USD", "60M USD", true}};

/// nullptr for a unit that measures.
const UnitRow* counted_row(MetricUnit unit) {
  const auto* row = std::find_if(std::begin(kCountedUnits), std::end(kCountedUnits),
                                 [&](const UnitRow& one) { return one.unit == unit; });
  return row == std::end(kCountedUnits) ? nullptr : row;
}

struct Value {
  double value = 0;
  bool relative = false;
  std::string code{}, problem{};
  std::vector<std::string> instead{};  ///< what may be meant, each without the words of the bound
  std::string help{};                  ///< what else helps
};

Value mistake(std::string code, std::string problem, std::vector<std::string> instead, std::string help = {}) {
  return {0, false, std::move(code), std::move(problem), std::move(instead), std::move(help)};
}

/// "2.5M tokens/s": a decimal letter and the word of the unit; nothing if it is anything else.
std::optional<double> counted(const UnitRow& row, std::string_view text) {
  const std::size_t end = std::min(text.find_first_not_of("+-0123456789.eE"), text.size());
  const std::optional<double> number = parse_number(text.substr(0, end));
  std::string_view rest = trim(text.substr(end));
  double factor = 1;
  constexpr std::array<std::pair<char, double>, 5> kLetters = {
      {{'k', 1e3}, {'K', 1e3}, {'M', 1e6}, {'B', 1e9}, {'T', 1e12}}};
  for (const auto& [letter, size] : kLetters)
    if (!rest.empty() && rest[0] == letter && (rest.size() == 1 || rest[1] == ' ')) {
      factor = size, rest = trim(rest.substr(1));
      break;
    }
  const bool unit = rest == row.word || (rest.empty() && !row.needed);
  return number && unit ? std::optional(*number * factor) : std::nullopt;
}

Value read_counted(const UnitRow& row, std::string_view text) {
  if (const std::optional<double> value = counted(row, text)) return {*value, false, {}, {}, {}, {}};
  std::vector<std::string> numbers = plain_numbers(row.word, text, true);
  numbers.insert(numbers.begin(), std::string(text));
  for (const std::string& number : numbers) {
    std::string meant = fmt::format("{} {}", number, row.word);
    if (!counted(row, meant)) continue;
    if (meant == fmt::format("{} {}", text, row.word))
      return mistake("missing_unit", "needs a unit", {std::move(meant)});
    return mistake("bad_value", fmt::format("is not a number of {}", row.word), {std::move(meant)});
  }
  return mistake("bad_value", fmt::format("is not a number of {}", row.word), {});
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
  if (!parsed) {
    const bool missing = parsed.problem == "needs a unit";
    return mistake(missing ? "missing_unit" : "bad_value", parsed.problem, parsed.instead,
                   parsed.instead.empty() ? parsed.help : std::string());
  }
  if (unit == MetricUnit::Ratio && text.find('%') == std::string_view::npos)
    return mistake("missing_unit", "needs a unit",
                   {fmt::format("{} %", number_text(parsed.value * (parsed.value <= 1 ? 100 : 1)))});
  return {parsed.value, false, {}, {}, {}, {}};
}

/// The change since a baseline: a share, or a difference in the metric's unit.
Value read_change(MetricUnit unit, std::string_view text) {
  std::string_view s = trim(text);
  if (s.starts_with('+')) s = trim(s.substr(1));
  if (s.ends_with('%')) {
    const ParsedQuantity parsed = parse_quantity(s, Dimension::Ratio);
    if (!parsed) return mistake("bad_value", parsed.problem, parsed.instead, parsed.help);
    return {parsed.value, true, {}, {}, {}, {}};
  }
  if (unit == MetricUnit::Ratio) {
    if (!s.ends_with("points"))
      return mistake("missing_unit", "needs a unit", {}, "write `+2 %` (of the baseline) or `+1 points`");
    const std::optional<double> points = parse_number(trim(s.substr(0, s.size() - 6)));
    if (!points) return mistake("bad_value", "is not a number with a unit", {"-1 points"});
    return {*points / 100, false, {}, {}, {}, {}};
  }
  Value value = read_absolute(unit, s);
  if (value.code == "missing_unit") value.help = fmt::format("or a share: `+{} %`", s);
  return value;
}

/// Whether a limit of this size makes sense; Ratio is at most 1, the rest is positive.
std::string senseless(MetricUnit unit, double value) {
  if (!(value > 0)) return "is not above zero";
  if (unit == MetricUnit::Ratio && value > 1) return "is above 100 %";
  return value > 1e18 ? "is out of range" : "";
}

std::string_view words_of_sense(Sense sense) { return sense == Sense::AtMost ? "at most" : "at least"; }

/// What to write in the place of a bound: each with the words that say which side it bounds.
std::string help_of(const Value& value, Sense sense, const std::string& example) {
  std::string help;
  for (const std::string& one : value.instead)
    help += fmt::format("{}`{} {}`", help.empty() ? "write " : " or ", words_of_sense(sense), one);
  help += (help.empty() || value.help.empty() ? "" : ", ") + value.help;
  return help.empty() ? fmt::format("write `{}`", example) : help;
}

/// What bounds in other words, in front of the number and behind it, between commas; `>=` before `>`.
struct SenseWords {
  Sense sense;
  std::string_view in_front, behind;
};
constexpr SenseWords kSenseWords[] = {
    {Sense::AtLeast,
     ">=,=>,\u2265,>,at least,at-least,atleast,min,minimum,no less than,not less than,no lower than,not below,not "
     "under,"
     "above,over,more than,greater than",
     "or more,or above,or higher,minimum,min"},
    {Sense::AtMost,
     "<=,=<,\u2264,<,at most,at-most,atmost,max,maximum,no more than,not more than,no higher than,not above,not over,"
     "below,under,less than,up to,within",
     "or less,or below,or lower,or fewer,maximum,max"}};

/// Whether a text begins, or ends, with a word, and what is left of it.
std::optional<std::string_view> without(std::string_view text, std::string_view word, bool in_front) {
  if (text.size() < word.size()) return std::nullopt;
  const std::size_t at = in_front ? 0 : text.size() - word.size();
  if (!same_but_for_case(text.substr(at, word.size()), word)) return std::nullopt;
  const std::string_view rest = in_front ? text.substr(word.size()) : text.substr(0, at);
  const bool letters = std::isalpha(static_cast<unsigned char>(word.back())) != 0 && !rest.empty();
  const char next = rest.empty() ? ' ' : in_front ? rest.front() : rest.back();
  if (letters && std::isalpha(static_cast<unsigned char>(next)) != 0) return std::nullopt;  // `m` of `max` is no word
  return trim(rest, " \t:=");
}

/// The comma behind a bound, or the end: one between the digits of a number separates nothing.
std::size_t end_of_bound(std::string_view text, std::size_t begin) {
  const auto digit = [&](std::size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '9'; };
  std::size_t end = text.find(',', begin);
  while (end != std::string_view::npos && end > 0 && digit(end - 1) && digit(end + 1)) end = text.find(',', end + 1);
  return std::min(end, text.size());
}

/// `between 38% and 50%`, `38-50 %`: its ends, the first with the unit of the second where it has none.
std::optional<std::pair<std::string, std::string_view>> range_of(std::string_view text) {
  for (const std::string_view word : {"between", "from"})
    if (const auto rest = without(text, word, true)) text = *rest;
  const auto digit_at = [&](std::size_t at) {
    return at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0;
  };
  for (const std::string_view sign : {" and ", " to ", " - ", "..", "\u2013", "-"}) {
    const std::size_t at = text.find(sign);
    if (at == std::string_view::npos || !digit_at(0) || !digit_at(at + sign.size())) continue;
    std::string low(trim(text.substr(0, at)));
    const std::string_view high = trim(text.substr(at + sign.size()));
    if (low.find_first_not_of("0123456789.") == std::string::npos)
      low += high.substr(std::min(high.find_first_not_of("0123456789."), high.size()));
    return std::pair{std::move(low), high};
  }
  return std::nullopt;
}

std::string meant_bound(std::string_view text, Metric metric, bool since_baseline) {
  const std::string_view warn = take_word(text, "warn") ? "warn " : "";
  std::string_view rest = trim(text, " \t=\"'");
  Sense sense = metric_row(metric).more_is_better ? Sense::AtLeast : Sense::AtMost;
  const auto range = range_of(rest);  // a limit has one side: the one that is worse
  if (range) rest = sense == Sense::AtLeast ? std::string_view(range->first) : range->second;
  const auto take = [&](bool in_front) {
    for (const SenseWords& words : kSenseWords)
      for (const std::string_view word : split(in_front ? words.in_front : words.behind, ","))
        if (const auto left = without(rest, word, in_front)) return rest = *left, sense = words.sense, true;
    return false;
  };
  if (!take(true)) take(false);
  if (rest.find_first_of("0123456789") == std::string_view::npos) return {};
  std::string meant = fmt::format("{} {}", words_of_sense(sense), rest);
  const auto read = read_limit(meant, metric, since_baseline);
  if (!read) meant = read.error().meant;
  return meant.empty() ? meant : std::string(warn) + meant;
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
    const auto wrong = [&](std::string_view part, std::string code, std::string problem, std::string help,
                           std::string meant = {}) {
      const std::size_t offset = part.empty() ? begin : static_cast<std::size_t>(part.data() - text.data());
      return tl::unexpected(
          LimitMistake{std::move(code), std::move(problem), offset, part.size(), std::move(help), std::move(meant)});
    };
    std::string_view part = whole;
    const bool warn = take_word(part, "warn");
    const std::string_view sensed = part;
    Bound bound;
    if (take_word(part, "at least"))
      bound.sense = Sense::AtLeast;
    else if (!take_word(part, "at most")) {
      const std::string meant = meant_limit(sensed, metric, since_baseline);
      return wrong(sensed, "bad_limit", "says neither `at most` nor `at least`",
                   fmt::format("write `{}`", meant.empty() ? example : meant));
    }
    Value value = since_baseline ? read_change(unit, part) : read_absolute(unit, part);
    if (value.problem.empty() && !since_baseline)
      if (std::string problem = senseless(unit, value.value); !problem.empty())
        value = mistake("out_of_range", std::move(problem), {});
    if (!value.problem.empty())
      return wrong(part, value.code, value.problem, help_of(value, bound.sense, example),
                   value.instead.empty() ? std::string()
                                         : fmt::format("{} {}", words_of_sense(bound.sense), value.instead.front()));
    bound.value = value.value, bound.relative = value.relative;
    bound.text = fmt::format("{} {}", words_of_sense(bound.sense), part);
    std::optional<Bound>& slot = warn ? limit.warn : limit.fail;
    if (slot)
      return wrong(whole, "given_twice", warn ? "warns twice" : "has two limits",
                   "only one, and one more after `warn`");
    slot = std::move(bound);
    const bool both = limit.warn && limit.fail && limit.warn->sense == limit.fail->sense &&
                      limit.warn->relative == limit.fail->relative;
    const double room = both ? limit.fail->value - limit.warn->value : 1;
    if (both && (limit.warn->sense == Sense::AtMost ? room <= 0 : room >= 0))
      return wrong(whole, "bad_limit", "warns no earlier than the limit itself",
                   fmt::format("write the warning inside `{}`, or leave it out", limit.fail->text));
    begin = end + 1;
    if (end == text.size()) break;
  }
  return limit;
}

std::string meant_limit(std::string_view text, Metric metric, bool since_baseline) {
  std::string all;
  for (std::size_t begin = 0, end = 0; begin <= text.size(); begin = end + 1) {
    end = end_of_bound(text, begin);
    const std::string one = meant_bound(text.substr(begin, end - begin), metric, since_baseline);
    if (one.empty()) return {};
    all += (all.empty() ? "" : ", ") + one;
  }
  return read_limit(all, metric, since_baseline) ? all : std::string();
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
