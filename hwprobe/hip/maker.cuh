// What AMD's GPUs differ in from NVIDIA's beyond spelling; hwprobe/cuda/maker.cuh says what each of these is for.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <cctype>
#include <initializer_list>
#include <string>

namespace plan_cuda::maker {

inline constexpr const char *kBlas = "hipBLASLt", *kNccl = "RCCL";
inline constexpr std::initializer_list<const char*> kBlasFiles = {"libhipblaslt.so.1", "libhipblaslt.so.0"};
inline constexpr std::initializer_list<const char*> kNcclFiles = {"librccl.so.1"};
inline constexpr const char *kBlasPrefix = "hipblasLt", *kBlasVersion = "hipblasLtGetVersion", *kBlasWords = nullptr;
inline constexpr const char* kBlocking = "HIP_LAUNCH_BLOCKING";
inline constexpr const char* kNoAttention = "attention is measured through cuDNN, which AMD's GPUs do not have";
inline constexpr bool kFastAccumulation = false;

inline std::string blas_version(void* function, cublasLtHandle_t handle) {
  int v = 0;
  if (reinterpret_cast<cublasStatus_t (*)(cublasLtHandle_t, int*)>(function)(handle, &v) != CUBLAS_STATUS_SUCCESS)
    return {};
  return std::to_string(v / 100000) + "." + std::to_string(v / 100 % 1000) + "." + std::to_string(v % 100);
}
inline std::string blas_words(void*, cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_NOT_INITIALIZED: return "not initialised";
    case CUBLAS_STATUS_INTERNAL_ERROR: return "an internal operation failed";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "not supported";
    case CUBLAS_STATUS_ARCH_MISMATCH: return "not for this architecture";
    default: return "status " + std::to_string(static_cast<int>(status));
  }
}
/// The MI300 series computes in fp8 without a negative zero.
inline cudaDataType data_type(cudaDataType type, const std::string& architecture) {
  if (architecture.compare(0, 5, "gfx94") != 0) return type;
  return type == CUDA_R_8F_E4M3 ? PLAN_R_8F_E4M3_FNUZ : type == CUDA_R_8F_E5M2 ? PLAN_R_8F_E5M2_FNUZ : type;
}

inline std::string runtime_version() {
  int version = 0;
  static_cast<void>(hipRuntimeGetVersion(&version));
  return std::to_string(version / 10000000) + "." + std::to_string(version / 100000 % 100);
}
/// "gfx942", without the switches that may follow.
inline std::string architecture(const hipDeviceProp_t& properties) {
  const std::string name = properties.gcnArchName;
  return name.substr(0, name.find(':'));
}
/// The driver's sixteen letters: "GPU-" and the GPU's number in hexadecimal digits, as ROCR_VISIBLE_DEVICES takes it.
inline std::string uuid(int device, const hipDeviceProp_t&) {
  hipUUID id{};
  std::string text = "GPU-";
  if (hipDeviceGetUuid(&id, device) != hipSuccess) return {};
  for (const char letter : id.bytes)
    if (std::isxdigit(static_cast<unsigned char>(letter)) != 0) text += letter;
  return text;
}

}  // namespace plan_cuda::maker
