#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "formulas/cluster.hpp"
#include "formulas/communication.hpp"
#include "formulas/layout.hpp"
#include "formulas/real_bytes.hpp"
#include "formulas/traced.hpp"
#include "planner/answer/estimate.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// Time of one phase of one micro-batch, by what it goes to. Communication counts where it is exposed.
struct Phase {
  Seconds compute{}, tp{}, cp{}, ep{};

  constexpr Seconds total() const { return compute + tp + cp + ep; }
  constexpr Phase& operator+=(const Phase& o) {
    compute += o.compute, tp += o.tp, cp += o.cp, ep += o.ep;
    return *this;
  }
  friend constexpr Phase operator+(Phase a, const Phase& b) { return a += b; }
  friend constexpr Phase operator*(double k, const Phase& a) { return {k * a.compute, k * a.tp, k * a.cp, k * a.ep}; }
};

/// An all-to-all of a layer's tokens with the ranks that hold their experts.
struct Exchange {
  RealBytes sent{};      ///< copies of tokens that one rank sends
  RealBytes remote{};    ///< of them over the network, one a node
  bool by_node = false;  ///< so, and the rest inside the domain; else the all-to-all of the collective library
  double imbalance = 1;  ///< tokens of the most loaded rank over the mean
};

/// One kind of message of a layer, per micro-batch.
struct Message {
  Axis axis = Axis::Tp;
  Collective op = Collective::AllReduce;
  Group group{};
  RealBytes size{};     ///< of the whole tensor
  double count = 0;     ///< per micro-batch, forward and backward together
  Seconds time{};       ///< of one
  Seconds exposed{};    ///< per micro-batch, all of them together
  Exchange exchange{};  ///< of experts' messages
};

/// Seconds of one such exchange, of which `all_to_all` is what the collective takes. V: double, or Traced for who asks
/// how.
template <class V>
SecondsOf<V> exchange_seconds(const Cluster& cluster, const Exchange& exchange, const SecondsOf<V>& all_to_all);
/// Slow-down of a collective between the products of a layer: an all-reduce, which reads and writes all that it sums,
/// shares memory and SMs with them; halves of one, as sequence parallelism has them, run as alone.
[[nodiscard]] inline double beside_products(const Calibration& fit, Collective op) {
  return op == Collective::AllReduce ? fit.tensor_parallel : 1;
}

/// Time of one layer kind, one micro-batch, for one way of splitting it.
struct LayerCost {
  Phase forward{};
  Phase backward_input{};
  Phase backward_weight{};
  Seconds split_penalty{};  ///< extra tp time when a schedule separates weight gradients from input gradients
  Phase last{};             ///< part of `forward`: the layer's last product, which no backward pass reads
  RealBytes offloaded{};    ///< sent to the host in forward and fetched in backward
  /// Where another micro-batch runs beside this one: what is left exposed of the all-to-alls of both passes, or, if the
  /// host needs longer to launch the pair than the GPU to run it, by how much.
  Seconds paired_ep{};
  double waiting = 0;  ///< largest share of a pass, or of a pair of them, that the GPU waits for the host's launches
  std::vector<Message> messages{};
  /// All of it, one micro-batch after the other.
  Phase work() const { return forward + backward_input + backward_weight; }
  /// Time of a micro-batch that another one beside it cannot hide.
  Seconds least() const { return work().total() + std::min(Seconds(), paired_ep) - forward.ep - backward_input.ep; }
};

/// How a layer is split: what LayerCost depends on. Layouts that agree here share their layer costs.
struct Split {
  int tp = 1, cp = 1, cp_ulysses = 1, micro_batch = 1;
  CpKind cp_kind = CpKind::Ring;
  bool sequence_parallel = false;
  int ep = 1, etp = 1;  ///< last: what the splits before and behind one have in common is computed once
  auto operator<=>(const Split&) const = default;
  /// Ranks of cp that hand out heads by all-to-all.
  int exchanging() const { return exchanging_ranks(cp_kind, cp, cp_ulysses); }
};
/// What of a layout its layers' costs depend on; what means nothing beside the other degrees is as nobody states it.
[[nodiscard]] Split split_of(const Layout& layout);
/// A layout that is split so, and nothing else.
[[nodiscard]] Layout layout_of(const Split& split);

/// Modules whose recomputation can be chosen, in the order of the RecomputeModule bits.
inline constexpr int kRecomputeModules = 8;

class CommonCosts;

/// Costs of every layer kind and of the pipeline's ends under one split.
class CostModel {
 public:
  /// `known` may hold what other splits of the problem have in common with this one; with it, no messages are listed.
  CostModel(const Problem& problem, const Split& split, CommonCosts* known = nullptr);

  int kinds() const { return static_cast<int>(layers_.size()); }
  const LayerCost& layer(int kind) const { return layers_[static_cast<std::size_t>(kind)]; }
  /// Embedding on the first stage; head and loss on the last, prediction modules included.
  const LayerCost& embedding() const { return embedding_; }
  const LayerCost& head() const { return head_; }
  /// Extra forward work before the backward of one layer when it is recomputed fully.
  Phase full_recompute(int kind) const {
    const LayerCost& cost = layers_[static_cast<std::size_t>(kind)];
    return prunes_ ? cost.forward + -1.0 * cost.last : cost.forward;
  }
  /// Extra forward work before the backward of one layer when only the modules of a RecomputeModule bit set are
  /// recomputed.
  [[nodiscard]] Phase selective_recompute(int kind, std::uint16_t modules) const;

 private:
  bool prunes_;                       ///< Stack::prunes_recompute
  std::vector<char> keeps_products_;  ///< of each kind: where single operators are recomputed, it keeps some
  std::vector<LayerCost> layers_;
  std::vector<std::array<Phase, kRecomputeModules>> module_forward_;
  LayerCost embedding_, head_;
};

}  // namespace plan
