// AWS's FSDP example: a script whose flags describe model and batch, trained under FSDP2 with fp32 weights and bf16
// compute. Flags and defaults: awsome-distributed-training 3.test_cases/pytorch/FSDP/src/model_utils/arguments.py and
// train.py. Tested by tests/launch/native_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "cli/launch/job/keys.hpp"
#include "cli/launch/native/native_trainers.hpp"
#include "formulas/words.hpp"
#include "presets/suggest.hpp"

namespace plan {
namespace {

using namespace native_trainers;

constexpr auto kIrrelevant = word_list([] {
  return "val_batch_size max_steps max_training_steps seed same_seed grad_clip weight_decay beta1 beta2 "
         "logging_freq tensorboard_dir resid_pdrop embd_pdrop attn_pdrop summary_first_pdrop initializer_range "
         "rotary_pct rotary_emb_base activation_loading_horizon limit_all_gathers lr lr_decay_style "
         "lr_decay_iters min_lr warmup plateau dataset dataset_config_name dataset_path tokenizer "
         "resume_from_checkpoint checkpoint_dir checkpoint_freq validation_freq validation_batches epochs verb "
         "local_rank";
});

void read_aws_model(JobBuilder& builder) {
  constexpr std::pair<std::string_view, std::string_view> kTypes[] = {
      {"llama_v2", "llama"}, {"llama_v3", "llama"}, {"mixtral", "mixtral"}, {"mistral", "mistral"}};
  const std::string word = builder.settings.text("model_type").value_or("gpt_neox");
  const auto* type = std::find_if(std::begin(kTypes), std::end(kTypes),
                                  [&](const auto& row) { return word.find(row.first) != std::string::npos; });
  if (type == std::end(kTypes))
    return builder.note("unknown_model", fmt::format("{}: a model of the kind `{}`: name it with `--model`",
                                                     builder.settings.where("model_type"), word));
  const auto size = [&](std::string_view key, int otherwise) { return builder.degree(key, otherwise); };
  const int heads = size("num_heads", 12);
  describe_model(builder, type->second, "num_layers",
                 {{"hidden_size", size("hidden_width", 768)},
                  {"intermediate_size", size("intermediate_size", 11008)},
                  {"num_hidden_layers", size("num_layers", 12)},
                  {"num_attention_heads", heads},
                  {"num_key_value_heads", size("num_key_value_heads", heads)},
                  {"num_local_experts", 8},
                  {"num_experts_per_tok", 2},
                  {"vocab_size", size("vocab_size", 50432)}},
                 {{"tie_word_embeddings", false}});
}

}  // namespace

bool is_aws_fsdp(const LaunchSource& source) {
  return is_shell(source) && mentions(source, "--max_context_width") && mentions(source, "--hidden_width");
}

Result<LaunchJob> read_aws_fsdp(std::span<const LaunchSource> files, const LaunchFacts& facts) {
  Result<StatedKeys> keys = keys_of_flags(files.front(), "train.py");
  if (!keys) return fail(keys.error());
  Settings settings = settings_of_keys(*keys);
  JobBuilder builder(settings, "aws-fsdp", Framework::Any);
  builder.launcher(facts);
  read_own_model(builder, facts, read_aws_model);
  fix_unsplit(builder);
  const int gpus = builder.job.gpus;
  builder.fix(&Fixed::zero, gpus == 1 ? 0 : 3, "sharding_strategy");
  // The example's mesh has one axis: `hybrid` shards over every rank, too.
  builder.fix(&Fixed::shard, 0, "sharding_strategy");
  const std::string strategy = lowered(settings.text("sharding_strategy").value_or("full"));
  if (strategy != "full" && strategy != "hybrid") settings.refuse(*settings.get("sharding_strategy"), "full or hybrid");
  if (strategy == "hybrid")
    builder.unused("sharding_strategy", "the example shards over all ranks under `hybrid`, too: counted so");
  const bool full = builder.degree("activation_checkpointing", 1, 0) > 0;
  builder.fix(&Fixed::recompute, Recompute{.kind = full ? RecomputeKind::Full : RecomputeKind::None},
              full ? "full" : "none", "activation_checkpointing");
  if (builder.degree("offload_activations", 0, 0) > 0)
    builder.unused("offload_activations", "activations that go to the host are counted on the GPU");
  if (builder.degree("cpu_offload", 0, 0) > 0) {
    builder.training.offload = {.optimizer = 1, .parameters = true};
    builder.origin("offload", "optimizer,parameters", "cpu_offload");
  }
  builder.precision(builder.degree("bf16", 1, 0) > 0 ? Precision::Bf16 : Precision::Fp32, "bf16");
  builder.sequence(builder.degree("max_context_width", 2048), "max_context_width");
  const int batch = builder.degree("train_batch_size", 2);
  builder.fix(&Fixed::micro_batch, batch, "train_batch_size");
  builder.rank_batch(batch, 1, "train_batch_size");
  tell_the_rest(builder, kIrrelevant, "AWS's FSDP example");
  return builder.finish();
}

}  // namespace plan
