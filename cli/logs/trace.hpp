#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "formulas/result.hpp"
#include "planner/runs/diagnosis.hpp"

namespace plan {

/// What a kernel on the GPU does.
enum class KernelFamily { Gemm, Attention, Pointwise, Optimizer, Copy, Communication, Other };
inline constexpr int kKernelFamilies = 7;
[[nodiscard]] std::string_view family_name(KernelFamily family);
/// From the kernel's name, as libraries and compilers give them.
[[nodiscard]] KernelFamily family_of(std::string_view kernel);

/// A communicator and what runs on it, as far as the profiler notes it.
struct TraceGroup {
  std::string op{};           ///< "AllReduce", "SendRecv", ...
  std::string description{};  ///< of the process group: "TENSOR_MODEL_PARALLEL_GROUP", "mesh_dp_shard"; may be empty
  int ranks = 0;              ///< 0: not noted
  auto operator<=>(const TraceGroup&) const = default;
};

/// One kernel on the GPU.
struct TraceKernel {
  double start = 0, end = 0;  ///< seconds
  KernelFamily family = KernelFamily::Other;
  int group = -1;  ///< index into groups, of communication
};

/// What one rank's GPU did, from a profiler.
struct Trace {
  std::string file{};
  bool of_cpu = false;                 ///< of a machine without a GPU: operators of the CPU stand for kernels
  std::vector<TraceKernel> kernels{};  ///< by start
  std::vector<TraceGroup> groups{};
  std::vector<std::pair<double, double>> steps{};  ///< marks of whole steps, seconds; empty: none
};

/// Index of a communication kernel's group in the trace, which is added where it is new. What the profiler does not say
/// of the operation follows from the kernel's name. Beyond 4096 groups only the operation tells them apart.
[[nodiscard]] int group_index(Trace& trace, std::string_view kernel, TraceGroup group);

/// A trace of PyTorch's profiler (Kineto: JSON, also gzip), or an export of Nsight Systems (SQLite), by content.
/// Reads streaming; keeps some 40 bytes a kernel.
[[nodiscard]] Result<Trace> read_trace(const std::string& path);
[[nodiscard]] Result<Trace> read_kineto(const std::string& path);
[[nodiscard]] Result<Trace> read_nsys(const std::string& path);

/// Where the time of a step went on that GPU.
struct TraceTimes {
  StepParts parts{};  ///< seconds a step; they add up to the step
  std::array<double, kKernelFamilies>
      families{};  ///< seconds a step that a kernel of the family runs, overlaps counted twice
  std::array<double, kObservables> hidden{};  ///< seconds a step of communication beside compute, by axis
  int steps = 0;
};

/// Sums up a trace. Time belongs to compute where any compute kernel runs, else to the communication that started
/// first, else it is idle. `part_of` says which part of a step a communicator's messages belong to. Without marks of
/// steps in the trace, `step_seconds` says how long one is; 0: the whole trace is one.
[[nodiscard]] TraceTimes trace_times(const Trace& trace, const std::function<Observable(const TraceGroup&)>& part_of,
                                     double step_seconds);

}  // namespace plan
