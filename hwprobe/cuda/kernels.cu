// Memory: copies, triad, random data, and the memory-bound kernels of a training step, each of which moves the bytes
// that sweep.cpp's table says. Rows are 4096 wide; a block of 256 threads takes one.
#include <algorithm>

#include "hwprobe/cuda/device.cuh"

namespace plan_cuda {
namespace {

constexpr int kThreads = 256, kRow = 4096, kEach = kRow / kThreads;  // 16 values a thread

__device__ unsigned hash(unsigned x) {
  x ^= x >> 16, x *= 0x7feb352du, x ^= x >> 15, x *= 0x846ca68bu;
  return x ^ (x >> 16);
}
__device__ float normal(unsigned i, unsigned seed) {
  const float u = (hash(2 * i + seed) + 1.0f) * 2.3283064e-10f, v = hash(2 * i + 1 + seed) * 2.3283064e-10f;
  return sqrtf(-2 * logf(u)) * cosf(6.2831853f * v);
}

template <class T>
__global__ void fill(T* out, size_t count, unsigned seed) {
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count; i += size_t{gridDim.x} * blockDim.x)
    out[i] = T(normal(static_cast<unsigned>(i), seed));
}
__global__ void fill_bits(unsigned* out, size_t count, unsigned seed) {
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count; i += size_t{gridDim.x} * blockDim.x)
    out[i] = hash(static_cast<unsigned>(i) + seed);
}

__global__ void triad(const float4* a, const float4* b, float4* c, size_t count) {
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count; i += size_t{gridDim.x} * blockDim.x) {
    const float4 x = a[i], y = b[i];
    c[i] = {x.x + 3 * y.x, x.y + 3 * y.y, x.z + 3 * y.z, x.w + 3 * y.w};
  }
}

/// Sixteen consecutive bf16 values of a thread as two 16-byte loads.
struct Values {
  float v[kEach];
  __device__ void load(const __nv_bfloat16* row) {
    uint4 raw[2];
    raw[0] = reinterpret_cast<const uint4*>(row)[threadIdx.x];
    raw[1] = reinterpret_cast<const uint4*>(row)[threadIdx.x + kThreads];
    const auto* x = reinterpret_cast<const __nv_bfloat16*>(raw);
    for (int i = 0; i < kEach; ++i) v[i] = __bfloat162float(x[i]);
  }
  __device__ void store(__nv_bfloat16* row) const {
    uint4 raw[2];
    auto* x = reinterpret_cast<__nv_bfloat16*>(raw);
    for (int i = 0; i < kEach; ++i) x[i] = __float2bfloat16(v[i]);
    reinterpret_cast<uint4*>(row)[threadIdx.x] = raw[0];
    reinterpret_cast<uint4*>(row)[threadIdx.x + kThreads] = raw[1];
  }
};

__device__ float block_reduce(float x, bool largest) {
  __shared__ float part[kThreads / 32];
  for (int lane = 16; lane > 0; lane /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, x, lane);
    x = largest ? fmaxf(x, other) : x + other;
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
  __syncthreads();
  float all = part[0];
  for (int i = 1; i < kThreads / 32; ++i) all = largest ? fmaxf(all, part[i]) : all + part[i];
  return all;
}

