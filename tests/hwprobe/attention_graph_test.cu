// cuDNN builds plans for the attention graphs of `plan probe` on GPUs that are only described to it: it recognises both
// graphs as attention, has engines for them and compiles their kernels. Needs no GPU, but a libcudnn (PLAN_TEST_CUDNN),
// NVRTC and cuBLAS on the library path.
//     attention_graph_test DRIVER_DOUBLE
#include "hwprobe/cuda/attention_graph.cuh"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

using namespace plan_cuda;
using namespace plan_cuda::dnn;

namespace {

struct Described {
  const char* name;
  int version;  ///< compute capability times 100
  int processors, shared_per_block;
};
constexpr Described kGpus[] = {{"A100", 800, 108, 166912}, {"H100", 900, 132, 232448}, {"B200", 1000, 148, 232448}};

/// Limits that these GPUs share, from the tables of CUDA's programming guide; clocks are any.
std::string json_of(const Described& gpu) {
  const auto field = [](const char* name, long value) {
    return std::string(",\"") + name + "\":" + std::to_string(value);
  };
  return std::string("{\"deviceName\":\"") + gpu.name +
         "\",\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64]" + field("regsPerBlock", 65536) +
         field("maxRegistersPerSM", 65536) + field("multiProcessorCount", gpu.processors) + field("warpSize", 32) +
         field("maxSharedMemoryPerBlock", 49152) + field("maxSharedMemoryPerBlockOptin", gpu.shared_per_block) +
         field("reservedSharedMemoryPerBlock", 1024) + field("maxCtasPerSM", 32) + field("maxThreadsPerBlock", 1024) +
         field("maxThreadsPerSM", 2048) + field("pciDeviceId", 0) + field("isTccDriver", 0) +
         field("supportCoopLaunch", 1) + field("totalGlobalMem", 80l << 30) + field("smClockRateKHz", 1500000) +
         field("memClockRateKHz", 2500000) + field("l2CacheSize", 50l << 20) + field("cudaDeviceId", 0) +
         field("deviceVer", gpu.version) + field("driverVer", 13000) + "}";
}

constexpr AttentionGraphShape kShapes[] = {
    {1, 16, 2, 4096, 128}, {2, 8, 8, 2048, 64}, {1, 16, 16, 8192, 128}, {4, 32, 8, 1024, 128}};

int failures = 0, plans = 0;

void build(Library& library, const Described& gpu, const AttentionGraphShape& shape, bool backward) {
  Graph graph(library);
  if (backward)
    backward_graph(graph, shape);
  else
    forward_graph(graph, shape);
  size_t workspace = 0;
  const Status status = graph.build(workspace);
  ++(status ? plans : failures);
  if (!status)
    std::printf("%s, %s, %ld heads over %ld, sequence %ld, width %ld: %s\n", gpu.name,
                backward ? "backward" : "forward", long(shape.heads), long(shape.kv_heads), long(shape.seq),
                long(shape.dim), status.words.c_str());
}

}  // namespace

int main(int count, char** arguments) {
  const char* path = std::getenv("PLAN_TEST_CUDNN");
  if (path == nullptr || count < 2) {
    std::puts("skipped: PLAN_TEST_CUDNN names no libcudnn.so.9");
    return 0;
  }
  if (dlopen(arguments[1], RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    std::puts(dlerror());
    return 1;
  }
  for (const Described& gpu : kGpus) {
    Library library;
    Status status = library.load(path);
    if (status) status = library.build_for(json_of(gpu));
    if (!status) {
      std::printf("%s: %s\n", gpu.name, status.words.c_str());
      return 1;
    }
    for (const AttentionGraphShape& shape : kShapes)
      for (const bool backward : {false, true}) build(library, gpu, shape, backward);
  }
  std::printf("%d plans built, %d refused\n", plans, failures);
  return failures > 0 ? 1 : 0;
}
