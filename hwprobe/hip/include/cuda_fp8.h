// Formats of 8 bits under CUDA's names. The MI300 series reads those without a negative zero ("fnuz"), whose exponents
// are biased by one more; its successors read those of the Open Compute Project, as NVIDIA's GPUs do.
// Source: ROCm documentation, "Data types and precision support".
#pragma once

#include <cuda_runtime.h>

#if defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__)
#define PLAN_FP8_MORE 1
#else
#define PLAN_FP8_MORE 0
#endif

/// A sign, an exponent and kMantissa bits. Values stay far below the largest: nothing saturates.
template <int kMantissa, int kBias>
struct PlanFp8 {
  unsigned char bits;

  __device__ explicit PlanFp8(float value) {
    const float size = fabsf(value);
    int exponent = 1 - kBias - PLAN_FP8_MORE;  // of subnormal numbers
    while (size >= ldexpf(2, exponent)) ++exponent;
    const int steps = static_cast<int>(rintf(ldexpf(size, kMantissa - exponent)));
    const int code = ((exponent + kBias + PLAN_FP8_MORE - 1) << kMantissa) + steps;  // a carry goes into the exponent
    bits = static_cast<unsigned char>(code | (value < 0 && code > 0 ? 0x80 : 0));
  }
  __device__ explicit operator float() const {
    const int code = bits & 0x7f, exponent = code >> kMantissa, rest = code & ((1 << kMantissa) - 1);
    const float size = exponent == 0 ? ldexpf(static_cast<float>(rest), 1 - kBias - PLAN_FP8_MORE - kMantissa)
                                     : ldexpf(static_cast<float>(rest + (1 << kMantissa)),
                                              exponent - kBias - PLAN_FP8_MORE - kMantissa);
    return (bits & 0x80) != 0 ? -size : size;
  }
};

using __nv_fp8_e4m3 = PlanFp8<3, 7>;
using __nv_fp8_e5m2 = PlanFp8<2, 15>;
