// Sizes of a config.json that do not go together: refused where the number stands that makes it so.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>

#include "family_configs.hpp"
#include "formulas/parameters.hpp"

using nlohmann::json;
using plan::family_configs;
using plan::read_config;

TEST_CASE("groups of experts divide them and hold as many as a token goes to, and their score is known") {
  int mixtures = 0;
  std::mt19937 random(21);
  for (const json& config : family_configs()) {
    const auto model = read_config(config);
    REQUIRE(model.has_value());
    const auto kind = std::find_if(model->kinds.begin(), model->kinds.end(),
                                   [](const plan::Layer& one) { return one.ffn == plan::Ffn::Moe; });
    if (kind == model->kinds.end() || !config.contains("n_group")) continue;
    ++mixtures;
    const auto experts = kind->moe.experts, top_k = kind->moe.top_k;
    for (int round = 0; round < 50; ++round) {
      const auto groups = static_cast<std::int64_t>(2 + random() % static_cast<unsigned>(experts));
      const auto chosen = static_cast<std::int64_t>(1 + random() % static_cast<unsigned>(groups + 2));
      json edited = config;
      edited["n_group"] = groups, edited["topk_group"] = chosen, edited["topk_method"] = "noaux_tc";
      CAPTURE(edited.dump());
      const bool sound = experts % groups == 0 && chosen <= groups && top_k <= experts / groups * chosen;
      const auto read_again = read_config(edited);
      CHECK(read_again.has_value() == sound);
      if (read_again) continue;
      CHECK(read_again.error().size() == 1);
      CHECK(read_again.error().front().place.line > 0);
    }
    json edited = config;
    edited["scoring_func"] = "tanh";
    CHECK_FALSE(read_config(edited).has_value());
    edited["scoring_func"] = "sigmoid";
    CHECK(read_config(edited).has_value());
    for (const int none :
         {0, 1}) {  // no groups, or all experts in one: a token chooses among all, and layers are the same
      edited["n_group"] = edited["topk_group"] = none;
      const auto ungrouped = read_config(edited);
      REQUIRE(ungrouped.has_value());
      CHECK(*ungrouped == *model);
    }
  }
  CHECK(mixtures > 0);
}

// transformers' GPTJConfig has `tie_word_embeddings=False`, unlike most classes of its age; the published checkpoint
// has a head of its own, https://huggingface.co/EleutherAI/gpt-j-6b.
TEST_CASE("GPT-J has a head of its own, whether its config says so or leaves it out") {
  json config = json::parse(std::ifstream(std::string(PLAN_SOURCE_DIR) + "/tests/presets/configs/gpt-j-6b.json"));
  for (int round = 0; round < 2; ++round, config.erase("tie_word_embeddings")) {
    const auto model = read_config(config);
    REQUIRE(model.has_value());
    CHECK(plan::model_parameters(*model).total == 6'050'882'784);
  }
}

TEST_CASE("what is wrong with a whole model has the place of the number that makes it so") {
  for (const json& config : family_configs())
    for (const char* key : {"num_key_value_heads", "num_experts_per_tok"}) {
      if (!config.contains(key)) continue;
      json edited = config;
      edited[key] = 9973;  // a prime, and more than any family has
      const auto model = read_config(edited);
      if (model) continue;  // latent attention has no heads of keys
      CAPTURE(edited.dump());
      REQUIRE(model.error().size() == 1);
      CHECK(model.error().front().place.line > 0);
    }
}
