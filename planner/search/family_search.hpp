#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/estimate/evaluate.hpp"
#include "planner/search/enumerate.hpp"
#include "planner/search/family_tables.hpp"
#include "planner/search/least_memory.hpp"
#include "planner/search/least_traffic.hpp"
#include "planner/search/plainness.hpp"
#include "planner/search/search.hpp"

namespace plan {

/// Time of one micro-batch through a layer: no recomputation, expert exchange hidden wherever some schedule could
/// hide it.
[[nodiscard]] Seconds least_work(const LayerCost& cost);

/// Times that no layout of a family beats.
struct LeastTime {
  Seconds any{};          ///< of a step, under every schedule
  Seconds micro_batch{};  ///< of one micro-batch on all ranks of the pipeline together, under every schedule
  Seconds alone{};        ///< the same where nothing else runs beside it
  Seconds longest{};      ///< of one micro-batch alone on the rank with the most layers
  double waits = 1;       ///< for each second of work, with what the slowest rank adds
  StageTime whole{};      ///< of `alone`, the parts, without those waits
  /// Seconds that a step takes at least under the schedule and chunks of `run`.
  [[nodiscard]] Seconds of_run(const Layout& run, std::int64_t micro_batches) const;
  /// Seconds that it takes at least if recomputation takes `more` of each micro-batch on all ranks together; `steps` is
  /// least_steps() of the run.
  [[nodiscard]] Seconds of_run(const Layout& run, std::int64_t micro_batches, double steps, Seconds more) const;
};

/// Of a step at least, for each second of work of one micro-batch on all ranks of the pipeline together.
[[nodiscard]] double least_steps(const Layout& run, std::int64_t micro_batches);

/// A family, the costs of its split, and a time that no layout of it beats.
struct Costed {
  Layout layout{};
  const CostModel* costs = nullptr;  ///< none if nothing of it can fit
  LeastTime bound{};
  RealBytes states{};     ///< memory of the states of some rank, at least
  int fewest_layers = 0;  ///< that every rank of every layout has
  double waiting = 0;     ///< share of any step of it, at most, that the GPUs wait for the host's launches
};

/// How many layers of each kind the model has, apart from prediction modules.
[[nodiscard]] std::vector<int> layers_of_kinds(const Model& model);

/// Times of one micro-batch under a split, with least_work() of each layer, or with nothing beside it. `times` are
/// layers_of_kinds().
struct LeastWork {
  LeastWork(const CostModel& costs, std::span<const int> times, bool by_itself);
  std::vector<Seconds> layers{};  ///< by kind
  Seconds head{};
  Seconds ends{};  ///< embedding and head
  Seconds sum{};   ///< with all layers
};

/// Both of a split.
struct SplitWork {
  SplitWork(const Problem& problem, const CostModel& costs, std::span<const int> times);
  LeastWork least, alone;
  double waiting = 0;  ///< largest of the layers'
  StageTime
      whole{};  ///< all layers and the ends, with nothing beside them but what the stack hides under every schedule
};

/// Times that no layout of a family beats.
class LeastTimes {
 public:
  explicit LeastTimes(const Problem& problem);
  /// Its micro-batches' least work spread evenly over the pipeline, or the layers that the fullest rank has at least.
  /// Over `slowest` it is not looked for further.
  [[nodiscard]] LeastTime of(const SplitWork& work, const Layout& family, Seconds slowest = Seconds::infinity()) const;

 private:
  Seconds least_of_any(const LeastTime& least, Layout run, std::int64_t micro_batches) const;
  /// Time of a micro-batch on the rank with the most at least, if layers come in `parts` pieces.
  Seconds fullest(const LeastWork& work, int pp, int parts) const;

  const Problem& problem_;
  std::vector<int> layers_{};  ///< by kind
  double slowest_ = 0;         ///< of all ranks
};

/// Layers that every rank of every layout of a family has at least. No work: nothing is known of it.
[[nodiscard]] int fewest_layers(const Problem& problem, const SplitWork* work, const Layout& family);

/// What the search of one family found and did.
struct FamilyOutcome {
  Kept kept;
  Tally tally{};
  std::int64_t fit = 0, too_big = 0, pruned = 0;
  /// The shortest step that was evaluated, of layouts that fit and that a wanted framework runs.
  Seconds shortest = Seconds::infinity();
};

/// Search of families: all schedules, recomputations and shardings of each. One object a thread: it shares
/// nothing but what it reads, and keeps its scratch space from family to family.
class FamilySearch {
 public:
  /// `bounds` off evaluates everything.
  FamilySearch(const Problem& problem, RealBytes capacity, RealBytes host, bool bounds, const Extent& extent = {})
      : problem_(problem),
        capacity_(capacity),
        host_(problem.training.offload.any() ? host : RealBytes::infinity()),
        bounds_(bounds),
        extent_(extent),
        wanted_(wanted_frameworks(problem)),
        inner_(problem),
        lists_(problem),
        traffic_(problem) {}

