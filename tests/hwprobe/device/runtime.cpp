// A CUDA runtime on the simulated streams, for the host code of the measuring plugin as nvcc compiles it; and, through
// hwprobe/hip/include, a HIP runtime for the same code as clang compiles it for AMD's GPUs. Kernels do
// not run: their names and arguments say how long they take. Small buffers are copied for good, so that what is checked
// of data can be checked.
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <sys/mman.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <set>
#include <string_view>

#include "kernels.hpp"
#include "simulation.hpp"
#include "truth.hpp"

namespace answering {
namespace {

constexpr double kCall = 0.5e-6, kLaunch = 2.5e-6;  // of the host
constexpr std::size_t kCopied = 1 << 20;            // larger copies move no data
constexpr int kGpus = 8;
#ifdef __HIP_PLATFORM_AMD__
constexpr int kRuntime = HIP_VERSION;
constexpr const char *kChosen = "HIP_VISIBLE_DEVICES", *kUuid = "GPU-%016d";
#else
constexpr int kRuntime = CUDART_VERSION;
constexpr const char *kChosen = "CUDA_VISIBLE_DEVICES", *kUuid = "GPU-%08d-0000-0000-0000-000000000000";
#endif

struct Memory {
  void* at;
  std::size_t bytes;
  bool on_device;
};
std::map<const void*, Memory>& memories() {
  static auto* const all = new std::map<const void*, Memory>;
  return *all;
}
thread_local cudaError_t last = cudaSuccess;
thread_local int current = 0;

cudaError_t result(cudaError_t status) {
  host_pass(kCall);
  if (status == cudaSuccess && sticky_error() != 0) status = static_cast<cudaError_t>(sticky_error());
  if (status != cudaSuccess && status != cudaErrorNotReady) last = status;
  return status;
}

/// Indices of the GPUs that the maker's variable leaves, by number or by the beginning of a UUID.
std::vector<int> visible() {
  const int all = static_cast<int>(truth::number("gpus", kGpus));
  const char* text = std::getenv(kChosen);
  std::vector<int> seen;
  if (text == nullptr) {
    for (int i = 0; i < all; ++i) seen.push_back(i);
    return seen;
  }
  for (std::string rest = text; !rest.empty();) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string word = rest.substr(0, comma);
    rest.erase(0, comma + 1);
    if (word.starts_with("MIG-")) return {0};  // one part of a GPU and nothing beside it
    int found = -1;
    for (int i = 0; i < all; ++i) {
      char uuid[64];
      std::snprintf(uuid, sizeof uuid, kUuid, i);
      if (word == std::to_string(i) || (word.size() > 4 && std::string_view(uuid).starts_with(word))) found = i;
    }
    if (found < 0) break;  // as CUDA does: the first that is none ends the list
    seen.push_back(found);
  }
  return seen;
}

void* map(std::size_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return at == MAP_FAILED ? nullptr : at;
}

cudaError_t allocate(void** out, std::size_t bytes, bool on_device) {
  if (on_device && !take_memory(static_cast<double>(bytes))) return result(cudaErrorMemoryAllocation);
  *out = map(std::max<std::size_t>(bytes, 1));
  if (*out == nullptr) return result(cudaErrorMemoryAllocation);
  const std::lock_guard hold(simulation().lock);
  memories()[*out] = {*out, std::max<std::size_t>(bytes, 1), on_device};
  return result(cudaSuccess);
}

cudaError_t release(void* at) {
  if (at == nullptr) return result(cudaSuccess);
  simulation().drain();  // as the real one waits
  Memory memory{};
  {
    const std::lock_guard hold(simulation().lock);
    const auto found = memories().find(at);
    if (found == memories().end()) return note("freed what was not allocated"), result(cudaErrorInvalidValue);
    memory = found->second;
    memories().erase(found);
  }
  munmap(memory.at, memory.bytes);
  if (memory.on_device) give_memory(static_cast<double>(memory.bytes));
  return result(cudaSuccess);
}

/// A copy: what is small moves; a source on the host is read now, as pageable memory is.
cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  Operation operation;
  const auto size = static_cast<double>(bytes);
  if (kind == cudaMemcpyHostToDevice) operation = {Unit::ToDevice, truth::host_seconds(size, false)};
  if (kind == cudaMemcpyDeviceToHost) operation = {Unit::ToHost, truth::host_seconds(size, true)};
  if (kind == cudaMemcpyDeviceToDevice) operation = {Unit::Compute, truth::memory_seconds(2 * size)};
  if (bytes <= kCopied && kind == cudaMemcpyHostToDevice) {
    const std::string bits(static_cast<const char*>(from), bytes);
    operation.effect = [=] { std::memcpy(to, bits.data(), bits.size()); };
  } else if (bytes <= kCopied) {
    operation.effect = [=] { std::memcpy(to, from, bytes); };
  }
  host_pass(kLaunch);
  enqueue(stream, std::move(operation));
  return result(cudaSuccess);
}

