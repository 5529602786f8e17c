// What the Trainer's arguments say: transformers 5.23, TrainingArguments and what its programs add.
// Tested by tests/frameworks/framework_files_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "cli/launch/job/generated_length.hpp"
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

/// The keys that trainers and their front ends have for the length of a sequence.
constexpr std::string_view kLengths[] = {"args.block_size",  "args.max_length",     "args.max_seq_length",
                                         "args.cutoff_len",  "args.sequence_len",   "args.model_max_length",
                                         "args.max_seq_len", "args.seq_length",     "args.seq_len",
                                         "args.max_len",     "args.context_length", "args.per_device_max_tokens",
                                         "args.pack_length"};

/// What the Trainer and programs around it call full recomputation; the first is the Trainer's own.
constexpr std::string_view kCheckpointing[] = {"args.gradient_checkpointing",        "args.use_gradient_checkpointing",
                                               "args.enable_gradient_checkpointing", "args.activation_checkpointing",
                                               "args.use_activation_checkpointing",  "args.grad_checkpoint",
                                               "args.use_grad_checkpoint",           "args.gradient_checkpoint"};

std::string_view length_key(const Settings& settings) {
  for (const std::string_view key : kLengths)
    if (settings.states(key)) return key;
  return kLengths[0];
}

/// GRPO and its like train on a prompt with the answer that the model gives to it: ms-swift's `max_length` is the
/// prompt's alone there, and TRL states both where it states no length.
/// @return false: the length is stated as everywhere else
bool read_generated(JobBuilder& builder, std::string_view length) {
  Settings& settings = builder.settings;
  constexpr std::string_view kAnswer = "args.max_completion_length", kPrompt = "args.max_prompt_length",
                             kMost = "args.vllm_max_model_len";
  const std::string algorithm = lowered(settings.text("args.rlhf_type").value_or(""));
  // A file for `swift rlhf` may leave the algorithm to its command: these are the words of those that have answers.
  const bool answers = settings.states(kAnswer) || settings.states("args.num_generations");
  const bool swift_answers = swift_generates(algorithm) || (algorithm.empty() && answers);
  if (tool_of(settings).key == "ms-swift" && swift_answers && settings.states(length)) {
    const std::int64_t prompt = builder.degree(length, 1), answer = builder.degree(kAnswer, kUsualAnswer);
    builder.sequence(with_answer(prompt, answer, builder.degree(kMost, 0)), length);
    return true;
  }
  if (tool_of(settings).key == "ms-swift" && !settings.states(length)) {
    const int most = swift_answers ? builder.degree(kMost, 0) : 0;
    if (most < 1) return false;
    builder.training.seq = most, builder.job.states_seq = true;
    builder.guess("seq", fmt::format("{}", most), "what vLLM holds of a prompt and its answer");
    return true;
  }
  // What answers several times to a prompt does it as long as TRL's default says where no length is stated.
  if (settings.states(length) || !answers || !(settings.states(kAnswer) || settings.states(kPrompt))) return false;
  const std::int64_t answer = builder.degree(kAnswer, kTrlAnswer), prompt = builder.degree(kPrompt, kUsualPrompt);
  builder.training.seq = prompt + answer;
  builder.job.states_seq = true;
  if (settings.states(kPrompt) && settings.states(kAnswer))
    builder.origin("seq", fmt::format("{}", prompt + answer), kAnswer);
  else if (settings.states(kPrompt))
    builder.guess("seq", fmt::format("{}", prompt + answer),
                  fmt::format("{} of a prompt, and an answer of {}, TRL's default", prompt, answer));
  else
    builder.guess("seq", fmt::format("{}", prompt + answer),
                  fmt::format("{} of an answer, and a prompt of {}, TRL's default up to 0.23", answer, prompt));
  return true;
}

}  // namespace

