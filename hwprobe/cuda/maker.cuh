// What differs between the makers of GPUs beyond spelling, which hwprobe/hip/include translates.
#pragma once

#ifdef __HIP_PLATFORM_AMD__
#include "hwprobe/hip/maker.cuh"
#else
#include <cublasLt.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <initializer_list>
#include <string>

namespace plan_cuda::maker {

inline constexpr const char *kBlas = "cuBLASLt", *kNccl = "NCCL";
/// Libraries by their names, the first that is there: the interface of cuBLASLt is the same in both releases; what one
/// lacks, such as scales of blocks in 12, it calls not supported.
#if CUDART_VERSION >= 13000
inline constexpr std::initializer_list<const char*> kBlasFiles = {"libcublasLt.so.13", "libcublasLt.so.12"};
#else
inline constexpr std::initializer_list<const char*> kBlasFiles = {"libcublasLt.so.12", "libcublasLt.so.13"};
#endif
inline constexpr std::initializer_list<const char*> kNcclFiles = {"libnccl.so.2"};
inline constexpr const char *kBlasPrefix = "cublasLt", *kBlasVersion = "cublasLtGetVersion",
                            *kBlasWords = "cublasLtGetStatusString";
inline constexpr const char* kBlocking = "CUDA_LAUNCH_BLOCKING";
inline constexpr const char* kNoAttention = "there is no libcudnn.so.9";
/// Whether forward products in fp8 can be summed in the matrix cores' own precision.
inline constexpr bool kFastAccumulation = true;

/// Version of the BLAS; `function` is kBlasVersion's.
inline std::string blas_version(void* function, cublasLtHandle_t) {
  const size_t v = reinterpret_cast<size_t (*)()>(function)();
  return std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." + std::to_string(v % 100);
}
/// Words for a status; `function` is kBlasWords'.
inline std::string blas_words(void* function, cublasStatus_t status) {
  return reinterpret_cast<const char* (*)(cublasStatus_t)>(function)(status);
}
/// The type that a GPU of this architecture computes with.
inline cudaDataType data_type(cudaDataType type, const std::string&) { return type; }

/// "13.0".
inline std::string runtime_version() {
  int version = 0;
  cudaRuntimeGetVersion(&version);
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}
/// "9.0".
inline std::string architecture(const cudaDeviceProp& properties) {
  return std::to_string(properties.major) + "." + std::to_string(properties.minor);
}
/// As the management library writes it: "GPU-", then 32 digits in five groups.
inline std::string uuid(int, const cudaDeviceProp& properties) {
  std::string text = "GPU";
  for (int i = 0; i < 16; ++i) {
    char byte[4];
    std::snprintf(byte, sizeof byte, "%02x", static_cast<unsigned char>(properties.uuid.bytes[i]));
    text += (i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "") + std::string(byte);
  }
  return text;
}

}  // namespace plan_cuda::maker
#endif
