// Layers that torchtitan's converters to fp8 and fp4 leave in bf16, by the names of their linears (torchtitan 0.2.2
// components/quantization/utils.py module_filter_fn; main b5bcd76c nvfp4.py: fqns). Tested by
// tests/launch/bf16_layers_test.cpp.
#include "cli/launch/torchtitan/filters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "cli/launch/job/counted_as.hpp"
#include "cli/terminal/bf16_layers.hpp"
#include "formulas/bf16_layers.hpp"
#include "formulas/names.hpp"
#include "presets/yaml.hpp"

namespace plan::torchtitan {
namespace {

/// `layers.3.`: every linear of layer 3 has it in its name, and no linear of another layer.
std::string prefix_of(int layer) { return fmt::format("layers.{}.", layer); }

bool names_head(const std::string& name) { return name == "output" || name == "lm_head"; }

/// Layers that one of the names holds for; those that hold for no whole layer go to `others`.
std::vector<bool> named_layers(const std::vector<std::string>& names, int depth, std::vector<std::string>& others) {
  std::vector<bool> named(static_cast<std::size_t>(std::max(0, depth)), false);
  for (const std::string& name : names) {
    bool whole = names_head(name);
    for (int layer = 0; layer < depth; ++layer) {
      if (prefix_of(layer).find(name) == std::string::npos) continue;
      named[static_cast<std::size_t>(layer)] = true, whole = true;
    }
    if (!whole) others.push_back(name);
  }
  return named;
}

/// As many from either end as stay in bf16, and whether that is all that do.
bool take_ends(const std::vector<bool>& in_bf16, Bf16Layers& ends) {
  const auto narrow = std::find(in_bf16.begin(), in_bf16.end(), false);
  const auto last = std::find(in_bf16.rbegin(), in_bf16.rend(), false);
  if (narrow == in_bf16.end()) return false;  // all of them: no training in fp8 at all
  ends = {.first = static_cast<int>(narrow - in_bf16.begin()), .last = static_cast<int>(last - in_bf16.rbegin())};
  return std::find(narrow, last.base(), true) == last.base();
}

/// Linears that a converter leaves in bf16: whole layers at the ends of the model are read, others reported.
void take_filtered(JobBuilder& builder, const Setting& setting, const FilteredLayers& filtered) {
  if (filtered.layers.any()) {
    builder.training.bf16_layers = filtered.layers;
    builder.origin("bf16_layers", bf16_layers_text(filtered.layers), setting.key);
  }
  if (!filtered.others.empty())
    builder.unmodelled("not_counted",
                       fmt::format("{}: `{}`: linears named {} that stay in bf16 are counted in {}", setting.where(),
                                   setting.key, yaml::printable(fmt::format("{}", fmt::join(filtered.others, ", "))),
                                   name(builder.training.precision)));
}

void read_filters(JobBuilder& builder) {
  const int depth = builder.job.model ? builder.job.model->depth() : 0;
  const bool mx = builder.training.precision == Precision::Mxfp8;
  const char* key = mx ? "quantize.linear.mx.filter_fqns" : "quantize.linear.float8.filter_fqns";
  if (const Setting* setting = builder.settings.get(key); setting != nullptr && is_narrow(builder.training.precision))
    take_filtered(builder, *setting, filtered_layers(words_of(*setting), depth));
}

/// Quoted words of a list that a call in Python has as an argument, `fqns=["layers.0.", "layers.1."]`; nothing if it
/// has none, or one that is computed.
std::optional<std::vector<std::string>> list_argument(std::string_view call, std::string_view argument) {
  for (std::size_t at = call.find(argument); at != std::string_view::npos; at = call.find(argument, at + 1)) {
    const std::string_view before = call.substr(0, at);
    std::string_view rest = call.substr(at + argument.size());
    rest.remove_prefix(std::min(rest.size(), rest.find_first_not_of(" \n")));
    if (before.empty() || before.find_last_of("(, \n") != at - 1 || !rest.starts_with('=')) continue;
    rest.remove_prefix(std::min(rest.size(), rest.find_first_not_of("= \n")));
    if (!rest.starts_with('[')) return std::nullopt;
    rest = rest.substr(0, rest.find(']'));
    std::vector<std::string> words;
    for (std::size_t open = rest.find_first_of("'\""); open != std::string_view::npos;) {
      const std::size_t close = rest.find(rest[open], open + 1);
      if (close == std::string_view::npos) break;
      words.emplace_back(rest.substr(open + 1, close - open - 1));
      open = rest.find_first_of("'\"", close + 1);
    }
    return words;
  }
  return std::nullopt;
}

/// Takes the layers that converters leave out, as recipes of torchtitan's main branch build them.
void read_converter_calls(JobBuilder& builder) {
  const Setting* converters = builder.settings.get("model_spec.converters");
  if (converters == nullptr || !is_narrow(builder.training.precision)) return;
  const int depth = builder.job.model ? builder.job.model->depth() : 0;
  for (const std::string& call : converters->items) {
    const bool filters = call.find("filter_fqns") != std::string::npos;
    if (!filters && call.find("fqns") == std::string::npos) continue;
    const auto names = list_argument(call, filters ? "filter_fqns" : "fqns");
    if (!names)
      builder.unmodelled("not_counted",
                         fmt::format("{}: layers that `{}` leaves in bf16 are counted in {}", converters->where(),
                                     yaml::printable(call), name(builder.training.precision)));
    else
      take_filtered(builder, *converters, filters ? filtered_layers(*names, depth) : converted_layers(*names, depth));
  }
}

}  // namespace

FilteredLayers filtered_layers(const std::vector<std::string>& names, int depth) {
  FilteredLayers out;
  if (!take_ends(named_layers(names, depth, out.others), out.layers)) out.others = names, out.layers = {};
  return out;
}

FilteredLayers converted_layers(const std::vector<std::string>& names, int depth) {
  FilteredLayers out;
  if (names.empty()) return out;
  std::vector<bool> in_bf16 = named_layers(names, depth, out.others);
  in_bf16.flip();
  if (!out.others.empty() || !take_ends(in_bf16, out.layers)) out.others = names, out.layers = {};
  return out;
}

std::vector<std::string> layer_names(const Bf16Layers& layers, int depth, bool in_bf16) {
  std::vector<std::string> out;
  for (int layer = 0; layer < depth; ++layer)
    if (stays_in_bf16(layers, layer, depth) == in_bf16) out.push_back(prefix_of(layer));
  return out;
}

void read_bf16_layers(JobBuilder& builder) {
  read_filters(builder);
  read_converter_calls(builder);
}

}  // namespace plan::torchtitan
