#pragma once

// Hand-overs between the ranks of a pipeline, each with a time of its own: some cross the slowest tier, most do not.

#include <span>
#include <vector>

#include "formulas/units.hpp"

namespace plan {

/// Seconds of handing one micro-batch's activations, or their gradient, from one rank of the pipeline to the next.
class Hops {
 public:
  Hops() = default;
  /// All equal.
  Hops(Seconds each) : each_(each.value) {}  // NOLINT(google-explicit-constructor): a time is a hop
  /// One a rank, to the rank behind it; that of the last rank is to the first, as interleaved chunks go.
  explicit Hops(std::span<const Seconds> each);

  bool uniform() const { return up_to_.empty(); }
  /// One of them if all are equal, else the slowest.
  Seconds slowest() const { return Seconds(each_); }
  /// Between two ranks that hand over to each other.
  Seconds between(int a, int b) const;
  /// All from the first rank to this one; from this one to the last of `ranks`; once round all ranks.
  double before(int rank) const { return uniform() ? rank * each_ : up_to_[static_cast<std::size_t>(rank)]; }
  double after(int rank, int ranks) const {
    return uniform() ? (ranks - 1 - rank) * each_ : up_to_[up_to_.size() - 2] - up_to_[static_cast<std::size_t>(rank)];
  }
  double ring(int ranks) const { return uniform() ? ranks * each_ : up_to_.back(); }
  /// The hop of a pipeline with equal ones whose micro-batches wait as long on their way through it, or on their trips
  /// between the stages in the steady phase, where one slow hop holds up all micro-batches.
  double mean() const { return mean_; }
  double steady() const { return steady_; }

  /// Ranks `first` to `last`, whose hand-overs are the slowest that so many ranks have.
  struct Stretch {
    int first = 0, last = 0;
  };
  /// Those that may bind in the steady phase, for hops that differ: one for each number of slow hops.
  std::span<const Stretch> stretches() const { return stretches_; }

 private:
  double each_ = 0, mean_ = 0, steady_ = 0;
  std::vector<double> up_to_{};  ///< from the first rank to each, then once round; none if all are equal
  std::vector<Stretch> stretches_{};
};

}  // namespace plan
