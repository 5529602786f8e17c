// Collectives through a libnccl that is loaded at run time. Calls do not block: communicators report by
// ncclCommGetAsyncError, so that an abort ends them. Every rank takes the same number of repetitions of everything.
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "hwprobe/cuda/device.cuh"

namespace plan_cuda {
namespace {

enum Op { kAllReduce, kAllGather, kReduceScatter, kAllToAll, kSendRecv, kBroadcast };

ncclConfig_t patient() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

Status nccl_status(const Device& device, ncclResult_t result, const char* what) {
  if (result == ncclSuccess || result == ncclInProgress) return ok();
  return failed(std::string(what) + ": " + device.nccl.error_string(result));
}

/// Until what a communicator began has ended.
Status settle(Device& device, ncclComm_t comm, const char* what) {
  const auto begin = std::chrono::steady_clock::now();
  while (true) {
    ncclResult_t state = ncclSuccess;
    if (Status s = nccl_status(device, device.nccl.async_error(comm, &state), what); !s) return s;
    if (state == ncclSuccess) return ok();
    if (state != ncclInProgress) return nccl_status(device, state, what);
    if (device.stopped) return failed("told to stop", PLAN_PROBE_ABORTED);
    if (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() >
        60 + device.setup.timeout_seconds)
      return failed(std::string(what) + " did not end in time");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// Index of this rank's group, -1 if the groups leave it out.
int group_of(const Device& device, int size, int stride) {
  const int block = size * stride, first = device.setup.rank / block * block;
  if (first + block > device.setup.world) return -1;
  return first + (device.setup.rank - first) % stride;
}

Status make_group(Device& device, int size, int stride, ncclComm_t& comm) {
  comm = nullptr;
  if (device.world == nullptr) return failed("there is no NCCL communicator", PLAN_PROBE_UNSUPPORTED);
  const int group = group_of(device, size, stride);
  ncclConfig_t config = patient();
  if (Status s = nccl_status(
          device,
          device.nccl.split(device.world, group < 0 ? NCCL_SPLIT_NOCOLOR : group, device.setup.rank, &comm, &config),
          "ncclCommSplit");
      !s)
    return s;
  if (Status s = settle(device, device.world, "ncclCommSplit"); !s) return s;
  return comm == nullptr ? ok() : settle(device, comm, "ncclCommSplit");
}

Status find_group(Device& device, const plan_probe_point& point, ncclComm_t& comm) {
  const std::pair key(point.group_size, point.group_stride);
  const auto found = device.groups.find(key);
  if (found != device.groups.end()) return comm = found->second, ok();
  if (Status s = make_group(device, key.first, key.second, comm); !s) return s;
  device.groups[key] = comm;
  return ok();
}

struct Exchange {
  Buffer in{}, out{};
  ncclDataType_t type = ncclBfloat16;
  size_t width = 2;
  int op = kAllReduce, size = 2, index = 0;
  size_t bytes = 0;

  Status prepare(Device& device, const plan_probe_point& point) {
    op = point.op;
    size = point.group_size;
    const bool wide = point.format == PLAN_PROBE_FP32;
    type = wide ? ncclFloat32 : ncclBfloat16;
    width = wide ? 4 : 2;
    const size_t step = width * static_cast<size_t>(size);
    bytes = std::max(step, static_cast<size_t>(point.number[0]) / step * step);
    const int block = point.group_size * point.group_stride;
    index = device.setup.rank % block / point.group_stride;
    if (Status s = in.allocate(bytes); !s) return s;
    if (Status s = out.allocate(bytes); !s) return s;
    return fill_random(in.as(), bytes / width, point.format, device.stream,
                       11u + static_cast<unsigned>(device.setup.rank));
  }

  /// One operation of nccl-tests' size on `stream`.
  Status launch(Device& device, ncclComm_t comm, cudaStream_t stream) const {
    const Nccl& n = device.nccl;
    const size_t all = bytes / width, share = all / static_cast<size_t>(size);
    ncclResult_t r = ncclSuccess;
    switch (op) {
      case kAllReduce: r = n.all_reduce(in.as(), in.as(), all, type, ncclSum, comm, stream); break;
      case kAllGather: r = n.all_gather(in.as(), out.as(), share, type, comm, stream); break;
      case kReduceScatter: r = n.reduce_scatter(in.as(), out.as(), share, type, ncclSum, comm, stream); break;
      case kBroadcast: r = n.broadcast(in.as(), out.as(), all, type, 0, comm, stream); break;
      default:
        n.group_start();
        if (op == kSendRecv) {
          n.send(in.as(), all, type, (index + 1) % size, comm, stream);
          n.recv(out.as(), all, type, (index + size - 1) % size, comm, stream);
        } else {
          for (int peer = 0; peer < size; ++peer) {
            const size_t at = static_cast<size_t>(peer) * share * width;
            n.send(in.as<char>() + at, share, type, peer, comm, stream);
            n.recv(out.as<char>() + at, share, type, peer, comm, stream);
          }
        }
        r = n.group_end();
    }
    if (Status s = nccl_status(device, r, "collective"); !s) return s;
    return r == ncclInProgress ? settle(device, comm, "collective") : ok();
  }
};

/// A sum that every rank can check: ones reduce to the number of ranks.
Status verify_sum(Device& device, ncclComm_t comm, int size) {
  Buffer one;
  if (Status s = one.allocate(sizeof(float)); !s) return s;
  float value = 1;
  cudaMemcpyAsync(one.as(), &value, sizeof value, cudaMemcpyHostToDevice, device.stream);
  const ncclResult_t r = device.nccl.all_reduce(one.as(), one.as(), 1, ncclFloat32, ncclSum, comm, device.stream);
  if (Status s = nccl_status(device, r, "all-reduce"); !s) return s;
  if (Status s = settle(device, comm, "all-reduce"); !s) return s;
  if (Status s = device.wait(device.stream); !s) return s;
  cudaMemcpy(&value, one.as(), sizeof value, cudaMemcpyDeviceToHost);
  return value == static_cast<float>(size)
             ? ok()
             : failed("an all-reduce of ones does not give the number of ranks", PLAN_PROBE_WRONG_RESULT);
}

}  // namespace

Status Nccl::load(const char* path) {
  if (library != nullptr) return ok();
  library = dlopen(path != nullptr ? path : "libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return failed(std::string("no NCCL: ") + dlerror(), PLAN_PROBE_UNSUPPORTED);
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
  };
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
  if (version != nullptr && unique_id != nullptr && init != nullptr && split != nullptr && async_error != nullptr &&
      abort != nullptr && all_reduce != nullptr && send != nullptr && recv != nullptr && error_string != nullptr)
    return ok();
  library = nullptr;
  return failed("this libnccl is older than 2.18: it lacks ncclCommSplit", PLAN_PROBE_UNSUPPORTED);
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
  return verify_sum(device, device.world, device.setup.world);
}

Status measure_collective(Device& device, const plan_probe_point& point, plan_probe_result& result) {
  ncclComm_t comm = nullptr;
  if (Status s = find_group(device, point, comm); !s) return s;
  const bool first_alone = point.all_groups == 0 && group_of(device, point.group_size, point.group_stride) != 0;
  if (comm == nullptr || first_alone) return ok();  // this rank takes no part
  Exchange exchange;
  if (Status s = exchange.prepare(device, point); !s) return s;
  const bool small = exchange.bytes <= 65536;
  const int warm_ups = small ? 20 : 5, batch = small ? 20 : exchange.bytes <= (8u << 20) ? 8 : 2;
  const auto launch = [&] { return exchange.launch(device, comm, device.stream); };
  double seconds = 0;
  for (int i = 0; i < warm_ups; ++i)
    if (Status s = device.time(1, launch, seconds); !s) return s;
  result.count =
      std::clamp(point.least_samples, 3, PLAN_PROBE_SAMPLES);  // the same on every rank, or they would wait for ever
  device.nccl_log.read();                                      // the last call so far was one of these
  std::snprintf(result.text, sizeof result.text, "%s", device.nccl_log.choice.c_str());
  for (int i = 0; i < result.count; ++i) {
    if (Status s = verify_sum(device, comm, point.group_size); !s) return s;  // lines the ranks up, too
    if (Status s = device.time(batch, launch, seconds); !s) return s;
    result.seconds[i] = seconds;
  }
  result.took_part = 1;
  result.bytes = static_cast<double>(exchange.bytes);
  return ok();
}

Status measure_nccl_memory(Device& device, const plan_probe_point& point, plan_probe_result& result) {
  size_t before = 0, after = 0, total = 0;
  if (Status s = device.wait(device.stream); !s) return s;
  cudaMemGetInfo(&before, &total);
  ncclComm_t comm = nullptr;
  if (Status s = make_group(device, point.group_size, point.group_stride, comm); !s) return s;
  if (point.op >= 0 && comm != nullptr) {
    plan_probe_point small = point;
    small.number[0] = 1 << 20;
    small.format = PLAN_PROBE_BF16;
    Exchange exchange;
    if (Status s = exchange.prepare(device, small); !s) return s;
    cudaMemGetInfo(&before, &total);  // the communicator itself counts under `init`
    if (Status s = exchange.launch(device, comm, device.stream); !s) return s;
    if (Status s = device.wait(device.stream); !s) return s;
    cudaMemGetInfo(&after, &total);
  } else {
    cudaMemGetInfo(&after, &total);
  }
  result.took_part = comm != nullptr ? 1 : 0;
  result.value[0] = before > after ? static_cast<double>(before - after) : 0;
  device.nccl_log.read();
  const plan::NcclChannels& channels = device.nccl_log.channels;
  result.value[1] = channels.collective, result.value[2] = channels.nvls, result.value[3] = channels.p2p;
  if (comm != nullptr) device.nccl.abort(comm);
  return ok();
}

Status measure_overlap(Device& device, const plan_probe_point& point, plan_probe_result& result) {
  constexpr int kRounds = 20;
  ncclComm_t comm = nullptr;
  if (Status s = find_group(device, point, comm); !s) return s;
  if (comm == nullptr) return ok();
  Exchange exchange;
  plan_probe_point shape = point;
  shape.format = PLAN_PROBE_BF16;
  if (Status s = exchange.prepare(device, shape); !s) return s;
  Gemm gemm;
  plan_probe_point product = shape;
  product.orientation = 0;
  product.number[0] = 8192, product.number[1] = 8192, product.number[2] = 4096;
  if (Status s = gemm.prepare(device, product); !s) return s;
  cudaEvent_t marks[4];
  for (cudaEvent_t& mark : marks) cudaEventCreate(&mark);
  const auto run = [&](bool compute, bool communicate, double& compute_s, double& comm_s) -> Status {
    if (Status s = verify_sum(device, comm, point.group_size); !s) return s;
    cudaEventRecord(marks[0], device.stream);
    cudaEventRecord(marks[2], device.second);
    for (int i = 0; i < kRounds; ++i) {
      if (compute)
        if (Status s = gemm.launch(device, device.stream); !s) return s;
      if (communicate)
        if (Status s = exchange.launch(device, comm, device.second); !s) return s;
    }
    cudaEventRecord(marks[1], device.stream);
    cudaEventRecord(marks[3], device.second);
    if (Status s = device.wait(device.stream); !s) return s;
    if (Status s = device.wait(device.second); !s) return s;
    float a = 0, b = 0;
    cudaEventElapsedTime(&a, marks[0], marks[1]);
    cudaEventElapsedTime(&b, marks[2], marks[3]);
    compute_s = a * 1e-3 / kRounds, comm_s = b * 1e-3 / kRounds;
    return ok();
  };
  double ignored = 0;
  Status done = run(true, true, ignored, ignored);  // warm-up
  if (done) done = run(true, false, result.value[0], ignored);
  if (done) done = run(false, true, ignored, result.value[1]);
  if (done) done = run(true, true, result.value[2], result.value[3]);
  for (cudaEvent_t mark : marks) cudaEventDestroy(mark);
  result.took_part = 1;
  return done;
}

}  // namespace plan_cuda
