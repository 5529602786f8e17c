// Groups on the axes of a torus, and their collectives: the head of torus.hpp says by which laws, what is assumed and
// from which sources. Tested by tests/formulas/torus_test.cpp.
#include "formulas/torus.hpp"

#include <algorithm>
#include <cmath>

namespace plan {
namespace {

/// What is left of each axis once inner ranks have been laid on it.
struct Room {
  std::array<TorusAxis, kTorusAxes> axes{};
  std::array<int, kTorusAxes> step{1, 1, 1};  ///< chips that inner ranks take of it
  int left(std::size_t axis) const { return axes[axis].size / step[axis]; }
};

/// Links of the group on its part of an axis, as shares of one that it would have alone.
double links(const TorusPart& part) { return (part.wraps ? 2.0 : 1.0) / part.step; }

/// Seconds at a link of one byte per second for each byte gathered.
double gather_load(const TorusGroup& group) {
  const double ranks = group.size();
  double worst = 0;
  for (unsigned set = 1; set < 1u << group.count; ++set) {
    double members = 1, rate = 0;
    for (int i = 0; i < group.count; ++i) {
      if ((set >> i & 1u) == 0) continue;
      const TorusPart& part = group.parts[static_cast<std::size_t>(i)];
      members *= part.members, rate += links(part);
    }
    worst = std::max(worst, (members - 1) / (ranks * rate));
  }
  return worst;
}

/// Seconds times rate that the busiest link needs for each byte of a rank's whole buffer in an all-to-all.
double exchange_load(const TorusGroup& group) {
  double worst = 0;
  for (int i = 0; i < group.count; ++i) {
    const TorusPart& part = group.parts[static_cast<std::size_t>(i)];
    const double m = part.members;
    worst = std::max(worst, std::floor(m * m / 4) / (m * links(part)));
  }
  return worst;
}

/// The same for each byte that every member hands to the next round the group, all one way.
double hop_load(const TorusGroup& group) {
  double worst = 1;
  for (int i = 0; i < group.count; ++i)
    worst = std::max(worst, static_cast<double>(group.parts[static_cast<std::size_t>(i)].step));
  return worst;
}

/// Links one after the other from a rank to the farthest.
double farthest(const TorusGroup& group) {
  double hops = 0;
  for (int i = 0; i < group.count; ++i) {
    const TorusPart& part = group.parts[static_cast<std::size_t>(i)];
    hops += 1.0 * part.step * (part.wraps ? part.members / 2 : part.members - 1);
  }
  return hops;
}

/// Fewer axes left in pieces, then less time, then the shorter axes: which of two placements XLA would take.
struct Preference {
  int pieces = 0;
  double load = 0;
  bool operator<(const Preference& other) const {
    constexpr double kSame = 1e-12;
    if (pieces != other.pieces) return pieces < other.pieces;
    return load < other.load - kSame;
  }
};

/// `size` ranks side by side in what is left; none placed where the axes do not divide so.
TorusGroup place(const Room& room, int size) {
  TorusGroup best{.parts = {}, .count = 0, .exact = false};
  Preference least;
  for (int a = 1; a <= std::min(size, room.left(0)); ++a) {
    if (size % a != 0 || room.left(0) % a != 0) continue;
    for (int b = 1; b <= std::min(size / a, room.left(1)); ++b) {
      if (size / a % b != 0 || room.left(1) % b != 0) continue;
      const int c = size / a / b;
      if (c > room.left(2) || room.left(2) % c != 0) continue;
      TorusGroup here;
      Preference preference;
      const std::array<int, kTorusAxes> members{a, b, c};
      for (std::size_t axis = 0; axis < members.size(); ++axis) {
        if (members[axis] == 1) continue;
        const int step = room.step[axis], end = step * members[axis];
        const bool whole = end == room.axes[axis].size;
        preference.pieces += whole ? 0 : 1;
        here.parts[static_cast<std::size_t>(here.count++)] = {static_cast<int>(axis), members[axis], step,
                                                              whole && room.axes[axis].wraps};
      }
      preference.load = gather_load(here);
      if (best.exact && !(preference < least)) continue;
      best = here, least = preference;
    }
  }
  return best;
}

}  // namespace

int TorusGroup::size() const {
  int ranks = 1;
  for (int i = 0; i < count; ++i) ranks *= parts[static_cast<std::size_t>(i)].members;
  return ranks;
}

TorusGroup torus_group(const Torus& torus, int size, int stride) {
  Room room{.axes = torus.axes};
  std::sort(room.axes.begin(), room.axes.end(), [](const TorusAxis& a, const TorusAxis& b) {
    return a.size != b.size ? a.size < b.size : a.wraps && !b.wraps;
  });
  const TorusGroup inner = place(room, stride);
  for (int i = 0; i < inner.count; ++i) {
    const TorusPart& part = inner.parts[static_cast<std::size_t>(i)];
    room.step[static_cast<std::size_t>(part.axis)] *= part.members;
  }
  const TorusGroup group = inner.exact ? place(room, size) : TorusGroup{{}, 0, false};
  if (group.exact) return group;
  return {{TorusPart{0, size, stride, false}}, 1, false};
}

bool lies_on_axes(const Torus& torus, int size, int stride) { return torus_group(torus, size, stride).exact; }

CollectiveLaw torus_law(const Torus& torus, Collective op, RealBytes bytes, const TorusGroup& group, Seconds hop) {
  const Seconds second = bytes / torus.link, far = farthest(group) * hop;
  constexpr double kOneAfterTheOther = 1;  // of the soft sum: latency and transfer add up
  switch (op) {
    case Collective::AllReduce: return {2 * far, 2 * second * gather_load(group), kOneAfterTheOther};
    case Collective::AllGather:
    case Collective::ReduceScatter:
    case Collective::Broadcast: return {far, second * gather_load(group), kOneAfterTheOther};
    case Collective::AllToAll: return {far, second * exchange_load(group), kOneAfterTheOther};
    case Collective::SendRecv: return {hop_load(group) * hop, second * hop_load(group), kOneAfterTheOther};
  }
  return {};
}

void put_on_slices(Cluster& cluster, const SliceShape& shape) {
  if (cluster.tiers.empty()) return;
  Tier& tier = cluster.tiers.front();
  const BytesPerSecond link = tier.torus.any() ? tier.torus.link : cluster.gpu.slices.link;
  tier.torus = torus_of(cluster.gpu.slices, shape);
  tier.torus.link = link;
  tier.size = tier.torus.chips();
  tier.bandwidth = link * std::max(1, tier.torus.links());
  cluster.gpu.scale_up = tier.bandwidth, cluster.gpu.scale_up_size = tier.size;
}

std::string placement_text(const Torus& torus, const TorusGroup& group) {
  if (!group.exact) return "in a line through the slice, which its degree does not divide";
  std::string text;
  for (int i = 0; i < group.count; ++i) {
    const TorusPart& part = group.parts[static_cast<std::size_t>(i)];
    const int whole = torus.axes[static_cast<std::size_t>(part.axis)].size;
    text += (i > 0 ? ", " : "") + std::to_string(part.members);
    text += part.members == whole ? " on" : " of " + std::to_string(whole) + " on";
    text += " axis " + std::to_string(part.axis) + (part.wraps ? " (ring" : " (line");
    text += part.step > 1 ? ", every " + std::to_string(part.step) + " chips)" : ")";
  }
  return text;
}

}  // namespace plan
