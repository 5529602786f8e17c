#pragma once

#include <string>
#include <vector>

#include "cli/terminal/terminal.hpp"
#include "hwprobe/node/discover.hpp"
#include "hwprobe/profile/compare.hpp"
#include "hwprobe/sweep/sweep.hpp"

namespace plan {

/// A file of another tool, and what was taken of it.
struct TakenResult {
  std::string file{}, what{};
};
[[nodiscard]] std::string taken_text(const std::vector<TakenResult>& taken, const Terminal& terminal);

/// Measured against expected, one figure a line, with a verdict in words; then what is wrong and what was left out.
[[nodiscard]] std::string probe_text(const HardwareProfile& profile, const Cluster& expected, const Terminal& terminal);
[[nodiscard]] std::string probe_json(const HardwareProfile& profile, const Cluster& expected,
                                     const std::vector<TakenResult>& taken = {});

/// Two profiles, the worst change first.
[[nodiscard]] std::string profile_diff_text(const HardwareProfile& before, const HardwareProfile& now,
                                            const Terminal& terminal);
[[nodiscard]] std::string profile_diff_json(const HardwareProfile& before, const HardwareProfile& now);

/// What a sweep would measure, section by section, and for how long.
[[nodiscard]] std::string sweep_text(const Sweep& sweep, const SweepRequest& request, const Terminal& terminal);
[[nodiscard]] std::string sweep_json(const Sweep& sweep, const SweepRequest& request);

/// One line about a machine: GPUs, driver, network, sockets.
[[nodiscard]] std::string machine_text(const Machine& machine);

/// `measured` as a share of `expected` in words: as expected, faster, below, slow.
[[nodiscard]] std::string_view verdict(double better);

}  // namespace plan
