#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "planner/estimate/sharding_price.hpp"
#include "planner/search/enumerate.hpp"

namespace plan {

/// Layers that some rank of every placement holds at least: of those with as many parameters as one kind or more, no
/// fewer than the mean.
struct FullestRank {
  StageContent content{};                       ///< as many of the kind with the fewest parameters
  std::array<bool, kMaxLayerKinds> may_hold{};  ///< the kinds that its layers may be of
  int of_model = 0;                             ///< layers of those kinds on all ranks; 0: none has parameters
  int layers_on(int pp) const { return (of_model + pp - 1) / pp; }
};
/// The kind is the one of which that is the most parameters.
[[nodiscard]] FullestRank fullest_rank(const Problem& problem, const MemoryModel& memory, int pp);

/// A family but for its kind of context parallelism and its micro-batch, which change nothing of how states are shared.
using Degrees = std::tuple<int, int, int, int, int, int, bool>;
[[nodiscard]] inline Degrees degrees_of(const Layout& l) {
  return {l.tp, l.cp, l.pp, l.dp, l.ep, l.etp, l.sequence_parallel};
}

/// What gradients, parameters and the optimizer step of the fullest rank add to each step at least, whatever
/// hides their traffic: what is hidden slows the work that hides it. A straggler's share comes on top.
class LeastTraffic {
 public:
  explicit LeastTraffic(const Problem& problem);
  /// Turns to a family: what was found of others may be forgotten. The micro-batch and the kind of context change
  /// nothing, so that families which differ in those alone share it.
  void turn_to(const Layout& family);
  /// Under each sharding of a run.
  const std::vector<Seconds>& of(const Layout& run, const std::vector<Sharding>& shardings,
                                 const ShardingPricer& pricer, const MemoryModel& memory);

 private:
  struct Page {
    AxisOrder order = AxisOrder::PipelineOutermost;
    bool both = false;  ///< of DualPipe
    std::vector<Sharding> shardings{};
    std::vector<Seconds> least{};
  };
  Seconds under(const Layout& layout, const ShardingPricer& pricer, const StageSums& sums,
                const StageContent& content) const;

  /// What was found of families with the same degrees.
  struct Known {
    std::optional<StageContent> content{};
    std::vector<std::unique_ptr<Page>> pages{};
  };

  const Problem& problem_;
  RealBytes sure_bytes_{};  ///< a larger message never takes less time from here on
  Degrees family_{};        ///< at hand
  std::map<Degrees, Known> known_{};
  std::size_t times_ = 0;  ///< that are known
};

}  // namespace plan
