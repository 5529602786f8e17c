#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/launch/job/format.hpp"
#include "cli/launch/job/keys.hpp"
#include "cli/shell/shell.hpp"

namespace plan {

/// Megatron-LM's arguments, by flag name without dashes, and the environment that they run in.
struct MegatronArgs {
  std::string format = "megatron-lm";
  std::map<std::string, StatedValue, std::less<>> given{};
  std::map<std::string, StatedValue, std::less<>> environment{};
  bool states_environment = true;  ///< false: a dialect sets it elsewhere
  bool fork = false;               ///< not Megatron-LM's own main branch: its checks need not hold
  bool foreign = false;            ///< some flag is of none of its known releases: another parser reads the words
  std::optional<Task> task{};      ///< adapters, where flags or a dialect say so
  std::string task_where{};
  std::int64_t lora_rank = 0;      ///< 0: not known
  std::string lora_where{};        ///< empty: the tool's default
  std::string fp32_where{};        ///< where a file says that products are in fp32, which no flag of Megatron-LM's does
  std::vector<int> idle_layers{};  ///< positions of layers that do nothing and are not in `num-layers`
  std::vector<Note> unused{};      ///< what changes the answer and is not modelled

  bool has(std::string_view flag) const { return given.find(flag) != given.end(); }
  /// First value; empty if absent or a switch.
  std::string text(std::string_view flag) const;
  std::string where(std::string_view flag) const;
  /// Value of an integer; nothing if absent or not a number.
  std::optional<std::int64_t> integer(std::string_view flag) const;
  std::int64_t integer(std::string_view flag, std::int64_t otherwise) const {
    return integer(flag).value_or(otherwise);
  }
};

/// One flag to be written.
struct MegatronSetting {
  std::string flag{};
  std::vector<std::string> values{};
};
struct MegatronGroup {
  std::string name{};  ///< MODEL_ARGS
  std::vector<MegatronSetting> settings{};
};

/// Turns flags of forks and of early releases into Megatron-LM's own.
void settle_forks(MegatronArgs& args);

/// Reads words behind pretrain_gpt.py. Mistakes go to `errors`, flags of a fork that change nothing to `notes`, others
/// to the arguments' `unused`. `fork`: the program is not Megatron-LM's own.
[[nodiscard]] MegatronArgs read_megatron_words(std::span<const ShellWord> words, const std::string& file,
                                               Errors& errors, std::vector<Note>& notes, bool fork = false);

/// What the arguments mean; the same for every dialect. All mistakes at once.
[[nodiscard]] Result<LaunchJob> megatron_job(const MegatronArgs& args, const LaunchFacts& facts);

/// Why Megatron-LM cannot run the plan, each naming the axis or the part of the model in the way. Empty: it can.
/// @param by_bridge Megatron-Bridge builds the model, by its name, and no flag does
[[nodiscard]] Errors megatron_cannot(const Plan& plan, bool by_bridge = false);

/// Code of the note that layers of a specification of one's own are those of a named checkpoint.
inline constexpr const char* kSpecOfCheckpoint = "spec_of_checkpoint";
[[nodiscard]] inline bool has_note(const LaunchJob& job, std::string_view code) {
  return std::any_of(job.notes.begin(), job.notes.end(), [code](const Note& note) { return note.code == code; });
}

/// What is wrong with the flags of an encoder, whatever model is named beside them; none: there are none.
[[nodiscard]] std::optional<Error> not_a_decoder(const MegatronArgs& args);
/// The model that the arguments describe, named after the preset that it is.
[[nodiscard]] Result<Model> megatron_model(const MegatronArgs& args, const LaunchFacts& facts,
                                           std::vector<Note>& notes);

/// Tells that GPT-2's vocabulary is counted where GPT2BPETokenizer reads it from a file that may hold another.
void tell_words(const MegatronArgs& args, LaunchJob& job);

/// What the arguments leave in host memory; what of it is not modelled goes to the job's notes.
[[nodiscard]] Offload megatron_offload(const MegatronArgs& args, LaunchJob& job);

/// What Megatron-LM itself would reject in these arguments, beyond what a layout's rules say (plan-launch(7) 3.1.2).
/// @param release minor number of the release that is to run them; 0: not stated
[[nodiscard]] Errors megatron_mistakes(const MegatronArgs& args, const LaunchJob& job, int release);

/// A plan as Megatron-LM's arguments, or what it cannot express.
[[nodiscard]] Result<std::vector<MegatronGroup>> megatron_settings(const Plan& plan, const EmitOptions& options,
                                                                   bool by_bridge = false);
[[nodiscard]] std::vector<std::pair<std::string, std::string>> megatron_environment(const Plan& plan);

/// `Et*3|(tt|)*29,m|L`: layers of each chunk in model order, embedding and loss at the ends.
[[nodiscard]] std::string pipeline_layout_text(std::span<const int> chunk_layers, int mtp);
/// What a layout string says.
struct PipelineLayout {
  std::vector<int> chunks{};  ///< decoder layers of each, in model order
  int mtp = -1;               ///< chunk that holds the prediction layers; -1: there are none
};
/// The layout, or an error that says what it breaks. `pp` 0: whatever the ranks.
[[nodiscard]] Result<PipelineLayout> read_pipeline_layout(std::string_view text, int layers, int mtp, int pp = 0);

/// The releases of Megatron core that take all of some arguments, by the number behind `0.`.
struct MegatronReleases {
  int first = 0;
  int last = 0;
};
/// `0.16`, `0.16.1` or `core_v0.16.1` as 16; empty: the newest.
[[nodiscard]] Result<int> read_megatron_release(std::string_view word);
/// The plan with the switches that an earlier release demands beside what it runs.
[[nodiscard]] Plan with_demands_of(Plan plan, int release);
/// The arguments under the names that `release` has for them, or every one that it has no name for.
[[nodiscard]] Result<std::vector<MegatronGroup>> for_megatron_release(std::vector<MegatronGroup> groups, int release);
[[nodiscard]] MegatronReleases megatron_releases(const std::vector<MegatronGroup>& groups);
/// `0.14 or newer`, `0.12 to 0.13`.
[[nodiscard]] std::string releases_text(MegatronReleases releases);

/// The job of Megatron-LM's arguments as keys: underscores for dashes, `true` for a switch.
/// @param fork the file is a fork's, whose flags need not be Megatron-LM's and which sets its own environment
[[nodiscard]] Result<LaunchJob> job_of_keys(const StatedKeys& keys, const std::string& file, const LaunchFacts& facts,
                                            bool fork);
/// Names the keys that no parser of Megatron-LM's or of a fork has and that were left out.
void name_unread_keys(const StatedKeys& keys, std::string_view whose, LaunchJob& job);
/// The job of a fork's keys, and what of them is not read.
[[nodiscard]] Result<LaunchJob> yaml_arguments_job(const StatedKeys& keys, const std::string& file,
                                                   const LaunchFacts& facts);
/// The file of `--yaml-cfg`, which takes the place of all other arguments (training/yaml_arguments.py).
[[nodiscard]] Result<LaunchJob> read_yaml_arguments(const LaunchSource& file, const LaunchFacts& facts);

}  // namespace plan
