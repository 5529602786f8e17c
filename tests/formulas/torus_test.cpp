// Slices and collectives on them, against packets that wait for links (tests/oracle/torus_sim.hpp).
#include "formulas/torus.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <regex>
#include <set>
#include <string>

#include "formulas/collective_law.hpp"
#include "formulas/efficiency.hpp"
#include "tests/oracle/torus_sim.hpp"

namespace plan {
namespace {

constexpr double kLink = 50e9;

Torus torus(std::array<int, 3> sizes, std::array<bool, 3> rings) {
  Torus out{.axes = {}, .link = BytesPerSecond(kLink)};
  for (std::size_t i = 0; i < sizes.size(); ++i) out.axes[i] = {sizes[i], rings[i]};
  return out;
}

struct Case {
  std::array<int, 3> sizes{1, 1, 1};
  std::array<bool, 3> rings{};
  std::vector<oracle::Along> parts{};

  TorusGroup group() const {
    TorusGroup out;
    for (const oracle::Along& part : parts)
      out.parts[static_cast<std::size_t>(out.count++)] = {part.axis, part.members, part.step, ring(part)};
    return out;
  }
  bool ring(const oracle::Along& part) const {
    const auto axis = static_cast<std::size_t>(part.axis);
    return rings[axis] && part.members * part.step == sizes[axis];
  }
};

class Dice {
 public:
  explicit Dice(unsigned seed) : engine_(seed) {}
  int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(engine_); }
  int divisor(int n) {
    int d = 1;
    do d = 1 + below(n);
    while (n % d != 0);
    return d;
  }
  /// A small torus and a group that fills parts of its axes.
  Case draw(int most) {
    Case out;
    for (int tries = 0;; ++tries) {
      for (std::size_t i = 0; i < 3; ++i) out.sizes[i] = i > 0 && below(3) == 0 ? 1 : 1 + below(6);
      if (out.sizes[0] * out.sizes[1] * out.sizes[2] > most) continue;
      out.parts.clear();
      for (int i = 0; i < 3; ++i) {
        const auto axis = static_cast<std::size_t>(i);
        out.rings[axis] = out.sizes[axis] > 2 && below(2) == 0;
        const int members = divisor(out.sizes[axis]);
        if (members > 1) out.parts.push_back({i, members, below(3) == 0 ? divisor(out.sizes[axis] / members) : 1});
      }
      if (!out.parts.empty()) return out;
    }
  }

 private:
  std::mt19937 engine_;
};

double transfer(const Case& c, Collective op, double bytes) {
  return torus_law(torus(c.sizes, c.rings), op, RealBytes(bytes), c.group(), Seconds(0)).time().value;
}

SliceRules v5p() {
  return {.link = BytesPerSecond(90e9),
          .listed = {{1, 1, 1}, {1, 2, 2}, {2, 2, 2}, {2, 2, 4}, {2, 4, 4}},
          .cube = 4,
          .ring = 4,
          .largest = {16, 16, 24}};
}

SliceRules v5e() {
  return {.link = BytesPerSecond(45e9),
          .listed = {{1, 1, 1}, {2, 2, 1}, {2, 4, 1}, {4, 4, 1}, {4, 8, 1}, {8, 8, 1}, {8, 16, 1}, {16, 16, 1}},
          .cube = 0,
          .ring = 16,
          .largest = {16, 16, 1}};
}

}  // namespace

TEST_CASE("collectives on 200 random tori take as long as packets on links") {
  Dice dice(20261122);
  for (int i = 0; i < 200; ++i) {
    const Case c = dice.draw(36);
    oracle::Grid grid(c.sizes, c.rings);
    const int ranks = c.group().size();
    CAPTURE(i);
    CAPTURE(placement_text(torus(c.sizes, c.rings), c.group()));
    // Packets enough that the way of the last one does not count.
    const double unit = kLink;  // bytes of a packet that takes a second
    const int gathered = 2 * static_cast<int>(400 / transfer(c, Collective::AllGather, 1.0 * ranks * unit) / 2 + 1);
    const double gather = transfer(c, Collective::AllGather, 1.0 * ranks * gathered * unit);
    CHECK(oracle::Simulation(grid, c.parts).gather(gathered) == doctest::Approx(gather).epsilon(0.02));
    const int sent = 12 * static_cast<int>(400 / transfer(c, Collective::AllToAll, 1.0 * ranks * unit) / 12 + 1);
    const double exchange = transfer(c, Collective::AllToAll, 1.0 * ranks * sent * unit);
    CHECK(oracle::Simulation(grid, c.parts).exchange(sent) == doctest::Approx(exchange).epsilon(0.02));
  }
}

