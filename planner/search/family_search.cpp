// Branch and bound inside one family: first where the layers lie, then what is recomputed, then how states are
// sharded. What does not change from one choice to the next is computed once. Tested by tests/planner/search_test.cpp.
#include "planner/search/family_search.hpp"

#include <algorithm>

#include "planner/search/plain_layers.hpp"

namespace plan {
namespace {

constexpr Seconds kNever = Seconds::infinity();
/// A shade below, so that rounding never puts a bound above the value it bounds.
constexpr double kShade = 1 - 1e-9;

}  // namespace

FamilyOutcome FamilySearch::run(const Costed& family, const Kept& kept) {
  FamilyOutcome outcome{Kept(problem_)};
  kept_ = &kept, plainest_.reset(), outcome_ = &outcome;
  // Where the best alone is asked for nobody counts what is not looked at.
  if (!extent_.best_alone || !hopeless(family.layout, family.bound.any, {}, wanted_)) search_family(family);
  return outcome;
}

std::optional<Candidate> FamilySearch::plainest(const Costed& family, const Allowance& allowance,
                                                const std::optional<Candidate>& best) {
  FamilyOutcome uncounted{Kept(problem_)};
  kept_ = nullptr, plainest_ = {&allowance, best}, outcome_ = &uncounted;
  if (!bounds_ || !never_plainest(family.layout, family.bound.any, wanted_)) search_family(family);
  return plainest_->best;
}

/// Families with the same degrees share most.
void FamilySearch::turn_to(const Layout& family) {
  if (lists_.turn_to(family)) all_states_.clear();
  prices_.turn_to(family), traffic_.turn_to(family);
  states_ = &all_states_[{degrees_of(family), batch_of_states(problem_, family)}];
}

void FamilySearch::search_family(const Costed& family) {
  costs_ = family.costs;
  evaluator_.reset(), memory_.reset();
  turn_to(family.layout);
  straggling_ = family.bound.waits;
  tables_.clear(), holdings_.clear(), peaks_.clear();
  least_activities_.clear(), kept_layers_.reset(), crowded_ = {};
  family_runs_on_ = wanted_;
  if (costs_ != nullptr) {
    family_runs_on_ = lists_.runs_on_degrees(family.layout, wanted_);
    for (const Level level : {Level::MicroBatch, Level::Context})
      family_runs_on_ = accepting(problem_, family.layout, level, family_runs_on_);
  }
  if (const Fate whole = judge_whole(family); whole != Fate::Searched) return count(family.layout, whole);
  std::array<Judged, kAxisOrders> rejected;  // the last of each order
  const RunList& runs = lists_.runs(family.layout, inner_);
  const std::vector<FrameworkMask>& runs_on = runs.runs_on(problem_, family.layout, wanted_);
  outcome_->tally.merge(runs.tally);
  for (std::size_t i = 0; i < runs.all.size(); ++i) {
    Layout layout = run_of(problem_, family.layout, runs.all[i]);
    vp_ = layout.vp;
    run_runs_on_ = static_cast<FrameworkMask>(family_runs_on_ & runs_on[i]);
    if (too_slow(layout, family)) continue;
    const ShardingList& shardings = lists_.of(layout, inner_);
    const std::int64_t layouts = layouts_of(layout, shardings, outcome_->tally);
    if (layouts == 0) continue;
    if (static_cast<std::size_t>(vp_) >= twins_.size())
      twins_.resize(static_cast<std::size_t>(vp_) + 1, {kNever, RealBytes::infinity()});
    legal_ = true;
    if (crowded(layout, shardings)) {
      count(layouts, Fate::TooBig);
      continue;
    }
    RealBytes least;
    Fate fate = judge(layout, shardings, family, rejected, least);
    if (fate == Fate::Searched && traffic_beats(layout, shardings)) fate = Fate::Pruned;
    count(layouts, fate);
    if (fate == Fate::Searched) search_run(std::move(layout), shardings, least);
  }
}

/// Most families have nothing that any of their runs could change.
FamilySearch::Fate FamilySearch::judge_whole(const Costed& family) {
  vp_ = 0, twins_.assign(1, {kNever, RealBytes::infinity()});
  if (costs_ == nullptr) return Fate::TooBig;  // its states alone, as whoever prices families knows
  if (!bounds_) return Fate::Searched;
  if (hopeless(family.layout, family.bound.any, {}, family_runs_on_)) return Fate::Pruned;
  if (family.states > capacity_) return Fate::TooBig;
  return hopeless(family.layout, family.bound.any, family.states, family_runs_on_) ? Fate::Pruned : Fate::Searched;
}

/// Where the best alone is asked for, nobody counts what is slower than what was found.
bool FamilySearch::too_slow(const Layout& run, const Costed& family) const {
  const bool found = kept_ != nullptr && kept_->ranking.full();
  if (!extent_.best_alone || !legal_ || !(found || extent_.slowest < kNever)) return false;
  const LeastOfRun of = least_of(run);
  return hopeless(run, family.bound.of_run(run, of.micro_batches, of.steps, {}), {}, run_runs_on_);
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

/// Tables serve all schedules that place layers the same way and may shard the same way.
FamilySearch::Table& FamilySearch::table_of(const Layout& run, const ShardingList& shardings) {
  for (Table& table : tables_)
    if (table.placement == evaluator_->placement_index() && table.order == run.order &&
        table.shardings->all == shardings.all)
      return table;
  const Placement& placement = evaluator_->placement();
  Table table{.placement = evaluator_->placement_index(), .order = run.order, .shardings = &shardings};
  table.holders = holdings_.of(placement, run, shardings, kept_of(run), memory_of(run), prices_);
  table.contents.resize(placement.stages.contents.size());
  for (std::size_t i = 0; i < table.holders.size(); ++i)
    table.contents[static_cast<std::size_t>(placement.holders[i].content)] = table.holders[i];
  table.prices.resize(shardings.all.size());
  return tables_.emplace_back(std::move(table));
}

const std::vector<DataParallel>& FamilySearch::prices_of(const Layout& layout, Table& table, std::size_t sharding) {
  std::vector<DataParallel>& prices = table.prices[sharding];
  if (!prices.empty()) return prices;
  prices.reserve(table.contents.size());
  for (Holding* holding : table.contents) {
    std::optional<DataParallel>& price = (*holding->prices)[static_cast<std::size_t>(layout.order)][sharding];
    if (!price) price = pricer().price<double>(layout, holding->sums, holding->content, problem_.cluster);
    prices.push_back(*price);
  }
  return prices;
}

void FamilySearch::search_run(Layout layout, const ShardingList& shardings, RealBytes least_memory) {
  (void)memory_of(layout);
  if (evaluator_)
    evaluator_->place(layout);
  else
    evaluator_.emplace(problem_, *costs_, layout);
  const Recomputes& ways = recomputing_of(layout);
  const std::size_t layouts = ways.all.size() * shardings.all.size();
  // Recomputing makes nothing faster.
  const Evaluator::Started nothing = evaluator_->start_recompute({});
  bool beaten = beaten_with_traffic(layout, {nothing.least(), least_memory, least_memory});
  if (!beaten) {
    nothing.finish();
    beaten = beaten_with_traffic(layout, {evaluator_->least_time_of_any(), least_memory, least_memory});
  }
  if (beaten) return prune(layouts);
  Table& table = table_of(layout, shardings);
  start_activities(table, ways);
  if (find_alive(layout, table, ways.all) == 0) return note_crowded(layout, shardings), too_big(layouts);
  if (beaten_with_traffic(layout, {evaluator_->least_time_of_any(), least_peak_, least_peak_})) return prune(layouts);
  expose_least(shardings.all.size());
  if (drop_beaten(layout, shardings) == 0)
    return prune(ways.all.size() * beaten_), too_big(layouts - ways.all.size() * beaten_);
  first_fit_.assign(shardings.all.size(), 0);
  search_each(layout, table, ways, 0, module_choices(ways.all));
  search_blocks(layout, table, ways);
  search_each(layout, table, ways, block_choices(ways.all), ways.all.size());
}

/// Leaves out of the alive shardings those that are beaten whatever is recomputed: most often because nothing runs
/// them, and something that nothing runs is faster. The number that is left.
std::size_t FamilySearch::drop_beaten(const Layout& layout, const ShardingList& shardings) {
  const std::vector<FrameworkMask>& runs_on = shardings.runs_on(problem_, wanted_);
  const Seconds least = evaluator_->least_time_of_any();
  beaten_ = std::erase_if(alive_, [&](std::size_t i) {
    const auto mask = static_cast<FrameworkMask>(run_runs_on_ & runs_on[i]);
    return hopeless(layout, kShade * (least + exposed_[i]), least_peaks_[i], mask);
  });
  return alive_.size();
}

/// Lets each sharding expose what no work hides, and puts the alive ones in that order.
void FamilySearch::expose_least(std::size_t shardings) {
  knows_exposed_ = false;
  exposed_.assign(shardings, {});
  if (least_traffic_ == nullptr) return;
  for (std::size_t i = 0; i < shardings; ++i) exposed_[i] = straggling_ * (*least_traffic_)[i];
  fastest_first();
}

void FamilySearch::fastest_first() {
  std::stable_sort(alive_.begin(), alive_.end(),
                   [&](std::size_t a, std::size_t b) { return exposed_[a] < exposed_[b]; });
}

/// What of the states' traffic stays exposed under the most work that there is to hide it, the least of all ways to
/// recompute; shardings in its order.
void FamilySearch::find_exposed(Layout layout, Table& table, const std::vector<Recompute>& recomputes) {
  if (!bounds_ || knows_exposed_) return;
  knows_exposed_ = true;
  evaluator_->recompute(recomputes.size() == 1 ? recomputes.front() : Recompute{.kind = RecomputeKind::Full});
  const Seconds base = evaluator_->least_time();
  for (const std::size_t i : alive_) {
    layout.zero = table.shardings->all[i].zero, layout.shard = table.shardings->all[i].shard;
    exposed_[i] = std::max(Seconds(), evaluator_->step_time(layout, prices_of(layout, table, i)) - base);
  }
  fastest_first();
}

/// Ways to recompute of which none bounds another.
void FamilySearch::search_each(Layout& layout, Table& table, const Recomputes& recomputes, std::size_t begin,
                               std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    layout.recompute = recomputes.all[i], layout.zero = 1, layout.shard = 0;
    narrow_to(recomputes, i);
    const Evaluator::Started started = evaluator_->start_recompute(recomputes.all[i]);
    const Seconds least = started.least() + least_exposed();
    if (hopeless(layout, kShade * least, least_peak_, choice_runs_on_))
      prune(table.shardings->all.size());
    else
      search_recompute(layout, table, recomputes, i, started);
  }
}

/// Whole layers: more of them take more time and less memory.
void FamilySearch::search_blocks(Layout& layout, Table& table, const Recomputes& recomputes) {
  const std::size_t shardings = table.shardings->all.size();
  const std::size_t begin = module_choices(recomputes.all), end = block_choices(recomputes.all);
  if (begin == end) return;
  // The last recomputes all layers: nothing of its kind is plainer, and nothing of it slower.
  const Recompute& last = recomputes.all[end - 1];
  layout.recompute = last, layout.zero = 1, layout.shard = 0;
  const Seconds fewest = evaluator_->start_recompute(recomputes.all[begin]).least();
  if (hopeless(layout, fewest, least_peak_, run_runs_on_)) return prune((end - begin) * shardings);
  find_exposed(layout, table, recomputes.all);
  std::size_t live = 0;  // of the shardings, the fastest first
  while (live < alive_.size() &&
         !hopeless(layout, kShade * (fewest + exposed_[alive_[live]]), least_peak_, run_runs_on_))
    ++live;
  const std::size_t first = find_first_fits(layout, table, recomputes.all, live);
  const std::size_t slow = beaten_ + alive_.size() - live;
  too_big((first - begin) * (shardings - slow)), prune((first - begin) * slow);
  for (std::size_t i = first; i < end; ++i) {
    layout.recompute = last, layout.zero = 1, layout.shard = 0;
    const Evaluator::Started started = evaluator_->start_recompute(recomputes.all[i]);
    const Seconds least = started.least() + least_exposed();
    if (hopeless(layout, kShade * least, least_peak_, run_runs_on_))  // and so are larger blocks
      return prune((end - i) * shardings);
    layout.recompute = recomputes.all[i];
    narrow_to(recomputes, i);
    search_recompute(layout, table, recomputes, i, started);
  }
}

void FamilySearch::search_recompute(Layout& layout, Table& table, const Recomputes& recomputes, std::size_t choice,
                                    const Evaluator::Started& started) {
  const std::size_t shardings = table.shardings->all.size();
  const std::span<const ActivityMemory> activities = activities_of(layout, table, choice);
  const auto least_peak_of_any = [&] {
    RealBytes peak;
    for (std::size_t i = 0; i < activities.size(); ++i)
      peak = std::max(peak, memory_->least_total(table.holders[i]->least, activities[i]));
    return peak;
  };
  const RealBytes least = least_peak_of_any();
  if (bounds_ && least > capacity_) return too_big(shardings);
  started.finish();
  const auto beaten = [&] {
    return hopeless(layout, kShade * (evaluator_->least_time() + least_exposed()), least, choice_runs_on_);
  };
  if (beaten()) return prune(shardings);
  if (bounds_ && !knows_exposed_) {
    find_exposed(layout, table, recomputes.all);
    evaluator_->recompute(recomputes.all[choice]);
    if (beaten()) return prune(shardings);
  }
  search_shardings(layout, table, choice, least);
}

void FamilySearch::search_shardings(Layout& layout, Table& table, std::size_t choice, RealBytes least_peak) {
  const std::vector<Sharding>& shardings = table.shardings->all;
  const std::span<const ActivityMemory> activities = activities_of(layout, table, choice);
  const std::vector<FrameworkMask>& runs_on = table.shardings->runs_on(problem_, wanted_);
  const Seconds base = evaluator_->least_time();
  too_big(shardings.size() - alive_.size() - beaten_), prune(beaten_);
  for (std::size_t done = 0; done < alive_.size(); ++done) {
    const std::size_t i = alive_[done];
    layout.zero = 1, layout.shard = 0;
    if (hopeless(layout, kShade * (base + exposed_[i]), least_peak, choice_runs_on_))  // and so are those behind it
      return prune(alive_.size() - done);
    if (bounds_ && first_fit_[i] > choice) {
      too_big(1);
      continue;
    }
    layout.zero = shardings[i].zero, layout.shard = shardings[i].shard;
    const auto mask = static_cast<FrameworkMask>(choice_runs_on_ & runs_on[i]);
    const RealBytes least_of_this = std::max(least_peak, least_peaks_[i]);
    if (problem_.pareto && hopeless(layout, kShade * (base + exposed_[i]), least_of_this, mask)) {
      prune(1);
      continue;
    }
    const Seconds step_time = evaluator_->step_time(layout, prices_of(layout, table, i));
    if (hopeless(layout, step_time, least_of_this, mask)) {  // the peak takes longer to know
      prune(1);
      continue;
    }
    const Bytes peak = peak_of(table, i, activities);
    if (peak > capacity_ || !host_holds(layout, table, i, activities)) {
      too_big(1);
    } else if (hopeless(layout, step_time, peak, mask)) {
      prune(1);
    } else {
      ++outcome_->fit;
      offer({layout, {step_time, peak}, mask, problem_.switched});
    }
  }
}

void FamilySearch::offer(const Candidate& candidate) {
  if (plainest_) {
    std::optional<Candidate>& best = plainest_->best;
    if (never_plainest(candidate.layout, candidate.score.step_time, candidate.runs_on)) return;
    const Allowance& allowance = *plainest_->allowance;
    const Candidate laid = plainly_laid(problem_, *costs_, candidate, allowance, capacity_, host_);
    if (best && !plainer(problem_, laid, *best)) return;
    if (allowance.allows(laid.score.step_time, terms_of(problem_, *costs_, laid.layout))) best = laid;
    return;
  }
  if (candidate.runs_on != 0) {
    Score& twin = twins_[static_cast<std::size_t>(vp_)];
    twin.step_time = std::min(twin.step_time, candidate.score.step_time);
    twin.peak = std::min(twin.peak, candidate.score.peak);
    outcome_->shortest = std::min(outcome_->shortest, candidate.score.step_time);
  }
  outcome_->kept.offer(problem_, candidate);
}

bool FamilySearch::hopeless(const Layout& layout, Seconds step_time, RealBytes peak, FrameworkMask runs_on) const {
  if (!bounds_) return false;
  if (plainest_) return never_plainest(layout, step_time, runs_on);
  const bool memory = problem_.objective == Objective::Memory;
  const auto worse = [&](const Score& than) { return memory ? peak > than.peak : step_time > than.step_time; };
  const auto behind = [&](const Ranking& ranking) { return ranking.full() && worse(ranking.last().score); };
  const auto behind_either = [&](Ranking Kept::*ranking) {
    return behind(kept_->*ranking) || behind(outcome_->kept.*ranking);
  };
  if (extent_.best_alone) {
    if (runs_on == 0 || (!memory && step_time > extent_.slowest)) return true;
    return behind_either(&Kept::ranking);
  }
  if (runs_on == 0) return behind_either(&Kept::paper);
  if (!worse(twins_[static_cast<std::size_t>(vp_)])) {
    if (!behind_either(&Kept::ranking)) return false;
    const auto far = [&](const Ranking& near) {
      return !near.best().empty() && step_time > (1 + kNear) * near.best().front().score.step_time;
    };
    if (!memory && !behind_either(&Kept::near) && !far(kept_->near) && !far(outcome_->kept.near)) return false;
  }
  if (!problem_.pareto) return true;
  return kept_->front.dominates(step_time, peak) || outcome_->kept.front.dominates(step_time, peak);
}

bool FamilySearch::beaten(const Layout& run, const Floor& floor) const {
  return hopeless(run, floor.time, floor.peak, 0) &&
         (run_runs_on_ == 0 || floor.running > capacity_ || hopeless(run, floor.time, floor.running, run_runs_on_));
}

bool FamilySearch::beaten_with_traffic(const Layout& run, const Floor& floor) const {
  const auto beaten = [&](Seconds traffic, RealBytes peak, FrameworkMask runs_on) {
    return traffic == kNever || hopeless(run, kShade * (floor.time + traffic), peak, runs_on);
  };
  return beaten(paper_traffic_, floor.peak, 0) &&
         (floor.running > capacity_ || beaten(running_traffic_, floor.running, run_runs_on_));
}

bool FamilySearch::never_plainest(const Layout& layout, Seconds step_time, FrameworkMask runs_on) const {
  if (runs_on == 0 || step_time > plainest_->allowance->slowest()) return true;
  const std::optional<Candidate>& best = plainest_->best;
  return best && plainness(problem_, *best) < plainness(problem_, {.layout = layout, .switched = problem_.switched});
}

}  // namespace plan
