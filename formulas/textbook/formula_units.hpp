#pragma once

#include <algorithm>
#include <concepts>
#include <iterator>
#include <string_view>

#include "formulas/real_bytes.hpp"
#include "formulas/units.hpp"

/// A formula states its unit as text, and its function by the type that it returns. Here each type has its text, so
/// that `entry` (formulas/textbook/catalog_entry.hpp) compares the two.
namespace plan {

// Units that look-up formulas alone answer in.
using BytesPerToken = Quantity<double, struct BytesPerTokenTag>;
using Dollars = Quantity<double, struct DollarsTag>;
using GpuHours = Quantity<double, struct GpuHoursTag>;
using MegawattHours = Quantity<double, struct MegawattHoursTag>;
using Microseconds = Quantity<double, struct MicrosecondsTag>;
using Petabytes = Quantity<double, struct PetabytesTag>;  ///< decimal

/// The text of a type's unit; a plain number has none, a type without a line here cannot be in the catalog.
template <class Number>
inline constexpr std::string_view kUnitOf = "(no unit)";
template <>
inline constexpr std::string_view kUnitOf<double> = "";
template <>
inline constexpr std::string_view kUnitOf<Bytes> = "bytes";
template <>
inline constexpr std::string_view kUnitOf<RealBytes> = "bytes";
template <>
inline constexpr std::string_view kUnitOf<BytesPerSecond> = "bytes/s";
template <>
inline constexpr std::string_view kUnitOf<BytesPerToken> = "bytes/token";
template <>
inline constexpr std::string_view kUnitOf<Dollars> = "USD";
template <>
inline constexpr std::string_view kUnitOf<Flops> = "FLOP";
template <>
inline constexpr std::string_view kUnitOf<FlopsPerSecond> = "FLOP/s";
template <>
inline constexpr std::string_view kUnitOf<GpuHours> = "GPU-hours";
template <>
inline constexpr std::string_view kUnitOf<MegawattHours> = "MWh";
template <>
inline constexpr std::string_view kUnitOf<Microseconds> = "microseconds";
template <>
inline constexpr std::string_view kUnitOf<Petabytes> = "PB";
template <>
inline constexpr std::string_view kUnitOf<Seconds> = "seconds";

/// What a plain number may be: a ratio, or how many there are of something.
inline constexpr std::string_view kCountedThings[] = {
    "",      "ratio",      "GPUs",  "chunks", "cores", "elements", "layers", "micro-batches", "nats a token",
    "nodes", "parameters", "ranks", "rows",   "steps", "tokens"};

/// Does a function that returns `Number` answer in the unit that its formula states?
template <class Number>
constexpr bool answers_in(std::string_view unit) {
  if constexpr (std::same_as<Number, double>)
    return std::find(std::begin(kCountedThings), std::end(kCountedThings), unit) != std::end(kCountedThings);
  else
    return unit == kUnitOf<Number>;
}

}  // namespace plan
