#pragma once

#include "formulas/cluster.hpp"
#include "formulas/real_bytes.hpp"

namespace plan {

/// NCCL's latencies of the LL protocol (tuning.cc 2.30.7) inside a scale-up domain, seconds: of a ring's start and of
/// each of its hops.
inline constexpr double kRingBase = 6.6e-6, kScaleUpHop = 0.6e-6;

/// Consecutive hops of a ring of so many ranks: twice round for an all-reduce.
[[nodiscard]] constexpr double ring_steps(Collective op, double ranks) {
  return op == Collective::AllReduce ? 2 * (ranks - 1) : ranks - 1;
}

/// Measured op that behaves like `op`: a broadcast pipelines along the same ring as an all-gather.
[[nodiscard]] constexpr Collective measured_like(Collective op) {
  return op == Collective::Broadcast ? Collective::AllGather : op;
}

/// Bytes from which on a larger collective of a cluster never takes less time: measured curves dip where NCCL turns to
/// another protocol. Infinity where collectives between domains were measured, whose laws are scaled by the
/// measurement.
[[nodiscard]] RealBytes grows_from(const Cluster& cluster);

}  // namespace plan
