// Numbers of a GPU's or a cluster's file that describe it and that no figure follows from: whoever edits one of them to
// see what it does learns that it does nothing. Tested by tests/cli/unpriced_test.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/request/draft.hpp"
#include "formulas/names.hpp"
#include "presets/model_names.hpp"
#include "presets/quantity.hpp"
#include "presets/store.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

/// The preset that a file started from: by its own name, or by that of the rates which it takes.
std::optional<Gpu> preset_of(const Gpu& gpu) {
  StoreOptions shipped;
  shipped.files = false;
  for (const std::string& name : {gpu.name, gpu.efficiency}) {
    if (name.empty()) continue;
    if (Result<Found<Gpu>> found = load_gpu(name, shipped)) return std::move(found->value);
  }
  return std::nullopt;
}

/// A network of more than any adapter carries, to each GPU: most often bits that were written as bytes. The fastest
/// adapters are of 1,600 Gb/s (NVIDIA's ConnectX-9), those of presets/clusters of 800 at most.
void tell_fast_network(Draft& draft) {
  constexpr BytesPerSecond kFastest{200e9};
  const Cluster& cluster = draft.problem.cluster;
  for (std::size_t i = 1; i < cluster.tiers.size(); ++i)
    if (const Tier& tier = cluster.tiers[i]; tier.size > cluster.gpus_per_node && tier.bandwidth > kFastest)
      draft.problem.notes.push_back(
          {"network_unlikely",
           fmt::format("{}: {} carries {} to each GPU, more than any network adapter: are they Gb/s, {}?", cluster.name,
                       tier.name, format_quantity(tier.bandwidth.value, Dimension::ByteRate),
                       format_quantity(tier.bandwidth.value / 8, Dimension::ByteRate))});
}

/// Numbers of a preset's own file that are several times the preset's: a slip of a digit or between bits and bytes. A
/// slower link may be meant, as of a host without it; no memory or product is.
void tell_slips(Draft& draft) {
  constexpr double kSlip = 4;
  const Cluster& cluster = draft.problem.cluster;
  StoreOptions shipped;
  shipped.files = false;
  const Result<Found<Gpu>> preset = load_gpu(cluster.gpu.name, shipped);
  if (!preset) return;
  const Gpu &now = cluster.gpu, &before = preset->value;
  std::vector<std::string> slips;
  const auto compare = [&](std::string_view what, double stated, double usual, Dimension unit, bool slower) {
    if (!(stated > 0) || !(usual > 0) || (stated <= kSlip * usual && (!slower || stated >= usual / kSlip))) return;
    slips.push_back(fmt::format("{} is {}, that of the preset {}", what, format_quantity(stated, unit),
                                format_quantity(usual, unit)));
  };
  const auto memory = [](const Gpu& gpu) { return static_cast<double>(gpu.memory.value); };
  compare("memory", memory(now), memory(before), Dimension::Bytes, true);
  const auto rate = [&](std::string_view what, BytesPerSecond Gpu::*field, bool slower) {
    compare(what, (now.*field).value, (before.*field).value, Dimension::ByteRate, slower);
  };
  rate("memory_bandwidth", &Gpu::memory_bandwidth, true);
  rate("scale_up", &Gpu::scale_up, false);
  rate("host_link", &Gpu::host_link, false);
  rate("nic", &Gpu::nic, false);
  for (std::size_t format = 0; format < now.peak.size(); ++format)
    compare(fmt::format("the peak of {}", name(static_cast<DType>(format))), now.peak[format].value,
            before.peak[format].value, Dimension::FlopRate, true);
  if (slips.empty()) return;
  draft.problem.notes.push_back(
      {"hardware_unlikely", fmt::format("{}: {}: is a digit or a unit wrong?", now.name, fmt::join(slips, ", "))});
}

/// Does a file that is named say that its weights are in no fewer bits, whatever its folder is called?
bool says_plain_weights(const std::filesystem::path& path) {
  std::error_code none;
  const std::filesystem::path file = std::filesystem::is_directory(path, none) ? path / "config.json" : path;
  if (!std::filesystem::is_regular_file(file, none)) return false;
  const Result<std::string> text = yaml::read_text(file.string());
  const auto says = [&](const char* key) { return text->find(key) != std::string::npos; };
  return text && says("dtype\"") && !says("\"quantization_config\"");
}

}  // namespace

void tell_stored_format(Draft& draft) {
  const Word* word = draft.asked.find("model");
  const std::string_view format = word != nullptr ? stored_format(word->text) : "";
  const Training& training = draft.problem.training;
  if (format.empty() || training.task == Task::Qlora || says_plain_weights(word->text)) return;
  draft.problem.notes.push_back(
      {"weights_format",
       fmt::format("`{}` names weights as they are stored: planned are those of {} as training in {} holds them; "
                   "`--task qlora` holds frozen ones of 4 bits",
                   format, draft.problem.model.name, name(training.precision))});
}

void tell_unpriced(Draft& draft) {
  const Cluster& cluster = draft.problem.cluster;
  const auto files = {"cluster", "gpu"};
  if (!draft.problem.pools.empty()) return;  // the cluster is what the pools have together
  if (std::none_of(files.begin(), files.end(), [&](const char* key) { return draft.asked.find(key) != nullptr; }))
    return;
  std::vector<std::string> edited;
  const auto compare = [&](const char* key, const std::string& now, const std::string& before) {
    if (now != before) edited.push_back(fmt::format("{} {} instead of {}", key, now, before));
  };
  const auto number = [](int n) { return fmt::format("{}", n); };
  const auto power = [](double watts) { return format_quantity(watts, Dimension::Power); };
  if (const std::optional<Gpu> preset = preset_of(cluster.gpu)) {
    const std::vector<Layer>& kinds = draft.problem.model.kinds;
    const bool scans =
        std::any_of(kinds.begin(), kinds.end(), [](const Layer& layer) { return layer.mixer == Mixer::Mamba2; });
    if (!scans) compare("sm_count", number(cluster.gpu.sm_count), number(preset->sm_count));
    compare("power", power(cluster.gpu.power_w), power(preset->power_w));
  }
  StoreOptions shipped;
  shipped.files = false;
  if (const Result<Found<Cluster>> preset = load_cluster(cluster.name, shipped)) {
    compare("nics_per_node", number(cluster.nics_per_node), number(preset->value.nics_per_node));
    compare("host_power", power(cluster.host_power_w), power(preset->value.host_power_w));
  } else if (cluster.nics_per_node != cluster.gpus_per_node && cluster.nics_per_node > 0) {
    edited.push_back(fmt::format("nics_per_node {} for {} GPUs", cluster.nics_per_node, cluster.gpus_per_node));
  }
  tell_fast_network(draft);
  tell_slips(draft);
  if (edited.empty()) return;
  draft.problem.notes.push_back(
      {"hardware_not_priced",
       fmt::format(
           "{}: {}; no figure follows from {}: rates are those of `peak`, `memory_bandwidth` and the tiers, the "
           "cost is that of `price`",
           cluster.name, fmt::join(edited, ", "), edited.size() > 1 ? "them" : "it")});
}

}  // namespace plan
