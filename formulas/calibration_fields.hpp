#pragma once

#include <string_view>

#include "formulas/cluster.hpp"

namespace plan {

/// One constant of a cluster that its own runs can tell: its key in a profile, the range that makes sense, and how far,
/// as a share of the default, it is expected to lie from it (one standard deviation of its logarithm).
struct CalibrationField {
  std::string_view name;
  double Calibration::*value;
  double least, most;
  double spread;
};

inline constexpr CalibrationField kCalibrationFields[] = {
    {"gemm", &Calibration::gemm, 0.2, 1.5, 0.10},
    {"grouped_gemm", &Calibration::grouped_gemm, 0.1, 2, 0.15},
    {"attention", &Calibration::attention, 0.1, 2, 0.15},
    {"scan", &Calibration::scan, 0.1, 5, 0.30},
    {"memory_bound", &Calibration::memory_bound, 0.1, 2, 0.15},
    {"scale_up", &Calibration::scale_up, 0.05, 2, 0.20},
    {"scale_out", &Calibration::scale_out, 0.02, 2, 0.30},
    {"network_decay", &Calibration::network_decay, 0.001, 0.5, 0.50},
    {"tensor_parallel", &Calibration::tensor_parallel, 0.5, 4, 0.20},
    {"overlap_tax", &Calibration::overlap_tax, 0.001, 2, 0.40},
    {"jitter", &Calibration::jitter, 0.0001, 0.2, 0.40},
    {"kernel_gap_us", &Calibration::kernel_gap_us, 0.05, 200, 0.30},
    {"eager_gap_us", &Calibration::eager_gap_us, 0.5, 2000, 0.30},
    {"fixed_step_ms", &Calibration::fixed_step_ms, 0.01, 2000, 0.50},
    {"allocator_reserve", &Calibration::allocator_reserve, 0.01, 20, 0.50},
};

}  // namespace plan
