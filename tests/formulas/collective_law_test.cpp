// Collectives between nodes, hop by hop: members are put on GPUs one by one, and each hop from one to the next takes
// what NCCL's model (tuning.cc 2.30.7; plan-measuring(7) 2.3) gives to the innermost tier that holds both.
#include "formulas/collective_law.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <vector>

#include "formulas/efficiency.hpp"

namespace {

using namespace plan;
using doctest::Approx;

constexpr double kMicro = 1e-6;

/// A job's network: nodes, leaves of several nodes, and what joins those.
struct Network {
  Cluster cluster;
  std::vector<double> stated;  ///< latency of each tier; 0: nobody states one
};

Network draw(std::mt19937& random) {
  const auto pick = [&](std::initializer_list<int> of) { return *(of.begin() + random() % of.size()); };
  Network net;
  Cluster& c = net.cluster;
  c.gpu.scale_up = BytesPerSecond(450e9);
  c.gpu.nic = BytesPerSecond(50e9);
  c.calibration.network_decay = 0;  // of bandwidth, with many nodes: a law of its own
  const int node = pick({4, 8}), leaf = node * pick({2, 4});
  c.tiers = {{.name = "node", .size = node, .bandwidth = BytesPerSecond(450e9)},
             {.name = "leaf", .size = leaf, .bandwidth = BytesPerSecond(50e9)},
             {.name = "spine", .size = 1 << 20, .bandwidth = BytesPerSecond(pick({25, 50}) * 1e9)}};
  for (Tier& tier : c.tiers) {
    net.stated.push_back(random() % 2 == 0 ? 0 : 0.1 * kMicro * pick({4, 12, 40}));
    tier.latency = Seconds(net.stated.back());
  }
  return net;
}

std::size_t tier_of(const Network& net, int a, int b) {
  std::size_t tier = 0;
  while (a / net.cluster.tiers[tier].size != b / net.cluster.tiers[tier].size) ++tier;
  return tier;
}

/// Hops of a chain through all members, by the tier that each crosses.
std::vector<int> hops(const Network& net, Group group) {
  std::vector<int> count(net.cluster.tiers.size());
  for (int member = 1; member < group.size; ++member)
    ++count[tier_of(net, (member - 1) * group.stride, member * group.stride)];
  return count;
}

int nodes_of(const Network& net, Group group) {
  std::set<int> nodes;
  for (int member = 0; member < group.size; ++member) nodes.insert(member * group.stride / net.cluster.tiers[0].size);
  return static_cast<int>(nodes.size());
}

/// What a stated latency adds to one hop: NCCL's own contains a microsecond of fabric, or its hop in the node.
double added(const Network& net, std::size_t tier) {
  return net.stated[tier] > 0 ? net.stated[tier] - (tier == 0 ? 0.6 : 1.0) * kMicro : 0;
}

/// Once round a chain.
double chain(const Network& net, Group group) {
  const std::vector<int> count = hops(net, group);
  double own = 0, stated = 0;
  for (std::size_t tier = 0; tier < count.size(); ++tier) {
    const bool alone = nodes_of(net, group) == group.size;  // NCCL takes the tree's hop then
    own += count[tier] * (tier == 0 ? 0.6 : alone ? 5 : 2.7) * kMicro;
    stated += count[tier] * added(net, tier);
  }
  return 3 * own + stated;
}

/// Up a tree whose leaves are nodes, each a chain inside.
double tree(const Network& net, Group group) {
  const int nodes = nodes_of(net, group), inside = group.size / nodes;
  const std::vector<int> count = hops(net, group);
  double stated = (inside - 1) * added(net, 0), here = nodes;
  for (std::size_t tier = 1; tier < count.size(); ++tier) {
    const double above = here - count[tier];  // instances of this tier
    stated += std::log2(here / above) * added(net, tier);
    here = above;
  }
  return 3 * ((inside - 1) * 0.6 + std::log2(nodes) * 5) * kMicro + stated;
}

/// The slowest of the tiers that are crossed: each GPU of a group drives its own NIC, at 96 % of the line's rate.
double wire(const Network& net, Group group) {
  double slowest = 0, rate = 1e300;
  for (std::size_t tier = 1; tier < net.cluster.tiers.size(); ++tier) {
    rate = std::min(rate, net.cluster.tiers[tier].bandwidth.value);
    int together = 0;  // members in the first instance of the tier below
    for (int member = 0; member < group.size; ++member)
      together += member * group.stride / net.cluster.tiers[tier - 1].size == 0;
    if (together < group.size) slowest = std::max(slowest, 1 / (together * rate * 0.96));
  }
  return slowest;
}

}  // namespace

