// Ranks by host and NVLink fabric. Tested by tests/hwprobe/placement_test.cpp.
#include "hwprobe/session/placement.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace plan {
namespace {

/// Position of a text among those seen so far.
int place_of(std::vector<std::string>& seen, const std::string& text) {
  const auto found = std::find(seen.begin(), seen.end(), text);
  if (found != seen.end()) return static_cast<int>(found - seen.begin());
  seen.push_back(text);
  return static_cast<int>(seen.size()) - 1;
}

}  // namespace

Result<RankPlacement> place_ranks(const std::vector<RankHello>& ranks) {
  std::vector<std::string> hosts, domains;
  std::vector<std::tuple<int, int, int, int>> keys;  // domain, host, local rank, rank
  std::vector<int> sizes;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const RankHello& rank = ranks[r];
    const int host = place_of(hosts, rank.host);
    const int domain = place_of(domains, rank.clique.empty() ? "host " + rank.host : "clique " + rank.clique);
    if (static_cast<std::size_t>(domain) == sizes.size()) sizes.push_back(0);
    ++sizes[static_cast<std::size_t>(domain)];
    keys.emplace_back(domain, host, rank.local_rank, static_cast<int>(r));
  }
  const auto [least, most] = std::minmax_element(sizes.begin(), sizes.end());
  if (!sizes.empty() && *least != *most) {
    Error error{"unequal_nodes", "the nodes of this job have unequal numbers of ranks"};
    for (std::size_t d = 0; d < domains.size() && d < 8; ++d)
      error.facts.push_back(fmt::format("{}: {}", domains[d], sizes[d]));
    error.help.emplace_back("give every node as many: `srun --ntasks-per-node=N`, `mpirun --map-by ppr:N:node`");
    return fail(std::move(error));
  }
  std::sort(keys.begin(), keys.end());
  RankPlacement out;
  for (const auto& key : keys) out.order.push_back(std::get<3>(key));
  out.per_domain = sizes.empty() ? 1 : sizes[0];
  out.domains = std::max<int>(1, static_cast<int>(domains.size()));
  out.hosts = std::max<int>(1, static_cast<int>(hosts.size()));
  return out;
}

}  // namespace plan
