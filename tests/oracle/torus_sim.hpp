#pragma once

// Packets on the links of a grid of chips, and nothing else: no formula, no plan. Time goes in slots; in one slot each
// link carries one packet one way, and of those that wait for it the one with the farthest to go; one between two
// members of its group goes first.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <numeric>
#include <set>
#include <vector>

namespace plan::oracle {

using Coordinates = std::array<int, 3>;

/// Some members of a group along one axis, `step` chips apart.
struct Along {
  int axis = 0, members = 1, step = 1;
};

class Grid {
 public:
  Grid(Coordinates size, std::array<bool, 3> joined) : size_(size), joined_(joined) {}

  int chips() const { return size_[0] * size_[1] * size_[2]; }
  int chip(const Coordinates& at) const { return at[0] + size_[0] * (at[1] + size_[1] * at[2]); }
  Coordinates at(int chip) const { return {chip % size_[0], chip / size_[0] % size_[1], chip / size_[0] / size_[1]}; }
  int size(int axis) const { return size_[static_cast<std::size_t>(axis)]; }
  bool joined(int axis) const { return joined_[static_cast<std::size_t>(axis)]; }
  /// Place of a chip among the members of its own group on that axis.
  int place(int chip, const Along& part) const {
    return at(chip)[static_cast<std::size_t>(part.axis)] / part.step % part.members;
  }
  /// Do the members close to a ring?
  bool ring(const Along& part) const { return joined(part.axis) && part.members * part.step == size(part.axis); }
  /// The chip `by` chips along an axis.
  int moved(int from, int axis, int by) const {
    Coordinates to = at(from);
    int& where = to[static_cast<std::size_t>(axis)];
    where = (where + by + size(axis)) % size(axis);
    return chip(to);
  }

 private:
  Coordinates size_;
  std::array<bool, 3> joined_;
};

/// A packet on its way: along parts[order[at]], `left` links more in this direction, then on along the later parts.
struct Packet {
  int chip = 0, order = 0, at = 0, way = 1, left = 0;
  int far = 0;            ///< links still before the farthest chip that gets it
  int member = 0;         ///< links until it passes a member of the group: there it is copied
  int odd = 0;            ///< of two ways equally long, which
  Coordinates goal{};     ///< of an exchange: links still to go on each part, signed
  bool exchange = false;  ///< one receiver instead of all
};

class Simulation {
 public:
  Simulation(const Grid& grid, std::vector<Along> parts) : grid_(grid), parts_(std::move(parts)) {
    std::vector<int> order(parts_.size());
    std::iota(order.begin(), order.end(), 0);
    do orders_.push_back(order);
    while (std::next_permutation(order.begin(), order.end()));
    waiting_.resize(static_cast<std::size_t>(grid.chips()) * 6);
  }

  /// Slots until every chip has the `packets` of every other member of its group; all groups at once.
  int gather(int packets) {
    const std::vector<int> orders = balanced(packets);
    std::vector<int> before(orders_.size());  // packets with the same order: every second goes the other way round
    for (int p = 0; p < packets; ++p) {
      const int order = orders[static_cast<std::size_t>(p)], odd = before[static_cast<std::size_t>(order)]++;
      for (int chip = 0; chip < grid_.chips(); ++chip)
        branch(Packet{.chip = chip, .order = order, .odd = odd + chip}, 0);
    }
    return run();
  }

  /// Slots until every chip has sent `packets` to every other member of its group.
  int exchange(int packets) {
    int all = 1;
    for (const Along& part : parts_) all *= part.members;
    for (int chip = 0; chip < grid_.chips(); ++chip)
      for (int other = 1; other < all; ++other)
        for (int p = 0; p < packets; ++p) {
          Packet packet{.chip = chip, .order = p % static_cast<int>(orders_.size()), .odd = p, .exchange = true};
          int rest = other;
          for (std::size_t i = 0; i < parts_.size(); ++i) {
            packet.goal[i] =
                links_to(chip, parts_[i], rest % parts_[i].members, chip + p / static_cast<int>(orders_.size()) + rest);
            rest /= parts_[i].members, packet.far += std::abs(packet.goal[i]);
          }
          route(packet);
        }
    return run();
  }

 private:
  /// Links from a chip to the member `by` places on, the shorter way round; `odd` chooses between equal ones.
  int links_to(int chip, const Along& part, int by, int odd) const {
    const int from = grid_.place(chip, part), to = (from + by) % part.members;
    if (!grid_.ring(part)) return (to - from) * part.step;
    if (2 * by == part.members) return (odd % 2 == 0 ? by : -by) * part.step;
    return (2 * by < part.members ? by : by - part.members) * part.step;
  }

  void wait(const Packet& packet) {
    const Along& part = part_of(packet);
    waiting_[static_cast<std::size_t>(6 * packet.chip + 2 * part.axis + (packet.way > 0 ? 1 : 0))].emplace(
        -packet.far - (packet.member > 0 && packet.member < part.step ? part.step : 0), packet);
  }
  const Along& part_of(const Packet& packet) const {
    const auto& order = orders_[static_cast<std::size_t>(packet.order)];
    return parts_[static_cast<std::size_t>(order[static_cast<std::size_t>(packet.at)])];
  }

