// GPT-NeoX's configurations and those of NeMo's first generation as Megatron-LM's flags: rows of keys, and what no
// single key says. Keys and defaults: gpt-neox main megatron/neox_arguments, NeMo 1.23 megatron_gpt_config.yaml.
// Tested by tests/launch/reading_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "cli/launch/dialect/dialect.hpp"
#include "cli/launch/job/counted_as.hpp"
#include "cli/launch/job/weighty_names.hpp"
#include "formulas/words.hpp"
#include "presets/quantity.hpp"
#include "presets/suggest.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

using enum KeyKind;

constexpr DialectRow kNeox[] = {
    {"*", "num-layers hidden-size"},
    {"intermediate_size", "ffn-hidden-size"},
    {"*", "num-attention-heads"},
    {"num_kv_heads", "num-query-groups"},
    {"*", "seq-length max-position-embeddings"},
    {"model_parallel_size", "tensor-model-parallel-size"},
    {"*", "sequence-parallel context-parallel-size"},
    {"moe_expert_parallel_size", "expert-model-parallel-size"},
    {"no_weight_tying", "untie-embeddings-and-output-weights", Switch},
    {"train_micro_batch_size_per_gpu", "micro-batch-size"},
    {"train_batch_size", "global-batch-size"},
    {"zero_optimization.stage", "zero-stage"},
    {"*", "hidden-dropout attention-dropout"},
    {"moe_num_experts", "num-experts"},
    {"moe_top_k", "moe-router-topk"},
    {"*", "vocab-file tokenizer-type train-iters make-vocab-size-divisible-by"},
};
constexpr auto kNeoxDerived = word_list([] {
  return "pipe_parallel_size zero_optimization.overlap_comm gradient_accumulation_steps pos_emb norm "
         "activation precision fp16.enabled fp16.fp16 fp16.type bf16.enabled checkpoint_activations "
         "checkpoint_num_layers num_gpus attention_config optimizer.type mlp_type mlp_multiple_of "
         "expansion_factor use_bias_in_attn_linear use_bias_in_mlp";
});

constexpr std::string_view kNeoxNumbers[] = {"pipe_parallel_size", "gradient_accumulation_steps",
                                             "checkpoint_num_layers", "mlp_multiple_of"};

/// What changes memory or time and is counted as if it were one of the plain words.
constexpr CountedAs kNeoxCounted[] = {
    {"use_bnb_optimizer", "false", "moments of 8 bits are counted as Adam's own"},
    {"gpt_j_residual", "false", "attention and feed-forward are counted as summed over tensor ranks apart"},
    {"output_layer_parallelism", "column", "the output layer is counted as split by the vocabulary"},
    {"partition_activations", "false", "kept activations are split over tensor-parallel ranks: counted whole"},
    {"pipe_partition_method", "type:transformer|mlp type:transformer", "stages are counted with equal layers"},
    {"sliding_window_width", "", "attention in windows is counted over the whole sequence"},
    {"use_qk_layernorm", "false", "norms of queries and keys are not counted"},
    {"synchronize_each_layer", "false", "waiting behind each layer is not counted"},
    {"fp32_allreduce", "false", "gradients are counted as summed in the format that they have"},
    {"train_impl", "normal", "models beside the trained one are not counted"},
    {"soft_prompt_tuning.enabled", "false", "all weights are counted as trained, and not the prompt alone"},
    {"data_types.grad_accum_dtype", "", "gradients are counted in the format that the precision implies"},
    {"zero_optimization.offload_optimizer.device", "none", "optimizer states in host memory are counted on the GPU"},
    {"zero_optimization.cpu_offload", "false", "optimizer states in host memory are counted on the GPU"},
};

