// A libcublasLt, or libhipblaslt, whose products take the time that the laws say, and compute nothing.
#include <cublasLt.h>

#include <cstring>

#include "streams.hpp"
#include "truth.hpp"

namespace {

struct Layout {
  cudaDataType type;
  std::uint64_t rows, columns;
};
Layout& layout(cublasLtMatrixLayout_t opaque) { return *reinterpret_cast<Layout*>(opaque); }

double width(cudaDataType type) {
  switch (type) {
    case CUDA_R_32F: return 4;
    case CUDA_R_16F:
    case CUDA_R_16BF: return 2;
    case CUDA_R_4F_E2M1: return 0.5;
    default: return 1;
  }
}
double size(const Layout& l) { return static_cast<double>(l.rows) * static_cast<double>(l.columns) * width(l.type); }

}  // namespace

extern "C" {
#ifdef __HIP_PLATFORM_AMD__
cublasStatus_t hipblasLtGetVersion(cublasLtHandle_t handle, int* version) {
  return *version = 1000, handle == nullptr ? CUBLAS_STATUS_NOT_INITIALIZED : CUBLAS_STATUS_SUCCESS;
}
/// The MI300 series has no products of the Open Compute Project's formats, and what came after has no others.
cudaDataType none() { return truth::setting("gpu") == "mi355x" ? PLAN_R_8F_E4M3_FNUZ : CUDA_R_8F_E4M3; }
#else
std::size_t cublasLtGetVersion() { return 130100; }
const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED    ? "the requested functionality is not supported"
         : status == CUBLAS_STATUS_INTERNAL_ERROR ? "an internal operation failed"
                                                  : "a status of the device that answers";
}
cudaDataType none() { return CUDA_R_4F_E2M1; }  // an H100 has none for four bits
#endif
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  static int something;
  if (!truth::of_rank("no_blas", answering::own_rank()).empty()) return CUBLAS_STATUS_NOT_INITIALIZED;
  return *handle = reinterpret_cast<cublasLtHandle_t>(&something), CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* out, cublasComputeType_t, cudaDataType) {
  return *out = new cublasLtMatmulDescOpaque_t{}, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) { return delete d, CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t) {
#ifdef __HIP_PLATFORM_AMD__
  if (attribute == CUBLASLT_MATMUL_DESC_FAST_ACCUM)
    return answering::note("no such attribute"), CUBLAS_STATUS_NOT_SUPPORTED;
#endif
  if (attribute == CUBLASLT_MATMUL_DESC_FAST_ACCUM) d->data[0] = *static_cast<const std::int8_t*>(value) != 0 ? 1 : 0;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* out, cudaDataType type, std::uint64_t rows,
                                          std::uint64_t columns, std::int64_t) {
  *out = new cublasLtMatrixLayoutOpaque_t{};
  static_assert(sizeof(Layout) <= sizeof(cublasLtMatrixLayoutOpaque_t));
  layout(*out) = {type, rows, columns};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t d) { return delete d, CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* out) {
  return *out = new cublasLtMatmulPreferenceOpaque_t{}, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t d) { return delete d, CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
                                                    const void*, std::size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t, int, cublasLtMatmulHeuristicResult_t* found,
                                              int* count) {
  *count = layout(a).type == CUDA_R_4F_E2M1 || layout(a).type == none() ? 0 : 1;
  if (*count > 0) *found = {};
  return *count > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t operation, const void*, const void* first,
                              cublasLtMatrixLayout_t a, const void*, cublasLtMatrixLayout_t b, const void*, const void*,
                              cublasLtMatrixLayout_t, void*, cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t*,
                              void*, std::size_t, cudaStream_t stream) {
  const Layout &x = layout(a), &y = layout(b), &z = layout(d);
  const auto m = static_cast<double>(z.rows), n = static_cast<double>(z.columns);
  const double k = static_cast<double>(x.rows) * static_cast<double>(x.columns) / m;
  const std::string failing = truth::of_rank("fail_gemm", answering::own_rank());  // the depth of one product
  if (!failing.empty() && std::atof(failing.c_str()) == k && m == n) return CUBLAS_STATUS_INTERNAL_ERROR;
  const bool narrow = width(x.type) <= 1;
  const double faster = narrow ? (operation->data[0] != 0 ? 1.9 : 1.6) : width(x.type) > 2 ? 0.5 : 1;
  const std::string slow = truth::of_rank("slow", answering::own_rank());
  const double slower = slow.empty() ? 1 : std::atof(slow.c_str());
  answering::host_pass(3e-6);
  const double bytes = size(x) + size(y) + size(z), rate = answering::in_cache(first, bytes) ? 3 : 1;
  answering::enqueue(stream, {answering::Unit::Compute, slower * truth::gemm_seconds(m, n, k, bytes / rate, faster)});
  return CUBLAS_STATUS_SUCCESS;
}
}
