// Time of collectives over the network, and of single hops: NCCL's ring or tree, or measured curves where there are any
// (plan-formulas(7) E, plan-measuring(7) 2.3). Tested by tests/formulas/efficiency_test.cpp.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "formulas/collective_law.hpp"
#include "formulas/kernel_laws.hpp"
#include "formulas/scale_up.hpp"
#include "formulas/torus.hpp"

namespace plan {
namespace {

// NCCL's latencies of the LL protocol (tuning.cc 2.30.7), the one that small messages use; those inside a domain are
// in scale_up.hpp.
constexpr double kTreeBase = 6.8e-6;
constexpr double kRingNetworkHop = 2.7e-6, kTreeNetworkHop = 5e-6;
constexpr double kRingSingleRailHop = 5e-6;  // one rank per node: NCCL takes the tree's hop
// Published all-reduces on 4 nodes start at 69 us and 370 us where NCCL's own formula says 35 us
// (plan-measuring(7) 2.3).
constexpr double kNetworkLatencyFactor = 3;
// What the hops above contain of the fabric itself, an InfiniBand adapter and one switch: below 0.6 us and 0.13 us by
// the data sheets of ConnectX-6 and QM8700, about 1 us as perftest's ib_send_lat sees it. A tier that states its
// latency puts its own in this one's place.
constexpr double kFabricLatency = 1e-6;
// Share of line rate that ever larger messages approach: three-parameter fits of the two published 4-node curves give
// 398 of 400 and 95 of 100 GB/s, large messages reach 192 of 200 (DGX A100), 382 of 400 (P6-B200), 362 of 400 (H100).
constexpr double kNetworkEfficiency = 0.96;
constexpr double kNetworkP = 0.8;        // of the same two fits: 0.79 and 0.82
constexpr double kTreeBandwidth = 0.92;  // of the ring's, NCCL's own factor
// Domains up to which collectives keep their bandwidth, and the least share that many more leave of it.
constexpr double kNearDomains = 4, kLeastShare = 0.5;
// One link of a torus, about a microsecond: Austin et al. 2025, How to Scale Your Model, part 3.
constexpr double kTorusHop = 1e-6;

BytesPerSecond tier_rate(const Cluster& cluster, std::size_t tier) {
  const double line =
      cluster.tiers[tier].bandwidth.value > 0 ? cluster.tiers[tier].bandwidth.value : cluster.gpu.nic.value;
  return BytesPerSecond(line > 0 ? line : 1e9);
}

/// Rate at which one GPU of a group reaches over tier `tier` (1 = the first network tier), all GPUs at once.
BytesPerSecond network_rate(const Cluster& cluster, std::size_t tier, double domains) {
  double rate = 0;
  double oversubscription = 1;
  bool measured = false;  // a measured rate is what was reached, not the line's
  if (cluster.tiers.size() < 2) {
    rate = cluster.gpu.nic.value > 0 ? cluster.gpu.nic.value : cluster.gpu.scale_up.value;
  } else {
    rate = tier_rate(cluster, 1).value;
    for (std::size_t i = 1; i <= tier && i < cluster.tiers.size(); ++i) {
      oversubscription *= std::max(1.0, cluster.tiers[i].oversubscription);
      const double line = tier_rate(cluster, i).value;
      if (i == 1 || line < rate) measured = cluster.tiers[i].provenance == Provenance::Measured;
      rate = std::min(rate, line);
    }
  }
  const double doublings = std::log2(std::max(1.0, domains / kNearDomains));
  const double kept = std::max(kLeastShare, 1 - cluster.calibration.network_decay * doublings);
  return BytesPerSecond(std::max(rate, 1.0) / oversubscription * (measured ? 1 : kNetworkEfficiency) * kept);
}

double ceil_div(int a, int b) { return static_cast<double>((a + b - 1) / b); }

/// Network part of a group that spans `domains` scale-up domains.
struct DomainSpan {
  int inside = 1;  ///< members per domain
  double domains = 1;
  bool crosses() const { return domains > 1; }
};

DomainSpan span_of(const Cluster& cluster, Group group) {
  const int domain = std::max(1, cluster.scale_up_size());
  return {group.inside(domain), static_cast<double>(group.instances(domain))};
}

/// The slowest tier that a group crosses decides. `seconds_per_byte(members, rate)` is what a tier takes a byte of
/// collective size, with so many of the group's members in each instance of the tier below, at a NIC's rate in B/s.
template <typename Law>
double slowest_tier(const Cluster& cluster, Group group, double domains, Law seconds_per_byte) {
  const std::size_t levels = std::max<std::size_t>(cluster.tiers.size(), 2);
  double slowest = 0;
  for (std::size_t tier = 1; tier < levels; ++tier) {
    const int below = tier - 1 < cluster.tiers.size() ? cluster.tiers[tier - 1].size : cluster.gpus_per_node;
    const int members = group.inside(std::max(1, below));
    if (members >= group.size) break;
    slowest = std::max(slowest, seconds_per_byte(members, network_rate(cluster, tier, domains).value));
  }
  return slowest;
}

/// The ring leaves a tier's instance once per channel, and its members there drive their NICs together.
double ring_seconds_per_byte(const Cluster& cluster, Collective op, Group group, double domains) {
  const double factor = wire_factor(op, group.size);
  return slowest_tier(cluster, group, domains,
                      [factor](int members, double rate) { return factor / (members * rate); });
}

/// All-to-all: every rank sends the share of its buffer that lies outside each tier's instance.
double all_to_all_seconds_per_byte(const Cluster& cluster, Group group, double domains) {
  return slowest_tier(cluster, group, domains, [group](int members, double rate) {
    return static_cast<double>(group.size - members) / group.size / rate;
  });
}

double ring_alpha(Collective op, int ranks, double domains) {
  const double network = op == Collective::AllReduce ? 2 * (domains - 1) : domains - 1;
  const double hop = ranks <= domains ? kRingSingleRailHop : kRingNetworkHop;
  return kNetworkLatencyFactor * (kRingBase + (ring_steps(op, ranks) - network) * kScaleUpHop + network * hop);
}

double tree_alpha(int inside, double domains) {
  return kNetworkLatencyFactor * (kTreeBase + 2 * ((inside - 1) * kScaleUpHop + std::log2(domains) * kTreeNetworkHop));
}

/// Pairwise exchange: sends to all peers are in flight together, so latency grows with the domains, not the ranks.
double all_to_all_alpha(double domains) {
  return kNetworkLatencyFactor * (kRingBase + std::log2(domains) * kTreeNetworkHop);
}

double stated_over(const Tier& tier, double usual) { return tier.latency.value > 0 ? tier.latency.value - usual : 0; }

/// Instances of a tier that a group spans.
double instances(const Tier& tier, Group group) { return group.instances(std::max(1, tier.size)); }

/// Seconds that the stated latencies of network tiers add to what the law's own hops contain: a ring crosses a tier
/// once between neighbouring instances of the tier below, a tree (and a pairwise exchange) once a doubling of them.
double stated_network(const Cluster& cluster, Group group, bool ring) {
  double seconds = 0;
  for (std::size_t t = 1; t < cluster.tiers.size(); ++t) {
    const double below = instances(cluster.tiers[t - 1], group);
    const double here = t + 1 < cluster.tiers.size() ? instances(cluster.tiers[t], group) : 1;
    seconds += (ring ? below - here : std::log2(below / here)) * stated_over(cluster.tiers[t], kFabricLatency);
  }
  return seconds;
}

/// The same for each hop inside a scale-up domain. What was measured on this machine holds its latency already.
double stated_hop(const Cluster& cluster, Collective op) {
  if (cluster.tiers.empty()) return 0;
  for (const CollectiveFit& fit : cluster.gpu.collectives)
    if (fit.op == measured_like(op) && fit.provenance == Provenance::Measured) return 0;
  return stated_over(cluster.tiers.front(), kScaleUpHop);
}

/// All hops of an operation inside one domain: the steps of a ring, one of an exchange.
double stated_inside(const Cluster& cluster, Collective op, int ranks) {
  const bool exchange = op == Collective::AllToAll || op == Collective::SendRecv;
  return (exchange ? 1 : ring_steps(op, ranks)) * stated_hop(cluster, op);
}

/// The slice that the innermost tier is; null behind switches, and where collectives were measured on the machine.
const Torus* slice_in(const Cluster& cluster) {
  if (cluster.tiers.empty() || !cluster.tiers.front().torus.any() || !cluster.gpu.collectives.empty()) return nullptr;
  return &cluster.tiers.front().torus;
}

CollectiveLaw slice_law(const Cluster& cluster, const Torus& torus, Collective op, RealBytes bytes, Group group) {
  const double stated = cluster.tiers.front().latency.value;
  const Seconds hop(stated > 0 ? stated : kTorusHop);
  return torus_law(torus, op, bytes, torus_group(torus, group.size, group.stride), hop);
}

/// Between slices XLA goes by levels: inside each, over the network with every chip's own share, inside again.
CollectiveLaw between_slices(const Cluster& cluster, const Torus& torus, Collective op, RealBytes bytes, Group group,
                             DomainSpan span) {
  const bool exchange = op == Collective::AllToAll;
  const double remote = exchange ? all_to_all_seconds_per_byte(cluster, group, span.domains)
                                 : ring_seconds_per_byte(cluster, op, group, span.domains);
  CollectiveLaw inside{};
  if (span.inside > 1) {
    const double share = exchange ? 1.0 * span.inside / group.size : 1;
    inside = slice_law(cluster, torus, op, bytes * share, {span.inside, group.stride});
  }
  return {Seconds(inside.alpha.value + all_to_all_alpha(span.domains) + stated_network(cluster, group, false)),
          std::max(Seconds(bytes.value * remote), inside.transfer), kNetworkP};
}

/// A law and what it gives, which choosing among laws has asked for.
struct Timed {
  CollectiveLaw law{};
  Seconds time{};
};

Timed timed(const CollectiveLaw& law) { return {law, law.time()}; }

Timed timed_network_law(const Cluster& cluster, Collective op, RealBytes bytes, Group group, DomainSpan span) {
  if (const Torus* torus = slice_in(cluster)) return timed(between_slices(cluster, *torus, op, bytes, group, span));
  const CollectiveFit local = scale_up_fit(cluster.gpu, op, std::max(2, span.inside));
  const double local_rate = local.busbw.value;
  if (op == Collective::AllToAll) {
    const double wire = bytes.value * all_to_all_seconds_per_byte(cluster, group, span.domains);
    const double inside = bytes.value * (span.inside - 1) / group.size / local_rate;
    return timed({Seconds(all_to_all_alpha(span.domains) + stated_network(cluster, group, false)),
                  Seconds(std::max(wire, inside)), kNetworkP});
  }
  const double twice = op == Collective::AllReduce ? 2 : 1;  // reduced on the way there, spread on the way back
  const double wire = bytes.value * ring_seconds_per_byte(cluster, op, group, span.domains);
  const double inside = span.inside > 1 ? bytes.value * wire_factor(op, group.size) / local_rate : 0;
  const double local_steps = ring_steps(op, group.size) - twice * (span.domains - 1);
  const Timed ring =
      timed({Seconds(ring_alpha(op, group.size, span.domains) + twice * stated_network(cluster, group, true) +
                     local_steps * stated_hop(cluster, op)),
             Seconds(std::max(wire, inside)), kNetworkP});
  if (op != Collective::AllReduce) return ring;
  const Timed tree =
      timed({Seconds(tree_alpha(span.inside, span.domains) +
                     twice * (stated_network(cluster, group, false) + (span.inside - 1) * stated_hop(cluster, op))),
             Seconds(std::max(wire / kTreeBandwidth, inside)), kNetworkP});
  return tree.time < ring.time ? tree : ring;
}

CollectiveLaw network_law(const Cluster& cluster, Collective op, RealBytes bytes, Group group, DomainSpan span) {
  return timed_network_law(cluster, op, bytes, group, span).law;
}

/// GPUs from the first to the last of `ranks` that are `stride` apart.
int reach(int stride, int ranks) { return std::max(2, ranks) * std::max(1, stride); }

double domains_of(const NetworkCurve& curve) { return ceil_div(curve.fit.ranks, std::max(1, curve.inside)); }

/// The measured curve of `op` with as many members per domain, of the nearest number of domains; null if none.
const NetworkCurve* nearest_curve(const Cluster& cluster, Collective op, DomainSpan span) {
  const NetworkCurve* nearest = nullptr;
  const auto distance = [&](const NetworkCurve& c) { return std::abs(std::log(domains_of(c) / span.domains)); };
  for (const NetworkCurve& curve : cluster.network)
    if (curve.fit.op == measured_like(op) && curve.inside == span.inside && domains_of(curve) > 1)
      if (nearest == nullptr || distance(curve) < distance(*nearest)) nearest = &curve;
  return nearest;
}

/// The measured curve where this very group was measured; elsewhere NCCL's law, scaled by what the nearest measured
/// number of domains reached of it (plan-measuring(7) 2.3: NCCL's shape, never its constants, wherever one measurement
/// exists).
Seconds network_time(const Cluster& cluster, Collective op, RealBytes bytes, Group group, DomainSpan span) {
  const auto law = [&](Group of, DomainSpan s) { return timed_network_law(cluster, op, bytes, of, s).time; };
  const NetworkCurve* curve = nearest_curve(cluster, op, span);
  if (curve == nullptr) return law(group, span);
  const int ranks = curve->fit.ranks;
  const Seconds measured = curve_time(curve->fit, bytes, ranks);
  if (ranks == group.size) return measured;
  return law(group, span) * measured.value / law({ranks, group.stride}, {span.inside, domains_of(*curve)}).value;
}

}  // namespace

Seconds CollectiveLaw::time() const { return message_law<double>(*this, transfer.value, ""); }

Seconds collective_time(const Cluster& cluster, Collective op, RealBytes bytes, Group group) {
  if (group.size <= 1 || bytes.value <= 0) return Seconds(0);
  const DomainSpan span = span_of(cluster, group);
  if (span.crosses()) return network_time(cluster, op, bytes, group, span);
  if (const Torus* torus = slice_in(cluster)) return slice_law(cluster, *torus, op, bytes, group).time();
  return scale_up_time(cluster.gpu, op, bytes, group.size) + Seconds(stated_inside(cluster, op, group.size));
}

CollectiveLaw collective_law(const Cluster& cluster, Collective op, RealBytes bytes, Group group) {
  const DomainSpan span = span_of(cluster, group);
  if (span.crosses()) return network_law(cluster, op, bytes, group, span);
  if (const Torus* torus = slice_in(cluster)) return slice_law(cluster, *torus, op, bytes, group);
  const CollectiveFit fit = scale_up_fit(cluster.gpu, op, group.size);
  return {fit.alpha + Seconds(stated_inside(cluster, op, group.size)),
          Seconds(bytes.value * wire_factor(op, group.size) / fit.busbw.value), fit.p};
}

namespace {

/// Innermost tier that holds as many GPUs, counted from the scale-up domain.
std::size_t tier_of(const Cluster& cluster, int span) {
  if (span <= cluster.scale_up_size()) return 0;
  std::size_t tier = 1;
  while (tier + 1 < cluster.tiers.size() && cluster.tiers[tier].size < span) ++tier;
  return tier;
}

}  // namespace

CollectiveLaw hop_law(const Cluster& cluster, RealBytes bytes, std::size_t tier) {
  if (tier == 0) return collective_law(cluster, Collective::SendRecv, bytes, {2, 1});
  const double stated = tier < cluster.tiers.size() ? stated_over(cluster.tiers[tier], kFabricLatency) : 0;
  return {Seconds(kNetworkLatencyFactor * (kRingBase + kRingNetworkHop) + stated),
          bytes / network_rate(cluster, tier, 1), kNetworkP};
}

Seconds hop_time(const Cluster& cluster, RealBytes bytes, std::size_t tier) {
  if (bytes.value <= 0) return Seconds(0);
  if (tier == 0 && slice_in(cluster) == nullptr)
    return scale_up_time(cluster.gpu, Collective::SendRecv, bytes, 2) +
           Seconds(stated_inside(cluster, Collective::SendRecv, 2));
  return hop_law(cluster, bytes, tier).time();
}

CollectiveLaw send_law(const Cluster& cluster, RealBytes bytes, int stride, int ranks) {
  const std::size_t tier = tier_of(cluster, reach(stride, ranks));
  if (const Torus* torus = slice_in(cluster); torus != nullptr && tier == 0)  // siblings in between share its links
    return slice_law(cluster, *torus, Collective::SendRecv, bytes, {std::max(2, ranks), std::max(1, stride)});
  return hop_law(cluster, bytes, tier);
}

Seconds send_time(const Cluster& cluster, RealBytes bytes, int stride, int ranks) {
  const std::size_t tier = tier_of(cluster, reach(stride, ranks));
  if (tier == 0 && slice_in(cluster) != nullptr)
    return bytes.value > 0 ? send_law(cluster, bytes, stride, ranks).time() : Seconds();
  return hop_time(cluster, bytes, tier);
}

namespace {

/// The law of one message of `size` bytes, `wire` of them a byte on the wire, corrected by what was measured at its
/// size, at the share of that rate that training reaches.
template <class V>
SecondsOf<V> trained_message(const Cluster& cluster, const CollectiveLaw& law, Seconds measured, double wire,
                             RealBytes size, double share) {
  if constexpr (std::is_same_v<V, double>) {
    return measured / share;
  } else {
    const char* origin = cluster.measured ? "profile" : "cluster";
    V transfer(law.transfer.value);
    if (law.transfer > Seconds())
      transfer =
          symbol<V>("w", wire, "bytes on the wire per byte of size", "nccl-tests") *
          symbol<V>("S", size.value, "bytes of the tensor", kShapeOrigin) /
          symbol<V>("W", wire * size.value / law.transfer.value, "bytes a second that large messages approach", origin);
    V seconds = message_law<V>(law, transfer, origin);
    if (const double over = law.time() > Seconds() ? measured / law.time() : 1; over != 1)
      seconds = seconds * symbol<V>("k", over, "measured over this law, at this size", origin);
    return seconds / symbol<V>("eta", share, "share of that rate that training reaches", kConstantsOrigin);
  }
}

}  // namespace

template <class V>
SecondsOf<V> collective_seconds(const Cluster& cluster, Collective op, RealBytes bytes, Group group) {
  const bool inside = group.inside(cluster.scale_up_size()) == group.size;
  const double share = inside ? cluster.calibration.scale_up : cluster.calibration.scale_out;
  CollectiveLaw law{};
  if constexpr (!std::is_same_v<V, double>) law = collective_law(cluster, op, bytes, group);
  return trained_message<V>(cluster, law, collective_time(cluster, op, bytes, group), wire_factor(op, group.size),
                            bytes, share);
}
template Seconds collective_seconds<double>(const Cluster&, Collective, RealBytes, Group);
template Traced collective_seconds<Traced>(const Cluster&, Collective, RealBytes, Group);

template <class V>
SecondsOf<V> send_seconds(const Cluster& cluster, RealBytes bytes, int stride, int ranks) {
  CollectiveLaw law{};
  if constexpr (!std::is_same_v<V, double>) law = send_law(cluster, bytes, stride, ranks);
  return trained_message<V>(cluster, law, send_time(cluster, bytes, stride, ranks), 1, bytes,
                            cluster.calibration.scale_out);
}
template Seconds send_seconds<double>(const Cluster&, RealBytes, int, int);
template Traced send_seconds<Traced>(const Cluster&, RealBytes, int, int);

template <class V>
SecondsOf<V> send_seconds(const Cluster& cluster, RealBytes bytes, Group group) {
  const int domain = cluster.scale_up_size();
  if (group.straddles(domain)) return send_seconds<V>(cluster, bytes, domain);
  return send_seconds<V>(cluster, bytes, group.stride, group.size);
}
template Seconds send_seconds<double>(const Cluster&, RealBytes, Group);
template Traced send_seconds<Traced>(const Cluster&, RealBytes, Group);

template <class V>
SecondsOf<V> hop_seconds(const Cluster& cluster, RealBytes bytes, std::size_t tier) {
  CollectiveLaw law{};
  if constexpr (!std::is_same_v<V, double>) law = hop_law(cluster, bytes, tier);
  return trained_message<V>(cluster, law, hop_time(cluster, bytes, tier), 1, bytes, cluster.calibration.scale_out);
}
template Seconds hop_seconds<double>(const Cluster&, RealBytes, std::size_t);
template Traced hop_seconds<Traced>(const Cluster&, RealBytes, std::size_t);

const Tier& group_tier(const Cluster& cluster, Group group) {
  static const Tier kNode{.name = "node"};
  if (cluster.tiers.empty()) return kNode;
  for (const Tier& tier : cluster.tiers)
    if (group.reach() <= tier.size && !group.straddles(tier.size)) return tier;
  return cluster.tiers.back();
}

}  // namespace plan
