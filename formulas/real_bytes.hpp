#pragma once

#include "formulas/units.hpp"

namespace plan {

/// Bytes as formulas give them, which can be a fraction of one: a state of 12 bytes on 5 ranks. What is reported is
/// whole, Bytes.
using RealBytes = Quantity<double, struct RealBytesTag>;

template <>
inline constexpr bool kFits<Bytes, RealBytes> = true;

constexpr Bytes round_bytes(RealBytes bytes) { return round_bytes(bytes.value); }
constexpr Seconds operator/(RealBytes size, BytesPerSecond rate) { return Seconds(size.value / rate.value); }

}  // namespace plan
