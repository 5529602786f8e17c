// The vendor's libraries, loaded at run time: those that training uses, not those that this was built with.
// Tested by tests/hwprobe/device_test.cpp.
#include <dlfcn.h>

#include <cstdlib>

#include "hwprobe/cuda/device.cuh"

namespace plan_cuda {
namespace {

/// Looks a function up and remembers the first that is missing.
struct Finder {
  void* library;
  const char* missing = nullptr;
  template <class F>
  void operator()(F& function, const char* name) {
    function = reinterpret_cast<F>(dlsym(library, name));
    if (function == nullptr && missing == nullptr) missing = name;
  }
};

}  // namespace

void* open_library(const char* path, std::initializer_list<const char*> names, std::string& why) {
  if (path != nullptr) {
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) why = dlerror();
    return library;
  }
  for (const char* name : names) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL); library != nullptr) return library;
    if (why.empty()) why = dlerror();
  }
  return nullptr;
}

Status Blas::load(const char* path) {
  std::string why;
  // The interface is the same in both; what one lacks, such as scales of blocks in 12, it calls not supported.
#if CUDART_VERSION >= 13000
  void* opened = open_library(path, {"libcublasLt.so.13", "libcublasLt.so.12"}, why);
#else
  void* opened = open_library(path, {"libcublasLt.so.12", "libcublasLt.so.13"}, why);
#endif
  if (opened == nullptr) return failed("no cuBLASLt: " + why, PLAN_PROBE_UNSUPPORTED);
  Finder find{opened};
  find(create, "cublasLtCreate");
  find(version, "cublasLtGetVersion");
  find(words, "cublasLtGetStatusString");
  find(make_operation, "cublasLtMatmulDescCreate");
  find(end_operation, "cublasLtMatmulDescDestroy");
  find(set_operation, "cublasLtMatmulDescSetAttribute");
  find(make_layout, "cublasLtMatrixLayoutCreate");
  find(end_layout, "cublasLtMatrixLayoutDestroy");
  find(make_preference, "cublasLtMatmulPreferenceCreate");
  find(end_preference, "cublasLtMatmulPreferenceDestroy");
  find(set_preference, "cublasLtMatmulPreferenceSetAttribute");
  find(heuristic, "cublasLtMatmulAlgoGetHeuristic");
  find(matmul, "cublasLtMatmul");
  if (find.missing != nullptr)
    return failed(std::string("this libcublasLt lacks ") + find.missing, PLAN_PROBE_UNSUPPORTED);
  if (const cublasStatus_t started = create(&handle); started != CUBLAS_STATUS_SUCCESS)
    return failed(std::string("cuBLASLt does not start: ") + words(started), PLAN_PROBE_UNSUPPORTED);
  library = opened;
  return ok();
}

Status Blas::check(cublasStatus_t status, const char* what) const {
  if (status == CUBLAS_STATUS_SUCCESS) return ok();
  const int code = status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_ARCH_MISMATCH
                       ? PLAN_PROBE_UNSUPPORTED
                       : PLAN_PROBE_FAILED;
  return failed(std::string(what) + ": " + words(status), code);
}

std::string Blas::version_text() const {
  const size_t v = library == nullptr ? 0 : version();
  return v == 0 ? "" : std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." + std::to_string(v % 100);
}

Status Nccl::load(const char* path) {
  if (library != nullptr) return ok();
  std::string why;
  void* opened = open_library(path, {"libnccl.so.2"}, why);
  if (opened == nullptr) return failed("no NCCL: " + why, PLAN_PROBE_UNSUPPORTED);
  Finder find{opened};
  find(version, "ncclGetVersion");
  find(unique_id, "ncclGetUniqueId");
  find(init, "ncclCommInitRankConfig");
  find(split, "ncclCommSplit");
  find(async_error, "ncclCommGetAsyncError");
  find(abort, "ncclCommAbort");
  find(all_reduce, "ncclAllReduce");
  find(all_gather, "ncclAllGather");
  find(reduce_scatter, "ncclReduceScatter");
  find(broadcast, "ncclBroadcast");
  find(send, "ncclSend");
  find(recv, "ncclRecv");
  find(group_start, "ncclGroupStart");
  find(group_end, "ncclGroupEnd");
  find(error_string, "ncclGetErrorString");
  if (find.missing != nullptr)
    return failed(std::string("this libnccl is older than 2.18: it lacks ") + find.missing, PLAN_PROBE_UNSUPPORTED);
  library = opened;
  return ok();
}

}  // namespace plan_cuda
