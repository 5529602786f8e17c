// What the parts of the measuring plugin share: the open device, timing, buffers. The CUDA runtime is linked
// statically; cuBLASLt, cuDNN and NCCL are loaded at run time so that the user's own are measured.
#pragma once

#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>
#include <nccl.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "hwprobe/cuda/maker.cuh"
#include "hwprobe/nccl_log.hpp"
#include "hwprobe/plugin_abi.h"

namespace plan_cuda::dnn {
class Library;  // cudnn_graph.cuh
}
namespace plan_cuda {

/// A plan_probe_error with its words.
struct Status {
  int code = PLAN_PROBE_OK;
  std::string words{};
  explicit operator bool() const { return code == PLAN_PROBE_OK; }
};
inline Status ok() { return {}; }
inline Status failed(std::string words, int code = PLAN_PROBE_FAILED) { return {code, std::move(words)}; }
Status check(cudaError_t status, const char* what);

using Clock = std::chrono::steady_clock;
inline double since(Clock::time_point then) { return std::chrono::duration<double>(Clock::now() - then).count(); }

/// Device memory that is freed with its owner, unless the device hangs: freeing would wait for it for ever.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { release(); }
  Status allocate(size_t bytes);
  template <class T = void>
  T* as() const {
    return static_cast<T*>(data_);
  }
  size_t size() const { return size_; }
  static std::atomic<bool> abandoned;

 private:
  void release() {
    if (!abandoned) cudaFree(data_);
  }
  void* data_ = nullptr;
  size_t size_ = 0;
};

/// One of several copies of an operation's data, the next at every launch, so that none is found in the cache.
class Rotation {
 public:
  /// As many copies of `bytes` as twice the cache holds, each beginning on a line of it; at most `most`.
  void plan(size_t bytes, size_t cache, size_t most = 256);
  size_t stride() const { return stride_; }
  size_t total() const { return stride_ * copies_; }
  size_t copies() const { return copies_; }
  /// Offset of the next copy in bytes.
  size_t next() const { return stride_ * (turn_++ % copies_); }

 private:
  size_t stride_ = 0, copies_ = 1;
  mutable size_t turn_ = 0;
};

/// A library found at run time: the file that was asked for, or the first of some names.
void* open_library(const char* path, std::initializer_list<const char*> names, std::string& why);

/// The functions of a libcublasLt.
struct Blas {
  void* library = nullptr;
  cublasLtHandle_t handle = nullptr;
  decltype(&cublasLtCreate) create = nullptr;
  void *version = nullptr, *words = nullptr;  ///< of its maker
  decltype(&cublasLtMatmulDescCreate) make_operation = nullptr;
  decltype(&cublasLtMatmulDescDestroy) end_operation = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) set_operation = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) make_layout = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) end_layout = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) make_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) end_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  Status load(const char* path);
  Status check(cublasStatus_t status, const char* what) const;
  std::string version_text() const;
};

/// The functions of a libnccl.
struct Nccl {
  void* library = nullptr;
  decltype(&ncclGetVersion) version = nullptr;
  decltype(&ncclGetUniqueId) unique_id = nullptr;
  decltype(&ncclCommInitRankConfig) init = nullptr;
  decltype(&ncclCommSplit) split = nullptr;
  decltype(&ncclCommGetAsyncError) async_error = nullptr;
  decltype(&ncclCommAbort) abort = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclAllGather) all_gather = nullptr;
  decltype(&ncclReduceScatter) reduce_scatter = nullptr;
  decltype(&ncclBroadcast) broadcast = nullptr;
  decltype(&ncclSend) send = nullptr;
  decltype(&ncclRecv) recv = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;
  decltype(&ncclGetErrorString) error_string = nullptr;
  Status load(const char* path);
};

/// The log that a libnccl loaded from here on writes for us, unless the user has asked for one of his own.
class NcclLog {
 public:
  NcclLog() = default;
  NcclLog(const NcclLog&) = delete;
  NcclLog& operator=(const NcclLog&) = delete;
  ~NcclLog();
  void ask_for();
  /// Reads what has been written since the last call.
  void read();
  /// Algorithm and protocol of the last call of an operation, of `bytes` in all or `share` a rank, that `read` saw;
  /// empty where NCCL did not log it.
  std::string choice(const std::string& op, size_t bytes, size_t share) const;
  plan::NcclChannels channels{};

 private:
  std::string path_{}, rest_{};
  std::vector<plan::NcclChoice> choices_{};
  int file_ = -1;
};

using Launch = std::function<Status()>;

