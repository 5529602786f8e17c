// Which layers go to which pipeline chunk (plan-formulas(7) H). Tested by tests/planner/partition_test.cpp,
// against all splits of small models.

#include "formulas/partition.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace plan {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

std::vector<double> prefix_sums(std::span<const double> costs) {
  std::vector<double> sums(costs.size() + 1, 0.0);
  std::partial_sum(costs.begin(), costs.end(), sums.begin() + 1);
  return sums;
}

/// Fills pieces from the front under a limit and says how far one gets.
struct Fill {
  std::vector<int> reach;  ///< layers that the first k pieces can hold, k = 0 ... chunks
  double next = kNone;     ///< smallest limit above the given one under which a piece would hold more
};

Fill fill(const PartitionCost& cost, const std::vector<double>& sums, int chunks, double limit) {
  const int layers = static_cast<int>(cost.layers.size());
  Fill out;
  out.reach.push_back(0);
  int at = 0;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const double ends = (chunk == 0 ? cost.embedding : 0) + (chunk == chunks - 1 ? cost.head : 0);
    const double base = sums[at] - ends;
    while (at < layers && sums[at + 1] - base <= limit) ++at;
    if (at < layers) out.next = std::min(out.next, sums[at + 1] - base);
    out.reach.push_back(at);
  }
  return out;
}

/// Smallest limit under which the pieces hold all layers. Between two values of `next` nothing changes,
/// so stepping from one to the next misses no limit.
double smallest_limit(const PartitionCost& cost, const std::vector<double>& sums, int chunks) {
  const double ends = chunks == 1 ? cost.embedding + cost.head : std::max(cost.embedding, cost.head);
  const double average = (sums.back() + cost.embedding + cost.head) / chunks;
  double limit = std::max(ends, average * (1 - 1e-12));
  for (;;) {
    const Fill filled = fill(cost, sums, chunks, limit);
    if (filled.reach.back() == static_cast<int>(cost.layers.size())) return limit;
    limit = filled.next;
  }
}

/// Layers of each rank if all layers cost the same: each layer goes where the sum stays lowest, ties to
/// the back. The ranks between the ends cost the same, so they fill level by level from the back. `vp`: each rank
/// starts with a layer for each of its chunks between the model's ends; 0 starts with none.
std::vector<int> balanced_counts(int layers, double each, double first, double last, int pp, int vp, bool v_shaped) {
  if (pp == 1) return {layers};
  const int middle = pp - 2;
  int level = vp, raised = 0;  // of the middle ranks, the last `raised` hold level + 1
  int front = vp == 0 ? 0 : vp - (v_shaped ? 2 : 1), back = vp == 0 || v_shaped ? vp : vp - 1;
  layers -= front + back + middle * level;
  const double front_end = first + (v_shaped ? last : 0), back_end = v_shaped ? 0 : last;
  for (int layer = 0; layer < layers; ++layer) {
    const double at_front = front_end + (front + 1) * each, at_back = back_end + (back + 1) * each;
    const double at_middle = middle > 0 ? (level + 1) * each : kNone;
    if (at_back <= at_middle && at_back <= at_front) {
      ++back;
    } else if (at_middle <= at_front) {
      if (++raised == middle) ++level, raised = 0;
    } else {
      ++front;
    }
  }
  std::vector<int> counts(static_cast<std::size_t>(pp), level);
  std::fill(counts.end() - 1 - raised, counts.end() - 1, level + 1);
  counts.front() = front, counts.back() = back;
  return counts;
}

/// Spreads a rank's layers over its chunks: what does not divide goes to later chunks, but never first to
/// the one that holds the head.
std::vector<int> spread(const std::vector<int>& counts, int pp, int vp, bool v_shaped) {
  std::vector<int> chunk_layers(static_cast<std::size_t>(pp) * vp, 0);
  for (int rank = 0; rank < pp; ++rank) {
    const int each = counts[rank] / vp;
    int more = counts[rank] % vp;
    for (int k = vp - 1; k >= 0; --k) {
      const int chunk = v_shaped && k % 2 == 1 ? 2 * pp - 1 - rank : k * pp + rank;
      const bool head = chunk == pp * vp - 1;
      const bool extra = head ? more == vp : more > 0;
      chunk_layers[chunk] = each + (extra ? 1 : 0);
      more -= extra ? 1 : 0;
    }
  }
  return chunk_layers;
}

