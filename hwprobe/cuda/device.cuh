// What the parts of the measuring plugin share: the open device, timing, buffers. CUDA runtime linked statically;
// cuBLASLt linked; NCCL loaded at run time so that the user's own is measured.
#pragma once

#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>
#include <nccl.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

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

/// Device memory that is freed with its owner.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { cudaFree(data_); }
  Status allocate(size_t bytes);
  template <class T = void>
  T* as() const {
    return static_cast<T*>(data_);
  }
  size_t size() const { return size_; }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

/// The functions of a libnccl found at run time.
struct Nccl {
  void* library = nullptr;
  ncclResult_t (*version)(int*) = nullptr;
  ncclResult_t (*unique_id)(ncclUniqueId*) = nullptr;
  ncclResult_t (*init)(ncclComm_t*, int, ncclUniqueId, int, ncclConfig_t*) = nullptr;
  ncclResult_t (*split)(ncclComm_t, int, int, ncclComm_t*, ncclConfig_t*) = nullptr;
  ncclResult_t (*async_error)(ncclComm_t, ncclResult_t*) = nullptr;
  ncclResult_t (*abort)(ncclComm_t) = nullptr;
  ncclResult_t (*all_reduce)(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                             cudaStream_t) = nullptr;
  ncclResult_t (*all_gather)(const void*, void*, size_t, ncclDataType_t, ncclComm_t, cudaStream_t) = nullptr;
  ncclResult_t (*reduce_scatter)(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                                 cudaStream_t) = nullptr;
  ncclResult_t (*broadcast)(const void*, void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t) = nullptr;
  ncclResult_t (*send)(const void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t) = nullptr;
  ncclResult_t (*recv)(void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t) = nullptr;
  ncclResult_t (*group_start)() = nullptr;
  ncclResult_t (*group_end)() = nullptr;
  const char* (*error_string)(ncclResult_t) = nullptr;
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
  std::string choice{};  ///< algorithm and protocol of the last call
  plan::NcclChannels channels{};

 private:
  std::string path_{}, rest_{};
  int file_ = -1;
};

/// An open GPU of one rank.
struct Device {
  plan_probe_setup setup{};
  cudaStream_t stream = nullptr, second = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
  cublasLtHandle_t blas = nullptr;
  Buffer workspace{};
  Nccl nccl{};
  NcclLog nccl_log{};
  std::shared_ptr<dnn::Library> cudnn{};
  ncclComm_t world = nullptr;
  std::map<std::pair<int, int>, ncclComm_t> groups{};  ///< by size and stride; null: in none
  std::atomic<bool> stopped{false};
  double total_bytes = 0, free_bytes = 0, context_bytes = 0;

  /// Waits for a stream by polling, so that a hung GPU or an abort ends it.
  Status wait(cudaStream_t on);
  /// Seconds of `repetitions` calls of `launch` between two events on the first stream.
  Status time(int repetitions, const std::function<Status()>& launch, double& seconds);
};

/// Warms up, then samples until the median is known within 2 % or the point's limits are reached.
Status sample(Device& device, const plan_probe_point& point, const std::function<Status()>& launch,
              plan_probe_result& result);

/// Normally distributed values of a format, the same on every run.
Status fill_random(void* data, size_t count, int format, cudaStream_t stream, unsigned seed);
Status fill_e5m2(void* data, size_t count, cudaStream_t stream, unsigned seed);

// The kinds of points.
Status measure_memory(Device&, const plan_probe_point&, plan_probe_result&);
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
  Status prepare(Device& device, const plan_probe_point& point);
  Status launch(Device& device, cudaStream_t stream) const;
  Status verify(Device& device);
  ~Gemm();

 private:
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t a_layout_ = nullptr, b_layout_ = nullptr, d_layout_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_{};
  Buffer a_{}, b_{}, d_{}, scale_a_{}, scale_b_{};
  plan_probe_point point_{};
  bool trans_a_ = true, trans_b_ = false;
  int format_b_ = 0;
  float beta_ = 0;
};

}  // namespace plan_cuda
