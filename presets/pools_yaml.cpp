// A `preset: cluster/1` file with `pools`: several kinds of GPU, each a cluster of its own, and the networks between
// them. Tested by tests/presets/pools_yaml_test.cpp and tests/cli/pool_files_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "presets/cluster_yaml.hpp"
#include "presets/default_cluster.hpp"
#include "presets/header.hpp"
#include "presets/reader.hpp"
#include "presets/suggest.hpp"

namespace plan {
namespace {

using yaml::kOptional;

constexpr yaml::Range kRates{1e3, 1e15};
constexpr const char* kBetweenPools = "between pools";

/// Pools in the order of the file, with the names that `links` knows them by.
struct NamedPools {
  PooledCluster found{};
  std::vector<std::string> names{};
};

void pass_on(yaml::Reader& reader, const yaml::Node& node, const Errors& errors) {
  for (const Error& error : errors) reader.error(node, error.code, error.message, error.help);
}

/// A cluster by name, a GPU in its usual cluster, or a cluster spelt out.
Cluster read_cluster_of(yaml::Map& map, const PoolLookup& lookup, std::string& name) {
  Cluster cluster;
  const auto take = [&](const char* key, const auto& find) {
    std::string word;
    if (!map.text(key, word)) return;
    Result<Cluster> found = find(word);
    if (found)
      cluster = *std::move(found);
    else
      pass_on(map.reader(), *map.get(key), found.error());
  };
  if (map.has("cluster")) {
    take("cluster", lookup.cluster);
    if (name.empty()) name = cluster.name;
    return cluster;
  }
  const yaml::Node* gpu = map.get("gpu");
  const bool spelt = (gpu != nullptr && gpu->kind == yaml::Kind::Map) || map.has("tiers") || map.has("gpus_per_node");
  if (spelt) {
    read_cluster_keys(map, lookup.sheet, cluster);
    pass_on(map.reader(), map.node(), lookup.rates(cluster.gpu));
    cluster.name = name.empty() ? cluster.gpu.name : name;
  } else if (gpu != nullptr) {
    take("gpu", lookup.usual);
  }
  if (name.empty()) name = cluster.gpu.name;
  return cluster;
}

void read_pool(const yaml::Node& node, yaml::Map map, const PoolLookup& lookup, NamedPools& all) {
  Pool pool;
  std::string name;
  map.text("name", name, kOptional);
  map.integer("gpus", pool.gpus, {1, kAnyGpus});
  pool.cluster = read_cluster_of(map, lookup, name);
  map.finish();
  yaml::Reader& reader = map.reader();
  for (const Pool& other : all.found.pools)
    if (!pool.cluster.name.empty() && other.cluster.name == pool.cluster.name &&
        other.cluster.gpu.name == pool.cluster.gpu.name)
      reader.error(node, "conflict", fmt::format("two pools are of {}", pool.cluster.name),
                   {"write them as one, with the sum of their GPUs; a slow network between them is a tier"});
  if (std::find(all.names.begin(), all.names.end(), name) != all.names.end() && !name.empty())
    reader.error(node, "conflict", fmt::format("two pools have the name `{}`", yaml::printable(name)),
                 {"give each a `name` of its own"});
  if (!pool.cluster.tiers.empty() && pool.cluster.tiers.front().torus.any())
    reader.error(node, "bad_value",
                 fmt::format("slices of {} are tori: they stand in no pipeline with other kinds", pool.cluster.name));
  all.found.pools.push_back(std::move(pool)), all.names.push_back(std::move(name));
}

/// The keys of a network between pools, which has no size.
Tier read_link(yaml::Map& map) {
  Tier tier{.name = kBetweenPools};
  map.quantity("bandwidth", tier.bandwidth, kRates);
  map.quantity("latency", tier.latency, yaml::Range{0, 1}, kOptional);
  map.number("oversubscription", tier.oversubscription, {1, 1000}, kOptional);
  return tier;
}

/// Which pool a name is of; -1 after a mistake.
int pool_named(yaml::Reader& reader, const yaml::Node& node, const std::vector<std::string>& names) {
  const auto found = std::find(names.begin(), names.end(), node.text);
  if (found != names.end()) return static_cast<int>(found - names.begin());
  std::string known;
  for (const std::string& name : names) known += (known.empty() ? "" : ", ") + name;
  reader.error(node, "unknown_pool", fmt::format("no pool has the name `{}`", yaml::printable(node.text)),
               {fmt::format("the pools are {}", known)});
  return -1;
}

void read_own_link(const yaml::Node& node, yaml::Map map, NamedPools& all) {
  yaml::Reader& reader = map.reader();
  const std::vector<const yaml::Node*> ends = map.list("between");
  PoolLink link{.one = -1, .other = -1, .tier = read_link(map)};
  map.finish();
  if (ends.size() != 2)
    return reader.error(node, "bad_value", "`between` names two pools", {"write `between: [a100-sxm-80gb, h100-sxm]`"});
  link.one = pool_named(reader, *ends[0], all.names), link.other = pool_named(reader, *ends[1], all.names);
  if (link.one < 0 || link.other < 0) return;
  if (link.one > link.other) std::swap(link.one, link.other);
  if (link.one == link.other)
    return reader.error(node, "bad_value", "`between` names one pool twice: the network inside it is its own tiers");
  for (const PoolLink& other : all.found.links)
    if (other.one == link.one && other.other == link.other)
      return reader.error(node, "conflict", "the link between these pools is given already");
  all.found.links.push_back(std::move(link));
}

void read_links(yaml::Map& root, NamedPools& all) {
  yaml::Reader& reader = root.reader();
  const std::vector<const yaml::Node*> items = root.list("links", kOptional);
  for (std::size_t i = 0; i < items.size(); ++i)
    read_own_link(*items[i], reader.map(*items[i], fmt::format("links[{}]", i)), all);
  if (const yaml::Node* node = root.get("link", kOptional)) {
    if (all.found.joined() && !reader.failed())
      reader.error(*node, "conflict", "`link` is of no pools: `links` names them all", {"leave `link` out"});
    yaml::Map link = root.map("link");
    all.found.link = read_link(link);
    link.finish();
  }
}

}  // namespace

bool describes_pools(std::string_view text) {
  return text.starts_with("pools:") || text.find("\npools:") != std::string_view::npos;
}

Result<PooledCluster> read_pooled_cluster(std::string text, std::string file, const PoolLookup& lookup) {
  Result<yaml::Document> document = yaml::parse(std::move(text), std::move(file));
  if (!document) return tl::unexpected(document.error());
  yaml::Reader reader(*document);
  yaml::Map root = reader.root();
  NamedPools all;
  read_header(root, "cluster/1", all.found.name);
  const std::vector<const yaml::Node*> items = root.list("pools");
  if (items.size() < 2 || items.size() > kMostPools)
    reader.error(root.has("pools") ? *root.get("pools") : root.node(), "out_of_range",
                 fmt::format("`pools` has {} kinds of GPU, and 2 to {} make one job", items.size(), kMostPools),
                 {"a cluster of one kind has `gpu` and `tiers` instead"});
  for (std::size_t i = 0; i < items.size() && i < kMostPools; ++i)
    read_pool(*items[i], reader.map(*items[i], fmt::format("pools[{}]", i)), lookup, all);
  read_links(root, all);
  root.finish();
  if (reader.failed()) return fail(reader.take());
  return std::move(all.found);
}

std::string write_pooled_cluster(const PooledCluster& cluster, std::string_view source) {
  const std::string comment = source.empty() ? "" : fmt::format("  # {}", source);
  std::string out = fmt::format("preset: cluster/1\nname: {}\npools:\n", cluster.name);
  std::vector<std::string> names;
  for (const Pool& pool : cluster.pools) {
    names.push_back(pool.cluster.name);
    out += fmt::format("  - name: {}\n    gpus: {}{}\n", names.back(), pool.gpus, comment);
    const std::string whole = write_cluster(pool.cluster, source);
    for (std::size_t at = whole.find("gpu:\n"); at < whole.size();) {  // behind its header
      const std::size_t end = std::min(whole.find('\n', at), whole.size() - 1);
      out += "    " + whole.substr(at, end + 1 - at);
      at = end + 1;
    }
  }
  const auto keys = [&](const Tier& tier, const char* indent) {
    const auto line = [&](const char* key, const std::string& value) {
      out += fmt::format("{}{}: {}{}\n", indent, key, value, comment);
    };
    line("bandwidth", format_quantity(tier.bandwidth.value, Dimension::ByteRate));
    if (tier.latency.value != 0) line("latency", format_quantity(tier.latency.value, Dimension::Time));
    if (tier.oversubscription != 1) line("oversubscription", fmt::format("{}", tier.oversubscription));
  };
  if (cluster.link) out += "link:\n", keys(*cluster.link, "  ");
  if (!cluster.links.empty()) out += "links:\n";
  for (const PoolLink& link : cluster.links) {
    out += fmt::format("  - between: [{}, {}]\n", names[static_cast<std::size_t>(link.one)],
                       names[static_cast<std::size_t>(link.other)]);
    keys(link.tier, "    ");
  }
  return out;
}

}  // namespace plan
