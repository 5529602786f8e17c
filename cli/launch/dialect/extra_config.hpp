#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/launch/dialect/dialect.hpp"

namespace plan {

/// What a tool hands to Megatron unread is one string of JSON under one key: LLaMA-Factory's `extra_config`,
/// ms-swift's `megatron_extra_kwargs`. This takes the settings out that begin with it and a dot; empty if there are
/// none.
[[nodiscard]] std::string folded_json(std::vector<DialectSetting>& settings, std::string_view key);

/// The other way round, as far as the string is JSON; a path to a file of it is left alone.
void unfold_json(StatedKeys& keys, std::string_view key);

/// What is under `prefix` and a dot, as the keys of the same names that it lies over, where `named` knows them.
template <class Named>
void lay_over(StatedKeys& keys, std::string_view prefix, const Named& named) {
  StatedKeys inner;
  for (const auto& [key, value] : keys)
    if (key.starts_with(prefix) && key.size() > prefix.size() + 1 && key[prefix.size()] == '.' &&
        named(key.substr(prefix.size() + 1)))
      inner[key.substr(prefix.size() + 1)] = value;
  for (auto& [key, value] : inner) {
    keys.erase(std::string(prefix) + "." + key);
    keys[key] = std::move(value);
  }
}

inline constexpr std::string_view kSwiftExtra = "megatron_extra_kwargs";
/// What lies over Megatron's configuration as ms-swift made it: of its own arguments where those have the name.
void take_extra_of_swift(StatedKeys& keys);

}  // namespace plan
