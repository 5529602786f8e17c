#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "formulas/schedule.hpp"
#include "planner/answer/estimate.hpp"
#include "planner/cost/cost.hpp"
#include "planner/cost/resharding.hpp"
#include "planner/estimate/sharding_price.hpp"
#include "planner/estimate/stages.hpp"
#include "planner/memory/memory.hpp"
#include "planner/problem/pipeline.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// A shade below one: a factor of bounds, so that rounding never puts one above the value it bounds.
inline constexpr double kBelow = 0.999999;

/// Time of one rank content for one micro-batch.
struct StageCost {
  Phase forward{}, backward_input{}, backward_weight{}, recompute{};
  Seconds paired_ep{};
  /// Forward and backward without recomputation: of one micro-batch after the other, or of two at once, of which one
  /// computes while the other sends to its experts.
  Phase work() const { return forward + backward_input + backward_weight; }
  Phase pair() const {
    Phase both = work();
    if (forward.ep > Seconds()) both.ep = paired_ep;
    return both;
  }
  Seconds backward() const { return backward_input.total() + backward_weight.total() + recompute.total(); }
  Seconds total() const { return forward.total() + backward(); }
};

/// What data parallelism and the optimizer leave exposed, per step.
template <class Time>
struct ExposedSharding {
  Time reduce{0.0}, gather{0.0}, table{0.0}, optimizer{0.0};
};

/// Layers of a stage that share states over the same ranks in the same way, of the cells that a stage has of its own.
struct StateGroup {
  StageContent content{};  ///< its cell is the first of them
  std::vector<std::size_t> runs{};
};

/// What the layers of one stage do apart.
struct StageRuns {
  std::vector<StageContent> runs{};  ///< front to back, each with its cell
  std::vector<StateGroup> states{};
};

/// Where the layers of one (pp, vp, shape of the pipeline) lie: shared by all schedules of that shape.
struct Placement {
  int pp = 0, vp = 0, shape = 0;
  Stages stages{};
  std::vector<Segment> segments{};
  std::vector<double> layers{};  ///< by content
  int deepest = 0;               ///< most layers of a rank
  /// Ranks among which the one with the most memory is: every content's first, rank 0 apart, since no
  /// schedule makes a later rank hold more micro-batches than an earlier one.
  std::vector<Segment> holders{};
  std::vector<StageRuns> runs{};  ///< by the first cell of a stage; empty: no layers of one stage differ
};

/// A run of neighbouring pipeline stages on one kind of GPU with a strategy of its own, or a run of layers inside one
/// stage. The layout is that of the run but for the pipeline (pp, vp, schedule, chunk_layers), which is the whole one.
struct Cell {
  const Problem* problem = nullptr;  ///< of the run's own cluster
  const CostModel* costs = nullptr;
  const MemoryModel* memory = nullptr;
  Layout layout{};
  int stages = 1;      ///< 0: further layers of the stage that the cell before belongs to
  int layers = 0;      ///< of its stage, 0: all that are left
  bool part = false;   ///< other layers of its only stage are cells of their own, which follow the first of them
  Resharding input{};  ///< what its input takes from the cell before, inside a stage
};

/// Evaluates layouts that share a split, in the order in which a search chooses: first where the layers
/// lie, then what is recomputed, then how states are sharded. Each step reuses the ones before it.
/// Holds scratch space: one per thread.
class Evaluator {
 public:
  /// With the layout placed, nothing of it recomputed yet.
  Evaluator(const Problem& problem, const CostModel& costs, const Layout& layout)
      : problem_(problem), costs_(costs), pricer_(problem) {
    place(layout);
  }
  /// A pipeline of several cells, front to back, with the given hand-overs between its stages. Of `problem` counts what
  /// is common to all of them; its cluster prices what goes from one to another. What others take as the layout is the
  /// first cell's, which is placed.
  Evaluator(const Problem& problem, std::span<const Cell> cells, Hops hops)
      : problem_(problem), costs_(*cells.front().costs), pricer_(problem), cells_(cells), hops_(std::move(hops)) {
    place(cells.front().layout);
  }

