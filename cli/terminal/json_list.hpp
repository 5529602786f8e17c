#pragma once

#include <nlohmann/json.hpp>

#include "cli/terminal/json_text.hpp"

namespace plan {

/// An array of what `to_json` makes of each row.
template <class Rows, class ToJson>
[[nodiscard]] Json json_list(const Rows& rows, ToJson to_json) {
  Json all = Json::array();
  for (const auto& row : rows) all.push_back(to_json(row));
  return all;
}

}  // namespace plan
