// Open-instruct's GRPO (grpo_fast.py): learners with GPUs of their own, which train on packs of the answers that others
// give; and the actors of its programs before. Tested by tests/launch/learners_test.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "cli/launch/trainer/sources.hpp"
#include "cli/terminal/words.hpp"

namespace plan::hugging_face {
namespace {

/// Defaults of its arguments (open_instruct/grpo_utils.py and data_loader.py, 2026-01).
constexpr std::int64_t kAsked = 16, kSamples = 4, kPack = 512, kPrompt = 256, kAnswer = 256;
constexpr std::string_view kMicro = "per_device_train_batch_size", kPrompts = "max_prompt_token_length",
                           kAnswers = "response_length";

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

void set_gpus(const std::vector<std::int64_t>& nodes, const Setting& at, Settings& all) {
  set(all, "acc.num_processes", fmt::format("{}", std::accumulate(nodes.begin(), nodes.end(), std::int64_t{0})), at);
  if (std::adjacent_find(nodes.begin(), nodes.end(), std::not_equal_to<>()) == nodes.end())
    set(all, "acc.num_machines", fmt::format("{}", nodes.size()), at);
}

/// The programs before packs (ppo_vllm_thread_ray_gtrl.py): each GPU of the actors steps on a mini-batch of its own.
void take_actors(const Settings& flags, Settings& all) {
  const Setting* const actors = flags.find("actor_num_gpus_per_node");
  const Setting* const batch = flags.find("local_mini_batch_size");
  if (actors == nullptr || batch == nullptr || flags.find("pack_length") != nullptr) return;
  const std::vector<std::int64_t> nodes = learners_of(*actors, all);
  const std::int64_t gpus = std::accumulate(nodes.begin(), nodes.end(), std::int64_t{0});
  const std::int64_t each = counted_number(*batch, all), micro = number_of(flags, kMicro, 1, all);
  if (std::min({gpus, each, micro}) == 0) return;
  set_gpus(nodes, *actors, all);
  set(all, "ds.train_batch_size", fmt::format("{}", each * gpus), *batch);
  set(all, "args.per_device_train_batch_size", fmt::format("{}", micro), *batch);
  if (const Setting* const answer = flags.find(kAnswers); answer != nullptr)
    if (const Setting* const prompt = flags.find(kPrompts); prompt != nullptr)
      set(all, "args.pack_length", fmt::format("{}", counted_number(*answer, all) + counted_number(*prompt, all)),
          *answer);
  set(all, std::string(kOfLearners),
      "each sequence is counted as a prompt and an answer as long as they may be; the GPUs that answer, and what is "
      "kept beside the actor, are not counted",
      *actors);
}

}  // namespace

void take_learners(const Settings& flags, Settings& all) {
  take_actors(flags, all);
  const Setting* const learners = flags.find("num_learners_per_node");
  const bool packs = std::any_of(flags.all().begin(), flags.all().end(), [](const Setting& flag) {
    return flag.key == "pack_length" || flag.key == "num_unique_prompts_rollout" ||
           flag.key == "num_samples_per_prompt_rollout";
  });
  if (learners == nullptr || !packs) return;
  const std::vector<std::int64_t> nodes = learners_of(*learners, all);
  const std::int64_t gpus = std::accumulate(nodes.begin(), nodes.end(), std::int64_t{0});
  const auto stated = [&](std::string_view key, std::int64_t usual) { return number_of(flags, key, usual, all); };
  const std::int64_t prompts = stated("num_unique_prompts_rollout", kAsked);
  const std::int64_t samples = stated("num_samples_per_prompt_rollout", kSamples);
  const std::int64_t steps = stated("num_mini_batches", 1), pack = stated("pack_length", kPack);
  const std::int64_t most = stated(kPrompts, kPrompt) + stated(kAnswers, kAnswer);
  const std::int64_t micro = stated(kMicro, 1), shared = stated("sequence_parallel_size", 1);
  if (gpus == 0 || std::min({prompts, samples, steps, pack, micro, shared}) == 0) return;
  const std::int64_t in_pack = std::max<std::int64_t>(1, pack / most);
  const std::int64_t answers = (prompts * samples + steps - 1) / steps, sequences = (answers + in_pack - 1) / in_pack;
  const std::int64_t ranks = std::max<std::int64_t>(1, gpus / shared) * micro;
  const std::int64_t batch = (sequences + ranks - 1) / ranks * ranks;
  set_gpus(nodes, *learners, all);
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