// Attention without a fused kernel keeps its scores: `--attn_implementation eager`, LLaMA-Factory's `disabled`.
void read_attention(JobBuilder& builder) {
  Settings& settings = builder.settings;
  for (const char* key : {"args.attn_implementation", "args.attn_impl", "args.flash_attn"})
    if (const std::string word = lowered(settings.text(key).value_or("")); word == "eager" || word == "disabled")
      builder.training.stack.flash_attention = false;
  if (settings.boolean("args.eager_attention").value_or(false)) builder.training.stack.flash_attention = false;
}

void refuse_missing_file(JobBuilder& builder, std::string_view key, std::string_view file, std::string_view holds) {
  if (!builder.settings.states(key)) return;
  builder.errors.push_back(
      {"missing_file",
       fmt::format("{}: there is no {} `{}` beside it, and {} is stated there", builder.settings.where(key), file,
                   builder.settings.text(key).value_or(""), holds),
       {},
       {"give it with a `--from` of its own"}});
}

namespace {

/// The Trainer's own names of the model; where none of them is stated, those that programs around it have. ms-swift's
/// `model_name` is what the model calls itself.
void name_model(JobBuilder& builder) {
  Settings& settings = builder.settings;
  bool stated = false;
  const auto take = [&](std::string_view key) {
    const std::optional<std::string> word = settings.text(key);
    stated |= word.has_value();
    if (word && !builder.job.model) builder.model(*word, *word, key);
  };
  for (const std::string_view key : {"args.config_name", "args.model_name_or_path", "args.base_model"}) take(key);
  const bool swift = settings.text("tool").value_or("") == "ms-swift";
  for (const std::string_view key : {"args.model_name", "args.model_id", "args.model_path", "args.model"})
    if (!stated && !(swift && key == "args.model_name")) take(key);
}

}  // namespace

void read_trainer(JobBuilder& builder) {
  Settings& settings = builder.settings;
  if (!settings.states(kOwnArguments))
    refuse_missing_file(builder, kMissingArguments, "file of arguments", "the rest of the job");
  name_model(builder);
  constexpr std::string_view kOverrides = "args.config_overrides";
  if (settings.states(kOverrides))
    builder.unused(kOverrides, "what it changes of the model, its sizes and its recomputation, is not counted");
  builder.job.config_dropout = !settings.boolean("args.disable_dropout").value_or(false);
  constexpr std::string_view kSource = "args.source_max_len", kTarget = "args.target_max_len";
  const std::string_view length = length_key(settings);
  if (read_generated(builder, length)) {
    // with its answer
  } else if (const std::optional<std::int64_t> seq = settings.integer(length)) {
    if (settings.states("args.total_max_len"))  // it cuts what the other two make
      for (const std::string_view key : {kSource, kTarget}) (void)settings.get(key);
    if (*seq > 0)
      builder.sequence(*seq, length);
    else
      settings.refuse(*settings.get(length), "at least 1");
  } else if (settings.states(kSource) || settings.states(kTarget)) {  // qlora.py, with what it has for the other
    builder.sequence(builder.degree(kSource, 1024) + builder.degree(kTarget, 256),
                     settings.states(kSource) ? kSource : kTarget);
  } else if (settings.states("args.max_source_length") && settings.states("args.max_target_length")) {
    // ChatGLM's main.py: a question and its answer in one sequence
    builder.sequence(builder.degree("args.max_source_length", 1) + builder.degree("args.max_target_length", 1),
                     "args.max_source_length");
  } else if (const int seq = tool_of(settings).seq; seq > 0 && settings.has_section("args.")) {
    builder.sequence(seq, "");
  }
  if (settings.has_section("args.")) read_tuning(builder);
  read_optimizer(builder);
}

std::optional<Precision> precision_of_program(Settings& settings) {
  constexpr std::pair<std::string_view, Precision> kWords[] = {
      {"bf16", Precision::Bf16}, {"bfloat16", Precision::Bf16}, {"bf16-mixed", Precision::Bf16},
      {"fp16", Precision::Fp16}, {"float16", Precision::Fp16},  {"16-mixed", Precision::Fp16},
      {"fp32", Precision::Fp32}, {"float32", Precision::Fp32},  {"32-true", Precision::Fp32}};
  constexpr std::string_view kKey = "args.precision";
  const Setting* const stated = settings.find(kKey);
  for (const auto& [word, precision] : kWords)
    if (stated != nullptr && !stated->list && lowered(stated->value) == word)
      return (void)settings.get(kKey), precision;
  return std::nullopt;
}

