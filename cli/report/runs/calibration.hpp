#pragma once

#include <string>

#include "cli/terminal/terminal.hpp"
#include "planner/runs/calibrate.hpp"

namespace plan {

/// What a calibration found, for people and as schema plan-calibrate/1.
[[nodiscard]] std::string calibration_text(const CalibrationResult& result, const std::string& gpu,
                                           const Terminal& terminal);
[[nodiscard]] std::string calibration_json(const CalibrationResult& result, const std::string& gpu);

}  // namespace plan
