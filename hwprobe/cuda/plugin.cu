// The measuring plugin for NVIDIA GPUs: opening a device, timing, and the table of functions of plugin_abi.h.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <thread>

#include "hwprobe/cuda/device.cuh"

namespace plan_cuda {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kBatchSeconds = 200e-6;  // long against the resolution of events
constexpr int kMostBatch = 100, kWarmUps = 5, kMostWarmUps = 30;
constexpr size_t kWorkspace = 32u << 20;

double since(Clock::time_point then) { return std::chrono::duration<double>(Clock::now() - then).count(); }

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x.empty() ? 0 : x[x.size() / 2];
}

/// 1.96 * 1.2533 * 1.4826 * MAD / sqrt(n), as a share of the median.
double median_error(const std::vector<double>& x) {
  const double m = median(x);
  std::vector<double> off;
  for (const double v : x) off.push_back(std::abs(v - m));
  return m > 0 ? 3.642 * median(off) / std::sqrt(static_cast<double>(x.size())) / m : 1;
}

/// Holds the stream until the host has queued what is to be timed; gives up by itself after a second of clocks.
__global__ void gate(const volatile int* open) {
  const long long begin = clock64();
  while (*open == 0 && clock64() - begin < 2000000000ll) {}
}

/// A flag that the host sets and the GPU sees.
struct Gate {
  int* flag = nullptr;
  Gate() {
    if (cudaHostAlloc(reinterpret_cast<void**>(&flag), sizeof(int), cudaHostAllocMapped) != cudaSuccess) flag = nullptr;
  }
  ~Gate() { cudaFreeHost(flag); }
};

}  // namespace

Status check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return ok();
  const int code = status == cudaErrorMemoryAllocation ? PLAN_PROBE_NO_MEMORY : PLAN_PROBE_FAILED;
  cudaGetLastError();
  return failed(std::string(what) + ": " + cudaGetErrorString(status), code);
}

Status Buffer::allocate(size_t bytes) {
  cudaFree(data_);
  data_ = nullptr;
  size_ = bytes;
  return check(cudaMalloc(&data_, std::max<size_t>(bytes, 256)), "cudaMalloc");
}

