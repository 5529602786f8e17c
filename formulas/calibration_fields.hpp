#pragma once

#include <string_view>

#include "formulas/cluster.hpp"

namespace plan {

/// One constant of a cluster that its own runs can tell: its key in a profile, the range that makes sense, how far, as
/// a share of the default, it is expected to lie from it (one standard deviation of its logarithm), and which part of a
/// step or of memory it scales, for which something else may be wrong if it goes further.
struct CalibrationField {
  std::string_view name;
  double Calibration::*value;
  double least, most;
  double spread;
  std::string_view scales;
};

inline constexpr CalibrationField kCalibrationFields[] = {
    {"gemm", &Calibration::gemm, 0.2, 1.5, 0.10, "matrix products"},
    {"grouped_gemm", &Calibration::grouped_gemm, 0.1, 2, 0.15, "the products of experts"},
    {"attention", &Calibration::attention, 0.1, 2, 0.15, "attention kernels"},
    {"scan", &Calibration::scan, 0.1, 5, 0.30, "scans of Mamba and DeltaNet layers"},
    {"memory_bound", &Calibration::memory_bound, 0.1, 2, 0.15, "norms, activations and the optimizer's step"},
    {"scale_up", &Calibration::scale_up, 0.05, 2, 0.20, "communication inside a node"},
    {"scale_out", &Calibration::scale_out, 0.02, 2, 0.30, "communication between nodes"},
    {"network_decay", &Calibration::network_decay, 0.001, 0.5, 0.50, "communication between many nodes"},
    {"overlap_tax", &Calibration::overlap_tax, 0.001, 2, 0.40, "communication that hides under compute"},
    {"jitter", &Calibration::jitter, 0.0001, 0.2, 0.40, "waiting for the slowest rank"},
    {"kernel_gap_us", &Calibration::kernel_gap_us, 0.05, 200, 0.30, "launches of kernels"},
    {"eager_gap_us", &Calibration::eager_gap_us, 0.5, 2000, 0.30, "operations that Python launches one by one"},
    {"fixed_step_ms", &Calibration::fixed_step_ms, 0.01, 2000, 0.50, "what a step takes whatever its size"},
    {"allocator_reserve", &Calibration::allocator_reserve, 0.01, 20, 0.50, "memory that the allocator keeps"},
};

}  // namespace plan