  /// Fixes pp, vp, schedule, dp and the placement of layers; nothing recomputed yet.
  void place(const Layout& layout);
  /// One micro-batch through the stage of a rank, and the same as the schedule sees it; after recompute().
  const StageCost& cost(int rank) const { return stage_costs_[content_of(rank)]; }
  /// The same of any content that recomputes so; after place().
  StageCost content_cost(const StageContent& content, const Recompute& choice) const {
    StageCost cost = stage_cost(content);
    cost.recompute = recompute_cost(content, choice);
    return cost;
  }
  /// The rank whose work makes the step, its work of one micro-batch but for recomputation, pairs that overlap taken
  /// as one after the other, and how many of them the step takes; after recompute().
  int bottleneck() const { return bottleneck_; }
  /// Of that work's compute, what waits for activations on their way to host memory and back.
  Seconds bottleneck_host_wait() const;
  Phase bottleneck_work() const;
  double bottleneck_times() const;
  std::span<const StageTime> times() const { return times_; }
  /// The pipeline's makespan by the law of its schedule; after recompute().
  const PipelineTime& pipeline_time() const { return run_; }
  /// Times of the hand-overs between neighbouring ranks.
  const Hops& hops() const { return hops_; }
  const Placement& placement() const { return *placement_; }
  const Stages& stages() const { return placement_->stages; }
  /// Number of the placement: equal for schedules that place layers the same way.
  std::size_t placement_index() const { return placement_index_; }
  /// Fixes what is recomputed.
  void recompute(const Recompute& choice) { start_recompute(choice).finish(); }
  /// A recomputation of the placed layout, begun: the cheap half. Only who has begun one can finish it.
  class [[nodiscard]] Started {
   public:
    /// What the step takes at least: its slowest rank's work.
    Seconds least() const { return evaluator_.busy_; }
    /// The other half: what all times below are of.
    void finish() const { evaluator_.finish_recompute(); }

   private:
    friend class Evaluator;
    explicit Started(Evaluator& evaluator) : evaluator_(evaluator) {}
    Evaluator& evaluator_;
  };
  Started start_recompute(const Recompute& choice);
  /// What the step takes at least, however states are sharded.
  Seconds least_time() const;
  /// What it takes at least under any other recomputation too, after recompute({}).
  Seconds least_time_of_any() const;

  /// What of a step's data parallelism is exposed, and its optimizer step, with their equations: of the stages that
  /// keep the step longest. No cells. `P` and `P_e` are the parameters that the stage named by `stepped` trains.
  struct TracedSharding {
    ExposedSharding<Traced> exposed{};
    int stepped = 0;  ///< content whose optimizer step takes longest
  };
  [[nodiscard]] TracedSharding traced_sharding(const Layout& layout, const MemoryModel& memory) const;

  /// Time of one step, for the placement and recomputation fixed before, and the prices of its contents.
  [[nodiscard]] Seconds step_time(const Layout& layout, std::span<const DataParallel> prices) const;
  /// The same without prices at hand, and what it goes to.
  [[nodiscard]] Terms step_terms(const Layout& layout, const MemoryModel& memory) const;
  /// Memory of the worst rank.
  [[nodiscard]] Bytes peak_memory(const Layout& layout, const MemoryModel& memory) const;
  /// What the ranks of a node keep in its memory.
  [[nodiscard]] RealBytes host_memory(const Layout& layout, const MemoryModel& memory) const;
  /// Micro-batches that a rank holds at its peak under the schedule fixed before.
  double held_by(int rank) const;
  /// FLOPs that recomputation repeats for a token, average of all layers; after place().
  Flops recomputed_per_token(const Layout& layout) const;
  /// Everything that a report shows.
  void fill(Estimate& estimate, const MemoryModel& memory) const;

  // Runs of layers that make up one stage, each of any of the cells; after place().

