// Flags of Megatron-LM that a dialect has no single key for. Tested by tests/launch/dialect_derive_test.cpp.
#include <fmt/core.h>

#include <cmath>
#include <tuple>
#include <utility>

#include "cli/launch/dialect/dialect.hpp"
#include "cli/launch/job/generated_length.hpp"
#include "cli/launch/post_training/verl_commands.hpp"
#include "cli/settings/settings.hpp"

namespace plan {
namespace {

bool states(const StatedKeys& keys, std::string_view key) { return number_of(keys, key) > 0; }
/// A stated 0 is a number, too: nothing that a tool takes for none stated.
bool states_number(const StatedKeys& keys, std::string_view key) {
  return states(keys, key) || to_integer(word_of(keys, key)) == 0;
}
std::int64_t number_or(const StatedKeys& keys, std::string_view key, int otherwise) {
  return states_number(keys, key) ? number_of(keys, key) : otherwise;
}

void left_unused(const StatedKeys& keys, std::string_view key, MegatronArgs& args, std::string_view text) {
  args.unused.push_back({"not_used", fmt::format("{}: `{}`: {}", where_of(keys, key), key, text)});
}

/// Adapters, by the key that turns them on; their rank under a key of its own, or the tool's default.
void adapters(const StatedKeys& keys, std::string_view key, std::string_view rank, int otherwise, bool narrow,
              MegatronArgs& args) {
  args.task = narrow ? Task::Qlora : Task::Lora;
  args.task_where = where_of(keys, key);
  const bool stated = states(keys, rank);
  args.lora_rank = stated ? number_of(keys, rank) : otherwise;
  args.lora_where = stated ? where_of(keys, rank) : "";
}

/// What LLaMA-Factory trains, and which models run beside the trained one.
void factory_task(const StatedKeys& keys, MegatronArgs& args) {
  if (word_of(keys, "stage") == "sft") args.task = Task::FullFinetune, args.task_where = where_of(keys, "stage");
  if (const std::string stage = word_of(keys, "stage"); !stage.empty() && stage != "sft" && stage != "pt")
    left_unused(keys, "stage", args, "models beside the trained one are not counted");
  if (const std::string kind = word_of(keys, "finetuning_type"); kind != "full" && kind != "freeze")
    adapters(keys, "finetuning_type", "lora_rank", 8, word_of(keys, "quantization_bit") == "4", args);
}

/// Of LLaMA-Factory: a step's sequences, by the ranks that read micro-batches of their own. `experts`: ep, where it
/// divides them further.
void factory_batch(const StatedKeys& keys, const LaunchFacts& facts, std::int64_t experts, MegatronArgs& args) {
  const int steps = number_of(keys, "gradient_accumulation_steps");
  auto grid = static_cast<double>(experts);  // factors are as written, so their product may pass any integer
  for (const char* flag : {"tensor-model-parallel-size", "pipeline-model-parallel-size", "context-parallel-size"})
    grid *= static_cast<double>(args.integer(flag, 1));
  const auto gpus = static_cast<double>(facts.gpus());
  if (steps == 0 || gpus == 0 || !(grid >= 1) || std::fmod(gpus, grid) != 0) return;
  const double batch = steps * static_cast<double>(args.integer("micro-batch-size", 1)) * (gpus / grid);
  args.given["global-batch-size"] = {{fmt::format("{:.0f}", batch)}, where_of(keys, "gradient_accumulation_steps")};
}

/// `a,b` in one word or several as a word each.
std::vector<std::string> words_between_commas(const std::vector<std::string>& values) {
  std::vector<std::string> out;
  for (const std::string& value : values) {
    const std::vector<std::string> words = listed("[" + value + "]");
    out.insert(out.end(), words.begin(), words.end());
  }
  return out;
}

}  // namespace

/// What a recipe leaves in bf16, changed key by key.
void bridge_bf16_layers(const StatedKeys& keys, MegatronArgs& args) {
  constexpr std::string_view kSwitch = "mixed_precision.first_last_layers_bf16";
  const bool off = !word_of(keys, kSwitch).empty() && !is_on(keys, kSwitch);
  if (off) args.given.erase("first-last-layers-bf16");
  if (is_on(keys, kSwitch)) args.given["first-last-layers-bf16"] = {{}, where_of(keys, kSwitch)};
  constexpr std::pair<const char*, std::string_view> kCounts[] = {
      {"num-layers-at-start-in-bf16", "mixed_precision.num_layers_at_start_in_bf16"},
      {"num-layers-at-end-in-bf16", "mixed_precision.num_layers_at_end_in_bf16"}};
  for (const auto& [flag, key] : kCounts) {
    if (const std::string count = word_of(keys, key); !count.empty()) args.given[flag] = {{count}, where_of(keys, key)};
    // MixedPrecisionConfig's own counts are 0, Megatron core's 1.
    if (is_on(keys, kSwitch)) args.given.try_emplace(flag, StatedValue{{"0"}, where_of(keys, kSwitch)});
  }
}

/// Fields of MixedPrecisionConfig, which lie over the recipe's.
void bridge_formats(const StatedKeys& keys, MegatronArgs& args) {
  const auto key = [](std::string_view name) { return fmt::format("mixed_precision.{}", name); };
  const auto states = [&](std::string_view name) { return !word_of(keys, key(name)).empty(); };
  if (is_on(keys, key("fp16")) || is_on(keys, key("fp32")) || (states("bf16") && !is_on(keys, key("bf16"))))
    args.given.erase("bf16");
  if (is_on(keys, key("fp16"))) args.given["fp16"] = {{}, where_of(keys, key("fp16"))};
  constexpr std::pair<const char*, const char*> kWords[] = {
      {"fp8-format", "fp8"}, {"fp8-recipe", "fp8_recipe"}, {"fp4-format", "fp4"}, {"fp4-recipe", "fp4_recipe"}};
  for (const auto& [flag, name] : kWords)
    if (states(name)) args.given[flag] = {{word_of(keys, key(name))}, where_of(keys, key(name))};
  for (const char* format : {"fp8", "fp4"}) {  // a recipe without its format says nothing
    const std::string flag = fmt::format("{}-format", format);
    if (const std::string word = args.text(flag); word.empty() || word == "none" || word == "None")
      args.given.erase(flag), args.given.erase(fmt::format("{}-recipe", format));
  }
  for (const char* name : {"fp8_param_gather", "fp8_param"})
    if (is_on(keys, key(name)) && args.has("fp8-format"))
      args.given["fp8-param-gather"] = {{}, where_of(keys, key(name))};
  if (states("grad_reduce_in_fp32") && !is_on(keys, key("grad_reduce_in_fp32")))
    args.given["grad-reduce-in-bf16"] = {{}, where_of(keys, key("grad_reduce_in_fp32"))};
}

void derive_bridge(const StatedKeys& keys, const LaunchFacts&, MegatronArgs& args) {
  constexpr const char* kLength = "dataset.sequence_length";  // of GPTDatasetConfig before `seq_length`
  if (const std::string word = word_of(keys, kLength); !word.empty())
    args.given.try_emplace("seq-length", StatedValue{{word}, where_of(keys, kLength)});
  // Its GPTModelProvider learns a position for each token of a sequence (models/gpt_provider.py: max_sequence_length).
  if (const auto length = args.given.find("seq-length"); length != args.given.end())
    args.given.try_emplace("max-position-embeddings", length->second);
  bridge_bf16_layers(keys, args);
  bridge_formats(keys, args);
  for (const char* key : {"peft.dim", "peft._target_", "peft"})
    if (const std::string word = word_of(keys, key); !word.empty() && word != "none" && word != "null")
      return adapters(keys, key, "peft.dim", 32, false, args);
}

/// The optimizer's formats, which verl takes in a section of overrides and beside it.
void verl_formats(const StatedKeys& keys, MegatronArgs& args) {
  for (const char* section : {"override_optimizer_config.", ""}) {
    const auto key = [&](std::string_view name) {
      return fmt::format("actor_rollout_ref.actor.optim.{}{}", section, name);
    };
    if (is_on(keys, key("use_precision_aware_optimizer")))
      args.given.try_emplace("use-precision-aware-optimizer",
                             StatedValue{{}, where_of(keys, key("use_precision_aware_optimizer"))});
    for (const auto& [flag, name] : {std::pair{"main-grads-dtype", "main_grads_dtype"},
                                     {"exp-avg-dtype", "exp_avg_dtype"},
                                     {"exp-avg-sq-dtype", "exp_avg_sq_dtype"}})
      if (states(keys, key(name)))
        args.given.try_emplace(flag, StatedValue{{word_of(keys, key(name))}, where_of(keys, key(name))});
  }
}

/// The models that verl keeps on the actor's GPUs beside it: its need_reference_policy() and need_critic()
/// (verl/trainer/ppo/utils.py).
void verl_models_beside(const StatedKeys& keys, MegatronArgs& args) {
  for (const char* key : {"actor_rollout_ref.actor.use_kl_loss", "algorithm.use_kl_in_reward"})
    if (is_on(keys, key)) left_unused(keys, key, args, "the reference model beside the trained one is not counted");
  constexpr std::string_view kEnable = "critic.enable", kEstimator = "algorithm.adv_estimator";
  const bool stated = !word_of(keys, kEnable).empty(), gae = word_of(keys, kEstimator) == "gae";
  if (stated ? is_on(keys, kEnable) : gae)
    left_unused(keys, stated ? kEnable : kEstimator, args, "the critic beside the trained model is not counted");
  for (const auto& [key, text] : verl::models_beside(keys)) left_unused(keys, key, args, std::string(text));
  if (const std::string fewer = verl::beyond_a_step(keys); !fewer.empty()) left_unused(keys, verl::kStep, args, fewer);
  if (const std::string_view critic = verl::critic_by_default(keys); !critic.empty())
    left_unused(keys, critic, args, verl::kDefaultCritic);
}

constexpr std::string_view kMicro = "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu";
constexpr std::string_view kMicroOfAll = "actor_rollout_ref.actor.ppo_micro_batch_size";
constexpr std::string_view kPacked = "actor_rollout_ref.actor.use_dynamic_bsz";

std::int64_t degree_of(const MegatronArgs& args, std::string_view flag) {
  return std::max<std::int64_t>(1, args.integer(flag, 1));
}

/// The ranks that read micro-batches of their own; 0: not known, or the degrees do not divide the GPUs.
std::int64_t data_ranks(const LaunchFacts& facts, const MegatronArgs& args) {
  std::int64_t ranks = facts.gpus();
  for (const char* flag : {"context-parallel-size", "tensor-model-parallel-size", "pipeline-model-parallel-size"}) {
    if (ranks % degree_of(args, flag) != 0) return 0;
    ranks /= degree_of(args, flag);
  }
  return ranks;
}

/// What verl's worker trains at once: packed by tokens, of one GPU, or of all data ranks together, whose number it
/// divides (workers/megatron_workers.py, workers/actor/megatron_actor.py).
void verl_micro_batch(const StatedKeys& keys, const LaunchFacts& facts, MegatronArgs& args) {
  constexpr std::string_view kTokens = "actor_rollout_ref.actor.ppo_max_token_len_per_gpu";
  constexpr int kDefaultTokens = 16384;  // actor/actor.yaml
  const std::int64_t cp = degree_of(args, "context-parallel-size"), ranks = data_ranks(facts, args);
  const auto take = [&](std::int64_t number, std::string_view key) {
    args.given["micro-batch-size"] = {{fmt::format("{}", number)}, where_of(keys, key)};
  };
  if (is_on(keys, kPacked))
    return take(verl::packed(number_or(keys, kTokens, kDefaultTokens) * cp, args.integer("seq-length", 0),
                             ranks > 0 ? args.integer("global-batch-size", 0) / ranks : 0),
                states(keys, kTokens) ? kTokens : kPacked);
  if (states_number(keys, kMicro)) return;
  if (states_number(keys, kMicroOfAll) && facts.gpus() > 0) {
    const std::int64_t each = number_of(keys, kMicroOfAll) / std::max<std::int64_t>(1, ranks);
    if (ranks > 0 && each > 0) take(each, kMicroOfAll);
    return;  // else the degrees, or the number itself, are refused
  }
  args.unused.push_back({"not_counted", fmt::format("{}: verl stops where neither `{}` nor `use_dynamic_bsz` is "
                                                    "stated: micro-batches are counted as of one sequence",
                                                    where_of(keys, "actor_rollout_ref.model.path"), kMicro)});
}

std::optional<Error> verl_leaves_none(const StatedKeys& keys, const LaunchFacts& facts, const MegatronArgs& args) {
  const std::int64_t ranks = data_ranks(facts, args);
  const int all = number_of(keys, kMicroOfAll);
  if (is_on(keys, kPacked) || states_number(keys, kMicro) || !states_number(keys, kMicroOfAll) || all >= ranks)
    return std::nullopt;
  return Error{"wrong_value",
               fmt::format("{}: `{}` is {}, which verl divides by {} data ranks: none is left for each",
                           where_of(keys, kMicroOfAll), kMicroOfAll, all, ranks),
               {},
               {fmt::format("state a multiple of {}, or `{}`", ranks, kMicro)}};
}

/// The sequences of an update, of which each data rank takes a whole number.
void verl_batch(const StatedKeys& keys, const LaunchFacts& facts, MegatronArgs& args) {
  const std::string_view stated = states_number(keys, verl::kMiniBatch) ? verl::kMiniBatch : verl::kStep;
  const std::int64_t answers = number_or(keys, "actor_rollout_ref.rollout.n", 1), ranks = data_ranks(facts, args);
  std::int64_t samples = number_or(keys, verl::prompts_of_update(keys), verl::kDefaultMiniBatch) * answers;
  if (const std::string over = verl::left_over(samples, number_or(keys, verl::kStep, 0) * answers, ranks);
      !over.empty()) {
    left_unused(keys, stated, args, over);
    samples = samples / ranks * ranks;
  }
  args.given["global-batch-size"] = {{fmt::format("{}", samples)}, where_of(keys, stated)};
}

void derive_verl(const StatedKeys& keys, const LaunchFacts& facts, MegatronArgs& args) {
  verl_formats(keys, args);
  verl_models_beside(keys, args);
  constexpr std::string_view kPrediction = "actor_rollout_ref.model.mtp.enable";
  if (is_on(keys, kPrediction) && (!facts.model || facts.model->mtp.depth == 0))
    left_unused(keys, kPrediction, args, "prediction layers are counted where the model is known to have them");
  for (const char* key : {"actor_rollout_ref.model.lora.rank", "actor_rollout_ref.model.lora_rank"})
    if (states(keys, key)) adapters(keys, key, key, 0, false, args);
  if (is_on(keys, "actor_rollout_ref.actor.use_dynamic_bsz"))
    left_unused(keys, "actor_rollout_ref.actor.use_dynamic_bsz", args,
                "micro-batches are packed by tokens: counted as sequences of full length");
  constexpr std::string_view kPrompt = "data.max_prompt_length", kResponse = "data.max_response_length";
  constexpr int kDefaultLength = 512;  // data/legacy_data.yaml
  const auto or_default = [&](std::string_view key, int otherwise) { return number_or(keys, key, otherwise); };
  if (states(keys, kPrompt) || states(keys, kResponse)) {
    const std::int64_t tokens =
        std::int64_t{or_default(kPrompt, kDefaultLength)} + or_default(kResponse, kDefaultLength);
    args.given["seq-length"] = {{fmt::format("{}", tokens)},
                                where_of(keys, states(keys, kPrompt) ? kPrompt : kResponse)};
  }
  if (states_number(keys, verl::kMiniBatch) || states(keys, verl::kStep)) verl_batch(keys, facts, args);
  verl_micro_batch(keys, facts, args);
}

/// SkyRL's step is a mini-batch of prompts with their samples, and it recomputes all layers unless a file says
/// otherwise (megatron_worker.py, config.py).
void derive_skyrl(const StatedKeys& keys, const LaunchFacts&, MegatronArgs& args) {
  constexpr std::string_view kModel = "trainer.policy.model.path", kPrompt = "trainer.max_prompt_length";
  constexpr std::string_view kAnswer = "generator.sampling_params.max_generate_length";
  constexpr std::string_view kMini = "trainer.policy_mini_batch_size", kSamples = "generator.n_samples_per_prompt";
  constexpr std::string_view kCheckpointing = "trainer.gradient_checkpointing",
                             kRank = "trainer.policy.model.lora.rank";
  const auto or_default = [&](std::string_view key, int otherwise) { return number_or(keys, key, otherwise); };
  const auto given = [&](const char* flag, std::int64_t number, std::string_view key) {
    args.given[flag] = {{fmt::format("{}", number)}, where_of(keys, states_number(keys, key) ? key : kModel)};
  };
  given("seq-length", or_default(kPrompt, 512) + or_default(kAnswer, 1024), states(keys, kAnswer) ? kAnswer : kPrompt);
  given("global-batch-size", or_default(kMini, 256) * or_default(kSamples, 5), kMini);
  args.task = Task::FullFinetune, args.task_where = where_of(keys, kModel);
  if (states(keys, kRank)) adapters(keys, kRank, kRank, 0, false, args);
  const std::string word = word_of(keys, kCheckpointing);
  if (!word.empty() && !is_on(keys, kCheckpointing)) {
    for (const char* flag : {"recompute-granularity", "recompute-method", "recompute-num-layers", "recompute-modules"})
      args.given.erase(flag);
    return;
  }
  if (args.has("recompute-granularity")) return;
  args.given["recompute-granularity"] = {{"full"}, ""};
  args.given.try_emplace("recompute-method", StatedValue{{"uniform"}, ""});
  args.given.try_emplace("recompute-num-layers", StatedValue{{"1"}, ""});
}

/// `fp8_cfg:` of NeMo-RL, in Megatron-LM's words.
void nemo_rl_fp8(const StatedKeys& keys, MegatronArgs& args) {
  constexpr std::string_view kSection = "policy.megatron_cfg.fp8_cfg.";
  const auto key = [&](std::string_view name) { return std::string(kSection) + std::string(name); };
  if (!is_on(keys, key("enabled"))) return;
  for (const auto& [flag, name, otherwise] :
       {std::tuple{"fp8-format", "fp8", "e4m3"}, {"fp8-recipe", "fp8_recipe", "blockwise"}}) {
    const std::string word = word_of(keys, key(name));
    args.given.try_emplace(flag, StatedValue{{word.empty() ? otherwise : word}, where_of(keys, key("enabled"))});
  }
  if (is_on(keys, key("fp8_param")))
    args.given.try_emplace("fp8-param-gather", StatedValue{{}, where_of(keys, key("fp8_param"))});
}

void derive_nemo_rl(const StatedKeys& keys, const LaunchFacts&, MegatronArgs& args) {
  nemo_rl_fp8(keys, args);
  if (!args.has("overlap-grad-reduce")) args.given.erase("overlap-param-gather");  // one goes with the other
  if (is_on(keys, "policy.megatron_cfg.peft.enabled"))
    adapters(keys, "policy.megatron_cfg.peft.enabled", "policy.megatron_cfg.peft.dim", 8, false, args);
  for (const char* key : {"policy.dynamic_batching.enabled", "policy.sequence_packing.enabled"})
    if (is_on(keys, key))
      left_unused(keys, key, args, "micro-batches are packed by tokens: counted as sequences of full length");
  const auto switched = keys.find("policy.megatron_cfg.activation_checkpointing");
  if (switched == keys.end() || switched->second.values.empty()) return;
  if (!is_true(switched->second)) {
    args.given.erase("recompute-granularity"), args.given.erase("recompute-modules");
    return;
  }
  args.given.try_emplace("recompute-granularity", StatedValue{{"full"}, switched->second.where});
  if (args.text("recompute-granularity") != "full") return;
  args.given.erase("recompute-modules");  // of the example it extends: read under `selective` alone
  args.given["recompute-method"] = {{"uniform"}, switched->second.where};
  args.given["recompute-num-layers"] = {{"1"}, switched->second.where};
}

// With Ray each of ms-swift's roles has a section of its own over what all share; `train:` is the one that is trained.
constexpr std::string_view kRole = "train.", kGpusOfRole = "train.gpus";

Result<StatedKeys> keys_of_role(Result<StatedKeys> keys) {
  if (!keys) return keys;
  StatedKeys own;
  for (const auto& [key, value] : *keys)
    if (key.starts_with(kRole) && key != kGpusOfRole) own[key.substr(kRole.size())] = value;
  std::erase_if(*keys, [](const auto& row) { return row.first.starts_with(kRole); });
  own.merge(*keys);  // keeps the role's own word where both have one
  return own;
}

void take_gpus_of_role(const StatedKeys& keys, LaunchFacts& facts) {
  const int gpus = number_of(keys, kGpusOfRole);
  if (gpus == 0 || facts.total > 0) return;
  facts.nodes = 1, facts.gpus_per_node = gpus;
  facts.gpus_where = where_of(keys, kGpusOfRole);
}

void derive_swift(const StatedKeys& keys, const LaunchFacts&, MegatronArgs& args) {
  args.given.try_emplace("expert-tensor-parallel-size", StatedValue{{"1"}, ""});  // its own default, not tp
  if (word_of(keys, "verb") == "sft") args.task = Task::FullFinetune, args.task_where = where_of(keys, "verb");
  if (const std::string kind = word_of(keys, "task_type"); !kind.empty() && kind != "causal_lm")
    left_unused(keys, "task_type", args, "the head of another task is counted as the vocabulary's");
  if (const std::string verb = word_of(keys, "verb"); !verb.empty() && verb != "pt" && verb != "sft" && verb != "rlhf")
    left_unused(keys, "verb", args, fmt::format("what `megatron {}` trains is not known", verb));
  for (const char* key : {"tuner_type", "train_type"}) {
    const std::string word = word_of(keys, key);
    if (word.starts_with("lora")) adapters(keys, key, "lora_rank", 8, word_of(keys, "quant_bits") == "4", args);
    if (word == "lora_llm")
      left_unused(keys, key, args, "parts beside the language model that are trained whole are not counted");
    else if (!word.empty() && word != "full" && word != "lora")
      left_unused(keys, key, args,
                  fmt::format("`{}` is counted as {}", word, word.starts_with("lora") ? "lora" : "full"));
  }
  for (const char* key : {"rlhf_type", "ref_model"})
    if (const std::string word = word_of(keys, key); !word.empty())
      left_unused(keys, key, args, "models beside the trained one are not counted");
  if (swift_generates(word_of(keys, "rlhf_type")) && args.integer("seq-length", 0) > 0) {
    const int answer = number_of(keys, "max_completion_length");
    const std::int64_t tokens = with_answer(args.integer("seq-length", 0), answer > 0 ? answer : kUsualAnswer,
                                            number_of(keys, "vllm_max_model_len"));
    args.given["seq-length"].values = {fmt::format("{}", tokens)};
  }
  if (keys.find("recompute_granularity") == keys.end()) args.given["recompute-granularity"] = {{"selective"}, ""};
}

void derive_llama_factory(const StatedKeys& keys, const LaunchFacts& facts, MegatronArgs& args) {
  factory_task(keys, args);
  // It divides the batch by the experts' ranks as well, which Megatron counts among the data-parallel ones.
  const bool experts = args.integer("expert-model-parallel-size", 1) > 1;
  if (experts && !is_on(keys, "use_megatron_bridge"))
    left_unused(keys, "expert_model_parallel_size", args,
                "the batch is that of Megatron-Bridge; with USE_MCA=1 each expert rank has one of its own");
  factory_batch(keys, facts, args.integer("expert-model-parallel-size", 1), args);
}

void derive_mca(const StatedKeys& keys, const LaunchFacts& facts, MegatronArgs& args) {
  factory_task(keys, args);
  factory_batch(keys, facts, 1, args);
  const auto set = [&](const char* flag, const char* value, std::string_view key) {
    args.given.try_emplace(flag, StatedValue{{value}, where_of(keys, key)});
  };
  if (args.text("recompute-granularity") == "full" && !args.has("recompute-method") &&
      !args.has("recompute-num-layers"))
    set("recompute-method", "uniform", "recompute_granularity"),
        set("recompute-num-layers", "1", "recompute_granularity");
  if (const auto found = args.given.find("recompute-modules"); found != args.given.end())
    found->second.values = words_between_commas(found->second.values);
  // Sequences are split where there is a tp, and have to be where experts are; nowhere else.
  const bool tp = args.integer("tensor-model-parallel-size", 1) > 1;
  if (!tp) args.given.erase("sequence-parallel");
  if (tp && args.integer("expert-model-parallel-size", 1) > 1)
    args.given.try_emplace("sequence-parallel", StatedValue{{}, ""});
  args.given.try_emplace("moe-token-dispatcher-type", StatedValue{{"allgather"}, ""});
  if (is_on(keys, "moe_layer_recompute"))
    left_unused(keys, "moe_layer_recompute", args, "the experts' activations are counted as kept");
}

}  // namespace plan
