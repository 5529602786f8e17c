#include "formulas/units.hpp"

#include <doctest/doctest.h>

#include <concepts>

#include "formulas/real_bytes.hpp"

namespace plan {
namespace {

using namespace literals;

template <class A, class B>
concept Addable = requires(A a, B b) {
  a + b;
};
template <class A, class B>
concept Comparable = requires(A a, B b) {
  a < b;
};
template <class A, class B>
concept Divisible = requires(A a, B b) {
  a / b;
};
template <class A>
concept FromDouble = requires(double d) {
  A{} + d;
};

static_assert(Addable<Bytes, Bytes>);
static_assert(!Addable<Bytes, Seconds>);
static_assert(!Addable<Bytes, Tokens>);
static_assert(!Addable<Flops, FlopsPerSecond>);
static_assert(!Comparable<Seconds, Flops>);
static_assert(!Divisible<Seconds, Bytes>);
static_assert(!FromDouble<Seconds>);
// Whole bytes may stand where real ones are asked for, and nothing else where anything else is.
static_assert(std::convertible_to<Bytes, RealBytes>);
static_assert(!std::convertible_to<RealBytes, Bytes> && !std::constructible_from<Bytes, RealBytes>);
static_assert(!std::convertible_to<Tokens, RealBytes> && !std::convertible_to<double, RealBytes>);
static_assert(RealBytes(0.5) < Bytes(1) && Bytes(1) > RealBytes(0.5) && Bytes(1) == RealBytes(1));
static_assert((Bytes(1) - RealBytes(0.25)).value == 0.75 && Bytes(1) / RealBytes(2) == 0.5);
static_assert(Seconds::infinity() > Seconds(1e308));
static_assert(80_GB < 80_GiB);
static_assert(1_GiB == 1024 * Bytes(1 << 20));
static_assert((80_GB / BytesPerSecond(40e9)).value == 2.0);
static_assert((Flops(6e12) / FlopsPerSecond(3e12)).value == 2.0);
static_assert((Flops(6e12) / Seconds(2)).value == 3e12);
static_assert(4_GiB / 1_GiB == 4.0);
static_assert(round_bytes(1.5).value == 2 && round_bytes(-1.5).value == -2 && round_bytes(1.49).value == 1);

TEST_CASE("units keep their type through arithmetic") {
  Bytes sum = 1_MiB;
  sum += 3 * 1_MiB;
  sum -= 2_MiB;
  CHECK(sum == 2_MiB);
  CHECK(kGiB == 1073741824.0);
  CHECK((2.5_us).value == doctest::Approx(2.5e-6));
}

}  // namespace
}  // namespace plan
