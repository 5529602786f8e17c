#pragma once

#include <random>
#include <string>

#include "oracle/faulty_run.hpp"

namespace plan::oracle {

/// What a log has to say of the job besides the time of its steps.
struct LoggedJob {
  long global_batch = 0, seq = 0, gpus = 0;
};
inline constexpr int kLogFormats = 14;

/// The log of some 40 steps of `seconds` each with 3 % of noise, the first ones slower, in the words of one framework.
[[nodiscard]] std::string write_log(int format, const LoggedJob& job, double seconds, std::mt19937& random);

/// How a framework names its process groups to the profiler.
enum class GroupNames { Megatron, Torchtitan, SizesOnly };

/// Where the ranks of a run's groups stand: how far apart those of the tensor group lie, and whether stages lie nearer
/// to each other than replicas, which was not planned.
struct Standing {
  int tensor_stride = 1;
  bool stages_inside = false;
};

/// A trace of PyTorch's profiler.
[[nodiscard]] std::string write_kineto(const MadeRun& run, const PlannedStep& step, GroupNames names,
                                       Standing standing);

/// An export of Nsight Systems, at `path`; each group has a stream of its own.
void write_nsys(const MadeRun& run, const std::string& path);

}  // namespace plan::oracle
