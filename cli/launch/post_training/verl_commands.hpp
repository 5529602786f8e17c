#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/launch/job/format.hpp"
#include "cli/launch/job/keys.hpp"
#include "cli/shell/shell.hpp"

/// What starts verl: its own trainers and the recipes that are built on them.
namespace plan::verl {

/// Every word of a command that trains an actor has keys below it.
inline constexpr std::string_view kActor = "actor_rollout_ref.";

enum class Engine { Fsdp, Megatron };

/// What shards the actor that a script trains; nothing if it trains none.
[[nodiscard]] std::optional<Engine> engine_of(const LaunchSource& script);

/// verl's supervised trainers, `fsdp_sft_trainer` and `sft_trainer`, and those of others that are built on them.
inline constexpr std::string_view kSftProgram = "sft_trainer";
enum class Sft { None, Early, Later };
/// Which of them, with FSDP, a script starts: verl's own that packs since 0.6 is the later one.
[[nodiscard]] Sft sft_of(const LaunchSource& script);

/// The configuration that the command reads, where it lies beside the script.
[[nodiscard]] std::optional<LaunchSource> config_beside(const LaunchSource& script, const ShellCommand& command);
/// The words of the command that trains, over the configuration that it reads: a file that is named and is not here
/// is under kMissingBase.
[[nodiscard]] Result<StatedKeys> keys_of_command(const LaunchSource& script, std::string_view program);

/// Takes verl's configuration out of the section of a tool that hands it on: `training_config.actor_rollout_ref...`.
void unwrap(StatedKeys& keys);
/// The lengths that the rollout has of its own, in place of those of `data.`, which it takes where it states none.
void take_lengths_of_rollout(StatedKeys& keys);

/// The prompts of an update and those of a step. Default: actor/actor.yaml.
inline constexpr std::string_view kMiniBatch = "actor_rollout_ref.actor.ppo_mini_batch_size";
inline constexpr std::string_view kStep = "data.train_batch_size";
inline constexpr int kDefaultMiniBatch = 256;
/// The key that counts the prompts of an update: a step that has fewer trains on its own alone.
[[nodiscard]] std::string_view prompts_of_update(const StatedKeys& keys);
/// What there is to say where a step has fewer prompts than an update; empty: nothing.
[[nodiscard]] std::string beyond_a_step(const StatedKeys& keys);
/// What there is to say where the data ranks do not divide the sequences of an update, of `step` in a step: each takes
/// a whole number of them (verl 0.7 workers/fsdp_workers.py and megatron_workers.py). Empty: they do.
[[nodiscard]] std::string left_over(std::int64_t samples, std::int64_t step, std::int64_t ranks);

inline constexpr std::string_view kDefaultCritic =
    "a critic, which `algorithm.adv_estimator` means where it is not stated, is trained beside the model and not "
    "counted";
/// A key of the critic that verl's own estimator, gae, trains where none is stated; empty: it trains none.
[[nodiscard]] std::string_view critic_by_default(const StatedKeys& keys);

/// Keys of models that share the actor's GPUs, and what is reported of each: a judge, and what a program of
/// its own adds.
[[nodiscard]] std::vector<std::pair<std::string_view, std::string_view>> models_beside(const StatedKeys& keys);

/// Sequences of `seq` tokens, of full length, in a micro-batch that is packed up to `tokens`, which the ranks that
/// share a sequence have together. At least one, and as many as divide the sequences that a data rank trains in a
/// `step`; 0: not known.
[[nodiscard]] int packed(std::int64_t tokens, std::int64_t seq, std::int64_t step);
/// Names programs other than verl's own trainer, which may train more than the actor.
void tell_programs(std::span<const LaunchSource> files, LaunchJob& job);

}  // namespace plan::verl
