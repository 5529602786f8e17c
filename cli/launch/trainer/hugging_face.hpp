#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/launch/job/format.hpp"
#include "cli/launch/job/job_builder.hpp"

/// DeepSpeed's JSON file, accelerate's YAML file, and the Trainer's arguments beside either.
namespace plan {

namespace hugging_face {

enum class Kind { DeepSpeed, Accelerate, Trainer, Axolotl, Torchtune, Factory, Script, None };
[[nodiscard]] Kind kind_of(const LaunchSource& source);
/// Whether such a file has DeepSpeed train: it is DeepSpeed's own, or names one.
[[nodiscard]] bool starts_deepspeed(const LaunchSource& source);
/// The settings of all files and of those that they name, with `ds.`, `acc.` or `args.` before each key; `tool` names
/// whose arguments they are.
[[nodiscard]] Result<Settings> settings_of(std::span<const LaunchSource> files);

/// Arguments of tools that state ranks which share a sequence by Ulysses: ms-swift's, and ProLong's
/// (training/trainer.py, distributed_attention.py).
inline constexpr std::string_view kUlysses[] = {"args.sequence_parallel_size", "args.seq_parallel_size"};

/// torchtune keeps weights, gradients and states in the one format of `dtype`.
void train_as_torchtune(Training& training);

/// Leaves to the search what these tools have words for, as their writers say: adapters that are whole; of torchtune
/// FSDP2 over all ranks, with nothing on the host.
void settle_axolotl(Problem& problem);
void settle_torchtune(Problem& problem);

/// What a trainer around the Trainer depends on.
struct TrainerChoice {
  std::string_view deepspeed;  ///< file for `deepspeed`; empty: none
  bool checkpointing = false;  ///< gradient_checkpointing; FSDP's own is in accelerate's file
};
/// The program that every process runs, with the one file that it takes its arguments from.
struct TrainerProgram {
  LaunchFile arguments{};
  std::string script{};   ///< what python starts: `run_clm.py`, `-m trl.scripts.sft`
  std::string words{};    ///< behind it: the file
  std::string comment{};  ///< where the script is from
};
/// transformers' run_clm.py for whole models, TRL's supervised trainer for adapters.
[[nodiscard]] Result<TrainerProgram> trainer_program(const Plan& plan, const EmitOptions& options,
                                                     const TrainerChoice& choice);
/// Name that the Trainer has for an optimizer; empty if it has none.
[[nodiscard]] std::string_view optimizer_word(Optimizer optimizer);

/// What a tool around the Trainer takes where a file says nothing.
struct TrainerTool {
  std::string_view name;
  std::string_view key;  ///< value of the setting `tool`
  int micro_batch = 8;
  int rank = 16;  ///< of adapters
  int seq = 0;    ///< 0: no default
  bool adapters = false;
  bool checkpointing = false;
  bool bf16 = false;
  bool pure = false;  ///< weights, gradients and states in the format of `dtype`, without master weights
  int batch = 0;      ///< sequences of a step, where the tool states them and not what makes them; 0: it does not
};
[[nodiscard]] const TrainerTool& tool_of(Settings& settings);

/// A switch of a program's own, by the words that argument parsers take; another word is a mistake. Nothing: it is not
/// stated, or says nothing.
[[nodiscard]] std::optional<bool> switch_of(Settings& settings, std::string_view key);
/// Full fine-tuning or adapters, their rank and modules, and what of fine-tuning is not modelled.
void read_tuning(JobBuilder& builder);
/// What the model has beside the language model, and whether that itself is frozen.
void tell_parts(JobBuilder& builder);
/// Whether an argument, by how its name begins, is about a model beside the trained one: `args.teacher_load_in_4bit`.
[[nodiscard]] bool of_another_model(std::string_view key);
/// Whether samples fill their sequences, as counted.
void tell_packing(JobBuilder& builder);
/// The models that preferences and rewards are trained with, and what a reward model is.
void tell_stage(JobBuilder& builder);
/// Names the arguments that sound as if they weighed and that nothing has read: once everything else is read.
void name_unread(JobBuilder& builder);
/// bf16, fp16 or fp32 as DeepSpeed's file, the Trainer or accelerate's file has it, in that order.
void read_precision(JobBuilder& builder, bool deepspeed);

/// Refuses a job one of whose files is not there, where `key` names it.
void refuse_missing_file(JobBuilder& builder, std::string_view key, std::string_view file, std::string_view holds);
/// What the Trainer's arguments say of model, sequence, precision and optimizer.
void read_trainer(JobBuilder& builder);
/// Is gradient_checkpointing among the arguments, and how?
void read_checkpointing(JobBuilder& builder, std::string_view own_key, bool own);

/// `"stage": 3` and its like of one DeepSpeed file.
[[nodiscard]] std::string deepspeed_json(const Plan& plan);

/// accelerate's file that starts a DeepSpeed job, for `accelerate launch`.
[[nodiscard]] LaunchFile accelerate_for_deepspeed(const Plan& plan, const EmitOptions& options);

/// How many processes there are in all: by the launcher's flag, else by accelerate's file.
void read_processes(JobBuilder& builder, const LaunchFacts& facts);
/// Keys of accelerate's file that accelerate does not know.
void read_unknown_to_accelerate(JobBuilder& builder);
/// GPUs of a node, where accelerate's file states the ranks of all machines.
void read_machines(JobBuilder& builder, const LaunchFacts& facts);
/// What of accelerate's file is counted otherwise than stated.
void read_accelerate_switches(JobBuilder& builder);
/// accelerate stops where the degrees of its mesh, those that it leaves to DeepSpeed among them, do not make up the
/// processes: ParallelismConfig.validate_accelerator.
void refuse_other_mesh(JobBuilder& builder);
/// Switches of DeepSpeed's, and what of its file is counted otherwise than stated, at a stage of ZeRO.
void read_deepspeed_switches(JobBuilder& builder, int stage);

}  // namespace hugging_face
}  // namespace plan
