#pragma once

#include <cstddef>

#include "formulas/cluster.hpp"
#include "formulas/real_bytes.hpp"
#include "formulas/units.hpp"

namespace plan {

/// The law under the time of one collective, before what was measured corrects it:
/// (alpha^p + transfer^p)^(1/p).
struct CollectiveLaw {
  Seconds alpha{};     ///< of a message without bytes
  Seconds transfer{};  ///< of these bytes at the rate that large messages approach
  double p = 0.62;
  [[nodiscard]] Seconds time() const;
};

/// Law of `collective_time`: the fit of a group inside one scale-up domain, NCCL's ring or tree over the network.
[[nodiscard]] CollectiveLaw collective_law(const Cluster& cluster, Collective op, RealBytes bytes, Group group);
/// Law of `hop_time`.
[[nodiscard]] CollectiveLaw hop_law(const Cluster& cluster, RealBytes bytes, std::size_t tier);
/// Law of `send_time`.
[[nodiscard]] CollectiveLaw send_law(const Cluster& cluster, RealBytes bytes, int stride, int ranks = 2);

}  // namespace plan
