// GEMMs through cuBLASLt in the three orientations of training. Row-major m x n results are column-major n x m ones, so
// the operands change places: forward y = x W^T is cuBLAS's TN, the data gradient NN, the weight gradient NT with fp32
// accumulation into its result. Tensor cores take 8 and 4 bits as TN alone, so that training transposes operands while
// it casts them: the same three products, all as TN, gradients in e5m2.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "hwprobe/cuda/device.cuh"

namespace plan_cuda {
namespace {

constexpr int kChecked = 64;                 // results compared with a sum in fp32
constexpr int kE5m2 = PLAN_PROBE_NVFP4 + 1;  // format of fp8 gradients, beside plan_probe_format's

cudaDataType type_of(int format) {
  switch (format) {
    case PLAN_PROBE_FP32: return CUDA_R_32F;
    case PLAN_PROBE_FP16: return CUDA_R_16F;
    case PLAN_PROBE_BF16: return CUDA_R_16BF;
    case PLAN_PROBE_NVFP4: return CUDA_R_4F_E2M1;
    case kE5m2: return CUDA_R_8F_E5M2;
    default: return CUDA_R_8F_E4M3;
  }
}
size_t bytes_of(int format, size_t count) {
  switch (format) {
    case PLAN_PROBE_FP32: return 4 * count;
    case PLAN_PROBE_FP16:
    case PLAN_PROBE_BF16: return 2 * count;
    case PLAN_PROBE_NVFP4: return count / 2;
    default: return count;
  }
}
size_t rounded(size_t value, size_t to) { return (value + to - 1) / to * to; }

__device__ float value(const void* data, size_t i, int format) {
  switch (format) {
    case PLAN_PROBE_FP32: return static_cast<const float*>(data)[i];
    case PLAN_PROBE_FP16: return __half2float(static_cast<const __half*>(data)[i]);
    case PLAN_PROBE_BF16: return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]);
    case PLAN_PROBE_NVFP4: {
      constexpr float kMagnitudes[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
      const unsigned nibble = static_cast<const unsigned char*>(data)[i / 2] >> (i % 2 * 4) & 15u;
      return nibble & 8u ? -kMagnitudes[nibble & 7u] : kMagnitudes[nibble & 7u];
    }
    case kE5m2: return static_cast<float>(static_cast<const __nv_fp8_e5m2*>(data)[i]);
    default: return static_cast<float>(static_cast<const __nv_fp8_e4m3*>(data)[i]);
  }
}

/// Largest error of some results, over the root of the sum of squares of their terms.
__global__ void compare(const void* a, const void* b, const void* d, int format, int format_b, bool wide, bool trans_a,
                        bool trans_b, int rows, int columns, int depth, float* worst) {
  const int row = static_cast<int>((threadIdx.x * 7919ull) % rows),
            column = static_cast<int>((threadIdx.x * 104729ull) % columns);
  double sum = 0, squares = 0;
  for (int k = 0; k < depth; ++k) {
    const float x = value(a, trans_a ? size_t(row) * depth + k : size_t(k) * rows + row, format);
    const float y = value(b, trans_b ? size_t(k) * columns + column : size_t(column) * depth + k, format_b);
    sum += double(x) * y;
    squares += double(x) * x * y * y;
  }
  const size_t at = size_t(column) * rows + row;
  const float got = wide ? static_cast<const float*>(d)[at]
                         : value(d, at, format == PLAN_PROBE_FP16 ? PLAN_PROBE_FP16 : PLAN_PROBE_BF16);
  const float off = fabsf(got - float(sum)) / sqrtf(float(squares) + 1e-30f);
  atomicMax(reinterpret_cast<int*>(worst), __float_as_int(off));  // positive floats order as integers
}

}  // namespace

void preload_gemm() {
  cudaFuncAttributes attributes{};
  cudaFuncGetAttributes(&attributes, compare);
}

Gemm::~Gemm() {
  if (blas_.library == nullptr) return;
  if (operation_ != nullptr) blas_.end_operation(operation_);
  for (cublasLtMatrixLayout_t layout : {a_layout_, b_layout_, d_layout_})
    if (layout != nullptr) blas_.end_layout(layout);
}

