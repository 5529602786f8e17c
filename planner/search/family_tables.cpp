// What the runs of a family share, each computed once: the shardings that rules leave them, and what of a rank's memory
// and traffic sharding decides. Tested by tests/planner/search_test.cpp.
#include "planner/search/family_tables.hpp"

#include <algorithm>
#include <optional>

namespace plan {
namespace {

constexpr std::size_t kMostFamilies = 8192;   // whose lists are kept
constexpr std::size_t kMostPrices = 1 << 18;  // that are kept

void lower(ShardedMemory& least, const ShardedMemory& other) {
  least.weights = std::min(least.weights, other.weights);
  least.grads = std::min(least.grads, other.grads);
  least.optimizer = std::min(least.optimizer, other.optimizer);
  least.communication = std::min(least.communication, other.communication);
  least.forward = std::min(least.forward, other.forward);
  least.backward = std::min(least.backward, other.backward);
  least.next_backward = std::min(least.next_backward, other.next_backward);
  least.last_backward = std::min(least.last_backward, other.last_backward);
  least.head = std::min(least.head, other.head);
  least.head_reduced = std::min(least.head_reduced, other.head_reduced);
  least.late_grads = std::max(least.late_grads, other.late_grads);  // what is not there yet lowers the peak
  least.embedding = std::min(least.embedding, other.embedding);
  least.embedding_late = std::max(least.embedding_late, other.embedding_late);
  least.second_late = std::max(least.second_late, other.second_late);
  least.step = std::min(least.step, other.step);
  least.resident = std::min(least.resident, other.resident);
}

}  // namespace

const std::vector<FrameworkMask>& ShardingList::runs_on(const Problem& problem, FrameworkMask wanted) const {
  if (!runs_on_.empty()) return runs_on_;
  Layout layout = run;
  for (const Sharding& each : all) {
    layout.zero = each.zero, layout.shard = each.shard;
    runs_on_.push_back(accepting(problem, layout, Level::Sharding, wanted));
  }
  return runs_on_;
}

const std::vector<FrameworkMask>& RunList::runs_on(const Problem& problem, const Layout& family,
                                                   FrameworkMask wanted) const {
  if (runs_on_.empty())
    for (const Pipelining& run : all)
      runs_on_.push_back(accepting(problem, run_of(problem, family, run), Level::Schedule, wanted));
  return runs_on_;
}

bool ShardingList::among(const ShardingList& others) const {
  auto next = others.all.begin();
  for (const Sharding& each : all) {
    next = std::find(next, others.all.end(), each);
    if (next == others.all.end()) return false;
  }
  return true;
}

bool ShardingLists::turn_to(const Layout& family) {
  const bool forgets = lists_.size() > kMostFamilies;
  if (forgets) lists_.clear();
  present_ = &lists_[degrees_of(family)];
  batch_ = &present_->batches[family.micro_batch];
  return forgets;
}

const ShardingList& ShardingLists::of(const Layout& run, InnerSpace& inner) {
  const std::size_t copies = both_ways(run.schedule) ? 1 : 0;
  std::optional<ShardingList>& list = present_->shardings[copies * kAxisOrders + static_cast<std::size_t>(run.order)];
  if (!list) {
    list.emplace();
    list->run = run;
    list->all = enumerate_shardings(problem_, run, list->tally, inner);
  }
  return *list;
}

const RunList& ShardingLists::runs(const Layout& family, InnerSpace& inner) {
  std::optional<RunList>& list = batch_->runs;
  if (!list) {
    list.emplace();
    list->all = enumerate_runs(problem_, family, list->tally, inner);
  }
  return *list;
}

FrameworkMask ShardingLists::runs_on_degrees(const Layout& family, FrameworkMask wanted) {
  std::optional<FrameworkMask>& known = present_->runs_on;
  if (!known) {
    known = wanted;
    for (const Level level : {Level::Grid, Level::Experts}) known = accepting(problem_, family, level, *known);
  }
  return *known;
}

Holding* Holdings::find(const Holding& like) const {
  for (const std::unique_ptr<Holding>& known : all_)
    if (known->later == like.later && known->both == like.both && known->content == like.content &&
        (known->shardings == like.shardings || known->shardings->all == like.shardings->all))
      return known.get();
  return nullptr;
}

KeptLayers::KeptLayers(const Model& model, std::span<const Recompute> modules, MemoryModel& memory)
    : model_(model), kinds_(model.kinds.size()), choices_(modules.size() + 1) {
  layers_.reserve(choices_ * kinds_);
  for (std::size_t choice = 0; choice < choices_; ++choice) {
    memory.recompute(choice < modules.size() ? modules[choice] : Recompute{});
    for (std::size_t kind = 0; kind < kinds_; ++kind) {
      const LayerMemory& layer = memory.layer(static_cast<int>(kind));
      layers_.push_back({layer.kept, layer.backward_transient});
    }
  }
}

KeptLayer KeptLayers::sum(const StageContent& content, std::size_t choice) const {
  KeptLayer sum;
  const KeptLayer* layers = &layers_[choice * kinds_];
  for (std::size_t kind = 0; kind < kinds_; ++kind) {
    const int count = layers_run(model_, content, static_cast<int>(kind));
    if (count == 0) continue;
    sum.kept += count * layers[kind].kept;
    sum.backward = std::max(sum.backward, layers[kind].backward);
  }
  return sum;
}

std::vector<Holding*> Holdings::of(const Placement& placement, const Layout& run, const ShardingList& shardings,
                                   const KeptLayers& kept, const MemoryModel& memory, PriceBook& book) {
  std::vector<Holding*> holders;
  holders.reserve(placement.holders.size());
  for (const Segment& holder : placement.holders) {
    Holding like;
    like.content = placement.stages.contents[static_cast<std::size_t>(holder.content)];
    like.later = holder.first > 0, like.both = both_ways(run.schedule), like.shardings = &shardings;
    Holding* known = find(like);
    if (known == nullptr) {
      known = all_.emplace_back(std::make_unique<Holding>(std::move(like))).get();
      fill(*known, run, kept, memory, book);
    }
    holders.push_back(known);
  }
  return holders;
}

void PriceBook::turn_to(const Layout& family) {
  if (prices_ > kMostPrices) pages_.clear(), prices_ = 0;
  family_ = degrees_of(family);
}

Prices& PriceBook::of(const StageContent& content, bool both, const std::vector<Sharding>& shardings) {
  std::vector<std::unique_ptr<Page>>& pages = pages_[family_];
  for (const std::unique_ptr<Page>& page : pages)
    if (page->both == both && page->content == content && page->shardings == shardings) return page->prices;
  Page& page = *pages.emplace_back(std::make_unique<Page>(Page{content, both, shardings}));
  for (auto& prices : page.prices) prices.resize(shardings.size());
  prices_ += page.prices.size() * shardings.size();
  return page.prices;
}

void Holdings::fill(Holding& holding, Layout layout, const KeptLayers& kept, const MemoryModel& memory,
                    PriceBook& book) {
  holding.sums = memory.sums(holding.content);
  holding.kept.reserve(kept.choices());
  for (std::size_t choice = 0; choice < kept.choices(); ++choice)
    holding.kept.push_back(kept.sum(holding.content, choice));
  holding.least_kept = holding.kept.back();
  for (const KeptLayer& one : holding.kept) {
    holding.least_kept.kept = std::min(holding.least_kept.kept, one.kept);
    holding.least_kept.backward = std::min(holding.least_kept.backward, one.backward);
  }
  holding.memory.reserve(holding.shardings->all.size());
  for (const Sharding& sharding : holding.shardings->all) {
    layout.zero = sharding.zero, layout.shard = sharding.shard;
    holding.memory.push_back(memory.sharded(layout, holding.later ? 1 : 0, holding.content, holding.sums));
  }
  holding.prices = &book.of(holding.content, holding.both, holding.shardings->all);
  holding.least = holding.memory.front();
  for (const ShardedMemory& memory_of_one : holding.memory) lower(holding.least, memory_of_one);
}

}  // namespace plan
