// The program that trains under accelerate or DeepSpeed and the file of its arguments: transformers' run_clm.py
// (examples/pytorch/language-modeling, transformers 5.23) takes TrainingArguments, ModelArguments and
// DataTrainingArguments from one JSON file; TRL's supervised trainer (trl 0.27 scripts/sft.py, ModelConfig, SFTConfig)
// takes its own from YAML, adapters and a base in four bits among them.
// Tested by tests/frameworks/framework_files_test.cpp and tests/cli/adapters_test.cpp.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "cli/launch/start/upkeep.hpp"
#include "cli/launch/trainer/hugging_face.hpp"
#include "formulas/names.hpp"

namespace plan::hugging_face {
namespace {

using Json = nlohmann::ordered_json;

/// What both programs have under the same names.
Json common_arguments(const Plan& plan, const EmitOptions& options, const TrainerChoice& choice) {
  const Training& training = plan.problem.training;
  const Layout& l = plan.best.layout;
  Json args = Json::object();
  const std::string folder = checkpoint_folder(plan, options);
  args["output_dir"] = folder.empty() ? "output" : folder;
  args["save_strategy"] = folder.empty() ? "no" : "steps";
  if (!folder.empty()) args["save_steps"] = upkeep_of(plan, options).every;
  if (options.site) args["enable_jit_checkpoint"] = true;  // saves when SIGTERM comes
  args["per_device_train_batch_size"] = l.micro_batch;
  args["gradient_accumulation_steps"] = micro_batches(training.global_batch, l.dp, l.micro_batch);
  args["gradient_checkpointing"] = choice.checkpointing;
  args["bf16"] = training.precision == Precision::Bf16;
  args["fp16"] = training.precision == Precision::Fp16;
  args["optim"] = optimizer_word(training.optimizer);
  if (!choice.deepspeed.empty()) args["deepspeed"] = std::string(choice.deepspeed);
  return args;
}

TrainerProgram run_clm(const Plan& plan, const EmitOptions& options, const TrainerChoice& choice) {
  Json args = Json::object();
  const std::string model = hub_name(plan);
  // A new model is made from its configuration, a fine-tuned one from its weights.
  args[plan.problem.training.task == Task::Pretrain ? "config_name" : "model_name_or_path"] = model;
  args["tokenizer_name"] = options.tokenizer.empty() ? model : options.tokenizer;
  if (options.data_path.empty())
    args["dataset_name"] = "Salesforce/wikitext", args["dataset_config_name"] = "wikitext-103-raw-v1";
  else
    args["train_file"] = options.data_path;
  args["block_size"] = plan.problem.training.seq;
  args["do_train"] = true;
  args.update(common_arguments(plan, options, choice));
  return {{"run_clm.json", args.dump(2) + "\n", false},
          "run_clm.py",
          "run_clm.json",
          "run_clm.py: examples/pytorch/language-modeling of transformers"};
}

/// The linear layers that carry an adapter, by the names that transformers has for them.
Json targets(const Lora& lora) {
  if (lora.attention && lora.ffn) return "all-linear";
  return lora.attention ? Json{"q_proj", "k_proj", "v_proj", "o_proj"} : Json{"gate_proj", "up_proj", "down_proj"};
}

TrainerProgram supervised(const Plan& plan, const EmitOptions& options, const TrainerChoice& choice) {
  const Training& training = plan.problem.training;
  Json args = Json::object();
  args["model_name_or_path"] = hub_name(plan);
  args["dtype"] = training.precision == Precision::Fp16 ? "float16" : "bfloat16";
  // accelerate's own context parallelism runs on PyTorch's attention, which knows no borders between packed samples.
  const bool native = plan.best.layout.cp > 1 && choice.deepspeed.empty();
  args["attn_implementation"] = native ? "sdpa" : "flash_attention_2";
  args["dataset_name"] = options.data_path.empty() ? "trl-lib/Capybara" : options.data_path;
  args["max_length"] = training.seq;
  args["packing"] = true;  // sequences as long as planned
  if (native) args["packing_strategy"] = "wrapped";
  args["use_peft"] = true;
  args["lora_r"] = training.lora.rank;
  args["lora_alpha"] = 2 * training.lora.rank;
  args["lora_target_modules"] = targets(training.lora);
  if (training.task == Task::Qlora) {
    args["load_in_4bit"] = true;
    args["bnb_4bit_quant_type"] = "nf4";
    args["use_bnb_nested_quant"] = true;
    args["bnb_4bit_quant_storage"] = "bfloat16";  // FSDP shards the base with what is trained: one format for both
  }
  args.update(common_arguments(plan, options, choice));
  std::string text = fmt::format("# {}\n", plan_line(plan));
  for (const auto& [key, value] : args.items()) text += fmt::format("{}: {}\n", key, value.dump());
  return {{"sft.yaml", text, false},
          "-m trl.scripts.sft",
          "--config sft.yaml",
          "trl.scripts.sft: TRL's supervised trainer"};
}

}  // namespace

Result<TrainerProgram> trainer_program(const Plan& plan, const EmitOptions& options, const TrainerChoice& choice) {
  const Training& training = plan.problem.training;
  if (optimizer_word(training.optimizer).empty())
    return cannot("the Trainer", fmt::format("has no optimizer `{}`", name(training.optimizer)));
  if (!training.adapters()) return run_clm(plan, options, choice);
  if (plan.best.layout.tp > 1) return cannot("TRL", "splits no adapters: tp 1", "add `--layout tp1`");
  if (!options.tokenizer.empty()) return cannot("TRL", "takes the model's own tokenizer", "leave `--tokenizer` out");
  const bool plain = training.lora.attention && training.lora.ffn;
  for (const Layer& kind : plan.problem.model.kinds)
    if (!plain && (kind.mixer != Mixer::Attention || kind.ffn != Ffn::Dense || !kind.dense.gated))
      return cannot("TRL", "is written with adapters on every linear layer of this model", "leave `--lora-target` out");
  return supervised(plan, options, choice);
}

}  // namespace plan::hugging_face
