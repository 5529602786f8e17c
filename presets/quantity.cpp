// Numbers with units, as people write them in preset, profile and budget files. Decimal prefixes are powers of
// 1000, binary ones (KiB) of 1024; Gb/s counts bits. Tested by tests/presets/quantity_test.cpp.
#include "presets/quantity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "formulas/text.hpp"
#include "presets/suggest.hpp"

namespace plan {
namespace {

struct Unit {
  std::string_view name;
  double factor;
  bool print = true;  ///< a unit to write, not only to read
};

constexpr double kK = 1e3, kM = 1e6, kG = 1e9, kT = 1e12, kP = 1e15;
constexpr double kKi = 1024.0, kMi = kKi * 1024, kGi = kMi * 1024, kTi = kGi * 1024;

// Each table from small to large, so that the writer finds the largest unit that fits from the back.
constexpr Unit kBytes[] = {{"B", 1},   {"KB", kK},   {"KiB", kKi}, {"MB", kM},  {"MiB", kMi},
                           {"GB", kG}, {"GiB", kGi}, {"TB", kT},   {"TiB", kTi}};
constexpr Unit kByteRates[] = {{"B/s", 1},   {"Mb/s", kM / 8, false}, {"KB/s", kK},
                               {"MB/s", kM}, {"MiB/s", kMi, false},   {"Gb/s", kG / 8, false},
                               {"GB/s", kG}, {"GiB/s", kGi, false},   {"Tb/s", kT / 8, false},
                               {"TB/s", kT}};
constexpr Unit kFlopRates[] = {{"FLOP/s", 1}, {"MFLOP/s", kM}, {"GFLOP/s", kG}, {"TFLOP/s", kT}, {"PFLOP/s", kP}};
constexpr Unit kTimes[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"min", 60}, {"h", 3600}, {"d", 86400}};
constexpr Unit kPowers[] = {{"W", 1}, {"kW", kK}};
constexpr Unit kPrices[] = {{"USD/h", 1}};
constexpr Unit kRatios[] = {{"%", 0.01}};
constexpr Unit kTokens[] = {{"tokens", 1}};
constexpr Unit kSequences[] = {{"sequences", 1}};

/// A unit as others write it, and ours; one that may mean two of ours has two rows.
struct Spelling {
  std::string_view word, unit;
};
constexpr Spelling kBytesElsewhere[] = {{"bytes", "B"},       {"byte", "B"},      {"k", "KiB"},  {"m", "MiB"},
                                        {"g", "GiB"},         {"g", "GB"},        {"t", "TiB"},  {"ki", "KiB"},
                                        {"mi", "MiB"},        {"gi", "GiB"},      {"ti", "TiB"}, {"megabytes", "MB"},
                                        {"gibibytes", "GiB"}, {"gigabytes", "GB"}};
constexpr Spelling kByteRatesElsewhere[] = {
    {"GBps", "GB/s"},   {"Gbps", "Gb/s"},    {"TBps", "TB/s"}, {"Tbps", "Tb/s"}, {"GB/sec", "GB/s"}, {"TB/sec", "TB/s"},
    {"Gbit/s", "Gb/s"}, {"Gbits/s", "Gb/s"}, {"MBps", "MB/s"}, {"Mbps", "Mb/s"}, {"GB", "GB/s"},     {"TB", "TB/s"}};
constexpr Spelling kFlopRatesElsewhere[] = {{"tflops", "TFLOP/s"},  {"tflop", "TFLOP/s"},    {"tflops/s", "TFLOP/s"},
                                            {"tf", "TFLOP/s"},      {"tf/s", "TFLOP/s"},     {"pflops", "PFLOP/s"},
                                            {"pflop", "PFLOP/s"},   {"pflops/s", "PFLOP/s"}, {"gflops", "GFLOP/s"},
                                            {"gflops/s", "GFLOP/s"}};
constexpr Spelling kTimesElsewhere[] = {
    {"sec", "s"},          {"secs", "s"},          {"second", "s"},    {"seconds", "s"},  {"m", "min"},
    {"mins", "min"},       {"minute", "min"},      {"minutes", "min"}, {"hr", "h"},       {"hrs", "h"},
    {"hour", "h"},         {"hours", "h"},         {"day", "d"},       {"days", "d"},     {"msec", "ms"},
    {"millisecond", "ms"}, {"milliseconds", "ms"}, {"usec", "us"},     {"\u00b5s", "us"}, {"\u03bcs", "us"},
    {"microseconds", "us"}};
/// A time that is none of our units, in days.
struct LongTime {
  std::string_view word;
  double days;
};
constexpr LongTime kLongTimes[] = {{"w", 7},      {"wk", 7},      {"week", 7},      {"weeks", 7}, {"mo", 30},
                                   {"month", 30}, {"months", 30}, {"y", 365},       {"yr", 365},  {"yrs", 365},
                                   {"year", 365}, {"years", 365}, {"fortnight", 14}};
constexpr Spelling kPowersElsewhere[] = {{"watt", "W"}, {"watts", "W"}};
constexpr Spelling kPricesElsewhere[] = {{"$", "USD/h"},        {"$/h", "USD/h"},    {"$/hr", "USD/h"},
                                         {"$/hour", "USD/h"},   {"usd", "USD/h"},    {"usd/hr", "USD/h"},
                                         {"usd/hour", "USD/h"}, {"dollars", "USD/h"}};
constexpr Spelling kRatiosElsewhere[] = {{"percent", "%"}, {"pct", "%"}, {"per cent", "%"}};
constexpr Spelling kTokensElsewhere[] = {{"token", "tokens"}, {"tok", "tokens"}, {"toks", "tokens"}};
constexpr Spelling kSequencesElsewhere[] = {{"sequence", "sequences"},
                                            {"seq", "sequences"},
                                            {"seqs", "sequences"},
                                            {"sample", "sequences"},
                                            {"samples", "sequences"}};

struct UnitsOf {
  std::span<const Unit> units;
  std::span<const Spelling> elsewhere;
  std::string_view usual, other{};  ///< units for who gave none
};

UnitsOf units_of(Dimension d) {
  switch (d) {
    case Dimension::Bytes: return {kBytes, kBytesElsewhere, "GiB", "GB"};
    case Dimension::ByteRate: return {kByteRates, kByteRatesElsewhere, "GB/s", "Gb/s"};
    case Dimension::FlopRate: return {kFlopRates, kFlopRatesElsewhere, "TFLOP/s"};
    case Dimension::Time: return {kTimes, kTimesElsewhere, "s", "ms"};
    case Dimension::Power: return {kPowers, kPowersElsewhere, "W"};
    case Dimension::Price: return {kPrices, kPricesElsewhere, "USD/h"};
    case Dimension::Ratio: return {kRatios, kRatiosElsewhere, "%"};
    case Dimension::Tokens: return {kTokens, kTokensElsewhere, "tokens"};
    case Dimension::Sequences: return {kSequences, kSequencesElsewhere, "sequences"};
  }
  return {kRatios, kRatiosElsewhere, "%"};
}

const Unit* find_unit(std::span<const Unit> units, std::string_view name) {
  for (const Unit& unit : units)
    if (unit.name == name) return &unit;
  return nullptr;
}

ParsedQuantity no_quantity(std::string problem, std::vector<std::string> instead) {
  return {0, std::move(problem), fmt::format("write `{}`", fmt::join(instead, "` or `")), std::move(instead)};
}

/// The number in the unit that is meant, or in either of two.
std::vector<std::string> in_units(std::string_view number, std::string_view unit, std::string_view other = {}) {
  std::vector<std::string> out{fmt::format("{} {}", number, unit)};
  if (!other.empty()) out.push_back(fmt::format("{} {}", number, other));
  return out;
}

/// So many weeks, months of 30 days or years of 365 as days; empty if it is no such time.
std::string in_days(std::string_view number, std::string_view word) {
  const std::optional<double> count = as_number<double>(number);
  for (const LongTime& time : kLongTimes)
    if (count && same_but_for_case(time.word, word)) return fmt::format("{} d", *count * time.days);
  return {};
}

/// `8k tokens` and `1M sequences` in full, in either sense of the letter: the power of two that begins so, as 131072 of
/// 131k, or that many times 1024, and that many thousands. Empty if no such letter stands there.
std::vector<std::string> in_full(std::string_view number, std::string_view name, UnitsOf known) {
  const bool counts = known.usual == "tokens" || known.usual == "sequences";
  const std::optional<double> count = as_number<double>(number);
  const char letter = lower_case(name.empty() ? ' ' : name.front());
  const std::string_view unit = trim(name.substr(std::min<std::size_t>(1, name.size())));
  if (!counts || !count || !(*count > 0) || (letter != 'k' && letter != 'm')) return {};
  if (!unit.empty() && !known.usual.starts_with(unit)) return {};
  const double thousand = letter == 'k' ? kK : kM, binary = letter == 'k' ? kKi : kMi;
  const double power = std::exp2(std::round(std::log2(*count * thousand)));
  const bool begins_so = std::floor(power / thousand) == *count;
  return {fmt::format("{:.0f} {}", begins_so ? power : *count * binary, known.usual),
          fmt::format("{:.0f} {}", *count * thousand, known.usual)};
}

ParsedQuantity unknown_unit(std::string_view number, std::string_view name, UnitsOf known) {
  if (std::vector<std::string> full = in_full(number, name, known); !full.empty())
    return no_quantity("has an unknown unit", std::move(full));
  std::vector<std::string_view> names, meant;
  for (const Unit& unit : known.units) {
    names.push_back(unit.name);
    if (same_but_for_case(unit.name, name)) meant.push_back(unit.name);
  }
  for (const bool case_matters : {true, false})  // `Gbps` and `GBps` are two
    for (const Spelling& one : known.elsewhere)
      if (meant.size() < 2 && (case_matters ? one.word == name : same_but_for_case(one.word, name)) &&
          std::find(meant.begin(), meant.end(), one.unit) == meant.end())
        meant.push_back(one.unit);
  if (std::string days = in_days(number, name); !days.empty() && known.usual == "s")
    return no_quantity("has an unknown unit", {std::move(days)});
  if (meant.empty() && name.size() > 1)  // no letter is near another
    if (const std::string near = nearest_name(name, names); !near.empty())
      return no_quantity("has an unknown unit", in_units(number, near));
  if (!meant.empty())
    return no_quantity("has an unknown unit", in_units(number, meant[0], meant.size() > 1 ? meant[1] : ""));
  return {0, "has an unknown unit",
          fmt::format("write a unit such as {}{}{}", known.usual, known.other.empty() ? "" : " or ", known.other)};
}

/// A letter, a sign of money or of shares: what is anything else belongs to the number.
bool begins_unit(std::string_view text) {
  const auto c = static_cast<unsigned char>(text.empty() ? '\0' : text.front());
  return std::isalpha(c) != 0 || c == '%' || c == '$' || c >= 0x80;
}

/// A sign of money in front, or a comma for the point, is what people write elsewhere.
ParsedQuantity not_a_number(std::string_view text, Dimension dimension, std::string_view usual) {
  constexpr std::string_view kProblem = "is not a number with a unit";
  std::string plain(text);
  if (const std::size_t comma = plain.find(','); comma != std::string::npos) plain[comma] = '.';
  if (dimension == Dimension::Price && plain.starts_with('$'))
    plain = fmt::format("{} USD/h", trim(std::string_view(plain).substr(1, plain.find('/') - 1)));
  if (plain != text)
    if (const ParsedQuantity meant = parse_quantity(plain, dimension); meant || !meant.instead.empty())
      return no_quantity(std::string(kProblem), meant ? std::vector{plain} : meant.instead);
  return {0, std::string(kProblem), fmt::format("write a number and a unit such as {}", usual)};
}

std::size_t digits_from(std::string_view text, std::size_t at) {
  const std::size_t end = std::min(text.find_first_not_of("0123456789", at), text.size());
  return end - std::min(at, end);
}

}  // namespace

