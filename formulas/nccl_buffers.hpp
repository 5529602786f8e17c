#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "formulas/cluster.hpp"
#include "formulas/layout.hpp"
#include "formulas/real_bytes.hpp"
#include "formulas/transient.hpp"

namespace plan {

/// What of a machine decides on NCCL's buffers.
struct NcclPlatform {
  int gpus_per_node = 8;
  GpuGeneration generation = GpuGeneration::Hopper;
  bool multicast = true;  ///< NVLink switches that reduce: NVLS
  bool known = true;  ///< collectives run on NCCL, or on RCCL, which took over its buffers; of others none is counted
  NcclMemory measured{};
};

/// Buffers that NCCL allocates outside the framework's allocator: rings of the collectives' groups and the
/// point-to-point channels of pipeline and expert parallelism. What a probe measured of a node's groups is taken as
/// measured; the rest follows NCCL's sources with the channels that its log states, or usual ones.
[[nodiscard]] RealBytes nccl_buffers(const Layout& layout, const NcclPlatform& platform);
/// A group of a rank that gathers what goes from layers that are split in one way to those behind.
struct GatheringGroup {
  std::string_view what{};  ///< groups for different uses are different communicators, whatever their ranks
  Group group{};
  bool operator==(const GatheringGroup&) const = default;
};
/// Of a rank whose layers are split in several ways, with the groups between them: each is there once.
[[nodiscard]] RealBytes nccl_buffers(std::span<const Layout> layouts, std::span<const GatheringGroup> between,
                                     const NcclPlatform& platform);

/// How the bytes of a group come about.
enum class NcclShare {
  Ring,          ///< channels * rings * kNcclConnection
  Multicast,     ///< channels * (rings * kNcclConnection + kNcclMulticast)
  Exchange,      ///< peers * channels * kNcclConnection + pools * kNcclPool
  Pool,          ///< pools * kNcclPool
  Measured,      ///< communicator and first operation of a group in one node
  MeasuredPeers  ///< the measured all-to-all by its share of peers, + pools * kNcclPool
};
/// What one group of a rank contributes.
struct NcclGroup {
  std::string_view what{};  ///< tp, dp, ...
  int ranks = 1;
  NcclShare share = NcclShare::Ring;
  double channels = 0;
  double rings = 0;  ///< Ring, Multicast: connections of a channel: 1, or 2 where there is a tree beside the ring
  double peers = 0;  ///< Exchange, MeasuredPeers: in the node
  double pools = 0;  ///< Exchange, Pool
  double bytes = 0;
};
inline constexpr double kNcclConnection = 12.0 * kMiB;  ///< LL, LL128, Simple FIFOs: 10 MiB in, 2 MiB out
inline constexpr double kNcclPool = 64.0 * kMiB;        ///< 32 channels * 16 * 128 KiB, shared by all peers
inline constexpr double kNcclMulticast = 16.0 * kMiB;   ///< 2 MiB for each of 8 heads
[[nodiscard]] std::vector<NcclGroup> nccl_groups(const Layout& layout, const NcclPlatform& platform);

}  // namespace plan
