#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "formulas/flops.hpp"
#include "formulas/model.hpp"
#include "formulas/training.hpp"
#include "planner/runs/runs.hpp"

namespace plan {

/// The optimizer that a row's words name, `AdamW (bf16 moments)` as adam; none where they name one that has no states
/// here. Words of a framework's wrapper, or none at all, mean adam.
[[nodiscard]] std::optional<Optimizer> optimizer_of(const Run& run);
/// The ranks of a group that states are sharded over, `hsdp:8`; 0 where `shard` names none: blank, `fsdp` or `hsdp`.
/// None for another word.
[[nodiscard]] std::optional<int> shard_group_of(const Run& run);
/// What a row's rates count as work: a name of kFlopsConventions, `model` for model_full, or `hardware`, which is that
/// and what is recomputed; none for a blank or another word.
[[nodiscard]] std::optional<FlopsConvention> convention_of(const Run& run);
/// Why a row cannot be taken at its word, in a sentence: a word that is none of its column's, or two columns that
/// contradict each other or the model. Empty if it can.
[[nodiscard]] std::string mistake_of(const Run& run, const Model& model);

}  // namespace plan