  /// Next leg of an exchanged packet.
  void route(Packet packet) {
    const auto& order = orders_[static_cast<std::size_t>(packet.order)];
    for (std::size_t i = 0; i < order.size(); ++i) {
      const int links = packet.goal[static_cast<std::size_t>(order[i])];
      if (links == 0) continue;
      packet.at = static_cast<int>(i), packet.way = links > 0 ? 1 : -1;
      return wait(packet);
    }
  }

  /// Links that a gathered packet goes each way along a part.
  std::array<int, 2> reach(int chip, const Along& part, int odd) const {
    const int from = grid_.place(chip, part), others = part.members - 1;
    if (!grid_.ring(part)) return {from * part.step, (others - from) * part.step};
    const int more = (others + 1) / 2, less = others / 2;
    return odd % 2 == 0 ? std::array{less * part.step, more * part.step}
                        : std::array{more * part.step, less * part.step};
  }

  /// Copies of a gathered packet along the parts from `first` on.
  void branch(const Packet& packet, int first) {
    for (int i = first; i < static_cast<int>(parts_.size()); ++i) {
      Packet copy = packet;
      copy.at = i;
      const Along& part = part_of(copy);
      const std::array<int, 2> both = reach(packet.chip, part, packet.odd);
      int later = 0;
      for (int j = i + 1; j < static_cast<int>(parts_.size()); ++j) {
        Packet next = packet;
        next.at = j;
        const std::array<int, 2> then = reach(packet.chip, part_of(next), packet.odd);
        later += std::max(then[0], then[1]);
      }
      for (const int way : {0, 1}) {
        copy.way = way == 0 ? -1 : 1, copy.left = both[static_cast<std::size_t>(way)];
        copy.far = copy.left + later, copy.member = part.step;
        if (copy.left > 0) wait(copy);
      }
    }
  }

  void arrive(Packet packet) {
    const Along& part = part_of(packet);
    packet.chip = grid_.moved(packet.chip, part.axis, packet.way), --packet.far;
    if (packet.exchange) {
      const auto& order = orders_[static_cast<std::size_t>(packet.order)];
      packet.goal[static_cast<std::size_t>(order[static_cast<std::size_t>(packet.at)])] -= packet.way;
      return route(packet);
    }
    --packet.left, --packet.member;
    if (packet.member == 0) {
      packet.member = part.step;
      branch(packet, packet.at + 1);
    }
    if (packet.left > 0) wait(packet);
  }

  /// Orders of the axes for each packet, so that no axis carries more than it must: those that leave the busiest link
  /// least busy, counted packet by packet.
  std::vector<int> balanced(int packets) {
    std::vector<std::vector<double>> loads;  // by order and part: of the busiest link, one packet from each chip
    for (std::size_t order = 0; order < orders_.size(); ++order) {
      std::vector<double> load(parts_.size());
      double before = 1;
      for (const int i : orders_[order]) {
        const Along& part = parts_[static_cast<std::size_t>(i)];
        load[static_cast<std::size_t>(i)] = before * busiest(part);
        before *= part.members;
      }
      loads.push_back(load);
    }
    std::vector<double> sum(parts_.size());
    std::vector<int> out;
    for (int p = 0; p < packets; ++p) {
      int best = 0;
      std::vector<double> least;
      for (std::size_t order = 0; order < orders_.size(); ++order) {
        std::vector<double> next = sum;
        for (std::size_t i = 0; i < next.size(); ++i) next[i] += loads[order][i];
        std::sort(next.rbegin(), next.rend());
        if (order == 0 || next < least) best = static_cast<int>(order), least = next;
      }
      out.push_back(best);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += loads[static_cast<std::size_t>(best)][i];
    }
    return out;
  }

  /// Packets over the busiest link of a part when every chip sends one along it, both ways counted over two packets.
  double busiest(const Along& part) const {
    std::map<std::pair<int, int>, double> over;
    const int line = grid_.size(part.axis);
    for (int from = 0; from < line; ++from) {
      int chip = 0;
      chip = grid_.moved(0, part.axis, from);
      for (const int odd : {0, 1}) {
        const std::array<int, 2> both = reach(chip, part, odd);
        for (const int way : {0, 1})
          for (int i = 0; i < both[static_cast<std::size_t>(way)]; ++i)
            over[{(from + (way == 0 ? -i : i) + line) % line, way}] += 0.5;
      }
    }
    double most = 0;
    for (const auto& [link, count] : over) most = std::max(most, count);
    return most;
  }

  int run() {
    int slots = 0;
    for (bool busy = true; busy;) {
      std::vector<Packet> moving;
      for (auto& queue : waiting_)
        if (!queue.empty()) moving.push_back(queue.begin()->second), queue.erase(queue.begin());
      busy = !moving.empty();
      slots += busy ? 1 : 0;
      for (const Packet& packet : moving) arrive(packet);
    }
    return slots;
  }

  Grid grid_;
  std::vector<Along> parts_;
  std::vector<std::vector<int>> orders_{};
  std::vector<std::multimap<int, Packet>> waiting_{};
};

}  // namespace plan::oracle
