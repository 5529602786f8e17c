#pragma once

#include <optional>
#include <string>

#include "formulas/result.hpp"
#include "planner/search/switches.hpp"

namespace plan {

/// A job that fits its GPUs once some of it lies on the hosts, and these hosts are too small for that: the same job on
/// nodes that are large enough.
struct RoomierHosts {
  ChangedJob change{};    ///< with `--host-memory`, and `--offload` where the job leaves that to the search
  std::string offload{};  ///< what the search would leave there, as it is typed; empty: the job says so itself
  std::string degrees{};
  Bytes need{};  ///< of each node
};

/// None where the memory of the nodes is not known or nothing may be left there, and where the GPUs are too small all
/// the same.
[[nodiscard]] std::optional<RoomierHosts> with_roomier_hosts(const Problem& problem);

/// Says of a job without a layout what its hosts lack.
void blame_hosts(Error& error, const Problem& problem, const RoomierHosts& roomier);

}  // namespace plan
