#pragma once

#include <string>
#include <string_view>

#include "formulas/hardware_profile.hpp"
#include "formulas/result.hpp"
#include "presets/entries.hpp"

namespace plan {

/// Whether a file is a measured profile (`schema: plan.hardware/1`) and not a cluster preset.
[[nodiscard]] bool is_hardware_profile(std::string_view text);

/// Profile from a `schema: plan.hardware/1` file. `file` is the name in messages.
[[nodiscard]] Result<HardwareProfile> read_hardware(std::string text, std::string file);

/// The file that reads back as the same profile, to six digits.
[[nodiscard]] std::string write_hardware(const HardwareProfile& profile);

/// Name of the data sheet of a device, from the name its driver gives and its memory in GiB (0: not known); empty if
/// there is none. "NVIDIA H100 80GB HBM3" is h100-sxm.
[[nodiscard]] std::string preset_of_device(std::string_view device, double memory_gib,
                                           const StoreOptions& options = StoreOptions{});

/// The cluster that a profile describes: the table first, the fit outside it, `data_sheet` (with the efficiencies the
/// program carries) for what was not measured; `measured_parts` and `unmeasured_parts` say which is which.
[[nodiscard]] Result<Cluster> cluster_of_profile(const HardwareProfile& profile, const Gpu& data_sheet);

/// Rates at scattered shapes as a full grid: measured where measured; in between the roofline, corrected by the
/// measured points around (inverse distance in logarithms).
[[nodiscard]] GemmGrid grid_of_points(const std::vector<GemmPoint>& points, const GemmFit& fit, DType dtype,
                                      Orientation orientation);

/// Data type whose peak and tables a GEMM format belongs to.
[[nodiscard]] DType dtype_of_format(std::string_view format);

}  // namespace plan