/// Row kernels in bf16. `a`, `b` are read, `out` is written.
template <int Kernel>
__global__ void rows(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* out) {
  const size_t at = size_t{blockIdx.x} * kRow;
  Values x, y;
  x.load(a + at);
  if constexpr (Kernel == PLAN_PROBE_RMSNORM_BWD || Kernel == PLAN_PROBE_SWIGLU || Kernel == PLAN_PROBE_RESIDUAL)
    y.load(b + at);
  if constexpr (Kernel == PLAN_PROBE_RMSNORM || Kernel == PLAN_PROBE_RMSNORM_BWD) {
    float square = 0, cross = 0;
    for (int i = 0; i < kEach; ++i) {
      square += x.v[i] * x.v[i];
      if constexpr (Kernel == PLAN_PROBE_RMSNORM_BWD) cross += x.v[i] * y.v[i];
    }
    const float scale = rsqrtf(block_reduce(square, false) / kRow + 1e-6f);
    if constexpr (Kernel == PLAN_PROBE_RMSNORM_BWD) cross = block_reduce(cross, false) * scale * scale * scale / kRow;
    for (int i = 0; i < kEach; ++i)
      x.v[i] = Kernel == PLAN_PROBE_RMSNORM ? x.v[i] * scale : y.v[i] * scale - x.v[i] * cross;
  }
  if constexpr (Kernel == PLAN_PROBE_SOFTMAX || Kernel == PLAN_PROBE_CROSS_ENTROPY) {
    float top = -1e30f, sum = 0;
    for (int i = 0; i < kEach; ++i) top = fmaxf(top, x.v[i]);
    top = block_reduce(top, true);
    for (int i = 0; i < kEach; ++i) sum += x.v[i] = __expf(x.v[i] - top);
    sum = block_reduce(sum, false);
    for (int i = 0; i < kEach; ++i) x.v[i] /= sum;
    if (Kernel == PLAN_PROBE_CROSS_ENTROPY && threadIdx.x == blockIdx.x % kThreads)
      x.v[0] -= 1;  // the target's gradient
  }
  if constexpr (Kernel == PLAN_PROBE_SWIGLU)
    for (int i = 0; i < kEach; ++i) x.v[i] = x.v[i] / (1 + __expf(-x.v[i])) * y.v[i];
  if constexpr (Kernel == PLAN_PROBE_RESIDUAL)
    for (int i = 0; i < kEach; ++i) x.v[i] += y.v[i];
  if constexpr (Kernel == PLAN_PROBE_ROPE)
    for (int i = 0; i < kEach; i += 2) {
      float sine, cosine;
      __sincosf(0.01f * (blockIdx.x % 8192) * (i + 1), &sine, &cosine);
      const float u = x.v[i], w = x.v[i + 1];
      x.v[i] = u * cosine - w * sine;
      x.v[i + 1] = u * sine + w * cosine;
    }
  x.store(out + at);
}

__device__ unsigned pack(float low, float high) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&both);
}

/// Eight values a thread: two 16-byte loads, one 16-byte store. `count` in eights.
__global__ void cast(const float4* in, uint4* out, size_t count) {
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count; i += size_t{gridDim.x} * blockDim.x) {
    const float4 x = in[2 * i], y = in[2 * i + 1];
    out[i] = {pack(x.x, x.y), pack(x.z, x.w), pack(y.x, y.y), pack(y.z, y.w)};
  }
}

__device__ void adam_step(float& p, float& m, float& v, float g) {
  m = 0.9f * m + 0.1f * g;
  v = 0.95f * v + 0.05f * g * g;
  p -= 1e-5f * (m / (sqrtf(v) + 1e-8f) + 0.1f * p);
}

/// Four parameters a step, all four arrays loaded before the first is used, as fused optimizers do. `count` in fours.
__global__ void adam(float4* p, float4* m, float4* v, const float4* g, uint2* weight, size_t count) {
#pragma unroll 2
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count; i += size_t{gridDim.x} * blockDim.x) {
    float4 parameter = p[i], first = m[i], second = v[i];
    const float4 gradient = g[i];
    adam_step(parameter.x, first.x, second.x, gradient.x);
    adam_step(parameter.y, first.y, second.y, gradient.y);
    adam_step(parameter.z, first.z, second.z, gradient.z);
    adam_step(parameter.w, first.w, second.w, gradient.w);
    m[i] = first, v[i] = second, p[i] = parameter;
    weight[i] = {pack(parameter.x, parameter.y), pack(parameter.z, parameter.w)};
  }
}

__global__ void grad_norm(const float4* g, float* out, size_t count) {
  float sum = 0;
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count; i += size_t{gridDim.x} * blockDim.x) {
    const float4 x = g[i];
    sum += x.x * x.x + x.y * x.y + x.z * x.z + x.w * x.w;
  }
  sum = block_reduce(sum, false);
  if (threadIdx.x == 0) atomicAdd(out, sum);
}

