// Keys that are known and counted as if they had another value are reported. Tested by
// tests/launch/torchtitan_switches_test.cpp and tests/launch/deepspeed_switches_test.cpp.
#include "cli/launch/job/counted_as.hpp"
#include "cli/settings/settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "presets/quantity.hpp"
#include "presets/suggest.hpp"
#include "presets/yaml.hpp"

namespace plan {

namespace {

/// Megatron core 0.17 transformer_config.py and distributed_data_parallel_config.py; ms-swift 4, LLaMA-Factory 0.9.5.
constexpr CountedAs kSettings[] = {
    {"deallocate_pipeline_outputs", "true", "activations that were sent are counted as freed"},
    {"transformer_impl", "transformer_engine", "kernels are counted as TransformerEngine's"},
    {"bias_activation_fusion", "true", "biases and activations are counted as fused"},
    {"no_gradient_accumulation_fusion", "false", "weight gradients are counted as summed where they are computed"},
    {"grad_reduce_in_bf16", "false", "gradients are counted as reduced in fp32"},
    {"grad_reduce_in_fp32", "true", "gradients are counted as reduced in fp32"},
    {"attention_backend", "auto flash fused", "attention is counted as a fused kernel"},
    {"trainable_parameters", "", "frozen weights are counted as trained"},
    {"trainable_parameters_regex", "", "frozen weights are counted as trained"},
    {"modules_to_save", "", "modules trained whole beside adapters are not counted"},
    {"additional_target", "", "modules trained whole beside adapters are not counted"},
    {"target_modules", "all-linear all_linear", "adapters are counted on all linear layers"},
    {"lora_target", "all", "adapters are counted on all linear layers"},
    {"use_dora", "false", "DoRA's norms are counted as LoRA"},
    {"fp16", "false", "the products are counted in bf16"},
    {"pure_bf16", "false", "weights and states in bf16 are counted with fp32 master weights"},
    {"enable_liger_kernel", "false", "kernels that Liger fuses are counted as Megatron core's"},
    {"use_liger_kernel", "false", "kernels that Liger fuses are counted as Megatron core's"},
    {"optim", "adamw_torch adamw_torch_fused adamw", "the optimizer is counted as adam"},
    {"freeze_vit", "true", "a vision tower that is trained is not counted"},
    {"freeze_aligner", "true", "what joins a vision tower to the model is not counted"},
};

}  // namespace

const CountedAs* counted_setting(std::string_view name) {
  const auto* row =
      std::find_if(std::begin(kSettings), std::end(kSettings), [&](const CountedAs& one) { return one.key == name; });
  return row == std::end(kSettings) ? nullptr : row;
}

std::vector<std::string> words_of(const Setting& setting) {
  return setting.list ? setting.items : std::vector<std::string>{setting.value};
}

bool is_plain(std::string_view word, std::string_view plain) {
  if (word.empty()) return true;
  const std::optional<double> number = parse_number(word);
  while (!plain.empty()) {
    const std::string_view first = plain.substr(0, plain.find(' '));
    if (first == word || first == lowered(std::string(word)) || (truth_of(word) && truth_of(word) == truth_of(first)) ||
        (number && number == parse_number(first)))
      return true;
    plain.remove_prefix(std::min(plain.size(), first.size() + 1));
  }
  return false;
}

bool tell_counted_as(JobBuilder& builder, const CountedAs& row) {
  const Setting* setting = builder.settings.get(row.key);
  if (setting == nullptr) return false;
  for (const std::string& word : words_of(*setting)) {
    if (is_plain(word, row.plain)) continue;
    builder.unmodelled("not_counted", fmt::format("{}: `{} = {}`: {}", setting->where(), shown_key(row.key),
                                                  yaml::printable(word), row.what));
    return true;
  }
  return false;
}

}  // namespace plan
