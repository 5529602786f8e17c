// From what was asked for to GPUs and the network between them. Tested by tests/cli/resolve_test.cpp, of pools by
// tests/cli/pools_test.cpp, of slices by tests/cli/slices_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "cli/launch/scripts/other_hardware.hpp"
#include "cli/request/draft.hpp"
#include "cli/request/words/layout_flag.hpp"
#include "cli/request/words/layout_spacing.hpp"
#include "cli/terminal/format.hpp"
#include "formulas/torus.hpp"
#include "planner/problem/axes.hpp"
#include "presets/quantity.hpp"
#include "presets/store.hpp"

namespace plan {
namespace {

constexpr const char* kDefaultCluster = "dgx-h100";

/// What makes up a number of chips, for who asked for one that no slice has.
std::string possible_chips(const SliceRules& rules, int chips) {
  const NearChips near = near_chips(rules, chips);
  const auto text = [&](int n) {
    const SliceShape shape = *slices_of(rules, n);
    const int count = n / chips_of(shape);
    return fmt::format("{} ({}{})", n, count > 1 ? fmt::format("{} slices of ", count) : "", slice_text(shape));
  };
  std::string out;
  for (const int n : {near.fewer, near.more})
    if (n > 0) out += (out.empty() ? "" : " or ") + text(n);
  return out;
}

void refuse_slice(Draft& draft, std::string what, std::string help, std::initializer_list<std::string_view> keys) {
  draft.refuse({"no_such_slice", std::move(what), {}, {std::move(help)}}, keys);
}

}  // namespace

void missing(Draft& draft, std::string_view key, const char* example) {
  if (draft.asked.find(key) != nullptr) return;
  draft.errors.push_back(
      {"missing_flag", fmt::format("`--{}` is missing", key), {}, {fmt::format("write `--{} {}`", key, example)}});
}

void resolve_gpus(Draft& draft) {
  if (!draft.request.gpus) {
    const int each = draft.request.files ? draft.request.files->gpus_per_node : 0;
    missing(draft, "gpus", "16384");
    if (each > 0 && draft.asked.find("gpus") == nullptr)
      draft.errors.back().help = {fmt::format(
          "the files start {} on each node, but not on how many: for one node write `--gpus {}`", each, each)};
    return;
  }
  draft.problem.gpus = draft.request.gpus->value;
  draft.problem.inputs.push_back(draft.request.gpus->input);
  if (!draft.request.spares) return;
  if (draft.request.spares->value >= draft.problem.gpus)
    return draft.errors.push_back(
        {"out_of_range",
         fmt::format("{} of {} GPUs are held back, and none is left", draft.request.spares->value, draft.problem.gpus),
         {},
         {"give more with `--gpus`, or fewer with `--spares`"}});
  draft.problem.gpus -= draft.request.spares->value;
  draft.problem.inputs.push_back(draft.request.spares->input);
}

void resolve_cluster(Draft& draft) {
  const Request& request = draft.request;
  if (request.cluster) {
    draft.problem.cluster = request.cluster->value;
    draft.problem.inputs.push_back(request.cluster->input);
    draft.problem.inputs.push_back(request.gpu);
    return;
  }
  for (const char* key : {"profile", "cluster", "gpu"})
    if (draft.asked.find(key) != nullptr) return;  // it could not be read
  if (request.files && !request.files->hardware.empty())
    return draft.errors.push_back(
        {"missing_flag",
         fmt::format("the files are for {}, and nothing names a preset", request.files->hardware),
         {},
         {help_with_hardware(request.files->hardware)}});
  Result<Found<Cluster>> found = load_cluster(kDefaultCluster, StoreOptions::from_environment());
  if (!found) return draft.refuse_all(found.error(), {});
  draft.problem.cluster = std::move(found->value);
  draft.assume("cluster", draft.problem.cluster.name, Origin::Default, found->origin);
  draft.problem.inputs.back().digest = found->digest;
  draft.assume("gpu", draft.problem.cluster.gpu.name, Origin::Preset, found->origin, false);
}

/// The slice that somebody states, by name or as a mesh inside it; else the one of so many chips.
void resolve_slice(Draft& draft) {
  Problem& problem = draft.problem;
  const Gpu& gpu = problem.cluster.gpu;
  const auto& asked = draft.request.slice;
  if (problem.cluster.tiers.empty() || problem.gpus == 0) return;
  const Torus& own = problem.cluster.tiers.front().torus;
  if (!own.any()) {
    if (asked)
      draft.refuse({"conflicting_flags",
                    fmt::format("`--slice` shapes a torus, and {} has none", problem.cluster.name),
                    {},
                    {"leave it out, or name a TPU with `--gpu`"}},
                   {"slice"});
    return;
  }
  if (asked) {
    const int chips = chips_of(asked->value);
    if (gpu.slices.any() && !exists(gpu.slices, asked->value))
      return refuse_slice(draft, fmt::format("{} has no slice of {}", gpu.name, slice_text(asked->value)),
                          fmt::format("take {}", possible_chips(gpu.slices, chips)), {"slice"});
    if (problem.gpus % chips != 0)
      return refuse_slice(draft,
                          fmt::format("{} chips are not whole slices of {}, {} chips each", problem.gpus,
                                      slice_text(asked->value), chips),
                          fmt::format("give a multiple of {} with `--gpus`", chips), {"gpus", "slice"});
    put_on_slices(problem.cluster, asked->value);
    problem.inputs.push_back(asked->input);
    return;
  }
  if (draft.asked.find("cluster") != nullptr || draft.asked.find("profile") != nullptr) return;  // it states its own
  const int inside = draft.request.files ? draft.request.files->slice_gpus : 0;
  const std::optional<SliceShape> shape =
      inside > 0 ? slice_of(gpu.slices, inside) : slices_of(gpu.slices, problem.gpus);
  if (const int chips = inside > 0 ? inside : problem.gpus; !shape)
    return refuse_slice(
        draft, fmt::format("no slice of {} has {} chip{}", gpu.name, chips, chips == 1 ? "" : "s"),
        fmt::format("take {}, or state the shape of each slice with `--slice`", possible_chips(gpu.slices, chips)),
        {"gpus"});
  put_on_slices(problem.cluster, *shape);
  draft.assume("slice", slice_text(*shape), Origin::Default, fmt::format("the slice of {} chips", chips_of(*shape)),
               false);
}

namespace {

/// The first tier that carries a job from one node to another; null if the job lies inside one, or nobody states a
/// network between nodes.
const Tier* tier_between_nodes(const Cluster& cluster, int gpus) {
  for (std::size_t i = 1; i < cluster.tiers.size(); ++i) {
    const Tier& tier = cluster.tiers[i];
    if (tier.size > cluster.gpus_per_node && tier.provenance != Provenance::Assumed)
      return gpus > std::max(cluster.gpus_per_node, cluster.tiers[i - 1].size) ? &tier : nullptr;
  }
  return nullptr;
}

/// Nodes without an adapter meet over no network.
void judge_adapters(Draft& draft, const Cluster& cluster) {
  const Tier* tier = cluster.nics_per_node == 0 ? tier_between_nodes(cluster, draft.problem.gpus) : nullptr;
  if (tier != nullptr)
    draft.refuse(
        {"conflict",
         fmt::format("`nics_per_node` of {} is 0, and tier `{}` joins nodes at {} for {} GPUs", cluster.name,
                     tier->name, format_quantity(tier->bandwidth.value, Dimension::ByteRate), draft.problem.gpus),
         {},
         {"write in its file how many adapters a node has, or leave it out: one for each GPU"}},
        {"cluster"});
}

}  // namespace

/// A network that ends before the job does joins nothing beyond: the outermost tier has to hold all GPUs. And nodes
/// need adapters to meet.
void resolve_reach(Draft& draft) {
  if (draft.problem.pools.empty()) judge_adapters(draft, draft.problem.cluster);
  for (const Pool& pool : draft.problem.pools) judge_adapters(draft, pool.cluster);
  const Cluster& cluster = draft.problem.cluster;
  if (cluster.tiers.empty() || draft.request.pools || draft.problem.gpus <= cluster.tiers.back().size) return;
  const Tier& outermost = cluster.tiers.back();
  draft.refuse({"cluster_too_small",
                fmt::format("{} GPUs are more than {} joins: its outermost tier `{}` holds {}", draft.problem.gpus,
                            cluster.name, outermost.name, outermost.size),
                {},
                {fmt::format("take at most {} GPUs, or state the network around them: one more tier with `size: all`",
                             outermost.size)}},
               {"gpus", "cluster"});
}

/// Several kinds of GPU, and the axes of each.
void resolve_pools(Draft& draft) {
  const Request& request = draft.request;
  const auto refuse = [&](std::string text, std::string help, std::string_view key) {
    draft.refuse({"conflicting_flags", std::move(text), {}, {std::move(help)}}, {key});
  };
  if (request.pools) {
    const char* word = draft.asked.find("cluster") != nullptr ? "cluster" : "gpus";
    const bool in_words = request.pools->by_person, in_file = word == std::string_view("cluster");
    draft.problem.pools = request.pools->value.pools;
    draft.problem.pool_links = request.pools->value.links;
    draft.problem.inputs.push_back(request.pools->input);
    if (!request.pools->value.joined())
      draft.assume("link", format_quantity(draft.problem.cluster.tiers.back().bandwidth.value, Dimension::ByteRate),
                   Origin::Default);
    if (!draft.asked.takes_pools)
      refuse(
          fmt::format("{} several kinds of GPU, which `plan`, `plan estimate`, `plan emit` and `plan check` alone take",
                      in_words ? fmt::format("`--{}` names", word) : "the launch files are for"),
          in_file ? "name a cluster of one kind" : "name one kind: `--gpus 64xh100-sxm`", word);
    if (request.spares) refuse("`--spares` does not say of which kind of GPU", "leave `--spares` out", "spares");
    if (draft.asked.pareto) refuse("`--pareto` has no front for several kinds of GPU", "leave `--pareto` out", "gpus");
    if (draft.asked.per_stage)
      refuse("`--per-stage` looks at stages on one kind of GPU", "leave `--per-stage` out", "gpus");
  }
  if (!request.pool_layouts) return;
  draft.problem.pool_fixed = request.pool_layouts->value;
  draft.problem.mesh_per_pool = request.files && !request.files->meshes.empty();
  if (request.layout)
    each_axis([&](const auto& axis) {
      const auto states = [&](const Fixed& own) { return (own.*axis.fixed).has_value(); };
      if (states(request.layout->value) &&
          std::any_of(draft.problem.pool_fixed.begin(), draft.problem.pool_fixed.end(), states))
        refuse(fmt::format("`--layout` states {} for all, and the files state it for each process mesh", axis.key),
               "leave it out, or change the files", "layout");
    });
  draft.problem.inputs.push_back(request.pool_layouts->input);
  const std::size_t parts = draft.problem.pool_fixed.size(), pools = draft.problem.pools.size();
  if (pools == 0) {
    const std::string commas = between_commas(request.pool_layouts->input.value);
    refuse("`/` in `--layout` comes between the axes of several kinds of GPU, and there is one",
           read_layout(commas) ? fmt::format("write `--layout {}`", commas)
                               : "name them: `--gpus 64xa100-sxm-80gb,64xh100-sxm`",
           "layout");
  } else if (parts != pools) {
    refuse(fmt::format("`--layout` has axes for {} kinds of GPU, and `--gpus` names {}", parts, pools),
           "write the axes of each, in the same order, with `/` between them", "layout");
  }
}

namespace {

/// Are nodes joined as in another cluster?
bool same_links(const Cluster& a, const Cluster& b) {
  return a.gpus_per_node == b.gpus_per_node &&
         std::equal(a.tiers.begin(), a.tiers.end(), b.tiers.begin(), b.tiers.end(),
                    [](const Tier& x, const Tier& y) { return x.size == y.size && x.bandwidth == y.bandwidth; });
}

/// The cluster preset whose nodes are those that a GPU alone is priced in; of several the one with the least memory.
std::optional<Cluster> preset_of_nodes(const Cluster& cluster) {
  std::optional<Cluster> found;
  const StoreOptions store = StoreOptions::from_environment();
  for (const PresetEntry& entry : list_presets(PresetKind::Cluster, store)) {
    if (entry.text.find("gpu: " + cluster.gpu.name) == std::string::npos) continue;  // sooner than it is read
    Result<Cluster> preset = parse_cluster(entry, store);
    if (!preset || preset->gpu.name != cluster.gpu.name || !same_links(*preset, cluster)) continue;
    if (preset->host_memory > Bytes() && (!found || preset->host_memory < found->host_memory))
      found = *std::move(preset);
  }
  return found;
}

/// Of who names a GPU: the memory that its nodes have in the cluster preset that they are of.
void assume_hosts(Draft& draft) {
  Cluster& cluster = draft.problem.cluster;
  if (cluster.host_memory > Bytes() || cluster.name != cluster.gpu.name || !draft.problem.pools.empty()) return;
  const std::optional<Cluster> preset = preset_of_nodes(cluster);
  if (!preset) return;
  cluster.host_memory = preset->host_memory;
  draft.assume("host_memory", format_quantity(static_cast<double>(preset->host_memory.value), Dimension::Bytes),
               Origin::Preset, preset->name, false);
}

}  // namespace

void resolve_hosts(Draft& draft) {
  const auto& stated = draft.request.host_memory;
  if (!stated) return assume_hosts(draft);
  draft.problem.cluster.host_memory = stated->value;
  for (Pool& pool : draft.problem.pools) pool.cluster.host_memory = stated->value;
  draft.problem.inputs.push_back(stated->input);
}

}  // namespace plan
