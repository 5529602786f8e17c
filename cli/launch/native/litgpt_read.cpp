// litgpt's YAML for `litgpt pretrain`, `finetune_full`, `finetune_lora`: one GPU, or FSDP over all. Keys and defaults:
// litgpt 0.5 litgpt/args.py, pretrain.py, finetune/. Tested by tests/launch/native_test.cpp and
// tests/launch/native_switches_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "cli/launch/native/native_trainers.hpp"
#include "formulas/names.hpp"
#include "formulas/words.hpp"
#include "presets/suggest.hpp"

namespace plan {
namespace {

using namespace native_trainers;

constexpr std::string_view kBatch = "train.global_batch_size", kMicro = "train.micro_batch_size";
constexpr std::string_view kSeq = "train.max_seq_length", kDevices = "devices", kNodes = "num_nodes";
constexpr auto kIrrelevant = word_list([] {
  return "out_dir data data. eval. logger_name log. seed resume access_token tokenizer_dir "
         "initial_checkpoint_dir lora_alpha lora_dropout optimizer.init_args. train.save_interval "
         "train.log_interval train.lr_warmup_steps train.lr_warmup_fraction train.epochs train.max_tokens "
         "train.max_steps train.max_time train.max_norm train.min_lr model_config.name "
         "model_config.norm_class_name model_config.norm_eps";
});

/// The sizes of a `litgpt.Config` of Llama's kind.
void read_described(JobBuilder& builder) {
  Settings& settings = builder.settings;
  const bool llama = settings.text("model_config.mlp_class_name").value_or("GptNeoxMLP") == "LLaMAMLP" &&
                     !settings.boolean("model_config.bias").value_or(true) &&
                     !settings.boolean("model_config.parallel_residual").value_or(true);
  if (!llama)
    return builder.note("unknown_model", fmt::format("{}: a `model_config` of another kind than Llama's: name the "
                                                     "model with `--model`",
                                                     settings.where("model_config.n_layer")));
  const auto size = [&](std::string_view key, int otherwise) { return builder.degree(key, otherwise); };
  const int heads = size("model_config.n_head", 32), hidden = size("model_config.n_embd", 4096);
  describe_model(builder, "llama", "model_config.n_layer",
                 {{"hidden_size", hidden},
                  {"intermediate_size", size("model_config.intermediate_size", 4 * hidden)},
                  {"num_hidden_layers", size("model_config.n_layer", 16)},
                  {"num_attention_heads", heads},
                  {"num_key_value_heads", size("model_config.n_query_groups", heads)},
                  {"head_dim", size("model_config.head_size", std::max(1, hidden / heads))},
                  {"vocab_size", size("model_config.padded_vocab_size", size("model_config.vocab_size", 50254))}},
                 {{"tie_word_embeddings", settings.boolean("train.tie_embeddings").value_or(false)}});
}

void read_model(JobBuilder& builder) {
  Settings& settings = builder.settings;
  if (settings.states("model_config.n_layer")) {
    (void)settings.get("model_name");
    return read_described(builder);
  }
  for (const std::string_view key : {"model_name", "checkpoint_dir"})
    if (const std::optional<std::string> word = settings.text(key); word && !word->empty() && !builder.job.model)
      builder.model(*word, *word, key);
}

/// Ranks that train; 0: as many as there are.
int read_ranks(JobBuilder& builder, const LaunchFacts& facts, bool pretrain) {
  Settings& settings = builder.settings;
  const int nodes = builder.degree(kNodes, 1);
  const bool all = settings.states(kDevices) ? settings.text(kDevices).value_or("auto") == "auto" : pretrain;
  const int devices = all ? 0 : builder.degree(kDevices, 1);
  builder.launcher(facts);
  if (facts.gpus() > 0 || !builder.plausible({nodes, std::max(1, devices)})) return builder.job.gpus;
  if (devices > 0) {
    builder.gpus(std::int64_t{nodes} * devices, settings.states(kDevices) ? kDevices : kNodes);
    builder.job.gpus_per_node = devices;
  }
  return builder.job.gpus;
}

/// Several ranks shard with FSDP: pre-training inside a node, fine-tuning over all with each block rebuilt.
void read_layout(JobBuilder& builder, const LaunchFacts& facts, int ranks, bool pretrain) {
  fix_unsplit(builder);
  builder.fix(&Fixed::zero, ranks == 1 ? 0 : 3, "");
  const int nodes = std::max({1, facts.total > 0 ? facts.nodes : builder.degree(kNodes, 1)});
  const bool inside = pretrain && nodes > 1 && ranks > nodes && ranks % nodes == 0;
  builder.fix(&Fixed::shard, inside ? ranks / nodes : 0, "");
  const bool rebuilt = ranks != 1 && !pretrain;
  builder.fix(&Fixed::recompute, Recompute{.kind = rebuilt ? RecomputeKind::Full : RecomputeKind::None},
              rebuilt ? "full" : "none", "");
}

/// litgpt divides the batch among the ranks and then by the micro-batch, and drops what is left over.
void read_batch(JobBuilder& builder, int ranks, bool pretrain) {
  const int batch = builder.degree(kBatch, pretrain ? 512 : 64), micro = builder.degree(kMicro, 4);
  builder.fix(&Fixed::micro_batch, micro, kMicro);
  const int steps = ranks > 0 ? batch / ranks / micro : 0;
  if (ranks > 0 && steps == 0)
    builder.errors.push_back({"does_not_divide",
                              fmt::format("{}: {} samples leave less than a micro-batch of {} to each of {} ranks",
                                          builder.settings.where(kBatch), batch, micro, ranks),
                              {},
                              {"raise `train.global_batch_size`, or train on fewer GPUs"}});
  const std::int64_t real = steps > 0 ? builder.product({steps, micro, ranks}) : batch;
  if (real != batch)
    builder.unused(kBatch, fmt::format("`global_batch_size` {}: {} ranks with whole micro-batches of {} train {}",
                                       batch, ranks, micro, real));
  builder.global_batch(real, kBatch);
  constexpr std::string_view kBlock = "model_config.block_size";  // litgpt's model takes no longer sequences
  const int block = builder.degree(kBlock, 4096);
  if (builder.settings.states(kSeq))
    builder.sequence(builder.degree(kSeq, 1), kSeq);
  else if (builder.settings.states("model_config.n_layer"))
    builder.sequence(block, kBlock);
}

void read_task(JobBuilder& builder, bool pretrain) {
  Settings& settings = builder.settings;
  const bool adapters = settings.states("lora_r");
  const std::string bits = settings.text("quantize").value_or("");
  const bool narrow = bits.find("nf4") != std::string::npos || bits.find("fp4") != std::string::npos;
  if (!bits.empty() && !narrow) builder.unused("quantize", "a base in 8 bits is counted in 16");
  Training& training = builder.training;
  if (narrow && !adapters)
    builder.unused("quantize", "a base in 4 bits is counted in 16 where no adapters are trained");
  training.task = adapters ? (narrow ? Task::Qlora : Task::Lora) : pretrain ? Task::Pretrain : Task::FullFinetune;
  builder.origin("task", name(training.task), narrow && adapters ? "quantize" : "lora_r");
  if (!adapters) return;
  training.lora.rank = builder.degree("lora_r", 8);
  builder.origin("lora_rank", fmt::format("{}", training.lora.rank), "lora_r");
  const auto on = [&](std::string_view key, bool otherwise) { return settings.boolean(key).value_or(otherwise); };
  const bool query = on("lora_query", true), key = on("lora_key", false), value = on("lora_value", true),
             out = on("lora_projection", false);
  training.lora.attention = query || key || value || out;
  training.lora.ffn = on("lora_mlp", false);
  if (training.lora.attention && !(query && key && value && out))
    builder.unused(settings.states("lora_query") ? "lora_query" : "lora_r",
                   "adapters on some of attention's linears are counted on all of them");
  if (on("lora_head", false)) builder.unused("lora_head", "an adapter of the output layer is not counted");
}

void read_precision(JobBuilder& builder) {
  constexpr std::string_view kKey = "precision";
  const std::string word = builder.settings.text(kKey).value_or("");
  if (word == "bf16-true" || word == "16-true" || word.empty()) pure_bf16(builder.training);
  constexpr std::pair<std::string_view, Precision> kWords[] = {
      {"bf16-true", Precision::Bf16}, {"bf16-mixed", Precision::Bf16}, {"bf16", Precision::Bf16},
      {"16-true", Precision::Fp16},   {"16-mixed", Precision::Fp16},   {"32-true", Precision::Fp32},
      {"32", Precision::Fp32}};
  for (const auto& [known, precision] : kWords)
    if (word == known) return builder.precision(precision, kKey);
  if (!word.empty())
    return builder.settings.refuse(*builder.settings.get(kKey), "bf16-true, bf16-mixed, 16-mixed or 32-true");
  builder.training.precision = Precision::Bf16;
  builder.guess("precision", "bf16", "litgpt takes bf16-true where the GPU has it");
}

}  // namespace

bool is_litgpt(const LaunchSource& source) {
  if (!may_be_yaml(source) || !has_lines(source, {"train:", "eval:"}) ||
      source.text.find("micro_batch_size:") == std::string::npos)
    return false;
  return has_lines(source, {"checkpoint_dir:"}) || has_lines(source, {"model_name:"}) ||
         has_lines(source, {"model_config:"});
}

Result<LaunchJob> read_litgpt(std::span<const LaunchSource> files, const LaunchFacts& facts) {
  Result<Settings> settings = settings_of(files);
  if (!settings) return tl::unexpected(settings.error());
  JobBuilder builder(*settings, "litgpt", Framework::Any);
  const bool pretrain = has_lines(files.front(), {"model_name:"}) || has_lines(files.front(), {"model_config:"});
  if (!facts.asked) read_model(builder);
  const int ranks = read_ranks(builder, facts, pretrain);
  read_layout(builder, facts, ranks, pretrain);
  read_batch(builder, ranks, pretrain);
  read_task(builder, pretrain);
  read_precision(builder);
  constexpr std::string_view kOptimizer = "optimizer.class_path";
  for (const std::string_view key : {std::string_view("optimizer"), kOptimizer})
    if (const std::string word = settings->text(key).value_or("");
        !word.empty() && lowered(word).find("adam") == std::string::npos)
      builder.unused(key, fmt::format("the optimizer `{}` is counted as adam", word));
  (void)settings->get("checkpoint_dir");
  (void)settings->get("train.tie_embeddings");
  tell_the_rest(builder, kIrrelevant, "litgpt");
  return builder.finish();
}

}  // namespace plan
