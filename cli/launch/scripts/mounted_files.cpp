// Files that a manifest's ConfigMaps put into the pods of a job. Tested by tests/launch/manifest_objects_test.cpp.
#include "cli/launch/scripts/mounted_files.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "formulas/words.hpp"

namespace plan {
namespace {

using yaml::Node;

/// A file of a ConfigMap's, under the path that the pod has it or by its name alone.
struct Mounted {
  std::string path{};
  std::string text{};
  int line = 0;
};

/// Below a node, all values of a key. As deep as the document, which is bounded.
// NOLINTNEXTLINE(misc-no-recursion)
void values_below(const Node& node, std::string_view key, std::vector<const Node*>& found) {
  if (const Node* value = value_of(node, key); value != nullptr) found.push_back(value);
  for (const Node& item : node.items) values_below(item, key, found);
}

/// Files of one ConfigMap under their names: all, or those that a volume lists with names of its own.
void add_files(const ManifestDocument& map, const Node* listed, std::vector<Mounted>& files) {
  const Node* data = value_of(map.root, "data");
  if (data == nullptr || data->kind != yaml::Kind::Map) return;
  for (std::size_t i = 0; i + 1 < data->items.size(); i += 2) {
    const Node &key = data->items[i], &text = data->items[i + 1];
    if (listed == nullptr) files.push_back({key.text, text.text, key.line});
    if (listed == nullptr) continue;
    for (const Node& item : listed->items)
      if (text_below(item, {"key"}) == key.text) files.push_back({text_below(item, {"path"}), text.text, key.line});
  }
}

bool is_config_map(const ManifestDocument& document) { return text_below(document.root, {"kind"}) == "ConfigMap"; }

/// Files of a volume, of the ConfigMaps that it names or that its sources name; whether it names any.
bool add_volume(const Node& volume, std::span<const ManifestDocument> all, std::vector<Mounted>& files) {
  std::vector<const Node*> named;
  values_below(volume, "configMap", named);
  for (const Node* one : named)
    for (const ManifestDocument& document : all) {
      if (is_config_map(document) && below(&document.root, {"metadata"}) != nullptr &&
          text_below(document.root, {"metadata", "name"}) == text_below(*one, {"name"}))
        add_files(document, value_of(*one, "items"), files);
    }
  return !named.empty();
}

/// The paths at which the job's containers have the files of a volume.
void place_files(const std::string& volume, const std::vector<Mounted>& inside,
                 const std::vector<const Node*>& containers, std::vector<Mounted>& files) {
  const std::size_t before = files.size();
  for (const Node* mounts : containers)
    for (const Node& mount : mounts->items) {
      if (text_below(mount, {"name"}) != volume) continue;
      std::string at = text_below(mount, {"mountPath"});
      const std::string part = text_below(mount, {"subPath"});
      while (at.ends_with('/')) at.pop_back();
      for (const Mounted& file : inside)
        if (part.empty() || part == file.path)
          files.push_back({part.empty() ? at + '/' + file.path : at, file.text, file.line});
    }
  if (files.size() == before) files.insert(files.end(), inside.begin(), inside.end());
}

std::vector<Mounted> files_of(std::span<const ManifestDocument> all, const std::vector<const ManifestDocument*>& job) {
  std::vector<const Node*> volumes, mounts;
  for (const ManifestDocument* part : job) {
    values_below(part->root, "volumes", volumes);
    values_below(part->root, "volumeMounts", mounts);
  }
  std::vector<Mounted> files;
  bool named = false;
  for (const Node* list : volumes)
    for (const Node& volume : list->items) {
      std::vector<Mounted> inside;
      named |= add_volume(volume, all, inside);
      place_files(text_below(volume, {"name"}), inside, mounts, files);
    }
  if (!named)
    for (const ManifestDocument& document : all)
      if (is_config_map(document)) add_files(document, nullptr, files);
  return files;
}

/// The file that a command names: by its whole path, else by its name where all that have it are the same; `other` is
/// one that differs.
const Mounted* file_named(const std::vector<Mounted>& files, std::string_view name, const Mounted*& other) {
  const Mounted* found = nullptr;
  for (const Mounted& file : files) {
    if (file.path == name) return other = nullptr, &file;
    if (base_name(file.path) != base_name(name)) continue;
    if (found != nullptr && found->text != file.text) other = &file;
    if (found == nullptr) found = &file;
  }
  return found;
}

/// A word of the script that is the name of two files which differ.
std::optional<Error> either_of_two(const LaunchSource& script, const std::vector<Mounted>& files) {
  for (const Mounted& file : files) {
    const std::string name(base_name(file.path));
    for (std::size_t at = script.text.find(name); at != std::string::npos; at = script.text.find(name, at + 1)) {
      constexpr std::string_view kBetween = " \t\n;&|\"'()=";
      const std::size_t before = script.text.find_last_of(kBetween, at);
      const std::size_t first = before == std::string::npos ? 0 : before + 1;
      const std::string word = script.text.substr(first, script.text.find_first_of(kBetween, at) - first);
      const Mounted* other = nullptr;
      const Mounted* found = base_name(word) == name ? file_named(files, word, other) : nullptr;
      if (found != nullptr && other != nullptr)
        return Error{
            "several_files",
            fmt::format("{}:{}: two ConfigMaps hold a `{}` (the other in line {}), and no volume says which `{}` is",
                        script.path, found->line, name, other->line, yaml::printable(word)),
            {},
            {"leave in the file the ConfigMap that the job's `volumes:` mount"}};
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Error> let_open_mounted(LaunchSource& script, std::span<const ManifestDocument> all,
                                      const std::vector<const ManifestDocument*>& job) {
  std::vector<Mounted> files = files_of(all, job);
  if (files.empty()) return std::nullopt;
  if (std::optional<Error> error = either_of_two(script, files)) return error;
  script.open = [disk = std::move(script.open), files = std::make_shared<const std::vector<Mounted>>(std::move(files))](
                    std::string_view name) -> std::optional<LaunchSource> {
    const Mounted* other = nullptr;
    if (const Mounted* found = file_named(*files, name, other); found != nullptr && other == nullptr)
      return LaunchSource{std::string(base_name(found->path)), found->text, {}, {}, 0, 0, {}, {}, {}, {}, {}};
    return disk ? disk(name) : std::nullopt;
  };
  return std::nullopt;
}

}  // namespace plan
