#pragma once

#include <compare>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace plan {

/// May a quantity be used wherever another is asked for? Where both are of one unit, and the other's numbers hold its
/// own.
template <class From, class To>
inline constexpr bool kFits = false;

/// A number with a unit in its type: adding bytes to seconds does not compile.
template <class Rep, class Tag>
struct Quantity {
  Rep value{};

  constexpr Quantity() = default;
  constexpr explicit Quantity(Rep v) : value(v) {}
  template <class From>
  requires kFits<From, Quantity>
  constexpr Quantity(From from)  // NOLINT(google-explicit-constructor): nothing is lost
      : value(static_cast<Rep>(from.value)) {}

  /// More than any other: no limit, or never.
  static constexpr Quantity infinity() requires std::floating_point<Rep> {
    return Quantity(std::numeric_limits<Rep>::infinity());
  }

  constexpr auto operator<=>(const Quantity&) const = default;
  // Written out: what compilers make of <=> between fractions takes more instructions.
  friend constexpr bool operator<(Quantity a, Quantity b) { return a.value < b.value; }
  friend constexpr bool operator>(Quantity a, Quantity b) { return a.value > b.value; }
  friend constexpr bool operator<=(Quantity a, Quantity b) { return a.value <= b.value; }
  friend constexpr bool operator>=(Quantity a, Quantity b) { return a.value >= b.value; }
  constexpr Quantity& operator+=(Quantity o) {
    value += o.value;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity o) {
    value -= o.value;
    return *this;
  }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(a.value + b.value); }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(a.value - b.value); }
  friend constexpr Quantity operator*(Quantity a, Rep k) { return Quantity(a.value * k); }
  friend constexpr Quantity operator*(Rep k, Quantity a) { return Quantity(k * a.value); }
  friend constexpr Quantity operator/(Quantity a, Rep k) { return Quantity(a.value / k); }
  friend constexpr double operator/(Quantity a, Quantity b) {
    return static_cast<double>(a.value) / static_cast<double>(b.value);
  }
};

/// The plain number of any kind.
template <class Number>
requires std::is_arithmetic_v<Number>
constexpr Number value_of(Number a) { return a; }
template <class Rep, class Tag>
constexpr double value_of(Quantity<Rep, Tag> a) {
  return static_cast<double>(a.value);
}

using Bytes = Quantity<std::int64_t, struct BytesTag>;
using Tokens = Quantity<std::int64_t, struct TokensTag>;
using Flops = Quantity<double, struct FlopsTag>;
using Seconds = Quantity<double, struct SecondsTag>;
using BytesPerSecond = Quantity<double, struct BytesPerSecondTag>;
using FlopsPerSecond = Quantity<double, struct FlopsPerSecondTag>;

/// Moving `size` over a link of rate `rate`.
constexpr Seconds operator/(Bytes size, BytesPerSecond rate) {
  return Seconds(static_cast<double>(size.value) / rate.value);
}
/// Doing `work` at rate `rate`.
constexpr Seconds operator/(Flops work, FlopsPerSecond rate) { return Seconds(work.value / rate.value); }
constexpr FlopsPerSecond operator/(Flops work, Seconds time) { return FlopsPerSecond(work.value / time.value); }
constexpr BytesPerSecond operator/(Bytes size, Seconds time) {
  return BytesPerSecond(static_cast<double>(size.value) / time.value);
}

/// Rounds a byte count that a formula gives as a fraction (12 bytes / d ranks) to the nearest byte.
constexpr Bytes round_bytes(double bytes) { return Bytes(static_cast<std::int64_t>(bytes + (bytes < 0 ? -0.5 : 0.5))); }

inline constexpr double kKiB = 1024.0, kMiB = kKiB * 1024, kGiB = kMiB * 1024, kTiB = kGiB * 1024;

namespace literals {
constexpr Bytes operator""_GiB(unsigned long long n) { return Bytes(static_cast<std::int64_t>(n) << 30); }
constexpr Bytes operator""_MiB(unsigned long long n) { return Bytes(static_cast<std::int64_t>(n) << 20); }
constexpr Bytes operator""_GB(unsigned long long n) { return Bytes(static_cast<std::int64_t>(n) * 1'000'000'000); }
constexpr Seconds operator""_us(long double n) { return Seconds(static_cast<double>(n) * 1e-6); }
}  // namespace literals

}  // namespace plan
