// Families whose classes are shipped beside their weights, so that no release of transformers counts them: random
// configs, counted here matrix by matrix as those classes build them. What a config leaves out is drawn too.
#include <doctest/doctest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "formulas/parameters.hpp"
#include "presets/config_json.hpp"

namespace {

using Count = std::int64_t;
using Json = nlohmann::json;

struct Draw {
  std::mt19937 random;
  Json config{};
  Count heads = 0, kv_heads = 0, head_dim = 0, hidden = 0, ffn = 0, depth = 0, vocab = 0;

  Count one_of(std::initializer_list<Count> all) { return all.begin()[random() % all.size()]; }
  /// A switch that the config may leave out, and then is `assumed`.
  bool flag(const std::string& key, bool assumed) {
    const Count what = one_of({0, 1, 2});
    if (what == 2) return assumed;
    config[key] = what == 1;
    return what == 1;
  }
  Count number(const std::string& key, std::initializer_list<Count> all) {
    const Count value = one_of(all);
    config[key] = value;
    return value;
  }
  /// A number, or a list of it for every layer.
  Count number_or_list(const std::string& key, std::initializer_list<Count> all) {
    const Count value = one_of(all);
    if (one_of({0, 1}) == 0)
      config[key] = value;
    else
      config[key] = std::vector<Count>(static_cast<std::size_t>(depth), value);
    return value;
  }
  void begin(const std::string& family, Count assumed_head_dim) {
    config = {{"model_type", family}};
    hidden = number("hidden_size", {64, 96, 192}), ffn = number("intermediate_size", {80, 128});
    depth = number("num_hidden_layers", {1, 2, 5}), vocab = number("vocab_size", {100, 1000});
    heads = number("num_attention_heads", {4, 8}), kv_heads = number("num_key_value_heads", {1, 2, 4});
    head_dim = assumed_head_dim > 0 ? assumed_head_dim : hidden / heads;
    if (one_of({0, 1}) == 0) head_dim = number("head_dim", {8, 24});
  }
  Count attention(bool in_bias, bool out_bias, bool norms) const {
    const Count in = (heads + 2 * kv_heads) * head_dim, out = heads * head_dim;
    return hidden * in + out * hidden + (in_bias ? in : 0) + (out_bias ? hidden : 0) + (norms ? 2 * head_dim : 0);
  }
  Count gated(Count width) const { return 3 * hidden * width; }
  /// Two norms a layer, one in front of the head, embedding and head.
  Count rest(bool tied) const { return 2 * hidden * depth + hidden + vocab * hidden * (tied ? 1 : 2); }
};

Count hunyuan(Draw& d) {
  d.begin("hunyuan_v1_moe", 0);
  const bool bias = d.flag("attention_bias", false), norms = d.flag("use_qk_norm", true);
  const bool beside = d.flag("use_mixed_mlp_moe", true), tied = d.flag("tie_word_embeddings", false);
  if (d.one_of({0, 1}) == 0) d.config["use_cla"] = false;
  const Count experts = d.number_or_list("num_experts", {4, 8});
  d.number_or_list("moe_topk", {1, 2});
  const Count width = d.one_of({0, 1}) == 0 ? d.ffn : d.number_or_list("moe_intermediate_size", {24, 40});
  const Count shared = d.one_of({0, 1}) == 0 ? 1 : d.number_or_list("num_shared_expert", {1, 2});
  return d.rest(tied) + d.depth * (d.attention(bias, bias, norms) + d.hidden * experts + experts * d.gated(width) +
                                   (beside ? d.gated(shared * d.ffn) : 0));
}

Count bailing(Draw& d) {
  d.begin(d.one_of({0, 1}) == 0 ? "bailing_moe" : "bailing_moe_v2", 0);
  const bool in_bias = d.flag("use_qkv_bias", false), out_bias = d.flag("use_bias", false);
  const bool norms = d.flag("use_qk_norm", false), tied = d.flag("tie_word_embeddings", false);
  const Count experts = d.number("num_experts", {4, 8}), width = d.number("moe_intermediate_size", {24, 40});
  d.number("num_experts_per_tok", {1, 2});
  const Count shared = d.one_of({0, 1}) == 0 ? 0 : d.number("num_shared_experts", {1, 2});
  const Count shared_width = d.one_of({0, 1}) == 0 ? width : d.number("moe_shared_expert_intermediate_size", {24, 40});
  const Count dense = d.one_of({0, 1}) == 0 ? 0 : d.number("first_k_dense_replace", {0, 1});
  Count all = d.rest(tied) + d.depth * d.attention(in_bias, out_bias, norms);
  for (Count layer = 0; layer < d.depth; ++layer)
    all +=
        layer < dense ? d.gated(d.ffn) : d.hidden * experts + experts * d.gated(width) + d.gated(shared * shared_width);
  return all;
}

Count internlm3(Draw& d) {
  d.begin("internlm3", 128);
  const bool bias = d.flag("bias", false), in_bias = d.flag("qkv_bias", bias),
             tied = d.flag("tie_word_embeddings", false);
  const Count biases = bias ? 2 * d.ffn + d.hidden : 0;
  return d.rest(tied) + d.depth * (d.attention(in_bias, bias, false) + d.gated(d.ffn) + biases);
}

Count minicpm(Draw& d) {
  d.begin("minicpm", 0);
  const bool bias = d.flag("attention_bias", false), tied = d.flag("tie_word_embeddings", true);
  return d.rest(tied) + d.depth * (d.attention(bias, bias, false) + d.gated(d.ffn));
}

Count mimo(Draw& d) {
  d.begin("mimo", 0);
  const bool tied = d.flag("tie_word_embeddings", false);
  return d.rest(tied) + d.depth * (d.attention(true, false, false) + d.gated(d.ffn));
}

}  // namespace

TEST_CASE("a random config of a family that ships its own code counts what that code builds") {
  Draw draw{std::mt19937(9)};
  for (int round = 0; round < 100; ++round)
    for (Count (*count)(Draw&) : {hunyuan, bailing, internlm3, minicpm, mimo}) {
      const Count expected = count(draw);
      CAPTURE(draw.config.dump());
      const auto model = plan::read_config_json(draw.config.dump(), "config.json");
      for (const plan::Error& e : model ? plan::Errors{} : model.error()) MESSAGE(e.message);
      REQUIRE(model.has_value());
      CHECK(plan::model_parameters(*model).total == expected);
    }
}

TEST_CASE("Hunyuan's layers that share keys, or differ in their experts, are refused by the key") {
  Draw draw{std::mt19937(4)};
  for (int round = 0; round < 30; ++round) {
    hunyuan(draw);
    std::string key = "use_cla";
    if (round % 3 == 0) {
      draw.config[key] = true;
    } else {
      key = round % 3 == 1 ? "num_experts" : "moe_topk";
      std::vector<Count> all(3, 2);
      all[draw.random() % 3] = 3;
      draw.config[key] = all;
    }
    CAPTURE(draw.config.dump());
    const auto model = plan::read_config_json(draw.config.dump(), "config.json");
    REQUIRE_FALSE(model.has_value());
    REQUIRE(model.error().size() == 1);
    CHECK(model.error()[0].code == "unsupported");
    CHECK(model.error()[0].message.find(key) != std::string::npos);
  }
}
