#pragma once

#include <vector>

#include "hwprobe/session/rank_work.hpp"

namespace plan {

/// Where the ranks of a job run: which share an NVLink domain, and in which order collectives number them.
struct RankPlacement {
  std::vector<int> order{};  ///< rank of the launcher at each place: domain after domain, GPU after GPU
  int per_domain = 1;        ///< GPUs of one NVLink domain that take part
  int domains = 1;
  int hosts = 1;
};

/// Ranks in blocks by NVLink domain, whatever order the launcher gave them: a fabric clique where the driver names one
/// (it may reach over hosts), else the host. Domains of unequal size are an error that counts them.
[[nodiscard]] Result<RankPlacement> place_ranks(const std::vector<RankHello>& ranks);

}  // namespace plan
