#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <utility>

#include "planner/estimate/draws.hpp"
#include "planner/problem/problem.hpp"
#include "planner/search/ranking.hpp"

namespace plan {

/// What a plainer layout may cost at most, as a share of the fastest step. Predictions of two layouts of one job are
/// off against each other by more than that, however similar they are.
inline constexpr double kPriceOfPlainness = 0.03;
/// Share of draws of the model's errors in which it must be as good as the fastest: in fewer it is slower for certain.
inline constexpr double kSeldom = 0.05;

/// What a plainer layout may take where the fastest takes this.
[[nodiscard]] constexpr Seconds slowest_plain(Seconds fastest) { return (1 + kPriceOfPlainness) * fastest; }

/// The same with how sure it is that the fastest is the fastest.
class Allowance {
 public:
  /// `fastest` is a step; `draws` are of those that may be the fastest. `most`: beyond that nothing but the fastest is
  /// allowed.
  Allowance(Seconds fastest, Draws draws, Seconds most = Seconds::infinity())
      : fastest_(fastest), slowest_(std::min(most, slowest_plain(fastest))), draws_(std::move(draws)) {}
  Seconds slowest() const { return std::max(fastest_, slowest_); }
  [[nodiscard]] bool allows(Seconds step_time, const Terms& terms) const {
    return step_time <= fastest_ || (step_time <= slowest() && draws_.within(terms, kAsGood) >= kSeldom);
  }

 private:
  Seconds fastest_, slowest_;
  Draws draws_;
};

/// How plain a layout is, for choosing among those that are as good as equally fast. The first count that differs
/// decides: less is plainer. plan(1) documents the order.
struct Plainness {
  /// Switches that the search turned on; an order of axes that not every framework has; stages that are not even;
  /// chunks that do not divide the layers; layers laid by hand; whole layers that are recomputed; context split though
  /// a rank could hold the sequence; halvings of the model over what is slower than a scale-up domain (stages, and the
  /// domains that tensor and context groups and expert groups reach into), and of them those of groups; of tp, cp, pp
  /// and ep those over 1, another engine that shards weights or gradients among them; a schedule other than 1F1B and
  /// interleaved; tensor ranks that each hold the whole sequence; a micro-batch that is no power of two; context split
  /// in two ways at once; how much is recomputed (nothing, modules, all layers, some of them or several at once); how
  /// states are sharded (as the framework does unless it is told otherwise, in another way, in groups); pieces that the
  /// model is cut into, over all stages.
  std::array<int, 18> counts{};
  Score score{};  ///< then the least memory, then the shortest step

  friend bool operator<(const Plainness& a, const Plainness& b);
};

/// `candidate` may be unfinished: what is not chosen yet is as plain as can be.
[[nodiscard]] Plainness plainness(const Problem& problem, const Candidate& candidate);

/// Strict order of candidates by plainness; no two different layouts tie.
[[nodiscard]] bool plainer(const Problem& problem, const Candidate& a, const Candidate& b);

}  // namespace plan
