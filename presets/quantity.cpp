// Numbers with units, as people write them in preset, profile and budget files. Decimal prefixes are powers of
// 1000, binary ones (KiB) of 1024; Gb/s counts bits. Tested by tests/presets/quantity_test.cpp.
#include "presets/quantity.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>

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

struct UnitsOf {
  std::span<const Unit> units;
  std::string_view example;
};

UnitsOf units_of(Dimension d) {
  switch (d) {
    case Dimension::Bytes: return {kBytes, "GiB or GB"};
    case Dimension::ByteRate: return {kByteRates, "GB/s or Gb/s"};
    case Dimension::FlopRate: return {kFlopRates, "TFLOP/s"};
    case Dimension::Time: return {kTimes, "us, ms, s or h"};
    case Dimension::Power: return {kPowers, "W"};
    case Dimension::Price: return {kPrices, "USD/h"};
    case Dimension::Ratio: return {kRatios, "%"};
    case Dimension::Tokens: return {kTokens, "tokens"};
    case Dimension::Sequences: return {kSequences, "sequences"};
  }
  return {kRatios, "%"};
}

const Unit* find_unit(std::span<const Unit> units, std::string_view name) {
  for (const Unit& unit : units)
    if (unit.name == name) return &unit;
  return nullptr;
}

ParsedQuantity unknown_unit(std::string_view name, UnitsOf known) {
  std::vector<std::string_view> names;
  for (const Unit& unit : known.units) names.push_back(unit.name);
  const std::string near = nearest_name(name, names);
  std::string help = near.empty() ? fmt::format("write a unit such as {}", known.example)
                                  : fmt::format("a unit with a similar name exists: `{}`", near);
  return {0, "has an unknown unit", std::move(help)};
}

std::string write_instead(std::string_view text) { return fmt::format("write `{}`", text); }

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
  if (status != std::errc() || !std::isfinite(number))
    return {0, "is not a number with a unit", fmt::format("write a number and a unit such as {}", known.example)};
  const std::string_view unit_name = trim(s.substr(static_cast<std::size_t>(end - s.data())));
  if (unit_name.empty()) {
    if (dimension == Dimension::Ratio) return {number, {}, {}};
    const std::string as_text(s.substr(0, std::min<std::size_t>(s.size(), 30)));
    return {0, "needs a unit", fmt::format("write `{} {}`", as_text, known.example)};
  }
  if (const auto plain = without_separators(s)) return {0, "has separators in its number", write_instead(*plain)};
  const Unit* unit = find_unit(known.units, unit_name);
  if (unit == nullptr) return unknown_unit(unit_name, known);
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
