// A `preset: gpu/1` file: the data sheet of a GPU. What was measured on it stands in presets/efficiency.
// Tested by tests/presets/hardware_test.cpp.
#include <fmt/core.h>

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

}  // namespace

void read_gpu_fields(yaml::Map& root, Gpu& gpu) {
  root.text("vendor", gpu.vendor, kOptional);
  root.quantity("memory", gpu.memory, Range{1e6, 1e15});
  read_peaks(root, gpu);
  root.quantity("memory_bandwidth", gpu.memory_bandwidth, kBandwidth);
  root.integer("sm_count", gpu.sm_count, {1, 1e5}, kOptional);
  root.quantity("scale_up", gpu.scale_up, kBandwidth, kOptional);
  root.integer("scale_up_size", gpu.scale_up_size, kDomain, kOptional);
  root.integer("gpus_per_node", gpu.gpus_per_node, {1, 1e4}, kOptional);
  root.quantity("nic", gpu.nic, kBandwidth, kOptional);
  root.quantity("host_link", gpu.host_link, kBandwidth, kOptional);
  root.quantity("power", gpu.power_w, Dimension::Power, {1, 1e6}, kOptional);
  root.quantity("price", gpu.price_per_hour, Dimension::Price, {0, 1e6}, kOptional);
  root.quantity("context", gpu.context, Range{0, 1e12}, kOptional);
  root.text("measured_as", gpu.measured_as, kOptional);
  root.number("memory_efficiency", gpu.memory_efficiency, {0.01, 1}, kOptional);
  root.quantity("kernel_floor", gpu.kernel_floor, Range{0, 1}, kOptional);
  if (root.has("efficiency")) {
    yaml::Map measured = root.map("efficiency");
    read_efficiency_fields(measured, gpu);
  } else {
    root.get("efficiency", kOptional);
  }
}

void write_gpu_fields(Lines& out, int in, const Gpu& gpu) {
  const Gpu assumed;
  if (!gpu.vendor.empty()) out.data(in, "vendor", gpu.vendor);
  write_unless_zero(out, in, "memory", static_cast<double>(gpu.memory.value), Dimension::Bytes);
  out.plain(fmt::format("{:{}}peak:", "", in));
  for (const Named<DType>& row : kDTypeNames)
    write_unless_zero(out, in + 2, row.name, gpu.peak[static_cast<std::size_t>(row.value)].value, Dimension::FlopRate);
  write_unless_zero(out, in, "memory_bandwidth", gpu.memory_bandwidth.value, Dimension::ByteRate);
  if (gpu.sm_count != 0) out.data(in, "sm_count", fmt::format("{}", gpu.sm_count));
  write_unless_zero(out, in, "scale_up", gpu.scale_up.value, Dimension::ByteRate);
  out.data(in, "scale_up_size", fmt::format("{}", gpu.scale_up_size));
  out.data(in, "gpus_per_node", fmt::format("{}", gpu.gpus_per_node));
  write_unless_zero(out, in, "nic", gpu.nic.value, Dimension::ByteRate);
  write_unless_zero(out, in, "host_link", gpu.host_link.value, Dimension::ByteRate);
  write_unless_zero(out, in, "power", gpu.power_w, Dimension::Power);
  write_unless_zero(out, in, "price", gpu.price_per_hour, Dimension::Price);
  write_unless_zero(out, in, "context", static_cast<double>(gpu.context.value), Dimension::Bytes);
  if (!gpu.measured_as.empty()) out.data(in, "measured_as", gpu.measured_as);
  if (gpu.memory_efficiency != assumed.memory_efficiency)
    out.data(in, "memory_efficiency", fmt::format("{}", gpu.memory_efficiency));
  if (gpu.kernel_floor != assumed.kernel_floor)
    out.data(in, "kernel_floor", format_quantity(gpu.kernel_floor.value, Dimension::Time));
}

Result<Gpu> read_gpu(std::string text, std::string file) {
  Result<yaml::Document> document = yaml::parse(std::move(text), std::move(file));
  if (!document) return tl::unexpected(document.error());
  yaml::Reader reader(*document);
  yaml::Map root = reader.root();
  Gpu gpu;
  read_header(root, "gpu/1", gpu.name);
  read_gpu_fields(root, gpu);
  root.finish();
  if (reader.failed()) return fail(reader.take());
  return gpu;
}

std::string write_gpu(const Gpu& gpu, std::string_view source) {
  Lines out(source);
  out.plain("preset: gpu/1");
  out.plain(fmt::format("name: {}", gpu.name));
  write_gpu_fields(out, 0, gpu);
  return out.text();
}

}  // namespace plan