/// Operands and results, as many copies of them as keep the cache from holding the next.
Status Gemm::allocate(Device& device, const plan_probe_point& point, size_t width_d) {
  constexpr size_t kMostCopies = 64;
  const auto rows = static_cast<size_t>(point.number[1]), columns = static_cast<size_t>(point.number[0]),
             depth = static_cast<size_t>(point.number[2]);
  Rotation a, b, d;
  a.plan(bytes_of(point.format, rows * depth), 0);
  b.plan(bytes_of(point.format, columns * depth), 0);
  d.plan(rows * columns * width_d, 0);
  a_stride_ = a.stride(), b_stride_ = b.stride(), d_stride_ = d.stride();
  copies_ = std::clamp<size_t>(2 * device.cache_bytes / (a_stride_ + b_stride_ + d_stride_) + 1, 1, kMostCopies);
  if (Status s = a_.allocate(copies_ * a_stride_); !s) return s;
  if (Status s = b_.allocate(copies_ * b_stride_); !s) return s;
  if (Status s = d_.allocate(copies_ * d_stride_); !s) return s;
  const size_t values_a = a_.size() / bytes_of(point.format, 2) * 2,
               values_b = b_.size() / bytes_of(point.format, 2) * 2;
  if (Status s = fill_random(a_.as(), values_a, point.format, device.stream, 5); !s) return s;
  if (Status s = format_b_ == kE5m2 ? fill_e5m2(b_.as(), values_b, device.stream, 6)
                                    : fill_random(b_.as(), values_b, point.format, device.stream, 6);
      !s)
    return s;
  return check(cudaMemsetAsync(d_.as(), 0, d_.size(), device.stream), "clearing");
}

Status Gemm::describe(const Device& device, const plan_probe_point& point, cudaDataType out) {
  const auto rows = static_cast<uint64_t>(point.number[1]), columns = static_cast<uint64_t>(point.number[0]),
             depth = static_cast<uint64_t>(point.number[2]);
  const cublasComputeType_t compute =
      point.format == PLAN_PROBE_FP32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  if (Status s = blas_.check(blas_.make_operation(&operation_, compute, CUDA_R_32F), "matmul descriptor"); !s) return s;
  const cublasOperation_t op_a = trans_a_ ? CUBLAS_OP_T : CUBLAS_OP_N, op_b = trans_b_ ? CUBLAS_OP_T : CUBLAS_OP_N;
  blas_.set_operation(operation_, CUBLASLT_MATMUL_DESC_TRANSA, &op_a, sizeof op_a);
  blas_.set_operation(operation_, CUBLASLT_MATMUL_DESC_TRANSB, &op_b, sizeof op_b);
  // Training in fp8 accumulates forward products in the tensor cores' own precision, and gradients exactly.
  const int8_t fast = point.format == PLAN_PROBE_FP8 && point.orientation == 0 ? 1 : 0;
  if (maker::kFastAccumulation) blas_.set_operation(operation_, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof fast);
  const auto layout = [&](cublasLtMatrixLayout_t& made, cudaDataType type, uint64_t high, uint64_t wide) {
    return blas_.check(
        blas_.make_layout(&made, maker::data_type(type, device.architecture), high, wide, static_cast<int64_t>(high)),
        "matrix layout");
  };
  if (Status s = layout(a_layout_, type_of(point.format), trans_a_ ? depth : rows, trans_a_ ? rows : depth); !s)
    return s;
  if (Status s = layout(b_layout_, type_of(format_b_), trans_b_ ? columns : depth, trans_b_ ? depth : columns); !s)
    return s;
  return layout(d_layout_, out, rows, columns);
}

/// Scales of narrow formats: one a tensor in fp8, one for 32 or 16 values else; all of them 1.
Status Gemm::scales(Device& device, const plan_probe_point& point) {
  const bool blocks = point.format != PLAN_PROBE_FP8;
  const auto depth = static_cast<size_t>(point.number[2]);
  const size_t per = point.format == PLAN_PROBE_NVFP4 ? 16 : 32;
  const auto fill = [&](Buffer& buffer, size_t lines) -> Status {
    if (!blocks) {
      const float one = 1;
      if (Status s = buffer.allocate(sizeof one); !s) return s;
      return check(cudaMemcpyAsync(buffer.as(), &one, sizeof one, cudaMemcpyHostToDevice, device.stream), "scale");
    }
    const size_t bytes = rounded(lines, 128) * rounded(depth / per, 4);
    if (Status s = buffer.allocate(bytes); !s) return s;
    return check(cudaMemsetAsync(buffer.as(), point.format == PLAN_PROBE_NVFP4 ? 0x38 : 0x7f, bytes, device.stream),
                 "scales");  // 1 in UE4M3, UE8M0
  };
  if (Status s = fill(scale_a_, static_cast<size_t>(point.number[1])); !s) return s;
  if (Status s = fill(scale_b_, static_cast<size_t>(point.number[0])); !s) return s;
  const void *pa = scale_a_.as(), *pb = scale_b_.as();
  blas_.set_operation(operation_, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &pa, sizeof pa);
  blas_.set_operation(operation_, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &pb, sizeof pb);
  if (!blocks) return ok();
  const cublasLtMatmulMatrixScale_t mode = point.format == PLAN_PROBE_NVFP4 ? CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3
                                                                            : CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0;
  blas_.set_operation(operation_, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, &mode, sizeof mode);
  blas_.set_operation(operation_, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, &mode, sizeof mode);
  return ok();
}

