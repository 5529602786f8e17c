#include <doctest/doctest.h>

#include <sstream>
#include <string>

#include "presets/model_parts.hpp"
#include "presets/reader.hpp"
#include "presets/stack.hpp"
#include "presets/yaml.hpp"

namespace {

/// The keys that the reader names when it meets one that resembles none: "keys here: a, b, c".
std::vector<std::string> keys_in(const plan::Errors& errors) {
  std::vector<std::string> keys;
  for (const plan::Error& error : errors)
    for (const std::string& help : error.help) {
      const std::string lead = "keys here: ";
      if (!help.starts_with(lead)) continue;
      std::istringstream list(help.substr(lead.size()));
      for (std::string key; list >> key;) keys.push_back(key.back() == ',' ? key.substr(0, key.size() - 1) : key);
    }
  return keys;
}

}  // namespace

TEST_CASE("plan-preset(5) documents every key") {
  const auto page = plan::yaml::read_text(std::string(PLAN_SOURCE_DIR) + "/man/plan-preset.5");
  REQUIRE(page.has_value());
  const std::string stray = "  qqqqqqqqqqqqqq: 1\n";
  std::vector<plan::Errors> all;
  const std::string model = "preset: model/1\n", gpu = "preset: gpu/1\n", cluster = "preset: cluster/1\n",
                    stack = "preset: stack/1\n";
  all.push_back(plan::read_model(model + "qqqqqqqqqqqqqq: 1\n", "m").error());
  all.push_back(plan::read_model(model + "mtp:\n" + stray, "m").error());
  for (const plan::LayerPartRow* part : plan::layer_parts())
    all.push_back(plan::read_model(model + std::string(part->name) + ":\n" + stray, "m").error());
  all.push_back(plan::read_gpu(gpu + "qqqqqqqqqqqqqq: 1\n", "g").error());
  all.push_back(plan::read_gpu(gpu + "peak:\n" + stray, "g").error());
  const plan::GpuLookup none = [](std::string_view) { return plan::Gpu{}; };
  all.push_back(plan::read_cluster(cluster + "qqqqqqqqqqqqqq: 1\n", "c", none).error());
  all.push_back(plan::read_cluster(cluster + "tiers:\n  - qqqqqqqqqqqqqq: 1\n", "c", none).error());
  all.push_back(plan::read_stack(stack + "qqqqqqqqqqqqqq: 1\n", "s").error());
  all.push_back(plan::read_stack(stack + "changes:\n  - qqqqqqqqqqqqqq: 1\n", "s").error());
  all.push_back(plan::read_stack(stack + "facts:\n  - qqqqqqqqqqqqqq: 1\n", "s").error());
  all.push_back(plan::read_stack(stack + "runs:\n  - qqqqqqqqqqqqqq: 1\n", "s").error());
  all.push_back(plan::read_stack(stack + "runs:\n  - when:\n      qqqqqqqqqqqqqq: 1\n", "s").error());
  for (const plan::Errors& errors : all) {
    const std::vector<std::string> keys = keys_in(errors);
    CHECK(keys.size() >= 2);
    for (const std::string& key : keys) {
      CAPTURE(key);
      CHECK((page->find("Ic " + key) != std::string::npos || page->find(", " + key) != std::string::npos));
    }
  }
}