struct Balance {
  double largest = 0, squares = 0;
  int rank = 0;
  double slack() const { return 1e-12 * largest; }
  /// Is a rank so costly that no balance with it is better than this one?
  bool below(double cost) const { return cost > largest + slack(); }
  bool better_than(const Balance& other) const {
    if (largest < other.largest - other.slack()) return true;
    return !other.below(largest) && squares < other.squares * (1 - 1e-12);
  }
};

Balance balance(const std::vector<double>& ranks) {
  Balance out;
  for (int rank = 0; rank < static_cast<int>(ranks.size()); ++rank) {
    const double cost = ranks[static_cast<std::size_t>(rank)];
    if (cost > out.largest) out.largest = cost, out.rank = rank;
    out.squares += cost * cost;
  }
  return out;
}

/// The best single move found so far.
struct Move {
  Balance balance{};
  int from = -1, to = -1;
};

/// Looks for the move of one layer's worth of count from a chunk to another that balances best. What all moves read is
/// kept from one to the next.
class Mover {
 public:
  Mover(const PartitionCost& cost, int pp, int chunks, bool v_shaped) : cost_(cost), pp_(pp) {
    for (int chunk = 0; chunk < chunks; ++chunk)
      rank_.push_back(static_cast<std::size_t>(rank_of_chunk(chunk, pp, v_shaped)));
  }

  /// Moves one layer's worth of count off a chunk of the costliest rank to the chunk where it helps most; the layers
  /// between shift by one. False if nothing helps.
  bool improve(std::vector<int>& chunk_layers, bool v_shaped) {
    const int chunks = static_cast<int>(chunk_layers.size());
    ranks_ = rank_costs(cost_, chunk_layers, pp_, v_shaped);
    first_.assign(1, 0);
    for (const int layers : chunk_layers) first_.push_back(first_.back() + layers);
    const Balance now = balance(ranks_);
    best_ = {now};
    for (int from = 0; from < chunks; ++from) {
      const int keep = from == 0 || from == chunks - 1 ? 0 : 1;
      if (rank_[static_cast<std::size_t>(from)] != static_cast<std::size_t>(now.rank) ||
          chunk_layers[static_cast<std::size_t>(from)] <= keep)
        continue;
      try_side(from, -1);
      try_side(from, 1);
    }
    if (best_.from < 0) return false;
    --chunk_layers[static_cast<std::size_t>(best_.from)], ++chunk_layers[static_cast<std::size_t>(best_.to)];
    return true;
  }

 private:
  /// Tries to move to every chunk on one side (`step` 1 or -1). The layers between shift by one, so each chunk further
  /// away changes two chunks.
  void try_side(int from, int step) {
    const int end = step > 0 ? static_cast<int>(rank_.size()) : -1;
    moved_ = ranks_;
    count_overloaded();
    for (int to = from + step; to != end; to += step) {
      // The layer that crosses: the last one before the boundary, or the first one behind it.
      const int boundary = first_[static_cast<std::size_t>(step > 0 ? to : to + 1)];
      const double layer = cost_.layers[static_cast<std::size_t>(step > 0 ? boundary - 1 : boundary)];
      change(moved_[rank_[static_cast<std::size_t>(to - step)]], -layer);
      change(moved_[rank_[static_cast<std::size_t>(to)]], layer);
      if (overloaded_ == 0) weigh(from, to);  // most moves overload some rank
    }
  }

  void change(double& rank, double layer) {
    const bool before = best_.balance.below(rank);
    rank += layer;
    overloaded_ += static_cast<int>(best_.balance.below(rank)) - static_cast<int>(before);
  }

  void count_overloaded() {
    overloaded_ = static_cast<int>(
        std::count_if(moved_.begin(), moved_.end(), [&](double cost) { return best_.balance.below(cost); }));
  }

  void weigh(int from, int to) {
    Balance tried;
    for (const double cost : moved_) {
      tried.largest = std::max(tried.largest, cost);
      tried.squares += cost * cost;
    }
    if (!tried.better_than(best_.balance)) return;
    best_ = {tried, from, to};
    count_overloaded();
  }

  const PartitionCost& cost_;
  int pp_;
  std::vector<std::size_t> rank_{};  ///< by chunk
  std::vector<int> first_{};         ///< by chunk, its first layer
  std::vector<double> ranks_{}, moved_{};
  int overloaded_ = 0;  ///< ranks so costly under the move at hand that it is no better than the best one
  Move best_{};
};

}  // namespace

