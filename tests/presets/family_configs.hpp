// Small configs of every family that is known, and how tests read them.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "presets/config_json.hpp"

namespace plan {

/// Configs that the families' own classes accept, several of each family.
inline std::vector<nlohmann::json> family_configs() {
  std::ifstream lines(std::string(PLAN_SOURCE_DIR) + "/tests/presets/family_counts.jsonl");
  std::vector<nlohmann::json> configs;
  for (std::string line; std::getline(lines, line);) configs.push_back(nlohmann::json::parse(line)["config"]);
  return configs;
}

inline Result<Model> read_config(const nlohmann::json& config) {
  return read_config_json(config.dump(), "config.json");
}

}  // namespace plan
