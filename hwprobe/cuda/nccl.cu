// Collectives. Every rank takes the same number of repetitions of everything, and no rank leaves an operation that
// others are in. Tested by tests/hwprobe/device_figures_test.cpp on a device whose times are known.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "hwprobe/cuda/communicators.cuh"

namespace plan_cuda {
namespace {

enum Op { kAllReduce, kAllGather, kReduceScatter, kAllToAll, kSendRecv, kBroadcast };
constexpr const char* kOpWords[] = {"AllReduce", "AllGather", "ReduceScatter", "", "", "Broadcast"};  // of NCCL's log

struct Exchange {
  Buffer in{}, out{};
  Rotation turns{};
  ncclDataType_t type = ncclBfloat16;
  size_t width = 2;
  int op = kAllReduce, size = 2, index = 0;
  size_t bytes = 0;

  void describe(const Device& device, const plan_probe_point& point) {
    op = point.op;
    size = point.group_size;
    const bool wide = point.format == PLAN_PROBE_FP32;
    type = wide ? ncclFloat32 : ncclBfloat16;
    width = wide ? 4 : 2;
    const size_t step = width * static_cast<size_t>(size);
    bytes = std::max(step, static_cast<size_t>(point.number[0]) / step * step);
    index = device.setup.rank % (point.group_size * point.group_stride) / point.group_stride;
  }

  Status prepare(Device& device, const plan_probe_point& point) {
    describe(device, point);
    turns.plan(bytes, device.cache_bytes / 2);  // input and output together
    if (Status s = in.allocate(turns.total()); !s) return s;
    if (Status s = out.allocate(turns.total()); !s) return s;
    return fill_random(in.as(), turns.total() / width, point.format, device.stream,
                       11u + static_cast<unsigned>(device.setup.rank));
  }

  /// One operation of nccl-tests' size on `stream`, out of place: sums in place would grow to infinity.
  Status launch(Device& device, ncclComm_t comm, cudaStream_t stream) const {
    const Nccl& n = device.nccl;
    const size_t all = bytes / width, share = all / static_cast<size_t>(size), turn = turns.next();
    const char* const from = in.as<char>() + turn;
    char* const to = out.as<char>() + turn;
    ncclResult_t r = ncclSuccess;
    switch (op) {
      case kAllReduce: r = n.all_reduce(from, to, all, type, ncclSum, comm, stream); break;
      case kAllGather: r = n.all_gather(from, to, share, type, comm, stream); break;
      case kReduceScatter: r = n.reduce_scatter(from, to, share, type, ncclSum, comm, stream); break;
      case kBroadcast: r = n.broadcast(from, to, all, type, 0, comm, stream); break;
      default:
        n.group_start();
        if (op == kSendRecv) {
          n.send(from, all, type, (index + 1) % size, comm, stream);
          n.recv(to, all, type, (index + size - 1) % size, comm, stream);
        } else {
          for (int peer = 0; peer < size; ++peer) {
            const size_t at = static_cast<size_t>(peer) * share * width;
            n.send(from + at, share, type, peer, comm, stream);
            n.recv(to + at, share, type, peer, comm, stream);
          }
        }
        r = n.group_end();
    }
    if (Status s = nccl_status(device, r, "collective"); !s) return s;
    return r == ncclInProgress ? settle(device, comm, "collective") : ok();
  }

