#pragma once

#include <fmt/core.h>

#include <string>
#include <utility>
#include <vector>

#include "cli/launch/megatron/megatron.hpp"

/// Writing Megatron-LM's arguments one by one.
namespace plan::megatron {

using FlagList = std::vector<MegatronSetting>;

inline std::string text(std::int64_t value) { return fmt::format("{}", value); }

inline void put(FlagList& out, std::string flag) { out.push_back({std::move(flag), {}}); }
inline void put(FlagList& out, std::string flag, std::string value) {
  out.push_back({std::move(flag), {std::move(value)}});
}
inline void put(FlagList& out, std::string flag, std::int64_t value) { put(out, std::move(flag), text(value)); }

/// Shapes of what the letters of a hybrid model stand for, beside attention and feed-forwards.
void put_hybrid_shapes(FlagList& out, const Model& model);

/// The layers and what lies around them; experts, where the model has any.
[[nodiscard]] MegatronGroup model_arguments(const Plan& plan);
[[nodiscard]] MegatronGroup expert_arguments(const Plan& plan);
/// Those of the flags above that describe the model: a recipe of its name holds them.
[[nodiscard]] std::vector<std::string> flags_of_model(const Plan& plan);

}  // namespace plan::megatron