/// An open GPU of one rank.
struct Device {
  plan_probe_setup setup{};
  cudaStream_t stream = nullptr, second = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
  int* gate = nullptr;  ///< a flag that the host sets and the GPU sees
  Blas blas{};
  std::string no_blas{};  ///< why there is none
  Buffer workspace{};
  Buffer small{};  ///< where ranks agree, however little memory is left
  Nccl nccl{};
  NcclLog nccl_log{};
  std::shared_ptr<dnn::Library> cudnn{};
  ncclComm_t world = nullptr;
  std::map<std::pair<int, int>, ncclComm_t> groups{};  ///< by size and stride; null: in none
  std::map<std::pair<ncclComm_t, int>, bool> verified{};
  std::string broken_nccl{};  ///< why no further collective makes sense
  std::mutex communicators;   ///< guards `world` and `groups` against an abort from another thread
  std::timed_mutex measuring;
  std::atomic<bool> stopped{false};
  size_t cache_bytes = 0;
  std::string architecture{};
  double total_bytes = 0, free_bytes = 0, context_bytes = 0;
  Clock::time_point worked{};  ///< when the GPU last had something to do

  /// Waits for a stream by polling, so that a hung GPU or an abort ends it.
  Status wait(cudaStream_t on);
  /// Holds a stream until `open_gate`.
  void hold(cudaStream_t on);
  void open_gate() { *static_cast<volatile int*>(gate) = 1; }
  /// Seconds of `repetitions` calls of `launch` between two events on the first stream, all queued before the first
  /// begins. `align` goes in front of them: where ranks wait for each other.
  Status time(int repetitions, const Launch& launch, double& seconds, const Launch& align = {});
  /// Ends every communicator, and with them kernels that wait for other ranks.
  void abort_communicators();
};

/// Warms up, then samples until the median is known within 2 % or the point's limits are reached.
Status sample(Device& device, const plan_probe_point& point, const Launch& launch, plan_probe_result& result);

/// Normally distributed values of a format, the same on every run.
Status fill_random(void* data, size_t count, int format, cudaStream_t stream, unsigned seed);
Status fill_e5m2(void* data, size_t count, cudaStream_t stream, unsigned seed);

/// Loads every kernel of ours: a driver that loads at the first launch may wait for what runs, and the gate runs.
void preload_timing();
void preload_kernels();
void preload_gemm();
void preload_attention();

// The kinds of points.
Status measure_bandwidth(Device&, const plan_probe_point&, plan_probe_result&);
Status measure_kernel(Device&, const plan_probe_point&, plan_probe_result&);
Status measure_host_link(Device&, const plan_probe_point&, plan_probe_result&);
Status measure_pair(Device&, const plan_probe_point&, plan_probe_result&);
Status measure_gemm(Device&, const plan_probe_point&, plan_probe_result&);
Status measure_attention(Device&, const plan_probe_point&, plan_probe_result&);
/// Loads libcudnn; its version, empty where there is none.
std::string cudnn_version(Device& device);
Status measure_sustained(Device&, const plan_probe_point&, plan_probe_result&);
Status measure_collective(Device&, const plan_probe_point&, plan_probe_result&);
Status measure_nccl_memory(Device&, const plan_probe_point&, plan_probe_result&);
Status measure_overlap(Device&, const plan_probe_point&, plan_probe_result&);
Status join_world(Device&, const unsigned char id[PLAN_PROBE_ID_BYTES]);

/// A GEMM ready to be launched again and again.
class Gemm {
 public:
  explicit Gemm(Device& device) : blas_(device.blas) {}
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;
  Status prepare(Device& device, const plan_probe_point& point);
  Status launch(Device& device, cudaStream_t stream) const;
  Status verify(Device& device);
  ~Gemm();

 private:
  Status describe(const Device& device, const plan_probe_point& point, cudaDataType out);
  Status allocate(Device& device, const plan_probe_point& point, size_t width_d);
  Status scales(Device& device, const plan_probe_point& point);
  Status launch_at(Device& device, cudaStream_t stream, size_t copy) const;

  const Blas& blas_;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t a_layout_ = nullptr, b_layout_ = nullptr, d_layout_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_{};
  Buffer a_{}, b_{}, d_{}, scale_a_{}, scale_b_{};
  size_t a_stride_ = 0, b_stride_ = 0, d_stride_ = 0, copies_ = 1;
  mutable size_t turn_ = 0;
  plan_probe_point point_{};
  bool trans_a_ = true, trans_b_ = false;
  int format_b_ = 0;
  float beta_ = 0;
};

}  // namespace plan_cuda
