// Jobs of Megatron-Bridge: overrides of a recipe, in files of YAML and behind its run_recipe.py, whose flags lie over
// the files and under its words KEY=VALUE. Tested by tests/launch/round_trip_test.cpp and
// tests/launch/dialect_words_test.cpp.
#include <array>

#include "cli/launch/dialect/recipes.hpp"
#include "formulas/keep_errors.hpp"
#include "presets/suggest.hpp"

namespace plan {
namespace {

constexpr std::string_view kProgram = "run_recipe.py";

/// The recipe that a script names; nothing where its overrides state every dimension.
std::optional<recipes::Named> recipe_of(const LaunchSource& source) {
  constexpr std::array<std::string_view, 1> kRecipe = {"--recipe"}, kModel = {"--model"}, kMode = {"--mode"};
  auto recipe = recipes::named_in(source, kProgram, kRecipe);
  if (!recipe && !mentions(source, "model.num_layers=")) recipe = recipes::named_in(source, kProgram, kModel);
  if (!recipe || recipe->name.starts_with("vanilla_gpt")) return std::nullopt;
  if (const auto mode = recipes::named_in(source, kProgram, kMode)) recipe->name += "_" + mode->name;
  return recipe;
}

/// Keys of all files, those of commands first.
Result<StatedKeys> keys_of(std::span<const LaunchSource> files, std::vector<Note>& notes) {
  StatedKeys keys;
  Errors errors;
  const auto take = [&](const Result<StatedKeys>& own) {
    if (keep_errors(errors, own)) keys.insert(own->begin(), own->end());
  };
  for (const LaunchSource& source : files) {
    if (!is_shell(source)) continue;
    take(keys_of_overrides(source, kProgram));
    StatedKeys flags = recipes::keys_of_flags_of_recipe(source, notes);
    if (const auto length = flags.find("dataset.seq_length"); length != flags.end())
      flags.try_emplace("model.seq_length", length->second);
    take(flags);
  }
  for (const LaunchSource& source : files)
    if (!is_shell(source)) take(keys_of_yaml(source));
  if (!errors.empty()) return fail(std::move(errors));
  return keys;
}

}  // namespace

Result<LaunchJob> read_bridge(std::span<const LaunchSource> files, const LaunchFacts& facts) {
  std::vector<Note> notes;
  Result<StatedKeys> keys = keys_of(files, notes);
  if (!keys) return fail(keys.error());
  std::optional<recipes::Named> recipe;
  for (const LaunchSource& source : files)
    if (is_shell(source) && !recipe) recipe = recipe_of(source);
  if (recipe) {
    const std::string name = lowered(recipe->name);
    const bool adapters = name.find("peft") != std::string::npos || name.find("lora") != std::string::npos;
    if (adapters && !keys->contains("peft") && !keys->contains("peft.dim")) (*keys)["peft"] = {{"lora"}, recipe->where};
  }
  Result<LaunchJob> job =
      recipe ? recipes::job_of(bridge_dialect(), *keys, *recipe, facts) : dialect_job(bridge_dialect(), *keys, facts);
  if (job)
    for (const Note& note : notes) unused(*job, note.code, note.text);
  return job;
}

}  // namespace plan