TEST_CASE("a hand-over to the next member takes its way link by link, beside those of the members in between") {
  Dice dice(20261126);
  for (int i = 0; i < 200; ++i) {
    const Case c = dice.draw(36);
    int apart = 1;
    for (const oracle::Along& part : c.parts) apart = std::max(apart, part.step);
    CAPTURE(i);
    // Of `apart` siblings side by side, each sends over `apart` links the same way: so many messages meet on each.
    CHECK(transfer(c, Collective::SendRecv, 1e9) == doctest::Approx(apart * 1e9 / kLink));
    const Torus grid = torus(c.sizes, c.rings);
    CHECK(torus_law(grid, Collective::SendRecv, RealBytes(0), c.group(), Seconds(1e-6)).time().value ==
          doctest::Approx(apart * 1e-6));
  }
}

TEST_CASE("words of a placement name every axis that a group lies on, with its members there") {
  Dice dice(20261125);
  const std::regex part(R"((\d+) (?:on|of (\d+) on) axis (\d+) \((ring|line)(?:, every (\d+) chips)?\))");
  for (int i = 0; i < 200; ++i) {
    const Case c = dice.draw(36);
    const std::string text = placement_text(torus(c.sizes, c.rings), c.group());
    CAPTURE(text);
    std::size_t at = 0;
    std::string joined;
    for (std::sregex_iterator found(text.begin(), text.end(), part); found != std::sregex_iterator(); ++found, ++at) {
      REQUIRE(at < c.parts.size());
      const std::smatch& words = *found;
      const auto& wanted = c.parts[at];
      const int whole = c.sizes[static_cast<std::size_t>(wanted.axis)];
      CHECK(std::stoi(words[3]) == wanted.axis);
      CHECK(std::stoi(words[1]) == wanted.members);
      CHECK(words[2].matched == (wanted.members != whole));
      if (words[2].matched) CHECK(std::stoi(words[2]) == whole);
      CHECK((words[5].matched ? std::stoi(words[5]) : 1) == wanted.step);
      joined += (at > 0 ? ", " : "") + words[0].str();
    }
    CHECK(at == c.parts.size());
    CHECK(joined == text);
  }
}

TEST_CASE("a ring of v5p gathers at twice 90 GB/s and no more, three at six times") {
  const Torus cube = torus_of(v5p(), {4, 4, 8});
  const double bytes = 1e9;
  const auto rate = [&](int size) {
    const CollectiveLaw law =
        torus_law(cube, Collective::AllGather, RealBytes(bytes), torus_group(cube, size, 1), Seconds(0));
    return bytes * (size - 1) / size / law.time().value;
  };
  CHECK(rate(8) == doctest::Approx(2 * 90e9));
  CHECK(rate(4) == doctest::Approx(2 * 90e9));
  CHECK(rate(16) == doctest::Approx(4 * 90e9));
  CHECK(rate(128) == doctest::Approx(6 * 90e9));
  CHECK(rate(2) == doctest::Approx(90e9));  // half a ring is a line
}