int blocks_for(size_t count) { return static_cast<int>(std::min<size_t>((count + kThreads - 1) / kThreads, 65535)); }

void launch_rows(int kernel, int blocks, const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* out,
                 cudaStream_t stream) {
  switch (kernel) {
    case PLAN_PROBE_RMSNORM: rows<PLAN_PROBE_RMSNORM><<<blocks, kThreads, 0, stream>>>(a, b, out); break;
    case PLAN_PROBE_RMSNORM_BWD: rows<PLAN_PROBE_RMSNORM_BWD><<<blocks, kThreads, 0, stream>>>(a, b, out); break;
    case PLAN_PROBE_SOFTMAX: rows<PLAN_PROBE_SOFTMAX><<<blocks, kThreads, 0, stream>>>(a, b, out); break;
    case PLAN_PROBE_SWIGLU: rows<PLAN_PROBE_SWIGLU><<<blocks, kThreads, 0, stream>>>(a, b, out); break;
    case PLAN_PROBE_RESIDUAL: rows<PLAN_PROBE_RESIDUAL><<<blocks, kThreads, 0, stream>>>(a, b, out); break;
    case PLAN_PROBE_ROPE: rows<PLAN_PROBE_ROPE><<<blocks, kThreads, 0, stream>>>(a, b, out); break;
    default: rows<PLAN_PROBE_CROSS_ENTROPY><<<blocks, kThreads, 0, stream>>>(a, b, out); break;
  }
}

}  // namespace

Status fill_random(void* data, size_t count, int format, cudaStream_t stream, unsigned seed) {
  const int blocks = blocks_for(count);
  switch (format) {
    case PLAN_PROBE_FP32: fill<<<blocks, kThreads, 0, stream>>>(static_cast<float*>(data), count, seed); break;
    case PLAN_PROBE_FP16: fill<<<blocks, kThreads, 0, stream>>>(static_cast<__half*>(data), count, seed); break;
    case PLAN_PROBE_BF16: fill<<<blocks, kThreads, 0, stream>>>(static_cast<__nv_bfloat16*>(data), count, seed); break;
    case PLAN_PROBE_FP8:
    case PLAN_PROBE_MXFP8: fill<<<blocks, kThreads, 0, stream>>>(static_cast<__nv_fp8_e4m3*>(data), count, seed); break;
    default:
      fill_bits<<<blocks, kThreads, 0, stream>>>(static_cast<unsigned*>(data), count / 8, seed);
      break;  // any nibble is a value
  }
  return check(cudaGetLastError(), "random data");
}

Status fill_e5m2(void* data, size_t count, cudaStream_t stream, unsigned seed) {
  fill<<<blocks_for(count), kThreads, 0, stream>>>(static_cast<__nv_fp8_e5m2*>(data), count, seed);
  return check(cudaGetLastError(), "random data");
}

void preload_kernels() {
  cudaFuncAttributes attributes{};
  const auto load = [&](auto* kernel) { cudaFuncGetAttributes(&attributes, kernel); };
  load(fill<float>), load(fill<__half>), load(fill<__nv_bfloat16>), load(fill<__nv_fp8_e4m3>);
  load(fill<__nv_fp8_e5m2>), load(fill_bits), load(triad), load(cast), load(adam), load(grad_norm);
  load(rows<PLAN_PROBE_RMSNORM>), load(rows<PLAN_PROBE_RMSNORM_BWD>), load(rows<PLAN_PROBE_SOFTMAX>);
  load(rows<PLAN_PROBE_SWIGLU>), load(rows<PLAN_PROBE_RESIDUAL>), load(rows<PLAN_PROBE_ROPE>);
  load(rows<PLAN_PROBE_CROSS_ENTROPY>);
}

