// What of an Evaluator's data-parallel work is exposed: blocks hide under one another, buckets under the pipeline's
// last backward passes and first forward ones (plan-formulas(7) E4). Assumes that what is hidden costs the calibrated
// share of itself. Tested by tests/planner/estimate_test.cpp.
#include <algorithm>
#include <type_traits>
#include <utility>

#include "formulas/traced.hpp"
#include "planner/cost/gathered.hpp"
#include "planner/estimate/evaluate.hpp"

namespace plan {
namespace {

template <class V>
V tax_of(const Problem& problem) {
  return symbol<V>("x", problem.cluster.calibration.overlap_tax,
                   "what hidden time costs of itself, as kernels share "
                   "the GPU",
                   kConstantsOrigin);
}

/// Keeps of two stages the one that takes longer, for which the other waits.
template <class V>
void keep_longer(V& longest, const V& other) {
  if (value_of(other) > value_of(longest)) longest = other;
}

/// How a bucket's communication hides in an interleaved pipeline: chunks reduce (and fetch) one by one, aligned over
/// the ranks, so that all but the last hide under the others' micro-batches, which pass group by group.
template <class V>
struct Hiding {
  V tax;          ///< what hidden time costs of itself
  double last;    ///< share of the buckets that nothing but the slack follows: the last chunk's
  double others;  ///< passes beside which the rest hides
  bool reduces_once;

  /// Exposed part of `comm`, seconds, beside passes of `pass` seconds each and `slack` seconds at the end.
  SecondsOf<V> exposed(const SecondsOf<V>& comm, const SecondsOf<V>& pass, const SecondsOf<V>& slack,
                       bool overlap) const {
    using Time = SecondsOf<V>;
    if (!overlap) return comm;
    const Time early = smaller((1 - last) * comm, others * pass);
    const Time hidden = early + smaller(comm - early, slack);
    return comm - hidden + tax * hidden;
  }
  /// ZeRO-2 reduces after every pass, each but the last beside the next one's backward.
  SecondsOf<V> summed(const SecondsOf<V>& once, const SecondsOf<V>& backward, const V& passes) const {
    return reduces_once ? SecondsOf<V>(0.0) : sent_again(once, backward, passes, tax, true);
  }
  /// Exposed part of what is gathered once a step, or with `passes` once for each of so many.
  SecondsOf<V> gathered(const SecondsOf<V>& once, const SecondsOf<V>& pass, const SecondsOf<V>& slack, bool overlap,
                        const V* passes) const {
    const SecondsOf<V> first = exposed(once, pass, slack, overlap);
    return passes == nullptr ? first : first + sent_again(once, pass, *passes, tax, overlap);
  }
};

/// Work of the ranks before one in the pipeline: its slack, since it is waited for only when they are done.
struct EarlierRanks {
  Seconds forward, backward;

