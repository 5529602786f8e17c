// Arguments of transformers' run_clm.py (examples/pytorch/language-modeling), which takes them from one JSON file:
// TrainingArguments with its own ModelArguments and DataTrainingArguments. transformers 5.23.
// Tested by tests/frameworks/framework_files_test.cpp.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "cli/launch/hugging_face.hpp"
#include "formulas/names.hpp"

namespace plan::hugging_face {
namespace {

struct OptimizerName {
  Optimizer optimizer;
  std::string_view name;
};

/// Names that the Trainer has for an optimizer; the first of each is the one to write.
constexpr OptimizerName kOptimizers[] = {
    {Optimizer::Adam, "adamw_torch_fused"},
    {Optimizer::Adam, "adamw_torch"},
    {Optimizer::Adam, "adamw_hf"},
    {Optimizer::Adam, "adamw_apex_fused"},
    {Optimizer::Adam, "adamw_anyprecision"},
    {Optimizer::Adam8bit, "adamw_bnb_8bit"},
    {Optimizer::Adam8bit, "adamw_8bit"},
    {Optimizer::Adam8bit, "adamw_torch_8bit"},
    {Optimizer::Adam8bit, "paged_adamw_8bit"},
    {Optimizer::Adafactor, "adafactor"},
    {Optimizer::Sgd, "sgd"},
};

/// The keys that trainers and their front ends have for the length of a sequence.
constexpr std::string_view kLengths[] = {"args.block_size", "args.max_length",   "args.max_seq_length",
                                         "args.cutoff_len", "args.sequence_len", "args.model_max_length"};

std::string_view length_key(const Settings& settings) {
  for (const std::string_view key : kLengths)
    if (settings.states(key)) return key;
  return kLengths[0];
}

}  // namespace

std::string quoted(std::string_view text) { return nlohmann::ordered_json(std::string(text)).dump(); }

Result<LaunchFile> trainer_arguments(const Plan& plan, const EmitOptions& options, const TrainerChoice& choice) {
  const Training& training = plan.problem.training;
  const Layout& l = plan.best.layout;
  std::string_view optimizer;
  for (const OptimizerName& row : kOptimizers)
    if (row.optimizer == training.optimizer && optimizer.empty()) optimizer = row.name;
  if (optimizer.empty()) return cannot("the Trainer", fmt::format("has no optimizer `{}`", name(training.optimizer)));
  if (training.adapters()) return cannot("run_clm.py", "trains whole models, no adapters");
  nlohmann::ordered_json args;
  const std::string model = hub_name(plan);
  // A new model is made from its configuration, a fine-tuned one from its weights.
  args[training.task == Task::Pretrain ? "config_name" : "model_name_or_path"] = model;
  args["tokenizer_name"] = options.tokenizer.empty() ? model : options.tokenizer;
  if (options.data_path.empty())
    args["dataset_name"] = "Salesforce/wikitext", args["dataset_config_name"] = "wikitext-103-raw-v1";
  else
    args["train_file"] = options.data_path;
  args["block_size"] = training.seq;
  args["do_train"] = true;
  args["output_dir"] = options.checkpoint_dir.empty() ? "output" : options.checkpoint_dir;
  if (options.checkpoint_dir.empty()) args["save_strategy"] = "no";
  args["per_device_train_batch_size"] = l.micro_batch;
  args["gradient_accumulation_steps"] = micro_batches(training.global_batch, l.dp, l.micro_batch);
  args["gradient_checkpointing"] = choice.checkpointing;
  args["bf16"] = training.precision == Precision::Bf16;
  args["fp16"] = training.precision == Precision::Fp16;
  args["optim"] = optimizer;
  if (!choice.deepspeed.empty()) args["deepspeed"] = std::string(choice.deepspeed);
  return LaunchFile{std::string(kTrainerFile), args.dump(2) + "\n", false};
}

void read_trainer(JobBuilder& builder) {
  Settings& settings = builder.settings;
  for (const std::string_view key : {"args.config_name", "args.model_name_or_path", "args.base_model"})
    if (const std::optional<std::string> word = settings.text(key); word && !builder.job.model)
      builder.model(*word, *word, key);
  const std::string_view length = length_key(settings);
  if (const std::optional<std::int64_t> seq = settings.integer(length)) {
    if (*seq > 0)
      builder.sequence(*seq, length);
    else
      settings.refuse(*settings.get(length), "at least 1");
  }
  const std::optional<std::string> word = settings.text("args.optim");
  if (!word) return;
  for (const OptimizerName& row : kOptimizers)
    if (row.name == *word) {
      builder.training.optimizer = row.optimizer;
      return builder.origin("optimizer", name(row.optimizer), "args.optim");
    }
  builder.note("optimizer_unknown", fmt::format("{}: the optimizer `{}` is not modelled: counted as adam",
                                                settings.where("args.optim"), *word));
}

void read_checkpointing(JobBuilder& builder, std::string_view own_key, bool own) {
  constexpr std::string_view kKey = "args.gradient_checkpointing";
  const bool trainers = builder.settings.boolean(kKey).value_or(false);
  const Recompute recompute{.kind = trainers || own ? RecomputeKind::Full : RecomputeKind::None};
  // Off in both: the framework's own is where it would be switched on, and the Trainer's advice under FSDP.
  const std::string_view key = own || (!trainers && !own_key.empty()) ? own_key : kKey;
  builder.fix("recompute", &Fixed::recompute, recompute, trainers || own ? "full" : "none", key);
}

}  // namespace plan::hugging_face