TEST_CASE("the law of a hand-over is its time, on a slice over its links and beyond it over the network") {
  Cluster cluster;
  cluster.gpu.slices = v5p();
  cluster.gpu.nic = BytesPerSecond(25e9);
  cluster.tiers = {{.name = "slice", .bandwidth = BytesPerSecond(540e9)},
                   {.name = "network", .size = 1 << 20, .bandwidth = BytesPerSecond(25e9)}};
  put_on_slices(cluster, {4, 4, 8});
  REQUIRE(cluster.tiers[0].size == 128);
  for (const int stride : {1, 2, 4, 16, 64, 128, 512})
    for (const double bytes : {1e3, 1e6, 1e9}) {
      CAPTURE(stride);
      const CollectiveLaw law = send_law(cluster, RealBytes(bytes), stride, 2);
      CHECK(law.time().value == doctest::Approx(send_time(cluster, RealBytes(bytes), stride).value));
      const bool inside = 2 * stride <= 128;
      const TorusGroup pair = torus_group(cluster.tiers[0].torus, 2, stride);
      const double links = inside ? pair.parts[0].step : 1;
      CHECK(law.transfer.value >= links * bytes / (inside ? 90e9 : 25e9) * (1 - 1e-9));
    }
}

TEST_CASE("a slice's shape is read back from its text up to the longest axis, and nothing else is a shape") {
  for (const SliceShape& shape :
       {SliceShape{1, 1, 1}, SliceShape{1, 1, 8}, SliceShape{1, 4, 8}, SliceShape{2, 2, 1024}})
    CHECK(read_slice(slice_text(shape)) == shape);
  CHECK(read_slice("8x4") == SliceShape{1, 4, 8});
  for (const char* text : {"", "8", "x8", "8x", "0x8", "8x-1", "4x4x4x4", "4x4x4x", "8 x8", "1025x1", "2x2x1025"}) {
    CAPTURE(std::string(text));
    CHECK_FALSE(read_slice(text).has_value());
  }
}

TEST_CASE("a number of chips has a slice where one of so many exists, however the largest is shaped") {
  for (const SliceShape& largest :
       {SliceShape{4, 4, 4}, SliceShape{4, 8, 12}, SliceShape{8, 8, 8}, SliceShape{12, 16, 16}}) {
    SliceRules rules = v5p();
    rules.largest = largest;
    std::set<int> wanted;
    for (const SliceShape& shape : rules.listed) wanted.insert(chips_of(shape));
    for (int a = 4; a <= largest[0]; a += 4)
      for (int b = 4; b <= largest[1]; b += 4)
        for (int c = 4; c <= largest[2]; c += 4) wanted.insert(a * b * c);
    for (int chips = 1; chips <= chips_of(largest) + 64; ++chips) {
      CAPTURE(chips);
      const auto found = slice_of(rules, chips);
      CHECK(found.has_value() == (wanted.count(chips) > 0));
      if (found) CHECK(chips_of(*found) == chips);
    }
  }
}

TEST_CASE("slices that exist, and what closes to a ring in them") {
  CHECK(slice_of(v5p(), 128) == SliceShape{4, 4, 8});
  CHECK(slice_of(v5p(), 512) == SliceShape{8, 8, 8});
  CHECK_FALSE(slice_of(v5p(), 100).has_value());
  CHECK(slices_of(v5e(), 512) == SliceShape{1, 16, 16});
  CHECK_FALSE(slices_of(v5e(), 260).has_value());
  CHECK(near_chips(v5e(), 100).fewer == 64);
  CHECK(near_chips(v5e(), 100).more == 128);
  CHECK(exists(v5p(), {8, 4, 4}));
  CHECK_FALSE(exists(v5p(), {4, 4, 6}));
  CHECK_FALSE(exists(v5p(), {16, 20, 24}));
  const auto rings = [](const Torus& t) {
    return std::count_if(t.axes.begin(), t.axes.end(), [](const TorusAxis& axis) { return axis.wraps; });
  };
  CHECK(rings(torus_of(v5p(), {4, 4, 4})) == 3);
  CHECK(rings(torus_of(v5p(), {2, 4, 4})) == 0);
  CHECK(rings(torus_of(v5e(), {8, 16, 1})) == 1);
  CHECK(rings(torus_of(v5e(), {16, 16, 1})) == 2);
  for (const SliceShape& shape : {SliceShape{4, 4, 8}, SliceShape{1, 8, 16}, SliceShape{1, 1, 1}})
    CHECK(torus_of(v5p(), *read_slice(slice_text(shape))) == torus_of(v5p(), shape));
  for (const char* wrong : {"", "4", "4x", "x4", "4x4x4x4", "0x4", "4x-4", "4 x 4", "4x4x9999999999"})
    CHECK_FALSE(read_slice(wrong).has_value());
}

