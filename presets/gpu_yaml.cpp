// A `preset: gpu/1` file: the data sheet of a GPU. What was measured on it is in presets/efficiency.
// Tested by tests/presets/hardware_test.cpp.
#include <fmt/core.h>

#include "formulas/names.hpp"
#include "presets/efficiency_reader.hpp"
#include "presets/gpu_yaml.hpp"
#include "presets/header.hpp"
#include "presets/reader.hpp"

namespace plan {
namespace {

using yaml::kOptional;
using yaml::Range;

constexpr Range kBandwidth{1e6, 1e15}, kRate{1e9, 1e18}, kDomain{1, 1e6};

void read_peaks(yaml::Map& root, Gpu& gpu) {
  yaml::Map peak = root.map("peak");
  for (const Named<DType>& row : kDTypeNames)
    peak.quantity(row.name, gpu.peak[static_cast<std::size_t>(row.value)], kRate, kOptional);
  if (peak.node().kind == yaml::Kind::Map && peak.node().items.empty())
    root.reader().error(peak.node(), "missing_key", "`peak` names no data type");
  peak.finish();
}

void write_unless_zero(Lines& out, int indent, std::string_view key, double value, Dimension dimension) {
  if (value != 0) out.data(indent, key, format_quantity(value, dimension));
}

/// Whose it is, what it is, and what its collectives run on. Stated, because neither a name nor a rate says it.
void read_make(yaml::Map& root, Gpu& gpu) {
  root.text("vendor", gpu.vendor, kOptional);
  root.word("architecture", gpu.architecture, kArchitectureNames, kOptional);
  root.word("collectives", gpu.library, kCollectiveLibraryNames, kOptional);
  root.boolean("nvlink_sharp", gpu.nvlink_sharp, kOptional);
  const std::string_view maker = vendor_of(gpu.architecture);
  if (gpu.vendor.empty()) gpu.vendor = maker;
  if (!maker.empty() && maker != gpu.vendor)
    root.reader().error(*root.get("vendor"), "conflict",
                        fmt::format("`vendor` is {}, and {} is made by {}", yaml::printable(gpu.vendor),
                                    name(gpu.architecture), maker));
  else if (gpu.nvlink_sharp && !gpu.vendor.empty() && gpu.vendor != "nvidia")
    root.reader().error(*root.get("nvlink_sharp"), "conflict",
                        fmt::format("`nvlink_sharp` is NVIDIA's, and `vendor` is {}", yaml::printable(gpu.vendor)));
}

void write_make(Lines& out, int in, const Gpu& gpu) {
  if (!gpu.vendor.empty()) out.data(in, "vendor", gpu.vendor);
  if (gpu.architecture != Architecture::Unknown) out.data(in, "architecture", name(gpu.architecture));
  if (gpu.library != CollectiveLibrary::Unknown) out.data(in, "collectives", name(gpu.library));
  if (gpu.nvlink_sharp) out.flag(in, "nvlink_sharp", true);
}

bool read_slice_shape(yaml::Reader& reader, const yaml::Node& node, std::string_view key, SliceShape& shape) {
  const std::optional<SliceShape> read =
      node.kind == yaml::Kind::Scalar ? read_slice(node.text) : std::optional<SliceShape>();
  if (read) return shape = *read, true;
  reader.error(node, "bad_value", fmt::format("`{}` is no shape of a slice", key), {"write it as 4x8 or 4x4x8"});
  return false;
}

/// Links and slices of a chip that has neighbours instead of switches; its scale-up numbers follow from them.
void read_torus(yaml::Map& root, Gpu& gpu) {
  if (!root.has("torus")) return;
  yaml::Map torus = root.map("torus");
  SliceRules& rules = gpu.slices;
  torus.quantity("link", rules.link, kBandwidth, kOptional);  // in a cluster's file its slice says it
  for (const yaml::Node* node : torus.list("slices", kOptional)) {
    SliceShape shape{};
    if (read_slice_shape(root.reader(), *node, "torus.slices", shape)) rules.listed.push_back(shape);
  }
  torus.integer("cube", rules.cube, {1, 1024}, kOptional);
  torus.integer("ring", rules.ring, {1, 1024}, kOptional);
  if (const yaml::Node* node = torus.get("largest"))
    read_slice_shape(root.reader(), *node, "torus.largest", rules.largest);
  torus.finish();
  for (const char* key : {"scale_up", "scale_up_size"})
    if (const yaml::Node* node = root.get(key, kOptional))
      root.reader().error(*node, "conflict", fmt::format("`{}` follows from `torus`: leave it out", key));
  const Torus largest = torus_of(rules, rules.largest);
  gpu.scale_up = rules.link * std::max(1, largest.links());
  gpu.scale_up_size = largest.chips();
}

void write_torus(Lines& out, int in, const SliceRules& rules, bool in_cluster) {
  if (!rules.any()) return;
  out.plain(fmt::format("{:{}}torus:", "", in));
  if (!in_cluster) write_unless_zero(out, in + 2, "link", rules.link.value, Dimension::ByteRate);
  std::string listed;
  for (const SliceShape& shape : rules.listed) listed += (listed.empty() ? "" : ", ") + slice_text(shape);
  if (!listed.empty()) out.data(in + 2, "slices", fmt::format("[{}]", listed));
  if (rules.cube > 0) out.data(in + 2, "cube", fmt::format("{}", rules.cube));
  if (rules.ring > 0) out.data(in + 2, "ring", fmt::format("{}", rules.ring));
  out.data(in + 2, "largest", slice_text(rules.largest));
}

/// A word names a table of presets/efficiency; a map holds what was measured on this very GPU.
void read_rates(yaml::Map& root, Gpu& gpu) {
  const yaml::Node* node = root.get("efficiency", kOptional);
  if (node == nullptr) return;
  if (node->kind != yaml::Kind::Map) {
    read_name(root, "efficiency", gpu.efficiency, kOptional);
    return;
  }
  yaml::Map measured = root.map("efficiency");
  read_efficiency_fields(measured, gpu);
}

}  // namespace

void read_gpu_fields(yaml::Map& root, Gpu& gpu) {
  for (const char* key : {"devices", "other_devices"})  // presets/device_names.cpp looks them up
    for (const yaml::Node* word : root.list(key, kOptional))
      if (word->kind != yaml::Kind::Scalar || word->text.empty())
        root.reader().error(*word, "bad_value", fmt::format("`{}` is not a list of names", key));
  read_make(root, gpu);
  root.quantity("memory", gpu.memory, Range{1e6, 1e15});
  read_peaks(root, gpu);
  root.quantity("memory_bandwidth", gpu.memory_bandwidth, kBandwidth);
  root.integer("sm_count", gpu.sm_count, {1, 1e5}, kOptional);
  if (root.has("torus")) {
    read_torus(root, gpu);
  } else {
    root.quantity("scale_up", gpu.scale_up, kBandwidth, kOptional);
    root.integer("scale_up_size", gpu.scale_up_size, kDomain, kOptional);
  }
  root.integer("gpus_per_node", gpu.gpus_per_node, {1, 1e4}, kOptional);
  root.quantity("nic", gpu.nic, kBandwidth, kOptional);
  root.quantity("host_link", gpu.host_link, kBandwidth, kOptional);
  root.quantity("power", gpu.power_w, Dimension::Power, {1, 1e6}, kOptional);
  root.quantity("price", gpu.price_per_hour, Dimension::Price, {0, 1e6}, kOptional);
  root.quantity("context", gpu.context, Range{0, 1e12}, kOptional);
  read_name(root, "measured_as", gpu.measured_as, kOptional);
  root.number("memory_efficiency", gpu.memory_efficiency, {0.01, 1}, kOptional);
  root.quantity("kernel_floor", gpu.kernel_floor, Range{0, 1}, kOptional);
  read_rates(root, gpu);
}

void write_gpu_fields(Lines& out, int in, const Gpu& gpu, bool in_cluster, bool with_rates) {
  const Gpu assumed;
  write_make(out, in, gpu);
  write_unless_zero(out, in, "memory", static_cast<double>(gpu.memory.value), Dimension::Bytes);
  out.plain(fmt::format("{:{}}peak:", "", in));
  for (const Named<DType>& row : kDTypeNames)
    write_unless_zero(out, in + 2, row.name, gpu.peak[static_cast<std::size_t>(row.value)].value, Dimension::FlopRate);
  write_unless_zero(out, in, "memory_bandwidth", gpu.memory_bandwidth.value, Dimension::ByteRate);
  if (gpu.sm_count != 0) out.data(in, "sm_count", fmt::format("{}", gpu.sm_count));
  write_torus(out, in, gpu.slices, in_cluster);
  if (!in_cluster) {
    if (!gpu.slices.any()) {
      write_unless_zero(out, in, "scale_up", gpu.scale_up.value, Dimension::ByteRate);
      out.data(in, "scale_up_size", fmt::format("{}", gpu.scale_up_size));
    }
    out.data(in, "gpus_per_node", fmt::format("{}", gpu.gpus_per_node));
    write_unless_zero(out, in, "nic", gpu.nic.value, Dimension::ByteRate);
  }
  write_unless_zero(out, in, "host_link", gpu.host_link.value, Dimension::ByteRate);
  write_unless_zero(out, in, "power", gpu.power_w, Dimension::Power);
  write_unless_zero(out, in, "price", gpu.price_per_hour, Dimension::Price);
  write_unless_zero(out, in, "context", static_cast<double>(gpu.context.value), Dimension::Bytes);
  if (with_rates && !gpu.measured_as.empty()) out.data(in, "measured_as", gpu.measured_as);
  if (!with_rates && !gpu.efficiency.empty()) out.data(in, "efficiency", gpu.efficiency);
  if (gpu.memory_efficiency != assumed.memory_efficiency)
    out.data(in, "memory_efficiency", fmt::format("{}", gpu.memory_efficiency));
  if (gpu.kernel_floor != assumed.kernel_floor)
    out.data(in, "kernel_floor", format_quantity(gpu.kernel_floor.value, Dimension::Time));
}

Result<Gpu> read_gpu(std::string text, std::string file) {
  return yaml::read_document<Gpu>(std::move(text), std::move(file), [&](yaml::Map& root, Gpu& gpu) {
    read_header(root, "gpu/1", gpu.name);
    read_gpu_fields(root, gpu);
    if (const yaml::Node* torus = root.get("torus", kOptional);
        torus != nullptr && !gpu.slices.any() && !root.reader().failed())
      root.reader().error(*torus, "missing_key", "`torus.link` is missing");
    root.finish();
  });
}

std::string write_gpu(const Gpu& gpu, std::string_view source) {
  Lines out(source);
  out.plain("preset: gpu/1");
  out.plain(fmt::format("name: {}", gpu.name));
  write_gpu_fields(out, 0, gpu, false, false);
  return out.text();
}

}  // namespace plan
