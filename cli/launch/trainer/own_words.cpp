// Words that programs around the Trainer have for its arguments: the same name behind the section of a configuration
// (`--config.training.max_length 4096`, as tyro, simple-parsing and jsonargparse write it), and shorter names of one's
// own (`--grad_accum_steps 4`). Tested by tests/launch/trainer_own_words_test.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "cli/launch/trainer/hugging_face.hpp"
#include "cli/launch/trainer/sources.hpp"
#include "formulas/words.hpp"
#include "presets/suggest.hpp"
#include "presets/yaml.hpp"

namespace plan::hugging_face {
namespace {

constexpr std::string_view kMicroBatch = "per_device_train_batch_size";

/// The Trainer's arguments and TRL's that are counted with, which are no other tool's last word.
constexpr auto kArguments = word_list([] {
  return "per_device_train_batch_size gradient_accumulation_steps gradient_checkpointing model_name_or_path bf16 fp16 "
         "max_length max_seq_length max_seq_len model_max_length cutoff_len max_prompt_length max_completion_length "
         "num_generations deepspeed optim torch_dtype load_in_4bit load_in_8bit use_peft use_lora lora_enable lora_r "
         "lora_rank lora_target_modules use_liger_kernel attn_implementation packing";
});

/// Other names of the Trainer's arguments, taken where the Trainer's own is not stated.
constexpr Renamed kOthers[] = {
    {"args.grad_accum_steps", "args.gradient_accumulation_steps"},
    {"args.grad_accumulation_steps", "args.gradient_accumulation_steps"},
    {"args.grad_acc_steps", "args.gradient_accumulation_steps"},
    {"args.gradient_accumulation", "args.gradient_accumulation_steps"},
    {"args.gradient_accumulate_steps", "args.gradient_accumulation_steps"},
    {"args.accumulate_grad_batches", "args.gradient_accumulation_steps"},
    {"args.total_max_len", "args.max_length"},
};

/// Is a section of the name about a model beside the trained one, about what it answers, about what it is judged by, or
/// about data before they are cut?
bool of_another_section(std::string_view sections) {
  constexpr auto kSections = word_list([] {
    return "generation generate gen rollout sampling sampler critic infer inference serve serving vllm val valid "
           "validation validate test testing dev eval evaluation evaluate evaluator predict prediction benchmark data "
           "dataset datasets dataloader tokenizer tokenization preprocess preprocessing processor";
  });
  constexpr auto kJudging = word_list([] { return "val_ valid_ validation_ test_ dev_ evaluation_"; });
  for (std::size_t at = 0; at < sections.size();) {
    const std::size_t end = std::min(sections.find('.', at), sections.size());
    const std::string_view section = sections.substr(at, end - at);
    if (of_another_model(fmt::format("args.{}_", section)) ||
        std::find(std::begin(kSections), std::end(kSections), section) != std::end(kSections) ||
        std::any_of(std::begin(kJudging), std::end(kJudging),
                    [&](std::string_view start) { return section.starts_with(start); }))
      return true;
    at = end + 1;
  }
  return false;
}

}  // namespace

bool is_slip_of_argument(std::string_view key) {
  constexpr auto kSwitched = word_list([] { return "use_llm_lora use_backbone_lora zero_stage"; });
  constexpr std::size_t kShort = 8;  // too many words are near shorter ones
  const auto is_near = [&](std::string_view name) {
    const bool letters = name.size() != key.size() || letters_apart(key, name) == 0;  // not use_dora for use_lora
    return name.size() >= kShort && letters && edit_distance(key, name, 2) == 1;
  };
  const auto in = [&](const auto& names) { return std::any_of(names.begin(), names.end(), is_near); };
  const auto is = [&](const auto& names) { return std::find(names.begin(), names.end(), key) != names.end(); };
  return !is(kArguments) && !is(kSwitched) && (in(kArguments) || in(kSwitched));
}

std::string without_section(std::string_view key) {
  const std::size_t dot = key.rfind('.');
  if (dot == std::string_view::npos) return std::string(key);
  const std::string_view name = key.substr(dot + 1);
  const bool argument = std::find(std::begin(kArguments), std::end(kArguments), name) != std::end(kArguments);
  return std::string(argument && !of_another_section(key.substr(0, dot)) ? name : key);
}

void take_sections(std::vector<Setting>& flags, Settings& all) {
  std::map<std::string, const Setting*, std::less<>> counted;  // the plain ones, then the last of a section
  for (const Setting& flag : flags)
    if (flag.key.find('.') == std::string::npos) counted[flag.key] = &flag;
  std::vector<std::pair<Setting*, std::string>> taken;
  std::string differ;
  const Setting* last = nullptr;
  for (Setting& flag : flags) {
    std::string name = without_section(flag.key);
    if (name == flag.key) continue;
    const Setting*& other = counted.try_emplace(name, &flag).first->second;
    const bool plain = other->key == name, same = other->value == flag.value && other->items == flag.items;
    if (!same) {
      const Setting &counts = plain ? *other : flag, &not_read = plain ? flag : *other;
      differ += fmt::format("{}`--{} {}` is counted and `--{} {}` is not", differ.empty() ? "" : ", ",
                            yaml::printable(counts.key), yaml::printable(counts.value), yaml::printable(not_read.key),
                            yaml::printable(not_read.value));
      last = &flag;
    }
    if (plain && !same) continue;
    if (!plain) other = &flag;
    taken.emplace_back(&flag, std::move(name));
  }
  if (last != nullptr) set(all, std::string(kOfSections), differ, *last);
  for (auto& [flag, name] : taken) flag->key = std::move(name);
}

bool names_micro_batch(std::string_view word) {
  if (!word.starts_with("--")) return false;
  std::string name(word.substr(2, word.find('=') == std::string_view::npos ? word.npos : word.find('=') - 2));
  std::replace(name.begin(), name.end(), '-', '_');
  return without_section(name).starts_with(kMicroBatch);
}

bool mentions_micro_batch(std::string_view text) {
  constexpr std::string_view kEnds = " \t\n\r=\"'`;";
  for (std::size_t at = text.find("--"); at != text.npos; at = text.find("--", at + 2))
    if (names_micro_batch(text.substr(at, text.find_first_of(kEnds, at) - at))) return true;
  return false;
}

void take_other_names(Settings& all) {
  for (const Renamed& row : kOthers) {
    if (all.states(row.to) || !all.states(row.from)) continue;
    const Setting stated = *all.get(row.from);
    set(all, std::string(row.to), stated);
  }
}

}  // namespace plan::hugging_face
