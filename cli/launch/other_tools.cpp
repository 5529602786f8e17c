// Launch files of tools without a reader, told by their own keys: each is named, with what to do instead of guessing.
// A key at the start of a line is written `^key`. Tested by tests/launch/reading_test.cpp.
#include "cli/launch/other_tools.hpp"

#include <algorithm>

#include "cli/launch/hugging_face.hpp"

namespace plan {
namespace {

constexpr std::string_view kState =
    "state its job with `--model`, `--gpus`, `--seq`, `--global-batch`, `--task` and `--layout`, or record the command "
    "that reads it with `plan capture` where that ends in a launcher's flags";

constexpr OtherTool kTools[] = {
    {"a torchtune configuration that trains nothing", kState, {"_component_:", "torchtune."}, {}},
    {"a nanotron configuration", kState, {"^parallelism:", "^tokens:"}, {"pp_engine:", "tp_mode:", "^model:"}},
    {"an OLMo-core configuration", kState, {"_CLASS_"}, {"olmo_core"}},
    {"an OLMo configuration", kState, {"^fsdp:", "device_train_microbatch_size:"}, {}},
    {"an llm-foundry configuration", kState, {"device_train_microbatch_size", "max_duration"}, {}},
    {"a levanter configuration", kState, {"^trainer:", "^model:"}, {"per_device_parallelism:", "train_batch_size:"}},
    {"a litgpt configuration", kState, {"^train:", "^eval:"}, {"^checkpoint_dir:", "^model_name:"}},
    {"an InternEvo configuration", kState, {"gradient_checkpointing", "HIDDEN_SIZE"}, {}},
    {"a verl configuration whose actor runs under FSDP", kState, {"actor_rollout_ref"}, {"fsdp_config", "ulysses"}},
    {"an experiment of torchforge", kState, {"^trainer:", "^policy:", "^ref_model:"}, {}},
    {"a FlagScale experiment",
     "give the file under `train/` that it names, or state the job with flags",
     {"^experiment:", "^defaults:"},
     {"task:"}},
    {"a ColossalAI plugin configuration", kState, {}, {"HybridParallelPlugin", "GeminiPlugin", "LowLevelZeroPlugin"}},
    {"a Composer configuration", kState, {"^max_duration:", "^train_loader:"}, {}},
};

bool stands(const std::string& text, std::string_view word) {
  if (!word.starts_with('^')) return text.find(word) != std::string::npos;
  word.remove_prefix(1);
  if (text.starts_with(word)) return true;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
    if (text[at - 1] == '\n') return true;
  return false;
}

constexpr OtherTool kPrimus{"a Primus experiment of another back end than Megatron-LM", kState, {}, {}};

bool matches(const OtherTool& tool, const std::string& text) {
  const auto has = [&](std::string_view word) { return !word.empty() && stands(text, word); };
  const bool all = std::all_of(std::begin(tool.all), std::end(tool.all),
                               [&](std::string_view word) { return word.empty() || has(word); });
  return all && (tool.any[0].empty() || std::any_of(std::begin(tool.any), std::end(tool.any), has));
}

}  // namespace

const OtherTool* other_tool(const LaunchSource& source) {
  if (is_shell(source) || source.path.ends_with(".py")) return nullptr;
  if (stands(source.text, "^work_group:") && stands(source.text, "^modules:") &&
      !stands(source.text, "framework: megatron\n"))
    return &kPrimus;
  if (hugging_face::kind_of(source) == hugging_face::Kind::Torchtune) return nullptr;  // a training of torchtune's
  for (const OtherTool& tool : kTools)
    if (matches(tool, source.text)) return &tool;
  return nullptr;
}

}  // namespace plan
