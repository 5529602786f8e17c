#pragma once

#include <string_view>

#include "cli/launch/launch.hpp"

namespace plan {

/// What a launch file needs about a model and a plan does not: it moves no byte and no FLOP.
struct MegatronModelFacts {
  int rotary_base = 0;  ///< 0: not known
  bool squared_relu = false;
};

[[nodiscard]] MegatronModelFacts megatron_model_facts(std::string_view model);

/// Why Megatron-LM cannot run the plan, each naming the axis or the part of the model in the way. Empty: it can.
[[nodiscard]] Errors megatron_cannot(const Plan& plan, const EmitOptions& options);

}  // namespace plan
