// Finds presets and files by a word, reads them, and says what is near where there is none of that name. Tested by
// tests/presets/store_test.cpp.
#include "presets/store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "formulas/digest.hpp"
#include "formulas/text.hpp"
#include "formulas/words.hpp"
#include "presets/config_json.hpp"
#include "presets/default_cluster.hpp"
#include "presets/efficiency_reader.hpp"
#include "presets/entries.hpp"
#include "presets/gpu_names.hpp"
#include "presets/hardware.hpp"
#include "presets/machines.hpp"
#include "presets/model_names.hpp"
#include "presets/reader.hpp"
#include "presets/suggest.hpp"
#include "presets/unmodelled.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

namespace fs = std::filesystem;

bool looks_like_path(std::string_view word) {
  return word.starts_with("./") || word.starts_with("../") || word.starts_with("/") || word.starts_with("~") ||
         word == "." || word.ends_with(".yaml") || word.ends_with(".yml") || word.ends_with(".json");
}

/// Names of presets that have `word` as a part between hyphens: "7b" of llama2-7b, not of 70b or 57b.
std::vector<std::string> names_with(std::string_view word, const std::vector<PresetEntry>& entries) {
  constexpr std::size_t kMost = 12;
  std::vector<std::string> found;
  for (const PresetEntry& entry : entries) {
    const std::string name = "-" + lowered(entry.name) + "-";
    if (!word.empty() && name.find("-" + lowered(std::string(word)) + "-") != std::string::npos && found.size() < kMost)
      found.push_back(entry.name);
  }
  return found;
}

/// The presets of the family that `word` names, the nearest in size first.
std::vector<std::string> relatives(std::string_view word, const std::vector<PresetEntry>& entries) {
  constexpr std::size_t kMost = 3;
  std::vector<std::string> names;
  for (const PresetEntry& entry : entries) names.push_back(entry.name);
  return nearest_in_family(word, names, kMost);
}

/// The numbers of a name, apart from each other, and its words of size: qwen3-vl-2b has 3 and 2, not 32.
std::string numbers_of(std::string_view name) {
  std::string numbers;
  for (const char c : name) {
    const bool digit = (c >= '0' && c <= '9') || c == '.';
    if (digit || (!numbers.empty() && numbers.back() != ' ')) numbers += digit ? c : ' ';
  }
  for (const std::string_view size : {"nano", "tiny", "mini", "micro", "small", "medium", "large"})
    if (lowered(std::string(name)).find(size) != std::string::npos) numbers += size;
  return numbers;
}

/// The name that is spelt most like `word`; of models, one with the same numbers: a slip is seldom in a version or a
/// size, and a job for another one is another job. So it is of GPUs whose memory a word states beside their number.
std::string nearest_of(PresetKind kind, std::string_view word, const std::vector<std::string>& names) {
  const std::string numbers = numbers_of(word);
  std::vector<std::string> same = names;
  std::erase_if(same, [&](const std::string& name) { return numbers_of(name) != numbers; });
  std::string near = nearest_name(word, same);
  const bool several = numbers.find(' ') < numbers.size() - 1;
  return near.empty() && kind != PresetKind::Model && !several ? nearest_name(word, names) : near;
}

/// The kind of preset that has this name, where it is not the one that was asked for.
std::optional<PresetKind> another_kind(PresetKind kind, std::string_view word, const StoreOptions& options) {
  for (const PresetKind other : {PresetKind::Model, PresetKind::Gpu, PresetKind::Cluster})
    if (other != kind && find_entry(other, word, options)) return other;
  return std::nullopt;
}

