#pragma once

#include <array>
#include <iterator>
#include <vector>

#include "planner/answer/estimate.hpp"
#include "planner/cost/cost.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// Two steps that differ by at most this share are as good as equally fast.
inline constexpr double kAsGood = 0.02;

/// Draws of the model's errors over some layouts of one job: each term of the step is off by a factor that all of them
/// share, since they are predicted by the same laws. The same seed every time.
class Draws {
 public:
  /// `steps` are those of the layouts that may be the fastest.
  explicit Draws(const std::vector<Terms>& steps);
  /// Share of draws in which a step is at most `share` longer than the fastest of all, itself among them.
  [[nodiscard]] double within(const Terms& step, double share) const;

 private:
  using Factors = std::array<double, std::size(kTimeTerms)>;
  static std::vector<Factors> draw();
  static double step_under(const Factors& factors, const Terms& step);

  std::vector<Factors> factors_{};  ///< by draw
  std::vector<double> fastest_{};   ///< by draw; seconds
};

/// What the steps of layouts go to, in their order. Layouts that share a split share its costs, which are computed
/// once.
[[nodiscard]] std::vector<Terms> terms_of(const Problem& problem, const std::vector<Layout>& layouts);
/// What the step of one layout goes to, whose split has these costs.
[[nodiscard]] Terms terms_of(const Problem& problem, const CostModel& costs, const Layout& layout);

}  // namespace plan