namespace {

/// Weights that are loaded in 16 bits and trained stay so under plain data parallelism; DeepSpeed and FSDP keep an fp32
/// copy.
void name_narrow_weights(JobBuilder& builder) {
  Settings& settings = builder.settings;
  const bool copied = builder.training.adapters() || settings.has_section("ds.") ||
                      settings.has_section("acc.fsdp_config.") || settings.has_section("acc.deepspeed_config.") ||
                      !tool_of(settings).key.empty();
  for (const std::string_view key : {"args.torch_dtype", "args.dtype"})
    if (const std::string word = lowered(settings.text(key).value_or(""));
        !copied && (word == "bfloat16" || word == "bf16" || word == "float16"))
      builder.unused(key, "weights and states in 16 bits alone are counted with fp32 master weights");
}

/// Where files may state the number format, each read by one of these. They answer whether that place decides it, by a
/// format or by a word that is refused; if not, the next is asked.

/// transformers stops where DeepSpeed's file and the Trainer's switch differ (integrations/deepspeed.py, fill_match);
/// programs of another trainer go by the file.
void tell_other_switch(JobBuilder& builder) {
  Settings& settings = builder.settings;
  for (const auto& [file, argument] :
       {std::pair{"ds.bf16.enabled", "args.bf16"}, std::pair{"ds.fp16.enabled", "args.fp16"}}) {
    const std::optional<bool> own = truth_of(lowered(settings.text(file).value_or(""))),
                              trainer = truth_of(lowered(settings.text(argument).value_or("")));
    if (own && trainer && *own != *trainer)
      builder.unused(file, fmt::format("transformers stops where `{}` is {}: counted as this file says",
                                       shown_key(argument), *trainer ? "on" : "off"));
  }
}

/// DeepSpeed's sections and the Trainer's switches. `open`: one says `auto`, and no file of the arguments decides it.
bool precision_of_switches(JobBuilder& builder, bool& open) {
  Settings& settings = builder.settings;
  struct Source {
    std::string_view bf16, fp16;
  };
  // DeepSpeed takes its section's first name, too (runtime/constants.py, BFLOAT16_OLD).
  const std::string_view section = settings.states("ds.bf16.enabled") ? "ds.bf16.enabled" : "ds.bfloat16.enabled";
  for (const Source& source : {Source{section, "ds.fp16.enabled"}, Source{"args.bf16", "args.fp16"}}) {
    bool bf16 = false, fp16 = false;
    for (const auto& [key, on] : {std::pair{source.bf16, &bf16}, std::pair{source.fp16, &fp16}}) {
      const std::string word = lowered(settings.text(key).value_or(""));
      if (word == "auto" || word == "full")
        (key == "args.bf16" ? *on : open) = true;  // axolotl's `auto`: where the GPU has it
      else if (!word.empty())
        *on = settings.boolean(key).value_or(false);
    }
    if (bf16 && fp16)
      builder.errors.push_back(
          {"conflicting_keys", fmt::format("{} and {}: bf16 and fp16 are both on", settings.where(source.bf16),
                                           settings.where(source.fp16))});
    if (bf16) name_narrow_weights(builder);
    if (bf16) return builder.precision(Precision::Bf16, source.bf16), true;
    if (fp16) return builder.precision(Precision::Fp16, source.fp16), true;
  }
  if (!switch_of(settings, "args.pure_bf16").value_or(false)) return false;
  return builder.precision(Precision::Bf16, "args.pure_bf16"), true;
}

/// The word of a mixed precision: accelerate's, ms-swift's or a program's own.
bool precision_of_word(JobBuilder& builder) {
  Settings& settings = builder.settings;
  for (const std::string_view key : {"args.mixed_precision", "acc.mixed_precision", "args.swift_dtype"}) {
    const std::string word = lowered(settings.text(key).value_or(""));
    if (word.empty()) continue;
    if (word == "bf16" || word == "bfloat16") return builder.precision(Precision::Bf16, key), true;
    if (word == "fp16" || word == "float16") return builder.precision(Precision::Fp16, key), true;
    if (word == "fp8") return builder.precision(Precision::Fp8Tensorwise, key), true;
    if (word == "no" || word == "float32" || word == "fp32") return builder.precision(Precision::Fp32, key), true;
    Setting shown = *settings.get(key);
    const bool swift = key == "args.swift_dtype";
    if (swift && (word == "auto" || word == "none" || word == "null"))
      continue;  // the checkpoint's, as where it is not stated
    if (swift) shown.key = "torch_dtype";
    return settings.refuse(shown, swift ? "bfloat16, float16 or float32" : "no, fp16, bf16 or fp8"), true;
  }
  // A program's own key may have other words, which are told: nothing reads them.
  constexpr std::string_view kOwn = "args.precision";
  const std::optional<Precision> own = precision_of_program(settings);
  return own ? (builder.precision(*own, kOwn), true) : false;
}

/// DeepSpeed's torch.autocast.
bool precision_of_autocast(JobBuilder& builder) {
  Settings& settings = builder.settings;
  const std::string_view key = "ds.torch_autocast.enabled";
  if (settings.get(key) == nullptr || !settings.boolean(key).value_or(false)) return false;
  const bool half = settings.text("ds.torch_autocast.dtype").value_or("bfloat16").find("float16") == 0;
  return builder.precision(half ? Precision::Fp16 : Precision::Bf16, key), true;
}

/// A word that is none of PyTorch's types of floats, at which transformers stops.
bool is_misspelt_type(std::string_view word) {
  constexpr auto kTypes = word_list([] { return "bfloat16 bf16 float16 fp16 half float32 fp32 float auto none null"; });
  return !word.empty() && std::find(std::begin(kTypes), std::end(kTypes), word) == std::end(kTypes);
}

/// A type's name as PyTorch prints it or not: `torch.float16`, `Float16`.
std::string type_word(std::string_view text) {
  std::string word = lowered(std::string(text));
  if (word.starts_with("torch.")) word.erase(0, 6);
  return word;
}

/// Refuses weights of 64 bits, which PyTorch has and nothing here counts, whatever they are multiplied in. Whether a
/// key states them.
bool refuses_double(JobBuilder& builder) {
  for (const std::string_view key : {"args.torch_dtype", "args.dtype", "args.swift_dtype"}) {
    const Setting* const stated = builder.settings.find(key);
    const std::string word = stated == nullptr || stated->list ? "" : type_word(stated->value);
    if (word != "double" && word != "float64" && word != "fp64") continue;
    builder.errors.push_back(
        {"wrong_value",
         fmt::format("{}: `{}` is `{}`, a type of 64 bits, which plan does not count", stated->where(),
                     key == "args.swift_dtype" ? "torch_dtype" : shown_key(key), stated->value),
         {},
         {"write bfloat16, float16 or float32"}});
    return true;
  }
  return false;
}

/// The format in which weights are loaded, where nothing says in which they are multiplied.
bool precision_of_weights(JobBuilder& builder) {
  Settings& settings = builder.settings;
  const bool pure = tool_of(settings).pure;
  for (const std::string_view key : {"args.torch_dtype", "args.dtype"}) {
    const std::string word = type_word(settings.text(key).value_or(""));
    const bool bf16 = word == "bfloat16" || word == "bf16",
               fp16 = word == "float16" || word == "fp16" || word == "half";
    if (pure && !bf16) continue;  // torchtune's own words, below
    if (word.find('$') != std::string::npos || (key == "args.torch_dtype" && is_misspelt_type(word)))
      return settings.refuse(*settings.get(key), "bfloat16, float16, float32 or auto"), true;
    if (is_misspelt_type(word)) builder.unused(key, "no type of PyTorch's that plan knows: it is not counted");
    if (word == "auto") builder.unused(key, "weights and states in the format of the checkpoint are counted in fp32");
    if (!bf16 && !fp16) continue;
    if (pure)
      train_as_torchtune(builder.training);
    else
      builder.unused(key, fmt::format("weights and states in {} alone are counted with fp32 master weights",
                                      bf16 ? "bf16" : "fp16"));
    return builder.precision(bf16 ? Precision::Bf16 : Precision::Fp16, key), true;
  }
  if (!pure || !settings.states("args.dtype")) return false;
  if (lowered(settings.text("args.dtype").value_or("")) == "fp32")
    return builder.precision(Precision::Fp32, "args.dtype"), true;
  return settings.refuse(*settings.get("args.dtype"), "bf16 or fp32"), true;
}

}  // namespace

