#include "presets/header.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace plan {

void read_header(yaml::Map& root, std::string_view kind, std::string& name) {
  std::string preset;
  if (root.text("preset", preset) && preset != kind)
    root.reader().error(*root.get("preset"), "wrong_preset",
                        fmt::format("`preset` is `{}`, not `{}`", yaml::printable(preset), kind));
  if (root.text("name", name)) {
    const bool word = !name.empty() && name.size() <= 100 && std::all_of(name.begin(), name.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
             c == '_';
    });
    if (!word) root.reader().error(*root.get("name"), "bad_value", "`name` is not one word of letters, digits, - . _");
  }
  for (const yaml::Node* alias : root.list("aliases", yaml::kOptional))
    if (alias->kind != yaml::Kind::Scalar) root.reader().error(*alias, "bad_value", "`aliases` is not a list of names");
}

}  // namespace plan
