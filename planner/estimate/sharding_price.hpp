#pragma once

#include <array>

#include "planner/cost/message_times.hpp"
#include "planner/estimate/stages.hpp"
#include "planner/memory/memory.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// Data-parallel work of one rank content, per step. Time: Seconds, or Traced for who asks how.
template <class Time>
struct ShardingPrice {
  Time reduce{0.0};     ///< gradient reduction, all of it once
  Time gather{0.0};     ///< parameter gathering, all of it once
  Time refetch{0.0};    ///< the gathering again where layers are recomputed whole, before their backward passes
  Time table{0.0};      ///< sum of the embedding's gradients that first and last stage hold
  Time optimizer{0.0};  ///< the optimizer step
  ShardingPrice& operator+=(const ShardingPrice& o) {
    reduce = reduce + o.reduce, gather = gather + o.gather, refetch = refetch + o.refetch, table = table + o.table;
    optimizer = optimizer + o.optimizer;
    return *this;
  }
};
using DataParallel = ShardingPrice<Seconds>;

/// One kind of message that a rank sends for data parallelism.
struct ShardingMessage {
  /// Table: the embedding that first and last stage share. Outer: what copies that train apart tell each other.
  enum class What { Reduce, Gather, Table, Outer };
  What what = What::Reduce;
  Collective op = Collective::AllReduce;
  Group group{};
  RealBytes bytes{};  ///< full size of what one pass moves
  double passes = 1;  ///< of a step
  double parts = 1;   ///< messages of a pass
};

/// All of them: for dense and expert parameters at most two reductions and a gather each, and the shared table.
struct ShardingMessages {
  std::array<ShardingMessage, 7> all{};
  int count = 0;
  double dense_owners = 1, expert_owners = 1;  ///< ranks that share out the states that one of them steps
  const ShardingMessage* begin() const { return all.data(); }
  const ShardingMessage* end() const { return all.data() + count; }
};

/// Prices the states of a rank content under any layout of a problem: gradients summed, parameters gathered, optimizer
/// stepped. It asks nothing of where layers lie or what is recomputed, so that a search can price before it places.
class ShardingPricer {
 public:
  /// `known` may hold the times of passes that other layouts of the problem have in common with those priced here.
  explicit ShardingPricer(const Problem& problem, MessageTimes* known = nullptr) : problem_(problem), known_(known) {}

  /// Data-parallel work of a content on `cluster` under one sharding. Of the schedule it reads only whether stages are
  /// held twice, both ways. Messages under `least_bytes` are left out. `sums` are the content's.
  template <class V>
  [[nodiscard]] ShardingPrice<SecondsOf<V>> price(const Layout& layout, const StageSums& sums,
                                                  const StageContent& content, const Cluster& cluster,
                                                  RealBytes least_bytes = {}) const;

  /// The messages behind that price. `passes` of a step gather or reduce blocks under ZeRO-2 and 3
  /// (sharding_passes()).
  [[nodiscard]] ShardingMessages messages(const Layout& layout, const StageSums& sums, const StageContent& content,
                                          double passes) const;

  /// Time of one pass of a message on a cluster, all siblings of its group at once.
  [[nodiscard]] Seconds pass_time(const ShardingMessage& message, const Cluster& cluster) const {
    if (known_ == nullptr) return pass_law<double>(message, cluster);
    return known_->of(message.op, message.bytes, message.parts, message.group,
                      [&] { return pass_law<double>(message, cluster); });
  }

 private:
  int expert_layers(const StageContent& content) const;
  template <class V>
  SecondsOf<V> pass_law(const ShardingMessage& message, const Cluster& cluster) const;
  template <class V>
  SecondsOf<V> list_copies(const ShardingMessage& message, const Cluster& cluster) const;

  const Problem& problem_;
  MessageTimes* known_;
};

}  // namespace plan
