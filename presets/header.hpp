#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "presets/yaml.hpp"

namespace plan {

/// The lines that every preset begins with: `preset: model/1`, `name`, and optional `aliases`.
void read_header(yaml::Map& root, std::string_view kind, std::string& name);

/// A name that files and commands can hold without quotes: one word of letters, digits, - . _; false if it is none,
/// which is an error.
bool read_name(yaml::Map& root, std::string_view key, std::string& name, yaml::Need need = yaml::kRequired);

/// The words of the list `key: [a, b, ...]` at the head of a preset, which may run over several lines; quotes and
/// blanks around a word are left out. For looking through many files: a file that is used is parsed whole.
[[nodiscard]] std::vector<std::string> scan_list(std::string_view text, std::string_view key);

/// What of a preset's text a number can hang on: without its aliases, the names of its devices, and comments.
[[nodiscard]] std::string priced_text(std::string_view text);

}  // namespace plan