ParsedQuantity parse_quantity(std::string_view text, Dimension dimension) {
  const UnitsOf known = units_of(dimension);
  const std::string_view s = trim(text);
  double number = 0;
  const auto [end, status] = std::from_chars(s.data(), s.data() + s.size(), number);
  if (status != std::errc() || !std::isfinite(number)) return not_a_number(s, dimension, known.usual);
  const std::string_view unit_name = trim(s.substr(static_cast<std::size_t>(end - s.data())));
  if (unit_name.empty()) {
    if (dimension == Dimension::Ratio) return {number, {}, {}};
    return no_quantity("needs a unit",
                       in_units(s.substr(0, std::min<std::size_t>(s.size(), 30)), known.usual, known.other));
  }
  if (const auto plain = without_separators(s)) {
    const ParsedQuantity meant = parse_quantity(*plain, dimension);
    return no_quantity("has separators in its number", meant.instead.empty() ? std::vector{*plain} : meant.instead);
  }
  if (!begins_unit(unit_name)) return not_a_number(s, dimension, known.usual);
  const Unit* unit = find_unit(known.units, unit_name);
  if (unit == nullptr)
    return unknown_unit(trim(s.substr(0, static_cast<std::size_t>(end - s.data()))), unit_name, known);
  const double value = number * unit->factor;
  if (!std::isfinite(value)) return {0, "is out of range", "write a smaller number"};
  return {value, {}, {}};
}