  /// `kept` is what earlier families found: what that beats is counted, not looked at.
  [[nodiscard]] FamilyOutcome run(const Costed& family, const Kept& kept);

  /// Is nothing of this family worth a look, whoever runs it?
  [[nodiscard]] bool counts_alone(const Costed& family, const Kept& kept);
  /// Counts the layouts of so many families of which nothing is worth a look, all with the degrees and the micro-batch
  /// of this one: what run() does with each of them.
  void count(const Costed& family, std::int64_t families, FamilyOutcome& outcome);

  /// The plainest layout of the family that a wanted framework runs and that takes no more than is allowed, if it is
  /// plainer than `best`.
  [[nodiscard]] std::optional<Candidate> plainest(const Costed& family, const Allowance& allowance,
                                                  const std::optional<Candidate>& best);

 private:
  /// One placement under the shardings of a run.
  struct Table {
    std::size_t placement = 0;
    AxisOrder order = AxisOrder::PipelineOutermost;
    const ShardingList* shardings = nullptr;
    std::vector<Holding*> holders{};                  ///< in the order of the placement's
    std::vector<Holding*> contents{};                 ///< by content
    std::vector<std::vector<DataParallel>> prices{};  ///< by sharding and content; filled in when first asked for
  };
  /// Ways to recompute a stage of some depth, and who runs each.
  struct Recomputes {
    std::vector<Recompute> all{};
    std::vector<FrameworkMask> runs_on{};
  };
  /// What is left of a search for the plainest layout.
  struct Plainest {
    const Allowance* allowance = nullptr;
    std::optional<Candidate> best{};  ///< so far
  };
  /// least_states() under some shardings.
  struct StatesUnder {
    int fewest = 0;  ///< layers that every rank has
    const ShardingList* shardings = nullptr;
    bool both = false;          ///< of DualPipe
    FrameworkMask runs_on = 0;  ///< that may run them, where that decides what counts
    bool apart = false;         ///< those that one of these frameworks runs count apart
    LeastStates memory{};       ///< of which nodes hold what lies with their hosts, and that count at all
    LeastStates running{};      ///< of those apart
    RealBytes bare{};           ///< with no activations
  };
  /// A peak under one of the least activities. Where time alone counts, no more is known than whether it fits.
  struct LeastPeak {
    std::size_t activity = 0;
    RealBytes peak{};
    RealBytes running{};  ///< of layouts that a wanted framework runs
  };
  /// Peaks that the GPU may hold, of the least activities that say how fast a run may be. Schedules differ in what they
  /// hold, and many of them hold the same.
  struct PeaksUnder {
    std::size_t states = 0;
    int vp = 1;
    double flights = 0;
    std::vector<LeastPeak> peaks{};
    std::size_t first = 0, first_running = 0;  ///< activities before these leave too little room: all, and what runs
  };

  /// What became of a run without a look into it: one that takes no less of anything does no better.
  enum class Fate { Searched, TooBig, Pruned };
  /// What the chunks of a run change of its bounds.
  struct LeastOfRun {
    std::int64_t micro_batches = 1;
    int vp = 1;
    double steps = 0;    ///< least_steps()
    double flights = 0;  ///< micro-batches that a rank holds at least
  };

  /// By what a run was rejected.
  struct Judged {
    Pipeline pipeline{};
    AxisOrder order{};
    FrameworkMask runs_on = 0;
    const ShardingList* shardings = nullptr;  ///< none: none was
    Fate fate = Fate::Searched;
  };
  /// A run of which nothing fits.
  struct Crowded {
    Schedule schedule{};
    int vp = 1;
    const ShardingList* shardings = nullptr;        ///< none: none was met yet
    std::vector<std::pair<int, double>> flights{};  ///< ranks, one of each content, with the micro-batches they hold
  };
  /// What a layout takes at least.
  struct Floor {
    Seconds time{};
    RealBytes peak{};
    RealBytes running{};  ///< if a wanted framework runs it
  };