constexpr DialectRow kNemo[] = {
    {"model.*", "num-layers hidden-size ffn-hidden-size num-attention-heads num-query-groups kv-channels"},
    {"model.encoder_seq_length", "seq-length"},
    {"model.data.train_ds.max_seq_length", "seq-length"},
    {"model.*",
     "max-position-embeddings tensor-model-parallel-size sequence-parallel pipeline-model-parallel-size "
     "num-virtual-stages-per-pipeline-rank context-parallel-size expert-model-parallel-size num-experts "
     "moe-router-topk micro-batch-size"},
    {"model.data.train_ds.*", "micro-batch-size"},
    {"model.*", "global-batch-size"},
    {"model.data.train_ds.*", "global-batch-size"},
    {"model.bias", "disable-bias-linear"},
    {"model.*", "untie-embeddings-and-output-weights position-embedding-type hidden-dropout"},
    {"model.tokenizer.type", "tokenizer-type"},
    {"model.tokenizer.model", "tokenizer-model"},
    {"model.tokenizer.vocab_file", "vocab-file"},
    {"model.activations_checkpoint_granularity", "recompute-granularity"},
    {"model.*", "no-gradient-accumulation-fusion"},
    {"model.ub_tp_comm_overlap", "tp-comm-overlap"},
    {"model.optim.overlap_grad_sync", "overlap-grad-reduce"},
    {"model.optim.overlap_param_sync", "overlap-param-gather"},
    {"model.*", "fp8-hybrid"},
};
constexpr auto kNemoDerived = word_list([] {
  return "model.activation model.virtual_prompt_style model.adapter_tuning.type model.language_model_path "
         "exp_manager.name model.normalization model.optim.name model.activations_checkpoint_method "
         "model.activations_checkpoint_num_layers model.fp8 model.peft.peft_scheme model.tokenizer.type "
         "model.fsdp model.peft.lora_tuning.adapter_dim model.attention_type model.precision";
});

void set(MegatronArgs& args, std::string_view flag, const std::string& value, std::string where) {
  args.given[std::string(flag)] = {value.empty() ? std::vector<std::string>{} : std::vector<std::string>{value},
                                   std::move(where)};
}
void unused(const StatedKeys& keys, std::string_view key, MegatronArgs& args, std::string_view text) {
  args.unused.push_back({"not_used", fmt::format("{}: `{}`: {}", where_of(keys, key), key, text)});
}

void gated(MegatronArgs& args, const std::string& activation, const std::string& where) {
  if (activation.find("glu") != std::string::npos || activation == "bilinear") set(args, "swiglu", "", where);
}

/// The feed-forward as GPT-NeoX builds it: where it is gated, it has as many weights as one of `intermediate_size` that
/// is not, so its own width is a third of that (gpt-neox main, model/transformer.py, ParallelMLP).
void derive_neox_width(const StatedKeys& keys, MegatronArgs& args) {
  const double hidden = number_of(keys, "hidden_size"), stated = number_of(keys, "intermediate_size"),
               factor = parse_number(word_of(keys, "expansion_factor")).value_or(4);
  if (hidden <= 0 || args.has("num-experts") || lowered(word_of(keys, "mlp_type")) == "llama") return;
  auto width = static_cast<std::int64_t>(stated > 0 ? stated : factor * hidden);
  if (args.has("swiglu")) width = width * 2 / 3 / 2;
  const std::int64_t multiple = std::max(1, number_of(keys, "mlp_multiple_of"));
  const std::string key = stated > 0                          ? "intermediate_size"
                          : keys.contains("expansion_factor") ? "expansion_factor"
                                                              : "activation";
  set(args, "ffn-hidden-size", fmt::format("{}", (width + multiple - 1) / multiple * multiple), where_of(keys, key));
}

