// Models of several parts around the Trainer: towers that are not counted, a language model that is kept as it is, and
// the models that a stage of training keeps beside the trained one.
// Tested by tests/launch/trainer_tuning_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "cli/launch/job/weighty_names.hpp"
#include "cli/launch/trainer/hugging_face.hpp"
#include "cli/launch/trainer/sources.hpp"
#include "cli/settings/settings.hpp"
#include "formulas/text.hpp"
#include "formulas/words.hpp"
#include "presets/yaml.hpp"

namespace plan::hugging_face {
namespace {

/// Words of programs that train a language model among other parts, or do not.
struct PartSwitch {
  std::string_view key;
  bool frozen;  ///< what the key says where it is true
};
constexpr PartSwitch kSwitches[] = {
    {"args.tune_mm_mlp_adapter", true},    // LLaVA: that alone is trained
    {"args.freeze_llm", true},             // InternVL, ms-swift
    {"args.freeze_backbone", true},        // LLaVA
    {"args.freeze_language_model", true},  // LLaMA-Factory, align-anything
    {"args.tune_mm_llm", false},           // Qwen-VL
    {"args.tune_language_model", false},   // VILA
    {"args.tune_llm", false},              // MiniCPM-V
};

/// `--teacher_model_name_or_path x`, `reference_model: x`: a model that is beside the trained one. axolotl's
/// `reward_model` says of the trained one what its head is.
void tell_models_beside(JobBuilder& builder) {
  constexpr std::string_view kNaming[] = {"_model", "_model_name", "_model_name_or_path", "_model_path"};
  std::vector<std::string> found;
  for (const Setting& setting : builder.settings.all()) {
    const std::string_view key = setting.key;
    const auto ends = [&](std::string_view word) { return key.ends_with(word); };
    if (!of_another_model(key) || key == "args.reward_model" || setting.list || switched_off(setting.value) ||
        truth_of(setting.value) || !std::any_of(std::begin(kNaming), std::end(kNaming), ends) ||
        std::find(found.begin(), found.end(), key) != found.end())
      continue;
    found.emplace_back(key);
  }
  for (const std::string& key : found)
    builder.unused(key, key.starts_with("args.teacher_") ? "a teacher beside the trained model is not counted"
                                                         : "the model beside the trained one is not counted");
}

void tell_frozen(JobBuilder& builder) {
  constexpr std::string_view kParts = "args.mm_tunable_parts", kText = "frozen weights are counted as trained";
  for (const PartSwitch& row : kSwitches)
    if (switch_of(builder.settings, row.key) == row.frozen) return builder.unused(row.key, std::string(kText));
  const std::string parts = builder.settings.text(kParts).value_or("");
  if (!parts.empty() && parts.find("language_model") == std::string::npos) builder.unused(kParts, std::string(kText));
}

}  // namespace

std::optional<bool> switch_of(Settings& settings, std::string_view key) {
  const std::string word = lowered(settings.text(key).value_or(""));
  if (word.empty() || word == "none" || word == "null") return std::nullopt;
  return settings.boolean(key);
}

void read_switches(JobBuilder& builder) {
  Settings& settings = builder.settings;
  // Switches that are reported where they are on, or change nothing that is counted.
  constexpr auto kPlain = word_list([] {
    return "packing load_in_8bit use_galore use_apollo use_badam use_adam_mini use_unsloth use_dora peft_use_dora "
           "use_llama_pro use_unsloth_gc pure_bf16 auto_find_batch_size full_determinism";
  });
  for (const std::string_view name : kPlain)
    if (const std::string key = fmt::format("args.{}", name); settings.states(key)) (void)switch_of(settings, key);
  // flash-attn's kernel keeps 16-bit logits, and its gradient takes their place.
  if (switch_of(settings, "args.flash_attn_cross_entropy").value_or(false))
    builder.training.stack.cross_entropy = CrossEntropy::Compiled;
  for (const char* fused :
       {"args.use_liger_kernel", "args.use_liger", "args.use_liger_loss", "args.enable_liger_kernel",
        "args.liger_fused_linear_cross_entropy", "args.cut_cross_entropy", "args.use_cce"})
    if (switch_of(settings, fused).value_or(false)) builder.training.stack.cross_entropy = CrossEntropy::Chunked;
}

bool of_another_model(std::string_view key) {
  constexpr std::string_view kArguments = "args.";
  if (!key.starts_with(kArguments)) return false;
  return is_of_another_model(key.substr(kArguments.size()));
}

void tell_parts(JobBuilder& builder) {
  if (builder.settings.states(kOfALoop))
    builder.unmodelled("not_used",
                       fmt::format("{}: the trainings that a loop starts differ in {}: counted is the last",
                                   builder.settings.where(kOfALoop), builder.settings.text(kOfALoop).value_or("")));
  for (const std::string_view key : {kOfSections, kOfLearners})
    if (builder.settings.states(key))
      builder.unmodelled("not_used",
                         fmt::format("{}: {}", builder.settings.where(key), builder.settings.text(key).value_or("")));
  tell_models_beside(builder);
  // torchtune's models of several parts say of each how it is trained.
  for (const auto& [key, what] :
       {std::pair{"args.model.decoder_trainable", "the language model is counted as trained"},
        std::pair{"args.model.encoder_trainable", "a tower that is trained is not counted"},
        std::pair{"args.model.fusion_trainable", "layers that join a tower to the model are not counted"}}) {
    const std::string word = lowered(builder.settings.text(key).value_or(""));
    const bool frozen = word == "frozen", decoder = std::string_view(key).find("decoder") != std::string_view::npos;
    if (!word.empty() && frozen == decoder) builder.unused(key, what);
  }
  if (builder.training.adapters())  // beside adapters it is meant to be
    for (const PartSwitch& row : kSwitches) (void)builder.settings.get(row.key);
  else
    tell_frozen(builder);
  std::vector<std::string> towers;
  for (const Setting& setting : builder.settings.all())
    if (setting.key.starts_with("args.") && setting.key.ends_with("_tower") && !setting.list &&
        !truth_of(setting.value) && !switched_off(setting.value) &&
        std::find(towers.begin(), towers.end(), setting.key) == towers.end())
      towers.push_back(setting.key);
  for (const std::string& key : towers) {
    const bool images = key.find("vision") != std::string::npos || key.find("image") != std::string::npos;
    builder.unused(key, images ? "a tower for images is not counted" : "a tower beside the model is not counted");
  }
}

constexpr std::string_view kStages[] = {"dpo", "kto", "orpo", "simpo", "cpo", "rm", "reward", "ppo", "grpo", "rloo"};

bool is_stage(std::string_view word) {
  return std::find(std::begin(kStages), std::end(kStages), word) != std::end(kStages);
}

// Where the program is called `main.py` or the like, its folder's name counts: `step2_reward_model_finetuning/main.py`.
std::string stage_of_program(const ShellCommand& command) {
  for (const ShellWord& word : command.words) {
    if (!word.text.ends_with(".py")) continue;
    std::string_view path = std::string_view(word.text).substr(0, word.text.size() - 3);
    std::string name(base_name(path));
    if ((name == "main" || name == "train" || name == "run") && path.size() > name.size())
      name = base_name(path.substr(0, path.size() - name.size() - 1));
    std::replace(name.begin(), name.end(), '-', '_');
    for (std::size_t at = 0; at <= name.size();) {
      const std::size_t end = std::min(name.find('_', at), name.size());
      const std::string part = lowered(name.substr(at, end - at));
      if (is_stage(part)) return word.text;
      at = end + 1;
    }
    return {};
  }
  return {};
}

/// A word for the method that is none of those known, `training_method: REFUEL`: what it trains, or keeps beside the
/// model, is not known. Words for plain training and for how weights are tuned say nothing of the sort.
void tell_other_method(JobBuilder& builder, bool& noted) {
  constexpr auto kNaming = word_list([] {
    return "training_method train_method training_type training_stage train_stage training_mode rl_type rl_method "
           "rl_algorithm rl_algo algorithm algo method alignment_method preference_method";
  });
  constexpr auto kPlain = word_list([] {
    return "sft pt pretrain pretraining pre-training pre_training finetune finetuning fine-tuning fine_tuning full "
           "lora qlora adalora dora freeze frozen none null false true supervised supervised_finetuning clm causal_lm "
           "language_modeling standard default instruct instruction instruction_tuning train cpt continued_pretraining";
  });
  Settings& settings = builder.settings;
  for (const std::string_view name : kNaming) {
    const std::string key = fmt::format("args.{}", name);
    const std::string word = lowered(settings.text(key).value_or(""));
    const bool number = word.find_first_not_of("0123456789.") == std::string::npos;
    if (noted || word.empty() || number || std::find(std::begin(kPlain), std::end(kPlain), word) != std::end(kPlain))
      continue;
    noted = true;
    builder.unused(key, fmt::format("`{}`: what it trains, or keeps beside the model, is not known: counted as plain "
                                    "training of one model",
                                    yaml::printable(word)));
  }
}

/// Trainers that rank several answers to a prompt train on all of them at once: RRHF's `--rrhf_weight`, and numbers of
/// answers, candidates or responses that a program has of its own.
void tell_ranking(JobBuilder& builder, bool& noted) {
  constexpr std::string_view kRanking[] = {"rrhf", "listwise", "ranking_loss", "rank_loss", "plackett"};
  constexpr std::string_view kAnswers[] = {"candidates", "responses", "answers"};
  constexpr std::string_view kNumber[] = {"num_", "n_", "per_prompt", "per_query", "per_question"};
  for (const Setting& setting : builder.settings.all()) {
    const std::string_view key = setting.key;
    if (noted || !key.starts_with("args.") || setting.list || switched_off(setting.value) || of_another_model(key) ||
        key.find("eval") != key.npos)
      continue;
    const std::optional<std::int64_t> number = to_integer(setting.value);
    const bool several = number && *number > 1 && holds_any(key, kAnswers) && holds_any(key, kNumber);
    if (!holds_any(key, kRanking) && !several) continue;
    noted = true;
    builder.unused(setting.key, "several answers to each prompt may be trained at once: counted is one");
  }
}

void tell_stage(JobBuilder& builder) {
  Settings& settings = builder.settings;
  bool noted = settings.states("args.num_generations") || settings.states(kOfLearners);  // GRPO has no pairs
  if (noted && !builder.training.adapters() && settings.number("args.beta").value_or(0) > 0)
    builder.unused("args.beta", "the reference model beside the trained one is not counted");
  for (const char* key : {"args.stage", "args.rl", "args.rlhf_type"}) {
    const std::string word = lowered(settings.text(key).value_or(""));
    if (word.empty() || word == "sft" || word == "pt") continue;
    noted = true;
    builder.unused(
        key, fmt::format("`{}`: the models beside the trained one, and the pairs of answers, are not counted", word));
  }
  // A program's own word for it: `training_method: GRPO`, `--algorithm dpo`.
  constexpr auto kMethods = word_list([] { return "dpo kto orpo simpo cpo ipo ppo grpo rloo reinforce"; });
  constexpr auto kNaming = word_list([] { return "method algorithm algo _type _mode trainer loss objective"; });
  for (const Setting& setting : settings.all()) {
    const std::string_view key = setting.key;
    const auto is = [&](std::string_view word) { return lowered(setting.value) == word; };
    const auto ends = [&](std::string_view word) { return key.ends_with(word); };
    if (noted || !key.starts_with("args.") || !std::any_of(std::begin(kMethods), std::end(kMethods), is) ||
        !std::any_of(std::begin(kNaming), std::end(kNaming), ends))
      continue;
    noted = true;
    builder.unused(setting.key, fmt::format("`{}`: the models beside the trained one, and the pairs of answers, are "
                                            "not counted",
                                            yaml::printable(setting.value)));
  }
  tell_other_method(builder, noted);
  // TRL and open-instruct name no stage: their trainers of preferences take words that no other has.
  for (const char* key : {"args.beta", "args.dpo_beta", "args.orpo_beta", "args.kto_beta", "args.dpo_loss_type",
                          "args.rpo_alpha", "args.simpo_gamma", "args.cpo_alpha", "args.desirable_weight",
                          "args.undesirable_weight", "args.precompute_ref_log_probs"})
    if (!noted && settings.states(key)) {
      noted = true;
      builder.unused(key,
                     "preferences are trained: the models beside the trained one, and the pairs of answers, are "
                     "not counted");
    }
  tell_ranking(builder, noted);
  constexpr std::string_view kByName = "args.stage by its name";
  if (!noted && settings.states(kByName))
    builder.unmodelled("not_used",
                       fmt::format("{}: `{}` may train preferences or rewards, by its name: the models "
                                   "beside the trained one, and the pairs of answers, are not counted",
                                   settings.where(kByName), yaml::printable(settings.text(kByName).value_or(""))));
}

}  // namespace plan::hugging_face