  void add(const Segment& segment, const StageCost& cost, int vp) {
    forward += segment.ranks * cost.forward.total() / vp;
    backward += segment.ranks * cost.backward() / vp;
  }
};

}  // namespace

/// ZeRO-3: the next block's gather hides under this block's compute, forward and backward.
template <class V>
SecondsOf<V> Evaluator::block_exposed(const StageCost& cost, const ShardingPrice<SecondsOf<V>>& price, double layers,
                                      bool rebuilt) const {
  using Time = SecondsOf<V>;
  const V tax = tax_of<V>(problem_);
  const bool overlaps = problem_.training.stack.overlap_param_gather;
  const auto hide = [&](const Time& comm, const Time& compute) {
    if (!overlaps) return comm;
    return larger(Time(0.0), comm - compute) + tax * smaller(comm, compute);
  };
  const V blocks = symbol<V>("B", std::max(1.0, layers), "layers of the stage", "layout");
  const Time forward = symbol<Time>("f", cost.forward.total(), "seconds of its forward pass", "plan explain compute");
  const Time backward = symbol<Time>("b", cost.backward(), "seconds of its backward pass", "plan explain compute");
  const Time first = problem_.training.stack.reshard_after_forward ? price.gather : Time(0.0);
  const Time again = first + price.reduce + (rebuilt ? price.refetch : Time(0.0));
  return blocks * (hide(price.gather / blocks, forward / blocks) + hide(again / blocks, backward / blocks));
}
template Seconds Evaluator::block_exposed<double>(const StageCost&, const DataParallel&, double, bool) const;

template <class V, class PriceOf>
ExposedSharding<SecondsOf<V>> Evaluator::exposed_law(const Layout& layout, const PriceOf& price_of) const {
  using Time = SecondsOf<V>;
  const Stack& stack = problem_.training.stack;
  const bool by_chunk = schedule_row(layout.schedule).passes == Passes::EachGroup;
  const double last = by_chunk ? 1.0 / layout.vp : 1.0;
  const Hiding<V> hiding{tax_of<V>(problem_), last, by_chunk ? (1 - last) * pipeline_.group : 0, stack.reduces_once};
  const V passes = symbol<V>("n", passes_, "passes of a step", "schedule");
  ExposedSharding<Time> worst;
  EarlierRanks earlier;
  auto holder = placement_->holders.begin();
  for (const Segment& segment : placement_->segments) {
    const auto content = static_cast<std::size_t>(segment.content);
    const StageCost& cost = stage_costs_[content];
    const EarlierRanks before = earlier;
    earlier.add(segment, cost, layout.vp);
    if (cells_.empty()) {  // of ranks that do the same the first has the least slack, rank 0 apart
      if (holder == placement_->holders.end()) break;
      if (holder->first != segment.first) continue;
      ++holder;
    }
    const ShardingPrice<Time>& price = price_of(content);
    const Layout& own = layout_of(stages().contents[content], layout);
    const StageRuns* runs = runs_of(stages().contents[content]);
    keep_longer(worst.optimizer, price.optimizer);
    keep_longer(worst.table, price.table);  // once the gradients are reduced, with nothing left to hide it
    if (runs == nullptr && own.zero == 3) {
      keep_longer(worst.reduce, passes * block_exposed<V>(cost, price, placement_->layers[content],
                                                          own.recompute.kind == RecomputeKind::Full));
      continue;
    }
    // Rank 0 hides its buckets under its own last backward pass, later ranks under the drain of the pipeline:
    // of equal ones the first has the least time.
    const Time backward =
        symbol<Time>("b", cost.backward(), "seconds of the stage's backward pass", "plan explain compute");
    const Time forward =
        symbol<Time>("f", cost.forward.total(), "seconds of the stage's forward pass", "plan explain compute");
    const bool first = segment.first == 0;
    const Time reduce_slack = symbol<Time>("s_r", first ? 0.9 * last * cost.backward() : before.backward,
                                           "seconds of backward passes that it runs beside", "schedule");
    const Time gather_slack = symbol<Time>("s_g", first ? 0.9 * last * cost.forward.total() : before.forward,
                                           "seconds of forward passes that it runs beside", "schedule");
    Time reduce = price.reduce, gather = price.gather;
    Time besides = own.zero == 2 ? hiding.summed(reduce, backward, passes) : Time(0.0);
    if constexpr (std::is_same_v<V, double>)
      if (runs != nullptr) {
        const Moved apart = moved_of_runs(*runs);
        reduce = apart.late.reduce, gather = apart.late.gather;
        besides = apart.blocks + hiding.summed(apart.repeated, backward, passes);
        if (apart.all_blocks) {
          worst.reduce = std::max(worst.reduce, apart.blocks);
          continue;
        }
      }
    keep_longer(worst.reduce, besides + hiding.exposed(reduce, backward, reduce_slack, stack.overlap_grad_reduce));
    const V* each_pass = runs == nullptr && gathers_each_pass(problem_.training, own) ? &passes : nullptr;
    keep_longer(worst.gather, hiding.gathered(gather, forward, gather_slack, stack.overlap_param_gather, each_pass));
  }
  return worst;
}

Evaluator::Exposed Evaluator::exposed(const Layout& layout, std::span<const DataParallel> prices) const {
  return exposed_law<double>(layout, [&](std::size_t content) -> const DataParallel& { return prices[content]; });
}

std::vector<DataParallel> Evaluator::prices_of(const Layout& layout, const MemoryModel& memory) const {
  std::vector<DataParallel> prices;
  for (const StageContent& content : stages().contents) {
    DataParallel sum;
    each_state(content, [&](const StageContent& part) { sum += price_of(layout, memory, part); });
    prices.push_back(sum);
  }
  return prices;
}

Evaluator::TracedSharding Evaluator::traced_sharding(const Layout& layout, const MemoryModel& memory) const {
  TracedSharding out;
  std::vector<ShardingPrice<Traced>> prices;
  double longest = -1;
  for (std::size_t i = 0; i < stages().contents.size(); ++i) {
    const StageContent& content = stages().contents[i];
    ShardingPrice<Traced> price = pricer_.price<Traced>(layout, memory.sums(content), content, problem_.cluster);
    if (price.optimizer.value() > longest) longest = price.optimizer.value(), out.stepped = static_cast<int>(i);
    const auto letter = [](const char* name, Traced& law, const char* meaning) {
      law = lettered<Traced>(name, law, meaning, "s");
    };
    letter("C_r", price.reduce, "seconds to reduce the gradients once");
    letter("C_g", price.gather, "seconds to gather the parameters once");
    letter("C_f", price.refetch, "seconds to gather them again for recomputation");
    prices.push_back(std::move(price));
  }
  out.exposed =
      exposed_law<Traced>(layout, [&](std::size_t content) -> const ShardingPrice<Traced>& { return prices[content]; });
  return out;
}

}  // namespace plan
