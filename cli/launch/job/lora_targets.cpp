// Names of the linears that get adapters. Tested by tests/launch/lora_targets_test.cpp.
#include "cli/launch/job/lora_targets.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "cli/terminal/words.hpp"
#include "formulas/text.hpp"
#include "presets/suggest.hpp"

namespace plan {
namespace {

enum Part : unsigned {
  Query = 1,
  Key = 2,
  Value = 4,
  Out = 8,
  Attention = 15,
  Up = 16,
  Gate = 32,
  Down = 64,
  FeedForward = 112
};

struct Linear {
  std::string_view name;
  unsigned parts;
};

/// The longest name that a word holds counts: `gate_up_proj` before `up_proj`.
constexpr Linear kLinears[] = {{"dense_h_to_4h", Up | Gate},
                               {"dense_4h_to_h", Down},
                               {"query_key_value", Query | Key | Value},
                               {"linear_qkv", 7},
                               {"linear_proj", Out},
                               {"linear_fc1", Up | Gate},
                               {"linear_fc2", Down},
                               {"gate_up_proj", Up | Gate},
                               {"output_proj", Out},
                               {"qkv_proj", 7},
                               {"gate_proj", Gate},
                               {"down_proj", Down},
                               {"out_proj", Out},
                               {"up_proj", Up},
                               {"c_attn", 7},
                               {"q_proj", Query},
                               {"k_proj", Key},
                               {"v_proj", Value},
                               {"o_proj", Out},
                               {"q_a_proj", Query},
                               {"q_b_proj", Query},
                               {"kv_a_proj", Key | Value},
                               {"kv_b_proj", Key | Value},
                               {"wqkv", 7},
                               {"attn", Attention},
                               {"attention", Attention},
                               {"mlp", FeedForward},
                               {"gate_up", Up | Gate},
                               {"c_fc", Up},
                               {"fc1", Up},
                               {"fc2", Down},
                               {"w1", Gate},
                               {"w2", Down},
                               {"w3", Up},
                               {"wq", Query},
                               {"wk", Key},
                               {"wv", Value},
                               {"wo", Out},
                               {"qkv", 7}};

/// The linear that a word names; 0: none that is known.
unsigned parts_of(const std::string& word) {
  const Linear* best = nullptr;
  for (const Linear& linear : kLinears)
    if (word.find(linear.name) != std::string::npos && (best == nullptr || linear.name.size() > best->name.size()))
      best = &linear;
  return best == nullptr ? 0 : best->parts;
}

bool word_char(char c) { return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z'); }

/// The linear itself of a path to it, `model.layers.*.self_attn.q_proj`: what is behind its last dot.
std::string behind_path(const std::string& text) {
  const std::size_t start = text.rfind('.') + 1;
  const bool named = std::any_of(text.begin() + static_cast<std::ptrdiff_t>(start), text.end(), word_char);
  return named ? text.substr(start) : text;
}

/// Linears, and whether some are of a tower beside the language model, by the path to them.
struct NamedLinears {
  std::vector<std::string> linears{};
  bool tower = false;
};

bool of_a_tower(const std::string& path) {
  constexpr std::string_view kTowers[] = {"vision", "visual",    "audio",   "image",       "tower",
                                          "merger", "projector", "aligner", "multi_modal", "mm_"};
  return std::any_of(std::begin(kTowers), std::end(kTowers),
                     [&](std::string_view word) { return path.find(word) != std::string::npos; });
}

/// `(up|q)_proj` as `up_proj` and `q_proj`, the innermost brackets first; what must not be met, `(?!visual)`, names
/// nothing.
void spell_out(const std::string& text, NamedLinears& out, int groups = 0) {
  constexpr int kMostGroups = 32;
  constexpr std::size_t kMostWords = 256;
  const std::size_t close = text.find(')'), open = close == std::string::npos ? close : text.rfind('(', close);
  if (open == std::string::npos || groups == kMostGroups || out.linears.size() >= kMostWords) {
    if (of_a_tower(text))
      out.tower = true;
    else
      out.linears.push_back(behind_path(text));
    return;
  }
  const std::string inside = text.substr(open + 1, close - open - 1);
  for (const std::string_view one : split(inside.starts_with("?!") ? "" : std::string_view(inside), "|"))
    spell_out(fmt::format("{}{}{}", text.substr(0, open), one, text.substr(close + 1)), out, groups + 1);
}

/// `(q_proj|v_proj)`, `q_proj,v_proj` and a list of both name two: what is between signs, outside of brackets.
NamedLinears single(std::string_view text) {
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  std::vector<std::string> parts(1);
  NamedLinears out;
  int depth = 0;
  for (const char c : text) {
    depth += static_cast<int>(c == '(' || c == '[') - static_cast<int>(c == ')' || c == ']');
    if (depth == 0 && std::string_view("|,'\" ").find(c) != std::string_view::npos)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  std::erase_if(parts, [](const std::string& part) { return part.empty(); });
  for (const std::string& part : parts) spell_out(part, out);
  return out;
}

}  // namespace

std::optional<LoraTargets> lora_targets(std::span<const std::string> words) {
  unsigned named = 0;
  std::string unknown;
  bool tower = false;
  for (const std::string& text : words) {
    const NamedLinears linears = single(lowered(text));
    tower |= linears.tower;
    for (const std::string& word : linears.linears) {
      if (word == "all" || word == "all-linear" || word == "all_linear" || word == "auto") return std::nullopt;
      const unsigned parts = parts_of(word);
      named |= parts;
      if (parts == 0) unknown += fmt::format("{}`{}`", unknown.empty() ? "" : ", ", word);
    }
  }
  if (tower) unknown += fmt::format("{}linears beside the language model", unknown.empty() ? "" : ", ");
  LoraTargets out;
  if (named == 0) {
    if (!unknown.empty()) out.counted_as = fmt::format("{} is counted as all linears", unknown);
    return out;
  }
  out.attention = (named & Attention) != 0, out.ffn = (named & FeedForward) != 0;
  const bool some = (out.attention && (named & Attention) != Attention) || (out.ffn && (named & Down) != Down) ||
                    (out.ffn && (named & (Up | Gate)) == 0);
  if (some) out.counted_as = "adapters on some of a block's linears are counted on all of them";
  if (!unknown.empty())
    out.counted_as += fmt::format("{}adapters on {} are not counted", out.counted_as.empty() ? "" : ", ", unknown);
  return out;
}

}  // namespace plan
