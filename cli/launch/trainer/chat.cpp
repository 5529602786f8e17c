// DeepSpeed-Chat's flags, from which its scripts make DeepSpeed's file themselves, as the Trainer's and DeepSpeed's
// keys. Tested by tests/launch/trainer_tuning_test.cpp and reading_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "cli/launch/trainer/sources.hpp"
#include "cli/settings/settings.hpp"
#include "presets/suggest.hpp"

namespace plan::hugging_face {
namespace {

/// The flags of DeepSpeed-Chat's third step, which trains an actor beside a critic.
constexpr Renamed kChat[] = {{"actor_model_name_or_path", "args.model_name_or_path"},
                             {"actor_zero_stage", "args.zero_stage"},
                             {"actor_gradient_checkpointing", "args.gradient_checkpointing"},
                             {"actor_lora_dim", "args.lora_dim"}};

/// A sequence of that step is a prompt and its answer.
void take_actor(const Settings& flags, Settings& all) {
  std::int64_t tokens = 0;
  for (const char* key : {"max_prompt_seq_len", "max_answer_seq_len"})
    if (const Setting* stated = flags.find(key)) tokens += counted_number(*stated, all);
  for (const Setting& setting : flags.all()) {
    for (const Renamed& row : kChat)
      if (setting.key == row.from && all.get("args." + setting.key) != nullptr) set(all, std::string(row.to), setting);
  }
  const Setting* const answer = all.get("args.max_answer_seq_len");
  if (answer == nullptr) return;
  const Setting from = *answer;
  if (tokens > 0) set(all, "args.max_seq_length", fmt::format("{}", tokens), from);
  set(all, "args.stage", "ppo", from);
}

/// DeepSpeed-Chat's `--zero_stage 3 --offload --dtype bf16 --lora_dim 64 --only_optimize_lora`, from which its script
/// makes DeepSpeed's file.
void take_zero_flags(Settings& all) {
  const bool learners = !all.states("args.zero_stage");  // open-instruct's: trained in bf16
  const Setting* stage = all.get(learners ? "args.deepspeed_stage" : "args.zero_stage");
  if (stage == nullptr || all.has_section("ds.")) return;
  const Setting from = *stage;
  set(all, "ds.zero_optimization.stage", from);
  const bool offload = all.states("args.offload") && truth_of(all.text("args.offload").value_or("")).value_or(false);
  for (const char* key : {"ds.zero_optimization.offload_optimizer.device", "ds.zero_optimization.offload_param.device"})
    if (offload) set(all, key, "cpu", *all.get("args.offload"));
  std::string type = lowered(all.text("args.dtype").value_or(learners ? "bf16" : "fp16"));
  if (const std::optional<Precision> own = all.states("args.dtype") ? std::nullopt : precision_of_program(all))
    type = *own == Precision::Fp32 ? "fp32" : *own == Precision::Bf16 ? "bf16" : "fp16";
  if (type != "fp32") set(all, type == "bf16" ? "ds.bf16.enabled" : "ds.fp16.enabled", "true", from);
  const Setting* rank = all.get("args.lora_dim");
  if (rank == nullptr || rank->value == "0") return;
  const Setting rows = *rank;
  bool alone = false;  // the second is TeleChat's, whose program is made of DeepSpeed-Chat's
  for (const char* key : {"args.only_optimize_lora", "args.mark_only_lora_as_trainable"})
    alone |= truth_of(all.text(key).value_or("")).value_or(false);
  if (alone) {
    set(all, "args.finetuning_type", "lora", rows);
    set(all, "args.lora_rank", rows);
  } else {
    set(all, "args.adapters_beside", rows);
  }
}

}  // namespace

void take_chat(const Settings& flags, Settings& all) {
  if (flags.states("actor_model_name_or_path")) take_actor(flags, all);
  take_zero_flags(all);
}

}  // namespace plan::hugging_face
