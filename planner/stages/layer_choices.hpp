#pragma once

// One stage of a pipeline while its layers are given strategies: every way to do so that may count.

#include <bitset>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "planner/estimate/stage_cells.hpp"

namespace plan {

/// Numbers of groups that gather between layers of different ways: each holds buffers while the job runs.
using GroupSet = std::bitset<256>;

/// Neighbouring layers of one stage that do the same.
struct LayerRun {
  int way = 0;  ///< of those that a layer may have
  int layers = 0;
};
using LayerRuns = std::vector<LayerRun>;

/// What the layers of a stage may do.
struct LayerChoice {
  LayerRuns runs{};
  Seconds work{};   ///< of a micro-batch, both ways
  Seconds least{};  ///< what a step with this stage takes at least, the wait for the slowest rank left out
};

/// Ways of single layers mixed in the stages of one pipeline.
class LayerChoices {
 public:
  /// `base` is the pipeline with the layers of its stages. `ways` are strategies of layers, none with `layers` or
  /// `behind`.
  LayerChoices(StageModels& models, const Problem& problem, const Layout& base, std::span<const StageStrategy> ways,
               RealBytes capacity);

  /// What the layers from `first` to before `last` may do as a stage, of what fits and may make a step that is shorter
  /// than `beat`; the least first.
  [[nodiscard]] std::vector<LayerChoice> of(int stage, int first, int last, Seconds beat);
  /// Was every mix looked at? Of stages with more than kMostMixes of them only those of at most two ways are: memory is
  /// one limit, and against one limit two ways do as well as any number, but for what overlaps with what.
  bool complete() const { return complete_; }
  std::int64_t looked_at() const { return looked_at_; }
  /// Mixes of the first layers of stages that were begun or grown by a layer.
  std::int64_t followed() const { return followed_; }
  double straggler() const { return straggler_; }

 private:
  /// Time of a layer of each kind under each way, at least, and what its run has of its own while a layer is at
  /// work.
  struct WayFacts {
    std::vector<Seconds> work{};
    std::map<unsigned, std::pair<RealBytes, RealBytes>> transients{};  ///< forward and backward, by kinds in the run
  };
  friend class LayerMixes;

  std::size_t cell_of(int before, int way) const {
    return static_cast<std::size_t>(before + 1) * ways_ + static_cast<std::size_t>(way);
  }
  const Resharding& between(int before, int way) const { return cells_[cell_of(before, way)].input; }
  const GroupSet& groups_between(int before, int way) const { return groups_[cell_of(before, way)]; }
  void number_groups();
  std::pair<RealBytes, RealBytes> transients(int way, unsigned kinds);
  const std::vector<LayerRuns>& mixes(const std::vector<int>& kinds, Seconds most_work);
  StageRuns content_of(int stage, int first, const LayerRuns& runs) const;
  LayerChoice priced(const StageRuns& content, LayerRuns runs) const;

  const Problem& problem_;
  std::size_t ways_;
  RealBytes capacity_;
  double straggler_;
  int pp_;
  std::int64_t micro_batches_, passes_;
  std::vector<Cell> cells_{};  ///< by the way before, none first, and the way
  Evaluator evaluator_;
  std::vector<GroupSet> groups_{};  ///< by cell
  std::vector<WayFacts> facts_{};
  std::map<std::vector<int>, std::vector<LayerRuns>> known_{};  ///< by the kinds of the stage's layers
  bool complete_ = true;
  std::int64_t looked_at_ = 0, followed_ = 0;
};

/// Numbers of layers under each way that are all looked at; and how far a stage's mixes are followed at once.
inline constexpr double kMostMixes = 600;
inline constexpr std::size_t kMostMixLabels = 4'000;
/// Mixes of one pipeline that are begun or grown before no further pair of ways is looked at: about a second.
inline constexpr std::int64_t kMostFollowed = 1'500'000;

}  // namespace plan