Status Device::wait(cudaStream_t on) {
  const auto begin = Clock::now();
  while (true) {
    const cudaError_t status = cudaStreamQuery(on);
    if (status == cudaSuccess) return ok();
    if (status != cudaErrorNotReady) return check(status, "the GPU");
    if (stopped) return failed("told to stop", PLAN_PROBE_ABORTED);
    if (since(begin) > std::max(5.0, setup.timeout_seconds)) return failed("the GPU did not finish in time");
    if (since(begin) > 1e-3) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

Status Device::time(int repetitions, const std::function<Status()>& launch, double& seconds) {
  Gate held;
  if (held.flag != nullptr) {
    *held.flag = 0;
    gate<<<1, 1, 0, stream>>>(held.flag);
  }
  cudaEventRecord(begin, stream);
  Status done = ok();
  for (int i = 0; i < repetitions && done; ++i) done = launch();
  cudaEventRecord(end, stream);
  if (held.flag != nullptr) *static_cast<volatile int*>(held.flag) = 1;
  const Status waited = wait(stream);
  if (!done) return done;
  if (!waited) return waited;
  float milliseconds = 0;
  if (Status s = check(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime"); !s) return s;
  seconds = milliseconds * 1e-3 / repetitions;
  return check(cudaGetLastError(), "launch");
}

Status sample(Device& device, const plan_probe_point& point, const std::function<Status()>& launch,
              plan_probe_result& result) {
  const auto begin = Clock::now();
  double seconds = 0;
  std::vector<double> recent;
  for (int i = 0; i < kMostWarmUps; ++i) {
    if (Status s = device.time(1, launch, seconds); !s) return s;
    recent.push_back(seconds);
    const auto last = recent.size() < 3 ? recent.begin() : recent.end() - 3;
    const auto [low, high] = std::minmax_element(last, recent.end());
    if (i + 1 >= kWarmUps && (*high < 1.03 * *low || since(begin) > point.max_seconds)) break;
  }
  const int batch = std::clamp(static_cast<int>(std::ceil(kBatchSeconds / std::max(seconds, 1e-7))), 1, kMostBatch);
  const int least = std::max(3, point.least_samples), most = std::clamp(point.most_samples, least, PLAN_PROBE_SAMPLES);
  std::vector<double> samples;
  while (static_cast<int>(samples.size()) < most) {
    if (Status s = device.time(batch, launch, seconds); !s) return s;
    samples.push_back(seconds);
    const bool enough = static_cast<int>(samples.size()) >= least;
    if (enough && (median_error(samples) < 0.02 || since(begin) > point.max_seconds)) break;
  }
  result.count = static_cast<int32_t>(samples.size());
  result.took_part = 1;
  std::copy(samples.begin(), samples.end(), result.seconds);
  return ok();
}

Status measure_memory(Device& device, const plan_probe_point&, plan_probe_result& result) {
  result.took_part = 1;
  result.value[0] = device.total_bytes;
  result.value[1] = device.free_bytes + device.context_bytes;
  result.value[2] = device.context_bytes;
  result.value[3] = static_cast<double>(device.workspace.size());
  return ok();
}

Status measure_host_link(Device& device, const plan_probe_point& point, plan_probe_result& result) {
  const auto bytes = static_cast<size_t>(point.number[1]);
  Buffer on_device, back;
  if (Status s = on_device.allocate(bytes); !s) return s;
  if (Status s = back.allocate(bytes); !s) return s;
  void *host = nullptr, *other = nullptr;
  Status done = check(cudaMallocHost(&host, bytes), "cudaMallocHost");
  if (done) done = check(cudaMallocHost(&other, bytes), "cudaMallocHost");
  cudaEvent_t joined = nullptr;
  cudaEventCreateWithFlags(&joined, cudaEventDisableTiming);
  const auto launch = [&]() -> Status {
    if (point.number[0] == 0)
      return check(cudaMemcpyAsync(on_device.as(), host, bytes, cudaMemcpyHostToDevice, device.stream), "copy");
    if (point.number[0] == 1)
      return check(cudaMemcpyAsync(host, on_device.as(), bytes, cudaMemcpyDeviceToHost, device.stream), "copy");
    cudaEventRecord(joined, device.stream);
    cudaStreamWaitEvent(device.second, joined, 0);
    Status s = check(cudaMemcpyAsync(on_device.as(), host, bytes, cudaMemcpyHostToDevice, device.stream), "copy");
    if (s) s = check(cudaMemcpyAsync(other, back.as(), bytes, cudaMemcpyDeviceToHost, device.second), "copy");
    cudaEventRecord(joined, device.second);
    cudaStreamWaitEvent(device.stream, joined, 0);
    return s;
  };
  if (done) done = sample(device, point, launch, result);
  result.bytes = static_cast<double>(bytes) * (point.number[0] == 2 ? 2 : 1);
  cudaEventDestroy(joined);
  cudaFreeHost(host);
  cudaFreeHost(other);
  return done;
}

Status measure_pair(Device& device, const plan_probe_point& point, plan_probe_result& result) {
  int devices = 0;
  cudaGetDeviceCount(&devices);
  if (devices < point.group_size)
    return failed("each rank sees its own GPU alone: peers are out of its sight", PLAN_PROBE_UNSUPPORTED);
  const int peer = static_cast<int>((device.setup.device + point.number[0]) % devices);
  int reachable = 0;
  cudaDeviceCanAccessPeer(&reachable, device.setup.device, peer);
  if (reachable == 0) return failed("GPUs have no direct path to each other", PLAN_PROBE_UNSUPPORTED);
  const cudaError_t enabled = cudaDeviceEnablePeerAccess(peer, 0);
  if (enabled != cudaSuccess && enabled != cudaErrorPeerAccessAlreadyEnabled) return check(enabled, "peer access");
  cudaGetLastError();
  const auto bytes = static_cast<size_t>(point.number[1]);
  Buffer here, there;
  if (Status s = here.allocate(bytes); !s) return s;
  cudaSetDevice(peer);
  const Status allocated = there.allocate(bytes);
  cudaSetDevice(device.setup.device);
  if (!allocated) return allocated;
  result.bytes = static_cast<double>(bytes);
  return sample(
      device, point,
      [&] {
        return check(cudaMemcpyPeerAsync(there.as(), peer, here.as(), device.setup.device, bytes, device.stream),
                     "peer copy");
      },
      result);
}

namespace {

Status open_device(Device& device, plan_probe_device& facts) {
  if (Status s = check(cudaSetDevice(device.setup.device), "cudaSetDevice"); !s) return s;
  cudaDeviceProp properties{};
  if (Status s = check(cudaGetDeviceProperties(&properties, device.setup.device), "cudaGetDeviceProperties"); !s)
    return s;
  if (Status s = check(cudaFree(nullptr), "making a context"); !s) return s;
  size_t free_bytes = 0, total = 0;
  if (Status s = check(cudaMemGetInfo(&free_bytes, &total), "cudaMemGetInfo"); !s) return s;
  device.total_bytes = static_cast<double>(total);
  device.free_bytes = static_cast<double>(free_bytes);
  if (Status s = check(cudaStreamCreateWithFlags(&device.stream, cudaStreamNonBlocking), "cudaStreamCreate"); !s)
    return s;
  if (Status s = check(cudaStreamCreateWithFlags(&device.second, cudaStreamNonBlocking), "cudaStreamCreate"); !s)
    return s;
  cudaEventCreate(&device.begin);
  cudaEventCreate(&device.end);
  if (cublasLtCreate(&device.blas) != CUBLAS_STATUS_SUCCESS) return failed("cuBLASLt does not start");
  if (Status s = device.workspace.allocate(kWorkspace); !s) return s;
  size_t now_free = 0;
  cudaMemGetInfo(&now_free, &total);
  // What the total lacks of the free memory is the driver's reserve and this context; on an idle GPU nothing else.
  device.context_bytes =
      std::max(0.0, device.total_bytes - static_cast<double>(now_free) - static_cast<double>(kWorkspace));
  std::snprintf(facts.name, sizeof facts.name, "%s", properties.name);
  const auto* u = reinterpret_cast<const unsigned char*>(properties.uuid.bytes);
  std::snprintf(facts.uuid, sizeof facts.uuid,
                "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1], u[2], u[3],
                u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
  cudaDeviceGetPCIBusId(facts.pci_bus, sizeof facts.pci_bus, device.setup.device);
  std::snprintf(facts.capability, sizeof facts.capability, "%d.%d", properties.major, properties.minor);
  int runtime = 0;
  cudaRuntimeGetVersion(&runtime);
  std::snprintf(facts.runtime, sizeof facts.runtime, "%d.%d", runtime / 1000, runtime % 1000 / 10);
  facts.total_bytes = static_cast<int64_t>(total);
  facts.free_bytes = static_cast<int64_t>(free_bytes);
  facts.l2_bytes = properties.l2CacheSize;
  facts.sm_count = properties.multiProcessorCount;
  cudaGetDeviceCount(&facts.devices);
  std::snprintf(facts.cudnn, sizeof facts.cudnn, "%s", cudnn_version(device).c_str());
  int version = 0;
  device.nccl_log.ask_for();
  if (device.nccl.load(device.setup.nccl_library) && device.nccl.version(&version) == ncclSuccess)
    std::snprintf(facts.nccl, sizeof facts.nccl, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
  return ok();
}

Status measure_point(Device& device, const plan_probe_point& point, plan_probe_result& result) {
  switch (point.kind) {
    case PLAN_PROBE_MEMORY: return measure_memory(device, point, result);
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

int told(const Status& status, char* error, size_t size) {
  if (!status && error != nullptr && size > 0) std::snprintf(error, size, "%s", status.words.c_str());
  return status.code;
}

int open_entry(const plan_probe_setup* setup, void** state, plan_probe_device* facts, char* error, size_t size) {
  auto* device = new Device;
  device->setup = *setup;
  const Status opened = open_device(*device, *facts);
  if (opened)
    *state = device;
  else
    delete device;
  return told(opened, error, size);
}

int supports_entry(void* state, const plan_probe_point* point, char* error, size_t size) {
  auto& device = *static_cast<Device*>(state);
  if (point->kind == PLAN_PROBE_ATTENTION && cudnn_version(device).empty())
    return told(failed("there is no libcudnn.so.9", PLAN_PROBE_UNSUPPORTED), error, size);
  return PLAN_PROBE_OK;
}

int unique_id_entry(void* state, unsigned char id[PLAN_PROBE_ID_BYTES], char* error, size_t size) {
  auto& device = *static_cast<Device*>(state);
  if (const Status loaded = device.nccl.load(device.setup.nccl_library); !loaded) return told(loaded, error, size);
  ncclUniqueId made{};
  static_assert(sizeof made == PLAN_PROBE_ID_BYTES);
  if (const ncclResult_t r = device.nccl.unique_id(&made); r != ncclSuccess)
    return told(failed(device.nccl.error_string(r)), error, size);
  std::memcpy(id, &made, sizeof made);
  return PLAN_PROBE_OK;
}

int join_entry(void* state, const unsigned char id[PLAN_PROBE_ID_BYTES], char* error, size_t size) {
  cudaSetDevice(static_cast<Device*>(state)->setup.device);  // each call comes on a thread of its own
  return told(join_world(*static_cast<Device*>(state), id), error, size);
}

int measure_entry(void* state, const plan_probe_point* point, plan_probe_result* result, char* error, size_t size) {
  auto& device = *static_cast<Device*>(state);
  *result = {};
  if (device.stopped) return told(failed("told to stop", PLAN_PROBE_ABORTED), error, size);
  cudaSetDevice(device.setup.device);
  return told(measure_point(device, *point, *result), error, size);
}

void stop_entry(void* state) {
  auto& device = *static_cast<Device*>(state);
  device.stopped = true;
  if (device.nccl.abort == nullptr) return;
  for (auto& [key, comm] : device.groups)
    if (comm != nullptr) device.nccl.abort(comm);
  device.groups.clear();
  if (device.world != nullptr) device.nccl.abort(device.world);
  device.world = nullptr;
}

/// The process ends with the probe: the driver frees what a thread that hangs may still hold.
void close_entry(void*) {}

constexpr plan_probe_backend kBackend{PLAN_PROBE_ABI,  sizeof(plan_probe_backend),
                                      open_entry,      supports_entry,
                                      unique_id_entry, join_entry,
                                      measure_entry,   stop_entry,
                                      close_entry};

}  // namespace
}  // namespace plan_cuda

extern "C" __attribute__((visibility("default"))) const plan_probe_backend* plan_probe_backend_v1(void) {
  return &plan_cuda::kBackend;
}