/// Attention's kernel, which is PyTorch's own unless every layer is said to use flash attention, the shape of the
/// feed-forward and biases.
void derive_neox_layers(const StatedKeys& keys, MegatronArgs& args) {
  bool flash = false, dense = true;
  if (const auto attention = keys.find("attention_config"); attention != keys.end()) {
    std::string words;
    for (const std::string& value : attention->second.values) words += value + " ";
    for (const std::string_view kind : {"local", "bslongformer", "bigbird", "sparse", "gmlp", "amlp", "mamba", "rwkv"})
      dense &= words.find(kind) == std::string::npos;
    flash = words.find("flash") != std::string::npos;
    if (!dense || (flash && words.find("global") != std::string::npos))
      unused(keys, "attention_config", args, "layers of several kinds are counted as full attention");
  }
  if (!flash) set(args, "attention-backend", "unfused", where_of(keys, "attention_config"));
  if (args.has("num-experts") && !args.has("moe-router-topk")) set(args, "moe-router-topk", "1", "");
  if (lowered(word_of(keys, "mlp_type")) == "llama") {
    set(args, "swiglu", "", where_of(keys, "mlp_type"));
    if (!args.has("ffn-hidden-size"))
      unused(keys, "mlp_type", args, "the width of the feed-forward is counted as 8/3 of the layer's");
  }
  const bool attention = lowered(word_of(keys, "use_bias_in_attn_linear")) == "false",
             ffn = lowered(word_of(keys, "use_bias_in_mlp")) == "false";
  if (attention && ffn) set(args, "disable-bias-linear", "", where_of(keys, "use_bias_in_mlp"));
  if (attention != ffn)
    unused(keys, attention ? "use_bias_in_attn_linear" : "use_bias_in_mlp", args,
           "biases are counted in both attention and feed-forward");
}

void derive_neox(const StatedKeys& keys, const LaunchFacts&, MegatronArgs& args) {
  args.fork = true;
  const int stages = std::max(1, number_of(keys, "pipe_parallel_size"));  // 0: no pipeline module
  set(args, "pipeline-model-parallel-size", fmt::format("{}", stages), where_of(keys, "pipe_parallel_size"));
  args.given.erase("bf16");
  std::string precision = lowered(word_of(keys, "precision"));
  std::string key = "precision";
  if (is_on(keys, "bf16.enabled")) precision = "bfloat16", key = "bf16.enabled";
  if (is_on(keys, "fp16.enabled"))
    precision = word_of(keys, "fp16.type") == "bfloat16" ? "bfloat16" : "fp16", key = "fp16.enabled";
  if (precision == "bfloat16" || precision == "bf16") set(args, "bf16", "", where_of(keys, key));
  if (precision == "fp16") set(args, "fp16", "", where_of(keys, key));
  if (!precision.empty() && !args.has("bf16") && !args.has("fp16")) args.fp32_where = where_of(keys, key);
  if (is_on(keys, "checkpoint_activations")) {
    set(args, "recompute-granularity", "full", where_of(keys, "checkpoint_activations"));
    set(args, "recompute-method", "uniform", where_of(keys, "checkpoint_activations"));
    set(args, "recompute-num-layers", fmt::format("{}", std::max(1, number_of(keys, "checkpoint_num_layers"))),
        where_of(keys, "checkpoint_num_layers"));
  }
  const std::string positions = word_of(keys, "pos_emb");
  // Its pipelines, which one stage makes as well, reduce behind the last backward pass whatever DeepSpeed's file says.
  if (is_on(keys, "zero_optimization.overlap_comm") && number_of(keys, "zero_optimization.stage") > 0 &&
      number_of(keys, "pipe_parallel_size") == 0)
    set(args, "overlap-grad-reduce", "", where_of(keys, "zero_optimization.overlap_comm"));
  if (positions == "rotary") set(args, "position-embedding-type", "rope", where_of(keys, "pos_emb"));
  if (positions == "alibi" || positions == "none" || positions == "sinusoidal" || positions == "rpe")
    set(args, "no-position-embedding", "", where_of(keys, "pos_emb"));
  if (word_of(keys, "norm") == "rmsnorm") set(args, "normalization", "RMSNorm", where_of(keys, "norm"));
  gated(args, word_of(keys, "activation"), where_of(keys, "activation"));
  if (!args.has("hidden-dropout")) set(args, "hidden-dropout", "0", "");
  if (!args.has("tokenizer-type")) set(args, "tokenizer-type", "GPT2BPETokenizer", "");
  derive_neox_layers(keys, args);
  derive_neox_width(keys, args);
  const std::string optimizer = lowered(word_of(keys, "optimizer.type"));
  if (optimizer == "sgd") set(args, "optimizer", "sgd", where_of(keys, "optimizer.type"));
  if (!optimizer.empty() && optimizer != "sgd" && optimizer != "adam" && optimizer != "adamw")
    unused(keys, "optimizer.type", args, fmt::format("the optimizer `{}` is counted as adam", optimizer));
}

