// What `plan list` says about presets. Tested by tests/cli/golden_test.cpp.
#include "cli/request/library.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "cli/request/words/pool_words.hpp"
#include "cli/terminal/format.hpp"
#include "formulas/efficiency.hpp"
#include "formulas/names.hpp"
#include "formulas/parameters.hpp"
#include "planner/search/in_parallel.hpp"
#include "presets/reader.hpp"
#include "presets/store.hpp"

namespace plan {
namespace {

constexpr unsigned kMostReaders = 8;  // threads

std::string origin(const std::string& where) { return where == "embedded" ? "" : where; }

std::string with_aliases(std::string about, const PresetEntry& entry) {
  if (!entry.aliases.empty()) about += fmt::format("; also {}", fmt::join(entry.aliases, ", "));
  return about;
}

std::string about_model(const Model& model) {
  const ModelParameters parameters = model_parameters(model);
  std::string out = count_text(static_cast<double>(parameters.total));
  if (model.moe()) out += fmt::format(", {} active", count_text(static_cast<double>(parameters.active)));
  return out;
}

std::string about_gpu(const Gpu& gpu) {
  return fmt::format("{}, {:.0f} TFLOP/s {}", memory_text(gpu.memory), peak_of_16_bits(gpu).value / 1e12,
                     name(type_of_16_bits(gpu)));
}

std::string about_cluster(const Cluster& cluster) {
  std::string out = fmt::format("{} x {} a node", cluster.gpus_per_node, cluster.gpu.name);
  for (const Tier& tier : cluster.tiers)
    out += fmt::format(", {} {} GB/s", tier.name, number_text(tier.bandwidth.value / 1e9, 4));
  return out;
}

/// Reading YAML takes nearly all the time, and each file is read for itself.
template <class Parse, class About>
std::vector<Listed> rows(PresetKind kind, Parse parse, About about) {
  const StoreOptions options = StoreOptions::from_environment();
  const std::vector<PresetEntry> entries = list_presets(kind, options);
  std::vector<Listed> out(entries.size());
  const unsigned readers = std::min(std::thread::hardware_concurrency(), kMostReaders);
  in_parallel(entries.size(), readers, [&](std::size_t i, unsigned) {
    const PresetEntry& entry = entries[i];
    const auto parsed = parse(entry, options);
    out[i] = {entry.name, with_aliases(parsed ? about(*parsed) : "unreadable", entry), origin(entry.origin)};
  });
  return out;
}

}  // namespace

std::vector<Listed> list_models() {
  return rows(
      PresetKind::Model, [](const PresetEntry& e, const StoreOptions&) { return parse_model(e); }, about_model);
}
std::vector<Listed> list_gpus() {
  return rows(
      PresetKind::Gpu, [](const PresetEntry& e, const StoreOptions&) { return parse_gpu(e); }, about_gpu);
}
std::vector<Listed> list_clusters() {
  const auto about = [](const PresetEntry& entry, const StoreOptions& options) -> Result<std::string> {
    if (describes_pools(entry.text)) return parse_pools(entry, options).map(pools_text);
    return parse_cluster(entry, options).map(about_cluster);
  };
  return rows(PresetKind::Cluster, about, [](const std::string& text) { return text; });
}

}  // namespace plan