Status measure_bandwidth(Device& device, const plan_probe_point& point, plan_probe_result& result) {
  const auto bytes = static_cast<size_t>(point.number[0]) / 16 * 16;
  const bool three = point.kind == PLAN_PROBE_TRIAD;
  Rotation turns;
  turns.plan(bytes, device.cache_bytes / 2);
  Buffer a, b, c;
  if (Status s = a.allocate(turns.total()); !s) return s;
  if (Status s = b.allocate(turns.total()); !s) return s;
  if (three)
    if (Status s = c.allocate(turns.total()); !s) return s;
  if (Status s = fill_random(a.as(), turns.total() / 4, PLAN_PROBE_FP32, device.stream, 1); !s) return s;
  if (Status s = fill_random(b.as(), turns.total() / 4, PLAN_PROBE_FP32, device.stream, 2); !s) return s;
  result.bytes = static_cast<double>(bytes) * (three ? 3 : 2);
  return sample(
      device, point,
      [&]() -> Status {
        const size_t turn = turns.next();
        const auto at = [&](const Buffer& buffer) { return reinterpret_cast<float4*>(buffer.as<char>() + turn); };
        if (!three) return check(cudaMemcpyAsync(at(b), at(a), bytes, cudaMemcpyDeviceToDevice, device.stream), "copy");
        triad<<<blocks_for(bytes / 16), kThreads, 0, device.stream>>>(at(a), at(b), at(c), bytes / 16);
        return check(cudaGetLastError(), "triad");
      },
      result);
}

Status measure_kernel(Device& device, const plan_probe_point& point, plan_probe_result& result) {
  const auto kernel = static_cast<int>(point.number[0]);
  const size_t count = static_cast<size_t>(point.number[1]) / kRow * kRow;
  constexpr double kBytes[] = {4, 6, 4, 6, 6, 4, 4, 6, 30, 4};
  if (kernel < 0 || kernel >= PLAN_PROBE_KERNELS || count == 0) return failed("no such kernel", PLAN_PROBE_UNSUPPORTED);
  const bool wide = kernel >= PLAN_PROBE_CAST;
  Rotation turns;  // `in` holds four bytes a value: one array of fp32, or two of bf16
  turns.plan(4 * count, device.cache_bytes / 2);
  Buffer in, out, m, v, g;
  if (Status s = in.allocate(turns.total()); !s) return s;
  if (Status s = out.allocate(turns.total()); !s) return s;
  const size_t values = turns.total() / (wide ? 4 : 2);
  if (Status s = fill_random(in.as(), values, wide ? PLAN_PROBE_FP32 : PLAN_PROBE_BF16, device.stream, 3); !s) return s;
  if (kernel == PLAN_PROBE_ADAM) {
    for (Buffer* state : {&m, &v, &g})
      if (Status s = state->allocate(turns.total()); !s) return s;
    cudaMemsetAsync(m.as(), 0, m.size(), device.stream);
    cudaMemsetAsync(v.as(), 0, v.size(), device.stream);
    if (Status s = fill_random(g.as(), g.size() / 4, PLAN_PROBE_FP32, device.stream, 4); !s) return s;
  }
  result.bytes = kBytes[kernel] * static_cast<double>(count);
  return sample(
      device, point,
      [&]() -> Status {
        const int blocks = blocks_for(count / 4);
        const size_t turn = turns.next();
        const auto at = [&](const Buffer& buffer) { return reinterpret_cast<float4*>(buffer.as<char>() + turn); };
        auto* narrow = reinterpret_cast<__nv_bfloat16*>(at(in));
        if (kernel == PLAN_PROBE_CAST)
          cast<<<blocks, kThreads, 0, device.stream>>>(at(in), reinterpret_cast<uint4*>(at(out)), count / 8);
        else if (kernel == PLAN_PROBE_ADAM)
          adam<<<blocks, kThreads, 0, device.stream>>>(at(in), at(m), at(v), at(g), reinterpret_cast<uint2*>(at(out)),
                                                       count / 4);
        else if (kernel == PLAN_PROBE_GRAD_NORM)
          grad_norm<<<std::min(blocks, 2048), kThreads, 0, device.stream>>>(at(in), out.as<float>(), count / 4);
        else
          launch_rows(kernel, static_cast<int>(count / kRow), narrow, narrow + count,
                      reinterpret_cast<__nv_bfloat16*>(at(out)), device.stream);
        return check(cudaGetLastError(), "launch");
      },
      result);
}

}  // namespace plan_cuda
