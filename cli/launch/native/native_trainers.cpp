// What the readers of nanotron's, litgpt's and OLMo's configurations share. Tested by tests/launch/native_test.cpp.
#include "cli/launch/native/native_trainers.hpp"

#include <fmt/core.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "cli/launch/job/weighty_names.hpp"
#include "planner/rules/stack_data.hpp"
#include "presets/config_json.hpp"
#include "presets/quantity.hpp"
#include "presets/suggest.hpp"
#include "presets/yaml.hpp"

namespace plan::native_trainers {

Result<Settings> settings_of(std::span<const LaunchSource> files) {
  Settings all;
  for (const LaunchSource& file : files) {
    const std::size_t start = file.text.find_first_not_of(" \t\r\n");
    const bool json = start != std::string::npos && file.text[start] == '{';
    const Result<Settings> one = json ? settings_of_json(file) : settings_of_yaml(file);
    if (!one) return tl::unexpected(one.error());
    all.append(*one);
  }
  return all;
}

bool may_be_yaml(const LaunchSource& source) {
  return !is_shell(source) && !source.path.ends_with(".py") && !source.path.ends_with(".json");
}

bool has_lines(const LaunchSource& source, std::initializer_list<std::string_view> starts) {
  const std::string& text = source.text;
  return std::all_of(starts.begin(), starts.end(), [&](std::string_view start) {
    for (std::size_t at = text.find(start); at != std::string::npos; at = text.find(start, at + 1))
      if (at == 0 || text[at - 1] == '\n') return true;
    return false;
  });
}

void describe_model(JobBuilder& builder, std::string_view type, std::string_view from,
                    std::initializer_list<std::pair<std::string_view, std::int64_t>> numbers,
                    std::initializer_list<std::pair<std::string_view, bool>> switches) {
  const std::string where = builder.settings.where(from);
  nlohmann::json config{{"model_type", std::string(type)}};
  for (const auto& [key, value] : numbers) config[std::string(key)] = value;
  for (const auto& [key, value] : switches) config[std::string(key)] = value;
  Result<Model> model = read_config_json(config.dump(), where.substr(0, where.rfind(':')), KeysOf::Reader);
  if (!model) {
    for (const Error& error : model.error())
      builder.errors.push_back({error.code, fmt::format("{}: {}", where, error.message), error.facts, error.help});
    return;
  }
  builder.job.model = std::move(*model);
  state(builder.job, "model", builder.job.model->name, where);
}

void read_own_model(JobBuilder& builder, const LaunchFacts& facts, void (*read)(JobBuilder&)) {
  if (facts.asked) return;
  builder.job.model.reset();
  read(builder);
}

FsdpStrategy read_strategy(Settings& settings, std::string_view key, std::string_view wanted) {
  const std::string word = settings.text(key).value_or("FULL_SHARD");
  if (word == "FULL_SHARD") return {3, false};
  if (word == "SHARD_GRAD_OP") return {2, false};
  if (word == "HYBRID_SHARD") return {3, true};
  if (word == "_HYBRID_SHARD_ZERO2") return {2, true};
  if (word != "NO_SHARD") settings.refuse(*settings.get(key), wanted);
  return {0, false};
}

void read_format(JobBuilder& builder, std::string_view key, std::span<const FormatWord> words) {
  const std::string word = lowered(builder.settings.text(key).value_or("fp32"));
  std::string wanted;
  for (const FormatWord& row : words) {
    if (row.word == word) return builder.precision(row.precision, key);
    wanted += fmt::format("{}{}", wanted.empty() ? "" : &row == &words.back() ? " or " : ", ", row.word);
  }
  builder.settings.refuse(*builder.settings.get(key), wanted);
}

void fix_unsplit(JobBuilder& builder) {
  for (const auto axis : {&Fixed::tp, &Fixed::cp, &Fixed::pp, &Fixed::vp, &Fixed::ep, &Fixed::etp})
    builder.fix(axis, 1, "");
  builder.fix(&Fixed::sequence_parallel, false, "off", "");
}

void pure_bf16(Training& training) {
  training.grad_bytes = 2;
  training.master_bytes = 0;
  training.moment1_bytes = training.moment2_bytes = 2;
}

void read_dropout(JobBuilder& builder, std::string_view key, double otherwise) {
  const std::optional<std::string> word = builder.settings.text(key);
  const std::optional<double> share = word ? parse_number(*word) : otherwise;
  if (!share || !(*share >= 0 && *share < 1)) return builder.settings.refuse(*builder.settings.get(key), "0 to 1");
  builder.training.dropout = *share;
}

void read_compile(JobBuilder& builder, bool compiled, std::string_view key) {
  builder.origin("compile", compiled ? "on" : "off", key);
  const Stack way = compiled ? stacks::fsdp_compiled() : stacks::fsdp();
  Stack& stack = builder.training.stack;
  stack.fused_pointwise = way.fused_pointwise, stack.fused_softmax = way.fused_softmax;
  stack.fused_norms = way.fused_norms, stack.fused_activation = way.fused_activation;
}

void tell_counted(JobBuilder& builder, std::span<const CountedAs> rows) {
  for (const CountedAs& row : rows) tell_counted_as(builder, row);
}

void tell_the_rest(JobBuilder& builder, std::span<const std::string_view> irrelevant, std::string_view tool) {
  const std::vector<std::string_view> asked = builder.settings.asked_keys();
  for (const Setting& setting : builder.settings.all()) {
    const bool empty = setting.value.empty() && setting.items.empty();
    if (empty || builder.settings.asked(setting)) continue;
    const std::string_view key = std::string_view(setting.key).substr(0, setting.key.find('['));
    const auto passed = std::find_if(irrelevant.begin(), irrelevant.end(), [&](std::string_view section) {
      return setting.key == section || ((section.ends_with('.') || section.ends_with('[') || section.ends_with('_')) &&
                                        setting.key.starts_with(section));
    });
    if (passed != irrelevant.end()) {
      // A section that says nothing may yet hold a slip of a key that does, or what sounds as if it weighed.
      const bool inner = passed->starts_with("model.") || passed->starts_with("train_module.");
      const bool weighs = inner && setting.key != *passed && sounds_weighty(key) && !switched_off(setting.value);
      if (!weighs && (setting.key == *passed || !is_slip(key, asked))) continue;
    }
    builder.unknown_key(setting, key, asked, fmt::format("of {} has no meaning here", tool));
  }
}

}  // namespace plan::native_trainers
