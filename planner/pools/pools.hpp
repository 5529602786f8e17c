#pragma once

// Jobs on several kinds of GPU. The pipeline's stages lie on pools, one run of neighbouring stages on each; tensor,
// context, expert and data parallel groups stay inside a pool, so that only hand-overs between stages (and the gradient
// of a table of embeddings that both ends of the pipeline hold) cross from one pool to another.
//
// Assumptions: all pools take as many micro-batches in a step, so dp x micro_batch is the same on all of them; a
// hand-over between pools moves what the wider of both sides sends, over the link between the pools.

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "formulas/result.hpp"
#include "planner/answer/plan.hpp"
#include "planner/cost/cost.hpp"
#include "planner/estimate/evaluate.hpp"
#include "planner/memory/memory.hpp"
#include "planner/problem/problem.hpp"
#include "planner/search/ranking.hpp"

namespace plan {

/// Neighbouring stages on one pool. `layout` is the run's own: `pp` counts its stages, `chunk_layers` their layers, and
/// tp * cp * pp * dp is the pool's GPUs.
struct PooledRun {
  int pool = 0;
  Layout layout{};
  bool operator==(const PooledRun&) const = default;
};

/// Runs of stages, front to back. All have the same schedule and number of micro-batches.
struct PooledLayout {
  std::vector<PooledRun> runs{};
  [[nodiscard]] int stages() const;
  /// Layers of every stage of the whole pipeline.
  [[nodiscard]] std::vector<int> layers() const;
  bool operator==(const PooledLayout&) const = default;
};

/// All pools as one cluster: rates and prices are means over GPUs, limits the least of any, and its one network is the
/// link between pools: the given one, or else the slowest outermost network of theirs.
[[nodiscard]] Cluster joined(std::span<const Pool> pools, const std::optional<Tier>& link);

/// The pool by itself: its cluster, its GPUs, its axes.
[[nodiscard]] Problem pool_alone(const Problem& problem, int pool);

/// The layout of all runs as one, where they differ in their layers alone: what a framework runs that knows nothing of
/// pools. Nothing if they differ in more.
[[nodiscard]] std::optional<Layout> as_one(const PooledLayout& layout);
/// The layouts of the runs, front to back.
[[nodiscard]] std::vector<Layout> layouts_of(const PooledLayout& layout);
/// The layout that a report shows.
[[nodiscard]] PooledLayout pooled_layout(const Estimate& estimate);

/// Can each run be a process mesh of FlagScale's? Meshes differ in tp, dp, micro-batch and stages; context and expert
/// parallelism, recomputation and sharding are one for all, under 1f1b without FSDP (FlagScale, train/arguments.py).
[[nodiscard]] bool suits_meshes(const std::vector<Layout>& runs);

/// Frameworks of the list that run it: those that run the runs as one layout, on GPUs that one library connects.
[[nodiscard]] std::vector<Framework> frameworks_that_run(const Problem& problem, const PooledLayout& layout);

/// What costs and memory depend on, by pool and split: computed once, shared by all layouts of a problem.
class PoolModels {
 public:
  explicit PoolModels(const Problem& problem);
  /// The job on the pool's cluster, all GPUs counted.
  const Problem& problem(int pool) const { return problems_[static_cast<std::size_t>(pool)]; }
  const CostModel& costs(int pool, const Layout& layout);
  /// `stages` of the whole pipeline.
  const MemoryModel& memory(int pool, const Layout& layout, int stages);
  /// The runs as the evaluator takes them, with the layers of the whole pipeline in each.
  std::vector<Cell> cells(const PooledLayout& layout);
  /// Hand-overs between neighbouring stages.
  Hops hops(const PooledLayout& layout);
  const Problem& whole() const { return whole_; }
  /// The whole problem with the network between two pools as its own.
  const Problem& joined_by(int one, int other);

