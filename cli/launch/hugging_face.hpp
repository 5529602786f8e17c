#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/launch/format.hpp"
#include "cli/launch/job_builder.hpp"

/// DeepSpeed's JSON file, accelerate's YAML file, and the Trainer's arguments that stand beside either.
namespace plan {

[[nodiscard]] Result<std::vector<LaunchFile>> write_deepspeed(const Plan& plan, const EmitOptions& options);
[[nodiscard]] Result<std::vector<LaunchFile>> write_accelerate(const Plan& plan, const EmitOptions& options);
[[nodiscard]] Result<LaunchJob> read_deepspeed(std::span<const LaunchSource> files, const LaunchFacts& facts);
[[nodiscard]] Result<LaunchJob> read_accelerate(std::span<const LaunchSource> files, const LaunchFacts& facts);
[[nodiscard]] bool is_deepspeed(const LaunchSource& source);
[[nodiscard]] bool is_accelerate(const LaunchSource& source);

namespace hugging_face {

enum class Kind { DeepSpeed, Accelerate, Trainer, None };
[[nodiscard]] Kind kind_of(const LaunchSource& source);
/// The settings of all files, with `ds.`, `acc.` or `args.` before each key.
[[nodiscard]] Result<Settings> settings_of(std::span<const LaunchSource> files);

/// Arguments of transformers' run_clm.py as it reads them from one JSON file.
struct TrainerChoice {
  std::string_view deepspeed;  ///< file for `deepspeed`; empty: none
  bool checkpointing = false;  ///< gradient_checkpointing; FSDP's own stands in accelerate's file
};
[[nodiscard]] Result<LaunchFile> trainer_arguments(const Plan& plan, const EmitOptions& options,
                                                   const TrainerChoice& choice);
inline constexpr std::string_view kTrainerFile = "run_clm.json";

/// What the Trainer's arguments say of model, sequence, precision and optimizer.
void read_trainer(JobBuilder& builder);
/// Does gradient_checkpointing stand in the arguments, and how?
void read_checkpointing(JobBuilder& builder, std::string_view own_key, bool own);

/// `"stage": 3` and its like of one DeepSpeed file.
[[nodiscard]] std::string deepspeed_json(const Plan& plan);

/// accelerate's file that starts a DeepSpeed job, for `accelerate launch`.
[[nodiscard]] LaunchFile accelerate_for_deepspeed(const Plan& plan);

/// One line of JSON: `"key": value`, the value as JSON writes it.
[[nodiscard]] std::string quoted(std::string_view text);

}  // namespace hugging_face
}  // namespace plan
