// Keys of LLaMA-Factory and ms-swift that stand in one string of JSON: folded and unfolded, they are what they were.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "cli/launch/dialect/extra_config.hpp"

namespace plan {

TEST_CASE("what is folded into one string of JSON unfolds to the same words") {
  // As YAML, and the words that they stand for.
  const std::vector<std::pair<std::string, std::vector<std::string>>> values = {
      {"8", {"8"}},
      {"0.5", {"0.5"}},
      {"true", {"true"}},
      {"a2a", {"a2a"}},
      {"\"a2a+p2p\"", {"a2a+p2p"}},
      {"\"Ett|t*3|L\"", {"Ett|t*3|L"}},
      {"\"a \\\"b\\\" c\"", {"a \"b\" c"}},
      {"\"8\"", {"8"}},
      {"\"\"", {""}},
      {"[core_attn, mlp]", {"core_attn", "mlp"}},
      {"[core_attn]", {"core_attn"}},
      {"[1, 2]", {"1", "2"}},
  };
  std::mt19937 random(5);
  for (int draw = 0; draw < 200; ++draw) {
    std::vector<DialectSetting> settings{{"bf16", "true"}};
    std::map<std::string, std::vector<std::string>> wanted;
    for (auto i = random() % 5; i > 0; --i) {
      const auto& value = values[random() % values.size()];
      const std::string key = fmt::format("extra_config.model.key_{}", i);
      settings.push_back({key, value.first});
      wanted[key] = value.second;
    }
    const std::string folded = folded_json(settings, "extra_config");
    REQUIRE(settings.size() == 1);
    CHECK(settings.front().value == "true");
    CHECK(folded.empty() == wanted.empty());
    StatedKeys keys;
    if (!folded.empty()) keys["extra_config"] = {{folded}, "f.yaml:1"};
    unfold_json(keys, "extra_config");
    CHECK(keys.size() == wanted.size());
    for (const auto& entry : wanted) {
      CAPTURE(entry.first);
      REQUIRE(keys.contains(entry.first));
      CHECK(keys.at(entry.first).values == entry.second);
      CHECK(keys.at(entry.first).where == "f.yaml:1");
    }
  }
}

TEST_CASE("a path to a file of JSON is left alone") {
  for (const char* text : {"ds.json", "[1, 2]", "{", ""}) {
    StatedKeys keys;
    keys["extra_config"] = {{text}, "f.yaml:1"};
    unfold_json(keys, "extra_config");
    REQUIRE(keys.contains("extra_config"));
    CHECK(keys.at("extra_config").values.front() == text);
  }
}

}  // namespace plan