  /// What this rank's output must hold at `i` when rank r brings 1000 r + i at its place i.
  float wanted(size_t i, size_t share) const {
    const auto rank = static_cast<float>(index), n = static_cast<float>(size);
    const float ranks = 1000 * n * (n - 1) / 2;
    switch (op) {
      case kAllReduce: return ranks + n * static_cast<float>(i);
      case kReduceScatter: return ranks + n * static_cast<float>(static_cast<size_t>(index) * share + i);
      case kAllGather: return 1000 * static_cast<float>(i / share) + static_cast<float>(i % share);
      case kAllToAll:
        return 1000 * static_cast<float>(i / share) +
               static_cast<float>(static_cast<size_t>(index) * share + i % share);
      case kSendRecv: return 1000 * static_cast<float>((index + size - 1) % size) + static_cast<float>(i);
      default: return rank * 0 + static_cast<float>(i);
    }
  }
};

/// One small call of an operation on numbers that tell who sent what where: every value of its output is compared.
Status verify(Device& device, const plan_probe_point& point, ncclComm_t comm) {
  constexpr size_t kShare = 4;
  Exchange small;
  plan_probe_point exact = point;
  exact.format = PLAN_PROBE_FP32;
  const size_t all = kShare * static_cast<size_t>(point.group_size);
  exact.number[0] = static_cast<int64_t>(all * sizeof(float));
  small.describe(device, exact);
  small.turns.plan(small.bytes, 0);
  std::vector<float> host(all);
  std::iota(host.begin(), host.end(), 1000 * static_cast<float>(small.index));
  Status done = small.in.allocate(small.turns.total());
  if (done) done = small.out.allocate(small.turns.total());
  if (done)
    done =
        check(cudaMemcpyAsync(small.in.as(), host.data(), small.bytes, cudaMemcpyHostToDevice, device.stream), "copy");
  if (done) done = check(cudaMemsetAsync(small.out.as(), 0xff, small.bytes, device.stream), "fill");
  if (done = agree(device, comm, done); !done) return done;
  if (Status s = small.launch(device, comm, device.stream); !s) return s;
  if (Status s = device.wait(device.stream); !s) return s;
  const size_t written = small.op == kReduceScatter ? kShare : all;
  cudaMemcpy(host.data(), small.out.as(), written * sizeof(float), cudaMemcpyDeviceToHost);
  for (size_t i = 0; i < written && done; ++i)
    if (host[i] != small.wanted(i, kShare))
      done = failed("a small call of it gave " + std::to_string(host[i]) + " where " +
                        std::to_string(small.wanted(i, kShare)) + " was due",
                    PLAN_PROBE_WRONG_RESULT);
  return agree(device, comm, done);
}

Status verify_once(Device& device, const plan_probe_point& point, ncclComm_t comm) {
  bool& known = device.verified[{comm, point.op}];
  if (known) return ok();
  const Status right = verify(device, point, comm);
  known = static_cast<bool>(right);
  return right;
}

}  // namespace

Status measure_collective(Device& device, const plan_probe_point& point, plan_probe_result& result) {
  ncclComm_t comm = nullptr;
  if (Status s = find_group(device, point, comm); !s) return s;
  const bool first_alone = point.all_groups == 0 && group_of(device, point.group_size, point.group_stride) != 0;
  if (comm == nullptr || first_alone) return ok();  // this rank takes no part
  if (Status s = verify_once(device, point, comm); !s) return s;
  Exchange exchange;
  if (Status s = agree(device, comm, exchange.prepare(device, point)); !s) return s;
  const bool small = exchange.bytes <= 65536;
  const int warm_ups = small ? 20 : 5, batch = small ? 20 : exchange.bytes <= (8u << 20) ? 8 : 2;
  const auto launch = [&] { return exchange.launch(device, comm, device.stream); };
  const auto together = [&] { return align(device, comm, device.stream); };
  double seconds = 0;
  for (int i = 0; i < warm_ups; ++i)
    if (Status s = device.time(1, launch, seconds, together); !s) return s;
  result.count =
      std::clamp(point.least_samples, 3, PLAN_PROBE_SAMPLES);  // the same on every rank, or they would wait for ever
  for (int i = 0; i < result.count; ++i) {
    if (Status s = device.time(batch, launch, seconds, together); !s) return s;
    result.seconds[i] = seconds;
  }
  device.nccl_log.read();
  std::snprintf(
      result.text, sizeof result.text, "%s",
      device.nccl_log.choice(kOpWords[exchange.op], exchange.bytes, exchange.bytes / static_cast<size_t>(exchange.size))
          .c_str());
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
  if (comm == nullptr) return ok();
  cudaMemGetInfo(&after, &total);
  Status done = ok();
  if (point.op >= 0) {
    plan_probe_point small = point;
    small.number[0] = 1 << 20;
    small.format = PLAN_PROBE_BF16;
    Exchange exchange;
    done = exchange.prepare(device, small);
    cudaMemGetInfo(&before, &total);  // the communicator itself counts under `init`
    // Ranks that lack the memory for it say so over the world's communicator: this one must stay untouched until then.
    done = agree(device, device.world, done);
    if (done) done = exchange.launch(device, comm, device.stream);
    if (done) done = device.wait(device.stream);
    if (!done) return done;
    cudaMemGetInfo(&after, &total);
  }
  result.took_part = 1;
  result.value[0] = before > after ? static_cast<double>(before - after) : 0;
  device.nccl_log.read();
  const plan::NcclChannels& channels = device.nccl_log.channels;
  result.value[1] = channels.collective, result.value[2] = channels.nvls, result.value[3] = channels.p2p;
  device.nccl.abort(comm);
  return ok();
}

namespace {

/// A product beside a collective on two streams.
struct Pair {
  Device& device;
  ncclComm_t comm;
  Gemm gemm;
  Exchange exchange{};
  cudaEvent_t marks[4] = {}, aligned = nullptr;

