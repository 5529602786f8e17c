// Timing on the device: a gate holds the stream until everything is queued, events enclose a batch.
// Tested by tests/hwprobe/device_figures_test.cpp on a device whose times are known.
#include <algorithm>
#include <cmath>
#include <thread>

#include "hwprobe/cuda/device.cuh"

namespace plan_cuda {
namespace {

constexpr double kBatchSeconds = 200e-6;  // long against the resolution of events
constexpr int kMostBatch = 100, kWarmUps = 5, kMostWarmUps = 30;
constexpr double kGateSeconds = 0.8;              // the gate opens by itself a little later
constexpr double kIdle = 0.2, kWarmClocks = 0.1;  // seconds after which clocks have fallen, and until they are up again
constexpr size_t kLine = 512;

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

}  // namespace

std::atomic<bool> Buffer::abandoned{false};

void preload_timing() {
  cudaFuncAttributes attributes{};
  cudaFuncGetAttributes(&attributes, gate);
}

Status check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return ok();
  const int code = status == cudaErrorMemoryAllocation ? PLAN_PROBE_NO_MEMORY : PLAN_PROBE_FAILED;
  cudaGetLastError();
  return failed(std::string(what) + ": " + cudaGetErrorString(status), code);
}

Status Buffer::allocate(size_t bytes) {
  release();
  data_ = nullptr;
  size_ = bytes;
  return check(cudaMalloc(&data_, std::max<size_t>(bytes, 256)), "memory of the GPU");
}

void Rotation::plan(size_t bytes, size_t cache, size_t most) {
  stride_ = std::max<size_t>(1, (bytes + kLine - 1) / kLine) * kLine;
  copies_ = std::clamp<size_t>(2 * cache / stride_ + 1, 1, most);
}

Status Device::wait(cudaStream_t on) {
  const auto asked = Clock::now();
  while (true) {
    const cudaError_t status = cudaStreamQuery(on);
    if (status == cudaSuccess) return worked = Clock::now(), ok();
    if (status != cudaErrorNotReady) return check(status, "the GPU");
    if (stopped) {
      abort_communicators();  // before the caller frees what a kernel that hangs still reads
      return failed("told to stop", PLAN_PROBE_ABORTED);
    }
    if (since(asked) > std::max(5.0, setup.timeout_seconds)) {
      Buffer::abandoned = true;
      return failed("the GPU did not finish in time", PLAN_PROBE_STUCK);
    }
    if (since(asked) > 1e-3) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

void Device::hold(cudaStream_t on) {
  *static_cast<volatile int*>(gate) = 0;
  plan_cuda::gate<<<1, 1, 0, on>>>(gate);
}

Status Device::time(int repetitions, const Launch& launch, double& seconds, const Launch& align) {
  const auto held = Clock::now();
  hold(stream);
  Status done = align ? align() : ok();
  cudaEventRecord(begin, stream);
  for (int i = 0; i < repetitions && done; ++i) done = launch();
  cudaEventRecord(end, stream);
  const double queueing = since(held);
  open_gate();
  const Status waited = wait(stream);
  if (!done) return done;
  if (!waited) return waited;
  if (queueing > kGateSeconds)
    return failed("this host needed " + std::to_string(queueing) + " s to queue one batch: its times mean nothing");
  float milliseconds = 0;
  if (Status s = check(cudaEventElapsedTime(&milliseconds, begin, end), "the time between two events"); !s) return s;
  seconds = milliseconds * 1e-3 / repetitions;
  return check(cudaGetLastError(), "launch");
}

Status sample(Device& device, const plan_probe_point& point, const Launch& launch, plan_probe_result& result) {
  const bool idle = since(device.worked) > kIdle;
  // The first launch loads the kernel, and may wait for whatever runs: never behind the gate.
  if (Status s = launch(); !s) return s;
  if (Status s = device.wait(device.stream); !s) return s;
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
  while (idle && since(begin) < kWarmClocks)
    if (Status s = device.time(batch, launch, seconds); !s) return s;
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

}  // namespace plan_cuda
