// Branch and bound inside one family: first where the layers stand, then what is recomputed, then how states are
// sharded. What does not change from one choice to the next is computed once. Tested by tests/planner/search_test.cpp.
#include "planner/family_search.hpp"

#include <algorithm>
#include <limits>

namespace plan {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

bool is_block(const Recompute& recompute) { return recompute.kind == RecomputeKind::Full; }

/// Choices of modules; behind them stand blocks of ever more whole layers.
std::size_t module_choices(const std::vector<Recompute>& recomputes) {
  return static_cast<std::size_t>(std::find_if(recomputes.begin(), recomputes.end(), is_block) - recomputes.begin());
}

bool same(const std::vector<Sharding>& a, const std::vector<Sharding>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Sharding& x, const Sharding& y) { return x.zero == y.zero && x.shard == y.shard; });
}

void lower(ShardedMemory& least, const ShardedMemory& other) {
  least.weights = std::min(least.weights, other.weights);
  least.grads = std::min(least.grads, other.grads);
  least.optimizer = std::min(least.optimizer, other.optimizer);
  least.communication = std::min(least.communication, other.communication);
  least.forward = std::min(least.forward, other.forward);
  least.backward = std::min(least.backward, other.backward);
  least.head = std::min(least.head, other.head);
  least.head_reduced = std::min(least.head_reduced, other.head_reduced);
  least.late_grads = std::max(least.late_grads, other.late_grads);  // what is not there yet lowers the peak
  least.embedding = std::min(least.embedding, other.embedding);
  least.embedding_late = std::max(least.embedding_late, other.embedding_late);
  least.step = std::min(least.step, other.step);
  least.resident = std::min(least.resident, other.resident);
}

void lower(ActivityMemory& least, const ActivityMemory& other) {
  least.activations = std::min(least.activations, other.activations);
  least.forward = std::min(least.forward, other.forward);
  least.backward = std::min(least.backward, other.backward);
  least.at_head = std::min(least.at_head, other.at_head);
  least.embedding = std::min(least.embedding, other.embedding);
  least.embedding_transient = std::min(least.embedding_transient, other.embedding_transient);
}

}  // namespace

FamilyOutcome FamilySearch::run(const Costed& family, const Kept& kept) {
  FamilyOutcome outcome{Kept(problem_)};
  kept_ = &kept, plainest_.reset(), outcome_ = &outcome;
  search_family(family);
  return outcome;
}

std::optional<Candidate> FamilySearch::plainest(const Costed& family, double slowest,
                                                const std::optional<Candidate>& best) {
  FamilyOutcome uncounted{Kept(problem_)};
  kept_ = nullptr, plainest_ = {slowest, best}, outcome_ = &uncounted;
  if (!bounds_ || !never_plainest(family.layout, family.bound, wanted_)) search_family(family);
  return plainest_->best;
}

void FamilySearch::search_family(const Costed& family) {
  costs_ = family.costs;
  evaluator_.reset(), memory_.reset();
  legal_.clear(), tables_.clear(), twins_.clear();
  legal_.reserve(kSchedules);
  family_runs_on_ = wanted_;
  for (const Level level : {Level::Grid, Level::Experts, Level::MicroBatch, Level::Context})
    family_runs_on_ = accepting(problem_, family.layout, level, family_runs_on_);
  for (const Pipelining& run : enumerate_runs(problem_, family.layout, outcome_->tally)) {
    Layout layout = run_of(problem_, family.layout, run);
    vp_ = run.vp;
    const std::vector<Sharding>& shardings = shardings_of(layout);
    if (shardings.empty()) continue;
    if (static_cast<std::size_t>(vp_) >= twins_.size())
      twins_.resize(static_cast<std::size_t>(vp_) + 1, {kNever, kNever});
    const std::vector<Recompute>& recomputes = recomputes_of(layout);
    run_runs_on_ = accepting(problem_, layout, Level::Schedule, family_runs_on_);
    if (recomputes.empty())  // the one that the user fixed
      outcome_->tally.reject(broken_rule(problem_, problem_.fixed.recompute.value_or(Recompute{})),
                             static_cast<std::int64_t>(shardings.size()));
    else if (hopeless(layout, family.bound, 0, run_runs_on_))
      prune(recomputes.size() * shardings.size());
    else
      search_run(std::move(layout), shardings);
  }
}