Stream* default_stream() {
  static Stream* const stream = [] {
    const std::lock_guard hold(simulation().lock);
    return simulation().make_stream();
  }();
  return stream;
}

std::shared_ptr<Event>& event_of(cudaEvent_t event) { return *reinterpret_cast<std::shared_ptr<Event>*>(event); }

struct Call {
  dim3 grid{}, block{};
  std::size_t shared = 0;
  cudaStream_t stream = nullptr;
};
std::vector<Call>& calls() {
  static thread_local std::vector<Call> all;
  return all;
}

cudaError_t launch(const void* function, dim3 grid, void** arguments, cudaStream_t stream) {
  const Kernel kernel = kernel_called(function, grid.x, arguments);
  host_pass(kLaunch);
  if (truth::number("lazy", 0) > 0 && first_launch(function)) load_lazily();
  if (kernel.error != 0) {
    if (kernel.sticky) break_device(kernel.error);
    return result(static_cast<cudaError_t>(kernel.error));
  }
  Operation operation{kernel.gate == nullptr ? Unit::Compute : Unit::Free, kernel.seconds, kernel.effect, kernel.gate};
  enqueue(stream == nullptr ? static_cast<void*>(default_stream()) : stream, std::move(operation));
  return result(cudaSuccess);
}

}  // namespace
}  // namespace answering

using namespace answering;

extern "C" {
// The plugin's own clock and sleeps, by the linker's --wrap.
// A time point is one number of nanoseconds, returned as such.
std::int64_t __wrap__ZNSt6chrono3_V212steady_clock3nowEv() {
  host_pass(50e-9);
  return static_cast<std::int64_t>(host_now() * 1e9);
}
int __wrap_nanosleep(const timespec* time, timespec*) {
  const double asked = static_cast<double>(time->tv_sec) + 1e-9 * static_cast<double>(time->tv_nsec);
  host_pass(std::max(asked + oversleep(), truth::number("coarse", 0)));
  return 0;
}

/// A wait for another thread of this process takes real time: until it is up on this clock, too.
int __wrap_pthread_mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
  const double left = static_cast<double>(until->tv_sec) + 1e-9 * static_cast<double>(until->tv_nsec) - host_now();
  timespec real{};
  clock_gettime(clock, &real);
  const double end = static_cast<double>(real.tv_nsec) * 1e-9 + std::max(0.0, left);
  real.tv_sec += static_cast<time_t>(end);
  real.tv_nsec = static_cast<long>((end - std::floor(end)) * 1e9);
  return pthread_mutex_clocklock(mutex, clock, &real);
}

