#pragma once

#include <string>
#include <string_view>

#include "formulas/hardware_profile.hpp"
#include "formulas/result.hpp"

namespace plan {

/// Adds what another tool measured to a profile, with its file as provenance. The tool is known from the text:
/// nccl-tests (table or `-J`), nvbandwidth (its text or `-j`), perftest (ib_write_bw, ib_send_lat, ...). Curves are
/// fitted and graded; what a file does not say (an operation's name) is an error that says how to tell.
[[nodiscard]] Result<void> import_measurements(std::string_view text, const std::string& file,
                                               HardwareProfile& profile);

// One function a format; import_measurements chooses.
[[nodiscard]] Result<void> import_nccl_table(std::string_view text, const std::string& file, HardwareProfile& profile);
[[nodiscard]] Result<void> import_nccl_json(std::string_view text, const std::string& file, HardwareProfile& profile);
[[nodiscard]] Result<void> import_nvbandwidth(std::string_view text, const std::string& file, HardwareProfile& profile);
[[nodiscard]] Result<void> import_nvbandwidth_text(std::string_view text, const std::string& file,
                                                   HardwareProfile& profile);
[[nodiscard]] Result<void> import_perftest(std::string_view text, const std::string& file, HardwareProfile& profile);

/// Times of one nccl-tests run, however it was written.
struct NcclRun {
  std::string program{};  ///< all_reduce_perf; empty where the file does not say
  std::string dtype{};
  std::string device{};
  std::string nccl{};
  std::vector<std::string> hosts{};  ///< of every rank, in rank order
  std::vector<CurvePoint> out_of_place{}, in_place{};
  double wire_ratio = 0;  ///< busbw / algbw of the largest size
  bool reduces = false;
  bool header = false, root = false,
       deltas = false;  ///< the line above the table was seen, and names columns `root`, `error`
  double wrong = 0;     ///< results that were wrong
};
/// Its curve, named, fitted and added.
[[nodiscard]] Result<void> add_nccl_run(const NcclRun& run, const std::string& file, HardwareProfile& profile);

/// Registers a file as provenance and returns its id.
[[nodiscard]] std::string add_import_source(HardwareProfile& profile, std::string tool, const std::string& file);

/// Fits a curve's table and says how good the fit is.
void fit_curve(ProfileCurve& curve);

}  // namespace plan