/// The rules of sharding read the schedule but not vp. What they reject counts once a run.
const std::vector<Sharding>& FamilySearch::shardings_of(const Layout& run) {
  auto found =
      std::find_if(legal_.begin(), legal_.end(), [&](const Legal& legal) { return legal.schedule == run.schedule; });
  if (found == legal_.end()) {
    Legal legal{.schedule = run.schedule};
    legal.shardings = enumerate_shardings(problem_, run, legal.tally);
    found = legal_.insert(found, std::move(legal));
  }
  outcome_->tally.merge(found->tally);
  return found->shardings;
}

FamilySearch::Legal& FamilySearch::legal_of(Schedule schedule) {
  return *std::find_if(legal_.begin(), legal_.end(), [&](const Legal& legal) { return legal.schedule == schedule; });
}

/// Who runs the layout at hand under a sharding of the table.
FrameworkMask FamilySearch::runs_sharding(const Layout& layout, const Table& table, std::size_t sharding) {
  Legal& legal = legal_of(layout.schedule);
  if (legal.runs_on.empty()) {
    Layout run = layout;
    for (const Sharding& each : *table.shardings) {
      run.zero = each.zero, run.shard = each.shard;
      legal.runs_on.push_back(accepting(problem_, run, Level::Sharding, wanted_));
    }
  }
  return static_cast<FrameworkMask>(choice_runs_on_ & legal.runs_on[sharding]);
}

const FamilySearch::Recomputes& FamilySearch::recomputing_of(const Layout& run) {
  const auto deepest = static_cast<std::size_t>(least_deepest(problem_, run));
  if (deepest >= recomputes_.size()) recomputes_.resize(deepest + 1);
  Recomputes& ways = recomputes_[deepest];
  if (!ways.all.empty()) return ways;
  ways.all = enumerate_recomputes(problem_, static_cast<int>(deepest));
  Layout layout;  // rules of recomputation read nothing else of it
  for (const Recompute& way : ways.all) {
    layout.recompute = way;
    ways.runs_on.push_back(accepting(problem_, layout, Level::Recompute, wanted_));
  }
  return ways;
}

/// Tables serve all schedules that place layers alike and may shard alike.
FamilySearch::Table& FamilySearch::table_of(Layout layout) {
  const std::vector<Sharding>& shardings = legal_of(layout.schedule).shardings;
  for (Table& table : tables_)
    if (table.placement == evaluator_->placement_index() && same(*table.shardings, shardings)) return table;
  const Placement& placement = evaluator_->placement();
  const std::vector<Recompute>& recomputes = recomputes_of(layout);
  const std::size_t modules = module_choices(recomputes), holders = placement.holders.size();
  const auto content_of = [&](const Segment& holder) -> const StageContent& {
    return placement.stages.contents[static_cast<std::size_t>(holder.content)];
  };
  Table table{.placement = evaluator_->placement_index(), .holders = holders, .shardings = &shardings};
  table.sums.reserve((modules + 1) * holders);
  for (std::size_t choice = 0; choice <= modules; ++choice) {
    memory_->recompute(choice < modules ? recomputes[choice] : Recompute{});
    for (const Segment& holder : placement.holders) table.sums.push_back(memory_->sums(content_of(holder)));
  }
  table.prices.resize(shardings.size());
  table.memory.reserve(shardings.size() * holders);
  for (const Sharding& sharding : shardings) {
    layout.zero = sharding.zero, layout.shard = sharding.shard;
    auto sums = table.sums_of(modules).begin();
    for (const Segment& holder : placement.holders)
      table.memory.push_back(memory_->sharded(layout, holder.first, content_of(holder), *sums++));
  }
  table.least.assign(table.memory.begin(), table.memory.begin() + static_cast<std::ptrdiff_t>(holders));
  for (std::size_t i = holders; i < table.memory.size(); ++i) lower(table.least[i % holders], table.memory[i]);
  return tables_.emplace_back(std::move(table));
}

void FamilySearch::search_run(Layout layout, const std::vector<Sharding>& shardings) {
  if (!evaluator_) evaluator_.emplace(problem_, *costs_);
  if (!memory_) memory_.emplace(problem_, layout);
  evaluator_->place(layout);
  const Recomputes& ways = recomputing_of(layout);
  const std::vector<Recompute>& recomputes = ways.all;
  // Recomputing makes nothing faster.
  bool beaten = hopeless(layout, evaluator_->start_recompute({}), 0, run_runs_on_);
  if (!beaten) {
    evaluator_->finish_recompute();
    beaten = hopeless(layout, evaluator_->least_time_of_any(), 0, run_runs_on_);
  }
  if (beaten) return prune(recomputes.size() * shardings.size());
  Table& table = table_of(layout);
  if (find_alive(layout, table, recomputes) == 0) return too_big(recomputes.size() * shardings.size());
  first_fit_.assign(shardings.size(), 0);
  search_modules(layout, table, ways);
  search_blocks(layout, table, ways);
}

