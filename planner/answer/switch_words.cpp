// Switches in words. Tested by tests/cli/switches_test.cpp.
#include "planner/answer/switch_words.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "formulas/activation.hpp"
#include "formulas/layer_rows.hpp"
#include "formulas/names.hpp"

namespace plan {

GraphParts graph_parts(const Model& model) {
  struct Scope {
    std::uint16_t bits;
    const char* words;
    bool (*in)(const Layer&);
  };
  static constexpr Scope kScopes[] = {
      {kGraphAttention, "attn", [](const Layer& l) { return mixer_row(l.mixer).graph == kGraphAttention; }},
      {kGraphMamba, "mamba", [](const Layer& l) { return mixer_row(l.mixer).graph == kGraphMamba; }},
      {kGraphMlp, "mlp", [](const Layer& l) { return l.ffn == Ffn::Dense; }},
      {kGraphRouter | kGraphPreprocess, "moe_router+moe_preprocess", [](const Layer& l) { return l.ffn == Ffn::Moe; }}};
  GraphParts parts;
  for (const Scope& scope : kScopes) {
    if (!std::any_of(model.kinds.begin(), model.kinds.end(), scope.in)) continue;
    parts.scopes = static_cast<std::uint16_t>(parts.scopes | scope.bits);
    parts.words += fmt::format("{}{}", parts.words.empty() ? "" : "+", scope.words);
  }
  return parts;
}

std::string offload_words(const Problem& switched, SwitchMask on) {
  std::string words = (on & kSwitchOptimizer) != 0 ? "optimizer" : "";
  if ((on & kSwitchWeights) != 0) words += ",parameters";
  if ((on & kSwitchActivations) != 0)
    words.append(words.empty() ? "" : ",").append(module_words(switched.training.offload.modules));
  return words;
}

std::string module_words(std::uint16_t modules) {
  std::string words;
  for (const auto& name : kOffloadModuleNames)
    if ((modules & name.value) != 0) words.append(words.empty() ? "" : "+").append(name.name);
  return words;
}

std::vector<std::string> switch_words(const Problem& switched) {
  const SwitchMask on = switched.switched;
  std::vector<std::string> words;
  if ((on & kSwitchGraphs) != 0) words.push_back("--cuda-graphs " + graph_parts(switched.model).words);
  if (const std::string offload = offload_words(switched, on); !offload.empty())
    words.push_back("--offload " + offload);
  return words;
}

}  // namespace plan
