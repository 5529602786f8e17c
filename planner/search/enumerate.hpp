#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "planner/answer/plan.hpp"
#include "planner/problem/problem.hpp"
#include "planner/rules/rules.hpp"

namespace plan {

/// Layouts that share tp, cp, pp, dp, ep, etp, micro_batch and the kind of cp: what is left to choose is
/// the schedule, the sharding and the recomputation.
struct Family {
  Layout layout{};  ///< with the axes above set
};

/// How a family can run: one entry per legal (schedule, vp, group, order).
struct Pipelining {
  Schedule schedule = Schedule::OneFOneB;
  int vp = 1;
  AxisOrder order = AxisOrder::PipelineOutermost;
  int group = 0;
};
/// One entry per legal (zero, shard).
struct Sharding {
  int zero = 1;
  int shard = 0;
  bool operator==(const Sharding&) const = default;
};

/// Tokens of the largest micro-batch that is tried where nobody fixes one: they keep any GPU busy. Up to it every
/// divisor of a replica's sequences is tried, but in a pipeline, which many small ones fill best, only powers of two,
/// and of sequences that kMostOfAny does not divide every one up to it.
inline constexpr std::int64_t kMostTokens = 128 * 1024;
inline constexpr int kMostOfAny = 8;

/// The orders of its axes that a layout may have: the one that was fixed; else the usual one first, and the other where
/// the cluster and some framework tell them apart.
[[nodiscard]] std::vector<AxisOrder> order_choices(const Problem& problem, const Layout& family);

/// Counts layouts by the first rule they break.
class Tally {
 public:
  void reject(int rule, std::int64_t layouts);
  /// Takes what the other rejected, so many times.
  void merge(const Tally& other, std::int64_t times = 1);
  std::int64_t total() const;
  /// In the order of the rules.
  std::vector<Rejected> rows() const;

 private:
  std::vector<std::pair<int, std::int64_t>> by_rule_{};  ///< of the few that rejected something
};

/// How many layouts share some outer axes, whatever rules say of the inner ones: what one rejection rules out.
class InnerSpace {
 public:
  explicit InnerSpace(const Problem& problem);
  /// `layout` is fixed up to and at `level`.
  std::int64_t size(const Layout& layout, Level level);
  /// What is tried of an outer axis on a grid.
  const std::vector<int>& values(std::size_t outer_axis, const Layout& grid);

 private:
  std::int64_t recomputes(const Layout& run);
  std::int64_t shardings(const Layout& run);
  std::int64_t runs(const Layout& family);
  std::int64_t contexts(int cp);

  const Problem& problem_;
  std::map<int, std::int64_t> recomputes_{}, shardings_{}, runs_{};  ///< by deepest stage, dense group, pp
  std::map<int, std::int64_t> contexts_{};                           ///< by cp
  std::vector<std::map<int, std::vector<int>>> values_{};            ///< of each outer axis, by what they depend on
};

/// Every family of the problem that the rules allow, in a fixed order. What a rule rejects counts as all the layouts
/// that differ from it in the inner axes alone.
[[nodiscard]] std::vector<Family> enumerate_families(const Problem& problem, Tally& tally);

/// The same one by one, until `visit` says that it has seen enough or `most` grids of (tp, cp, pp) were looked at.
/// Returns how many were.
std::int64_t visit_families(const Problem& problem, Tally& tally, std::int64_t most,
                            const std::function<bool(const Family&)>& visit);

/// The family's layout run so, with the layers of the chunks that the user fixed.
[[nodiscard]] Layout run_of(const Problem& problem, const Layout& family, const Pipelining& run);

/// Inner choices of a family, and of one of its runs; illegal ones are tallied as families are.
[[nodiscard]] std::vector<Pipelining> enumerate_runs(const Problem& problem, const Layout& family, Tally& tally,
                                                     InnerSpace& inner);
[[nodiscard]] std::vector<Sharding> enumerate_shardings(const Problem& problem, const Layout& run, Tally& tally,
                                                        InnerSpace& inner);
/// Both for who asks about one family only, without an InnerSpace to keep what families share.
[[nodiscard]] std::vector<Pipelining> enumerate_runs(const Problem& problem, const Layout& family, Tally& tally);
[[nodiscard]] std::vector<Sharding> enumerate_shardings(const Problem& problem, const Layout& run, Tally& tally);

/// Index of the first rule that recomputing so breaks, or -1.
[[nodiscard]] int broken_rule(const Problem& problem, const Recompute& recompute);

/// Layers that some rank has at least, however they are split: recomputing blocks of fewer is a choice of
/// its own.
[[nodiscard]] int least_deepest(const Problem& problem, const Layout& run);
/// Ways to recompute a stage of `stage_layers` layers: nothing, modules, blocks from small to large, everything layer
/// by layer, everything with ever more layers rebuilt together.
[[nodiscard]] std::vector<Recompute> enumerate_recomputes(const Problem& problem, int stage_layers);

}  // namespace plan