std::string format_quantity(double value, Dimension dimension) {
  if (dimension == Dimension::Ratio) return fmt::format("{}", value);
  const auto base = [&](double v) { return dimension == Dimension::Bytes ? std::round(v) : v; };  // bytes are whole
  const auto in_unit = [&](const Unit& unit) {
    for (int digits = 3; digits < 17; ++digits) {
      std::string text = fmt::format("{:.{}g} {}", value / unit.factor, digits, unit.name);
      if (base(parse_quantity(text, dimension).value) == base(value)) return text;
    }
    // Seventeen digits tell any number in its own unit; those of a multiple may be off in the last place.
    return unit.factor == 1 ? fmt::format("{} {}", value, unit.name) : std::string();
  };
  std::string best;
  for (const Unit& unit : units_of(dimension).units) {
    const bool fits = unit.print && (std::abs(value) >= unit.factor || unit.factor <= 1) && value / unit.factor < 1e5;
    if (!fits && !(unit.factor == 1 && best.empty())) continue;
    std::string text = in_unit(unit);
    if (!text.empty() && (best.empty() || text.size() <= best.size())) best = std::move(text);
  }
  const Unit& first = units_of(dimension).units.front();
  return best.empty() ? fmt::format("{} {}", value / first.factor, first.name) : best;
}

