#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "planner/estimate/evaluate.hpp"
#include "planner/rules/rules.hpp"
#include "planner/search/enumerate.hpp"
#include "planner/search/least_traffic.hpp"

namespace plan {

/// The shardings that the rules leave a run, whatever its schedule, vp, micro-batch and kind of context.
struct ShardingList {
  Layout run{};  ///< one of those
  std::vector<Sharding> all{};
  Tally tally{};  ///< of those that they do not leave
  /// Of `wanted` frameworks those that run each, as far as its sharding goes; asked once.
  const std::vector<FrameworkMask>& runs_on(const Problem& problem, FrameworkMask wanted) const;
  /// Is each of them one of the others? Both lists are in the order of enumerate_shardings().
  bool among(const ShardingList& others) const;

 private:
  mutable std::vector<FrameworkMask> runs_on_{};
};

/// How many layouts a family has: none of its inner rules reads the kind of context.
struct Counted {
  std::int64_t legal = 0;
  Tally tally{};  ///< of the others
};

/// The runs that rules leave a family, whatever its kind of context.
struct RunList {
  std::vector<Pipelining> all{};
  Tally tally{};  ///< of those that they do not leave
  /// Of `wanted` frameworks those that run `family` with each, as far as its schedule goes; asked once.
  const std::vector<FrameworkMask>& runs_on(const Problem& problem, const Layout& family, FrameworkMask wanted) const;

 private:
  mutable std::vector<FrameworkMask> runs_on_{};
};

/// The lists of runs and shardings that rules leave, kept from family to family.
class ShardingLists {
 public:
  explicit ShardingLists(const Problem& problem) : problem_(problem) {}
  /// Turns to the runs of this family. True: the lists of all others are forgotten.
  bool turn_to(const Layout& family);
  const ShardingList& of(const Layout& run, InnerSpace& inner);
  /// Of the family at hand.
  const RunList& runs(const Layout& family, InnerSpace& inner);
  /// Of the family at hand those of `wanted` that run it, as far as its degrees go.
  FrameworkMask runs_on_degrees(const Layout& family, FrameworkMask wanted);
  /// Of the family at hand; none: it was not counted yet.
  std::optional<Counted>& counted() { return batch_->counted; }

 private:
  /// Of families that share the micro-batch, too.
  struct OfBatch {
    std::optional<RunList> runs{};
    std::optional<Counted> counted{};
  };
  struct Lists {
    std::array<std::optional<ShardingList>, 2 * kAxisOrders> shardings{};  ///< by copies of the parameters, then order
    std::map<int, OfBatch> batches{};                                      ///< by micro-batch
    std::optional<FrameworkMask> runs_on{};
  };
  const Problem& problem_;
  /// With the order the degrees are all that rules of sharding may read, and with the copies all that counts what they
  /// reject.
  std::map<Degrees, Lists> lists_{};
  Lists* present_ = nullptr;
  OfBatch* batch_ = nullptr;
};

/// Of one layer, what recomputing some modules decides.
struct KeptLayer {
  RealBytes kept{};      ///< from forward to backward
  RealBytes backward{};  ///< alive only while its backward runs
};

/// What the layers of a family keep under each choice of modules, counted once: no placement changes it.
class KeptLayers {
 public:
  /// `modules` are the ways to recompute modules, after which a last choice means none. Leaves `memory` at none.
  KeptLayers(const Model& model, std::span<const Recompute> modules, MemoryModel& memory);

  std::size_t choices() const { return choices_; }
  const KeptLayer& of(std::size_t choice, int kind) const {
    return layers_[choice * kinds_ + static_cast<std::size_t>(kind)];
  }
  /// The sums of a rank's layers under a choice.
  KeptLayer sum(const StageContent& content, std::size_t choice) const;

 private:
  const Model& model_;
  std::size_t kinds_, choices_;
  std::vector<KeptLayer> layers_{};  ///< by choice, then kind
};

/// What of the work that states make, by order of axes and sharding; filled in when first asked for.
using Prices = std::array<std::vector<std::optional<DataParallel>>, kAxisOrders>;

/// Those of ranks that hold the same. The micro-batch and the kind of context change none, so that families which
/// differ in those alone share them.
class PriceBook {
 public:
  /// Turns to a family: prices of others may be forgotten.
  void turn_to(const Layout& family);
  /// Prices of a rank that holds `content`, one for each of `shardings`; `both`: of DualPipe.
  Prices& of(const StageContent& content, bool both, const std::vector<Sharding>& shardings);

 private:
  struct Page {
    StageContent content{};
    bool both = false;
    std::vector<Sharding> shardings{};
    Prices prices{};
  };
  Degrees family_{};  ///< at hand
  std::map<Degrees, std::vector<std::unique_ptr<Page>>> pages_{};
  std::size_t prices_ = 0;  ///< that there is room for
};

/// What a rank holds, with all that sharding decides of it. No placement, schedule or recomputation changes that, and
/// the order of axes nothing but the prices, so that the runs of a family share it.
struct Holding {
  StageContent content{};
  bool later = false;  ///< not the first rank
  bool both = false;   ///< of DualPipe
  const ShardingList* shardings = nullptr;
  StageSums sums{};                     ///< under the choice of modules that was asked for last
  std::vector<KeptLayer> kept{};        ///< of those sums, by choice of modules; last, of none
  KeptLayer least_kept{};               ///< no choice leaves less of either
  std::vector<ShardedMemory> memory{};  ///< by sharding
  ShardedMemory least{};                ///< no sharding takes less of anything
  Prices* prices = nullptr;
  /// Blocks of whole layers are counted from what is kept when nothing is recomputed.
  const StageSums& sums_of(std::size_t choice) { return sums_with(kept[std::min(choice, kept.size() - 1)]); }
  const StageSums& sums_with(const KeptLayer& layers) {
    sums.kept = layers.kept, sums.backward = layers.backward;
    return sums;
  }
};

/// The holdings of one family.
class Holdings {
 public:
  void clear() { all_.clear(); }
  /// The holding of each holder of a placement, in their order; made where no rank before held the same.
  std::vector<Holding*> of(const Placement& placement, const Layout& run, const ShardingList& shardings,
                           const KeptLayers& kept, const MemoryModel& memory, PriceBook& book);

 private:
  Holding* find(const Holding& like) const;
  static void fill(Holding& holding, Layout layout, const KeptLayers& kept, const MemoryModel& memory, PriceBook& book);

  std::vector<std::unique_ptr<Holding>> all_{};
};

}  // namespace plan
