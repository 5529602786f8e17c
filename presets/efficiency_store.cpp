// Which table of measured rates a GPU takes: its own, or that of the GPU that inherited.yaml names for it. Tested by
// tests/presets/efficiency_test.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "formulas/names.hpp"
#include "presets/efficiency_reader.hpp"
#include "presets/embedded.hpp"
#include "presets/quantity.hpp"
#include "presets/reader.hpp"
#include "presets/suggest.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

std::string_view embedded(std::string_view folder, std::string_view name) {
  for (const EmbeddedFile& file : embedded_files())
    if (file.folder == folder && file.name == name) return file.text;
  return {};
}

Error unknown_key(const Gpu& gpu) {
  Error error{"unknown_efficiency",
              fmt::format("`efficiency: {}` of {} names no table of measured rates", yaml::printable(gpu.efficiency),
                          yaml::printable(gpu.name)),
              {},
              {}};
  std::vector<std::string> names;
  for (const EmbeddedFile& file : embedded_files())
    if (file.folder == "efficiency" && file.name != "inherited") names.emplace_back(file.name);
  if (const std::string near = nearest_name(gpu.efficiency, names); !near.empty())
    error.help.push_back(fmt::format("a table with a similar name exists: `{}`", near));
  error.help.push_back("take the key of the preset that it resembles, see `plan show gpu NAME`, or leave it out");
  return error;
}

/// The numbers of `gpu` by which measured rates are scaled, where they are not those of the preset whose rates it
/// takes.
std::vector<std::string> edited_numbers(const Gpu& gpu) {
  std::vector<std::string> out;
  const std::string_view text = embedded("gpus", gpu.efficiency);
  if (text.empty()) return out;
  const Result<Gpu> preset = read_gpu(std::string(text), gpu.efficiency);
  if (!preset) return out;
  const auto compare = [&](std::string_view key, double here, double there, Dimension dimension) {
    if (here == there) return;
    const auto words = [&](double value) { return value > 0 ? format_quantity(value, dimension) : "none"; };
    out.push_back(fmt::format("{} {} instead of {}", key, words(here), words(there)));
  };
  for (std::size_t i = 0; i < kDTypes; ++i)
    compare(fmt::format("peak.{}", kDTypeNames[i].name), gpu.peak[i].value, preset->peak[i].value, Dimension::FlopRate);
  compare("memory_bandwidth", gpu.memory_bandwidth.value, preset->memory_bandwidth.value, Dimension::ByteRate);
  compare("scale_up", gpu.scale_up.value, preset->scale_up.value, Dimension::ByteRate);
  return out;
}

/// Row of inherited.yaml.
struct Inherited {
  std::string like{};
  double sustained = 0;  ///< in bf16; 0: that of `like`; over 1 where the limit of `like` held back its table
};

Result<Inherited> inherited(const std::string& name) {
  return yaml::read_document<Inherited>(
      std::string(embedded("efficiency", "inherited")), "inherited.yaml", [&](yaml::Map& root, Inherited& row) {
        if (root.has(name)) {
          yaml::Map map = root.map(name);
          map.text("like", row.like);
          map.number("sustained", row.sustained, {0.1, kMostSustained}, yaml::kOptional);
          map.finish();
        }
      });
}

}  // namespace

Result<bool> apply_efficiency(Gpu& gpu) {
  if (gpu.efficiency.empty()) return false;
  std::string_view text = embedded("efficiency", gpu.efficiency);
  std::string file = gpu.efficiency;
  double sustained = 0;
  if (text.empty()) {
    const Result<Inherited> row = inherited(gpu.efficiency);
    if (!row) return tl::unexpected<Errors>(row.error());
    if (row->like.empty()) return fail(unknown_key(gpu));
    text = embedded("efficiency", row->like);
    file = row->like;
    sustained = row->sustained;
  }
  const Result<void> read = read_efficiency(std::string(text), "efficiency/" + file + ".yaml", gpu);
  if (!read) return tl::unexpected<Errors>(read.error());
  gpu.edited = edited_numbers(gpu);
  const double measured = gpu.sustained[static_cast<std::size_t>(DType::Bf16)];
  if (sustained > 0) {  // stated for bf16
    for (double& share : gpu.sustained) share = std::min(std::max(1.0, sustained), share * sustained / measured);
    // Attention was measured under the other GPU's limit, and a lower one holds back its tensor cores as well.
    for (AttentionFit& fit : gpu.attention)
      fit.rate = fit.rate * std::min(std::max(1.0, sustained), sustained / measured);
  }
  return true;
}

}  // namespace plan
