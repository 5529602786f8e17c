#include "planner/uncertainty.hpp"

#include <algorithm>
#include <cmath>

#include "formulas/transient.hpp"
#include "planner/claims.hpp"
#include "planner/uncertainty_fit.hpp"

namespace plan {
namespace {

/// What a device holds over what was predicted, 90 % of published runs, suites weighing alike. What is allocated is
/// met closely; what the allocator keeps besides decides, and where its segments grow it keeps less.
constexpr Interval kGrowingSegments{0.905, 1.129};  // 14 runs of 2 suites, `reserved`
constexpr Interval kFixedSegments{0.873, 1.293};    // 60 runs of 3 suites, `device`
/// Experts: routing that is not balanced, and static memory that nobody accounts for, 2 to 4.5 % (plan-formulas(7) D8).
constexpr double kExperts = 1.05;

/// And by what a source calls memory.
struct KindInterval {
  std::string_view kind;
  Interval interval;
};
constexpr KindInterval kMemoryKinds[] = {
    // Never narrower than 10 %, with which suites left out are covered to 91 % in the mean.
    {"allocated", {0.905, 1.105}},            // 44 runs of two suites
    {"allocated-last-rank", {0.905, 1.217}},  // 57 runs of one, mostly tiny models
    {"device", {0.873, 1.293}},               // 60 runs of three
    {"printed", {0.905, 1.105}},              // 106 runs of three
    {"reserved", {0.905, 1.129}},             // 14 runs of two
};

constexpr Interval kProbedStepTime{0.92, 1.08};

/// Of pairs of published layouts of one job (model, sequence, batch, GPUs, kernels, release).
constexpr PairedSpread kPaired{0.06, 0.28};        // 4,130 pairs of 12 suites
constexpr PairedSpread kProbedPaired{0.03, 0.14};  // half, as intervals of a step are on a probed cluster

constexpr double kNinety = 1.645;  ///< standard deviations either side that hold 90 % of a normal variable

}  // namespace

std::array<double, kDoubts> doubts_of(const Problem& problem, const Terms& terms, bool guessed) {
  const double whole = terms.total().value;
  const Seconds waits = terms.tp + terms.cp + terms.ep + terms.pp + terms.dp + terms.bubble;
  const Gpu& gpu = problem.cluster.gpu;
  const bool probed = gpu.gemm[static_cast<std::size_t>(DType::Bf16)][0].fit.provenance == Provenance::Measured;
  const bool unmeasured = !probed && (!gpu.measured_as.empty() || !gpu.edited.empty());
  return {whole > 0 ? waits.value / whole : 0,
          std::log2(std::max(1.0, static_cast<double>(problem.gpus) / problem.cluster.gpus_per_node)),
          problem.model.moe() ? 1.0 : 0.0,
          unmeasured ? 1.0 : 0.0,
          guessed ? 1.0 : 0.0,
          whole > 0 ? std::clamp(-std::log10(whole), 0.0, 2.0) : 0};
}

Interval time_interval(const Problem& problem, const Terms& terms, double measured_share, bool guessed) {
  const std::array<double, kDoubts> doubts = doubts_of(problem, terms, guessed);
  double log_scale = kTimeScale[0];
  for (std::size_t i = 0; i < doubts.size(); ++i) log_scale += kTimeScale[i + 1] * doubts[i];
  const double scale = std::exp(log_scale);
  const Interval usual{std::exp(kTimeBand.low * scale), std::exp(kTimeBand.high * scale)};
  const auto between = [&](double probed, double other) { return other + measured_share * (probed - other); };
  return {between(kProbedStepTime.low, usual.low), between(kProbedStepTime.high, usual.high)};
}

Interval memory_interval(const Problem& problem) {
  Interval interval = problem.training.stack.expandable_segments ? kGrowingSegments : kFixedSegments;
  if (problem.model.moe()) interval.high *= kExperts;
  return interval;
}

double paired_spread(const Terms& a, const Terms& b, double measured_share) {
  const double whole = (a.total() + b.total()).value / 2;
  if (!(whole > 0)) return 0;
  double moved = 0;
  for (const auto term : {&Terms::compute, &Terms::recompute, &Terms::tp, &Terms::cp, &Terms::ep, &Terms::pp,
                          &Terms::dp, &Terms::bubble, &Terms::optimizer, &Terms::straggler})
    moved += std::abs((a.*term - b.*term).value);
  const PairedSpread parts = paired_parts(measured_share);
  return std::hypot(parts.same, parts.different * moved / whole);
}

PairedSpread paired_parts(double measured_share) {
  const auto between = [&](double PairedSpread::*of) {
    return kPaired.*of + measured_share * (kProbedPaired.*of - kPaired.*of);
  };
  return {between(&PairedSpread::same), between(&PairedSpread::different)};
}

Interval paired_interval(const Problem& problem, const Estimate& a, const Estimate& b) {
  const double share = std::min(time_coverage(problem, a).share, time_coverage(problem, b).share);
  const double spread = kNinety * paired_spread(a.terms, b.terms, share);
  return {std::exp(-spread), std::exp(spread)};
}

double certain_memory(const Problem& problem) {
  const auto memory = static_cast<double>(problem.cluster.gpu.memory.value);
  const Headroom& headroom = problem.headroom;
  if (headroom.bytes) return memory - *headroom.bytes;
  if (headroom.share) return memory * (1 - *headroom.share);
  return memory / memory_interval(problem).high;  // the upper end of a 90 % interval: 5 % lie beyond
}

Interval memory_interval(const Problem& problem, std::string_view kind) {
  for (const KindInterval& row : kMemoryKinds)
    if (row.kind == kind) return row.interval;
  return memory_interval(problem);
}

}  // namespace plan
