#pragma once

#include <array>
#include <string_view>

#include "formulas/real_bytes.hpp"
#include "planner/answer/estimate.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// Where a prediction is expected to be off, as factors on the prediction.
struct Interval {
  double low = 1;
  double high = 1;
};

/// What the error of a step grows with, each a number that is 0 where there is no doubt of that kind: share of exposed
/// communication and bubble, doublings of GPUs from one node on, experts, a GPU without measurements of its own,
/// degrees that were guessed, decades of a step below a second.
inline constexpr int kDoubts = 6;
[[nodiscard]] std::array<double, kDoubts> doubts_of(const Problem& problem, const Terms& terms, bool guessed = false);

/// 90 % intervals of step time and of peak memory. Of a step's the narrower, the larger the share of it that rests on
/// quantities measured here (planner/estimate/claims.hpp). `guessed`: degrees of a published run that it does not
/// state.
[[nodiscard]] Interval time_interval(const Problem& problem, const Terms& terms, double measured_share = 0,
                                     bool guessed = false);
[[nodiscard]] Interval memory_interval(const Problem& problem);

/// Standard deviation of ln(time of a / time of b) around its prediction, for two layouts of one job on one cluster:
/// what both share (GPU, kernels, software) cancels; the rest grows with the share of the step that they spend on
/// different things, sum |term a - term b| over the mean step, and shrinks with the share of both steps that rests on
/// quantities measured here. Symmetric, and least for equal steps.
[[nodiscard]] double paired_spread(const Terms& a, const Terms& b, double measured_share = 0);

/// What that spread consists of: what is left where two steps consist of the same, and what each share of the step adds
/// that they spend on different things.
struct PairedSpread {
  double same, different;
};
[[nodiscard]] PairedSpread paired_parts(double measured_share);

/// Of step `a` to step `b`, for two layouts of one job on one cluster: the predicted ratio, give or take 1.645 of
/// paired_spread(). `measured_share`: of both steps that rests on quantities measured here
/// (planner/estimate/claims.hpp).
[[nodiscard]] Difference paired_difference(const Terms& a, const Terms& b, double measured_share = 0);
/// The ratio of step `a` to step `b` of a problem, with the share of both that its profile measured.
[[nodiscard]] Difference paired_difference(const Problem& problem, const Estimate& a, const Estimate& b);

/// What a predicted peak may reach so that it fits with 95 % certainty; where the user says how much has to stay
/// free, so that this much does.
[[nodiscard]] RealBytes certain_memory(const Problem& problem);

/// 90 % interval of a published figure of `kind` (plan-formulas(7) D8), which also holds what tools mean by it
/// differently.
[[nodiscard]] Interval memory_interval(const Problem& problem, std::string_view kind);

}  // namespace plan
