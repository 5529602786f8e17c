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

/// A trace of PyTorch's profiler; `stride` is how far apart the ranks of the tensor group lie.
[[nodiscard]] std::string write_kineto(const MadeRun& run, const PlannedStep& step, GroupNames names, int stride);

/// An export of Nsight Systems, at `path`; each group has a stream of its own.
void write_nsys(const MadeRun& run, const std::string& path);

}  // namespace plan::oracle
