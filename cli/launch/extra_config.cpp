// What LLaMA-Factory hands on as JSON. Tested by tests/launch/round_trip_test.cpp.
#include "cli/launch/extra_config.hpp"

#include <nlohmann/json.hpp>
#include <string>

#include "cli/launch/fsdp_dialects.hpp"

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

void fold_extra_config(std::vector<DialectSetting>& settings) {
  constexpr std::string_view kExtra = "extra_config.";
  nlohmann::ordered_json extra;
  for (const DialectSetting& setting : settings)
    if (setting.key.starts_with(kExtra)) extra[setting.key.substr(kExtra.size())] = json_of(setting.value);
  std::erase_if(settings, [&](const DialectSetting& setting) { return setting.key.starts_with(kExtra); });
  if (!extra.empty()) settings.push_back({"extra_config", "'" + extra.dump() + "'"});
}

void unfold_extra_config(DialectKeys& keys) {
  const auto found = keys.find("extra_config");
  if (found == keys.end() || found->second.values.empty()) return;
  const auto extra = nlohmann::ordered_json::parse(found->second.values.front(), nullptr, false);
  if (!extra.is_object()) return;
  const std::string where = found->second.where;
  const auto word = [](const nlohmann::ordered_json& value) {
    return value.is_string() ? value.get<std::string>() : value.dump();
  };
  for (const auto& [key, value] : extra.items()) {
    MegatronValue& out = keys["extra_config." + key] = {{}, where};
    if (!value.is_array()) out.values.push_back(word(value));
    if (value.is_array())
      for (const auto& item : value) out.values.push_back(word(item));
  }
  keys.erase("extra_config");
}

}  // namespace plan
