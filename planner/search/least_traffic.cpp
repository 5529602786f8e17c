// What of a step no layout of a family hides: the least that states send and the optimizer does. Tested by
// tests/planner/properties_test.cpp.
#include "planner/search/least_traffic.hpp"

#include <algorithm>
#include <functional>

#include "formulas/scale_up.hpp"
#include "planner/estimate/evaluate.hpp"

namespace plan {

namespace {

/// Has a layer as many parameters as another of every sort that bytes are counted by?
bool as_heavy(const LayerMemory& layer, const LayerMemory& least) {
  const auto parts = [](const LayerMemory& of) {
    const double quantised = of.quantised_parameters - of.expert_quantised_parameters;
    return std::array{of.trained_dense,
                      of.trained_expert,
                      of.dense_parameters - of.trained_dense,
                      of.expert_parameters - of.trained_expert,
                      quantised,
                      of.expert_quantised_parameters,
                      of.dense_parameters - quantised,
                      of.expert_parameters - of.expert_quantised_parameters};
  };
  const auto more = parts(layer), less = parts(least);
  return std::equal(more.begin(), more.end(), less.begin(), std::greater_equal<>());
}

}  // namespace

FullestRank fullest_rank(const Problem& problem, const MemoryModel& memory, int pp) {
  const std::size_t kinds = problem.model.kinds.size();
  std::array<int, kMaxLayerKinds> layers{};
  for (const int kind : problem.model.layers) ++layers[static_cast<std::size_t>(kind)];
  FullestRank fullest;
  double most = 0;
  for (std::size_t kind = 0; kind < kinds; ++kind) {
    const LayerMemory& least = memory.layer(static_cast<int>(kind));
    FullestRank rank;
    for (std::size_t other = 0; other < kinds; ++other) {
      rank.may_hold[other] = layers[other] > 0 && as_heavy(memory.layer(static_cast<int>(other)), least);
      if (rank.may_hold[other]) rank.of_model += layers[other];
    }
    const double parameters = rank.layers_on(pp) * (least.dense_parameters + least.expert_parameters);
    if (parameters <= most) continue;
    rank.content.layers_of_kind[kind] = rank.layers_on(pp);
    most = parameters, fullest = rank;
  }
  return fullest;
}

LeastTraffic::LeastTraffic(const Problem& problem) : problem_(problem), sure_bytes_(grows_from(problem.cluster)) {}

void LeastTraffic::turn_to(const Layout& family) {
  constexpr std::size_t kMostTimes = 1 << 18;  // that are kept
  if (times_ > kMostTimes) known_.clear(), times_ = 0;
  family_ = degrees_of(family);
}

const std::vector<Seconds>& LeastTraffic::of(const Layout& run, const std::vector<Sharding>& shardings,
                                             const ShardingPricer& pricer, const MemoryModel& memory) {
  const bool both = both_ways(run.schedule);
  Known& known = known_[family_];
  for (const std::unique_ptr<Page>& page : known.pages)
    if (page->order == run.order && page->both == both && page->shardings == shardings) return page->least;
  if (!known.content) known.content = fullest_rank(problem_, memory, run.pp).content;
  Page& page = *known.pages.emplace_back(std::make_unique<Page>(Page{run.order, both, shardings}));
  page.least.reserve(shardings.size());
  const StageSums sums = memory.sums(*known.content);
  Layout layout = run;
  for (const Sharding& sharding : shardings) {
    layout.zero = sharding.zero, layout.shard = sharding.shard;
    page.least.push_back(under(layout, pricer, sums, *known.content));
  }
  times_ += shardings.size();
  return page.least;
}

Seconds LeastTraffic::under(const Layout& layout, const ShardingPricer& pricer, const StageSums& sums,
                            const StageContent& content) const {
  const Stack& stack = problem_.training.stack;
  const auto exposed = [&](bool overlaps) {
    return overlaps ? std::min(1.0, problem_.cluster.calibration.overlap_tax) : 1.0;
  };
  const DataParallel price = pricer.price<double>(layout, sums, content, problem_.cluster, sure_bytes_);
  const double reduce = exposed(layout.zero == 3 ? stack.overlap_param_gather : stack.overlap_grad_reduce);
  return Seconds(kBelow *
                 (reduce * price.reduce + exposed(stack.overlap_param_gather) * price.gather + price.optimizer));
}

}  // namespace plan
