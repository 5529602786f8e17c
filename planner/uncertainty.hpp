#pragma once

#include <array>
#include <string_view>

#include "planner/estimate.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// Where a prediction is expected to be off, as factors on the prediction.
struct Interval {
  double low = 1;
  double high = 1;
};

/// Kinds of runs whose predictions err alike. The first that applies counts, in this order.
enum class Regime {
  UnmeasuredGpu,
  BlackwellMoe,
  Moe,
  LongContext,
  MultiNodeEager,
  SingleNodeEager,
  MultiNodeFsdp,
  SingleNodeFsdp,
  MultiNode,
  SingleNode
};
inline constexpr int kRegimes = 10;
inline constexpr std::array<std::string_view, kRegimes> kRegimeNames{"unmeasured GPU",
                                                                     "mixture of experts on GPUs with fp4",
                                                                     "mixture of experts",
                                                                     "long context",
                                                                     "operations launched one by one, several nodes",
                                                                     "operations launched one by one, one node",
                                                                     "FSDP, several nodes",
                                                                     "FSDP, one node",
                                                                     "several nodes",
                                                                     "one node"};
[[nodiscard]] Regime regime_of(const Problem& problem);

/// 90 % intervals of step time and of peak memory.
[[nodiscard]] Interval time_interval(const Problem& problem);
/// The same, narrower by the share of the step that rests on quantities measured here (planner/claims.hpp).
[[nodiscard]] Interval time_interval(const Problem& problem, double measured_share);
[[nodiscard]] Interval memory_interval(const Problem& problem);

/// Standard deviation of ln(time of a / time of b) around its prediction, for two layouts of one job on one cluster:
/// what both share (GPU, kernels, software) cancels; the rest grows with the share of the step that they spend on
/// different things, sum |term a - term b| over the mean step, and shrinks with the share of both steps that rests on
/// quantities measured here. Symmetric, and least for equal steps.
[[nodiscard]] double paired_spread(const Terms& a, const Terms& b, double measured_share = 0);

/// 90 % interval of time(a) / time(b), as factors on the predicted ratio.
[[nodiscard]] Interval paired_interval(const Problem& problem, const Estimate& a, const Estimate& b);

/// Bytes that a predicted peak may reach so that it fits with 95 % certainty; where the user says how much has to stay
/// free, so that this much does.
[[nodiscard]] double certain_memory(const Problem& problem);

/// 90 % interval of a published figure of `kind` (plan-formulas(7) D8), which also holds what tools mean by it
/// differently.
[[nodiscard]] Interval memory_interval(const Problem& problem, std::string_view kind);

}  // namespace plan
