// Stragglers, failures and checkpoints (plan-formulas(7) F7). Tested by tests/formulas/reliability_test.cpp.
#include "formulas/textbook/reliability.hpp"

#include <cmath>

namespace plan {
namespace {

constexpr Symbol kNodes[] = {{"n", "nodes", "", kNoTypical, Domain::Count}};
constexpr Symbol kStragglerSymbols[] = {{"mu", "mean step time", "seconds"},
                                        {"sigma", "its standard deviation", "seconds", kNoTypical, Domain::Amount},
                                        {"n", "independent groups", "", kNoTypical, Domain::Count}};
constexpr Symbol kInterruptionSymbols[] = {{"M_gpu", "mean time between failures of one GPU", "seconds"},
                                           {"n", "GPUs", "", kNoTypical, Domain::Count}};
constexpr Symbol kObserved[] = {{"T_days", "length of the run", "days"},
                                {"k", "interruptions", "", kNoTypical, Domain::Count},
                                {"n", "GPUs", "", kNoTypical, Domain::Count}};
constexpr Symbol kDelta{"delta", "time a checkpoint stops training", "seconds"};
constexpr Symbol kM{"M", "mean time between interruptions of the job", "seconds"};
constexpr Symbol kInterval[] = {kDelta, kM};
constexpr Symbol kGoodputSymbols[] = {
    {"tau", "time between checkpoints", "seconds"}, kDelta, {"R", "time to restart", "seconds", 0, Domain::Amount}, kM};
constexpr Symbol kLoss[] = {{"G", "goodput", "", kNoTypical, Domain::Share}, kM};
constexpr Symbol kSlow[] = {{"delta", "by how much the GPU is slower", "", kNoTypical, Domain::Share}};

constexpr CatalogEntry kEntries[] = {
    entry<straggler_step>(kStraggler, kStragglerSymbols),
    entry<straggler_factor>(kStragglerFactor, kNodes),
    entry<slow_gpu>(kSlowGpu, kSlow),
    entry<time_to_interruption>(kInterruption, kInterruptionSymbols),
    entry<observed_mtbf>(kObservedMtbf, kObserved),
    entry<young_interval>(kYoung, kInterval),
    entry<daly_interval>(kDaly, kInterval),
    entry<wall_over_useful>(kWallOverUseful, kGoodputSymbols),
    entry<goodput>(kGoodput, kGoodputSymbols),
    entry<goodput_first_order>(kGoodputFirst, kGoodputSymbols),
    entry<lost_per_interruption>(kLostTime, kLoss),
};

double normal_probability(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

/// Good to four digits; Newton's steps do the rest.
double rough_quantile(double tail) {
  const double t = std::sqrt(-2 * std::log(tail));  // Abramowitz and Stegun 26.2.23
  const double above = 2.515517 + t * (0.802853 + t * 0.010328);
  const double below = 1 + t * (1.432788 + t * (0.189269 + t * 0.001308));
  return above / below - t;
}

}  // namespace

double normal_quantile(double probability) {
  // Work in the lower tail, where the probability keeps its digits.
  const bool upper = probability > 0.5;
  const double tail = upper ? 1 - probability : probability;
  double x = rough_quantile(tail);
  for (int step = 0; step < 4; ++step) {
    const double density = std::exp(-x * x / 2) / std::sqrt(2 * 3.14159265358979323846);
    x -= (normal_probability(x) - tail) / density;
  }
  return upper ? -x : x;
}

Seconds straggler_step(const StragglerInput& in) {
  return Seconds(in.mean + in.deviation * normal_quantile((in.groups - 0.375) / (in.groups + 0.25)));
}

double straggler_factor(const NodesInput& in) {
  const double doublings = std::log2(in.nodes);
  return 1 + 0.09 * doublings / (doublings + 1) * std::sqrt(doublings);
}

Seconds young_interval(const IntervalInput& in) { return Seconds(std::sqrt(2 * in.checkpoint * in.mtti)); }

Seconds daly_interval(const IntervalInput& in) {
  const double ratio = in.checkpoint / in.mtti;
  return young_interval(in) * (1 + std::sqrt(ratio / 2) / 3 + ratio / 18) - Seconds(in.checkpoint);
}

double wall_over_useful(const GoodputInput& in) {
  const double segment = std::exp((in.interval + in.checkpoint) / in.mtti) - 1;
  return in.mtti * std::exp(in.restart / in.mtti) * segment / in.interval;
}

double goodput(const GoodputInput& in) { return 1 / wall_over_useful(in); }

std::span<const CatalogEntry> reliability_formulas() { return kEntries; }

}  // namespace plan