  Pair(Device& on, ncclComm_t among) : device(on), comm(among), gemm(on) {
    for (cudaEvent_t& mark : marks) cudaEventCreate(&mark);
    cudaEventCreateWithFlags(&aligned, cudaEventDisableTiming);
  }
  ~Pair() {
    for (cudaEvent_t mark : marks) cudaEventDestroy(mark);
    cudaEventDestroy(aligned);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  /// Seconds of one product and of one collective when so many of each begin together, on all ranks at once.
  Status run(int products, int collectives, double& product_s, double& collective_s) {
    device.hold(device.second);
    Status done = align(device, comm, device.second);
    cudaEventRecord(aligned, device.second);
    cudaStreamWaitEvent(device.stream, aligned, 0);
    cudaEventRecord(marks[0], device.stream);
    cudaEventRecord(marks[2], device.second);
    for (int i = 0; i < products && done; ++i) done = gemm.launch(device, device.stream);
    for (int i = 0; i < collectives && done; ++i) done = exchange.launch(device, comm, device.second);
    cudaEventRecord(marks[1], device.stream);
    cudaEventRecord(marks[3], device.second);
    device.open_gate();
    if (done) done = device.wait(device.stream);
    if (done) done = device.wait(device.second);
    if (done) done = check(cudaGetLastError(), "launch");  // without its gate nothing begins together
    if (!done) return done;
    float a = 0, b = 0;
    cudaEventElapsedTime(&a, marks[0], marks[1]);
    cudaEventElapsedTime(&b, marks[2], marks[3]);
    if (products > 0) product_s = a * 1e-3 / products;
    if (collectives > 0) collective_s = b * 1e-3 / collectives;
    return ok();
  }
};

}  // namespace

Status measure_overlap(Device& device, const plan_probe_point& point, plan_probe_result& result) {
  constexpr double kWindow = 20e-3;  // seconds, long against beginnings and ends
  constexpr int kMost = 200;
  ncclComm_t comm = nullptr;
  if (Status s = find_group(device, point, comm); !s) return s;
  if (comm == nullptr) return ok();
  if (Status s = verify_once(device, point, comm); !s) return s;
  plan_probe_point product = point;
  product.format = PLAN_PROBE_BF16;
  Pair pair(device, comm);
  Status done = pair.exchange.prepare(device, product);
  product.orientation = 0;
  product.number[0] = 8192, product.number[1] = 8192, product.number[2] = 4096;
  if (done) done = pair.gemm.prepare(device, product);
  if (done) done = pair.gemm.verify(device);
  if (done = agree(device, comm, done); !done) return done;
  double &compute = result.value[0], &communicate = result.value[1], ignored = 0;
  done = pair.run(2, 2, ignored, ignored);  // warm-up
  if (done) done = pair.run(10, 0, compute, ignored);
  if (done) done = pair.run(0, 10, ignored, communicate);
  double compute_all = compute, communicate_all = communicate;  // the slowest rank's, so that all take as many
  if (done) done = largest(device, comm, compute_all);
  if (done) done = largest(device, comm, communicate_all);
  if (!done) return done;
  const auto lasting = [&](double seconds, double one) {
    return std::clamp(static_cast<int>(std::ceil(seconds / std::max(one, 1e-7))), 2, kMost);
  };
  // Whichever is timed has the other beside it until its end and beyond.
  const double beside = 1.6 * kWindow;
  done = pair.run(lasting(kWindow, compute_all), lasting(beside, communicate_all), result.value[2], ignored);
  if (done) done = pair.run(lasting(beside, compute_all), lasting(kWindow, communicate_all), ignored, result.value[3]);
  result.took_part = 1;
  return done;
}

}  // namespace plan_cuda
