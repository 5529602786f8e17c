// Communicators of a libnccl that is loaded at run time. Calls do not block: communicators report by
// ncclCommGetAsyncError, so that an abort ends them. Tested by tests/hwprobe/device_figures_test.cpp.
#include "hwprobe/cuda/communicators.cuh"

#include <algorithm>
#include <thread>

namespace plan_cuda {
namespace {

constexpr double kLookOften = 2e-3;  // seconds before a wait begins to sleep

ncclConfig_t patient() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

/// Where this rank's numbers for the others are.
float* own_number(const Device& device) { return device.small.as<float>(); }

}  // namespace

Status nccl_status(Device& device, ncclResult_t result, const char* what) {
  if (result == ncclSuccess || result == ncclInProgress) return ok();
  device.broken_nccl = std::string(what) + ": " + device.nccl.error_string(result);
  return failed(device.broken_nccl);
}

Status settle(Device& device, ncclComm_t comm, const char* what) {
  const auto begin = Clock::now();
  while (true) {
    if (device.stopped) {
      device.abort_communicators();
      return failed("told to stop", PLAN_PROBE_ABORTED);
    }
    ncclResult_t state = ncclSuccess;
    if (Status s = nccl_status(device, device.nccl.async_error(comm, &state), what); !s) return s;
    if (state == ncclSuccess) return ok();
    if (state != ncclInProgress) return nccl_status(device, state, what);
    const double waited = since(begin);
    if (waited > 60 + device.setup.timeout_seconds) {
      device.broken_nccl = std::string(what) + " did not end in time";
      return failed(device.broken_nccl);
    }
    if (waited > kLookOften) std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

int group_of(const Device& device, int size, int stride) {
  const int block = size * stride, first = device.setup.rank / block * block;
  if (first + block > device.setup.world) return -1;
  return first + (device.setup.rank - first) % stride;
}

Status make_group(Device& device, int size, int stride, ncclComm_t& comm) {
  comm = nullptr;
  if (!device.broken_nccl.empty()) return failed("NCCL failed before: " + device.broken_nccl, PLAN_PROBE_UNSUPPORTED);
  if (device.world == nullptr) return failed("there is no NCCL communicator", PLAN_PROBE_UNSUPPORTED);
  const int group = group_of(device, size, stride);
  ncclConfig_t config = patient();
  // NCCL writes here when its thread is done, even after we have given up: it is never freed.
  auto* const made = new ncclComm_t(nullptr);
  if (Status s = nccl_status(
          device,
          device.nccl.split(device.world, group < 0 ? NCCL_SPLIT_NOCOLOR : group, device.setup.rank, made, &config),
          "ncclCommSplit");
      !s)
    return s;
  if (Status s = settle(device, device.world, "ncclCommSplit"); !s) return s;
  comm = *made;
  delete made;
  return comm == nullptr ? ok() : settle(device, comm, "ncclCommSplit");
}

Status find_group(Device& device, const plan_probe_point& point, ncclComm_t& comm) {
  const std::pair key(point.group_size, point.group_stride);
  const auto found = device.groups.find(key);
  if (found != device.groups.end() && device.broken_nccl.empty()) return comm = found->second, ok();
  if (Status s = make_group(device, key.first, key.second, comm); !s) return s;
  const std::lock_guard<std::mutex> hold(device.communicators);
  device.groups[key] = comm;
  return ok();
}

Status align(Device& device, ncclComm_t comm, cudaStream_t stream) {
  float* const number = own_number(device);
  const ncclResult_t r = device.nccl.all_reduce(number, number + 1, 1, ncclFloat32, ncclMax, comm, stream);
  if (Status s = nccl_status(device, r, "all-reduce"); !s) return s;
  return settle(device, comm, "all-reduce");
}

Status largest(Device& device, ncclComm_t comm, double& value) {
  auto mine = static_cast<float>(value);
  cudaMemcpyAsync(own_number(device), &mine, sizeof mine, cudaMemcpyHostToDevice, device.stream);
  if (Status s = align(device, comm, device.stream); !s) return s;
  if (Status s = device.wait(device.stream); !s) return s;
  cudaMemcpy(&mine, own_number(device) + 1, sizeof mine, cudaMemcpyDeviceToHost);
  value = mine;
  return ok();
}

Status agree(Device& device, ncclComm_t comm, const Status& own) {
  if (own.code == PLAN_PROBE_ABORTED || own.code == PLAN_PROBE_LOST || own.code == PLAN_PROBE_STUCK)
    return own;  // the others hear of it otherwise
  double trouble = own ? 0 : 1;
  if (Status s = largest(device, comm, trouble); !s) return own ? s : own;
  return own && trouble > 0 ? failed("another rank of its group could not", PLAN_PROBE_PEER) : own;
}

void Device::abort_communicators() {
  std::vector<ncclComm_t> all;
  {
    const std::lock_guard<std::mutex> hold(communicators);
    for (const auto& [key, comm] : groups)
      if (comm != nullptr) all.push_back(comm);
    groups.clear();
    if (world != nullptr) all.push_back(world);
    world = nullptr;
  }
  for (ncclComm_t comm : all) nccl.abort(comm);
}

Status join_world(Device& device, const unsigned char id[PLAN_PROBE_ID_BYTES]) {
  device.nccl_log.ask_for();
  if (Status s = device.nccl.load(device.setup.nccl_library); !s) return s;
  ncclUniqueId same{};
  std::copy(id, id + PLAN_PROBE_ID_BYTES, reinterpret_cast<unsigned char*>(&same));
  ncclConfig_t config = patient();
  if (Status s =
          nccl_status(device, device.nccl.init(&device.world, device.setup.world, same, device.setup.rank, &config),
                      "ncclCommInitRank");
      !s)
    return s;
  if (Status s = settle(device, device.world, "ncclCommInitRank"); !s) return s;
  double rank = device.setup.rank;
  if (Status s = largest(device, device.world, rank); !s) return s;
  return rank == device.setup.world - 1
             ? ok()
             : failed("an all-reduce of the ranks does not give the largest", PLAN_PROBE_WRONG_RESULT);
}

}  // namespace plan_cuda
