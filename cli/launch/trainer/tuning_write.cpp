// A plan as axolotl's YAML file and as torchtune's, each with the script that starts it on every node. Keys: axolotl
// 0.13 src/axolotl/utils/schemas, torchtune 0.6 recipes/configs and torchtune/models. Tested by
// tests/cli/adapters_test.cpp and emit_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "cli/launch/start/launcher.hpp"
#include "cli/launch/start/upkeep.hpp"
#include "cli/launch/trainer/hugging_face.hpp"
#include "formulas/names.hpp"

namespace plan {
namespace {

/// The configuration, and the files that start `program` with it on every node under torchrun's flags.
Result<std::vector<LaunchFile>> with_launcher(const Plan& plan, const EmitOptions& options, LaunchFile config,
                                              const std::string& starter, const std::string& program,
                                              const std::string& words) {
  LaunchCommand command;
  command.starter = starter, command.program = command.plain_program = program;
  command.groups = {{"TRAIN_ARGS", {words}}};
  command.title = plan_line(plan);
  command.environment = {{"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"}};
  command.stem = job_name(plan, options);
  Result<std::vector<LaunchFile>> files = write_launcher(command, plan, options);
  if (files) files->insert(files->begin(), std::move(config));
  return files;
}

/// What neither tool has words for, or the first thing in the way.
Result<bool> tuned_as_planned(const Plan& plan, const EmitOptions& options, std::string_view tool) {
  if (Result<bool> fits = expressible(plan, Framework::Accelerate, tool); !fits) return fits;
  const Training& training = plan.problem.training;
  if (!options.tokenizer.empty()) return cannot(tool, "takes the model's own tokenizer", "leave `--tokenizer` out");
  if (training.adapters() && plan.best.layout.tp > 1)
    return cannot(tool, "splits no adapters: tp 1", "add `--layout tp1`");
  if (training.adapters() && !training.lora.attention && !training.lora.ffn)
    return cannot(tool, "is written with adapters on attention, feed-forward layers or both");
  if (training.optimizer != Optimizer::Adam && training.optimizer != Optimizer::Adam8bit)
    return cannot(tool, fmt::format("is written with adam, not `{}`", name(training.optimizer)));
  return true;
}

std::string modules(const Lora& lora, std::string_view out) {
  return lora.attention && !lora.ffn ? fmt::format("[q_proj, k_proj, v_proj, {}]", out)
                                     : "[gate_proj, up_proj, down_proj]";
}

/// axolotl's sections for FSDP2 and the degrees of its mesh; nothing where dp alone replicates all.
std::string axolotl_sharding(const Plan& plan) {
  const Layout& l = plan.best.layout;
  if (l.zero < 2) return "";
  const int shard = l.shard_group() / l.cp;
  std::string out = "fsdp_version: 2\nfsdp_config:\n  auto_wrap_policy: TRANSFORMER_BASED_WRAP\n";
  out += fmt::format("  reshard_after_forward: {}\n  offload_params: {}\n", l.zero == 3,
                     plan.problem.training.offload.optimizer > 0);
  out += "  cpu_ram_efficient_loading: true\n  state_dict_type: SHARDED_STATE_DICT\n";
  out += fmt::format("dp_replicate_size: {}\ndp_shard_size: {}\ntensor_parallel_size: {}\n", l.dp / shard, shard, l.tp);
  if (l.cp > 1) out += fmt::format("context_parallel_size: {}\nring_attn_func: varlen_llama3\n", l.cp);
  return out;
}

/// torchtune's builder of a model: `llama3_1_8b` of the module `llama3_1`. Its last release, 0.6.1, has no Qwen3.
struct Builder {
  std::string_view preset, module, name;
};
constexpr Builder kBuilders[] = {
    {"llama2-7b", "llama2", "llama2_7b"},         {"llama2-13b", "llama2", "llama2_13b"},
    {"llama2-70b", "llama2", "llama2_70b"},       {"llama3-8b", "llama3", "llama3_8b"},
    {"llama3-70b", "llama3", "llama3_70b"},       {"llama3.2-1b", "llama3_2", "llama3_2_1b"},
    {"llama3.2-3b", "llama3_2", "llama3_2_3b"},   {"mistral-7b", "mistral", "mistral_7b"},
    {"qwen2.5-7b", "qwen2_5", "qwen2_5_7b_base"},
};

std::string torchtune_model(const Plan& plan, const Builder& builder) {
  const Training& training = plan.problem.training;
  const std::string_view adapter = !training.adapters() ? "" : training.task == Task::Qlora ? "qlora_" : "lora_";
  std::string out =
      fmt::format("model:\n  _component_: torchtune.models.{}.{}{}\n", builder.module, adapter, builder.name);
  if (!training.adapters()) return out;
  const Lora& lora = training.lora;
  out += fmt::format("  lora_attn_modules: {}\n", lora.attention ? "[q_proj, k_proj, v_proj, output_proj]" : "[]");
  out += fmt::format("  apply_lora_to_mlp: {}\n  apply_lora_to_output: false\n  lora_rank: {}\n  lora_alpha: {}\n",
                     lora.ffn, lora.rank, 2 * lora.rank);
  return out;
}

}  // namespace

void hugging_face::train_as_torchtune(Training& training) {
  if (training.precision == Precision::Fp32) return;
  training.grad_bytes = 2, training.master_bytes = 0;
  training.moment1_bytes = training.moment2_bytes = 2;
}

void hugging_face::settle_axolotl(Problem& problem) {
  if (problem.training.adapters() && !problem.fixed.tp) problem.fixed.tp = 1;
}

void hugging_face::settle_torchtune(Problem& problem) {
  train_as_torchtune(problem.training);
  settle_axolotl(problem);
  Fixed& fixed = problem.fixed;
  if (!fixed.cp) fixed.cp = 1;
  if (!fixed.zero) fixed.zero = 3;
  if (!fixed.shard) fixed.shard = 0;
  problem.free_switches = 0;
}

Result<std::vector<LaunchFile>> write_axolotl(const Plan& plan, const EmitOptions& options) {
  if (const Result<bool> fits = tuned_as_planned(plan, options, "axolotl"); !fits) return tl::unexpected(fits.error());
  const Layout& l = plan.best.layout;
  const Training& training = plan.problem.training;
  if (training.precision != Precision::Bf16 && training.precision != Precision::Fp16)
    return cannot("axolotl", "is written for bf16 and fp16", "add `--precision bf16`");
  if (l.cp > 1 && (l.cp_kind != CpKind::AllGather || l.zero < 2))
    return cannot("axolotl", "gathers keys and values of sharded ranks", "add `--layout cp-kind=all-gather,zero3`");
  if (l.cp > 1 && l.micro_batch > 1)  // ring-flash-attn of packed samples
    return cannot("axolotl", "takes one sequence at a time where sequences are split", "add `--layout mb1`");
  const Offload& offload = training.offload;
  if (offload.any() && (offload.optimizer < 1 || !offload.parameters || l.zero < 2))
    return cannot("axolotl", "offloads weights, gradients and all states together, and sharded ones only",
                  "write `--offload optimizer,parameters --layout zero3`");
  const std::string folder = checkpoint_folder(plan, options);
  const auto quoted = [](std::string_view text) { return string_quoted(text); };
  std::string out = fmt::format("# {}\n# Not the plan's: learning rate, steps and data.\nbase_model: {}\n",
                                plan_line(plan), quoted(hub_name(plan)));
  const std::string data = quoted(options.data_path.empty() ? "tatsu-lab/alpaca" : options.data_path);
  if (training.task == Task::Pretrain)
    out += fmt::format(
        "reinit_weights: true\nmax_steps: 1000\nstreaming: true\npretraining_dataset:\n  - path: {}\n    type: "
        "pretrain\n",
        options.data_path.empty() ? quoted("allenai/c4") + "\n    name: en" : data);
  else
    out += fmt::format("datasets:\n  - path: {}\n    type: alpaca\n", data);
  out += fmt::format("output_dir: {}\n", quoted(folder.empty() ? "output" : folder));
  out += fmt::format("save_strategy: {}\n", folder.empty() ? "\"no\"" : "steps");
  if (!folder.empty()) out += fmt::format("save_steps: {}\n", upkeep_of(plan, options).every);
  if (options.site) out += "auto_resume_from_checkpoints: true\n";
  out += fmt::format("sequence_len: {}\nsample_packing: true\npad_to_sequence_len: true\n", training.seq);
  out += fmt::format("micro_batch_size: {}\ngradient_accumulation_steps: {}\n", l.micro_batch,
                     micro_batches(training.global_batch, l.dp, l.micro_batch));
  out += fmt::format("{}: true\ngradient_checkpointing: {}\nflash_attention: true\n",
                     training.precision == Precision::Bf16 ? "bf16" : "fp16", l.recompute.kind == RecomputeKind::Full);
  out += fmt::format("optimizer: {}\nlearning_rate: 1e-5\n", hugging_face::optimizer_word(training.optimizer));
  if (training.adapters()) {
    const Lora& lora = training.lora;
    out += fmt::format("adapter: {}\nlora_r: {}\nlora_alpha: {}\n", training.task == Task::Qlora ? "qlora" : "lora",
                       lora.rank, 2 * lora.rank);
    if (training.task == Task::Qlora) out += "load_in_4bit: true\n";
    out += lora.attention && lora.ffn ? "lora_target_linear: true\n"
                                      : fmt::format("lora_target_modules: {}\n", modules(lora, "o_proj"));
  }
  out += axolotl_sharding(plan);
  const std::string stem = job_name(plan, options);
  return with_launcher(plan, options, {stem + ".yaml", out, false}, "torchrun", "-m axolotl.cli.train", stem + ".yaml");
}

Result<std::vector<LaunchFile>> write_torchtune(const Plan& plan, const EmitOptions& options) {
  if (const Result<bool> fits = tuned_as_planned(plan, options, "torchtune"); !fits)
    return tl::unexpected(fits.error());
  const Layout& l = plan.best.layout;
  const Training& training = plan.problem.training;
  if (training.task == Task::Pretrain)
    return cannot("torchtune", "trains no model from nothing", "add `--task finetune`, `lora` or `qlora`");
  const auto* builder = std::find_if(std::begin(kBuilders), std::end(kBuilders),
                                     [&](const Builder& row) { return row.preset == plan.problem.model.name; });
  if (builder == std::end(kBuilders))
    return cannot("torchtune", fmt::format("has no builder here for {}", plan.problem.model.name));
  if (training.precision != Precision::Bf16)
    return cannot("torchtune", "is written for bf16", "add `--precision bf16`");
  if (training.offload.any() || l.zero < 2 || l.cp > 1 || training.optimizer != Optimizer::Adam ||
      l.shard_group() != l.dp)
    return cannot("torchtune", "is written with adam, FSDP2 of every rank and no offload", "add `--layout cp1,zero3`");
  if (l.tp > 1 && !builder->module.starts_with("llama3"))
    return cannot("torchtune", fmt::format("has no plan of tensor parallelism for {}", plan.problem.model.name),
                  "add `--layout tp1`");
  if (options.site && options.site->requeue > 0)
    return cannot("torchtune", "saves at the end of an epoch and does not go on by itself where it stopped",
                  "write `slurm: {requeue: 0}` into the site file");
  const std::string saved = checkpoint_folder(plan, options), folder = saved.empty() ? "output" : saved;
  const std::string weights = "models/" + hub_name(plan);
  std::string out = fmt::format(
      "# {}\n# Not the plan's: learning rate, steps, data and the list of weight files. `tune download {} --output-dir "
      "{}`\n"
      "output_dir: {}\n",
      plan_line(plan), hub_name(plan), weights, string_quoted(folder));
  out += fmt::format("tokenizer:\n  _component_: torchtune.models.{}.{}_tokenizer\n  path: {}\n  max_seq_len: {}\n",
                     builder->module.substr(0, builder->module.find('_')) == "llama3" ? "llama3" : builder->module,
                     builder->module.substr(0, builder->module.find('_')) == "llama3" ? "llama3" : builder->module,
                     string_quoted(weights + "/original/tokenizer.model"), training.seq);
  out += torchtune_model(plan, *builder);
  out += fmt::format(
      "checkpointer:\n  _component_: torchtune.training.FullModelHFCheckpointer\n  checkpoint_dir: {}\n"
      "  checkpoint_files: []\n  output_dir: {}\n",
      string_quoted(weights), string_quoted(folder));
  out += fmt::format("dataset:\n  _component_: torchtune.datasets.alpaca_cleaned_dataset\n  packed: true\n{}",
                     options.data_path.empty() ? "" : fmt::format("  source: {}\n", string_quoted(options.data_path)));
  out += fmt::format("batch_size: {}\ngradient_accumulation_steps: {}\nepochs: 1\nshuffle: true\nseed: 1\n",
                     l.micro_batch, micro_batches(training.global_batch, l.dp, l.micro_batch));
  // Tensor parallelism does not go with the fused optimizer.
  out += fmt::format("optimizer:\n  _component_: torch.optim.AdamW\n  fused: {}\n  lr: 1e-5\n", l.tp == 1);
  out += "loss:\n  _component_: torchtune.modules.loss.CEWithChunkedOutputLoss\n";
  out += fmt::format(
      "device: cuda\ndtype: bf16\nenable_activation_checkpointing: {}\n"
      "enable_activation_offloading: false\nfsdp_cpu_offload: false\nfsdp_reshard_after_forward: {}\n",
      l.recompute.kind == RecomputeKind::Full, l.zero == 3);
  out += fmt::format("data_parallel_shard_dim: {}\ntensor_parallel_dim: {}\n", l.dp, l.tp);
  if (l.tp > 1) out += "tensor_parallel_plan:\n  _component_: torchtune.models.llama3.base_llama_tp_plan\n";
  out += "metric_logger:\n  _component_: torchtune.training.metric_logging.DiskLogger\n  log_dir: logs\n";
  const std::string stem = job_name(plan, options);
  const std::string recipe = training.adapters() ? "lora_finetune_distributed" : "full_finetune_distributed";
  return with_launcher(plan, options, {stem + ".yaml", out, false}, "tune run", recipe, "--config " + stem + ".yaml");
}

}  // namespace plan
