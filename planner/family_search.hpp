#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "planner/enumerate.hpp"
#include "planner/evaluate.hpp"
#include "planner/plainness.hpp"
#include "planner/search.hpp"

namespace plan {

/// A family, the costs of its split, and a time that no layout of it beats.
struct Costed {
  Layout layout{};
  const CostModel* costs = nullptr;
  double bound = 0;  ///< seconds
};

/// Seconds that no layout of a family beats: its micro-batches' least work spread evenly over the pipeline, or the
/// layers that the fullest rank has at least.
[[nodiscard]] double least_family_time(const Problem& problem, const CostModel& costs, const Layout& family);

/// What the search of one family found and did.
struct FamilyOutcome {
  Kept kept;
  Tally tally{};
  std::int64_t fit = 0, too_big = 0, pruned = 0;
};

/// Search of families: all schedules, recomputations and shardings of each. One object a thread: it shares
/// nothing but what it reads, and keeps its scratch space from family to family.
class FamilySearch {
 public:
  /// `capacity` in bytes; `bounds` off evaluates everything.
  FamilySearch(const Problem& problem, double capacity, bool bounds)
      : problem_(problem), capacity_(capacity), bounds_(bounds), wanted_(wanted_frameworks(problem)) {}

  /// `kept` is what earlier families found: what that beats is counted, not looked at.
  [[nodiscard]] FamilyOutcome run(const Costed& family, const Kept& kept);

  /// The plainest layout of the family that a wanted framework runs and that takes at most `slowest` seconds, if it is
  /// plainer than `best`.
  [[nodiscard]] std::optional<Candidate> plainest(const Costed& family, double slowest,
                                                  const std::optional<Candidate>& best);

 private:
  /// The shardings of one placement, their prices and memory filled in when first asked for.
  struct Table {
    std::size_t placement = 0, holders = 0;
    const std::vector<Sharding>* shardings = nullptr;
    std::vector<std::vector<DataParallel>> prices{};  ///< by sharding and content
    std::vector<ShardedMemory> memory{};              ///< by sharding, then holder
    std::vector<ShardedMemory> least{};               ///< by holder: no sharding takes less of anything
    std::vector<StageSums> sums{};                    ///< by choice of modules, then holder; last, of none
    std::span<const ShardedMemory> memory_of(std::size_t sharding) const {
      return std::span(memory).subspan(sharding * holders, holders);
    }
    /// Blocks of whole layers are counted from what is kept when nothing is recomputed.
    std::span<const StageSums> sums_of(std::size_t choice) const {
      return std::span(sums).subspan(std::min(choice * holders, sums.size() - holders), holders);
    }
  };
  /// The shardings that the rules leave one schedule.
  struct Legal {
    Schedule schedule = Schedule::OneFOneB;
    std::vector<Sharding> shardings{};
    std::vector<FrameworkMask> runs_on{};  ///< by sharding; filled in when first asked for
    Tally tally{};
  };
  /// Ways to recompute a stage of some depth, and who runs each.
  struct Recomputes {
    std::vector<Recompute> all{};
    std::vector<FrameworkMask> runs_on{};
  };
  /// What is left of a search for the plainest layout.
  struct Plainest {
    double slowest = 0;               ///< seconds
    std::optional<Candidate> best{};  ///< so far
  };

  void start(const Costed& family, FamilyOutcome& outcome);
  /// All runs of the family at hand.
  void search_family(const Costed& family);
  Legal& legal_of(Schedule schedule);
  const std::vector<Sharding>& shardings_of(const Layout& run);
  const std::vector<Recompute>& recomputes_of(const Layout& run) { return recomputing_of(run).all; }
  const Recomputes& recomputing_of(const Layout& run);
  /// Sets who runs the layout at hand under this way to recompute.
  void narrow_to(const Recomputes& ways, std::size_t choice) {
    choice_runs_on_ = static_cast<FrameworkMask>(run_runs_on_ & ways.runs_on[choice]);
  }
  FrameworkMask runs_sharding(const Layout& layout, const Table& table, std::size_t sharding);
  Table& table_of(Layout layout);
  void search_run(Layout layout, const std::vector<Sharding>& shardings);
  void search_modules(Layout& layout, Table& table, const Recomputes& recomputes);
  void search_blocks(Layout& layout, Table& table, const Recomputes& recomputes);
  void search_recompute(Layout& layout, Table& table, std::size_t choice);
  void search_shardings(Layout& layout, Table& table, std::size_t choice);
  /// Marks the shardings that fit under some recomputation; their number.
  std::size_t find_alive(Layout layout, const Table& table, const std::vector<Recompute>& recomputes);
  /// Finds the first block of recomputed layers with which each sharding may fit; the first of all.
  std::size_t find_first_fits(Layout layout, const Table& table, const std::vector<Recompute>& recomputes);
  void find_activities(const Layout& layout, const Table& table, std::size_t choice);
  double peak_of(std::span<const ShardedMemory> memory) const;
  /// Never more than peak_of(), and no more for smaller parts.
  double least_peak(std::span<const ShardedMemory> memory) const;
  void offer(const Candidate& candidate);
  /// Is everything that takes at least this long and this much memory beaten already? `runs_on` may run it.
  bool hopeless(const Layout& layout, double step_time, double peak, FrameworkMask runs_on) const;
  /// The same of a layout, as far as it is chosen, when the plainest is looked for.
  bool never_plainest(const Layout& layout, double step_time, FrameworkMask runs_on) const;
  void too_big(std::size_t layouts) { outcome_->too_big += static_cast<std::int64_t>(layouts); }
  void prune(std::size_t layouts) { outcome_->pruned += static_cast<std::int64_t>(layouts); }

  const Problem& problem_;
  double capacity_;
  bool bounds_;
  FrameworkMask wanted_;
  std::vector<Recomputes> recomputes_{};  ///< by layers of the deepest stage

  // Of the family at hand.
  const Kept* kept_ = nullptr;  ///< none if the plainest is looked for
  std::optional<Plainest> plainest_{};
  FrameworkMask family_runs_on_ = 0, run_runs_on_ = 0, choice_runs_on_ = 0;
  FamilyOutcome* outcome_ = nullptr;
  const CostModel* costs_ = nullptr;
  std::optional<Evaluator> evaluator_{};
  std::optional<MemoryModel> memory_{};
  std::vector<Legal> legal_{};
  std::vector<Table> tables_{};
  std::vector<Score> twins_{};  ///< best of each vp that runs: another layout with the same degrees must beat it
  int vp_ = 1;
  std::vector<ActivityMemory> activities_{};  ///< by holder
  std::vector<ActivityMemory> lowest_{};      ///< by holder: no recomputation takes less of anything
  std::vector<std::size_t> alive_{};          ///< shardings that some recomputation makes fit
  std::vector<std::size_t> first_fit_{};      ///< by sharding: with smaller blocks it surely does not fit
};

}  // namespace plan