/// What changes memory or time of NeMo's first generation and is counted as if it were one of the plain words.
constexpr CountedAs kNemoCounted[] = {
    {"trainer.accumulate_grad_batches", "1", "NeMo stops at more than 1: a step is counted as the global batch"},
    {"model.use_flash_attention", "true", "attention is counted as a fused kernel"},
    {"model.transformer_engine", "true", "kernels are counted as TransformerEngine's"},
    {"model.megatron_amp_o2", "true", "weights are counted in the format of the products, with fp32 masters"},
    {"model.megatron_amp_O2", "true", "weights are counted in the format of the products, with fp32 masters"},
    {"model.optim.grad_sync_dtype", "fp32 float32", "gradients are counted as reduced in fp32"},
    {"model.attention_type", "multihead", "another mixer is counted as attention"},
};

void derive_nemo(const StatedKeys& keys, const LaunchFacts&, MegatronArgs& args) {
  args.fork = true;
  gated(args, word_of(keys, "model.activation"), where_of(keys, "model.activation"));
  if (word_of(keys, "model.normalization").find("rmsnorm") != std::string::npos)
    set(args, "normalization", "RMSNorm", where_of(keys, "model.normalization"));
  const std::string optimizer = word_of(keys, "model.optim.name");
  if (optimizer.starts_with("distributed") || optimizer.starts_with("mcore_distributed"))
    set(args, "use-distributed-optimizer", "", where_of(keys, "model.optim.name"));
  const std::string method = word_of(keys, "model.activations_checkpoint_method");
  if (args.text("recompute-granularity") == "full") {
    const int layers = number_of(keys, "model.activations_checkpoint_num_layers");
    set(args, "recompute-method", method == "block" ? "block" : "uniform",
        where_of(keys, "model.activations_checkpoint_method"));
    set(args, "recompute-num-layers", fmt::format("{}", std::max(1, layers)),
        where_of(keys, "model.activations_checkpoint_num_layers"));
    if (layers == 0 && method == "block") args.given.erase("recompute-granularity");
  }
  if (!is_on(keys, "model.fp8")) args.given.erase("fp8-hybrid");
  if (is_on(keys, "model.fsdp"))
    unused(keys, "model.fsdp", args, "PyTorch's FSDP is counted as plain data parallelism");
  if (!optimizer.empty() && optimizer.find("adam") == std::string::npos)
    unused(keys, "model.optim.name", args, fmt::format("the optimizer `{}` is counted as adam", optimizer));
  const bool stated = !word_of(keys, "trainer.precision").empty();
  const std::string_view format = stated ? number_format(word_of(keys, "trainer.precision")) : "bf16";
  for (const char* key : {"model.precision", "model.dtype", "model.params_dtype", "model.autocast_dtype"})
    if (const std::string word = word_of(keys, key); !switched_off(word) && number_format(word) != format)
      unused(keys, key, args,
             fmt::format("the number format is counted as {}", stated ? "`trainer.precision` says" : format));
  const std::string scheme = lowered(word_of(keys, "model.peft.peft_scheme"));
  if (scheme == "lora" || scheme == "qlora") {
    args.task = scheme == "lora" ? Task::Lora : Task::Qlora;
    args.task_where = where_of(keys, "model.peft.peft_scheme");
    args.lora_rank = number_of(keys, "model.peft.lora_tuning.adapter_dim");
  } else if (!scheme.empty() && scheme != "null" && scheme != "none") {
    unused(keys, "model.peft.peft_scheme", args,
           "adapters of another kind than LoRA: all weights are counted as trained");
  }
  // The programs before `peft`: prompts, adapters and IA3 beside a model that is frozen.
  for (const char* key : {"model.virtual_prompt_style", "model.adapter_tuning.type", "model.language_model_path"})
    if (!word_of(keys, key).empty() && scheme.empty()) {
      unused(keys, key, args,
             "what is trained beside a frozen model is not counted: all weights are counted as trained");
      break;
    }
}

