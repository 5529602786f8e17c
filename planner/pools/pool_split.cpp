// Which stage of a pipeline over several pools holds how many layers. Tested by tests/planner/pools_test.cpp.
#include <algorithm>
#include <numeric>

#include "planner/pools/pools.hpp"

namespace plan {
namespace {

using Counts = std::vector<int>;

/// Ways to cut `layers` into `stages` parts of at least one.
double ways(int layers, int stages) {
  double count = 1;
  for (int i = 1; i < stages; ++i) count *= static_cast<double>(layers - stages + i) / i;
  return count;
}

class SplitSearch {
 public:
  SplitSearch(PooledEvaluator& evaluator, int layers, std::span<const RealBytes> capacity, Seconds beat)
      : evaluator_(evaluator), layers_(layers), stages_(evaluator.stages()), capacity_(capacity), beat_(beat) {}

  std::optional<FoundSplit> run() {
    if (layers_ < stages_) return std::nullopt;
    if (ways(layers_, stages_) <= kMostSplits) {
      Counts counts;
      try_all(counts, layers_);
      return best_;
    }
    const std::optional<Counts> start = least_bottleneck();
    if (!start) return std::nullopt;
    offer(*start);
    offer(evened(*start));
    if (best_ && best_->score.step_time <= kWorthMoving * beat_) improve();
    return best_;
  }

 private:
  static constexpr double kWorthMoving = 1.05;  ///< moves of single layers hardly gain more

  void offer(const Counts& counts) {
    const Seconds least = evaluator_.least_step(counts);
    if (least > kWorthMoving * beat_ || (best_ && least > best_->score.step_time)) return;
    const std::optional<Score> score = evaluator_.score(counts, capacity_);
    if (!score) return;
    const auto key = [](const FoundSplit& split) {
      return std::tuple(split.score.step_time, split.score.peak, split.layers);
    };
    FoundSplit found{counts, *score};
    if (!best_ || key(found) < key(*best_)) best_ = std::move(found);
  }

  void try_all(Counts& counts, int left) {
    const int behind = stages_ - static_cast<int>(counts.size()) - 1;
    if (behind == 0) {
      counts.push_back(left);
      offer(counts);
      counts.pop_back();
      return;
    }
    for (int here = 1; here + behind <= left; ++here) {
      counts.push_back(here);
      try_all(counts, left - here);
      counts.pop_back();
    }
  }

  /// May the stage hold these layers, within `most` of a micro-batch?
  [[nodiscard]] bool holds(int stage, int first, int last, Seconds most) const {
    return evaluator_.work(stage, first, last) <= most &&
           evaluator_.memory(stage, first, last) <= capacity_[static_cast<std::size_t>(evaluator_.run_of(stage))];
  }

  /// Each stage takes all that it may, front to back: if that does not place every layer, nothing does.
  [[nodiscard]] std::optional<Counts> filled(Seconds most) const {
    Counts counts;
    int first = 0;
    for (int stage = 0; stage < stages_; ++stage) {
      const int behind = stages_ - stage - 1;
      int low = first + 1, high = layers_ - behind;
      if (!holds(stage, first, low, most)) return std::nullopt;
      while (low < high) {
        const int middle = (low + high + 1) / 2;
        if (holds(stage, first, middle, most))
          low = middle;
        else
          high = middle - 1;
      }
      counts.push_back(low - first), first = low;
    }
    return first == layers_ ? std::optional(counts) : std::nullopt;
  }

  [[nodiscard]] std::optional<Counts> least_bottleneck() {
    Seconds high;
    for (int stage = 0; stage < stages_; ++stage) high = std::max(high, evaluator_.work(stage, 0, layers_));
    std::optional<Counts> found = filled(high);
    if (!found) return std::nullopt;
    constexpr int kHalvings = 24;  // to 1e-7 of the whole model's time
    for (Seconds low; const int i : std::vector<int>(kHalvings)) {
      (void)i;
      const Seconds middle = (low + high) / 2;
      if (std::optional<Counts> counts = filled(middle))
        found = std::move(counts), high = middle;
      else
        low = middle;
    }
    return found;
  }

  /// The layers of each run as even as can be, the fewer in front, where more micro-batches are in flight.
  [[nodiscard]] Counts evened(const Counts& counts) const {
    Counts even;
    for (int stage = 0; stage < stages_;) {
      int end = stage, sum = 0;
      while (end < stages_ && evaluator_.run_of(end) == evaluator_.run_of(stage))
        sum += counts[static_cast<std::size_t>(end++)];
      for (; stage < end; ++stage) {
        const int share = sum / (end - stage);
        even.push_back(share), sum -= share;
      }
    }
    return even;
  }

  /// Does the stage lie between equal ones of its run? Those at the ends of a row represent it.
  [[nodiscard]] bool inside(const Counts& counts, std::size_t stage) const {
    const auto equal = [&](std::size_t a, std::size_t b) {
      return counts[a] == counts[b] && evaluator_.run_of(static_cast<int>(a)) == evaluator_.run_of(static_cast<int>(b));
    };
    return stage > 0 && stage + 1 < counts.size() && equal(stage - 1, stage) && equal(stage, stage + 1);
  }

  /// Moves single layers between stages as long as that helps.
  void improve() {
    for (bool better = best_.has_value(); better;) {
      better = false;
      const Counts from = best_->layers;
      const Seconds before = best_->score.step_time;
      for (std::size_t a = 0; a < from.size(); ++a)
        for (std::size_t b = 0; b < from.size(); ++b) {
          if (a == b || from[a] < 2 || inside(from, a) || inside(from, b)) continue;
          Counts moved = from;
          --moved[a], ++moved[b];
          offer(moved);
        }
      better = best_->score.step_time < before * (1 - 1e-9);
    }
  }

  PooledEvaluator& evaluator_;
  int layers_, stages_;
  std::span<const RealBytes> capacity_;
  Seconds beat_;
  std::optional<FoundSplit> best_{};
};

}  // namespace

std::optional<FoundSplit> best_split(PoolModels& models, const PooledLayout& layout,
                                     std::span<const RealBytes> capacity, Seconds beat) {
  PooledEvaluator evaluator(models, layout);
  return SplitSearch(evaluator, models.whole().model.depth(), capacity, beat).run();
}

}  // namespace plan
