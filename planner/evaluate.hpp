#pragma once

#include <vector>

#include "formulas/schedule.hpp"
#include "planner/cost.hpp"
#include "planner/estimate.hpp"
#include "planner/memory.hpp"
#include "planner/problem.hpp"
#include "planner/stages.hpp"

namespace plan {

/// What the search compares.
struct Score {
  double step_time = 0;  ///< s
  double peak = 0;       ///< bytes of the worst rank, middle of the interval
};

/// Data-parallel traffic of one pipeline rank, per step.
struct DataParallel {
  double reduce = 0;            ///< seconds of gradient reduction, all of it
  double gather = 0;            ///< seconds of parameter gathering
  double exposed_per_pass = 0;  ///< ZeRO-3: seconds that stay exposed each time the blocks are gathered
  double optimizer = 0;         ///< seconds of the optimizer step
};

/// Time of one rank content for one micro-batch.
struct StageCost {
  Phase forward{}, backward_input{}, backward_weight{}, recompute{};
  double paired_ep = 0;
  double total() const {
    return forward.total() + backward_input.total() + backward_weight.total() + recompute.total();
  }
};

/// Evaluates layouts that share a split. Holds scratch space: one per thread.
class Evaluator {
 public:
  Evaluator(const Problem& problem, const CostModel& costs) : problem_(problem), costs_(costs) {}

  /// Step time and peak memory; the same numbers that `fill` reports.
  [[nodiscard]] Score score(const Layout& layout, const Stages& stages, const MemoryModel& memory);
  /// Only the step time, in seconds.
  [[nodiscard]] double step_time(const Layout& layout, const Stages& stages, const MemoryModel& memory);
  /// Only the worst rank's memory, in bytes.
  [[nodiscard]] double peak_memory(const Layout& layout, const Stages& stages, const MemoryModel& memory) const;
  /// Everything that a report shows.
  void fill(Estimate& estimate, const Stages& stages, const MemoryModel& memory);

 private:
  struct Step {
    Terms terms{};
    int bottleneck = 0;  ///< pipeline rank
    double hop = 0;      ///< seconds of one hand-over
    double reduce_exposed = 0, gather_exposed = 0;
  };
  Step step(const Layout& layout, const Stages& stages, const MemoryModel& memory);
  StageCost stage_cost(const Layout& layout, const StageContent& content) const;
  void add_block(StageCost& sum, const LayerCost& cost, double count, bool split_backward) const;
  DataParallel data_parallel(const Layout& layout, const StageContent& content, const MemoryModel& memory,
                             const StageCost& cost) const;
  void expose_data_parallel(const Layout& layout, const Stages& stages, Step& step) const;
  void report_messages(Estimate& estimate, const Stages& stages, const Step& step, const MemoryModel& memory) const;

  const Problem& problem_;
  const CostModel& costs_;
  std::vector<StageCost> stage_costs_{};
  std::vector<DataParallel> data_parallel_{};
  std::vector<StageTime> times_{};
};

/// Times per step that blocks are gathered or reduced under ZeRO-2 and 3: once per run of consecutive
/// micro-batches that a schedule sends through one chunk.
[[nodiscard]] std::int64_t sharding_passes(const Problem& problem, const Layout& layout);

}  // namespace plan