Error unknown(PresetKind kind, std::string_view word, const StoreOptions& options) {
  const PresetWords w = words_of(kind);
  const std::vector<PresetEntry> entries = all_entries(kind, options);
  const std::optional<PresetKind> other = another_kind(kind, word, options);
  std::vector<std::string> names;
  for (const PresetEntry& entry : entries) {
    names.push_back(entry.name);
    names.insert(names.end(), entry.aliases.begin(), entry.aliases.end());
  }
  Error error{fmt::format("unknown_{}", kind == PresetKind::Gpu ? "gpu" : w.noun),
              fmt::format("unknown {} `{}`", w.noun, yaml::printable(word))};
  const Unmodelled* lacking = kind == PresetKind::Model ? unmodelled_name(word) : nullptr;
  if (lacking != nullptr) error.message += fmt::format(": it has {}, which is not modelled", lacking->part);
  const bool rented = kind != PresetKind::Model && !machines_called(word).empty();
  const std::string parts = kind == PresetKind::Gpu ? gpu_of_parts(word, entries) : "";
  const std::string sheet = kind == PresetKind::Gpu ? preset_of_device(word, 0, options) : "";
  std::string near = parts == sheet ? "" : parts;  // a driver's name is said to be one
  const std::vector<std::string> stem =
      kind == PresetKind::Gpu ? gpus_of_stem(word, entries) : std::vector<std::string>{};
  if (parts.empty() && lacking == nullptr && !rented && stem.size() < 2) near = nearest_of(kind, word, names);
  const std::vector<std::string> holding = names_with(word, entries);
  const std::vector<std::string> family =
      kind == PresetKind::Model && lacking == nullptr ? relatives(word, entries) : std::vector<std::string>{};
  if (!family.empty())
    error.help.push_back(
        fmt::format("models of its family, the nearest in size first: `{}`", fmt::join(family, "`, `")));
  else if (!holding.empty())
    error.help.push_back(fmt::format("with `{}` in its name: {}", word, fmt::join(holding, ", ")));
  else if (stem.size() > 1)
    error.help.push_back(fmt::format("that is one of `{}`: write which", fmt::join(stem, "`, `")));
  else if (!near.empty())
    error.help.push_back(fmt::format("a {} with a similar name exists: `{}`", w.noun, near));
  if (near.empty() && holding.empty() && !sheet.empty())
    error.help.push_back(fmt::format("drivers give that name to `{}`", sheet));
  if (other)
    error.help.push_back(
        fmt::format("`{}` is a {}: write `{} {}`", word, words_of(*other).noun, words_of(*other).flag, word));
  if (const auto make = kind == PresetKind::Gpu ? gpus_of_make(word, entries) : std::vector<std::string>{};
      !make.empty())
    error.help.push_back(fmt::format("of that make are {}", fmt::join(make, ", ")));
  if (std::string said = about_machines(word); !said.empty() && kind != PresetKind::Model)
    error.help.push_back(std::move(said));
  if (kind == PresetKind::Model && lacking == nullptr)
    error.help.emplace_back("any other by its checkpoint's configuration: `--model path/to/config.json`");
  error.help.push_back(fmt::format("list all with `plan list {}`, or give a file: {} ./mine.yaml", w.folder, w.flag));
  return error;
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
  return fail(unknown(kind, word, options));
}

template <class T>
Result<Found<T>> found(Result<T> value, const PresetEntry& entry) {
  if (!value) return tl::unexpected(value.error());
  std::string name = value->name;
  return Found<T>{*std::move(value), std::move(name), entry.origin, sha256(entry.text)};
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

/// Efficiencies that the program carries, for whatever the file itself did not measure.
Errors add_shipped_efficiency(Gpu& gpu) {
  Gpu shipped = gpu;
  const Result<bool> applied = apply_efficiency(shipped);
  if (!applied) return applied.error();
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
  return found(cluster_of_profile(*profile, gpu), entry);
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
  lookup.rates = add_shipped_efficiency;
  return read_pooled_cluster(entry.text, file_of(entry), lookup);
}

std::optional<Result<Found<Model>>> find_model(std::string_view word, const StoreOptions& options) {
  const std::optional<Result<PresetEntry>> text = text_behind(PresetKind::Model, word, options);
  if (text && *text) return found_model(**text);
  if (text && looks_like_path(word)) return tl::unexpected(text->error());
  for (const OtherName& name : other_names(word)) {
    const std::optional<PresetEntry> other = find_entry(PresetKind::Model, name.text, options);
    if (!other) continue;
    Result<Found<Model>> model = found_model(*other);
    if (model) model->exact = name.exact;
    return model;
  }
  if (text) return tl::unexpected(text->error());
  return std::nullopt;
}

Result<Found<Model>> load_model(std::string_view word, const StoreOptions& options) {
  if (std::optional<Result<Found<Model>>> model = find_model(word, options)) return *std::move(model);
  return fail(unknown(PresetKind::Model, word, options));
}

Result<Found<Gpu>> load_gpu(std::string_view word, const StoreOptions& options) {
  const Result<PresetEntry> entry = find_text(PresetKind::Gpu, word, options);
  if (!entry) return tl::unexpected(entry.error());
  Result<Gpu> gpu = parse_gpu(*entry);
  if (!gpu) return tl::unexpected(gpu.error());
  if (Errors errors = add_shipped_efficiency(*gpu); !errors.empty()) return fail(std::move(errors));
  return found(std::move(gpu), *entry);
}

Result<Found<Cluster>> load_cluster(std::string_view word, const StoreOptions& options) {
  const Result<PresetEntry> entry = find_text(PresetKind::Cluster, word, options);
  if (!entry) return tl::unexpected(entry.error());
  if (is_hardware_profile(entry->text)) return load_profile(*entry, options);
  Result<Cluster> cluster = parse_cluster(*entry, options);
  if (!cluster) return tl::unexpected(cluster.error());
  if (Errors errors = add_shipped_efficiency(cluster->gpu); !errors.empty()) return fail(std::move(errors));
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
