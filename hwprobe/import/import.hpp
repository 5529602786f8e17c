#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formulas/hardware_profile.hpp"
#include "formulas/result.hpp"

namespace plan {

/// What a user says of results that do not say it themselves.
struct ImportHints {
  std::optional<Collective> op{};  ///< --op
  int ranks = 0, nodes = 1;        ///< --ranks 16, --ranks 2x8; 0: not said
};

/// Adds what another tool measured to a profile, with its file as provenance. The tool is known from the text:
/// nccl-tests and rccl-tests (table or `-J`), nvbandwidth (its text or `-j`), perftest (ib_write_bw, ib_send_lat, ...,
/// text or --out_json), `nvidia-smi topo -m`. Curves are fitted and graded; what a file does not say (an operation's
/// name) is an error that says how to tell. The result is what was taken, in words.
[[nodiscard]] Result<std::string> import_measurements(std::string_view text, const std::string& file,
                                                      HardwareProfile& profile, const ImportHints& hints = {});

// One function a format; import_measurements chooses.
[[nodiscard]] Result<std::string> import_nccl_table(std::string_view text, const std::string& file,
                                                    HardwareProfile& profile, const ImportHints& hints);
[[nodiscard]] Result<std::string> import_nccl_json(std::string_view text, const std::string& file,
                                                   HardwareProfile& profile, const ImportHints& hints);
[[nodiscard]] Result<std::string> import_nvbandwidth(std::string_view text, const std::string& file,
                                                     HardwareProfile& profile);
[[nodiscard]] Result<std::string> import_nvbandwidth_text(std::string_view text, const std::string& file,
                                                          HardwareProfile& profile);
[[nodiscard]] Result<std::string> import_perftest(std::string_view text, const std::string& file,
                                                  HardwareProfile& profile);
[[nodiscard]] Result<std::string> import_perftest_json(std::string_view text, const std::string& file,
                                                       HardwareProfile& profile);
/// Who is connected to whom on a host, as `nvidia-smi topo -m` prints it.
[[nodiscard]] Result<std::string> import_topology(std::string_view text, const std::string& file,
                                                  HardwareProfile& profile);

/// What nccl-tests says of one size. A time of 0 was not measured.
struct NcclRow {
  double bytes = 0;
  std::string type{}, op{};  ///< "float", "sum"; "none" where nothing is reduced
  double out_us = 0, in_us = 0;
  double algbw = 0, busbw = 0;  ///< GB/s, out of place
  double wrong = 0;             ///< results that were wrong
};
/// Times of one nccl-tests run in one type, however it was written.
struct NcclRun {
  std::string program{};  ///< all_reduce_perf; empty where the file does not say
  std::string device{};
  std::string nccl{};
  std::vector<std::string> hosts{};  ///< of every rank, in rank order
  std::vector<NcclRow> rows{};
  bool rccl = false;  ///< AMD's twin of it
};
/// Its curve, named, fitted and added.
[[nodiscard]] Result<std::string> add_nccl_run(NcclRun run, const std::string& file, HardwareProfile& profile,
                                               const ImportHints& hints);

/// Registers a file as provenance and returns its id.
[[nodiscard]] std::string add_import_source(HardwareProfile& profile, std::string tool, const std::string& file);

/// Fits a curve's table and says how good the fit is.
void fit_curve(ProfileCurve& curve);

}  // namespace plan
