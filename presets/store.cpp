// Finds presets and files by a word, reads them, and says what is near where there is none of that name. Tested by
// tests/presets/store_test.cpp.
#include "presets/store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <sstream>

#include "formulas/digest.hpp"
#include "formulas/text.hpp"
#include "formulas/words.hpp"
#include "presets/config_json.hpp"
#include "presets/default_cluster.hpp"
#include "presets/efficiency_reader.hpp"
#include "presets/entries.hpp"
#include "presets/hardware.hpp"
#include "presets/header.hpp"
#include "presets/model_names.hpp"
#include "presets/reader.hpp"
#include "presets/unknown_name.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

namespace fs = std::filesystem;

bool looks_like_path(std::string_view word) {
  return word.starts_with("./") || word.starts_with("../") || word.starts_with("/") || word.starts_with("~") ||
         word == "." || word.ends_with(".yaml") || word.ends_with(".yml") || word.ends_with(".json");
}

/// The text behind a word: preset, file, or folder with a config.json. Nothing where no such thing is.
std::optional<Result<PresetEntry>> text_behind(PresetKind kind, std::string_view word, const StoreOptions& options) {
  std::error_code status;
  if (!options.files || !looks_like_path(word)) {
    if (std::optional<PresetEntry> entry = find_entry(kind, word, options)) return *std::move(entry);
    if (!options.files || word.empty() || !fs::exists(fs::path(word), status)) return std::nullopt;
  }
  std::string path(word);
  if (kind == PresetKind::Model && fs::is_directory(path, status)) path = (fs::path(path) / "config.json").string();
  Result<std::string> text = yaml::read_text(path);
  if (!text) return fail(text.error());
  return PresetEntry{fs::path(path).stem().string(), {}, path, *std::move(text)};
}

Result<PresetEntry> find_text(PresetKind kind, std::string_view word, const StoreOptions& options) {
  if (std::optional<Result<PresetEntry>> text = text_behind(kind, word, options)) return *std::move(text);
  return fail(unknown_name(kind, word, options));
}

template <class T>
Result<Found<T>> found(Result<T> value, const PresetEntry& entry) {
  if (!value) return tl::unexpected(value.error());
  std::string name = value->name;
  return Found<T>{*std::move(value), std::move(name), entry.origin, sha256(priced_text(entry.text))};
}

/// What a model was trained with that its file or preset does not say: of most models nobody published the batch.
std::vector<std::string> keys_lacking(const PresetEntry& entry) {
  std::vector<std::string> keys;
  for (const char* key : {"seq", "global_batch"})  // a config.json has neither
    if (("\n" + entry.text).find(fmt::format("\n{}:", key)) == std::string::npos) keys.emplace_back(key);
  return keys;
}

Result<Found<Model>> found_model(const PresetEntry& entry) {
  Result<Found<Model>> model = found(parse_model(entry), entry);
  if (!model) return model;
  if (entry.origin.ends_with(".json")) model->left_out = parts_beside(entry.text);
  model->unpublished = keys_lacking(entry);
  return model;
}

std::string file_of(const PresetEntry& entry) {
  return entry.origin == "embedded" ? fmt::format("embedded:{}", entry.name) : entry.origin;
}

/// Where a file names the table of measured rates; without a line where the preset that it names does.
Place place_of_efficiency(const PresetEntry& entry) {
  Place place;
  place.file = file_of(entry);
  std::istringstream lines(entry.text);
  std::string text;
  for (int line = 1; std::getline(lines, text); ++line) {
    const std::size_t at = text.find_first_not_of(" \t");
    if (at == std::string_view::npos || text.compare(at, 11, "efficiency:") != 0) continue;
    place.line = line;
    place.column = static_cast<int>(at) + 1;
    place.length = static_cast<int>(std::string_view("efficiency").size());
    place.text = yaml::printable(text);
    break;
  }
  return place;
}

/// Efficiencies that the program carries, for whatever the file itself did not measure.
Errors add_shipped_efficiency(Gpu& gpu, const PresetEntry& entry) {
  Gpu shipped = gpu;
  const Result<bool> applied = apply_efficiency(shipped);
  if (!applied) {
    Errors errors = applied.error();
    for (Error& error : errors)
      if (error.place.file.empty()) error.place = place_of_efficiency(entry);
    return errors;
  }
  if (has_efficiency(gpu))
    fill_efficiency(gpu, shipped);
  else
    gpu = std::move(shipped);
  return {};
}

/// The cluster of a measured profile, with the data sheet of its GPU for what was not measured.
Result<Found<Cluster>> load_profile(const PresetEntry& entry, const StoreOptions& options) {
  const Result<HardwareProfile> profile = read_hardware(entry.text, file_of(entry));
  if (!profile) return tl::unexpected(profile.error());
  Gpu gpu;
  gpu.name = profile->gpu.model;
  const std::string preset = profile->gpu.preset.empty()
                                 ? preset_of_device(profile->gpu.model, profile->memory.total_gib, options)
                                 : profile->gpu.preset;
  if (!preset.empty()) {
    Result<Found<Gpu>> known = load_gpu(preset, options);
    if (!known) return tl::unexpected(known.error());
    gpu = std::move(known->value);
  }
  Result<Cluster> cluster = cluster_of_profile(*profile, gpu);
  if (!cluster)
    for (Error& error : cluster.error()) error.place.file = file_of(entry);
  return found(std::move(cluster), entry);
}