  void turn_to(const Layout& family);
  /// All runs of the family at hand.
  void search_family(const Costed& family);
  /// What becomes of all runs of a family whatever they are.
  Fate judge_whole(const Costed& family);
  /// Counts all layouts of a family of which nothing is looked into.
  void count(const Layout& family, Fate fate);
  const Counted& counted(const Layout& family);
  /// How many layouts a run has that rules leave; the others are tallied.
  std::int64_t layouts_of(const Layout& run, const ShardingList& shardings, Tally& tally);
  /// Has a list of shardings none that the other has not, nor one that more frameworks run?
  bool among(const ShardingList& some, const ShardingList& others) const;
  /// Has a run nothing that the one rejected before it has not?
  bool no_better(const Layout& run, const ShardingList& shardings, const Judged& before) const;
  bool too_slow(const Layout& run, const Costed& family) const;
  /// What becomes of a run: the same as of one that was rejected and had nothing less. Nothing is known of its least
  /// memory where that says it.
  Fate judge(const Layout& run, const ShardingList& shardings, const Costed& family,
             std::array<Judged, kAxisOrders>& rejected, RealBytes& least_memory);
  Fate judge_run(const Layout& run, const ShardingList& shardings, const Costed& family, RealBytes& least_memory);
  const Recomputes& recomputing_of(const Layout& run);
  /// Sets who runs the layout at hand under this way to recompute.
  void narrow_to(const Recomputes& ways, std::size_t choice) {
    choice_runs_on_ = static_cast<FrameworkMask>(run_runs_on_ & ways.runs_on[choice]);
  }
  /// What some rank of every layout of a run takes at least, without placing layers. Finds the floors. No layout of it
  /// takes less than `time`.
  RealBytes least_memory(const Layout& run, const ShardingList& shardings, const Costed& family, const LeastOfRun& of,
                         Seconds time);
  LeastOfRun least_of(const Layout& run) const;
  /// Of the states that were met, those that these shardings leave.
  std::size_t least_states_of(const Layout& run, const ShardingList& shardings, int fewest);
  const PeaksUnder& least_peaks_of(std::size_t states, const LeastOfRun& of);
  std::vector<LeastPeak> all_peaks(const StatesUnder& under, const LeastChunks& chunks) const;
  /// The first of the least activities from `first` on that leaves room; `last` does, if it is one of them.
  std::size_t first_fit(const LeastStates& states, const LeastChunks& chunks, std::size_t first,
                        std::size_t last) const;
  /// The family's own, made when first asked for.
  MemoryModel& memory_of(const Layout& run);
  /// Of any family, remembering what messages take.
  ShardingPricer pricer() { return ShardingPricer(problem_, &pass_times_); }
  /// What the states of the run at hand send at least, and whether that alone makes it hopeless.
  bool traffic_beats(const Layout& run, const ShardingList& shardings);
  const KeptLayers& kept_of(const Layout& run);
  Table& table_of(const Layout& run, const ShardingList& shardings);
  const std::vector<DataParallel>& prices_of(const Layout& layout, Table& table, std::size_t sharding);
  void search_run(Layout layout, const ShardingList& shardings, RealBytes least_memory);
  void search_each(Layout& layout, Table& table, const Recomputes& recomputes, std::size_t begin, std::size_t end);
  void search_blocks(Layout& layout, Table& table, const Recomputes& recomputes);
  /// One recomputation, which is started.
  void search_recompute(Layout& layout, Table& table, const Recomputes& recomputes, std::size_t choice,
                        const Evaluator::Started& started);
  void search_shardings(Layout& layout, Table& table, std::size_t choice, RealBytes least_peak);
  /// Finds the shardings that fit under some recomputation; their number.
  std::size_t find_alive(Layout layout, const Table& table, const std::vector<Recompute>& recomputes);
  void note_crowded(const Layout& run, const ShardingList& shardings);
  /// Is this run too big since one like it was?
  bool crowded(const Layout& run, const ShardingList& shardings) const;
  void expose_least(std::size_t shardings);
  void fastest_first();
  std::size_t drop_beaten(const Layout& layout, const ShardingList& shardings);
  /// Finds what each alive sharding exposes, if that is not known. Leaves no recomputation started.
  void find_exposed(Layout layout, Table& table, const std::vector<Recompute>& recomputes);
  /// What the alive sharding with the least exposed traffic adds.
  Seconds least_exposed() const { return exposed_[alive_.front()]; }
  /// Finds the first block of recomputed layers with which each sharding may fit; the first of all.
  std::size_t find_first_fits(Layout layout, const Table& table, const std::vector<Recompute>& recomputes,
                              std::size_t live);
  void start_activities(const Table& table, const Recomputes& ways);
  /// By holder, under one way to recompute, which is the layout's.
  std::span<const ActivityMemory> activities_of(const Layout& layout, const Table& table, std::size_t choice);
  /// Does the memory of every node hold what its ranks leave there? No activities: of states alone.
  bool host_holds(const Layout& layout, const Table& table, std::size_t sharding,
                  std::span<const ActivityMemory> activities) const;
  Bytes peak_of(const Table& table, std::size_t sharding, std::span<const ActivityMemory> activities) const;
  /// Never more than peak_of(), and no more for smaller parts.
  RealBytes least_peak_of(const Table& table, std::size_t sharding, std::span<const ActivityMemory> activities) const;
  void offer(const Candidate& candidate);
  /// Is everything that takes at least this long and this much memory beaten already? `runs_on` may run it.
  bool hopeless(const Layout& layout, Seconds step_time, RealBytes peak, FrameworkMask runs_on) const;
  /// Does no answer hang on how much memory layouts take that fit?
  bool time_alone() const { return plainest_ || (problem_.objective != Objective::Memory && !problem_.pareto); }
  /// Is what no wanted framework runs never an answer?
  bool runnable_alone() const { return plainest_ || extent_.best_alone; }
  /// Is all beaten of a run that takes no less? With traffic: `floor.time` does not contain what its states send.
  bool beaten(const Layout& run, const Floor& floor) const;
  bool beaten_with_traffic(const Layout& run, const Floor& floor) const;
  /// When the plainest is looked for: is it none of the layouts that start like this one, as far as it is chosen?
  bool never_plainest(const Layout& layout, Seconds step_time, FrameworkMask runs_on) const;
  void too_big(std::size_t layouts) { outcome_->too_big += static_cast<std::int64_t>(layouts); }
  void prune(std::size_t layouts) { outcome_->pruned += static_cast<std::int64_t>(layouts); }
  /// Counts layouts that met this fate, if they did.
  void count(std::int64_t layouts, Fate fate) {
    if (fate == Fate::TooBig) outcome_->too_big += layouts;
    if (fate == Fate::Pruned) outcome_->pruned += layouts;
  }

