#include <algorithm>

#include "formulas/transient.hpp"

namespace plan {
namespace {

constexpr double kMebi = 1 << 20;
/// 10 MiB to receive (LL, LL128 and Simple FIFOs, rounded) and 2 MiB to send, per channel and peer.
constexpr double kConnection = 12 * kMebi;
/// Shared pool per direction of send and receive over the network: 32 channels * 16 * 128 KiB.
constexpr double kNetworkPool = 64 * kMebi;

struct Channels {
  double collective;
  double p2p;
};

/// What NCCL picks on NVSwitch nodes of eight.
constexpr Channels channels(bool hopper) { return hopper ? Channels{16, 32} : Channels{24, 32}; }

/// A ring, and an intra-node tree for all-reduces; NVLS adds its multicast buffers on Hopper and later.
double collective(int size, bool all_reduce, bool multicast, Channels count) {
  if (size <= 1) return 0;
  constexpr double kHeads = 8;
  const double ring = kConnection * count.collective * (all_reduce ? 2 : 1);
  return ring + (multicast && size > 2 ? count.collective * 2 * kMebi * kHeads : 0);
}

/// All-to-all: connections to every peer of the node, one pool for all others.
double all_to_all(int size, int gpus_per_node, Channels count) {
  if (size <= 1) return 0;
  const int local = std::min(size, gpus_per_node) - 1;
  return local * count.p2p * kConnection + (size > gpus_per_node ? 2 * kNetworkPool : 0);
}

}  // namespace

double nccl_buffers(const Layout& layout, int gpus_per_node, GpuGeneration generation) {
  const bool hopper = generation != GpuGeneration::Ampere;
  const Channels count = channels(hopper);
  const bool shards = layout.zero > 0;
  double bytes = collective(layout.tp, !layout.sequence_parallel, hopper && layout.tp <= gpus_per_node, count);
  bytes += collective(layout.dense_group(), !shards, false, count);
  bytes += collective(layout.cp, false, false, count);
  if (layout.ep > 1)
    bytes += all_to_all(layout.ep, gpus_per_node, count) + collective(layout.expert_dp(), !shards, false, count);
  if (layout.pp > 1) {
    bytes += 2 * kNetworkPool;
    bytes += collective(layout.tp * layout.pp, true, false, count);  // gradient norm over the model's ranks
  }
  return bytes + collective(layout.world(), true, false, count);  // loss, barriers
}

}  // namespace plan