const Dialect& neox_dialect() {
  static const Dialect dialect{"gpt-neox",   keys_of_rows(kNeox), "",           "",    "",          "",
                               kNeoxDerived, derive_neox,         kNeoxCounted, false, kNeoxNumbers};
  return dialect;
}
const Dialect& nemo_dialect() {
  static const Dialect dialect{
      "nemo",       keys_of_rows(kNemo), "",          "trainer.num_nodes", "trainer.devices", "trainer.precision",
      kNemoDerived, derive_nemo,         kNemoCounted};
  return dialect;
}

/// All files' keys; hyphens as underscores, which GPT-NeoX takes for the same.
Result<StatedKeys> cousin_keys(std::span<const LaunchSource> files, bool hyphens) {
  StatedKeys keys;
  for (const LaunchSource& source : files) {
    const Result<StatedKeys> own = keys_of_yaml(source);
    if (!own) return fail(own.error());
    for (const auto& [key, value] : *own) {
      std::string name = key;
      if (hyphens) std::replace(name.begin(), name.end(), '-', '_');
      keys.try_emplace(name, value);
    }
  }
  return keys;
}

/// The launcher's `main.py training=gpt3/5b training.trainer.num_nodes=8`: overrides over the file of that name.
Result<StatedKeys> keys_of_launcher(const LaunchSource& source) {
  const Result<StatedKeys> words = keys_of_overrides(source, "launcher_scripts/main.py");
  if (!words) return fail(words.error());
  for (const std::string stage : {"training", "fine_tuning", "peft"}) {
    const auto chosen = words->find(stage);
    if (chosen == words->end() || chosen->second.values.size() != 1) continue;
    const std::string name = fmt::format("launcher_scripts/conf/{}/{}.yaml", stage, chosen->second.values.front());
    const std::optional<LaunchSource> file = beside(source, name);
    if (!file)
      return fail(
          {"missing_file",
           fmt::format("{}: `{}` is not in a folder above, and the job is described there", chosen->second.where, name),
           {},
           {"read the script inside a checkout of the launcher"}});
    Result<StatedKeys> keys = keys_of_yaml(*file);
    if (!keys) return keys;
    for (const auto& [key, value] : *words)
      if (key.starts_with(stage + ".")) (*keys)[key.substr(stage.size() + 1)] = value;
    return keys;
  }
  return fail({"training_not_understood",
               fmt::format("{}: the launcher's command names no training, fine_tuning or peft", source.path),
               {},
               {"state the job with `--model`, `--gpus` and `--layout`"}});
}

/// NeMo's encoders, and its models of two stacks, by keys that no decoder has or by the name of the job.
std::optional<Error> no_nemo_decoder(const StatedKeys& keys) {
  constexpr std::string_view kOf[] = {"model.encoder.",
                                      "model.decoder.",
                                      "model.vision",
                                      "model.hyena.",
                                      "model.mm_cfg",
                                      "model.unet_config",
                                      "model.bert_binary_head",
                                      "model.decoder_seq_length",
                                      "model.data.masked_lm_prob"};
  for (const auto& [key, value] : keys) {
    const std::string_view name = key;
    const bool words = name == "model.tokenizer.type" && word_of(keys, name).starts_with("BertWordPiece");
    if (words ||
        std::any_of(std::begin(kOf), std::end(kOf), [name](std::string_view of) { return name.starts_with(of); }))
      return Error{"not_a_decoder", fmt::format("{}: `{}` belongs to a model that is no decoder, which plan does not "
                                                "model",
                                                value.where, name)};
  }
  for (const char* key : {"exp_manager.name", "name"}) {
    std::string name = lowered(word_of(keys, key));
    if (const std::size_t gpt = name.find("gpt"); gpt != std::string::npos) name.erase(gpt, 3);  // `gpt5b` is no T5
    for (const std::string_view other : {"t5", "bert", "bart", "aayn", "retro"})
      if (name.find(other) != std::string::npos)
        return Error{"not_a_decoder",
                     fmt::format("{}: `{}: {}` is a model that is no decoder, which plan does not model",
                                 where_of(keys, key), key, yaml::printable(word_of(keys, key)))};
  }
  return std::nullopt;
}

