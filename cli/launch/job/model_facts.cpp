// Facts of published models that move no byte and no FLOP of a plan but belong in a launch file: the base and the
// scaling of rotary embeddings, and how the router of experts chooses and is kept in balance. Source: the models'
// config.json on Hugging Face. Tested by tests/launch/model_facts_test.cpp.
#include "cli/launch/job/model_facts.hpp"

namespace plan {
namespace {

/// `rope_theta` of the models' config.json on Hugging Face.
struct Rope {
  std::string_view model;  ///< start of the preset's name
  int base;
};
constexpr Rope kRopes[] = {
    {"llama1", 10000},         {"llama2", 10000},          {"llama3", 500000},   {"llama4", 500000},
    {"qwen2", 1000000},        {"qwen3", 1000000},         {"mixtral", 1000000}, {"mistral-7b", 10000},
    {"mistral-nemo", 1000000}, {"mistral-large", 1000000}, {"deepseek", 10000},  {"moonlight", 50000},
    {"kimi-k2", 50000},        {"olmo2", 500000},          {"olmo3", 500000},    {"glm-4.5", 1000000},
    {"glm-4.6", 1000000},      {"glm-4.7", 1000000},       {"gpt-oss", 150000},  {"gemma", 10000},
    {"nemotron4", 10000},      {"minimax-m2", 5000000},    {"dbrx", 500000},     {"qwen3-next", 10000000},
    {"qwen3.5", 10000000},
};

/// `partial_rotary_factor`, or `rotary_dim` over `head_dim`, where it is not 1.
struct Partial {
  std::string_view model;
  std::string_view share;
};
constexpr Partial kPartials[] = {
    {"qwen3-next", "0.25"}, {"qwen3.5", "0.25"}, {"glm-4-", "0.5"},     {"glm-4.5", "0.5"},
    {"glm-4.6", "0.5"},     {"glm-4.7", "0.5"},  {"minimax-m2", "0.5"},
};

/// `rope_scaling.factor` of Llama 3's kind. Models of one shape were published without it, as Llama 3, and with it, as
/// Llama 3.1: it counts where a sequence is longer than those of the first phase of training,
/// `original_max_position_embeddings`. Others have it at every length.
struct Scaling {
  std::string_view model;
  int factor;
  std::string_view release;  ///< of the family: the first whose configuration has it
  bool always = false;
};
constexpr Scaling kScalings[] = {
    {"llama3-", 8, "Llama-3.1"}, {"llama3-405b", 8, "Llama-3.1", true}, {"llama3.2-", 32, "Llama-3.2", true}};
constexpr std::int64_t kOriginalPositions = 8192;

/// `n_group`, `topk_group`, `routed_scaling_factor`, whether scores are normalised over all experts before the best are
/// taken (`norm_topk_prob: false` under a softmax), and the loss that keeps the router in balance. DeepSeek-V3 counts
/// it in each sequence, at 1e-4 (arXiv:2412.19437, section 4.2), V2 at 1e-3 (`aux_loss_alpha`, `seq_aux`); mixtures of
/// Mistral AI and Qwen have `router_aux_loss_coef`. Llama 4's one expert has a sigmoid (transformers' Llama4Router).
struct Router {
  std::string_view model;
  RouterFacts facts;
};
constexpr Router kRouters[] = {
    {"deepseek-v3", {8, 4, "2.5", false, "seq_aux_loss", "1e-4"}},
    {"deepseek-v2", {8, 3, "16.0", true, "seq_aux_loss", "1e-3"}},
    {"deepseek-v2-lite", {0, 0, "", true, "seq_aux_loss", "1e-3"}},
    {"deepseek-moe", {0, 0, "", true, "seq_aux_loss", "1e-3"}},
    {"kimi-k2", {0, 0, "2.827", false, "seq_aux_loss", "1e-3"}},
    {"moonlight", {0, 0, "2.446", false, "seq_aux_loss", "1e-3"}},
    {"glm-4.5", {0, 0, "2.5", false, "aux_loss", "1e-3"}},
    {"glm-4.6", {0, 0, "2.5", false, "aux_loss", "1e-3"}},
    {"glm-4.7", {0, 0, "2.5", false, "aux_loss", "1e-3"}},
    {"glm-4.5-air", {0, 0, "", false, "aux_loss", "1e-3"}},
    {"llama4", {0, 0, "", false, "aux_loss", "1e-3", true}},
    {"mixtral-8x7b", {0, 0, "", false, "aux_loss", "2e-2"}},
};

}  // namespace

LaunchModelFacts launch_model_facts(std::string_view model, std::int64_t seq) {
  LaunchModelFacts facts;
  // The longest start of the name that a table holds counts: rows of a family come before those of its members.
  for (const Rope& rope : kRopes)
    if (model.starts_with(rope.model)) facts.rotary_base = rope.base;
  for (const Partial& row : kPartials)
    if (model.starts_with(row.model)) facts.rotary_percent = row.share;
  for (const Scaling& row : kScalings)
    if (model.starts_with(row.model) && (row.always || seq > kOriginalPositions))
      facts.rope_scaling = row.factor, facts.release = row.release;
  for (const Router& row : kRouters)
    if (model.starts_with(row.model)) facts.router = row.facts;
  facts.squared_relu = model.starts_with("nemotron");
  return facts;
}

std::string_view bridge_recipe(std::string_view model) {
  static constexpr std::pair<std::string_view, std::string_view> kStems[] = {
      {"llama3-405b", "llama31_405b"},
      {"llama3-70b", "llama3_70b"},
      {"llama3-8b", "llama3_8b"},
      {"llama3.2-1b", "llama32_1b"},
      {"llama3.2-3b", "llama32_3b"},
      {"llama2-7b", "llama2_7b"},
      {"deepseek-v3", "deepseek_v3"},
      {"deepseek-v2", "deepseek_v2"},
      {"deepseek-v2-lite", "deepseek_v2_lite"},
      {"qwen3-8b", "qwen3_8b"},
      {"qwen3-14b", "qwen3_14b"},
      {"qwen3-32b", "qwen3_32b"},
      {"qwen3-30b-a3b", "qwen3_30b_a3b"},
      {"qwen3-235b-a22b", "qwen3_235b_a22b"},
      {"kimi-k2", "kimi_k2"},
      {"gpt-oss-20b", "gpt_oss_20b"},
      {"gpt-oss-120b", "gpt_oss_120b"},
      {"gpt3-175b", "gpt3_175b"},
      {"gemma2-2b", "gemma2_2b"},
      {"gemma2-9b", "gemma2_9b"},
      {"gemma2-27b", "gemma2_27b"},
      {"gemma3-1b", "gemma3_1b"},
      {"olmoe-7b-a1b", "olmoe_7b"},
  };
  for (const auto& [name, stem] : kStems)
    if (model == name) return stem;
  return {};
}

}  // namespace plan
