// bfloat16 under CUDA's names: the upper half of a float, rounded to nearest and even. Not HIP's own type, whose header
// and name differ between releases of ROCm.
#pragma once

#include <cuda_runtime.h>

struct __nv_bfloat16 {
  unsigned short bits = 0;
  __nv_bfloat16() = default;
  __host__ __device__ explicit __nv_bfloat16(float value) {
    unsigned whole = 0;
    __builtin_memcpy(&whole, &value, sizeof whole);
    bits = static_cast<unsigned short>((whole + 0x7fffu + (whole >> 16 & 1u)) >> 16);
  }
};
struct __nv_bfloat162 {
  __nv_bfloat16 low, high;
};

__host__ __device__ inline float __bfloat162float(__nv_bfloat16 value) {
  const unsigned whole = static_cast<unsigned>(value.bits) << 16;
  float out = 0;
  __builtin_memcpy(&out, &whole, sizeof out);
  return out;
}
__host__ __device__ inline __nv_bfloat16 __float2bfloat16(float value) { return __nv_bfloat16(value); }
__host__ __device__ inline __nv_bfloat162 __floats2bfloat162_rn(float low, float high) {
  return {__nv_bfloat16(low), __nv_bfloat16(high)};
}
