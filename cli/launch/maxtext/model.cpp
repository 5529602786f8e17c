// The model of a MaxText configuration: by its name, whose file of configs/models states every dimension and lies over
// the configuration, or by the dimensions of a configuration without a name. Defaults: MaxText e591f30c
// configs/base.yml. Tested by tests/launch/maxtext_switches_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "cli/launch/job/counted_as.hpp"
#include "cli/launch/maxtext/maxtext.hpp"
#include "cli/launch/native/native_trainers.hpp"
#include "cli/terminal/words.hpp"
#include "formulas/words.hpp"
#include "presets/suggest.hpp"
#include "presets/yaml.hpp"

namespace plan::maxtext {
namespace {

constexpr std::string_view kName = "model_name", kScale = "global_parameter_scale";
constexpr std::string_view kWidth = "base_emb_dim", kDepth = "base_num_decoder_layers", kBlock = "decoder_block";

/// Keys that a model's own file states.
constexpr std::string_view kShape[] = {
    kWidth,     kDepth,       kBlock,        "base_num_query_heads", "base_num_kv_heads",   "base_mlp_dim",
    "head_dim", "vocab_size", "num_experts", "base_moe_mlp_dim",     "num_experts_per_tok", "logits_via_embedding"};

/// Decoder blocks with the layers of a family of Hugging Face's.
constexpr std::pair<std::string_view, std::string_view> kBlocks[] = {
    {"llama2", "llama"}, {"default", "llama"},   {"mistral", "mistral"},    {"qwen2", "qwen2"},
    {"qwen3", "qwen3"},  {"mixtral", "mixtral"}, {"qwen3_moe", "qwen3_moe"}};

/// How often the base of each dimension is taken: `global_parameter_scale`, a power of two, goes to heads and
/// feed-forward first, then to the width, and to the layers with every third doubling (pyconfig.py,
/// get_individual_scales).
struct Scale {
  std::int64_t inner = 1, width = 1, depth = 1;
};

Scale scale_of(JobBuilder& builder) {
  const int whole = builder.degree(kScale, 1);
  int doublings = 0;
  while (whole >> (doublings + 1) > 0) ++doublings;
  if (whole > 0 && whole != 1 << doublings) builder.settings.refuse(*builder.settings.get(kScale), "a power of two");
  const int rest = doublings % 3, each = doublings / 3;
  return {std::int64_t{1} << (each + (rest > 0 ? 1 : 0)), std::int64_t{1} << (each + (rest > 1 ? 1 : 0)),
          std::int64_t{1} << each};
}

void describe(JobBuilder& builder, std::string_view family, std::string_view from) {
  Settings& settings = builder.settings;
  const Scale scale = scale_of(builder);
  const std::int64_t width = builder.degree(kWidth, 2048) * scale.width,
                     depth = builder.degree(kDepth, 16) * scale.depth,
                     heads = builder.degree("base_num_query_heads", 16) * scale.inner,
                     mlp = builder.degree("base_mlp_dim", 7168) * scale.inner;
  const int experts = builder.degree("num_experts", 1);
  const std::int64_t of_experts = builder.degree("base_moe_mlp_dim", -1, -1) * scale.inner;
  const std::int64_t of_each = of_experts > 0 ? of_experts : mlp;
  const bool sparse = family == "mixtral" || family == "qwen3_moe";
  std::int64_t inner = mlp;
  if (family == "mixtral") inner = of_each;
  if (settings.errors().empty())
    native_trainers::describe_model(
        builder, family, from,
        {{"hidden_size", width},
         {"num_hidden_layers", depth},
         {"num_attention_heads", heads},
         {"num_key_value_heads", builder.degree("base_num_kv_heads", 16) * scale.inner},
         {"head_dim", builder.degree("head_dim", 128)},
         {"intermediate_size", inner},
         {"vocab_size", builder.degree("vocab_size", 32000)},
         {sparse && family == "mixtral" ? "num_local_experts" : "num_experts", experts},
         {"num_experts_per_tok", builder.degree("num_experts_per_tok", 1)},
         {"moe_intermediate_size", of_each}},
        {{"tie_word_embeddings", settings.boolean("logits_via_embedding").value_or(false)}});
}

/// The dimensions of a configuration without a model's name; its layers may be of a kind that has no family here.
void read_dimensions(JobBuilder& builder) {
  Settings& settings = builder.settings;
  const auto* from =
      std::find_if(std::begin(kShape), std::end(kShape), [&](std::string_view key) { return settings.states(key); });
  if (from == std::end(kShape)) return;  // nothing of the model: it is asked for
  const std::string block = settings.text(kBlock).value_or("llama2");
  const auto* known =
      std::find_if(std::begin(kBlocks), std::end(kBlocks), [&](const auto& row) { return row.first == block; });
  if (known != std::end(kBlocks)) return describe(builder, known->second, *from);
  for (const std::string_view key : kShape) (void)settings.get(key);
  builder.unmodelled("unknown_model",
                     fmt::format("{}: layers of `{}: {}` are not built from their dimensions: they are "
                                 "counted as those of `--model`",
                                 settings.where(kBlock), kBlock, yaml::printable(block)));
}

bool is_yaml(std::string_view file) { return file.ends_with(".yml") || file.ends_with(".yaml"); }

}  // namespace

bool names_model(Settings& settings) {
  const std::string word = settings.text(kName).value_or("");
  return !word.empty() && word != "default";
}

void read_model(JobBuilder& builder) {
  Settings& settings = builder.settings;
  if (!names_model(settings)) return read_dimensions(builder);
  const std::string word = *settings.text(kName);
  std::string_view preset = word;
  for (const ModelName& row : model_names())
    if (row.name == word) preset = row.preset;
  builder.model(preset, word, kName);
  tell_counted_as(builder, {kScale, "1", "the model of a name is counted at its own size"});
  const bool over = settings.boolean("override_model_config").value_or(false);
  std::string beside;
  for (const std::string_view key : kShape) {
    const Setting* setting = settings.get(key);
    if (setting != nullptr && is_yaml(setting->place.file) && base_name(setting->place.file) != "base.yml")
      beside += fmt::format("{}`{}`", beside.empty() ? setting->where() + ": " : ", ", key);
    if (setting != nullptr && !over && !is_yaml(setting->place.file))
      builder.unmodelled("not_counted",
                         fmt::format("{}: `{}` beside `model_name`: MaxText stops there unless "
                                     "`override_model_config` is true or the model has it, and it is not counted",
                                     setting->where(), key));
  }
  if (!beside.empty())
    builder.unmodelled("not_counted",
                       fmt::format("{} beside `model_name`: the model of that name goes over it", beside));
}

}  // namespace plan::maxtext
