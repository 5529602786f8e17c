#pragma once

#include <span>

#include "formulas/textbook/catalog_entry.hpp"
#include "formulas/textbook/sources.hpp"
#include "formulas/units.hpp"

/// Communication that compute does not hide (plan-formulas(7) F5).
namespace plan::textbook {

struct GradientOverlapInput {
  double reduce = 0;       ///< T_RS
  double backward = 0;     ///< T_B
  double sm_tax = 0;       ///< x
  double last_bucket = 0;  ///< T_last
};
inline constexpr Formula kExposedReduce{"exposed-reduce-scatter",
                                        "Gradient reduction that the last backward does not hide",
                                        "max(0, T_RS - T_B*(1 - x)) + T_last",
                                        "seconds",
                                        source::kMegatron,
                                        "Only the last micro-batch's backward hides it; the last bucket never is."};
[[nodiscard]] constexpr Seconds exposed_reduce(const GradientOverlapInput& in) {
  const double left = in.reduce - in.backward * (1 - in.sm_tax);
  return Seconds((left > 0 ? left : 0) + in.last_bucket);
}

struct BlockOverlapInput {
  double gather = 0;   ///< T_AG
  double reduce = 0;   ///< T_RS
  double compute = 0;  ///< T_B
};
inline constexpr Formula kExposedBlock{
    "exposed-fsdp-backward",
    "FSDP traffic that one block's backward does not hide",
    "max(0, T_AG + T_RS - T_B)",
    "seconds",
    source::kFsdp2,
    "The previous block's gather and the next one's reduce-scatter share the network. "
    "Forward: no T_RS."};
[[nodiscard]] constexpr Seconds exposed_block(const BlockOverlapInput& in) {
  const double left = in.gather + in.reduce - in.compute;
  return Seconds(left > 0 ? left : 0);
}

struct GatherOverlapInput {
  double gather = 0;        ///< T_AG
  double forward = 0;       ///< T_F
  double first_bucket = 0;  ///< T_first
};
inline constexpr Formula kExposedGather{
    "exposed-all-gather",
    "Weight gather that the first forward does not hide",
    "T_first + max(0, T_AG - T_F)",
    "seconds",
    source::kMegatron,
    "The optimizer's new weights arrive while the next step's first micro-batch runs."};
[[nodiscard]] constexpr Seconds exposed_gather(const GatherOverlapInput& in) {
  const double left = in.gather - in.forward;
  return Seconds(in.first_bucket + (left > 0 ? left : 0));
}

struct PairOverlapInput {
  double compute_forward = 0;   ///< F
  double compute_backward = 0;  ///< B
  double traffic_forward = 0;   ///< C_F
  double traffic_backward = 0;  ///< C_B
};
inline constexpr Formula kPairTime{
    "overlapped-pair-time",  "One forward and one backward that hide each other's all-to-alls",
    "max(F + B, C_F + C_B)", "seconds",
    source::kDualPipe,       "DualPipe, and Megatron's overlap of expert communication over 1F1B."};
[[nodiscard]] constexpr Seconds pair_time(const PairOverlapInput& in) {
  const double compute = in.compute_forward + in.compute_backward;
  const double traffic = in.traffic_forward + in.traffic_backward;
  return Seconds(compute > traffic ? compute : traffic);
}

[[nodiscard]] std::span<const CatalogEntry> overlap_formulas();

}  // namespace plan::textbook
