// A libcublasLt, libhipblaslt, libnccl or libcudnn for tests of where they are found: it states the version that its
// macro says.
#include <cstddef>

extern "C" {
#ifdef CUBLASLT_VERSION
std::size_t cublasLtGetVersion() { return CUBLASLT_VERSION; }
#endif
#ifdef HIPBLASLT_VERSION
int hipblasLtGetVersion(void* handle, int* version) { return *version = HIPBLASLT_VERSION, handle == nullptr ? 1 : 0; }
#endif
#ifdef NCCL_VERSION
int ncclGetVersion(int* version) { return *version = NCCL_VERSION, 0; }
#endif
#ifdef CUDNN_VERSION
std::size_t cudnnGetVersion() { return CUDNN_VERSION; }
#endif
}
