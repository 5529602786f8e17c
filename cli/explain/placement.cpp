// Which rank runs where, and which tiers of the network each axis crosses. Tested by tests/cli/explain_test.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "cli/explain/parts.hpp"
#include "cli/explain/terms.hpp"
#include "formulas/efficiency.hpp"
#include "formulas/names.hpp"
#include "formulas/rank_grid.hpp"
#include "formulas/torus.hpp"

namespace plan {
namespace {

constexpr int kDrawnInstances = 8;  // of the innermost tier; of each further one half as many

/// The first and last of an axis' ranks in a block.
struct Extent {
  int first = 0, last = -1;
  void take(int at) { first = last < 0 ? at : std::min(first, at), last = std::max(last, at); }
  std::string text(const char* axis) const {
    return first == last ? fmt::format("{} {}", axis, first) : fmt::format("{} {}-{}", axis, first, last);
  }
};

/// What runs on the GPUs of one instance of a tier.
DrawnRow instance_row(const Tier& tier, int index, const RankGrid& grid, int world) {
  const int from = index * tier.size, to = std::min(world, from + tier.size);
  Extent tp, cp, dp, pp;
  DrawnRow row;
  int begin = from;
  const auto block = [&](int end) {
    const RankPlace at = grid.place(begin);
    row.blocks.push_back({fmt::format("ranks {}-{}: pp {} dp {}", begin, end - 1, at.pp, at.dp), at.pp % 10,
                          static_cast<double>(end - begin) / tier.size});
    begin = end;
  };
  for (int rank = from; rank < to; ++rank) {
    const RankPlace at = grid.place(rank), before = grid.place(begin);
    if (at.pp != before.pp || at.dp != before.dp) block(rank);
    tp.take(at.tp), cp.take(at.cp), dp.take(at.dp), pp.take(at.pp);
  }
  block(to);
  row.words = fmt::format("{} {:<3} ranks {:>6}-{:<6} {}  {}  {}  {}", tier.name, index, from, to - 1, tp.text("tp"),
                          cp.text("cp"), dp.text("dp"), pp.text("pp"));
  constexpr std::size_t kMostBlocks = 256;
  if (row.blocks.size() > kMostBlocks) row.blocks.clear();
  return row;
}

/// "16 ranks, 8 apart, on pod: 1 on each nvlink".
std::string group_words(const Cluster& cluster, const char* what, const Group& group) {
  std::string text = fmt::format("{}: {} ranks, {} apart", what, group.size, group.stride);
  if (group.span > 0) text += fmt::format(", {} rows of {}", group.size / group.row, group.row);
  text += fmt::format("; all on {}", group_tier(cluster, group).name);
  for (const Tier& tier : cluster.tiers)
    if (group.inside(tier.size) < group.size)
      text += fmt::format(", {} on {} {}", group.inside(tier.size), group.straddles(tier.size) ? "some" : "each",
                          tier.name);
  if (!cluster.tiers.empty() && cluster.tiers.front().torus.any())
    if (const Torus& torus = cluster.tiers.front().torus; group.inside(torus.chips()) > 1)
      text += "; " + placement_text(torus, torus_group(torus, group.inside(torus.chips()), group.stride));
  return text;
}

/// "2 slices of 12x16x16: axis 0 of 12 (ring), ...; 45 GB/s a link and direction".
std::string slice_note(const Tier& tier, int world) {
  const Torus& torus = tier.torus;
  const int slices = (world + torus.chips() - 1) / torus.chips();
  std::string text = fmt::format("{} {} of {}:", slices, slices == 1 ? "slice" : "slices", slice_text(torus.shape()));
  for (std::size_t i = 0; i < torus.axes.size(); ++i)
    if (torus.axes[i].size > 1)
      text += fmt::format(" axis {} of {} ({}),", i, torus.axes[i].size, torus.axes[i].wraps ? "ring" : "line");
  return text + fmt::format(" {:.4g} GB/s a link and direction", torus.link.value / 1e9);
}

/// "pp: 15 hand-overs: 10 across pod, 5 across aggregation".
std::string hop_words(const Cluster& cluster, const Layout& layout) {
  const std::vector<std::size_t> tiers = hop_tiers(cluster, layout);
  std::string text;
  for (std::size_t tier = 0; tier <= cluster.tiers.size(); ++tier) {
    const auto count = std::count(tiers.begin(), tiers.end() - 1, tier);
    if (count == 0) continue;
    const bool known = tier < cluster.tiers.size();
    text += fmt::format("{}{} on {}", text.empty() ? "" : ", ", count, known ? cluster.tiers[tier].name : "network");
  }
  const std::size_t back = tiers.back();
  if (layout.vp > 1 && !v_shaped(layout.schedule) && back < cluster.tiers.size())
    text += fmt::format("; from the last stage back to the first on {}", cluster.tiers[back].name);
  return fmt::format("pp: hand-overs between {} stages: {}", layout.pp, text);
}

}  // namespace

Result<Explanation> explain_placement(const Plan& plan, int) {
  const Layout& l = plan.best.layout;
  const Cluster& cluster = plan.problem.cluster;
  const RankGrid grid(l);
  const bool outside = grid.stage_stride() == l.tp * l.cp;
  std::vector<ExplainedSymbol> symbols{{"tp", static_cast<double>(l.tp), "neighbours in rank order", "layout"},
                                       {"cp", static_cast<double>(l.cp), "next", "layout"}};
  if (!outside) symbols.push_back({"dp", static_cast<double>(l.dp), "inside the pipeline", "layout"});
  Explanation out = explained(fmt::format("ranks from each stage to the next, in the order {}", name(l.order)),
                              outside ? "tp*cp" : "tp*cp*dp", grid.stage_stride(), "ranks", std::move(symbols),
                              "rank r on GPU r; plan-launch(7), rank order");
  for (std::size_t i = 0; i < cluster.tiers.size(); ++i) {
    const Tier& tier = cluster.tiers[i];
    if (i > 0 && tier.size >= l.world()) break;
    const int all = static_cast<int>((std::int64_t{l.world()} + tier.size - 1) / tier.size);
    const int most = i == 0 ? kDrawnInstances : kDrawnInstances / 2;
    for (int index = 0; index < std::min(all, most); ++index)
      out.drawing.push_back(instance_row(tier, index, grid, l.world()));
    if (all > most) out.drawing.push_back({fmt::format("... {} more of {}", all - most, tier.name), {}});
  }
  if (!cluster.tiers.empty() && cluster.tiers.front().torus.any())
    out.notes.push_back(slice_note(cluster.tiers.front(), l.world()));
  const auto add = [&](const char* what, const Group& group) {
    if (group.size > 1) out.notes.push_back(group_words(cluster, what, group));
  };
  add("tp", tensor_group(l.tp, l.world()));
  add("cp", context_group(l.cp, l.tp, 1, l.world()));
  if (plan.problem.model.moe()) {
    add("etp", expert_tensor_group(l.etp, l.world()));
    add("ep", expert_group(l.ep, l.etp, l.world()));
    add("copies of an expert", grid.expert().some(grid.expert().size()));
  }
  if (l.pp > 1) out.notes.push_back(hop_words(cluster, l));
  add(l.cp > 1 ? "dp with cp" : "dp", grid.dense().some(l.dense_group()));
  return out;
}

}  // namespace plan
