#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "cli/launch/job/format.hpp"
#include "cli/launch/job/job_builder.hpp"

/// torchtitan: v0.2.2's TOML file and main's Python recipe, which share names and meaning.
namespace plan {

namespace torchtitan {

/// A registered model: torchtitan's architectures are names, not numbers.
struct Flavor {
  std::string_view family;
  std::string_view flavor;
  std::string_view preset;
  std::string_view assets;  ///< folder that its download script makes under ./assets/hf
  int longest;              ///< tokens that main's position embedding goes to; v0.2.2 only warns above its own
  std::string_view recipe;  ///< of main: the function that a new recipe starts from; empty: not in main
};
[[nodiscard]] std::span<const Flavor> flavors();
/// The flavor that has the model's layers; nullptr if none has.
[[nodiscard]] const Flavor* flavor_of(const Model& model);

/// The schedule that PyTorch calls so, if the planner knows it.
[[nodiscard]] const ScheduleRow* find_schedule(std::string_view word);

/// How layers are dealt to stages.
struct Split {
  int first = 1;  ///< layers that the embedding weighs
  int last = 1;   ///< layers that the head weighs
  int per_stage = 0;
};
/// Layers of each stage as torchtitan deals them; empty where it refuses.
[[nodiscard]] std::vector<int> deal(int layers, int stages, int first, int last);
/// The numbers that make torchtitan deal just so, if some do.
[[nodiscard]] std::optional<Split> split_for(const std::vector<int>& chunk_layers, int layers);

/// Keys of `[parallelism]` and its kind that both dialects have in common: read into the builder.
struct Degrees {
  int tp = 1, cp = 1, pp = 1, ep = 1, replicate = 1, shard = -1;
  std::optional<int> dp{};
};
[[nodiscard]] Degrees read_degrees(JobBuilder& builder, const LaunchFacts& facts);
void read_pipeline(JobBuilder& builder, const Degrees& degrees);
void read_experts(JobBuilder& builder, const Degrees& degrees);
void read_model(JobBuilder& builder, std::string_view family, std::string_view flavor, std::string_view key);
/// Switches of the software, and what is counted otherwise than stated. `whole`: no other file states more of the job,
/// so that what is not stated is v0.2.2's default.
void read_switches(JobBuilder& builder, const Degrees& degrees, bool whole);
/// The same of a recipe of main, whose arguments that nothing has asked for are then reported.
void read_main_switches(JobBuilder& builder, const Degrees& degrees);
void tell_main_rest(JobBuilder& builder);
/// The job that keys of v0.2.2 describe, wherever they are written.
[[nodiscard]] Result<LaunchJob> job_of(Settings& settings, std::string_view format, const LaunchFacts& facts);

}  // namespace torchtitan
}  // namespace plan
