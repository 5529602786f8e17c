// Where ranks stand, against a count that knows nothing of groups and strides: every rank with its place on each axis,
// links between any two GPUs by the innermost tier that holds both, and messages that wait for their link.

#include "formulas/rank_grid.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <numeric>
#include <random>

#include "draw.hpp"
#include "formulas/efficiency.hpp"
#include "formulas/schedule.hpp"
#include "tests/oracle/pipeline_sim.hpp"

namespace plan {
namespace {

using Key = std::function<int(int rank)>;

/// A rank's place on every axis, worked out from its number by division.
struct GridPlace {
  int tp, cp, pp, dp, etp, ep, copy;
};

GridPlace place_of(const Layout& l, int rank) {
  const bool data_last = l.order == AxisOrder::DataOutermost;
  const auto digits = [&](int inner, int outer, int copies) {
    const int block = inner * outer, rest = rank / block;
    const int pp = data_last ? rest % l.pp : rest / copies, copy = data_last ? rest / l.pp : rest % copies;
    return std::array<int, 4>{rank % inner, rank / inner % outer, pp, copy};
  };
  const auto [tp, cp, pp, dp] = digits(l.tp, l.cp, l.dp);
  const auto [etp, ep, same_pp, copy] = digits(l.etp, l.ep, l.expert_dp());
  REQUIRE(same_pp == pp);
  return {tp, cp, pp, dp, etp, ep, copy};
}

struct World {
  Layout layout{};
  std::vector<GridPlace> places{};  ///< by rank
  Cluster cluster{};
  std::vector<double> link{};  ///< seconds of a hand-over, by tier
};

std::size_t tier_between(const World& w, int a, int b) {
  std::size_t tier = 0;
  while (a / w.cluster.tiers[tier].size != b / w.cluster.tiers[tier].size) ++tier;
  return tier;
}

/// Seconds of the slowest message of one replica from stage to stage: its tensor and context ranks wait for each other.
double slowest_link(const World& w, int dp, int from, int to) {
  double slowest = 0;
  for (int a = 0; a < w.layout.world(); ++a) {
    const GridPlace& sender = w.places[static_cast<std::size_t>(a)];
    if (sender.dp != dp || sender.pp != from) continue;
    for (int b = 0; b < w.layout.world(); ++b) {
      const GridPlace& receiver = w.places[static_cast<std::size_t>(b)];
      if (receiver.dp == dp && receiver.pp == to && receiver.tp == sender.tp && receiver.cp == sender.cp)
        slowest = std::max(slowest, w.link[tier_between(w, a, b)]);
    }
  }
  return slowest;
}

/// Tiers that the blocks of the axes fill, so that every group has as many members in each instance.
World random_world(std::mt19937& random) {
  World w;
  Layout& l = w.layout;
  l.order = pick(random, {AxisOrder::PipelineOutermost, AxisOrder::DataOutermost});
  l.tp = pick(random, {1, 2, 4}), l.cp = pick(random, {1, 1, 2, 3}), l.dp = pick(random, {1, 2, 3, 4});
  l.pp = pick(random, {2, 3, 4, 6, 8});
  const int inside = l.tp * l.cp;
  l.ep = pick(random, {1, inside}), l.etp = inside / l.ep;
  std::vector<int> sizes;
  int block = 1;
  const bool data_last = l.order == AxisOrder::DataOutermost;
  for (const int axis : {l.tp, l.cp, data_last ? l.pp : l.dp, data_last ? l.dp : l.pp})
    for (int part = 2, left = axis; left > 1; ++part)
      while (left % part == 0) left /= part, block *= part, sizes.push_back(block);
  const auto add = [&](int size) {
    if (w.cluster.tiers.empty() || size > w.cluster.tiers.back().size)
      w.cluster.tiers.push_back({.name = "tier " + std::to_string(size), .size = size});
  };
  for (const int size : sizes)
    if (random() % 3 == 0) add(size);
  add(l.world());
  for (int rank = 0; rank < l.world(); ++rank) w.places.push_back(place_of(l, rank));
  double seconds = 0.002 * static_cast<double>(random() % 5);
  for (std::size_t i = 0; i < w.cluster.tiers.size(); ++i)
    w.link.push_back(seconds), seconds += 0.01 * static_cast<double>(1 + random() % 10);
  return w;
}

/// Members of the group of `rank` in one instance of the tier; all groups and instances must agree.
int members_inside(const World& w, int tier_size, const Key& key) {
  std::map<std::pair<int, int>, int> count;
  for (int rank = 0; rank < w.layout.world(); ++rank)
    if (key(rank) >= 0) ++count[{key(rank), rank / tier_size}];
  const int first = count.begin()->second;
  for (const auto& [group, members] : count) CHECK(members == first);
  return first;
}

/// The group as the product has it against the ranks for which `key` is equal (negative: in no group).
void check_group(const World& w, Group group, const Key& key) {
  std::map<int, std::vector<int>> ranks;
  for (int rank = 0; rank < w.layout.world(); ++rank)
    if (key(rank) >= 0) ranks[key(rank)].push_back(rank);
  std::size_t widest = 0;
  for (const auto& [id, members] : ranks) {
    CHECK(static_cast<int>(members.size()) == group.size);
    widest = std::max(widest, tier_between(w, members.front(), members.back()));
  }
  for (const Tier& tier : w.cluster.tiers) CHECK(group.inside(tier.size) == members_inside(w, tier.size, key));
  if (group.size > 1) CHECK(group_tier(w.cluster, group).name == w.cluster.tiers[widest].name);
}

}  // namespace

TEST_CASE("groups that do not divide a tier lie across its instances, and the part with the fewest ranks counts") {
  std::mt19937 random(20261203);
  int straddling = 0;
  for (int i = 0; i < 400; ++i) {
    const int size = 2 + static_cast<int>(random() % 12), stride = 1 + static_cast<int>(random() % 6);
    const int tier = pick(random, {4, 6, 8, 16, 72}), block = size * stride;
    const bool fills = random() % 4 != 0;
    const int world = fills ? std::lcm(block, tier) * (1 + static_cast<int>(random() % 2)) : block;
    const Group group = context_group(size, stride, 1, world);
    CAPTURE(size);
    CAPTURE(stride);
    CAPTURE(tier);
    CAPTURE(world);
    int least = size, most = 1;
    for (int first = 0; first < world; ++first) {
      if (first % block >= stride) continue;
      std::map<int, int> members;
      for (int k = 0; k < size; ++k) ++members[(first + k * stride) / tier];
      for (const auto& [instance, count] : members) least = std::min(least, count);
      most = std::max(most, static_cast<int>(members.size()));
    }
    if (world % tier != 0) {  // whoever places the job keeps together what fits
      CHECK_FALSE(group.straddles(tier));
      continue;
    }
    if (group.straddles(tier)) {
      CHECK(group.inside(tier) == least);
      CHECK(group.instances(tier) == most);
      CHECK(most > 1);
      ++straddling;
    }
    if (most > 1 && block <= tier) CHECK(group.straddles(tier));
  }
  CHECK(straddling > 100);
}

TEST_CASE("groups, rings and hops cross the tiers that their own ranks cross") {
  std::mt19937 random(2211);
  int differing = 0;
  for (int i = 0; i < 200; ++i) {
    const World w = random_world(random);
    const Layout& l = w.layout;
    CAPTURE(i);
    const RankGrid grid(l);
    const auto at = [&](int rank) { return w.places[static_cast<std::size_t>(rank)]; };
    check_group(w, tensor_group(l.tp), [&](int r) { return r - at(r).tp; });
    check_group(w, context_group(l.cp, l.tp), [&](int r) { return r - l.tp * at(r).cp; });
    check_group(w, expert_group(l.ep, l.etp), [&](int r) { return r - l.etp * at(r).ep; });
    check_group(w, grid.stages(), [&](int r) { return at(r).tp + 100 * (at(r).cp + 100 * at(r).dp); });
    check_group(w, grid.stage(), [&](int r) { return at(r).pp; });
    check_group(w, grid.dense().some(l.dense_group()), [&](int r) { return at(r).tp + 100 * at(r).pp; });
    check_group(w, grid.expert().some(l.expert_dp()),
                [&](int r) { return at(r).etp + 100 * (at(r).ep + 100 * at(r).pp); });
    // Shard groups that hold whole context groups, and the ranks with the same shard.
    const int parts = l.dp % 2 == 0 ? 2 : 1, shard = l.dense_group() / parts, of = l.dp / parts;
    const auto shard_of = [&](int r) { return at(r).dp / of; };
    check_group(w, grid.dense().some(shard), [&](int r) { return at(r).tp + 100 * (at(r).pp + 100 * shard_of(r)); });
    check_group(w, grid.dense().some(parts, shard),
                [&](int r) { return at(r).tp + 100 * (at(r).pp + 100 * (at(r).cp + 100 * (at(r).dp % of))); });
    // Both directions of DualPipe on its two end stages.
    const auto ends = [&](int r) { return at(r).pp == 0 || at(r).pp == l.pp - 1 ? at(r).tp : -1; };
    if (l.pp == 2) check_group(w, grid.with_opposite(grid.dense().some(l.dense_group())), ends);

    const std::vector<std::size_t> tiers = hop_tiers(w.cluster, l);
    REQUIRE(static_cast<int>(tiers.size()) == l.pp);
    for (int stage = 0; stage < l.pp; ++stage) {
      double slowest = 0;
      for (int dp = 0; dp < l.dp; ++dp) slowest = std::max(slowest, slowest_link(w, dp, stage, (stage + 1) % l.pp));
      CHECK(w.link[tiers[static_cast<std::size_t>(stage)]] == slowest);
      differing += tiers[static_cast<std::size_t>(stage)] != tiers.front();
    }
  }
  CHECK(differing > 100);  // the generator must not drift into equal hops
}

TEST_CASE("members that a part of the replicas counts as one row are a stride apart, and the block holds them all") {
  std::mt19937 random(11);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  int rows_seen = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    Replicas all{.row = 1 + below(12), .stride = 1 + below(3), .rows = 1 + below(6)};
    all.pitch = all.row * all.stride * (1 + below(3));
    const int step = 1 + below(all.size()), most = (all.size() - 1) / step + 1;
    const int count = 1 + below(most);
    const Group group = all.some(count, step);
    const auto place = [&](int member) {
      return member * step / all.row * all.pitch + member * step % all.row * all.stride;
    };
    CAPTURE(trial);
    CHECK(group.size == count);
    CHECK(count * step <= all.size() + step - 1);
    const int row = group.span > 0 ? group.row : count;
    REQUIRE(row >= 1);
    CHECK(count % row == 0);
    for (int member = 1; member < count; ++member)
      if (member % row != 0) CHECK(place(member) - place(member - 1) == group.stride);
    CHECK(group.reach() > place(count - 1));
    rows_seen += group.span > 0 && row > 1;
  }
  CHECK(rows_seen > 100);
}

