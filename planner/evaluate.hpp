#pragma once

#include <span>
#include <vector>

#include "formulas/schedule.hpp"
#include "planner/cost.hpp"
#include "planner/estimate.hpp"
#include "planner/memory.hpp"
#include "planner/problem.hpp"
#include "planner/stages.hpp"

namespace plan {

/// Time of one rank content for one micro-batch.
struct StageCost {
  Phase forward{}, backward_input{}, backward_weight{}, recompute{};
  double paired_ep = 0;
  double backward() const { return backward_input.total() + backward_weight.total() + recompute.total(); }
  double total() const { return forward.total() + backward(); }
};

/// Data-parallel work of one rank content, seconds per step.
struct DataParallel {
  double reduce = 0;     ///< gradient reduction, all of it once
  double gather = 0;     ///< parameter gathering, all of it once
  double optimizer = 0;  ///< the optimizer step
};

/// Evaluates layouts that share a split, in the order in which a search chooses: first where the layers
/// stand, then what is recomputed, then how states are sharded. Each step reuses the ones before it.
/// Holds scratch space: one per thread.
class Evaluator {
 public:
  Evaluator(const Problem& problem, const CostModel& costs) : problem_(problem), costs_(costs) {}

  /// Fixes pp, vp, schedule, dp and the placement of layers; nothing recomputed yet.
  void place(const Layout& layout);
  const Stages& stages() const { return stages_; }
  /// One micro-batch through the stage of a rank, and the same as the schedule sees it; after recompute().
  const StageCost& cost(int rank) const { return stage_costs_[content_of(rank)]; }
  std::span<const StageTime> times() const { return times_; }
  /// Time of one hand-over between neighbouring ranks.
  Seconds hop() const { return Seconds(hop_); }
  /// Fixes what is recomputed.
  void recompute(const Recompute& choice);
  /// Seconds that the step takes at least, however states are sharded.
  double least_time() const;

  /// Data-parallel work of every content under one sharding; does not depend on recomputation.
  void price_sharding(const Layout& layout, const MemoryModel& memory, std::vector<DataParallel>& prices) const;

  /// Seconds per step, for the placement and recomputation fixed before.
  [[nodiscard]] double step_time(const Layout& layout, std::span<const DataParallel> prices) const;
  /// Bytes of the worst rank.
  [[nodiscard]] double peak_memory(const Layout& layout, const MemoryModel& memory) const;
  /// Everything that a report shows.
  void fill(Estimate& estimate, const MemoryModel& memory) const;

 private:
  /// What data parallelism and the optimizer leave exposed.
  struct Exposed {
    double reduce = 0, gather = 0, optimizer = 0;
  };
  /// The rank of a content that holds the most micro-batches; rank 0 keeps no gradient of an earlier stage.
  struct Holder {
    int content = 0;
    int rank = 0;
    double held = 0;
  };

  StageCost stage_cost(const StageContent& content) const;
  Phase recompute_cost(const StageContent& content, const Recompute& choice) const;
  void add_block(StageCost& sum, const LayerCost& cost, double count) const;
  void find_holders();
  Exposed exposed(const Layout& layout, std::span<const DataParallel> prices) const;
  double block_exposed(const StageCost& cost, const DataParallel& price, double layers) const;
  Terms terms(const Exposed& exposed) const;
  std::size_t content_of(int rank) const {
    return static_cast<std::size_t>(stages_.content_of[static_cast<std::size_t>(rank)]);
  }
  void fill_memory(Estimate& estimate, const MemoryModel& memory) const;
  void report_layers(Estimate& estimate) const;
  void report_pipeline(Estimate& estimate) const;
  void report_gradients(Estimate& estimate, const MemoryModel& memory, const Exposed& exposed,
                        std::span<const DataParallel> prices) const;

  const Problem& problem_;
  const CostModel& costs_;
  Layout layout_{};
  Pipeline pipeline_{};
  Stages stages_{};
  std::vector<StageCost> stage_costs_{};  ///< by content
  std::vector<double> content_layers_{};
  std::vector<StageTime> times_{};  ///< by rank
  std::vector<Holder> holders_{};
  PipelineTime run_{};
  int bottleneck_ = 0;
  double hop_ = 0;        ///< seconds of one hand-over between stages
  double straggler_ = 0;  ///< share of the step lost to the slowest rank
};

/// Micro-batches whose activations a rank holds at its peak, in units of everything it runs for one
/// micro-batch: a DualPipe rank holds two stages, of which a micro-batch meets one.
[[nodiscard]] double held(const Pipeline& pipeline, int rank);

/// Expected maximum of `ranks` standard normal variables: how far the slowest rank lies above the mean.
[[nodiscard]] double slowest_of(int ranks);

/// Times per step that blocks are gathered or reduced under ZeRO-2 and 3: once per run of consecutive
/// micro-batches that a schedule sends through one chunk.
[[nodiscard]] std::int64_t sharding_passes(const Pipeline& pipeline);

[[nodiscard]] Pipeline pipeline_of(const Problem& problem, const Layout& layout);

}  // namespace plan
