// A plan as DeepSpeed's JSON file, with the Trainer's arguments beside it. Keys: DeepSpeed 0.19.8 runtime/config.py,
// runtime/zero/config.py, runtime/tensor_parallel/config.py, module_inject/auto_ep_config.py.
// Tested by tests/frameworks/framework_files_test.cpp and by DeepSpeed itself, tests/validators/.
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/launch/start/launcher.hpp"
#include "cli/launch/trainer/hugging_face.hpp"

namespace plan {
namespace hugging_face {
namespace {

/// AutoEP's name for the family that a model's experts are of; empty if it has none.
std::string expert_preset(const Model& model) {
  constexpr std::pair<std::string_view, std::string_view> kPresets[] = {{"mixtral", "mixtral"},
                                                                        {"qwen3", "qwen3_moe"},
                                                                        {"deepseek-v2", "deepseek_v2"},
                                                                        {"deepseek-v3", "deepseek_v3"},
                                                                        {"llama4", "llama4"}};
  for (const auto& [start, preset] : kPresets)
    if (model.name.rfind(start, 0) == 0) return std::string(preset);
  return {};
}

nlohmann::ordered_json zero(const Training& training, int stage) {
  // DeepSpeed's own bucket sizes, said where the memory of a plan counts them.
  nlohmann::ordered_json out;
  out["stage"] = stage;
  if (stage > 0) {
    out["overlap_comm"] = training.stack.overlap_grad_reduce;
    out["contiguous_gradients"] = true;
    out["reduce_bucket_size"] = 500000000;
  }
  if (stage == 1 || stage == 2) out["allgather_bucket_size"] = 500000000;
  if (stage == 3) {
    out["stage3_prefetch_bucket_size"] = 50000000;
    out["stage3_param_persistence_threshold"] = 100000;
    out["stage3_gather_16bit_weights_on_model_save"] = true;
  }
  if (training.offload.optimizer > 0) {
    out["offload_optimizer"]["device"] = "cpu";
    out["offload_optimizer"]["pin_memory"] = true;
    if (training.offload.optimizer < 1) out["offload_optimizer"]["ratio"] = training.offload.optimizer;
  }
  if (training.offload.parameters) out["offload_param"] = {{"device", "cpu"}, {"pin_memory", true}};
  return out;
}

}  // namespace

std::string deepspeed_json(const Plan& plan) {
  const Training& training = plan.problem.training;
  const Layout& l = plan.best.layout;
  const std::int64_t steps = micro_batches(training.global_batch, l.dp, l.micro_batch);
  nlohmann::ordered_json out;
  // train_batch_size is left out under tp and sp: DeepSpeed would compare it with a product over the whole world.
  if (l.tp == 1 && l.cp == 1) out["train_batch_size"] = training.global_batch;
  out["train_micro_batch_size_per_gpu"] = l.micro_batch;
  out["gradient_accumulation_steps"] = steps;
  out["gradient_clipping"] = 1.0;
  if (training.precision == Precision::Bf16) out["bf16"]["enabled"] = true;
  if (training.precision == Precision::Fp16) out["fp16"]["enabled"] = true;
  out["zero_optimization"] = zero(training, l.zero);
  if (l.zero > 0) out["zero_allow_untested_optimizer"] = true;
  if (l.tp > 1) out["tensor_parallel"]["autotp_size"] = l.tp;
  if (l.cp > 1) out["sequence_parallel_size"] = l.cp, out["data_parallel_size"] = l.dp;
  if (l.ep > 1) {
    out["expert_parallel"]["enabled"] = true;
    out["expert_parallel"]["autoep_size"] = l.ep;
    if (const std::string preset = expert_preset(plan.problem.model); !preset.empty())
      out["expert_parallel"]["preset_model"] = preset;
  }
  return out.dump(2) + "\n";
}

}  // namespace hugging_face

Result<std::vector<LaunchFile>> write_deepspeed(const Plan& plan, const EmitOptions& options) {
  if (const Result<bool> fits = expressible(plan, Framework::DeepSpeed, "deepspeed"); !fits)
    return tl::unexpected(fits.error());
  const Layout& l = plan.best.layout;
  const double offload = plan.problem.training.offload.optimizer;
  if (offload > 0 && l.zero == 0) return cannot("deepspeed", "offloads optimizer states from zero 1 on");
  if (offload > 0 && offload < 1 && l.zero != 3)
    return cannot("deepspeed", "offloads a share of the optimizer states under zero 3 only", "set the share to 1");
  if (plan.problem.training.offload.parameters && l.zero != 3)
    return cannot("deepspeed", "offloads weights under zero 3 only", "add `--layout zero3`");
  const Result<hugging_face::TrainerProgram> program = hugging_face::trainer_program(
      plan, options, {.deepspeed = "ds_config.json", .checkpointing = l.recompute.kind == RecomputeKind::Full});
  if (!program) return tl::unexpected(program.error());
  LaunchCommand command;
  command.title = plan_line(plan);
  command.comments = {program->comment};
  command.environment = {{"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"}};
  command.program = command.plain_program = program->script;
  command.groups = {{"TRAIN_ARGS", {program->words}}};
  command.stem = "deepspeed";
  Result<std::vector<LaunchFile>> files = write_launcher(command, plan, options);
  if (!files) return files;
  files->insert(files->begin(), {{"ds_config.json", hugging_face::deepspeed_json(plan), false},
                                 program->arguments,
                                 hugging_face::accelerate_for_deepspeed(plan, options)});
  return files;
}

}  // namespace plan
