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
    const bool word = !name.empty() && name.size() <= 100 && std::none_of(name.begin(), name.end(), [](char c) {
      return static_cast<unsigned char>(c) <= 0x20 || static_cast<unsigned char>(c) >= 0x7f || c == '/' || c == ',';
    });
    if (!word) root.reader().error(*root.get("name"), "bad_value", "`name` is not one word of letters, digits, - . _");
  }
  for (const yaml::Node* alias : root.list("aliases", yaml::kOptional))
    if (alias->kind != yaml::Kind::Scalar) root.reader().error(*alias, "bad_value", "`aliases` is not a list of names");
}

}  // namespace plan