  /// The runs with what they share of states.
  static StageRuns grouped(std::vector<StageContent> runs, std::span<const Cell> cells);
  StageCost cost_of_runs(const StageRuns& runs) const;
  Phase recompute_of_runs(const StageRuns& runs) const;
  /// What of the data parallelism of a stage whose layers differ goes block by block, and what waits for its last
  /// micro-batch.
  struct Moved {
    Seconds blocks{};  ///< exposed, of layers under ZeRO-3
    bool all_blocks = true;
    DataParallel late{};  ///< of all other layers
    Seconds repeated{};   ///< of its reductions, under ZeRO-2
  };
  Moved moved_of_runs(const StageRuns& runs) const;
  /// Where `instant` is given, it gets the name of the moment at which the rank peaks.
  StageMemory memory_of_runs(const StageRuns& runs, int rank, const char** instant = nullptr) const;

 private:
  using Exposed = ExposedSharding<Seconds>;

  /// All that the hand-overs of a split depend on beside it.
  struct HopsOf {
    int pp = 0, dp = 0;
    AxisOrder order = AxisOrder::PipelineOutermost;
    bool operator==(const HopsOf&) const = default;
  };

  /// What a stage's own cell says, where there are several.
  const Cell* cell_of(const StageContent& content) const {
    return cells_.empty() ? nullptr : &cells_[static_cast<std::size_t>(content.cell)];
  }
  const Problem& problem_of(const StageContent& content) const {
    return cells_.empty() ? problem_ : *cell_of(content)->problem;
  }
  const CostModel& costs_of(const StageContent& content) const {
    return cells_.empty() ? costs_ : *cell_of(content)->costs;
  }
  const Layout& layout_of(const StageContent& content, const Layout& layout) const {
    return cells_.empty() ? layout : cell_of(content)->layout;
  }
  const MemoryModel& memory_of(const StageContent& content, const MemoryModel& memory) const {
    return cells_.empty() ? memory : *cell_of(content)->memory;
  }
  const Recompute& recompute_of(const StageContent& content, const Recompute& choice) const {
    return cells_.empty() ? choice : cell_of(content)->layout.recompute;
  }
  /// The runs of a stage whose layers differ, none of any other.
  const StageRuns* runs_of(const StageContent& content) const {
    if (cells_.empty() || !cell_of(content)->part) return nullptr;
    return &placement_->runs[static_cast<std::size_t>(content.cell)];
  }
  /// Calls with the content of every run of a stage: of most stages with all of it.
  template <class Do>
  void each_run(const StageContent& content, const Do& with) const {
    if (const StageRuns* runs = runs_of(content))
      for (const StageContent& run : runs->runs) with(run);
    else
      with(content);
  }
  /// The same of those of its layers whose states are shared in the same way.
  template <class Do>
  void each_state(const StageContent& content, const Do& with) const {
    if (const StageRuns* runs = runs_of(content))
      for (const StateGroup& group : runs->states) with(group.content);
    else
      with(content);
  }
  StageRuns split_runs(std::size_t first_layer, const StageContent& content) const;
  StageCost run_cost(const StageContent& run) const;
  Phase run_recompute(const StageContent& run, const Recompute& choice) const;
  StageMemory stage_memory(const Layout& layout, const MemoryModel& memory, int rank, const StageContent& content,
                           const char** instant = nullptr) const;
  void find_placement(const Layout& layout);
  void finish_recompute();
  void set_base();
  StageCost stage_cost(const StageContent& content) const {
    const StageRuns* runs = runs_of(content);
    return runs == nullptr ? run_cost(content) : cost_of_runs(*runs);
  }
  /// What a pass waits for them, forward and backward.
  struct HostWait {
    Seconds forward{}, backward{};
  };
  HostWait host_wait(const StageCost& work, const StageContent& content) const;
  StageCost run_work(const StageContent& run) const;
  Phase recompute_cost(const StageContent& content, const Recompute& choice) const {
    const StageRuns* runs = runs_of(content);
    return runs == nullptr ? run_recompute(content, choice) : recompute_of_runs(*runs);
  }
  void add_block(StageCost& sum, const LayerCost& cost, double count) const;
  Exposed exposed(const Layout& layout, std::span<const DataParallel> prices) const;
  /// What an axis hides of `price` where blocks are gathered one by one.
  template <class V>
  SecondsOf<V> block_exposed(const StageCost& cost, const ShardingPrice<SecondsOf<V>>& price, double layers,
                             bool rebuilt) const;
  template <class V, class PriceOf>
  ExposedSharding<SecondsOf<V>> exposed_law(const Layout& layout, const PriceOf& price_of) const;
  /// Data-parallel work of a content whose layers share states in the same way, and of every content of the placement.
  DataParallel price_of(const Layout& layout, const MemoryModel& memory, const StageContent& content) const {
    return pricer_.price<double>(layout_of(content, layout), memory_of(content, memory).sums(content), content,
                                 problem_of(content).cluster);
  }
  std::vector<DataParallel> prices_of(const Layout& layout, const MemoryModel& memory) const;
  Terms terms(const Exposed& exposed) const;
  std::size_t content_of(int rank) const {
    return static_cast<std::size_t>(stages().content_of[static_cast<std::size_t>(rank)]);
  }
  void fill_memory(Estimate& estimate, const MemoryModel& memory) const;
  void fill_runs(Estimate& estimate) const;
  void report_layers(Estimate& estimate) const;
  void report_pipeline(Estimate& estimate) const;
  void report_gradients(Estimate& estimate, const MemoryModel& memory, const Exposed& exposed,
                        std::span<const DataParallel> prices) const;