void read_precision(JobBuilder& builder, bool deepspeed) {
  Settings& settings = builder.settings;
  (void)settings.get("args.mixed_precision");  // the launcher's, over which the Trainer's own arguments count
  bool open = false;
  if (refuses_double(builder)) return;
  tell_other_switch(builder);
  if (precision_of_switches(builder, open) || precision_of_word(builder) || precision_of_autocast(builder) ||
      precision_of_weights(builder))
    return;
  // ms-swift's weights keep the format of the checkpoint, and axolotl's `bfloat16` and `float16` go without mixing.
  const bool narrow =
      settings.boolean("args.bfloat16").value_or(false) || settings.boolean("args.float16").value_or(false);
  const bool off = settings.states("args.bf16") && tool_of(settings).key != "ms-swift" && !narrow;
  builder.training.precision = Precision::Bf16;
  if (tool_of(settings).bf16 && !off) return builder.precision(Precision::Bf16, "");
  if (off && !open) return builder.precision(Precision::Fp32, "args.bf16");
  if (settings.has_section("args.") || (deepspeed && !open)) return builder.precision(Precision::Fp32, "");
  builder.guess("precision", "bf16", "the Trainer's arguments or the script decide it");
}

void read_checkpointing(JobBuilder& builder, std::string_view own_key, bool own) {
  Settings& settings = builder.settings;
  const auto* stated = std::find_if(std::begin(kCheckpointing), std::end(kCheckpointing),
                                    [&](std::string_view key) { return settings.states(key); });
  const std::string_view trainers_key = stated == std::end(kCheckpointing) ? kCheckpointing[0] : *stated;
  std::string word = lowered(settings.text(trainers_key).value_or(""));
  if (truth_of(word))  // another word for it, or one that is refused
    word = settings.boolean(trainers_key).value_or(false) ? "true" : "false";
  const bool otherwise =
      tool_of(settings).checkpointing && !settings.boolean("args.disable_gradient_checkpointing").value_or(false);
  if (!word.empty() && word != "true" && word != "false" && word != "unsloth" && word != "offload" && word != "none")
    settings.refuse(*settings.get(trainers_key), "true or false");
  if (word == "offload" || word == "unsloth")
    builder.unused(trainers_key, "activations are offloaded to the host: counted as recomputed and kept on the GPU");
  // torchtune's `ac_mode` recomputes some layers, or all, where `enable_activation_checkpointing` is off.
  constexpr std::string_view kSomeLayers = "args.ac_mode";
  const bool some = !switched_off(settings.text(kSomeLayers).value_or("")) && (word.empty() || word == "false");
  const bool trainers = some || (word.empty() ? otherwise && !own : word != "false" && word != "none");
  const Recompute recompute{.kind = trainers || own ? RecomputeKind::Full : RecomputeKind::None};
  // Off in both: the framework's own is where it would be switched on, and the Trainer's advice under FSDP.
  const std::string_view key = some ? kSomeLayers : own || (!trainers && !own_key.empty()) ? own_key : trainers_key;
  if (!settings.has_section("args.") && !settings.states(key)) {
    builder.job.fixed.recompute = recompute;
    return builder.guess("recompute", "none", "the Trainer's arguments or the script decide it");
  }
  builder.fix(&Fixed::recompute, recompute, trainers || own ? "full" : "none", key);
}

}  // namespace plan::hugging_face
