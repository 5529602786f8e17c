// A `preset: cluster/1` file: a GPU, how many make a node, and the tiers of the network, innermost first.
// Tested by tests/presets/hardware_test.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "formulas/calibration_fields.hpp"
#include "formulas/torus.hpp"
#include "presets/cluster_yaml.hpp"
#include "presets/default_cluster.hpp"
#include "presets/efficiency_reader.hpp"
#include "presets/gpu_yaml.hpp"
#include "presets/header.hpp"
#include "presets/reader.hpp"

namespace plan {
namespace {

using yaml::kOptional;
using yaml::Range;

constexpr Named<Provenance> kProvenanceNames[] = {
    {Provenance::Measured, "measured"},   {Provenance::Imported, "imported"},   {Provenance::Fitted, "fitted"},
    {Provenance::Datasheet, "datasheet"}, {Provenance::Inherited, "inherited"}, {Provenance::Assumed, "assumed"}};

void read_gpu_of(yaml::Map& root, const GpuLookup& lookup, Gpu& gpu) {
  const yaml::Node* node = root.get("gpu");
  if (node == nullptr) return;
  if (node->kind == yaml::Kind::Map) {
    yaml::Map map = root.map("gpu");
    map.text("name", gpu.name);
    read_gpu_fields(map, gpu);
    map.finish();
    return;
  }
  std::string name;
  if (!root.text("gpu", name)) return;
  Result<Gpu> found = lookup(name);
  if (found) {
    gpu = *std::move(found);
    return;
  }
  for (const Error& error : found.error()) root.reader().error(*node, error.code, error.message, error.help);
}

/// A cluster's links and nodes are its own, not those that its GPU usually comes in.
void take_surroundings(const Cluster& cluster, Gpu& gpu) {
  gpu.gpus_per_node = cluster.gpus_per_node;
  if (cluster.tiers.empty()) return;
  gpu.scale_up = cluster.tiers.front().bandwidth;
  gpu.scale_up_size = cluster.tiers.front().size;
  if (cluster.tiers.size() > 1) gpu.nic = cluster.tiers[1].bandwidth;
}

/// A GPU inside a cluster's file says nothing else about them.
void refuse_other_surroundings(yaml::Map& root, const Cluster& cluster) {
  const yaml::Node* node = root.get("gpu", kOptional);
  if (node == nullptr || node->kind != yaml::Kind::Map || cluster.tiers.empty()) return;
  Gpu theirs = cluster.gpu;
  take_surroundings(cluster, theirs);
  const auto refuse = [&](const char* key, const std::string& there, const std::string& here) {
    root.reader().error(
        *node, "conflict",
        fmt::format("`gpu.{}` is {}, and the cluster says {}: leave out `gpu.{}`", key, there, here, key));
  };
  const auto rate = [](BytesPerSecond r) { return format_quantity(r.value, Dimension::ByteRate); };
  const bool slices = cluster.gpu.slices.any();  // its numbers are those of its largest slice
  if (!slices && cluster.gpu.scale_up != theirs.scale_up)
    refuse("scale_up", rate(cluster.gpu.scale_up), rate(theirs.scale_up));
  if (cluster.gpu.nic != theirs.nic) refuse("nic", rate(cluster.gpu.nic), rate(theirs.nic));
  if (!slices && cluster.gpu.scale_up_size != theirs.scale_up_size)
    refuse("scale_up_size", fmt::format("{}", cluster.gpu.scale_up_size), fmt::format("{}", theirs.scale_up_size));
  if (cluster.gpu.gpus_per_node != theirs.gpus_per_node)
    refuse("gpus_per_node", fmt::format("{}", cluster.gpu.gpus_per_node), fmt::format("{}", theirs.gpus_per_node));
}

/// `size: all` holds any number of GPUs.
void read_size(yaml::Map& map, int& size) {
  const yaml::Node* node = map.get("size");
  if (node != nullptr && node->text == "all")
    size = kAnyGpus;
  else
    map.integer("size", size, {1, kAnyGpus}, kOptional);
}

/// The shape of a slice, which says how many GPUs it has; `rings: yes` closes every axis, else the GPU's preset says
/// which are closed.
void read_shape(yaml::Map& map, Tier& tier) {
  std::string text;
  if (!map.text("torus", text, kOptional)) return read_size(map, tier.size);
  const std::optional<SliceShape> shape = read_slice(text);
  if (!shape)
    return map.reader().error(*map.get("torus"), "bad_value", "`torus` is no shape of a slice",
                              {"write it as 4x8 or 4x4x8"});
  bool rings = false;
  map.boolean("rings", rings, kOptional);
  tier.torus =
      torus_of({.link = BytesPerSecond(1), .listed = {}, .cube = 0, .ring = rings ? 1 : 0, .largest = *shape}, *shape);
  tier.size = tier.torus.chips();
  if (const yaml::Node* size = map.get("size", kOptional);
      size != nullptr && size->text != fmt::format("{}", tier.size))
    map.reader().error(*size, "conflict",
                       fmt::format("`size` is {}, and a slice of {} has {} GPUs: leave it out",
                                   yaml::printable(size->text), slice_text(*shape), tier.size));
}

/// A GPU inside the cluster's file leaves its links to the slice, or says the same.
void take_link(yaml::Map& root, Cluster& cluster) {
  const yaml::Node* node = root.get("gpu", kOptional);
  if (node == nullptr || cluster.tiers.empty() || !cluster.tiers.front().torus.any()) return;
  SliceRules& rules = cluster.gpu.slices;
  const BytesPerSecond link = cluster.tiers.front().torus.link;
  if (rules.any() && node->kind == yaml::Kind::Map && std::abs(rules.link / link - 1) > 1e-9)
    root.reader().error(*node, "conflict",
                        fmt::format("`gpu.torus.link` is {}, and the slice's bandwidth gives {}: leave it out",
                                    format_quantity(rules.link.value, Dimension::ByteRate),
                                    format_quantity(link.value, Dimension::ByteRate)));
  if (rules != SliceRules{}) rules.link = link;
}

/// What the preset of the cluster's GPU says of slices that say nothing of rings themselves.
void close_rings(Cluster& cluster) {
  if (cluster.tiers.empty() || !cluster.tiers.front().torus.any()) return;
  Torus& torus = cluster.tiers.front().torus;
  const auto wraps = [](const Torus& t) {
    return std::any_of(t.axes.begin(), t.axes.end(), [](const TorusAxis& axis) { return axis.wraps; });
  };
  if (cluster.gpu.slices.any() && !wraps(torus)) torus.axes = torus_of(cluster.gpu.slices, torus.shape()).axes;
}

Tier read_tier(yaml::Map map) {
  Tier tier;
  map.text("name", tier.name);
  read_shape(map, tier);
  map.quantity("bandwidth", tier.bandwidth, Range{1e6, 1e15});
  if (tier.torus.any()) tier.torus.link = tier.bandwidth / std::max(1, tier.torus.links());
  map.quantity("latency", tier.latency, Range{0, 1}, kOptional);
  map.number("oversubscription", tier.oversubscription, {1, 1000}, kOptional);
  map.word("provenance", tier.provenance, kProvenanceNames, kOptional);
  map.finish();
  return tier;
}

/// Nodes are whole in every tier, or it in them; and so are the tiers inside it.
bool holds_whole(std::int64_t size, int node, std::int64_t inside) {
  return size % inside == 0 && (size % node == 0 || node % size == 0);
}

/// The nearest such sizes, to be written instead of the one of a tier that is none.
std::string possible_sizes(const Tier& tier, int node, std::int64_t inside) {
  const std::int64_t size = tier.size;
  const std::int64_t step = std::max<std::int64_t>(node, inside);  // beyond it its multiples alone
  std::int64_t fewer = size / step * step, more = fewer + step;
  for (std::int64_t least = node - 1; fewer == 0 && least > 0; --least) {
    if (!holds_whole(least, node, inside)) continue;
    if (least > size)
      more = least;
    else
      fewer = least;
  }
  std::string out;
  for (const std::int64_t one : {fewer, more})
    if (one > 0 && one < kAnyGpus)
      out += fmt::format("{}`{}{}`", out.empty() ? "" : " or ", tier.torus.any() ? "" : "size: ", one);
  return tier.torus.any() ? fmt::format("a `torus` of {} chips", out) : out;
}

/// One mistake for each tier of a size that parts nodes or the tiers inside it.
void judge_sizes(yaml::Map& root, const std::vector<const yaml::Node*>& items, const Cluster& cluster) {
  const int node = cluster.gpus_per_node;
  const Tier* inside = nullptr;  // the last one of a right size
  for (std::size_t i = 0; i < cluster.tiers.size(); ++i) {
    const Tier& tier = cluster.tiers[i];
    const int least = inside == nullptr ? 1 : inside->size;
    if (tier.size == kAnyGpus || holds_whole(tier.size, node, least)) {
      inside = &tier;
      continue;
    }
    if (least == kAnyGpus) {
      root.reader().error(*items[i], "bad_value",
                          fmt::format("tier `{}` of {} GPUs does not hold tier `{}`, which holds any number of them",
                                      tier.name, tier.size, inside->name),
                          {"write `size: all` in the last tier alone"});
      continue;
    }
    const bool parts_tiers = tier.size % least != 0;
    root.reader().error(*items[i], "bad_value",
                        parts_tiers
                            ? fmt::format("tier `{}` of {} GPUs does not hold whole tiers `{}` of {}", tier.name,
                                          tier.size, inside->name, least)
                            : fmt::format("tier `{}` of {} GPUs holds no whole nodes of {}, and no node holds it whole",
                                          tier.name, tier.size, node),
                        {fmt::format("write {}", possible_sizes(tier, node, least))});
  }
}

void read_tiers(yaml::Map& root, Cluster& cluster) {
  const std::vector<const yaml::Node*> items = root.list("tiers");
  for (std::size_t i = 0; i < items.size() && i < 16; ++i)
    cluster.tiers.push_back(read_tier(root.reader().map(*items[i], fmt::format("tiers[{}]", i))));
  if (items.empty() && root.has("tiers")) root.reader().error(root.node(), "bad_value", "`tiers` is empty");
  for (std::size_t i = 1; i < cluster.tiers.size(); ++i)
    if (cluster.tiers[i].torus.any())
      root.reader().error(*items[i], "bad_value", "only the innermost tier can be a `torus`");
  if (root.reader().failed()) return;  // a size that is not read holds no other
  judge_sizes(root, items, cluster);
}

void read_calibration(yaml::Map map, Calibration& calibration) {
  for (const CalibrationField& field : kCalibrationFields)
    map.number(field.name, calibration.*field.value, {field.least, field.most}, kOptional);
  map.finish();
}

void write_calibration(Lines& out, const Calibration& calibration) {
  if (calibration == Calibration{}) return;
  out.plain("calibration:");
  for (const CalibrationField& field : kCalibrationFields)
    out.data(2, field.name, fmt::format("{}", calibration.*field.value));
}

void write_slice(Lines& out, const Torus& torus, const SliceRules& rules) {
  const SliceShape shape = torus.shape();
  out.data(4, "torus", slice_text(shape));
  const bool any = std::any_of(torus.axes.begin(), torus.axes.end(), [](const TorusAxis& axis) { return axis.wraps; });
  if (any && torus_of(rules, shape).axes != torus.axes) out.flag(4, "rings", true);
}

LearntSteps read_learnt(yaml::Map map) {
  LearntSteps learnt;
  map.integer("runs", learnt.runs, {1, 1e9});
  map.number("low", learnt.low, {0.01, 1});
  map.number("high", learnt.high, {1, 100});
  yaml::Map ranges = map.map("ranges");
  for (const auto& [key, value] : ranges.entries()) {
    LearntRange range{key->text, 0, 0};
    yaml::Map ends = ranges.map(range.name);
    ends.integer("least", range.least, {0, 1e12});
    ends.integer("most", range.most, {static_cast<double>(range.least), 1e12});
    ends.finish();
    learnt.ranges.push_back(std::move(range));
  }
  for (const yaml::Node* trait : map.list("traits")) learnt.traits.push_back(trait->text);
  map.finish();
  return learnt;
}

/// A YAML string in double quotes: names of models may hold anything.
std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

void write_learnt(Lines& out, const LearntSteps& learnt) {
  if (learnt.runs == 0) return;
  out.plain("learnt:");
  out.data(2, "runs", fmt::format("{}", learnt.runs));
  out.data(2, "low", fmt::format("{}", learnt.low));
  out.data(2, "high", fmt::format("{}", learnt.high));
  out.plain("  ranges:");
  for (const LearntRange& range : learnt.ranges)
    out.data(4, range.name, fmt::format("{{least: {}, most: {}}}", range.least, range.most));
  out.plain("  traits:");
  for (const std::string& trait : learnt.traits) out.plain("    - " + in_quotes(trait));
}

}  // namespace

void read_cluster_keys(yaml::Map& root, const GpuLookup& lookup, Cluster& cluster) {
  const yaml::Node* gpu = root.get("gpu", kOptional);
  const bool whole = gpu != nullptr && gpu->kind == yaml::Kind::Map;  // its rates are shares of links that come first
  if (!whole) read_gpu_of(root, lookup, cluster.gpu);
  root.integer("gpus_per_node", cluster.gpus_per_node, {1, 1e4});
  cluster.nics_per_node = cluster.gpus_per_node;
  root.integer("nics_per_node", cluster.nics_per_node, {0, 1e4}, kOptional);
  root.quantity("host_memory", cluster.host_memory, Range{1e9, 1e15}, kOptional);
  read_tiers(root, cluster);
  take_surroundings(cluster, cluster.gpu);
  if (whole) read_gpu_of(root, lookup, cluster.gpu);
  take_link(root, cluster);
  if (whole) refuse_other_surroundings(root, cluster);
  take_surroundings(cluster, cluster.gpu);
  close_rings(cluster);
  root.quantity("host_power", cluster.host_power_w, Dimension::Power, {1, 1e5}, kOptional);
  root.number("pue", cluster.pue, {1, 10}, kOptional);
  double mtbf = 0;
  if (root.quantity("gpu_mtbf", mtbf, Dimension::Time, {1, 1e12}, kOptional)) cluster.gpu_mtbf_hours = mtbf / 3600;
  read_calibration(root.map("calibration", kOptional), cluster.calibration);
  if (root.has("learnt")) cluster.learnt = read_learnt(root.map("learnt"));
  root.boolean("measured", cluster.measured, kOptional);
  if (cluster.measured && whole)  // what the file states itself; its rates, curves and tiers say their own provenance
    cluster.probed = {.memory = cluster.gpu.memory.value > 0,
                      .bandwidth = cluster.gpu.memory_bandwidth.value > 0,
                      .host_link = cluster.gpu.host_link.value > 0};
}

Result<Cluster> read_cluster(std::string text, std::string file, const GpuLookup& lookup) {
  return yaml::read_document<Cluster>(std::move(text), std::move(file), [&](yaml::Map& root, Cluster& cluster) {
    yaml::Reader& reader = root.reader();
    read_header(root, "cluster/1", cluster.name);
    if (const yaml::Node* pools = root.get("pools", kOptional)) {
      reader.error(*pools, "several_pools", "`pools` are several kinds of GPU, and one is asked for here",
                   {"`plan`, `plan estimate` and `plan check` take them"});
      return;
    }
    read_cluster_keys(root, lookup, cluster);
    root.finish();
  });
}

std::string write_cluster(const Cluster& cluster, std::string_view source) {
  const Cluster assumed;
  Lines out(source);
  out.plain("preset: cluster/1");
  out.plain(fmt::format("name: {}", cluster.name));
  out.plain("gpu:");
  out.plain(fmt::format("  name: {}", cluster.gpu.name));
  const bool with_rates = cluster.measured && has_efficiency(cluster.gpu);
  write_gpu_fields(out, 2, cluster.gpu, true, with_rates);
  if (with_rates) {
    out.plain("  efficiency:");
    write_efficiency_fields(out, 4, cluster.gpu, source.empty() ? "plan probe" : std::string(source));
  }
  out.data(0, "gpus_per_node", fmt::format("{}", cluster.gpus_per_node));
  out.data(0, "nics_per_node", fmt::format("{}", cluster.nics_per_node));
  if (cluster.host_memory.value != 0)
    out.data(0, "host_memory", format_quantity(static_cast<double>(cluster.host_memory.value), Dimension::Bytes));
  out.plain("tiers:");
  for (const Tier& tier : cluster.tiers) {
    out.plain(fmt::format("  - name: {}", tier.name));
    if (tier.torus.any())
      write_slice(out, tier.torus, cluster.gpu.slices);
    else
      out.data(4, "size", tier.size == kAnyGpus ? "all" : fmt::format("{}", tier.size));
    out.data(4, "bandwidth", format_quantity(tier.bandwidth.value, Dimension::ByteRate));
    if (tier.latency.value != 0) out.data(4, "latency", format_quantity(tier.latency.value, Dimension::Time));
    if (tier.oversubscription != 1) out.data(4, "oversubscription", fmt::format("{}", tier.oversubscription));
    if (tier.provenance != Provenance::Datasheet)
      out.data(4, "provenance", detail::name_in(kProvenanceNames, tier.provenance));
  }
  if (cluster.host_power_w != 0) out.data(0, "host_power", format_quantity(cluster.host_power_w, Dimension::Power));
  if (cluster.pue != assumed.pue) out.data(0, "pue", fmt::format("{}", cluster.pue));
  if (cluster.gpu_mtbf_hours != 0) out.data(0, "gpu_mtbf", fmt::format("{} h", cluster.gpu_mtbf_hours));
  write_calibration(out, cluster.calibration);
  write_learnt(out, cluster.learnt);
  if (cluster.measured) out.flag(0, "measured", true);
  return out.text();
}

}  // namespace plan