 private:
  const Problem& whole_;
  std::vector<Problem> problems_{};
  std::map<std::pair<int, Split>, std::unique_ptr<CostModel>> costs_{};
  using MemoryKey = std::tuple<int, Split, int, RecomputeKind, int, int, int>;
  std::map<MemoryKey, std::unique_ptr<MemoryModel>> memory_{};
  std::vector<std::unique_ptr<Problem>> linked_{};  ///< by Problem::pool_links
};

/// Time and memory of layouts that differ in their layers alone.
class PooledEvaluator {
 public:
  PooledEvaluator(PoolModels& models, const PooledLayout& layout);
  /// Step time and the fullest stage's memory. `capacity`, by run: what a stage may take; nothing if one takes
  /// more.
  [[nodiscard]] std::optional<Score> score(const std::vector<int>& layers, std::span<const RealBytes> capacity);
  /// Everything that a report shows.
  [[nodiscard]] Estimate estimate(const PooledLayout& layout);

  // What a split of the layers is weighed by.
  [[nodiscard]] int stages() const { return static_cast<int>(run_of_.size()); }
  [[nodiscard]] int run_of(int stage) const { return run_of_[static_cast<std::size_t>(stage)]; }
  /// Time of one micro-batch through layers `first` to `last` (excluded) on a stage.
  [[nodiscard]] Seconds work(int stage, int first, int last) const;
  /// What a step takes at least with so many layers a stage: no stage begins before those in front of it are
  /// through with a micro-batch, both ways.
  [[nodiscard]] Seconds least_step(const std::vector<int>& layers) const;
  /// Memory of that stage.
  [[nodiscard]] Bytes memory(int stage, int first, int last) const;

 private:
  void prepare_work();

  PoolModels& models_;
  const Problem& whole_;  ///< joined by the link between both ends of the pipeline
  std::vector<Cell> cells_;
  Hops hops_;
  Pipeline pipeline_{};
  std::vector<int> run_of_{};                  ///< by stage
  std::vector<std::vector<Seconds>> up_to_{};  ///< by run: the first layers together
  std::vector<Seconds> embedding_{}, head_{};  ///< by run
  std::vector<StageContent> content_up_to_{};
};

/// Time and memory of one layout over several kinds of GPU; throughput and cost are those of all GPUs together.
[[nodiscard]] Estimate estimate(PoolModels& models, const PooledLayout& layout);

/// Layers of each stage that make the step shortest, with what it scores; nothing if no split fits. Every split is
/// tried where there are at most kMostSplits; else the shortest bottleneck is improved by moving single layers, which
/// may miss the best.
struct FoundSplit {
  std::vector<int> layers{};
  Score score{};
};
inline constexpr double kMostSplits = 400;
/// `beat`: a step that is known already; splits that cannot be shorter are not looked at.
[[nodiscard]] std::optional<FoundSplit> best_split(PoolModels& models, const PooledLayout& layout,
                                                   std::span<const RealBytes> capacity,
                                                   Seconds beat = Seconds::infinity());

/// Fixed axes that no pipeline over pools can have. `places_layers`: the layers of each pool are searched.
[[nodiscard]] std::optional<Error> unsuited_words(const Problem& problem, bool places_layers);

/// Why the pools cannot run a layout; nothing if they can.
[[nodiscard]] std::optional<std::string> broken_text(const Problem& problem, const PooledLayout& layout);

/// The layout that the fixed axes describe: each pool one stage unless its pp is fixed, in the order in which pools are
/// named, layers where they take the least time.
[[nodiscard]] Result<PooledLayout> complete_pooled(const Problem& problem);

/// The report of that layout, whether or not it fits.
[[nodiscard]] Result<Plan> plan_pooled(const Problem& problem);

/// The best layout over all pools, in any order of them, and each pool alone beside it.
[[nodiscard]] Result<Plan> search_pooled(const Problem& problem);

/// The same before the reports: the fastest that a framework runs, and the fastest of all.
struct PooledCandidate {
  PooledLayout layout{};
  Score score{};
};
struct PooledSearch {
  std::optional<PooledCandidate> runs{}, paper{};
  bool at_risk = false;
  SearchStats stats{};
};
/// `bounds` off evaluates everything.
[[nodiscard]] PooledSearch find_pooled(PoolModels& models, bool bounds = true);

/// What the search chooses from: strategies of a pool's run, ways to recompute and to shard. Shared with its oracle.
[[nodiscard]] std::vector<Layout> run_choices(const Problem& problem, int pool);
[[nodiscard]] std::vector<Recompute> pooled_recomputes(const Problem& problem, int pool);

/// Strict order, the same however the pools are numbered.
[[nodiscard]] bool better(const Problem& problem, const PooledCandidate& a, const PooledCandidate& b);

}  // namespace plan