#ifdef __HIP_PLATFORM_AMD__
void** __hipRegisterFatBinary(const void* image) { return static_cast<void**>(const_cast<void*>(image)); }
void __hipUnregisterFatBinary(void**) {}
void __hipRegisterFunction(void**, const void* function, char*, const char* name, unsigned, uint3*, uint3*, dim3*,
                           dim3*, int*) {
  register_kernel(function, name);
}
void __hipRegisterVar(void**, void*, char*, char*, int, std::size_t, int, int) {}
hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared, hipStream_t stream) {
  calls().push_back({grid, block, shared, stream});
  return hipSuccess;
}
hipError_t __hipPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, hipStream_t* stream) {
  if (calls().empty()) return hipErrorInvalidConfiguration;
  *grid = calls().back().grid, *block = calls().back().block, *shared = calls().back().shared;
  *stream = calls().back().stream;
  calls().pop_back();
  return hipSuccess;
}
#else
void** __cudaRegisterFatBinary(void* image) { return static_cast<void**>(image); }
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }
void __cudaRegisterFunction(void**, const char* function, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  register_kernel(function, name);
}
void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared, CUstream_st* stream) {
  calls().push_back({grid, block, shared, stream});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
  if (calls().empty()) return cudaErrorInvalidConfiguration;
  *grid = calls().back().grid, *block = calls().back().block, *shared = calls().back().shared;
  *static_cast<cudaStream_t*>(stream) = calls().back().stream;
  calls().pop_back();
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3, void** arguments, std::size_t,
                               cudaStream_t stream) {
  return launch(kernel, grid, arguments, stream);
}
#endif
cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3, void** arguments, std::size_t,
                             cudaStream_t stream) {
  return launch(function, grid, arguments, stream);
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  *attributes = {};
  if (truth::number("lazy", 0) > 0 && first_launch(function)) load_lazily();
  return result(cudaSuccess);
}

cudaError_t cudaGetDeviceCount(int* count) { return *count = static_cast<int>(visible().size()), result(cudaSuccess); }
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= static_cast<int>(visible().size())) return result(cudaErrorInvalidDevice);
  current = device;
  return result(cudaSuccess);
}
#ifdef __HIP_PLATFORM_AMD__
hipError_t hipDeviceGetUuid(hipUUID* out, hipDevice_t device) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016d", visible().at(static_cast<std::size_t>(device)));
  std::memcpy(out->bytes, digits, sizeof out->bytes);
  return hipSuccess;
}
#endif
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int device) {
  if (device < 0 || device >= static_cast<int>(visible().size())) return result(cudaErrorInvalidDevice);
  *out = {};
  const int gpu = visible()[static_cast<std::size_t>(device)];
  const bool other = truth::number("mixed", -1) == gpu;
#ifdef __HIP_PLATFORM_AMD__
  const bool newer = truth::setting("gpu") == "mi355x";
  std::snprintf(out->name, sizeof out->name, "AMD Instinct %s", other ? "MI250X" : newer ? "MI355X" : "MI300X");
  std::snprintf(out->gcnArchName, sizeof out->gcnArchName, "%s:sramecc+:xnack-",
                other   ? "gfx90a"
                : newer ? "gfx950"
                        : "gfx942");
#else
  const char* chosen = std::getenv(kChosen);
  const bool part = chosen != nullptr && std::string_view(chosen).starts_with("MIG-");
  std::snprintf(out->name, sizeof out->name, "%s%s", other ? "NVIDIA A100-SXM4-80GB" : "NVIDIA H100 80GB HBM3",
                part ? " MIG 7g.80gb" : "");
  char digits[16];
  std::snprintf(digits, sizeof digits, "%08d", gpu);
  for (int i = 0; i < 4; ++i)
    out->uuid.bytes[i] = static_cast<char>((digits[2 * i] - '0') * 16 + digits[2 * i + 1] - '0');
  out->major = other ? 8 : 9, out->minor = 0;
#endif
  out->totalGlobalMem = static_cast<std::size_t>(truth::kTotalBytes);
  out->l2CacheSize = static_cast<int>(truth::kCacheBytes);
  out->multiProcessorCount = 132;
  return result(cudaSuccess);
}
cudaError_t cudaDeviceGetPCIBusId(char* out, int size, int device) {
  std::snprintf(out, static_cast<std::size_t>(size), "00000000:%02X:00.0", 0x1b + device);
  return result(cudaSuccess);
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) { return *can = 1, result(cudaSuccess); }
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return result(cudaSuccess); }
cudaError_t cudaRuntimeGetVersion(int* version) { return *version = kRuntime, result(cudaSuccess); }
cudaError_t cudaDriverGetVersion(int* version) { return *version = kRuntime, result(cudaSuccess); }
cudaError_t cudaDeviceSynchronize() { return simulation().drain(), result(cudaSuccess); }
const char* cudaGetErrorString(cudaError_t status) {
  switch (status) {
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorNoKernelImageForDevice: return "no kernel image is available for execution on the device";
    case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    default: return "an error of the device that answers";
  }
}
cudaError_t cudaGetLastError() {
  const cudaError_t was = sticky_error() != 0 ? static_cast<cudaError_t>(sticky_error()) : last;
  last = cudaSuccess;
  return was;
}