TEST_CASE("hops across instances that the stages do not fill, all of them in use") {
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    World w = random_world(random);
    const int world = w.layout.world();
    std::vector<int> divisors;
    for (int d = 2; d < world; ++d)
      if (world % d == 0) divisors.push_back(d);
    if (divisors.empty()) continue;
    w.cluster.tiers = {{.name = "node", .size = divisors[random() % divisors.size()]}, {.name = "all", .size = world}};
    w.link = {1, 2};
    const std::vector<std::size_t> tiers = hop_tiers(w.cluster, w.layout);
    for (int stage = 0; stage < w.layout.pp; ++stage) {
      double slowest = 0;
      for (int dp = 0; dp < w.layout.dp; ++dp)
        slowest = std::max(slowest, slowest_link(w, dp, stage, (stage + 1) % w.layout.pp));
      CHECK(w.link[tiers[static_cast<std::size_t>(stage)]] == slowest);
    }
  }
}

TEST_CASE("the pipeline's time with hops that differ is what messages over those links take") {
  std::mt19937 random(22);
  int checked = 0;
  for (int i = 0; i < 200; ++i) {
    const World w = random_world(random);
    const Layout& l = w.layout;
    const Schedule schedule =
        pick(random, {Schedule::GPipe, Schedule::OneFOneB, Schedule::OneFOneB, Schedule::Interleaved});
    const int vp = schedule == Schedule::Interleaved ? pick(random, {2, 3}) : 1;
    const int micro_batches = l.pp * pick(random, {1, 2, 3, 5});
    const Pipeline pipe{schedule, l.pp, vp, micro_batches};
    if (!schedule_allows(pipe)) continue;
    std::vector<Seconds> each;
    for (const std::size_t tier : hop_tiers(w.cluster, l)) each.emplace_back(w.link[tier]);
    const std::vector<StageTime> stages(static_cast<std::size_t>(l.pp), {Seconds(1), Seconds(1.2), Seconds(0.8)});
    const double predicted = pipeline_time(pipe, stages, Hops(each)).total().value;
    double replayed = 0;  // replicas wait for each other at the end of the step
    for (int dp = 0; dp < l.dp; ++dp) {
      const std::vector<oracle::Cost> costs(static_cast<std::size_t>(l.pp) * vp, {1.0 / vp, 1.2 / vp, 0.8 / vp, 0});
      std::map<std::pair<int, int>, double> known;
      const oracle::Run run = oracle::replay({schedule, l.pp, vp, micro_batches}, costs, [&](int from, int to) {
        const auto [link, fresh] = known.try_emplace({from, to}, 0);
        if (fresh) link->second = slowest_link(w, dp, from, to);
        return link->second;
      });
      REQUIRE_FALSE(run.deadlock);
      replayed = std::max(replayed, run.makespan);
    }
    CAPTURE(i);
    CAPTURE(l.pp);
    CAPTURE(vp);
    CAPTURE(micro_batches);
    CAPTURE(static_cast<int>(schedule));
    CHECK(predicted == doctest::Approx(replayed).epsilon(0.02));
    ++checked;
  }
  CHECK(checked > 150);
}

TEST_CASE("the order is of no matter without a pipeline, and on a cluster of one tier") {
  std::mt19937 random(3);
  for (int i = 0; i < 100; ++i) {
    World w = random_world(random);
    Layout other = w.layout;
    other.order = w.layout.order == AxisOrder::DataOutermost ? AxisOrder::PipelineOutermost : AxisOrder::DataOutermost;
    if (i % 2 == 0)
      w.layout.pp = other.pp = 1;
    else
      w.cluster.tiers = {{.name = "node", .size = w.layout.tp * w.layout.cp},
                         {.name = "all", .size = w.layout.world()}};
    CHECK_FALSE(order_matters(w.cluster, w.layout));
    CHECK(hop_tiers(w.cluster, w.layout) == hop_tiers(w.cluster, other));
    const RankGrid a(w.layout), b(other);
    for (const Tier& tier : w.cluster.tiers) {
      const int dense = w.layout.dense_group(), expert = w.layout.expert_dp();
      CHECK(a.dense().some(dense).inside(tier.size) == b.dense().some(dense).inside(tier.size));
      CHECK(a.expert().some(expert).inside(tier.size) == b.expert().some(expert).inside(tier.size));
    }
  }
}

}  // namespace plan
