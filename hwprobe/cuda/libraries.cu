// The vendor's libraries, loaded at run time: those that training uses, not those that this was built with.
// Tested by tests/hwprobe/device_figures_test.cpp.
#include <dlfcn.h>

#include <cstdlib>

#include "hwprobe/cuda/device.cuh"

namespace plan_cuda {
namespace {

/// Looks a function up by its name behind a prefix, and remembers the first that is missing.
struct Finder {
  void* library;
  const char* prefix;
  std::string missing{};
  template <class F>
  void operator()(F& function, const char* name) {
    const std::string whole = std::string(prefix) + name;
    function = reinterpret_cast<F>(dlsym(library, whole.c_str()));
    if (function == nullptr && missing.empty()) missing = whole;
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
  void* opened = open_library(path, maker::kBlasFiles, why);
  if (opened == nullptr) return failed(std::string("no ") + maker::kBlas + ": " + why, PLAN_PROBE_UNSUPPORTED);
  Finder find{opened, maker::kBlasPrefix};
  find(create, "Create");
  find(make_operation, "MatmulDescCreate");
  find(end_operation, "MatmulDescDestroy");
  find(set_operation, "MatmulDescSetAttribute");
  find(make_layout, "MatrixLayoutCreate");
  find(end_layout, "MatrixLayoutDestroy");
  find(make_preference, "MatmulPreferenceCreate");
  find(end_preference, "MatmulPreferenceDestroy");
  find(set_preference, "MatmulPreferenceSetAttribute");
  find(heuristic, "MatmulAlgoGetHeuristic");
  find(matmul, "Matmul");
  Finder whole{opened, ""};
  whole(version, maker::kBlasVersion);
  if (maker::kBlasWords != nullptr) whole(words, maker::kBlasWords);
  if (const std::string& missing = find.missing.empty() ? whole.missing : find.missing; !missing.empty())
    return failed(std::string("this ") + maker::kBlas + " lacks " + missing, PLAN_PROBE_UNSUPPORTED);
  if (const cublasStatus_t started = create(&handle); started != CUBLAS_STATUS_SUCCESS)
    return failed(std::string(maker::kBlas) + " does not start: " + maker::blas_words(words, started),
                  PLAN_PROBE_UNSUPPORTED);
  library = opened;
  return ok();
}

Status Blas::check(cublasStatus_t status, const char* what) const {
  if (status == CUBLAS_STATUS_SUCCESS) return ok();
  const int code = status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_ARCH_MISMATCH
                       ? PLAN_PROBE_UNSUPPORTED
                       : PLAN_PROBE_FAILED;
  return failed(std::string(what) + ": " + maker::blas_words(words, status), code);
}

std::string Blas::version_text() const { return library == nullptr ? "" : maker::blas_version(version, handle); }

Status Nccl::load(const char* path) {
  if (library != nullptr) return ok();
  std::string why;
  void* opened = open_library(path, maker::kNcclFiles, why);
  if (opened == nullptr) return failed(std::string("no ") + maker::kNccl + ": " + why, PLAN_PROBE_UNSUPPORTED);
  Finder find{opened, "nccl"};
  find(version, "GetVersion");
  find(unique_id, "GetUniqueId");
  find(init, "CommInitRankConfig");
  find(split, "CommSplit");
  find(async_error, "CommGetAsyncError");
  find(abort, "CommAbort");
  find(all_reduce, "AllReduce");
  find(all_gather, "AllGather");
  find(reduce_scatter, "ReduceScatter");
  find(broadcast, "Broadcast");
  find(send, "Send");
  find(recv, "Recv");
  find(group_start, "GroupStart");
  find(group_end, "GroupEnd");
  find(error_string, "GetErrorString");
  if (!find.missing.empty())
    return failed(std::string("this ") + maker::kNccl + " is older than 2.18: it lacks " + find.missing,
                  PLAN_PROBE_UNSUPPORTED);
  library = opened;
  return ok();
}

}  // namespace plan_cuda
