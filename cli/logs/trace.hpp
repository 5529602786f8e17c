#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formulas/result.hpp"
#include "planner/runs/diagnosis.hpp"

namespace plan {

/// What a kernel on the GPU does.
enum class KernelFamily : std::uint8_t { Gemm, Attention, Pointwise, Optimizer, Copy, Communication, Other };
inline constexpr int kKernelFamilies = 7;
[[nodiscard]] std::string_view family_name(KernelFamily family);
/// From the kernel's name, as libraries and compilers give them.
[[nodiscard]] KernelFamily family_of(std::string_view kernel);

/// What a kernel's name tells beside its family, as far as faults show in it: attention forward and backward, by one
/// kernel a layer; the softmax of attention that is not fused; pointwise work by PyTorch's own kernels or by fused
/// ones; products of 8 bits and fewer, or of 16.
enum class KernelSign : std::uint8_t {
  None,
  AttentionForward,
  AttentionBackward,
  Softmax,
  Eager,
  Fused,
  NarrowGemm,
  WideGemm
};
inline constexpr int kKernelSigns = 8;
[[nodiscard]] KernelSign sign_of(std::string_view kernel, KernelFamily family);

/// A communicator and what runs on it, as far as the profiler notes it.
struct TraceGroup {
  std::string op{};           ///< "AllReduce", "SendRecv", ...
  std::string description{};  ///< of the process group: "TENSOR_MODEL_PARALLEL_GROUP", "mesh_dp_shard"; may be empty
  int ranks = 0;              ///< 0: not noted
  int stride = 0;             ///< from its first rank to its second; 0: not noted
  int stream = -1;            ///< of the GPU, which tells communicators apart that have no name; -1: they have
  auto operator<=>(const TraceGroup&) const = default;
};

/// One kernel on the GPU.
struct TraceKernel {
  double start = 0, end = 0;  ///< seconds
  KernelFamily family = KernelFamily::Other;
  KernelSign sign = KernelSign::None;
  int group = -1;  ///< index into groups, of communication
};

/// What the host did that a GPU waits for.
enum class HostWork : std::uint8_t { Memory, Data };  ///< cudaMalloc and cudaFree; the next batch
struct HostCall {
  double start = 0, end = 0;  ///< seconds
  HostWork work = HostWork::Memory;
};

/// Does a mark of this name span the wait for a batch, in the words of PyTorch's loader or of Megatron-LM?
[[nodiscard]] bool waits_for_batch(std::string_view name);

/// What one rank's GPU did, from a profiler.
struct Trace {
  std::string file{};
  std::string cut{};                   ///< of a file without its end: what is written where it breaks off
  bool of_cpu = false;                 ///< of a machine without a GPU: operators of the CPU stand for kernels
  std::vector<TraceKernel> kernels{};  ///< by start
  std::vector<TraceGroup> groups{};
  std::vector<std::pair<double, double>> steps{};  ///< marks of whole steps, seconds; empty: none
  std::vector<HostCall> calls{};                   ///< at most a million, in no order
};

/// Index of a communication kernel's group in the trace, which is added where it is new. What the profiler does not say
/// of the operation follows from the kernel's name. Beyond 4096 groups only the operation tells them apart.
[[nodiscard]] int group_index(Trace& trace, std::string_view kernel, TraceGroup group);

/// A trace of PyTorch's profiler (Kineto: JSON, also gzip), or an export of Nsight Systems (SQLite), by content: one
/// trace a rank, of which an export holds as many as ran on the node. Reads streaming; keeps some 40 bytes a kernel.
[[nodiscard]] Result<std::vector<Trace>> read_traces(const std::string& path);
[[nodiscard]] Result<Trace> read_kineto(const std::string& path);
[[nodiscard]] Result<std::vector<Trace>> read_nsys(const std::string& path);

/// Where the time of a step went on that GPU.
struct TraceTimes {
  StepParts parts{};  ///< seconds a step; they add up to the step
  std::array<double, kKernelFamilies>
      families{};  ///< seconds a step that a kernel of the family runs, overlaps counted twice
  /// Seconds a step of communication beside compute or beside another axis' messages, which the time counts for.
  std::array<double, kObservables> hidden{};
  double gaps = 0;  ///< of the idle seconds a step, those in gaps too short for anything but launching the next kernel
  int steps = 0;
  /// The first counted step in `kMoments` pieces of equal length: the part that most of each belongs to.
  std::vector<Observable> course{};
};
inline constexpr int kMoments = 240;

/// Does a moment lie in a step that counts? Without marks all do.
[[nodiscard]] bool in_counted_step(const Trace& trace, double moment);

/// Sums up a trace. Time belongs to compute where any compute kernel runs, else to the communication that started
/// first, else it is idle. `parts` says of each of the trace's groups which part of a step its messages belong to.
/// Without marks of steps in the trace, `step_seconds` says how long one is; 0: the whole trace is one.
[[nodiscard]] TraceTimes trace_times(const Trace& trace, std::span<const Observable> parts, double step_seconds);

}  // namespace plan
