#pragma once

#include <span>

#include "formulas/textbook/catalog_entry.hpp"
#include "formulas/textbook/sources.hpp"
#include "formulas/units.hpp"

/// Bytes on the wire and times of collectives (plan-formulas(7) E, F1). S is always the whole, unsharded tensor;
/// bandwidths are decimal and per direction. The planner's own times, fitted to measurements, are in
/// formulas/efficiency.hpp.
namespace plan::textbook {

struct TransferInput {
  double bytes = 0;      ///< S
  double latency = 0;    ///< alpha
  double bandwidth = 0;  ///< W
};
inline constexpr Formula kTransferTime{"transfer-time", "Latency and bandwidth", "alpha + S/W", "seconds",
                                       "CS336 lecture 7 notes, p. 8"};
[[nodiscard]] constexpr Seconds transfer_time(const TransferInput& in) {
  return Seconds(in.latency + in.bytes / in.bandwidth);
}

struct WireInput {
  double bytes = 0;  ///< S
  double ranks = 1;  ///< n
};
inline constexpr Formula kAllReduceWire{"all-reduce-bytes", "Bytes that a rank sends in an all-reduce", "2*S*(n - 1)/n",
                                        "bytes", source::kNcclTests};
[[nodiscard]] constexpr RealBytes all_reduce_wire(const WireInput& in) {
  return RealBytes(2 * in.bytes * (in.ranks - 1) / in.ranks);
}

inline constexpr Formula kAllGatherWire{"all-gather-bytes",
                                        "Bytes that a rank sends in an all-gather, reduce-scatter or all-to-all",
                                        "S*(n - 1)/n", "bytes", source::kNcclTests};
[[nodiscard]] constexpr RealBytes all_gather_wire(const WireInput& in) {
  return RealBytes(in.bytes * (in.ranks - 1) / in.ranks);
}

inline constexpr Formula kNvlsWire{"nvls-all-reduce-bytes", "Bytes that a rank sends when the switch reduces",
                                   "S*(1 + 1/n)", "bytes", source::kNcclTests};
[[nodiscard]] constexpr RealBytes nvls_wire(const WireInput& in) { return RealBytes(in.bytes * (1 + 1 / in.ranks)); }

struct RingInput {
  double bytes = 0;      ///< S
  double ranks = 1;      ///< n
  double latency = 0;    ///< alpha
  double bandwidth = 0;  ///< W
};
inline constexpr Formula kRingAllReduce{"ring-all-reduce-time", "Ring all-reduce", "2*(n - 1)*alpha + 2*(n - 1)/n*S/W",
                                        "seconds", source::kNcclTests};
[[nodiscard]] constexpr Seconds ring_all_reduce(const RingInput& in) {
  const double hops = 2 * (in.ranks - 1);
  return Seconds(hops * in.latency + hops / in.ranks * in.bytes / in.bandwidth);
}
inline constexpr Formula kRingAllGather{"ring-all-gather-time", "Ring all-gather or reduce-scatter",
                                        "(n - 1)*alpha + (n - 1)/n*S/W", "seconds", source::kNcclTests};
[[nodiscard]] constexpr Seconds ring_all_gather(const RingInput& in) {
  const double hops = in.ranks - 1;
  return Seconds(hops * in.latency + hops / in.ranks * in.bytes / in.bandwidth);
}

inline constexpr Formula kBroadcast{"broadcast-time",
                                    "Broadcast along a chain of ranks",
                                    "(n - 1)*alpha + S/W",
                                    "seconds",
                                    source::kNcclTests,
                                    "Every rank but the last sends the tensor once, in pieces that follow each other: "
                                    "the bytes do not grow with n. Initial weights travel so."};
[[nodiscard]] constexpr Seconds broadcast(const RingInput& in) {
  return Seconds((in.ranks - 1) * in.latency + in.bytes / in.bandwidth);
}
inline constexpr Formula kReduce{"reduce-time",
                                 "Reduction along a chain to one rank",
                                 "(n - 1)*alpha + S/W",
                                 "seconds",
                                 source::kNcclTests,
                                 "A broadcast run backwards, adding on the way. Half of an all-reduce, which tells "
                                 "every rank the sum."};
[[nodiscard]] constexpr Seconds reduce(const RingInput& in) { return broadcast(in); }

struct TreeInput {
  double bytes = 0;          ///< S
  double nodes = 1;          ///< k
  double per_node = 8;       ///< g
  double node_latency = 0;   ///< alpha_net
  double inner_latency = 0;  ///< alpha_nv
  double bandwidth = 0;      ///< W
};
inline constexpr Formula kTreeAllReduce{"tree-all-reduce-time",
                                        "Double-tree all-reduce over nodes",
                                        "2*log2(k)*alpha_net + 2*(g - 1)*alpha_nv + 2*S/W",
                                        "seconds",
                                        source::kNccl,
                                        "Latency grows with the logarithm of the nodes: better for small tensors."};
[[nodiscard]] Seconds tree_all_reduce(const TreeInput& in);

struct HierarchyInput {
  double bytes = 0;      ///< S
  double per_node = 8;   ///< g
  double nodes = 1;      ///< k
  double bandwidth = 0;  ///< W_nv
  double nic = 0;        ///< W_nic
};
inline constexpr Formula kHierarchicalAllReduce{
    "hierarchical-all-reduce-time",
    "Reduce-scatter in the node, all-reduce between nodes, all-gather in the node",
    "2*(g - 1)/g*S/W_nv + 2*(k - 1)/k*(S/g)/W_nic",
    "seconds",
    source::kDerived,
    "Phases one after the other; pipelined, the slower one remains."};
[[nodiscard]] constexpr Seconds hierarchical_all_reduce(const HierarchyInput& in) {
  const double inside = 2 * (in.per_node - 1) / in.per_node * in.bytes / in.bandwidth;
  const double between = 2 * (in.nodes - 1) / in.nodes * (in.bytes / in.per_node) / in.nic;
  return Seconds(inside + between);
}

struct NodePhaseInput {
  double bytes = 0;     ///< S
  double per_node = 8;  ///< g
  double nodes = 1;     ///< k
  double nic = 0;       ///< W_nic
};
inline constexpr Formula kNodePhase{"hierarchical-bound",
                                    "Time between nodes of a hierarchical all-reduce, the least possible",
                                    "2*(k - 1)/k*(S/g)/W_nic", "seconds", source::kDerived};
[[nodiscard]] constexpr Seconds node_phase(const NodePhaseInput& in) {
  return Seconds(2 * (in.nodes - 1) / in.nodes * (in.bytes / in.per_node) / in.nic);
}
inline constexpr Formula kFlatRing{"flat-ring-all-reduce-time", "One ring over all ranks, a channel on each NIC",
                                   "2*(g*k - 1)/(g*k)*S/(g*W_nic)", "seconds", source::kNccl};
[[nodiscard]] constexpr Seconds flat_ring(const NodePhaseInput& in) {
  const double ranks = in.per_node * in.nodes;
  return Seconds(2 * (ranks - 1) / ranks * in.bytes / (in.per_node * in.nic));
}

struct NcclRingInput {
  double ranks = 1;          ///< n
  double nodes = 1;          ///< k
  double base = 0;           ///< t_0
  double inner_latency = 0;  ///< alpha_nv
  double node_latency = 0;   ///< alpha_net
};
inline constexpr Formula kNcclRingLatency{"nccl-ring-latency",
                                          "Latency of NCCL's ring all-reduce in its own model",
                                          "t_0 + (2*(n - 1) - 2*(k - 1))*alpha_nv + 2*(k - 1)*alpha_net",
                                          "microseconds",
                                          source::kNccl,
                                          "LL, LL128, Simple: t_0 6.6, 14, 8.4; NVLink hop 0.6, 1.9, 3.4; network hop "
                                          "2.7, 4, 14."};
[[nodiscard]] constexpr Microseconds nccl_ring_latency(const NcclRingInput& in) {
  const double between = 2 * (in.nodes - 1);
  return Microseconds(in.base + (2 * (in.ranks - 1) - between) * in.inner_latency + between * in.node_latency);
}
inline constexpr Formula kNcclTreeLatency{
    "nccl-tree-latency",
    "Latency of NCCL's tree all-reduce in its own model",
    "t_0 + 2*((n/k - 1)*alpha_nv + log2(k)*alpha_net)",
    "microseconds",
    source::kNccl,
    "LL, LL128, Simple: t_0 6.8, 14, 8.4; NVLink hop 0.6, 1.25, 4; network hop 5, "
    "8.5, 14."};
[[nodiscard]] Microseconds nccl_tree_latency(const NcclRingInput& in);

struct ChannelsInput {
  double channels = 1;  ///< n_ch
};
inline constexpr Formula kNcclRingBuffers{"nccl-ring-buffers",
                                          "Memory of one NCCL ring communicator",
                                          "12*n_ch*2^20",
                                          "bytes",
                                          "NVIDIA/nccl, init.cc and p2p transport",
                                          "10 MiB to receive and 2 MiB to send for each channel, outside the "
                                          "framework's allocator."};
[[nodiscard]] constexpr RealBytes nccl_ring_buffers(const ChannelsInput& in) {
  return RealBytes(12 * in.channels * 1048576);
}

struct BusInput {
  double bytes = 0;    ///< S
  double ranks = 1;    ///< n
  double seconds = 0;  ///< T
};
inline constexpr Formula kBusBandwidth{"bus-bandwidth",
                                       "Bus bandwidth of a measured all-reduce",
                                       "2*(n - 1)/n*S/T",
                                       "bytes/s",
                                       source::kNcclTests,
                                       "Comparable with a link's rate at any n. Half of it for all-gather and "
                                       "reduce-scatter."};
[[nodiscard]] constexpr BytesPerSecond bus_bandwidth(const BusInput& in) {
  return BytesPerSecond(2 * (in.ranks - 1) / in.ranks * in.bytes / in.seconds);
}

[[nodiscard]] std::span<const CatalogEntry> collective_formulas();

}  // namespace plan::textbook
