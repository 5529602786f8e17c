// Ranks of a layout and the groups that they form: the head of rank_grid.hpp says how ranks are numbered, and whose
// numbering that is. Tested by tests/formulas/rank_grid_test.cpp.
#include "formulas/rank_grid.hpp"

#include <algorithm>
#include <numeric>

namespace plan {

Group Replicas::some(int count, int step) const {
  if (rows == 1) return {count, stride * step};
  if (row == 1) return {count, pitch * step};
  if (step % row == 0) return {count, pitch * (step / row)};
  // Members of the group in each row, if the steps cut every row the same way.
  const int of_row = row % step == 0 ? row / step : 1;
  if (count <= of_row) return {count, stride * step};
  const int near = std::gcd(count, of_row);
  const std::int64_t last = static_cast<std::int64_t>(count) * step;
  return {count, stride * step, static_cast<int>((last + row - 1) / row) * pitch, near};
}

RankGrid::RankGrid(const Layout& l)
    : tp_(l.tp),
      cp_(l.cp),
      dp_(l.dp),
      pp_(l.pp),
      world_(l.world()),
      stage_stride_(l.order == AxisOrder::DataOutermost ? l.tp * l.cp : l.tp * l.cp * l.dp) {
  const int inside = l.tp * l.cp, experts = l.etp * l.ep;
  if (l.order == AxisOrder::DataOutermost && l.pp > 1) {
    dense_ = {l.cp, l.tp, l.dp, inside * l.pp};
    expert_ = {1, 1, l.expert_dp(), experts * l.pp};
  } else {
    dense_ = {l.dense_group(), l.tp, 1, inside};
    expert_ = {l.expert_dp(), experts, 1, experts};
  }
}

RankPlace RankGrid::place(int rank) const {
  const int inside = tp_ * cp_, stage = rank / stage_stride_ % pp_;
  const int copy = stage_stride_ == inside ? rank / pipeline_span() : rank / inside % dp_;
  return {rank % tp_, rank / tp_ % cp_, copy, stage};
}

Group RankGrid::stage() const {
  const int inside = tp_ * cp_, ranks = inside * dp_;
  if (stage_stride_ == ranks || pp_ == 1) return {ranks, 1};
  return Replicas{inside, 1, dp_, pipeline_span()}.some(ranks);
}

Group RankGrid::with_opposite(Group group) const {
  const int span = pipeline_span();
  if (group.span > 0) return {2 * group.size, group.stride, group.span, group.row};
  if (group.stride >= span) return {2 * group.size, 1, group.size * group.stride, 1};  // one rank of each pipeline
  return {2 * group.size, group.stride, span, group.size};
}

bool RankGrid::crosses(int tier_size, int a, int b) const {
  const std::int64_t tier = std::max(1, tier_size), stride = stage_stride_, span = pipeline_span();
  if (tier >= world_ || a == b) return false;
  const std::int64_t first = std::min(a, b), last = std::max(a, b);
  // Where the job does not fill the instances of a tier, its scheduler cuts no block that fits into one.
  if (world_ % tier != 0) {
    const std::int64_t stages = std::max<std::int64_t>(1, tier / stride);
    return first / stages != last / stages;
  }
  if (tier % span == 0) return false;
  // The places where a pipeline can begin in an instance come again after so many pipelines.
  const std::int64_t pipelines = std::min(world_ / span, tier / std::gcd(tier, span));
  for (std::int64_t i = 0; i < pipelines; ++i) {
    const std::int64_t from = i * span + first * stride, to = i * span + (last + 1) * stride - 1;
    if (from / tier != to / tier) return true;
  }
  return false;
}

std::vector<std::size_t> hop_tiers(const Cluster& cluster, const Layout& layout) {
  const RankGrid grid(layout);
  std::vector<std::size_t> tiers(static_cast<std::size_t>(layout.pp), 0);
  const std::size_t known = std::max<std::size_t>(1, cluster.tiers.size());
  for (int stage = 0; stage < layout.pp; ++stage) {
    std::size_t& tier = tiers[static_cast<std::size_t>(stage)];
    const auto size = [&](std::size_t i) { return i == 0 ? cluster.scale_up_size() : cluster.tiers[i].size; };
    while (tier < known && grid.crosses(size(tier), stage, (stage + 1) % layout.pp)) ++tier;
  }
  return tiers;
}

bool order_matters(const Cluster& cluster, const Layout& layout) {
  if (layout.pp == 1 || layout.dp == 1) return false;
  const auto between = [&](int size) { return size > layout.tp * layout.cp && size < layout.world(); };
  return between(cluster.scale_up_size()) ||
         std::any_of(cluster.tiers.begin(), cluster.tiers.end(), [&](const Tier& tier) { return between(tier.size); });
}

}  // namespace plan
