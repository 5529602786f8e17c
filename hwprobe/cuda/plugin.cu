// The measuring plugin: opening a device and the table of functions of plugin_abi.h.
// Tested by tests/hwprobe/device_figures_test.cpp on a device whose times are known.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "hwprobe/cuda/device.cuh"

namespace plan_cuda {
namespace {

constexpr size_t kWorkspace = 32u << 20, kSmall = 1u << 16;
constexpr double kLeaving = 1;  // seconds that a thread gets to notice that it has to stop

Status measure_memory_ladder(Device& device, plan_probe_result& result) {
  result.took_part = 1;
  result.value[0] = device.total_bytes;
  result.value[1] = device.free_bytes + device.context_bytes;
  result.value[2] = device.context_bytes;
  result.value[3] = static_cast<double>(device.workspace.size());
  return ok();
}

Status open_device(Device& device, plan_probe_device& facts) {
  if (Status s = check(cudaSetDevice(device.setup.device), "choosing the GPU"); !s) return s;
  cudaDeviceProp properties{};
  if (Status s = check(cudaGetDeviceProperties(&properties, device.setup.device), "its properties"); !s) return s;
  if (Status s = check(cudaFree(nullptr), "making a context"); !s) return s;
  size_t free_bytes = 0, total = 0;
  if (Status s = check(cudaMemGetInfo(&free_bytes, &total), "its free memory"); !s) return s;
  device.total_bytes = static_cast<double>(total);
  device.free_bytes = static_cast<double>(free_bytes);
  if (Status s = check(cudaStreamCreateWithFlags(&device.stream, cudaStreamNonBlocking), "a stream"); !s) return s;
  if (Status s = check(cudaStreamCreateWithFlags(&device.second, cudaStreamNonBlocking), "a stream"); !s) return s;
  cudaEventCreate(&device.begin);
  cudaEventCreate(&device.end);
  if (Status s =
          check(cudaHostAlloc(reinterpret_cast<void**>(&device.gate), sizeof(int), cudaHostAllocMapped), "a flag");
      !s)
    return s;
  if (Status s = device.workspace.allocate(kWorkspace); !s) return s;
  if (Status s = device.small.allocate(kSmall); !s) return s;
  preload_timing(), preload_kernels(), preload_gemm(), preload_attention();
  if (const Status loaded = device.blas.load(device.setup.cublas_library); !loaded) device.no_blas = loaded.words;
  size_t now_free = 0;
  cudaMemGetInfo(&now_free, &total);
  // What the total lacks of the free memory is the driver's reserve and this context; on an idle GPU nothing else.
  device.context_bytes =
      std::max(0.0, device.total_bytes - static_cast<double>(now_free) - static_cast<double>(kWorkspace + kSmall));
  const auto put = [](auto& field, const std::string& text) { std::snprintf(field, sizeof field, "%s", text.c_str()); };
  device.architecture = maker::architecture(properties);
  put(facts.name, properties.name);
  put(facts.uuid, maker::uuid(device.setup.device, properties));
  put(facts.capability, device.architecture);
  put(facts.runtime, maker::runtime_version());
  cudaDeviceGetPCIBusId(facts.pci_bus, sizeof facts.pci_bus, device.setup.device);
  facts.total_bytes = static_cast<int64_t>(total);
  facts.free_bytes = static_cast<int64_t>(free_bytes);
  facts.l2_bytes = properties.l2CacheSize;
  device.cache_bytes = static_cast<size_t>(std::max(0, properties.l2CacheSize));
  facts.sm_count = properties.multiProcessorCount;
  cudaGetDeviceCount(&facts.devices);
  put(facts.cublas, device.blas.version_text());
  put(facts.cudnn, cudnn_version(device));
  int version = 0;
  device.nccl_log.ask_for();
  if (device.nccl.load(device.setup.nccl_library) && device.nccl.version(&version) == ncclSuccess)
    std::snprintf(facts.nccl, sizeof facts.nccl, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
  return ok();
}

Status measure_point(Device& device, const plan_probe_point& point, plan_probe_result& result) {
  switch (point.kind) {
    case PLAN_PROBE_MEMORY: return measure_memory_ladder(device, result);
    case PLAN_PROBE_COPY:
    case PLAN_PROBE_TRIAD: return measure_bandwidth(device, point, result);
    case PLAN_PROBE_GEMM: return measure_gemm(device, point, result);
    case PLAN_PROBE_SUSTAINED: return measure_sustained(device, point, result);
    case PLAN_PROBE_KERNEL: return measure_kernel(device, point, result);
    case PLAN_PROBE_HOST_LINK: return measure_host_link(device, point, result);
    case PLAN_PROBE_PAIR: return measure_pair(device, point, result);
    case PLAN_PROBE_COLLECTIVE: return measure_collective(device, point, result);
    case PLAN_PROBE_NCCL_MEMORY: return measure_nccl_memory(device, point, result);
    case PLAN_PROBE_OVERLAP: return measure_overlap(device, point, result);
    case PLAN_PROBE_ATTENTION: return measure_attention(device, point, result);
    default: return failed("this plugin knows no such measurement", PLAN_PROBE_UNSUPPORTED);
  }
}

int reported(const Status& status, char* error, size_t size) {
  if (!status && error != nullptr && size > 0) std::snprintf(error, size, "%s", status.words.c_str());
  return status.code;
}

int open_entry(const plan_probe_setup* setup, void** state, plan_probe_device* facts, char* error, size_t size) {
  // A blocking launch never returns behind a closed gate.
  unsetenv(maker::kBlocking);
  auto* device = new Device;
  device->setup = *setup;
  const Status opened = open_device(*device, *facts);
  if (opened)
    *state = device;
  else
    delete device;
  return reported(opened, error, size);
}

int supports_entry(void* state, const plan_probe_point* point, char* error, size_t size) {
  auto& device = *static_cast<Device*>(state);
  if (point->kind == PLAN_PROBE_ATTENTION && cudnn_version(device).empty())
    return reported(failed(maker::kNoAttention, PLAN_PROBE_UNSUPPORTED), error, size);
  return PLAN_PROBE_OK;
}

int unique_id_entry(void* state, unsigned char id[PLAN_PROBE_ID_BYTES], char* error, size_t size) {
  auto& device = *static_cast<Device*>(state);
  if (const Status loaded = device.nccl.load(device.setup.nccl_library); !loaded) return reported(loaded, error, size);
  ncclUniqueId made{};
  static_assert(sizeof made == PLAN_PROBE_ID_BYTES);
  if (const ncclResult_t r = device.nccl.unique_id(&made); r != ncclSuccess)
    return reported(failed(device.nccl.error_string(r)), error, size);
  std::memcpy(id, &made, sizeof made);
  return PLAN_PROBE_OK;
}

/// What a failure means for what comes after: an error that stays makes the device useless for the rest.
Status seen_through(Device& device, Status status) {
  if (status || status.code != PLAN_PROBE_FAILED) return status;
  const cudaError_t left = cudaStreamQuery(device.stream);
  if (left == cudaSuccess || left == cudaErrorNotReady) return status;
  Buffer::abandoned = true;
  return failed(status.words, PLAN_PROBE_LOST);
}

int join_entry(void* state, const unsigned char id[PLAN_PROBE_ID_BYTES], char* error, size_t size) {
  auto& device = *static_cast<Device*>(state);
  const std::lock_guard<std::timed_mutex> busy(device.measuring);
  cudaSetDevice(device.setup.device);  // each call comes on a thread of its own
  return reported(join_world(device, id), error, size);
}

int measure_entry(void* state, const plan_probe_point* point, plan_probe_result* result, char* error, size_t size) {
  auto& device = *static_cast<Device*>(state);
  const std::lock_guard<std::timed_mutex> busy(device.measuring);
  *result = {};
  if (device.stopped) return reported(failed("told to stop", PLAN_PROBE_ABORTED), error, size);
  cudaSetDevice(device.setup.device);
  return reported(seen_through(device, measure_point(device, *point, *result)), error, size);
}

/// The thread that measures ends its communicators itself when it sees that it is to stop. Only one that hangs in a
/// call of the driver is helped from here: that call returns when the kernel of its communicator has ended.
void stop_entry(void* state) {
  auto& device = *static_cast<Device*>(state);
  device.stopped = true;
  const std::unique_lock<std::timed_mutex> ended(device.measuring, std::chrono::duration<double>(kLeaving));
  device.abort_communicators();
}

/// The process ends with the probe: the driver frees what a thread that hangs may still hold.
void close_entry(void*) {}

constexpr plan_probe_backend kBackend{PLAN_PROBE_ABI,  sizeof(plan_probe_backend),
                                      open_entry,      supports_entry,
                                      unique_id_entry, join_entry,
                                      measure_entry,   stop_entry,
                                      close_entry,     CUDART_VERSION};

}  // namespace
}  // namespace plan_cuda

extern "C" __attribute__((visibility("default"))) const plan_probe_backend* plan_probe_backend_v1(void) {
  return &plan_cuda::kBackend;
}
