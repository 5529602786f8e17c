// Points between GPUs: pairs, collectives, their memory, computation beside them. Sizes and layouts:
// plan-measuring(7) 1.6 to 1.8. Tested by tests/hwprobe/sweep_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "formulas/efficiency.hpp"
#include "formulas/names.hpp"
#include "hwprobe/sweep/sweep_builder.hpp"
#include "hwprobe/sweep/sweep_shapes.hpp"

namespace plan {
namespace {

constexpr double kCollectiveSetup = 0.04;  // two hundred launches through NCCL's threads, and a check of the data
constexpr double kCommunicator = 1.5;      // making one, once for each kind of group

std::vector<double> message_sizes(Depth depth) {
  if (depth == Depth::Quick) return {512, 131072, 2097152, 33554432, 536870912};
  std::vector<double> sizes;
  for (double bytes = 512; bytes <= 1073741824; bytes *= 2) sizes.push_back(bytes);
  return sizes;
}

Group group_of(const GroupShape& shape, int ranks_per_node) {
  const int stride = shape.nodes > 1 ? ranks_per_node / std::max(1, shape.ranks_per_node) : 1;
  return {shape.n, stride};
}

void add_collective(SweepBuilder& b, Collective op, int format, const GroupShape& shape, int priority) {
  const Group group = group_of(shape, b.request.ranks_per_node);
  bool first = true;
  for (const double bytes : message_sizes(b.request.depth)) {
    plan_probe_point point = make_point(PLAN_PROBE_COLLECTIVE, {bytes}, format);
    point.op = static_cast<int>(op);
    point.group_size = shape.n;
    point.group_stride = group.stride;
    point.all_groups = shape.all ? 1 : 0;
    const double seconds = collective_time(b.request.expected, op, RealBytes(bytes), group).value;
    b.add(Section::Collectives, priority,
          fmt::format("{} {} n{} r{} {} {:.0f}", name(op), format_name(format), shape.n, shape.ranks_per_node,
                      shape.all ? "all" : "one", bytes),
          point, seconds, 2 * bytes, kCollectiveSetup + (first ? kCommunicator : 0));
    first = false;
  }
}

}  // namespace

/// Neighbours first; every ordered pair where there is time.
void add_pairs(SweepBuilder& b) {
  const int gpus = b.request.ranks_per_node;
  const double rate = b.request.expected.gpu.scale_up.value > 0 ? b.request.expected.gpu.scale_up.value : 1e10;
  constexpr double kBytes = 268435456;
  for (int distance = 1; distance < gpus; ++distance) {
    plan_probe_point point = make_point(PLAN_PROBE_PAIR, {static_cast<double>(distance), kBytes});
    point.group_size = gpus;
    b.add(Section::Pairs, distance == 1 ? 1 : 4, fmt::format("pair +{}", distance), point, kBytes / (0.8 * rate),
          2 * kBytes);
  }
}

void add_collectives(SweepBuilder& b) {
  for (const GroupShape& shape : group_shapes(b.request.ranks, b.request.ranks_per_node)) {
    const bool whole = shape.n == b.request.ranks || shape.n == b.request.ranks_per_node || shape.ranks_per_node == 1;
    const bool strided = shape.nodes > 1 && shape.ranks_per_node > 1 && shape.ranks_per_node < b.request.ranks_per_node;
    const int priority = strided ? 3 : whole ? 1 : 2;
    for (const Collective op : {Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter})
      add_collective(b, op, PLAN_PROBE_BF16, shape, priority);
    add_collective(b, Collective::AllToAll, PLAN_PROBE_BF16, shape, strided ? 3 : priority + 1);  // of experts
    if (shape.n == 2) add_collective(b, Collective::SendRecv, PLAN_PROBE_BF16, shape, 1);
    if (!b.at_least(Depth::Standard)) continue;
    add_collective(b, Collective::AllReduce, PLAN_PROBE_FP32, shape, 4);
    GroupShape alone = shape;
    alone.all = false;
    if (shape.n < b.request.ranks) add_collective(b, Collective::AllGather, PLAN_PROBE_BF16, alone, 4);
  }
  if (!b.request.nccl) return;
  for (const int op : {-1, static_cast<int>(Collective::AllReduce), static_cast<int>(Collective::AllToAll)}) {
    if (op >= 0 && b.request.ranks < 2) break;
    plan_probe_point point = make_point(PLAN_PROBE_NCCL_MEMORY, {});
    point.op = op;
    point.group_size = b.request.ranks_per_node > 1 ? b.request.ranks_per_node : b.request.ranks;
    point.group_stride = 1;
    point.all_groups = 1;
    const std::string what = op < 0 ? "init" : std::string(name(static_cast<Collective>(op)));
    b.add(Section::Collectives, 1, fmt::format("nccl memory {}", what), point, 0.01, 0, kCommunicator);
  }
}

void add_overlap(SweepBuilder& b) {
  const int n = b.request.ranks_per_node > 1 ? b.request.ranks_per_node : b.request.ranks;
  for (const Collective op : {Collective::AllReduce, Collective::AllGather}) {
    if (n < 2) return;
    plan_probe_point point = make_point(PLAN_PROBE_OVERLAP, {67108864});
    point.op = static_cast<int>(op);
    point.group_size = n;
    point.group_stride = 1;
    point.all_groups = 1;
    b.add(Section::Overlap, 2, fmt::format("overlap gemm {}", name(op)), point, 0.005, 1e9, 1.0);
  }
}

}  // namespace plan
