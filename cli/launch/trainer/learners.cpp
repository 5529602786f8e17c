// Open-instruct's GRPO (grpo_fast.py): learners with GPUs of their own, which train on packs of the answers that others
// give. Tested by tests/launch/learners_test.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "cli/launch/trainer/sources.hpp"
#include "formulas/words.hpp"

namespace plan::hugging_face {
namespace {

/// Defaults of its arguments (open_instruct/grpo_utils.py and data_loader.py, 2026-01).
constexpr std::int64_t kPrompts = 16, kSamples = 4, kPack = 512, kPrompt = 256, kAnswer = 256;

std::int64_t number_of(const Settings& flags, std::string_view key, std::int64_t usual, Settings& all) {
  const Setting* const stated = flags.find(key);
  return stated == nullptr ? usual : counted_number(*stated, all);
}

/// `8 8`: the learners of each node; empty: a word is no such number, which is an error.
std::vector<std::int64_t> learners_of(const Setting& stated, Settings& all) {
  std::vector<std::string> words = stated.items;
  if (words.empty())
    for (const std::string_view word : split(stated.value, " "))
      if (!word.empty()) words.emplace_back(word);
  std::vector<std::int64_t> out;
  for (const std::string& word : words) {
    Setting one = stated;
    one.value = word, one.items.clear(), one.list = false;
    out.push_back(counted_number(one, all));
    if (out.back() == 0) return {};
  }
  return out;
}

}  // namespace

void take_learners(const Settings& flags, Settings& all) {
  const Setting* const learners = flags.find("num_learners_per_node");
  const bool packs = std::any_of(flags.all().begin(), flags.all().end(), [](const Setting& flag) {
    return flag.key == "pack_length" || flag.key == "num_unique_prompts_rollout" ||
           flag.key == "num_samples_per_prompt_rollout";
  });
  if (learners == nullptr || !packs) return;
  const std::vector<std::int64_t> nodes = learners_of(*learners, all);
  std::int64_t gpus = 0;
  for (const std::int64_t node : nodes) gpus += node;
  const auto stated = [&](std::string_view key, std::int64_t usual) { return number_of(flags, key, usual, all); };
  const std::int64_t prompts = stated("num_unique_prompts_rollout", kPrompts);
  const std::int64_t samples = stated("num_samples_per_prompt_rollout", kSamples);
  const std::int64_t steps = stated("num_mini_batches", 1), pack = stated("pack_length", kPack);
  const std::int64_t most = stated("max_prompt_token_length", kPrompt) + stated("response_length", kAnswer);
  const std::int64_t micro = stated("per_device_train_batch_size", 1), shared = stated("sequence_parallel_size", 1);
  if (gpus == 0 || std::min({prompts, samples, steps, pack, micro, shared}) == 0) return;
  const std::int64_t in_pack = std::max<std::int64_t>(1, pack / most);
  const std::int64_t answers = (prompts * samples + steps - 1) / steps, sequences = (answers + in_pack - 1) / in_pack;
  const std::int64_t ranks = std::max<std::int64_t>(1, gpus / shared) * micro;
  const std::int64_t batch = (sequences + ranks - 1) / ranks * ranks;
  set(all, "acc.num_processes", fmt::format("{}", gpus), *learners);
  if (std::adjacent_find(nodes.begin(), nodes.end(), std::not_equal_to<>()) == nodes.end())
    set(all, "acc.num_machines", fmt::format("{}", nodes.size()), *learners);
  set(all, "ds.train_batch_size", fmt::format("{}", batch), *learners);
  set(all, "args.per_device_train_batch_size", fmt::format("{}", micro), *learners);
  set(all, "args.pack_length", fmt::format("{}", pack), *learners);
  set(all, std::string(kOfLearners),
      fmt::format("a step is counted as {} full packs of {} tokens: {} prompts x {} answers / {} mini-batches, each "
                  "answer as long as it may be; the GPUs that answer are not counted",
                  batch, pack, prompts, samples, steps),
      *learners);
}

}  // namespace plan::hugging_face