  const Problem& problem_;
  RealBytes capacity_, host_;  ///< of a GPU, and of a node
  bool bounds_;
  Extent extent_;
  FrameworkMask wanted_;
  std::vector<Recomputes> recomputes_{};  ///< by layers of the deepest stage
  InnerSpace inner_;
  ShardingLists lists_;
  MessageTimes pass_times_{};
  bool legal_ = false;  ///< some layout that it met is

  // What the family at hand has.
  const Kept* kept_ = nullptr;  ///< none if the plainest is looked for
  std::optional<Plainest> plainest_{};
  FrameworkMask family_runs_on_ = 0, run_runs_on_ = 0, choice_runs_on_ = 0;
  FamilyOutcome* outcome_ = nullptr;
  const CostModel* costs_ = nullptr;
  std::optional<Evaluator> evaluator_{};  ///< none before a run of it is looked into
  std::optional<MemoryModel> memory_{};
  std::vector<Table> tables_{};
  Holdings holdings_{};
  PriceBook prices_{};
  LeastTraffic traffic_;
  /// By degrees and micro-batch, but for how many there are of which it changes nothing.
  std::map<std::pair<Degrees, int>, std::vector<StatesUnder>> all_states_{};
  std::vector<StatesUnder>* states_ = nullptr;  ///< of families like the one at hand
  std::vector<PeaksUnder> peaks_{};
  std::vector<LeastActivity> least_activities_{};  ///< those that take the least time first; empty: not known yet
  std::optional<KeptLayers> kept_layers_{};
  Crowded crowded_{};  ///< the last that was met
  /// Of the run that was judged: each of its layouts that may fit takes no less than one of these.
  std::vector<Floor> floors_{};
  std::vector<Score> twins_{};  ///< best of each vp that runs: another layout with the same degrees must beat it
  int vp_ = 1;

  // What the run at hand has: a schedule with its chunks, under one order of the axes.
  std::vector<double> flights_{};             ///< micro-batches that each holder holds
  std::vector<ActivityMemory> activities_{};  ///< by choice, then holder
  std::vector<bool> known_activities_{};      ///< by choice
  std::vector<ActivityMemory> lowest_{};      ///< by holder: no recomputation takes less of anything
  RealBytes least_peak_{};                    ///< no sharding and no recomputation takes less
  std::vector<RealBytes> least_peaks_{};      ///< by sharding: no recomputation takes less
  std::vector<std::size_t> alive_{};          ///< shardings that some recomputation makes fit, the fastest first
  std::size_t beaten_ = 0;                    ///< shardings that would fit, and are beaten under any recomputation
  /// By sharding: what its traffic adds to the step at least, under any work. None: of no bound.
  const std::vector<Seconds>* least_traffic_ = nullptr;
  double straggling_ = 1;  ///< for each second of them, with what the slowest rank adds
  /// The least of those, of shardings that a wanted framework may run and of others; infinity: there is none.
  Seconds running_traffic_{}, paper_traffic_{};
  std::vector<Seconds> exposed_{};  ///< the same under the work of the run's placement, where that is known
  bool knows_exposed_ = false;
  std::vector<std::size_t> first_fit_{};  ///< by sharding: with smaller blocks it surely does not fit
};

}  // namespace plan
