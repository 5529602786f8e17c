#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/launch/trainer/hugging_face.hpp"
#include "cli/shell/shell.hpp"

/// Between the readers of files around the Trainer: one set of keys, `args.`, `acc.` and `ds.` (trainer_sources.cpp).
namespace plan::hugging_face {

struct Renamed {
  std::string_view from;
  std::string_view to;
};

/// Where flags of the trainings that a loop starts differ, the last of which counts.
inline constexpr std::string_view kOfALoop = "args.of a loop";

/// Which flags of a command that state one argument differently, behind sections of it, count and which do not.
inline constexpr std::string_view kOfSections = "args.of sections";

/// What a step of open-instruct's learners is counted as.
inline constexpr std::string_view kOfLearners = "args.of learners";

/// Takes a setting over under another key, or with another value.
void set(Settings& all, std::string key, const Setting& from);
void set(Settings& all, std::string key, std::string value, const Setting& from);
/// `dpo`, `grpo`, `reward` and their like: what trains preferences or rewards.
[[nodiscard]] bool is_stage(std::string_view word);
/// The program of a command, if a part of its name is such a word: `train_dpo.py`; empty: no part is.
[[nodiscard]] std::string stage_of_program(const ShellCommand& command);
/// The number of a flag that is counted with, at least 1; 0, and a mistake, where the word is no such number.
[[nodiscard]] std::int64_t counted_number(const Setting& setting, Settings& all);
/// A key of an `fsdp_config` as accelerate's; some files leave out the `fsdp_` that accelerate's names start with.
void set_fsdp(Settings& all, std::string_view key, const Setting& from);
/// The Trainer's key for a tool's own; `args.` and the same word where the table has none.
/// The names that a tool has for keys which are read under others: `optimizer` of axolotl's, which is `optim`.
[[nodiscard]] std::vector<std::string_view> own_names(std::string_view tool);
/// Whether a word is one of the Trainer's arguments with a letter too many or too few, or two in another order.
[[nodiscard]] bool is_slip_of_argument(std::string_view key);
[[nodiscard]] std::string renamed(std::span<const Renamed> table, std::string_view key);
/// `deepspeed: path`, `deepspeed_config_file: path`: the file's keys as DeepSpeed's, or an error that names it.
void follow_deepspeed(const LaunchSource& source, const Setting& named, Settings& all);

void take_axolotl(const LaunchSource& source, const Settings& keys, Settings& all, bool follow);
void take_torchtune(const LaunchSource& source, const Settings& keys, Settings& all);
/// `sft`, `dpo`, `kto`, `rm`, `ppo` of a command that starts one of OpenRLHF's trainers; empty: it starts none.
[[nodiscard]] std::string_view open_rlhf_stage(const ShellCommand& command);
/// Flags of a command, without the dashes; `start` is where the command begins.
void take_open_rlhf(std::string_view stage, const Settings& flags, const Setting& start, Settings& all);
/// DeepSpeed-Chat's flags, once the others of the command are taken.
void take_chat(const Settings& flags, Settings& all);
/// `--num_learners_per_node 8 8` beside packs of answers: their GPUs, and what a step of theirs holds.
void take_learners(const Settings& flags, Settings& all);
/// Key under which a file of arguments is named that is not beside the script, and that of one which is given by
/// itself.
inline constexpr std::string_view kMissingArguments = "arguments.missing_file", kOwnArguments = "arguments";
/// Adds what the command's file of arguments states, below the words of the command itself.
void take_argument_file(const LaunchSource& source, const ShellCommand& command, Settings& flags, Settings& all);
/// `swift sft x.yaml`: the flags of ms-swift as keys of a file; flags behind it go before them.
void take_swift_file(const LaunchSource& source, const ShellCommand& command, Settings& flags, Settings& all);
/// How settings begin that say where a command and its `--config` file state a key differently, which is a mistake once
/// something has asked for it: the key follows.
inline constexpr std::string_view kOfConfig = "config differs: ";
/// The key that a flag of ms-swift's is read as.
[[nodiscard]] std::string key_of_swift(std::string_view flag);
/// `swift sft --config x.yaml`: the same, where the command states nothing else.
void take_swift_config(const LaunchSource& source, Settings& flags, Settings& all);
/// Refuses what such settings say of keys that bear on the job: once everything else is read.
void refuse_other_config(JobBuilder& builder);
/// `--accelerator_config '{"split_batches": true}'`: an object in one word, which a file states as a section. Whether
/// the setting was one.
[[nodiscard]] bool take_object(const Setting& setting, Settings& all);
/// `config.training.max_length`: the Trainer's argument behind the sections of a program's configuration; any other key
/// as it is.
[[nodiscard]] std::string without_section(std::string_view key);
/// Takes the section off the names of a command's flags, in place. The plain argument counts where the command states
/// it, too; of two sections that state it differently the last: kOfSections says so.
void take_sections(std::vector<Setting>& flags, Settings& all);
/// Whether a word of a command, or a text one of whose words, is the flag by which the Trainer's commands are known.
[[nodiscard]] bool names_micro_batch(std::string_view word);
[[nodiscard]] bool mentions_micro_batch(std::string_view text);
/// The Trainer's arguments under other names of programs around it, where its own are not stated.
void take_other_names(Settings& all);
/// The format that a program's own `--precision` names; nothing where it states none of the words that are known.
[[nodiscard]] std::optional<Precision> precision_of_program(Settings& settings);
/// What fuses the output layer with the loss, and the words of switches that say neither yes nor no.
void read_switches(JobBuilder& builder);
/// Attention without a fused kernel, which keeps its scores.
void read_attention(JobBuilder& builder);
/// The Trainer's optimizer, or that of a program's own key, whose words are no list of transformers'.
void read_optimizer(JobBuilder& builder);
/// What TRL's `model_init_kwargs` says of the model as if it were alone, which it has no other key for.
void take_model_section(Settings& all);
/// The Trainer's `fsdp` and `fsdp_config`, where no file of accelerate's says how the job is sharded, as its keys.
void take_fsdp(std::span<const LaunchSource> files, Settings& all);
void take_factory(const LaunchSource& source, const Settings& keys, Settings& all, bool follow);

}  // namespace plan::hugging_face