TEST_CASE("rings between nodes take each hop's latency, and the time of the slowest tier") {
  std::mt19937 random(14);
  int crossing = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    const Network net = draw(random);
    const Group group{2 << random() % 7, 1 << random() % 5};
    const int nodes = nodes_of(net, group);
    if (nodes < 2) continue;
    ++crossing;
    CAPTURE(trial);
    const double bytes = std::pow(10, 3 + static_cast<double>(random() % 7)), n = group.size;
    const int inside = std::max(2, group.size / nodes);
    for (const Collective op : {Collective::AllGather, Collective::ReduceScatter}) {
      const CollectiveLaw law = collective_law(net.cluster, op, RealBytes(bytes), group);
      const double share = bytes * (n - 1) / n;
      const double local = nodes < group.size ? share / scale_up_fit(net.cluster.gpu, op, inside).busbw.value : 0;
      CHECK(law.alpha.value == Approx(3 * 6.6 * kMicro + chain(net, group)).epsilon(1e-9));
      CHECK(law.transfer.value == Approx(std::max(share * wire(net, group), local)).epsilon(1e-9));
    }
    // Reduced on the way there, spread on the way back: round a ring, or up and down a tree, whichever is sooner.
    const CollectiveLaw law = collective_law(net.cluster, Collective::AllReduce, RealBytes(bytes), group);
    const double share = 2 * bytes * (n - 1) / n;
    const double local =
        nodes < group.size ? share / scale_up_fit(net.cluster.gpu, Collective::AllReduce, inside).busbw.value : 0;
    const CollectiveLaw ring{Seconds(3 * 6.6 * kMicro + 2 * chain(net, group)),
                             Seconds(std::max(share * wire(net, group), local)), law.p};
    const CollectiveLaw up_and_down{Seconds(3 * 6.8 * kMicro + 2 * tree(net, group)),
                                    Seconds(std::max(share * wire(net, group) / 0.92, local)), law.p};
    CHECK(law.time().value == Approx(std::min(ring.time().value, up_and_down.time().value)).epsilon(1e-9));
  }
  CHECK(crossing > 500);
}

TEST_CASE("an exchange sends to each peer what is its, and waits for the farthest") {
  std::mt19937 random(15);
  for (int trial = 0; trial < 2000; ++trial) {
    const Network net = draw(random);
    const Group group{2 << random() % 7, 1 << random() % 5};
    const int nodes = nodes_of(net, group), here = group.size / nodes;
    if (nodes < 2) continue;
    CAPTURE(trial);
    const double bytes = 1e6, n = group.size;
    double slowest = 0, rate = 1e300, stated = 0, instances = nodes;
    const std::vector<int> count = hops(net, group);
    for (std::size_t tier = 1; tier < count.size(); ++tier) {
      rate = std::min(rate, net.cluster.tiers[tier].bandwidth.value);
      double outside = n;  // peers of the first member in other instances of the tier below
      for (int member = 0; member < group.size; ++member)
        outside -= member * group.stride / net.cluster.tiers[tier - 1].size == 0;
      slowest = std::max(slowest, bytes * outside / n / (0.96 * rate));
      stated += std::log2(instances / (instances - count[tier])) * added(net, tier);
      instances -= count[tier];
    }
    const double busbw = scale_up_fit(net.cluster.gpu, Collective::AllToAll, std::max(2, here)).busbw.value;
    const CollectiveLaw law = collective_law(net.cluster, Collective::AllToAll, RealBytes(bytes), group);
    CHECK(law.alpha.value == Approx(3 * (6.6 + 5 * std::log2(nodes)) * kMicro + stated).epsilon(1e-9));
    CHECK(law.transfer.value == Approx(std::max(slowest, bytes * (here - 1) / n / busbw)).epsilon(1e-9));
  }
}
