#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/launch/dialect/dialect.hpp"

namespace plan {

/// Recipes of Megatron-Bridge and NeMo 2: Python functions whose names say the model, with overrides on a command line.
namespace recipes {

/// A recipe that a script's command names, and where.
struct Named {
  std::string name{};
  std::string where{};
};
/// The word behind `flag` in the command that has `program` among its words.
[[nodiscard]] std::optional<Named> named_in(const LaunchSource& source, std::string_view program,
                                            std::span<const std::string_view> flags);

/// The model in a recipe's name: `llama31_8b_sft_config`, `qwen3_30b_a3b_pretrain_config`.
[[nodiscard]] std::optional<Model> model_of(std::string_view recipe);

/// The flags of Megatron-Bridge's run_recipe.py that set one key each, as those keys: KEY=VALUE lies over them. Flags
/// that may weigh and that are not read are reported.
[[nodiscard]] StatedKeys keys_of_flags_of_recipe(const LaunchSource& source, std::vector<Note>& notes);

/// The job of a recipe's overrides: what no override states is the recipe's, which nobody here knows.
[[nodiscard]] Result<LaunchJob> job_of(const Dialect& dialect, const StatedKeys& keys, const Named& recipe,
                                       LaunchFacts facts);

}  // namespace recipes
}  // namespace plan
