#pragma once

#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/search/enumerate.hpp"
#include "planner/search/family_tables.hpp"
#include "planner/search/least_traffic.hpp"

namespace plan {

// Memory that no layout of a family goes below, before its layers are placed. Two ranks say how much: the mean of all,
// which holds a part of everything, and the fullest, which holds whole layers.

/// States of both ranks, apart from what appears after the peak, and what is gathered beside them, under each sharding
/// that no other one leaves less of everything than. The rest of the memory is nothing.
struct LeastStates {
  std::vector<ShardedMemory> mean{};
  std::vector<ShardedMemory> fullest{};  ///< none: it says no more than the mean
};
/// `fewest` layers are on every rank; `both`: the runs may be of DualPipe.
[[nodiscard]] LeastStates least_states(const Problem& problem, const Layout& family,
                                       const std::vector<Sharding>& shardings, int fewest, bool both,
                                       const MemoryModel& memory);

/// The micro-batch of a family as far as its states depend on it: where there are several, they do not.
[[nodiscard]] int batch_of_states(const Problem& problem, const Layout& family);

/// The same of families, before anything is known of their time.
class LeastStatesOfAny {
 public:
  explicit LeastStatesOfAny(const Problem& problem) : problem_(problem) {}
  RealBytes of(const Layout& family);

 private:
  const Problem& problem_;
  std::map<std::tuple<int, int, int, int>, MemoryModel> models_{};  ///< by tp, ep, etp, pp: what parameters depend on
  std::pair<Degrees, int> last_{};  ///< what was asked for, as far as states depend on it
  RealBytes least_{-1};
};

/// Activations of one of the two ranks at least.
struct LeastHeld {
  int layers = 0;         ///< on the rank
  RealBytes held{};       ///< of each micro-batch in flight
  RealBytes transient{};  ///< while the layer that needs least runs backward, what it rebuilds included
  RealBytes layer{};      ///< what each layer that is rebuilt with it adds to that
};

/// Those of both under one way to recompute.
struct LeastActivity {
  LeastHeld mean{}, fullest{};
  Seconds again{};   ///< work that each micro-batch takes more, on all ranks together
  int together = 1;  ///< layers that are rebuilt at once, of a smaller chunk all
};

/// Of each way to recompute a lower bound, but of those that take more of everything than another; blocks of ever more
/// whole layers share a few.
[[nodiscard]] std::vector<LeastActivity> least_activities(const Problem& problem, const Layout& family,
                                                          const std::vector<Recompute>& recomputes, int fewest,
                                                          const KeptLayers& kept, const MemoryModel& memory,
                                                          const CostModel* costs);

/// What the chunks of a run decide of the memory of its ranks.
struct LeastChunks {
  int vp = 1;
  double flights = 0;  ///< micro-batches that each rank holds at least
};
/// Peak of some rank at least; what is over `capacity` is not looked at further.
[[nodiscard]] RealBytes least_peak(const LeastStates& states, const LeastActivity& under, const LeastChunks& chunks,
                                   const MemoryModel& memory, RealBytes capacity = RealBytes::infinity());

/// Choices of modules; after them come blocks of ever more whole layers, the last of which are all.
[[nodiscard]] std::size_t module_choices(const std::vector<Recompute>& recomputes);
/// Choices up to the last block; after them come all layers again, ever more of them rebuilt together.
[[nodiscard]] std::size_t block_choices(const std::vector<Recompute>& recomputes);

}  // namespace plan
