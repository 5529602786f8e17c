// What tools hand on to Megatron as JSON. Tested by tests/launch/round_trip_test.cpp.
#include "cli/launch/dialect/extra_config.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "cli/launch/post_training/fsdp_dialects.hpp"
#include "cli/settings/settings.hpp"

namespace plan {
namespace {

/// A setting's YAML as JSON: a list of words, a number, true or false, a word, which may be quoted as in JSON.
nlohmann::ordered_json json_of(const std::string& text) {
  if (text.starts_with('[')) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const std::string& item : listed(text)) list.push_back(json_of(item));
    return list;
  }
  const auto value = nlohmann::ordered_json::parse(text, nullptr, false);
  return value.is_discarded() ? nlohmann::ordered_json(text) : value;
}

}  // namespace

std::string folded_json(std::vector<DialectSetting>& settings, std::string_view key) {
  const std::string prefix = std::string(key) + ".";
  nlohmann::ordered_json extra;
  for (const DialectSetting& setting : settings)
    if (setting.key.starts_with(prefix)) extra[setting.key.substr(prefix.size())] = json_of(setting.value);
  std::erase_if(settings, [&](const DialectSetting& setting) { return setting.key.starts_with(prefix); });
  return extra.empty() ? "" : extra.dump();
}

void unfold_json(StatedKeys& keys, std::string_view key) {
  const auto found = keys.find(std::string(key));
  if (found == keys.end() || found->second.values.empty()) return;
  const auto extra = nlohmann::ordered_json::parse(found->second.values.front(), nullptr, false);
  if (!extra.is_object()) return;
  const std::string where = found->second.where;
  const auto word = [](const nlohmann::ordered_json& value) {
    return value.is_string() ? value.get<std::string>() : value.dump();
  };
  for (const auto& [inner, value] : extra.items()) {
    StatedValue& out = keys[std::string(key) + "." + inner] = {{}, where};
    if (!value.is_array()) out.values.push_back(word(value));
    if (value.is_array())
      for (const auto& item : value) out.values.push_back(word(item));
  }
  keys.erase(std::string(key));
}

void take_extra_of_swift(StatedKeys& keys) {
  unfold_json(keys, kSwiftExtra);
  const std::vector<DialectKey>& own = swift_dialect().keys;
  lay_over(keys, kSwiftExtra, [&own](const std::string& name) {
    return std::any_of(own.begin(), own.end(), [&](const DialectKey& row) { return row.key == name; });
  });
}

}  // namespace plan