  const Problem& problem_;
  const CostModel& costs_;
  ShardingPricer pricer_;
  std::span<const Cell> cells_{};  ///< none: all stages are equal
  Layout layout_{};
  Pipeline pipeline_{};
  std::vector<std::unique_ptr<Placement>> placements_{};  ///< all that were asked for
  const Placement* placement_ = nullptr;
  std::size_t placement_index_ = 0;
  std::vector<StageCost> stage_costs_{};  ///< by content
  std::vector<StageTime> times_{};        ///< by rank
  PipelineTime run_{};
  Terms base_{};       ///< of the step without data parallelism
  Seconds busy_{};     ///< what the recomputation at hand takes at least
  double passes_ = 1;  ///< sharding_passes() of the schedule
  int bottleneck_ = 0;
  Hops hops_{};           ///< of the hand-overs between stages
  HopsOf hops_of_{};      ///< what they are for
  Seconds scales_{};      ///< of a step, for scale_messages()
  double straggler_ = 0;  ///< share of the step lost to the slowest rank
  int world_ = 0;         ///< ranks that `straggler_` is for
};

/// Micro-batches whose activations a rank holds at its peak, in units of everything it runs for one
/// micro-batch: a DualPipe rank holds two stages, of which a micro-batch meets one.
[[nodiscard]] double held(const Pipeline& pipeline, int rank);

/// Expected maximum of `ranks` standard normal variables: how far the slowest rank lies above the mean.
[[nodiscard]] double slowest_of(int ranks);

/// Times per step that blocks are gathered or reduced under ZeRO-2 and 3: once per run of consecutive
/// micro-batches that a schedule sends through one chunk.
[[nodiscard]] std::int64_t sharding_passes(const Pipeline& pipeline);
/// Share of forward passes that run before a backward pass is there to run beside them, and so of backward passes that
/// outlive all forward ones, on the rank that has fewest of them: of one stage the first forward and the last backward
/// (Megatron core, pipeline_parallel/combined_1f1b.py), of a pipeline those that fill and empty it (schedules.py,
/// get_pp_rank_microbatches).
[[nodiscard]] double passes_alone(const Pipeline& pipeline);

/// Bytes that a rank sends when one micro-batch goes to the next stage (plan-formulas(7) E3). Under sequence
/// parallelism a tensor rank has its share alone; else it sends all, or its share with the scatter-gather of Megatron
/// before its core (Narayanan et al. 2021, section 4.1) and of DeepSpeed (PartitionedTensor).
[[nodiscard]] RealBytes hand_over_bytes(const Problem& problem, const Layout& layout);

/// Seconds of each hand-over between stages, on the innermost tier that holds both ends of the slowest.
[[nodiscard]] Hops hand_overs(const Problem& problem, const Layout& layout);

/// Everything that a report shows of a pipeline of several cells, front to back, with the given hand-overs between its
/// stages. The layout is the first cell's, with the layers of every chunk.
[[nodiscard]] Estimate estimate_cells(const Problem& problem, std::span<const Cell> cells, Hops hops);

}  // namespace plan