/// Data sheets of GPUs, by name or file.
GpuLookup data_sheets(const StoreOptions& options) {
  return [&options](std::string_view name) -> Result<Gpu> {
    const Result<PresetEntry> gpu = find_text(PresetKind::Gpu, name, options);
    if (!gpu) return tl::unexpected(gpu.error());
    return parse_gpu(*gpu);
  };
}

}  // namespace

Result<Model> parse_model(const PresetEntry& entry) {
  if (entry.origin.ends_with(".json")) return read_config_json(entry.text, file_of(entry));
  return read_model(entry.text, file_of(entry));
}

Result<Gpu> parse_gpu(const PresetEntry& entry) { return read_gpu(entry.text, file_of(entry)); }

Result<Cluster> parse_cluster(const PresetEntry& entry, const StoreOptions& options) {
  return read_cluster(entry.text, file_of(entry), data_sheets(options));
}

Result<PooledCluster> parse_pools(const PresetEntry& entry, const StoreOptions& options) {
  const auto value_of = [](Found<Cluster> found) { return std::move(found.value); };
  PoolLookup lookup;
  lookup.sheet = data_sheets(options);
  lookup.usual = [&](std::string_view gpu) { return load_cluster_of_gpu(gpu, options).map(value_of); };
  lookup.cluster = [&](std::string_view word) {  // a file is beside the one that names it
    const bool beside = looks_like_path(word) && fs::path(word).is_relative() && entry.origin != "embedded";
    return load_cluster(beside ? (fs::path(entry.origin).parent_path() / word).string() : std::string(word), options)
        .map(value_of);
  };
  lookup.rates = [&](Gpu& gpu) { return add_shipped_efficiency(gpu, entry); };
  return read_pooled_cluster(entry.text, file_of(entry), lookup);
}

std::optional<Result<Found<Model>>> find_model(std::string_view word, const StoreOptions& options) {
  const std::optional<Result<PresetEntry>> text = text_behind(PresetKind::Model, word, options);
  if (text && *text) return found_model(**text);
  if (text && looks_like_path(word)) return tl::unexpected(text->error());
  const auto of_variant = [](const PresetEntry& entry, bool exact) {
    Result<Found<Model>> model = found_model(entry);
    if (model) model->exact = exact;
    return model;
  };
  for (const OtherName& name : other_names(word))
    if (const std::optional<PresetEntry> other = find_entry(PresetKind::Model, name.text, options))
      return of_variant(*other, name.exact);
  if (const std::optional<PresetEntry> twin = twin_of(word, options)) return of_variant(*twin, false);
  if (text) return tl::unexpected(text->error());
  return std::nullopt;
}

Result<Found<Model>> load_model(std::string_view word, const StoreOptions& options) {
  if (std::optional<Result<Found<Model>>> model = find_model(word, options)) return *std::move(model);
  return fail(unknown_name(PresetKind::Model, word, options));
}

Result<Found<Gpu>> load_gpu(std::string_view word, const StoreOptions& options) {
  const Result<PresetEntry> entry = find_text(PresetKind::Gpu, word, options);
  if (!entry) return tl::unexpected(entry.error());
  Result<Gpu> gpu = parse_gpu(*entry);
  if (!gpu) return tl::unexpected(gpu.error());
  if (Errors errors = add_shipped_efficiency(*gpu, *entry); !errors.empty()) return fail(std::move(errors));
  return found(std::move(gpu), *entry);
}

Result<Found<Cluster>> load_cluster(std::string_view word, const StoreOptions& options) {
  const Result<PresetEntry> entry = find_text(PresetKind::Cluster, word, options);
  if (!entry) return tl::unexpected(entry.error());
  if (is_hardware_profile(entry->text)) return load_profile(*entry, options);
  Result<Cluster> cluster = parse_cluster(*entry, options);
  if (!cluster) return tl::unexpected(cluster.error());
  if (Errors errors = add_shipped_efficiency(cluster->gpu, *entry); !errors.empty()) return fail(std::move(errors));
  return found(std::move(cluster), *entry);
}

Result<std::optional<Found<PooledCluster>>> load_pools(std::string_view word, const StoreOptions& options) {
  const Result<PresetEntry> entry = find_text(PresetKind::Cluster, word, options);
  if (!entry || is_hardware_profile(entry->text) || !describes_pools(entry->text)) return std::nullopt;
  Result<Found<PooledCluster>> pools = found(parse_pools(*entry, options), *entry);
  if (!pools) return tl::unexpected(pools.error());
  return std::optional(*std::move(pools));
}

Result<Found<Cluster>> load_cluster_of_gpu(std::string_view word, const StoreOptions& options) {
  const Result<Found<Gpu>> gpu = load_gpu(word, options);
  if (!gpu) return tl::unexpected(gpu.error());
  return Found<Cluster>{default_cluster(gpu->value), gpu->name, gpu->origin, gpu->digest};
}

}  // namespace plan
