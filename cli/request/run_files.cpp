// Files of measured runs, and the presets that they name. Tested by tests/cli/validation_test.cpp.
#include "cli/request/run_files.hpp"

#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "cli/request/node_size.hpp"
#include "formulas/keep_errors.hpp"
#include "presets/stack.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

/// Line `number` of `text`, the first being 1, without its end.
std::string line_of(std::string_view text, int number) {
  for (int line = 1; line < number; ++line) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  text = text.substr(0, text.find('\n'));
  if (text.ends_with('\r')) text.remove_suffix(1);
  return std::string(text);
}

/// What has been looked up so far.
struct Seen {
  StoreOptions store;
  std::optional<Cluster> own;
  std::map<std::string, std::optional<Model>, std::less<>> models{};
  std::map<std::pair<std::string, int>, std::optional<Cluster>> clusters{};

  std::optional<Model> model(std::string_view name) {
    if (const auto found = models.find(name); found != models.end()) return found->second;
    Result<Found<Model>> loaded = load_model(name, store);
    return models[std::string(name)] = loaded ? std::optional(std::move(loaded->value)) : std::nullopt;
  }

  std::optional<Cluster> cluster(std::string_view gpu, int per_node) {
    std::pair<std::string, int> key(gpu, per_node);
    if (const auto found = clusters.find(key); found != clusters.end()) return found->second;
    std::optional<Cluster> cluster;
    if (Result<Found<Cluster>> usual = load_cluster_of_gpu(gpu, store)) {
      const bool here = own && own->gpu.name == usual->value.gpu.name;
      cluster = with_node_of(here ? *own : std::move(usual->value), per_node);
    } else if (own && own->gpu.name == gpu) {
      cluster = with_node_of(*own, per_node);
    }
    return clusters[std::move(key)] = std::move(cluster);
  }
};

}  // namespace

Result<std::vector<Run>> read_run_files(const std::vector<std::string>& paths) {
  std::vector<Run> all;
  Errors errors;
  for (const std::string& path : paths) {
    const Result<std::string> text = yaml::read_text(path);
    if (!keep_errors(errors, text)) continue;
    Result<std::vector<Run>> runs = read_runs(*text, path);
    if (runs) {
      all.insert(all.end(), std::make_move_iterator(runs->begin()), std::make_move_iterator(runs->end()));
      continue;
    }
    for (Error& error : runs.error()) {
      error.place.text = line_of(*text, error.place.line);
      errors.push_back(std::move(error));
    }
  }
  if (!errors.empty()) return fail(std::move(errors));
  return all;
}

Catalogue preset_catalogue(const StoreOptions& store, std::optional<Cluster> own) {
  const auto seen = std::make_shared<Seen>(Seen{store, std::move(own)});
  seen->store.files = false;
  return {.model = [seen](std::string_view name) { return seen->model(name); },
          .cluster = [seen](std::string_view gpu, int per_node, int) { return seen->cluster(gpu, per_node); },
          .released = stack_of_release};
}

}  // namespace plan