std::vector<int> partition_layers(const PartitionCost& cost, int chunks) {
  const std::vector<double> sums = prefix_sums(cost.layers);
  const double limit = smallest_limit(cost, sums, chunks);
  const std::vector<int> reach = fill(cost, sums, chunks, limit).reach;
  std::vector<int> split(chunks, 0);
  int end = static_cast<int>(cost.layers.size());
  // A chunk between the ends holds nothing but layers: none stays empty where there are enough of them, nor does the
  // first where one fits beside the embedding.
  const bool enough = end >= chunks - 2, first = end >= chunks - 1 && chunks > 1 && reach[1] > 0;
  for (int chunk = chunks - 1; chunk > 0; --chunk) {
    const int kept = enough ? chunk - 1 + (first ? 1 : 0) : 0;  // one for each chunk in front
    double held = chunk == chunks - 1 ? cost.head : 0;
    const double average = (sums[end] + cost.embedding + held) / (chunk + 1);
    int start = end;
    // At least what the chunks in front cannot hold, then up to the average of what is left.
    while (start > kept && (start > reach[chunk] || held < average * (1 - 1e-12))) {
      const double more = held + cost.layers[start - 1];
      if (start <= reach[chunk] && more > limit * (1 + 1e-12)) break;
      held = more;
      --start;
    }
    split[chunk] = end - start;
    end = start;
  }
  split[0] = end;
  return split;
}

std::vector<int> partition_interleaved(const PartitionCost& cost, int pp, int vp, bool v_shaped, bool none_empty) {
  const int layers = static_cast<int>(cost.layers.size());
  const bool equal =
      std::adjacent_find(cost.layers.begin(), cost.layers.end(), std::not_equal_to<>()) == cost.layers.end();
  const double mean = layers > 0 ? std::accumulate(cost.layers.begin(), cost.layers.end(), 0.0) / layers : 0;
  const int least = none_empty && layers >= pp * vp - 2 ? vp : 0;
  std::vector<int> split =
      spread(balanced_counts(layers, mean, cost.embedding, cost.head, pp, least, v_shaped), pp, vp, v_shaped);
  if (equal) return split;
  Mover mover(cost, pp, pp * vp, v_shaped);
  while (mover.improve(split, v_shaped)) {}  // each step is strictly better: this ends
  return split;
}

std::vector<int> equal_chunks(int layers, int chunks, bool embedding, bool loss) {
  const int counted = layers + (embedding ? 1 : 0) + (loss ? 1 : 0);
  if (chunks < 1 || counted % chunks != 0) return {};
  std::vector<int> out(static_cast<std::size_t>(chunks), counted / chunks);
  if (embedding) --out.front();
  if (loss) --out.back();
  if (*std::min_element(out.begin(), out.end()) < 0) return {};
  return out;
}

std::vector<int> plain_chunks(int layers, int chunks) {
  std::vector<int> equal = equal_chunks(layers, chunks, false, false);
  return equal.empty() ? equal_chunks(layers, chunks, true, true) : equal;
}

SplitShape split_shape(std::span<const int> chunk_layers, int layers, int vp) {
  const int chunks = static_cast<int>(chunk_layers.size());
  const auto is = [&](const std::vector<int>& other) { return std::ranges::equal(chunk_layers, other); };
  if (chunks == 0 || is(equal_chunks(layers, chunks, false, false))) return SplitShape::Equal;
  if (is(equal_chunks(layers, chunks, true, true))) return SplitShape::EndsCounted;
  if (vp > 1 || chunks < 3 || chunk_layers.front() < 1 || chunk_layers.back() < 1) return SplitShape::Uneven;
  const std::span<const int> middle = chunk_layers.subspan(1, chunk_layers.size() - 2);
  const bool level = std::all_of(middle.begin(), middle.end(), [&](int count) { return count == middle.front(); });
  return level ? SplitShape::OwnEnds : SplitShape::Uneven;
}

std::vector<double> rank_costs(const PartitionCost& cost, std::span<const int> chunk_layers, int pp, bool v_shaped) {
  std::vector<double> ranks(pp, 0.0);
  std::size_t layer = 0;
  for (int chunk = 0; chunk < static_cast<int>(chunk_layers.size()); ++chunk) {
    double& rank = ranks[rank_of_chunk(chunk, pp, v_shaped)];
    if (chunk == 0) rank += cost.embedding;
    if (chunk + 1 == static_cast<int>(chunk_layers.size())) rank += cost.head;
    for (int i = 0; i < chunk_layers[chunk]; ++i) rank += cost.layers[layer++];
  }
  return ranks;
}

}  // namespace plan