void FamilySearch::search_modules(Layout& layout, Table& table, const Recomputes& recomputes) {
  for (std::size_t i = 0, modules = module_choices(recomputes.all); i < modules; ++i) {
    layout.recompute = recomputes.all[i], layout.zero = 1, layout.shard = 0;
    narrow_to(recomputes, i);
    if (hopeless(layout, evaluator_->start_recompute(recomputes.all[i]), 0, choice_runs_on_))
      prune(table.shardings->size());
    else
      search_recompute(layout, table, i);
  }
}

/// Whole layers: more of them take more time and less memory.
void FamilySearch::search_blocks(Layout& layout, Table& table, const Recomputes& recomputes) {
  const std::size_t shardings = table.shardings->size();
  const std::size_t first = find_first_fits(layout, table, recomputes.all);
  too_big((first - module_choices(recomputes.all)) * shardings);
  for (std::size_t i = first; i < recomputes.all.size(); ++i) {
    // The last recomputes all layers: nothing of its kind is plainer, and nothing of it slower.
    layout.recompute = recomputes.all.back(), layout.zero = 1, layout.shard = 0;
    const double least = evaluator_->start_recompute(recomputes.all[i]);
    if (hopeless(layout, least, 0, run_runs_on_))  // and so are larger blocks
      return prune((recomputes.all.size() - i) * shardings);
    layout.recompute = recomputes.all[i];
    narrow_to(recomputes, i);
    search_recompute(layout, table, i);
  }
}

/// One recomputation, started already.
void FamilySearch::search_recompute(Layout& layout, Table& table, std::size_t choice) {
  const std::size_t shardings = table.shardings->size();
  find_activities(layout, table, choice);
  const double least = least_peak(table.least);
  if (bounds_ && least > capacity_) return too_big(shardings);
  evaluator_->finish_recompute();
  if (hopeless(layout, evaluator_->least_time(), least, choice_runs_on_)) return prune(shardings);
  search_shardings(layout, table, choice);
}

void FamilySearch::search_shardings(Layout& layout, Table& table, std::size_t choice) {
  too_big(table.shardings->size() - alive_.size());
  for (const std::size_t i : alive_) {
    const double peak = first_fit_[i] > choice ? kNever : peak_of(table.memory_of(i));
    if (bounds_ && peak > capacity_) {
      too_big(1);
      continue;
    }
    const Sharding& sharding = (*table.shardings)[i];
    layout.zero = sharding.zero, layout.shard = sharding.shard;
    if (table.prices[i].empty()) evaluator_->price_sharding(layout, *memory_, table.prices[i]);
    const Score score{evaluator_->step_time(layout, table.prices[i]), peak};
    const FrameworkMask runs_on = runs_sharding(layout, table, i);
    if (hopeless(layout, score.step_time, peak, runs_on)) {
      prune(1);
    } else if (peak > capacity_) {  // without bounds everything is estimated in full
      too_big(1);
    } else {
      ++outcome_->fit;
      offer({layout, score, runs_on});
    }
  }
}

std::size_t FamilySearch::find_alive(Layout layout, const Table& table, const std::vector<Recompute>& recomputes) {
  lowest_.clear();
  for (std::size_t i = 0; i < recomputes.size(); ++i) {
    // What blocks leave is linear in their layers: the smallest and the largest say it all.
    if (i > 0 && i + 1 < recomputes.size() && is_block(recomputes[i - 1]) && is_block(recomputes[i])) continue;
    layout.recompute = recomputes[i];
    find_activities(layout, table, i);
    if (lowest_.empty()) lowest_ = activities_;
    for (std::size_t holder = 0; holder < lowest_.size(); ++holder) lower(lowest_[holder], activities_[holder]);
  }
  alive_.clear();
  activities_ = lowest_;
  for (std::size_t i = 0; i < table.shardings->size(); ++i)
    if (!bounds_ || least_peak(table.memory_of(i)) <= capacity_) alive_.push_back(i);
  return alive_.size();
}

