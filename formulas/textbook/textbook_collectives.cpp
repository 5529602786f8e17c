// The catalog's table of collectives. Tested by tests/formulas/equations_test.cpp and textbook_traffic_test.cpp.
#include "formulas/textbook/textbook_collectives.hpp"

#include <cmath>

namespace plan::textbook {
namespace {

constexpr Symbol kS{"S", "size of the whole tensor", "bytes"};
constexpr Symbol kN{"n", "ranks", "", kNoTypical, Domain::Count};
constexpr Symbol kAlpha{"alpha", "latency of a hop", "seconds", 0, Domain::Amount};
constexpr Symbol kRate{"W", "bandwidth per direction", "bytes/s"};
constexpr Symbol kNodes{"k", "nodes", "", 1, Domain::Count};
constexpr Symbol kPerNode{"g", "GPUs of a node", "", 8, Domain::Count};
constexpr Symbol kNic{"W_nic", "network bandwidth of one GPU, per direction", "bytes/s"};

constexpr Symbol kTransfer[] = {kS, kAlpha, kRate};
constexpr Symbol kWire[] = {kS, kN};
constexpr Symbol kRing[] = {kS, kN, kAlpha, kRate};
constexpr Symbol kTree[] = {kS,
                            kNodes,
                            kPerNode,
                            {"alpha_net", "latency of a network hop", "seconds", 0, Domain::Amount},
                            {"alpha_nv", "latency of a hop in the node", "seconds", 0, Domain::Amount},
                            kRate};
constexpr Symbol kHierarchy[] = {
    kS, kPerNode, kNodes, {"W_nv", "bandwidth in the node, per direction", "bytes/s"}, kNic};
constexpr Symbol kPhase[] = {kS, kPerNode, kNodes, kNic};
constexpr Symbol kNcclRing[] = {kN,
                                kNodes,
                                {"t_0", "base latency of the protocol", "microseconds"},
                                {"alpha_nv", "latency of a hop in the node", "microseconds"},
                                {"alpha_net", "latency of a network hop", "microseconds", 0, Domain::Amount}};
constexpr Symbol kChannels[] = {{"n_ch", "channels", "", kNoTypical, Domain::Count}};
constexpr Symbol kBus[] = {kS, kN, {"T", "time", "seconds"}};

constexpr CatalogEntry kEntries[] = {
    entry<transfer_time>(
        kTransferTime, kTransfer,
        misstatement("CS336 lecture 7 notes, p. 9", "NVLink 900 GB/s, beside PCIe 64 GB/s and InfiniBand 50 GB/s",
                     "The first is the sum of both directions, the others are one. W is per direction: 450 GB/s for "
                     "NVLink 4.")),
    entry<all_reduce_wire>(kAllReduceWire, kWire),
    entry<all_gather_wire>(kAllGatherWire, kWire),
    entry<nvls_wire>(kNvlsWire, kWire),
    entry<ring_all_reduce>(kRingAllReduce, kRing),
    entry<ring_all_gather>(kRingAllGather, kRing),
    entry<broadcast>(kBroadcast, kRing),
    entry<reduce>(kReduce, kRing),
    entry<tree_all_reduce>(kTreeAllReduce, kTree),
    entry<hierarchical_all_reduce>(kHierarchicalAllReduce, kHierarchy),
    entry<node_phase>(kNodePhase, kPhase),
    entry<flat_ring>(kFlatRing, kPhase),
    entry<nccl_ring_latency>(kNcclRingLatency, kNcclRing),
    entry<nccl_tree_latency>(kNcclTreeLatency, kNcclRing),
    entry<nccl_ring_buffers>(kNcclRingBuffers, kChannels),
    entry<bus_bandwidth>(kBusBandwidth, kBus),
};

}  // namespace

Seconds tree_all_reduce(const TreeInput& in) {
  const double latency = 2 * std::log2(in.nodes) * in.node_latency + 2 * (in.per_node - 1) * in.inner_latency;
  return Seconds(latency + 2 * in.bytes / in.bandwidth);
}

Microseconds nccl_tree_latency(const NcclRingInput& in) {
  const double inside = (in.ranks / in.nodes - 1) * in.inner_latency;
  return Microseconds(in.base + 2 * (inside + std::log2(in.nodes) * in.node_latency));
}

std::span<const CatalogEntry> collective_formulas() { return kEntries; }

}  // namespace plan::textbook
