// Intervals of predictions: residuals of published runs, read from presets/calibration.yaml, which hold on suites that
// were left out of the fit (plan-validation(7)). Assumes that a new job errs as those did, wider where a doubt of
// theirs applies. Tested by tests/planner/uncertainty_test.cpp.
#include "planner/estimate/uncertainty.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "formulas/transient.hpp"
#include "planner/answer/normal.hpp"
#include "planner/estimate/claims.hpp"
#include "planner/estimate/uncertainty_data.hpp"

namespace plan {
namespace {

/// Experts: routing that is not balanced, and static memory that nobody accounts for, 2 to 4.5 % (plan-formulas(7) D8).
constexpr double kExperts = 1.05;

/// What 90 % of published figures of a kind lie between, over what was predicted; null for a kind that none is of.
constexpr const calibrated::MemoryBand* band_of(std::string_view kind) {
  for (const calibrated::MemoryBand& row : calibrated::memory)
    if (row.kind == kind) return &row;
  return nullptr;
}
static_assert(band_of("device") != nullptr && band_of("reserved") != nullptr);
static_assert(std::size(calibrated::step_time_scale) == kDoubts + 1);

constexpr Interval kProbedStepTime{0.92, 1.08};

/// Of pairs of published layouts of one job (model, sequence, batch, GPUs, kernels, release); on a probed cluster half
/// of it, as intervals of a step are.
constexpr PairedSpread kPaired{calibrated::pair_same, calibrated::pair_different};
constexpr PairedSpread kProbedPaired{kPaired.same / 2, kPaired.different / 2};

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
  double log_scale = calibrated::step_time_scale[0];
  for (std::size_t i = 0; i < doubts.size(); ++i) log_scale += calibrated::step_time_scale[i + 1] * doubts[i];
  const double scale = std::exp(log_scale);
  const Interval usual{std::exp(calibrated::step_time_low * scale), std::exp(calibrated::step_time_high * scale)};
  const auto between = [&](double probed, double other) { return other + measured_share * (probed - other); };
  return {between(kProbedStepTime.low, usual.low), between(kProbedStepTime.high, usual.high)};
}

Interval memory_interval(const Problem& problem) {
  // What is allocated is met closely; what the allocator keeps besides decides, and where its segments grow it keeps
  // less.
  const calibrated::MemoryBand& band = *band_of(problem.training.stack.expandable_segments ? "reserved" : "device");
  Interval interval{band.low, band.high};
  if (problem.model.moe()) interval.high *= kExperts;
  return interval;
}

double paired_spread(const Terms& a, const Terms& b, double measured_share) {
  const double whole = (a.total() + b.total()).value / 2;
  if (!(whole > 0)) return 0;
  double moved = 0;
  for (const auto& [name, term] : kTimeTerms) moved += std::abs((a.*term - b.*term).value);
  const PairedSpread parts = paired_parts(measured_share);
  return std::hypot(parts.same, parts.different * moved / whole);
}

PairedSpread paired_parts(double measured_share) {
  const auto between = [&](double PairedSpread::*of) {
    return kPaired.*of + measured_share * (kProbedPaired.*of - kPaired.*of);
  };
  return {between(&PairedSpread::same), between(&PairedSpread::different)};
}

Difference paired_difference(const Terms& a, const Terms& b, double measured_share) {
  const double ratio = a.total() / b.total(), spread = kNinetyPercent * paired_spread(a, b, measured_share);
  return {ratio * std::exp(-spread) - 1, ratio - 1, ratio * std::exp(spread) - 1};
}

Difference paired_difference(const Problem& problem, const Estimate& a, const Estimate& b) {
  const double share = std::min(time_coverage(problem, a).share, time_coverage(problem, b).share);
  return paired_difference(a.terms, b.terms, share);
}

RealBytes certain_memory(const Problem& problem) {
  const RealBytes memory = problem.cluster.gpu.memory;
  const Headroom& headroom = problem.headroom;
  if (headroom.bytes) return memory - RealBytes(*headroom.bytes);
  if (headroom.share) return memory * (1 - *headroom.share);
  return memory / memory_interval(problem).high;  // the upper end of a 90 % interval: 5 % lie beyond
}

Interval memory_interval(const Problem& problem, std::string_view kind) {
  const calibrated::MemoryBand* band = band_of(kind);
  return band != nullptr ? Interval{band->low, band->high} : memory_interval(problem);
}

}  // namespace plan
