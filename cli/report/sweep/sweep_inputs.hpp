#pragma once

#include <string>
#include <vector>

#include "cli/report/sweep/swept_plans.hpp"
#include "cli/request/unstated.hpp"

namespace plan {

/// A fact that nobody stated and that is not the same at every point of a sweep: what was swept took it along.
struct DifferingInput {
  std::string field{};
  std::vector<Unstated> facts{};  ///< by point; without a field where the fact has no meaning
};

/// Inputs that are the same at every point, but for those that are swept.
[[nodiscard]] std::vector<Input> common_inputs(const PlanSweep& sweep);
/// What files state in vain.
[[nodiscard]] std::vector<Note> unused(const PlanSweep& sweep);

[[nodiscard]] std::vector<DifferingInput> differing_inputs(const PlanSweep& sweep);
/// `not the same at every point: global_batch 1024 at pretrain, 128 at lora`; empty if everything is.
[[nodiscard]] std::string differing_text(const PlanSweep& sweep);

/// The framework whose figures a plan has: where any may run it, the first that does, whose software they are of.
[[nodiscard]] std::string framework_of(const Plan& plan);
/// `the figures are of several frameworks: torchtitan at 32, megatron at 64`; empty if they are of one, or are swept.
[[nodiscard]] std::string frameworks_text(const PlanSweep& sweep);

}  // namespace plan
