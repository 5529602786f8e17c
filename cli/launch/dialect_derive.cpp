// Flags of Megatron-LM that a dialect has no single key for. Tested by tests/launch/dialect_derive_test.cpp.
#include <fmt/core.h>

#include <cmath>

#include "cli/launch/dialect.hpp"

namespace plan {
namespace {

const std::string& where(const DialectKeys& keys, std::string_view key) {
  static const std::string kNowhere;
  const auto found = keys.find(key);
  return found == keys.end() ? kNowhere : found->second.where;
}

bool states(const DialectKeys& keys, std::string_view key) { return number_of(keys, key) > 0; }

}  // namespace

void derive_verl(const DialectKeys& keys, const LaunchFacts&, MegatronArgs& args) {
  constexpr std::string_view kPrompt = "data.max_prompt_length", kResponse = "data.max_response_length";
  constexpr std::string_view kMini = "actor_rollout_ref.actor.ppo_mini_batch_size", kBatch = "data.train_batch_size";
  constexpr int kDefaultLength = 512, kDefaultMini = 256;  // data/legacy_data.yaml, actor/actor.yaml
  const auto or_default = [&](std::string_view key, int otherwise) {
    return states(keys, key) ? number_of(keys, key) : otherwise;
  };
  if (states(keys, kPrompt) || states(keys, kResponse)) {
    const std::int64_t tokens =
        std::int64_t{or_default(kPrompt, kDefaultLength)} + or_default(kResponse, kDefaultLength);
    args.given["seq-length"] = {{fmt::format("{}", tokens)}, where(keys, states(keys, kPrompt) ? kPrompt : kResponse)};
  }
  if (states(keys, kMini) || states(keys, kBatch)) {
    const std::int64_t samples =
        std::int64_t{or_default(kMini, kDefaultMini)} * or_default("actor_rollout_ref.rollout.n", 1);
    args.given["global-batch-size"] = {{fmt::format("{}", samples)}, where(keys, states(keys, kMini) ? kMini : kBatch)};
  }
}

void derive_nemo_rl(const DialectKeys& keys, const LaunchFacts&, MegatronArgs& args) {
  const auto switched = keys.find("policy.megatron_cfg.activation_checkpointing");
  if (switched == keys.end() || switched->second.values.empty()) return;
  if (!is_true(switched->second)) {
    args.given.erase("recompute-granularity"), args.given.erase("recompute-modules");
    return;
  }
  args.given.try_emplace("recompute-granularity", MegatronValue{{"full"}, switched->second.where});
  if (args.text("recompute-granularity") != "full") return;
  args.given.erase("recompute-modules");  // of the example it extends: read under `selective` alone
  args.given["recompute-method"] = {{"uniform"}, switched->second.where};
  args.given["recompute-num-layers"] = {{"1"}, switched->second.where};
}

void derive_swift(const DialectKeys& keys, const LaunchFacts&, MegatronArgs& args) {
  if (keys.find("recompute_granularity") == keys.end()) args.given["recompute-granularity"] = {{"selective"}, ""};
}

void derive_llama_factory(const DialectKeys& keys, const LaunchFacts& facts, MegatronArgs& args) {
  const int steps = number_of(keys, "gradient_accumulation_steps");
  double grid = 1;  // factors are as written, so their product may be larger than any integer
  for (const char* flag : {"tensor-model-parallel-size", "pipeline-model-parallel-size", "context-parallel-size",
                           "expert-model-parallel-size"})
    grid *= static_cast<double>(args.integer(flag, 1));
  const auto gpus = static_cast<double>(facts.gpus());
  if (steps == 0 || gpus == 0 || !(grid >= 1) || std::fmod(gpus, grid) != 0) return;
  const double batch = steps * static_cast<double>(args.integer("micro-batch-size", 1)) * (gpus / grid);
  args.given["global-batch-size"] = {{fmt::format("{:.0f}", batch)}, where(keys, "gradient_accumulation_steps")};
}

}  // namespace plan
