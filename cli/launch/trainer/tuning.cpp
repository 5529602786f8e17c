// What the Trainer's arguments say of fine-tuning: adapters, frozen layers, quantised bases, and the defaults of the
// tools that add their own. Tested by tests/launch/reading_test.cpp and trainer_tuning_test.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <tuple>

#include "cli/launch/job/counted_as.hpp"
#include "cli/launch/job/lora_targets.hpp"
#include "cli/launch/job/unread.hpp"
#include "cli/launch/job/weighty_names.hpp"
#include "cli/launch/trainer/hugging_face.hpp"
#include "cli/launch/trainer/sources.hpp"
#include "cli/settings/settings.hpp"
#include "formulas/names.hpp"
#include "formulas/words.hpp"
#include "presets/suggest.hpp"
#include "presets/yaml.hpp"

namespace plan::hugging_face {
namespace {

/// transformers 5.23 and TRL, LLaMA-Factory 0.9.5 hparams, axolotl 0.13 schemas, ms-swift 4 arguments, OpenRLHF 0.8 and
/// its main branch (openrlhf/cli).
constexpr TrainerTool kTools[] = {
    {.name = "the Trainer", .key = "", .micro_batch = 8, .rank = 16},
    {.name = "llama-factory",
     .key = "llama-factory",
     .micro_batch = 8,
     .rank = 8,
     .seq = 2048,
     .adapters = true,
     .checkpointing = true},
    {.name = "llama-factory-v1",
     .key = "llama-factory-v1",
     .micro_batch = 1,
     .rank = 8,
     .seq = 2048,
     .checkpointing = true,
     .bf16 = true},
    {.name = "axolotl", .key = "axolotl", .micro_batch = 1, .rank = 8, .seq = 512, .bf16 = true},
    {.name = "ms-swift",
     .key = "ms-swift",
     .micro_batch = 1,
     .rank = 8,
     .adapters = true,
     .checkpointing = true,
     .bf16 = true},
    {.name = "torchtune", .key = "torchtune", .micro_batch = 1, .rank = 8, .bf16 = true, .pure = true},
    {.name = "OpenRLHF", .key = "openrlhf", .micro_batch = 8, .batch = 128},
    {.name = "OpenRLHF's reward trainer", .key = "openrlhf-rm", .micro_batch = 1, .batch = 128},
    {.name = "OpenRLHF's PPO", .key = "openrlhf-ppo", .micro_batch = 4, .batch = 128},
    {.name = "OpenRLHF's PPO", .key = "openrlhf-ppo-main", .micro_batch = 1, .batch = 128},
};

/// Keys that add models, freeze layers or change what is kept, and that nothing here counts.
struct Weighing {
  std::string_view key;
  std::string_view what;
};
constexpr Weighing kChangesTuning[] = {
    {"args.use_galore", "GaLore's optimizer is counted as plain"},
    {"args.use_apollo", "APOLLO's optimizer is counted as plain"},
    {"args.use_badam", "BAdam trains a block of layers at a time: counted as all"},
    {"args.use_adam_mini", "Adam-mini's states are counted as adam's"},
    {"args.use_unsloth", "Unsloth's kernels are not modelled"},
    {"args.unsloth", "Unsloth's kernels are not modelled"},
    {"args.load_in_8bit", "a base in 8 bits is counted in 16"},
    {"args.deepspeed_configs", "the file is not here: that of axolotl's own deepspeed_configs is counted"},
    {"args.adapters_beside", "adapters beside weights that are trained, too, are not counted"},
    {"args.dist_plugin", "a plugin of its own is counted as FSDP2"},
    {"args.batching_strategy", "samples packed or padded otherwise are counted as sequences of full length"},
    {"args.use_dora", "DoRA's norms are counted as LoRA"},
    {"args.peft_use_dora", "DoRA's norms are counted as LoRA"},
    {"args.mixture_of_depths", "mixture of depths skips layers: counted as all"},
    {"args.use_llama_pro", "LLaMA Pro trains added blocks alone: counted as all"},
    {"args.relora", "ReLoRA's restarts are not modelled"},
    {"args.pure_bf16", "weights and states in bf16 are counted with fp32 master weights"},
    {"args.model.apply_lora_to_output", "an adapter of the output layer is not counted"},
    {"args.optimizer_in_bwd", "gradients that are freed as they are used are counted as kept"},
    {"args.enable_activation_offloading", "activations that go to the host are counted on the GPU"},
    {"args.quantizer", "what training for quantization adds is not counted"},
    {"args.torch_compile", "kernels that torch.compile fuses are counted one by one"},
    {"args.loss_in_chunks", "a loss in chunks of the output is counted whole"},
    {"args.compile", "kernels that torch.compile fuses are counted one by one"},
    {"args.unfrozen_parameters", "frozen weights are counted as trained"},
    {"args.trainable_parameters", "frozen weights are counted as trained"},
    {"args.trainable_parameters_regex", "frozen weights are counted as trained"},
    {"args.lisa_n_layers", "LISA trains some layers at a time: counted as all"},
    {"args.lisa_activated_layers", "LISA trains some layers at a time: counted as all"},
    {"args.spectrum_config_path", "frozen weights are counted as trained"},
    {"args.spectrum_top_fraction", "frozen weights are counted as trained"},
    {"args.num_padding_at_beginning", "DeepSpeed-Chat's reward models, their heads and pairs are not counted"},
    {"args.optim_target_modules", "an optimizer on some modules only is counted on all"},
    {"args.use_unsloth_gc", "activations that go to the host are counted on the GPU"},
    {"args.use_kt", "layers that stay on the host are counted on the GPU"},
    {"args.shift_attn", "attention in shifted groups is counted as full"},
    {"args.s2_attention", "attention in shifted groups is counted as full"},
    {"args.tiled_mlp", "a feed-forward in tiles of the sequence is counted whole"},
    {"args.flash_attn_rms_norm", "norms that flash-attn fuses are counted apart"},
    {"args.flash_attn_fuse_qkv", "products of queries, keys and values are counted apart"},
    {"args.flash_attn_fuse_mlp", "products of the feed-forward layer are counted apart"},
    {"args.chunked_cross_entropy", "a loss in chunks is counted whole"},
    {"args.bfloat16", "weights and states in bf16 alone are counted with fp32 master weights"},
    {"args.float16", "weights and states in fp16 alone are counted with fp32 master weights"},
    {"args.qat.", "what training for quantization adds is not counted"},
    {"args.kd_trainer", "a teacher beside the trained model is not counted"},
    {"args.auto_find_batch_size", "a smaller batch that the program may turn to is not counted"},
    {"args.accelerator_config.split_batches", "the batch of a device is counted as each rank's own"},
    {"args.num_labels", "the head of another task is counted as the vocabulary's"},
    {"args.full_determinism", "deterministic kernels are counted as quick as others"},
    {"args.torch_empty_cache_steps", "emptying the allocator's cache is counted as taking no time"},
    {"args.reward_model", "the head of another task is counted as the vocabulary's"},
    {"args.process_reward_model", "the head of another task is counted as the vocabulary's"},
    {"args.num_generations", "answers are counted as the batch of a device says"},
    {"args.trainable_tokens_indices", "embeddings trained beside adapters are not counted"},
};

constexpr const char* kRanks[] = {"args.lora_rank", "args.lora_r", "args.peft_lora_r"};

/// The setting of a key, or the first of a section, whose name ends in a dot.
const Setting* stated(Settings& settings, std::string_view key) {
  if (!key.ends_with('.')) return settings.get(key);
  for (const Setting& setting : settings.all())
    if (setting.key.starts_with(key)) return settings.get(setting.key);
  return nullptr;
}

/// Which linears carry an adapter, as far as the names of the modules tell attention from feed-forward.
void read_targets(JobBuilder& builder) {
  Settings& settings = builder.settings;
  std::string_view named;
  for (const std::string_view key : {"args.lora_target", "args.lora_target_modules", "args.target_modules"})
    if (settings.get(key) != nullptr) named = key;
  if (named.empty() || settings.boolean("args.lora_target_linear").value_or(false)) return;
  const Setting& setting = *settings.get(named);  // a flag's words are items beside the first
  const std::vector<std::string> words = setting.items.empty() ? words_of(setting) : setting.items;
  const std::optional<LoraTargets> targets = lora_targets(words);
  if (!targets) return;
  builder.training.lora.attention = targets->attention, builder.training.lora.ffn = targets->ffn;
  if (!targets->counted_as.empty()) builder.unused(named, targets->counted_as);
}

/// InternVL's `--use_llm_lora 16`: adapters of that rank. Those of another part, `use_backbone_lora`, are not the
/// language model's.
bool switches_by_rank(const Setting& setting) {
  const std::string_view key = setting.key;
  for (const std::string_view part : {"backbone", "vision", "visual", "vit_", "image", "tower", "audio", "qlora"})
    if (key.find(part) != key.npos) return false;
  const std::string& word = setting.value;
  if (key.starts_with("args.") && is_slip_of_argument(key.substr(5))) return false;
  return key.starts_with("args.use_") && key.ends_with("lora") && !setting.list && word != "1" &&
         word.find_first_not_of("0123456789") == word.npos && word.find_first_of("123456789") != word.npos;
}

/// The key that states the rank of adapters: a tool's, or a program's own (`--init_lora_rank`); empty: none does.
std::string rank_key(const Settings& settings) {
  for (const char* key : kRanks)
    if (settings.states(key)) return key;
  for (const Setting& setting : settings.all()) {
    const std::string_view key = setting.key;
    const bool names = key.starts_with("args.") && (key.ends_with("lora_rank") || key.ends_with("lora_r"));
    if ((names && !of_another_model(key)) || switches_by_rank(setting)) return setting.key;
  }
  return "";
}

void read_rank(JobBuilder& builder, const TrainerTool& tool) {
  if (const std::string key = rank_key(builder.settings); !key.empty()) {
    builder.training.lora.rank = builder.degree(key, tool.rank);
    return builder.origin("lora_rank", fmt::format("{}", builder.training.lora.rank), key);
  }
  builder.training.lora.rank = tool.rank;
  // TRL's own programs have a default; others have theirs: 64 in LLaVA's train.py, Qwen's and MiniCPM-V's finetune.py.
  const bool own = tool.key.empty() && !builder.settings.states("trl") && !builder.settings.states("args.use_peft");
  for (const char* key : {"args.lora_enable", "args.use_lora"})
    if (own && builder.settings.states(key)) builder.training.lora.rank = 64;
  const std::string rank = fmt::format("{}", builder.training.lora.rank);
  if (own) return builder.guess("lora_rank", rank, "the program decides it");
  assume(builder.job, "lora_rank", rank, fmt::format("default of {}", tool.name));
}

/// A program's own key for how weights are trained, `train_mode: qlora`, `peft_type: lora`: no other key says so.
std::pair<std::string, std::string> own_method(Settings& settings, const TrainerTool& tool) {
  constexpr std::string_view kOfTools[] = {"finetuning_type", "tuner_type", "train_type"};
  constexpr std::string_view kWhat[] = {"train", "tun", "peft", "adapter"}, kHow[] = {"mode", "type", "method"};
  for (const Setting& setting : settings.all()) {
    const std::string_view key = setting.key;
    const std::string word = lowered(setting.value);
    if (!key.starts_with("args.") || setting.list || of_another_model(key) || !holds_any(key, kWhat) ||
        !holds_any(key, kHow) || (!tool.key.empty() && is_slip(key.substr(5), kOfTools)))
      continue;
    if (word == "lora" || word == "qlora" || word == "full" || word == "freeze")
      return {word, std::string(settings.get(key)->key)};
  }
  return {};
}

/// `lora`, `qlora`, `full` ... under the key of each tool; the tool's default where it is not stated.
std::pair<std::string, std::string> method(Settings& settings, const TrainerTool& tool) {
  for (const char* key : {"args.finetuning_type", "args.tuner_type", "args.adapter"})
    if (const std::optional<std::string> word = settings.text(key); word && !word->empty())
      return {lowered(*word), key};
  if (auto own = own_method(settings, tool); !own.first.empty()) return own;
  if (settings.boolean("args.use_peft").value_or(false)) return {"lora", "args.use_peft"};
  for (const char* key : {"args.use_lora", "args.lora_enable", "args.lora", "args.low_rank_training"})
    if (settings.states(key)) return {switch_of(settings, key).value_or(false) ? "lora" : "full", key};
  // A program's own name for it: `--use_peft_lora True`, `--enable_lora`, `--use_qlora 1`.
  for (const Setting& setting : settings.all()) {
    const std::string_view key = setting.key;
    const bool names = key.starts_with("args.") && (key.find("lora") != key.npos || key.find("peft") != key.npos);
    if (switches_by_rank(setting) && settings.get(key) != nullptr) return {"lora", std::string(key)};
    if (!names || setting.list || of_another_model(key) || !truth_of(setting.value)) continue;
    const bool switches = key.starts_with("args.use_") || key.starts_with("args.enable_") || key.ends_with("_enable") ||
                          key.ends_with("_enabled") || key == "args.peft";
    if (switches && key != "args.use_rslora" && key != "args.use_dora" && settings.boolean(key).value_or(false))
      return {key.find("qlora") != key.npos ? "qlora" : "lora", std::string(key)};
  }
  return {tool.adapters ? "lora" : "", ""};
}

/// Bits of the weights that a name on the hub tells of, `Llama-3-8B-Instruct-GPTQ`, and the key that has it; 0: none.
std::pair<int, std::string> bits_by_name(Settings& settings) {
  constexpr std::pair<std::string_view, int> kMarks[] = {{"8bit", 8}, {"int8", 8}, {"fp8", 8},  {"w8a8", 8},
                                                         {"4bit", 4}, {"int4", 4}, {"nf4", 4},  {"w4a16", 4},
                                                         {"gptq", 4}, {"awq", 4},  {"aqlm", 4}, {"hqq", 4}};
  for (const char* key : {"args.model_name_or_path", "args.model"}) {
    std::string name = lowered(settings.text(key).value_or(""));
    while (name.ends_with('/')) name.pop_back();
    name = std::string(base_name(name));
    for (const auto& [mark, bits] : kMarks)
      if (const std::size_t at = name.find(mark);
          at != name.npos && at > 0 && (name[at - 1] == '-' || name[at - 1] == '_'))
        return {bits, key};
  }
  return {0, ""};
}

/// What tools and programs call the bits of the weights that adapters are added to.
constexpr const char* kBits[] = {"args.quantization_bit", "args.quant_bits",   "args.bits",        "args.q_lora",
                                 "args.load_in_kbits",    "args.load_in_bits", "args.quantization"};

/// A base in 8 bits, of which no law is known.
void tell_eight_bits(JobBuilder& builder) {
  for (const char* key : kBits)
    if (const std::string word = lowered(builder.settings.text(key).value_or("")); word == "8" || word == "8bit")
      builder.unused(key, "a base in 8 bits is counted in 16");
}

/// Key that loads the weights in 4 bits, under the names of the tools or one of a program's own: `--use_4bit`.
std::string four_bits(Settings& settings) {
  constexpr std::string_view kLoad = "args.load_in_4bit";
  if (settings.states(kLoad)) return switch_of(settings, kLoad).value_or(false) ? std::string(kLoad) : "";
  for (const char* key : kBits)
    if (const std::optional<std::string> word = settings.text(key);
        word && (*word == "4" || (*word != "1" && truth_of(*word).value_or(false)) || lowered(*word) == "4bit" ||
                 lowered(*word) == "nf4"))
      return key;
  for (const Setting& setting : settings.all()) {
    const std::string_view key = setting.key;
    const bool names = key.find("4bit") != key.npos || key.find("4_bit") != key.npos || key.find("qlora") != key.npos;
    if (key.starts_with("args.") && names && !setting.list && !of_another_model(key) && truth_of(setting.value) &&
        settings.boolean(key).value_or(false))
      return setting.key;
  }
  const auto [bits, named] = bits_by_name(settings);
  return bits == 4 ? named : "";
}

/// Where nothing switches adapters on: weights in 4 bits cannot be trained without them, and a program that asks for
/// their rank trains them, but for TRL's own, which wait for `--use_peft`.
std::pair<std::string, std::string> implied_method(JobBuilder& builder, const std::string& quantized) {
  Settings& settings = builder.settings;
  if (!quantized.empty()) return {"lora", quantized};
  if (settings.states("trl") || settings.states("args.use_peft")) return {"", ""};
  if (const std::string key = rank_key(settings); !key.empty() && settings.text(key).value_or("0") != "0") {
    builder.unused(key, fmt::format("adapters are trained because `{}` is stated: no switch says so", shown_key(key)));
    return {"lora", key};
  }
  for (const Setting& setting : settings.all()) {
    const std::string_view key = setting.key;
    const bool names = key.starts_with("args.") && (key.ends_with("lora_alpha") || key.ends_with("lora_dropout") ||
                                                    key.find("adapter_path") != key.npos);
    if (!names || setting.list || of_another_model(key) || switched_off(setting.value)) continue;
    builder.unused(setting.key, "adapters may be trained: all weights are counted as trained");
    break;
  }
  return {"", ""};
}

/// Embeddings, heads and the like that are trained whole beside adapters: a list, or words with commas.
void name_whole_modules(JobBuilder& builder) {
  for (const char* key : {"args.modules_to_save", "args.lora_modules_to_save", "args.additional_target"})
    if (const Setting* setting = builder.settings.get(key);
        setting != nullptr && (setting->list ? !setting->items.empty() : !switched_off(setting->value)))
      builder.unused(key, fmt::format("modules trained whole beside adapters (`{}`) are not counted", shown_key(key)));
}

}  // namespace

const TrainerTool& tool_of(Settings& settings) {
  const std::string word = settings.text("tool").value_or("");
  for (const TrainerTool& tool : kTools)
    if (tool.key == word) return tool;
  return kTools[0];
}

void read_tuning(JobBuilder& builder) {
  Settings& settings = builder.settings;
  const TrainerTool& tool = tool_of(settings);
  auto [word, key] = method(settings, tool);
  const std::string quantized = four_bits(settings);
  if (word.empty()) std::tie(word, key) = implied_method(builder, quantized);
  if (const auto [bits, named] = bits_by_name(settings); bits == 8)
    builder.unused(named, "weights in 8 bits, as the model's name has them, are counted as bf16");
  if (word == "qlora" || (word == "lora" && !quantized.empty())) {
    builder.training.task = Task::Qlora;
  } else if (word == "lora" || word.starts_with("lora_") || word == "longlora" || word == "adalora" || word == "oft") {
    builder.training.task = Task::Lora;
    if (word != "lora") builder.unused(key, fmt::format("`{}` is counted as LoRA", word));
  } else {
    const bool pretrain = settings.text("args.stage").value_or("") == "pt" || settings.states("args.config_name");
    builder.training.task = pretrain ? Task::Pretrain : Task::FullFinetune;
    if (!word.empty() && word != "full" && word != "none")
      builder.unused(key, fmt::format("`{}` trains some layers only: all are counted", word));
  }
  builder.origin("task", name(builder.training.task), key);
  constexpr std::string_view kByName = "args.may train adapters";
  if (word.empty() && settings.states(kByName))
    builder.unused(kByName, fmt::format("`{}` may train adapters without a word of it: all weights are counted as "
                                        "trained",
                                        yaml::printable(settings.text(kByName).value_or(""))));
  constexpr std::string_view kRank = "args.rank";
  if (word.empty() && settings.integer(kRank).value_or(0) > 1)
    builder.unused(kRank, "adapters of this rank may be trained: all weights are counted as trained");
  tell_eight_bits(builder);
  tell_parts(builder);
  if (builder.training.adapters()) {
    read_rank(builder, tool);
    read_targets(builder);
    name_whole_modules(builder);
  }
  read_attention(builder);
  tell_stage(builder);
  tell_counted_as(builder, {"args.do_train", "true", "nothing is trained, the file says: counted as if it were"});
  constexpr std::string_view kDecoders[] = {"causal_lm", "pretrain", "sft", "dpo"};  // Firefly's are its stages
  if (const std::string kind = lowered(settings.text("args.task_type").value_or("causal_lm"));
      std::find(std::begin(kDecoders), std::end(kDecoders), kind) == std::end(kDecoders))
    builder.unused("args.task_type", "the head of another task is counted as the vocabulary's");
  // LongAlign, whose rows and their length are its data's: `pack_loss` weighs the samples of a row alone.
  tell_counted_as(builder, {"args.batch_method", "naive",
                            "samples packed or sorted beforehand are counted as sequences of full length"});
  tell_packing(builder);
  tell_counted_as(builder, {"args.ac_mode", "full", "recomputation of some layers is counted as of all"});
  for (const Weighing& row : kChangesTuning) {
    const Setting* setting = stated(settings, row.key);
    if (setting != nullptr && (setting->list ? !setting->items.empty() : !switched_off(setting->value)))
      builder.unused(setting->key, std::string(row.what));
  }
  read_switches(builder);
}

void name_unread(JobBuilder& builder) {
  const std::vector<std::string_view> asked = builder.settings.asked_keys();
  const std::string tool = builder.settings.text("tool").value_or("");
  const std::vector<std::string_view> own = own_names(tool);
  // LLaMA-Factory switches optimizers and methods on by `use_NAME`; these of its own and transformers' weigh nothing.
  constexpr auto kHarmless = word_list([] {
    return "use_fast_tokenizer use_cache use_swanlab use_ray use_cpu use_mps_device use_legacy_prediction_loop "
           "use_audio_in_video use_reentrant_gc use_v1_kernels use_rslora use_jit_compile use_dft_loss "
           "use_asft_loss use_eaft_loss";
  });
  const auto switches = [&](std::string_view key) {
    return tool == "llama-factory" && key.starts_with("use_") &&
           std::find(std::begin(kHarmless), std::end(kHarmless), key) == std::end(kHarmless);
  };
  Unread unread;
  for (const Setting& setting : builder.settings.all()) {
    const std::string_view key = setting.key;
    if (!key.starts_with("args.") || builder.settings.asked(setting)) continue;
    if (!setting.list && says_nothing(key, setting.value)) continue;
    if (builder.refuses_degree(setting, shown_key(key))) continue;
    const bool length = !builder.job.states_seq && !setting.list && sounds_like_length(key, setting.value);
    const bool slip = is_slip(key, asked) || is_slip(key.substr(5), own) || is_slip_of_argument(key.substr(5));
    if (switches(key.substr(5)) || sounds_weighty(key) || length || slip) unread.add(shown_key(key), setting.where());
  }
  unread.tell(builder.job.unused, "these arguments");
  refuse_other_config(builder);
}

}  // namespace plan::hugging_face