TEST_CASE("more or faster links are never slower, and axes have no names") {
  Dice dice(7);
  constexpr Collective kOps[] = {Collective::AllReduce, Collective::AllGather, Collective::AllToAll,
                                 Collective::SendRecv};
  for (int i = 0; i < 500; ++i) {
    const Case c = dice.draw(216);
    const Torus plain = torus(c.sizes, c.rings), closed = torus(c.sizes, {true, true, true});
    Torus faster = plain, turned = plain;
    faster.link = faster.link * 2;
    std::rotate(turned.axes.begin(), turned.axes.begin() + 1, turned.axes.end());
    const int stride = c.parts.front().members, size = dice.divisor(plain.chips() / stride);
    for (const Collective op : kOps)
      for (const Group& group : {Group{size, stride}, Group{stride, 1}}) {
        const auto time = [&](const Torus& on) {
          return torus_law(on, op, RealBytes(1e8), torus_group(on, group.size, group.stride), Seconds(1e-6))
              .time()
              .value;
        };
        CHECK(time(faster) <= time(plain));
        CHECK(time(turned) == doctest::Approx(time(plain)));
        if (torus_group(plain, group.size, group.stride).exact)
          CHECK(torus_law(closed, op, RealBytes(1e8), torus_group(closed, group.size, 1), Seconds(0)).time().value <=
                torus_law(plain, op, RealBytes(1e8), torus_group(plain, group.size, 1), Seconds(0)).time().value *
                    (1 + 1e-9));
      }
  }
}

TEST_CASE("what is inside a group and the group itself share no axis, and fill the slice together") {
  for (const SliceShape& shape :
       {SliceShape{4, 4, 8}, SliceShape{8, 8, 16}, SliceShape{1, 16, 16}, SliceShape{12, 16, 16}}) {
    const Torus slice = torus_of(shape[0] == 1 ? v5e() : v5p(), shape);
    for (int inner = 1; inner <= slice.chips(); ++inner) {
      if (slice.chips() % inner != 0 || !lies_on_axes(slice, inner, 1)) continue;
      const TorusGroup tp = torus_group(slice, inner, 1), dp = torus_group(slice, slice.chips() / inner, inner);
      CAPTURE(slice_text(shape));
      CAPTURE(inner);
      REQUIRE(dp.exact);
      std::array<int, 3> used{1, 1, 1};
      for (const TorusGroup& group : {tp, dp})
        for (int i = 0; i < group.count; ++i) {
          const TorusPart& part = group.parts[static_cast<std::size_t>(i)];
          CHECK(part.step == used[static_cast<std::size_t>(part.axis)]);
          used[static_cast<std::size_t>(part.axis)] *= part.members;
        }
      for (std::size_t i = 0; i < 3; ++i) CHECK(used[i] == slice.axes[i].size);
    }
  }
}

TEST_CASE("between slices a chip has its share of the network") {
  Cluster cluster;
  cluster.gpu.slices = v5p();
  cluster.tiers = {{.name = "slice"}, {.name = "dcn", .size = 1 << 20, .bandwidth = BytesPerSecond(6.25e9)}};
  put_on_slices(cluster, {4, 4, 4});
  CHECK(cluster.scale_up_size() == 64);
  const double inside = collective_time(cluster, Collective::AllReduce, RealBytes(1e9), {64, 1}).value;
  const double across = collective_time(cluster, Collective::AllReduce, RealBytes(1e9), {128, 1}).value;
  CHECK(across > inside);
  CHECK(across >= 2 * 1e9 / (64 * 6.25e9) * 127 / 128);  // every chip's network carries its part there and back
  CHECK(collective_time(cluster, Collective::AllReduce, RealBytes(1e9), {2, 64}).value > across);
}

}  // namespace plan