std::optional<std::string> without_separators(std::string_view text) {
  text = trim(text);
  std::size_t at = digits_from(text, 0);
  std::string plain(text.substr(0, at));
  const char separator = at > 0 && at < text.size() ? text[at] : '\0';
  if (std::string_view(",_' ").find(separator) == std::string_view::npos || separator == '\0') return std::nullopt;
  if (separator != '_' && plain.size() > 3) return std::nullopt;  // "8192 128" is two numbers
  const std::size_t first = at;
  while (at < text.size() && text[at] == separator) {
    const std::size_t digits = digits_from(text, at + 1);
    if (digits == 0 || (separator != '_' && digits != 3)) break;
    plain += text.substr(at + 1, digits);
    at += 1 + digits;
  }
  if (at == first) return std::nullopt;
  return plain + std::string(text.substr(at));
}

std::optional<std::int64_t> parse_integer(std::string_view text) { return as_number<std::int64_t>(text); }

std::optional<double> parse_number(std::string_view text) {
  const std::optional<double> value = as_number<double>(text);
  if (!value) return std::nullopt;
  const std::size_t dot = text.find('.');  // "5." is a slip of the finger, not a number
  if (dot != std::string_view::npos && (dot + 1 == text.size() || text[dot + 1] < '0' || text[dot + 1] > '9'))
    return std::nullopt;
  return std::isfinite(*value) ? value : std::nullopt;
}

}  // namespace plan
