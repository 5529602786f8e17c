// hipBLASLt's interface under cuBLASLt's names, of which it is a copy with numbers of its own; Debian does not have its
// header: only what the plugin calls. What this version lacks it answers with "not supported", and the point is
// skipped. Sources: library/include/hipblaslt.h of github.com/ROCm/hipBLASLt, hipblas-common.h, hip/library_types.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

#define cublasLtCreate hipblasLtCreate
#define cublasLtMatmul hipblasLtMatmul
#define cublasLtMatmulAlgoGetHeuristic hipblasLtMatmulAlgoGetHeuristic
#define cublasLtMatmulDescCreate hipblasLtMatmulDescCreate
#define cublasLtMatmulDescDestroy hipblasLtMatmulDescDestroy
#define cublasLtMatmulDescSetAttribute hipblasLtMatmulDescSetAttribute
#define cublasLtMatmulPreferenceCreate hipblasLtMatmulPreferenceCreate
#define cublasLtMatmulPreferenceDestroy hipblasLtMatmulPreferenceDestroy
#define cublasLtMatmulPreferenceSetAttribute hipblasLtMatmulPreferenceSetAttribute
#define cublasLtMatrixLayoutCreate hipblasLtMatrixLayoutCreate
#define cublasLtMatrixLayoutDestroy hipblasLtMatrixLayoutDestroy

extern "C" {
/// hipblasStatus_t.
enum cublasStatus_t {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1,
  CUBLAS_STATUS_INTERNAL_ERROR = 6,
  CUBLAS_STATUS_NOT_SUPPORTED = 7,
  CUBLAS_STATUS_ARCH_MISMATCH = 8
};
/// hipDataType.
enum cudaDataType : int {
  CUDA_R_32F = 0,
  CUDA_R_16F = 2,
  CUDA_R_16BF = 14,
  CUDA_R_8F_E4M3 = 28,
  CUDA_R_8F_E5M2 = 29,
  CUDA_R_4F_E2M1 = 33,
  PLAN_R_8F_E4M3_FNUZ = 1000,
  PLAN_R_8F_E5M2_FNUZ = 1001
};
/// hipblasComputeType_t, hipblasOperation_t.
enum cublasComputeType_t { CUBLAS_COMPUTE_32F = 2, CUBLAS_COMPUTE_32F_FAST_TF32 = 6 };
enum cublasOperation_t { CUBLAS_OP_N = 111, CUBLAS_OP_T = 112 };
/// hipblasLtMatmulDescAttributes_t; the modes of scales are there since ROCm 7.
enum cublasLtMatmulDescAttributes_t {
  CUBLASLT_MATMUL_DESC_TRANSA = 0,
  CUBLASLT_MATMUL_DESC_TRANSB = 1,
  CUBLASLT_MATMUL_DESC_A_SCALE_POINTER = 5,
  CUBLASLT_MATMUL_DESC_B_SCALE_POINTER = 6,
  CUBLASLT_MATMUL_DESC_A_SCALE_MODE = 31,
  CUBLASLT_MATMUL_DESC_B_SCALE_MODE = 32,
  CUBLASLT_MATMUL_DESC_FAST_ACCUM = -1  ///< the matrix cores know no such thing: refused, and left as it is
};
enum cublasLtMatmulMatrixScale_t {
  CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3 = 1,
  CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0 = 2
};
enum cublasLtMatmulPreferenceAttributes_t { CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1 };

using cublasLtHandle_t = void*;
struct cublasLtMatmulDescOpaque_t {
  std::uint64_t data[4];
};
struct cublasLtMatrixLayoutOpaque_t {
  std::uint64_t data[4];
};
struct cublasLtMatmulPreferenceOpaque_t {
  std::uint64_t data[5];
};
using cublasLtMatmulDesc_t = cublasLtMatmulDescOpaque_t*;
using cublasLtMatrixLayout_t = cublasLtMatrixLayoutOpaque_t*;
using cublasLtMatmulPreference_t = cublasLtMatmulPreferenceOpaque_t*;
struct cublasLtMatmulAlgo_t {
  std::uint8_t data[16];
  std::size_t max_workspace_bytes;
};
struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
  std::size_t workspaceSize;
  cublasStatus_t state;
  float wavesCount;
  int reserved[4];
};

cublasStatus_t hipblasLtGetVersion(cublasLtHandle_t handle, int* version);
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle);
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t compute, cudaDataType scale);
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation);
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes);
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType type, std::uint64_t rows,
                                          std::uint64_t columns, std::int64_t leading);
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout);
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made);
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference);
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    std::size_t bytes);
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t* found, int* count);
cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t workspace_bytes, hipStream_t stream);
}
