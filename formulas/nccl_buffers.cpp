// NCCL's device memory by group; plan-measuring(7) 1.1. Tested by tests/formulas/activation_test.cpp.
#include "formulas/nccl_buffers.hpp"

#include <algorithm>
#include <map>

namespace plan {
namespace {

/// What NCCL picks on NVSwitch nodes of eight.
constexpr double usual_channels(GpuGeneration generation) { return generation == GpuGeneration::Ampere ? 24 : 16; }
constexpr double kUsualP2pChannels = 32;

struct Groups {
  int gpus_per_node;
  bool multicast;
  const NcclMemory& measured;
  double channels, p2p_channels;

  /// A ring, and an intra-node tree for all-reduces; NVLS adds its multicast buffers.
  NcclGroup collective(std::string_view what, int size, bool all_reduce, bool nvls) const {
    NcclGroup group{.what = what, .ranks = size};
    if (size <= 1) return group;
    if (measured.all_reduce.value > 0 && size <= gpus_per_node && size <= measured.ranks) {
      group.share = NcclShare::Measured;
      group.bytes = static_cast<double>((measured.communicator + measured.all_reduce).value);
      return group;
    }
    group.share = nvls && size > 2 ? NcclShare::Multicast : NcclShare::Ring;
    group.channels = channels, group.rings = all_reduce ? 2 : 1;
    group.bytes =
        channels * (group.rings * kNcclConnection + (group.share == NcclShare::Multicast ? kNcclMulticast : 0));
    return group;
  }

  /// Connections to every peer of the node, one pool for all others.
  NcclGroup exchange(std::string_view what, int size) const {
    NcclGroup group{.what = what, .ranks = size, .share = NcclShare::Exchange};
    if (size <= 1) return group;
    group.peers = std::min(size, gpus_per_node) - 1;
    group.pools = size > gpus_per_node ? 2 : 0;
    group.channels = p2p_channels;
    group.bytes = group.peers * group.channels * kNcclConnection + group.pools * kNcclPool;
    if (measured.all_to_all.value <= 0 || measured.ranks < 2) return group;
    group.share = NcclShare::MeasuredPeers;
    group.bytes =
        static_cast<double>(measured.all_to_all.value) * group.peers / (measured.ranks - 1) + group.pools * kNcclPool;
    return group;
  }
};

/// Hands every group of the layout to `take`.
template <class Take>
void for_each_group(const Layout& layout, const Groups& groups, const Take& take) {
  const bool reduces = layout.zero == 0;
  const bool node = layout.tp <= groups.gpus_per_node;
  take(groups.collective("tp", layout.tp, !layout.sequence_parallel, groups.multicast && node));
  take(groups.collective("dp", layout.dense_group(), reduces, false));
  take(groups.collective("cp", layout.cp, false, false));
  if (layout.ep > 1) {
    take(groups.exchange("ep", layout.ep));
    take(groups.collective("expert dp", layout.expert_dp(), reduces, false));
  }
  if (layout.pp > 1) {
    take(NcclGroup{.what = "pp", .ranks = layout.pp, .share = NcclShare::Pool, .pools = 2, .bytes = 2 * kNcclPool});
    take(groups.collective("gradient norm", layout.tp * layout.pp, true, false));
  }
  take(groups.collective("world", layout.world(), true, false));  // loss, barriers
}

Groups groups_of(const NcclPlatform& platform) {
  const NcclMemory& measured = platform.measured;
  return {platform.gpus_per_node, platform.multicast, measured,
          measured.channels > 0 ? measured.channels : usual_channels(platform.generation),
          measured.p2p_channels > 0 ? measured.p2p_channels : kUsualP2pChannels};
}

}  // namespace

RealBytes nccl_buffers(const Layout& layout, const NcclPlatform& platform) {
  RealBytes bytes;
  if (!platform.known) return bytes;
  for_each_group(layout, groups_of(platform), [&](const NcclGroup& group) { bytes += RealBytes(group.bytes); });
  return bytes;
}

RealBytes nccl_buffers(std::span<const Layout> layouts, std::span<const GatheringGroup> between,
                       const NcclPlatform& platform) {
  std::map<std::pair<std::string_view, int>, double> groups;  // by what it is for and its ranks
  for (const Layout& layout : layouts)
    for (const NcclGroup& group : nccl_groups(layout, platform)) {
      double& bytes = groups[{group.what, group.ranks}];
      bytes = std::max(bytes, group.bytes);
    }
  RealBytes sum;
  for (const auto& [group, bytes] : groups) sum += RealBytes(bytes);
  if (!platform.known) return sum;
  for (auto one = between.begin(); one != between.end(); ++one)
    if (std::find(between.begin(), one, *one) == one)
      sum += RealBytes(groups_of(platform).collective(one->what, one->group.size, false, false).bytes);
  return sum;
}

std::vector<NcclGroup> nccl_groups(const Layout& layout, const NcclPlatform& platform) {
  std::vector<NcclGroup> all;
  if (!platform.known) return all;
  for_each_group(layout, groups_of(platform), [&](const NcclGroup& group) {
    if (group.bytes > 0) all.push_back(group);
  });
  return all;
}

}  // namespace plan
