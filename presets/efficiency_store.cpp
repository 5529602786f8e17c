#include <algorithm>
#include <string>
#include <utility>

#include "presets/efficiency_reader.hpp"
#include "presets/embedded.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

std::string_view embedded(std::string_view name) {
  for (const EmbeddedFile& file : embedded_files())
    if (file.folder == "efficiency" && file.name == name) return file.text;
  return {};
}

/// Row of inherited.yaml.
struct Inherited {
  std::string like{};
  double sustained = 0;  ///< in bf16; 0: that of `like`
};

Result<Inherited> inherited(const std::string& name) {
  const Result<yaml::Document> document = yaml::parse(std::string(embedded("inherited")), "inherited.yaml");
  if (!document) return tl::unexpected<Errors>(document.error());
  yaml::Reader reader(*document);
  yaml::Map root = reader.root();
  Inherited row;
  if (root.has(name)) {
    yaml::Map map = root.map(name);
    map.text("like", row.like);
    map.number("sustained", row.sustained, {0.1, 1}, yaml::kOptional);
    map.finish();
  }
  if (reader.failed()) return fail(reader.take());
  return row;
}

}  // namespace

Result<std::string> efficiency_like(const std::string& name) {
  Result<Inherited> row = inherited(name);
  if (!row) return tl::unexpected<Errors>(row.error());
  return std::move(row->like);
}

Result<bool> apply_efficiency(Gpu& gpu) {
  std::string_view text = embedded(gpu.name);
  std::string file = gpu.name;
  double sustained = 0;
  if (text.empty()) {
    const Result<Inherited> row = inherited(gpu.name);
    if (!row) return tl::unexpected<Errors>(row.error());
    if (row->like.empty()) return false;
    text = embedded(row->like);
    file = row->like;
    sustained = row->sustained;
  }
  const Result<void> read = read_efficiency(std::string(text), "efficiency/" + file + ".yaml", gpu);
  if (!read) return tl::unexpected<Errors>(read.error());
  const double measured = gpu.sustained[static_cast<std::size_t>(DType::Bf16)];
  if (sustained > 0) {  // stated for bf16
    for (double& share : gpu.sustained) share = std::min(1.0, share * sustained / measured);
    // Attention was measured under the other GPU's limit, and a lower one holds back its tensor cores as well.
    for (AttentionFit& fit : gpu.attention) fit.rate = fit.rate * std::min(1.0, sustained / measured);
  }
  return true;
}

}  // namespace plan