/// The more layers are recomputed, the less memory they take, if a checkpoint is smaller than what it stands for.
std::size_t FamilySearch::find_first_fits(Layout layout, const Table& table, const std::vector<Recompute>& recomputes) {
  const std::size_t begin = module_choices(recomputes);
  const std::span<const StageSums> plain = table.sums_of(begin);
  const bool shrinks = std::all_of(plain.begin(), plain.end(),
                                   [](const StageSums& sums) { return sums.checkpoint <= 0.999 * sums.saved; });
  if (!bounds_ || !shrinks) return begin;
  std::fill(first_fit_.begin(), first_fit_.end(), recomputes.size());
  std::size_t first = recomputes.size();
  const auto may_fit = [&](std::size_t sharding, std::size_t choice) {
    layout.recompute = recomputes[choice];
    find_activities(layout, table, choice);
    return least_peak(table.memory_of(sharding)) <= capacity_;
  };
  for (const std::size_t sharding : alive_) {
    std::size_t low = begin, high = recomputes.size();
    while (low < high) {
      const std::size_t middle = low + (high - low) / 2;
      if (may_fit(sharding, middle))
        high = middle;
      else
        low = middle + 1;
    }
    first_fit_[sharding] = low;
    first = std::min(first, low);
  }
  return first;
}

void FamilySearch::find_activities(const Layout& layout, const Table& table, std::size_t choice) {
  const Placement& placement = evaluator_->placement();
  const std::span<const StageSums> sums = table.sums_of(choice);
  activities_.clear();
  for (std::size_t i = 0; i < placement.holders.size(); ++i) {
    const Segment& holder = placement.holders[i];
    const StageContent& content = placement.stages.contents[static_cast<std::size_t>(holder.content)];
    activities_.push_back(memory_->activity(layout, content, sums[i], evaluator_->held_by(holder.first)));
  }
}

double FamilySearch::peak_of(std::span<const ShardedMemory> memory) const {
  Bytes peak{};
  for (std::size_t i = 0; i < memory.size(); ++i) peak = std::max(peak, memory_->total(memory[i], activities_[i]));
  return static_cast<double>(peak.value);
}

double FamilySearch::least_peak(std::span<const ShardedMemory> memory) const {
  double peak = 0;
  for (std::size_t i = 0; i < memory.size(); ++i)
    peak = std::max(peak, memory_->least_total(memory[i], activities_[i]));
  return peak;
}

void FamilySearch::offer(const Candidate& candidate) {
  if (plainest_) {
    const bool good = candidate.runs_on != 0 && candidate.score.step_time <= plainest_->slowest;
    std::optional<Candidate>& best = plainest_->best;
    if (good && (!best || plainer(problem_, candidate, *best))) best = candidate;
    return;
  }
  if (candidate.runs_on != 0) {
    Score& twin = twins_[static_cast<std::size_t>(vp_)];
    twin.step_time = std::min(twin.step_time, candidate.score.step_time);
    twin.peak = std::min(twin.peak, candidate.score.peak);
  }
  outcome_->kept.offer(problem_, candidate);
}

bool FamilySearch::hopeless(const Layout& layout, double step_time, double peak, FrameworkMask runs_on) const {
  if (!bounds_) return false;
  if (plainest_) return never_plainest(layout, step_time, runs_on);
  const bool memory = problem_.objective == Objective::Memory;
  const double bound = memory ? peak : step_time;
  const auto value = [&](const Score& score) { return memory ? score.peak : score.step_time; };
  const auto behind = [&](const Ranking& ranking) { return ranking.full() && bound > value(ranking.last().score); };
  const auto behind_either = [&](Ranking Kept::*ranking) {
    return behind(kept_->*ranking) || behind(outcome_->kept.*ranking);
  };
  if (runs_on == 0) return behind_either(&Kept::paper);
  if (bound <= value(twins_[static_cast<std::size_t>(vp_)])) {
    if (!behind_either(&Kept::ranking)) return false;
    const auto far = [&](const Ranking& near) {
      return !near.best().empty() && bound > (1 + kNear) * near.best().front().score.step_time;
    };
    if (!memory && !behind_either(&Kept::near) && !far(kept_->near) && !far(outcome_->kept.near)) return false;
  }
  if (!problem_.pareto) return true;
  return kept_->front.dominates(step_time, peak) || outcome_->kept.front.dominates(step_time, peak);
}

bool FamilySearch::never_plainest(const Layout& layout, double step_time, FrameworkMask runs_on) const {
  if (runs_on == 0 || step_time > plainest_->slowest) return true;
  const std::optional<Candidate>& best = plainest_->best;
  return best && plainness(problem_, *best) < plainness(problem_, {layout});
}

}  // namespace plan