/// Fine-tuning batches what `train_ds` says and takes nothing of the model's own keys for it: samples are cut and
/// padded to its length, and its batches are written over the model's (NeMo 1, gpt_sft_dataset.py,
/// megatron_gpt_sft.py).
std::vector<Note> take_dataset(StatedKeys& keys) {
  std::vector<Note> notes;
  for (const auto& [model, dataset] : {std::pair{"model.encoder_seq_length", "model.data.train_ds.max_seq_length"},
                                       {"model.micro_batch_size", "model.data.train_ds.micro_batch_size"},
                                       {"model.global_batch_size", "model.data.train_ds.global_batch_size"}}) {
    const auto own = keys.find(model);
    if (own == keys.end() || number_of(keys, dataset) < 1 || word_of(keys, model) == word_of(keys, dataset)) continue;
    notes.push_back(
        {"not_the_models", fmt::format("{}: `{}: {}` counts, and not `{}: {}` at {}", where_of(keys, dataset), dataset,
                                       yaml::printable(word_of(keys, dataset)), model,
                                       yaml::printable(word_of(keys, model)), own->second.where)});
    keys.erase(own);
  }
  return notes;
}

}  // namespace

bool is_gpt_neox(const LaunchSource& source) {
  if (is_shell(source) || source.path.ends_with(".py")) return false;
  const bool layers = mentions(source, "num_layers") || mentions(source, "num-layers");
  for (const char* key : {"pipe_parallel_size", "pipe-parallel-size"})
    if (mentions(source, key)) return layers;
  return layers && (mentions(source, "\"model_parallel_size\"") || mentions(source, "\"model-parallel-size\""));
}

Result<LaunchJob> read_gpt_neox(std::span<const LaunchSource> files, const LaunchFacts& facts) {
  const Result<StatedKeys> keys = cousin_keys(files, true);
  if (!keys) return fail(keys.error());
  Result<LaunchJob> job = dialect_job(neox_dialect(), *keys, facts);
  if (job && keys->find("tokenizer_type") == keys->end())
    assume(*job, "tokenizer", "GPT2BPETokenizer", "default of gpt-neox");
  if (!job || job->states_global_batch) {
    if (!job || !word_of(*keys, "train_batch_size").empty()) return job;
  }
  const int steps = std::max(1, number_of(*keys, "gradient_accumulation_steps"));
  std::erase_if(job->inputs, [](const Input& input) { return input.key == "global_batch"; });  // of one micro-batch
  job->rank_batch =
      RankBatch{.steps = steps, .sequences = 0, .where = where_of(*keys, "train_micro_batch_size_per_gpu")};
  return job;
}

bool is_nemo(const LaunchSource& source) {
  if (is_shell(source)) return mentions(source, "launcher_scripts/main.py") && mentions(source, "stages=");
  if (source.path.ends_with(".json")) return false;
  return mentions(source, "trainer:") && mentions(source, "exp_manager:") && mentions(source, "model:") &&
         (mentions(source, "tensor_model_parallel_size:"));
}

Result<LaunchJob> read_nemo(std::span<const LaunchSource> files, const LaunchFacts& facts) {
  const std::vector<std::string> null = {"null"};
  Result<StatedKeys> keys = is_shell(files.front()) ? keys_of_launcher(files.front()) : cousin_keys(files, false);
  if (!keys) return fail(keys.error());
  interpolate(*keys);
  if (std::optional<Error> error = no_nemo_decoder(*keys)) return fail(std::move(*error));
  const std::vector<Note> notes = take_dataset(*keys);
  if (const auto format = keys->find(nemo_dialect().precision); format != keys->end() && format->second.values == null)
    format->second.values = {"32"};  // as Lightning's Trainer takes it
  Result<LaunchJob> job = dialect_job(nemo_dialect(), *keys, facts);
  if (job) job->notes.insert(job->notes.end(), notes.begin(), notes.end());
  return job;
}

}  // namespace plan