cudaError_t cudaMalloc(void** out, std::size_t bytes) { return allocate(out, bytes, true); }
cudaError_t cudaFree(void* at) {
  static const bool context = take_memory(truth::kContextBytes);
  static_cast<void>(context);
  return release(at);
}
cudaError_t cudaHostAlloc(void** out, std::size_t bytes, unsigned) { return allocate(out, bytes, false); }
cudaError_t cudaFreeHost(void* at) { return release(at); }
cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total) {
  const std::lock_guard hold(simulation().lock);
  const std::string small = truth::of_rank("small", own_rank());
  *total = static_cast<std::size_t>(small.empty() ? truth::kTotalBytes : std::atof(small.c_str()));
  *free_bytes = *total - std::min(*total, static_cast<std::size_t>(simulation().used));
  return result(cudaSuccess);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return copy(to, from, bytes, kind, stream);
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  static_cast<void>(copy(to, from, bytes, kind, reinterpret_cast<cudaStream_t>(default_stream())));
  while (!simulation().query(default_stream())) host_pass(2e-6);
  return result(cudaSuccess);
}
cudaError_t cudaMemcpyPeerAsync(void*, int, const void*, int, std::size_t bytes, cudaStream_t stream) {
  host_pass(kLaunch);
  enqueue(stream, {Unit::Free, truth::pair_seconds(static_cast<double>(bytes))});
  return result(cudaSuccess);
}
cudaError_t cudaMemsetAsync(void* at, int value, std::size_t bytes, cudaStream_t stream) {
  Operation operation{Unit::Compute, 1e-6 + static_cast<double>(bytes) / truth::kMemoryRate};
  if (bytes <= kCopied) operation.effect = [=] { std::memset(at, value, bytes); };
  host_pass(kLaunch);
  enqueue(stream, std::move(operation));
  return result(cudaSuccess);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  const std::lock_guard hold(simulation().lock);
  *stream = reinterpret_cast<cudaStream_t>(simulation().make_stream());
  return result(cudaSuccess);
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  host_pass(kCall);
  const bool done = simulation().query(reinterpret_cast<Stream*>(stream));
  return result(done ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const std::lock_guard hold(simulation().lock);
  if (event_of(event)->recorded) {
    Queued queued{{}, host_now()};
    queued.wait = event_of(event);
    reinterpret_cast<Stream*>(stream)->queue.push_back(std::move(queued));
  }
  return result(cudaSuccess);
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = reinterpret_cast<cudaEvent_t>(new std::shared_ptr<Event>(std::make_shared<Event>()));
  return result(cudaSuccess);
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete reinterpret_cast<std::shared_ptr<Event>*>(event);
  return result(cudaSuccess);
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::lock_guard hold(simulation().lock);
  event_of(event) = std::make_shared<Event>(Event{1, 0, true});  // who waits for the record before keeps that one
  Queued queued{{}, host_now()};
  queued.record = event_of(event);
  reinterpret_cast<Stream*>(stream)->queue.push_back(std::move(queued));
  return result(cudaSuccess);
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  const std::lock_guard hold(simulation().lock);
  if (event_of(begin)->pending > 0 || event_of(end)->pending > 0) return result(cudaErrorNotReady);
  *milliseconds = static_cast<float>((event_of(end)->time - event_of(begin)->time) * 1e3);
  return result(cudaSuccess);
}
}
