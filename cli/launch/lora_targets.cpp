// Names of the linears that get adapters. Tested by tests/launch/lora_targets_test.cpp.
#include "cli/launch/lora_targets.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>
#include <vector>

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

/// `(q_proj|v_proj)` and `q_proj,v_proj` name two.
std::vector<std::string> single(const std::string& text) {
  std::vector<std::string> out(1);
  for (const char c : text)
    if (std::string_view("|,()[]'\" ").find(c) != std::string_view::npos)
      out.emplace_back();
    else
      out.back() += c;
  std::erase_if(out, [](const std::string& word) { return word.empty(); });
  return out;
}

}  // namespace

std::optional<LoraTargets> lora_targets(std::span<const std::string> words) {
  unsigned named = 0;
  std::string unknown;
  for (const std::string& text : words)
    for (const std::string& word : single(lowered(text))) {
      if (word == "all" || word == "all-linear" || word == "all_linear" || word == "auto") return std::nullopt;
      const unsigned parts = parts_of(word);
      named |= parts;
      if (parts == 0) unknown += fmt::format("{}`{}`", unknown.empty() ? "" : ", ", word);
    }
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
