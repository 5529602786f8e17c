// Presets by the names that files have for models. Tested by tests/launch/reading_test.cpp.
#include <algorithm>

#include "cli/launch/job/format.hpp"
#include "presets/store.hpp"

namespace plan {
namespace {

/// The Hub's cache keeps `Qwen/Qwen2.5-7B` as `models--Qwen--Qwen2.5-7B/snapshots/COMMIT`; empty for any other path.
std::string name_in_cache(std::string_view path) {
  constexpr std::string_view kFolder = "models--", kBetween = "--";
  const std::size_t at = path.find(kFolder);
  if (at == std::string_view::npos || (at > 0 && path[at - 1] != '/')) return {};
  std::string name(path.substr(at + kFolder.size()));
  name.resize(std::min(name.find('/'), name.size()));
  if (const std::size_t between = name.find(kBetween); between != std::string::npos)
    name.replace(between, kBetween.size(), "/");
  return name;
}

/// `7B`, a folder beside `13B`: a size, and of every family there is one.
bool is_size_alone(std::string_view name) {
  if (const std::size_t slash = name.rfind('/'); slash != std::string_view::npos) name.remove_prefix(slash + 1);
  const std::size_t digits = name.find_first_not_of("0123456789.");
  return digits > 0 && digits + 1 == name.size() && std::string_view("bBmMtT").find(name[digits]) != name.npos;
}

}  // namespace

std::optional<NamedModel> model_named(std::string_view name) {
  if (const std::string cached = name_in_cache(name); !cached.empty()) return model_named(cached);
  while (name.size() > 1 && name.back() == '/') name.remove_suffix(1);
  // Where a model lies may be a machine's to say (`${HOME}/models/Qwen3-8B`); what it is called may not.
  const std::size_t open = name.rfind('$'), slash = name.rfind('/');
  if (open != std::string_view::npos) {
    if (slash == std::string_view::npos || slash < open) return std::nullopt;
    name.remove_prefix(slash + 1);
  }
  if (name.empty() || is_size_alone(name)) return std::nullopt;
  StoreOptions store = StoreOptions::from_environment();
  store.files = false;
  std::optional<Result<Found<Model>>> found = find_model(name, store);
  if (!found || !*found) return std::nullopt;
  return NamedModel{std::move((*found)->value), (*found)->exact};
}

}  // namespace plan
