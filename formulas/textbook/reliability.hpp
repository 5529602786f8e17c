#pragma once

#include <span>

#include "formulas/textbook/catalog_entry.hpp"
#include "formulas/textbook/sources.hpp"
#include "formulas/units.hpp"

/// What happens to a step and to a run as the job grows (plan-formulas(7) F7). Times in seconds.
namespace plan {

/// Normal quantile; relative error below 1e-14.
[[nodiscard]] double normal_quantile(double probability);

struct StragglerInput {
  double mean = 0;       ///< mu
  double deviation = 0;  ///< sigma
  double groups = 1;     ///< n
};
inline constexpr Formula kStraggler{"straggler-step",
                                    "Expected slowest of n independent groups",
                                    "mu + sigma*probit((n - 0.375)/(n + 0.25))",
                                    "seconds",
                                    "Blom 1958, expected normal order statistics",
                                    "Stages of a pipeline wait for each other every micro-batch, data-parallel groups "
                                    "once a step. One GPU that is always slow sets the pace of all."};
[[nodiscard]] Seconds straggler_step(const StragglerInput& in);

struct NodesInput {
  double nodes = 1;  ///< n
};
inline constexpr Formula kStragglerFactor{"straggler-factor",
                                          "Slow-down with scale, an empirical fit",
                                          "1 + 0.09*log2(n)/(log2(n) + 1)*sqrt(log2(n))",
                                          "ratio",
                                          "MooreThreads/SimuMax",
                                          "n: the smallest of nodes, dp and expert dp."};
[[nodiscard]] double straggler_factor(const NodesInput& in);

struct InterruptionInput {
  double gpu_mtbf = 0;  ///< M_gpu
  double gpus = 1;      ///< n
};
inline constexpr Formula kInterruption{"time-to-interruption",
                                       "Mean time between interruptions of a job",
                                       "M_gpu/n",
                                       "seconds",
                                       source::kDerived,
                                       "Llama 3: 419 unexpected in 54 days on 16,384 GPUs, one in 3.1 hours, 5.8 years "
                                       "a GPU. Its table labels 148 of them 30.1 %; the counts give 35.3 %."};
[[nodiscard]] constexpr Seconds time_to_interruption(const InterruptionInput& in) {
  return Seconds(in.gpu_mtbf / in.gpus);
}

struct ObservedInput {
  double days = 0;           ///< T_days
  double interruptions = 1;  ///< k
  double gpus = 1;           ///< n
};
inline constexpr Formula kObservedMtbf{"gpu-mtbf", "GPU-hours between interruptions, from a run", "T_days*24*n/k",
                                       "GPU-hours", source::kDerived};
[[nodiscard]] constexpr GpuHours observed_mtbf(const ObservedInput& in) {
  return GpuHours(in.days * 24 * in.gpus / in.interruptions);
}

struct IntervalInput {
  double checkpoint = 0;  ///< delta
  double mtti = 0;        ///< M
};
inline constexpr Formula kYoung{"checkpoint-interval-young",
                                "Checkpoint interval, first order",
                                "sqrt(2*delta*M)",
                                "seconds",
                                "Young 1974",
                                "delta: the time training stands still for a checkpoint."};
[[nodiscard]] Seconds young_interval(const IntervalInput& in);

inline constexpr Formula kDaly{"checkpoint-interval",
                               "Checkpoint interval, higher order",
                               "sqrt(2*delta*M)*(1 + sqrt(delta/(2*M))/3 + delta/(18*M)) - delta",
                               "seconds",
                               "Daly 2006",
                               "For delta below 2 M."};
[[nodiscard]] Seconds daly_interval(const IntervalInput& in);

struct GoodputInput {
  double interval = 0;    ///< tau
  double checkpoint = 0;  ///< delta
  double restart = 0;     ///< R
  double mtti = 0;        ///< M
};
inline constexpr Formula kWallOverUseful{"wall-over-useful", "Wall time over useful time under failures",
                                         "M*exp(R/M)*(exp((tau + delta)/M) - 1)/tau", "ratio", "Daly 2006"};
[[nodiscard]] double wall_over_useful(const GoodputInput& in);

inline constexpr Formula kGoodput{"goodput", "Share of wall time that makes progress",
                                  "tau/(M*exp(R/M)*(exp((tau + delta)/M) - 1))", "ratio", "Daly 2006"};
[[nodiscard]] double goodput(const GoodputInput& in);

inline constexpr Formula kGoodputFirst{"goodput-first-order", "The same to first order",
                                       "1 - delta/tau - tau/(2*M) - R/M", "ratio", "Young 1974"};
[[nodiscard]] constexpr double goodput_first_order(const GoodputInput& in) {
  return 1 - in.checkpoint / in.interval - in.interval / (2 * in.mtti) - in.restart / in.mtti;
}

struct LossInput {
  double goodput = 1;  ///< G
  double mtti = 0;     ///< M
};
inline constexpr Formula kLostTime{"lost-per-interruption", "Time that one interruption may cost at a given goodput",
                                   "(1 - G)*M", "seconds", source::kDerived};
[[nodiscard]] constexpr Seconds lost_per_interruption(const LossInput& in) {
  return Seconds((1 - in.goodput) * in.mtti);
}

struct SlowInput {
  double slowness = 0;  ///< delta
};
inline constexpr Formula kSlowGpu{"slow-gpu", "Slow-down of the job by one GPU that runs slower", "1/(1 - delta)",
                                  "ratio", source::kDerived};
[[nodiscard]] constexpr double slow_gpu(const SlowInput& in) { return 1 / (1 - in.slowness); }

[[nodiscard]] std::span<const CatalogEntry> reliability_formulas();

}  // namespace plan
