// Copies between the GPU and its host, and between GPUs of one process.
// Tested by tests/hwprobe/device_figures_test.cpp on a device whose times are known.
#include "hwprobe/cuda/device.cuh"

namespace plan_cuda {

Status measure_host_link(Device& device, const plan_probe_point& point, plan_probe_result& result) {
  const auto bytes = static_cast<size_t>(point.number[1]);
  Buffer on_device, back;
  if (Status s = on_device.allocate(bytes); !s) return s;
  if (Status s = back.allocate(bytes); !s) return s;
  void *host = nullptr, *other = nullptr;  // on the memory of the node that this process is bound to
  Status done = check(cudaHostAlloc(&host, bytes, cudaHostAllocDefault), "memory of the host");
  if (done) done = check(cudaHostAlloc(&other, bytes, cudaHostAllocDefault), "memory of the host");
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
  if (Buffer::abandoned) return done;
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

}  // namespace plan_cuda