Status Gemm::prepare(Device& device, const plan_probe_point& point) {
  if (!device.no_blas.empty()) return failed(device.no_blas, PLAN_PROBE_UNSUPPORTED);
  point_ = point;
  const bool narrow = point.format >= PLAN_PROBE_FP8;
  trans_a_ = narrow || point.orientation == 0, trans_b_ = !narrow && point.orientation == 2;
  format_b_ = point.format == PLAN_PROBE_FP8 && point.orientation != 0 ? kE5m2 : point.format;
  const cudaDataType out = point.orientation == 2 || point.format == PLAN_PROBE_FP32 ? CUDA_R_32F
                           : narrow                                                  ? CUDA_R_16BF
                                                                                     : type_of(point.format);
  beta_ = point.orientation == 2 ? 1.0f : 0.0f;
  if (Status s = allocate(device, point, out == CUDA_R_32F ? 4 : 2); !s) return s;
  if (Status s = describe(device, point, out); !s) return s;
  if (narrow)
    if (Status s = scales(device, point); !s) return s;
  cublasLtMatmulPreference_t preference = nullptr;
  if (Status s = blas_.check(blas_.make_preference(&preference), "preference"); !s) return s;
  const size_t workspace = device.workspace.size();
  blas_.set_preference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t status = blas_.heuristic(blas_.handle, operation_, a_layout_, b_layout_, d_layout_, d_layout_,
                                                preference, 1, &found, &count);
  blas_.end_preference(preference);
  if (status != CUBLAS_STATUS_SUCCESS || count == 0)
    return failed(std::string(maker::kBlas) + " has no algorithm for this format on this GPU", PLAN_PROBE_UNSUPPORTED);
  algorithm_ = found.algo;  // the first choice is what frameworks get
  return device.wait(device.stream);
}

Status Gemm::launch_at(Device& device, cudaStream_t stream, size_t copy) const {
  const float alpha = 1;
  char* const d = d_.as<char>() + copy * d_stride_;
  return blas_.check(blas_.matmul(blas_.handle, operation_, &alpha, a_.as<char>() + copy * a_stride_, a_layout_,
                                  b_.as<char>() + copy * b_stride_, b_layout_, &beta_, d, d_layout_, d, d_layout_,
                                  &algorithm_, device.workspace.as(), device.workspace.size(), stream),
                     "matmul");
}

Status Gemm::launch(Device& device, cudaStream_t stream) const { return launch_at(device, stream, turn_++ % copies_); }

Status Gemm::verify(Device& device) {
  Buffer worst;
  if (Status s = worst.allocate(sizeof(float)); !s) return s;
  cudaMemsetAsync(worst.as(), 0, sizeof(float), device.stream);
  if (Status s = launch_at(device, device.stream, 0); !s) return s;
  const bool wide = point_.orientation == 2 || point_.format == PLAN_PROBE_FP32;
  compare<<<1, kChecked, 0, device.stream>>>(
      a_.as(), b_.as(), d_.as(), point_.format, format_b_, wide, trans_a_, trans_b_, static_cast<int>(point_.number[1]),
      static_cast<int>(point_.number[0]), static_cast<int>(point_.number[2]), worst.as<float>());
  if (Status s = device.wait(device.stream); !s) return s;
  float off = 0;
  cudaMemcpy(&off, worst.as(), sizeof off, cudaMemcpyDeviceToHost);
  if (!(off < 0.05f)) return failed("results differ from a sum in fp32", PLAN_PROBE_WRONG_RESULT);
  return ok();
}

Status measure_gemm(Device& device, const plan_probe_point& point, plan_probe_result& result) {
  Gemm gemm(device);
  if (Status s = gemm.prepare(device, point); !s) return s;
  if (Status s = gemm.verify(device); !s) return s;
  result.bytes = 2.0 * static_cast<double>(point.number[0]) * static_cast<double>(point.number[1]) *
                 static_cast<double>(point.number[2]);
  return sample(
      device, point, [&] { return gemm.launch(device, device.stream); }, result);
}

/// The rate at once, and after seconds at the power limit.
Status measure_sustained(Device& device, const plan_probe_point& point, plan_probe_result& result) {
  Gemm gemm(device);
  if (Status s = gemm.prepare(device, point); !s) return s;
  if (Status s = gemm.verify(device); !s) return s;  // launched once before the gate, too
  const auto begin = Clock::now();
  const auto passed = [&] { return since(begin); };
  std::vector<double> first, last;
  while (passed() < point.max_seconds) {
    double seconds = 0;
    if (Status s = device.time(
            5, [&] { return gemm.launch(device, device.stream); }, seconds);
        !s)
      return s;
    if (passed() < 0.05 || first.size() < 3) first.push_back(seconds);
    if (passed() > 0.6 * point.max_seconds) last.push_back(seconds);
  }
  std::sort(first.begin(), first.end());
  std::sort(last.begin(), last.end());
  if (last.empty()) last = first;
  result.took_part = 1;
  result.value[0] = first[first.size() / 2];
  result.value[1] = last[last.size() / 2];
  return ok();
}

}  // namespace plan_cuda
