// What of a run fits: which shardings under any way to recompute, and each from how many recomputed layers on.
// Assumes that a checkpoint is smaller than what it stands for, and says nothing where it is not.
// Tested by tests/planner/search_test.cpp.
#include <algorithm>
#include <cmath>

#include "planner/memory/host_memory.hpp"
#include "planner/search/family_search.hpp"

namespace plan {
namespace {

void lower(ActivityMemory& least, const ActivityMemory& other) {
  least.activations = std::min(least.activations, other.activations);
  least.forward = std::min(least.forward, other.forward);
  least.backward = std::min(least.backward, other.backward);
  least.at_head = std::min(least.at_head, other.at_head);
  least.but_one = std::min(least.but_one, other.but_one);
  least.of_two = std::min(least.of_two, other.of_two);
  least.of_one = std::min(least.of_one, other.of_one);
  least.embedding = std::min(least.embedding, other.embedding);
  least.embedding_transient = std::min(least.embedding_transient, other.embedding_transient);
}

}  // namespace

std::size_t FamilySearch::least_states_of(const Layout& run, const ShardingList& shardings, int fewest) {
  const bool both = both_ways(run.schedule);
  std::vector<StatesUnder>& all = *states_;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (const StatesUnder& known = all[i]; known.fewest == fewest && known.both == both &&
                                           known.runs_on == run_runs_on_ && among(shardings, *known.shardings) &&
                                           among(*known.shardings, shardings))
      return i;
  const std::vector<FrameworkMask>& each = shardings.runs_on(problem_, wanted_);
  std::vector<Sharding> that_run;
  for (std::size_t i = 0; i < each.size(); ++i)
    if ((each[i] & run_runs_on_) != 0) that_run.push_back(shardings.all[i]);
  const bool apart = that_run.size() < each.size() && !runnable_alone();
  StatesUnder under{fewest, &shardings, both, run_runs_on_, apart, {}, {}, {}};
  // The fullest node holds at least the mean of all.
  const double world = run.world(), most = std::clamp<double>(problem_.cluster.gpus_per_node, 1, world);
  const double in_node = kBelow * world / std::ceil(world / most);
  const auto of = [&](const std::vector<Sharding>& some) {
    LeastStates least = least_states(problem_, run, some, fewest, both, memory_of(run));
    std::erase_if(least.mean, [&](const ShardedMemory& one) { return bounds_ && in_node * one.host > host_; });
    return least;
  };
  under.memory = of(apart ? shardings.all : that_run);
  if (apart) under.running = of(that_run);
  under.bare = least_peak(under.memory, {}, {}, *memory_);
  all.push_back(std::move(under));
  return all.size() - 1;
}

std::vector<FamilySearch::LeastPeak> FamilySearch::all_peaks(const StatesUnder& under,
                                                             const LeastChunks& chunks) const {
  std::vector<LeastPeak> all;
  for (std::size_t i = 0; i < least_activities_.size(); ++i) {
    const LeastActivity& one = least_activities_[i];
    const RealBytes peak = least_peak(under.memory, one, chunks, *memory_, capacity_);
    if (peak > capacity_) continue;
    all.push_back({i, peak, under.apart ? least_peak(under.running, one, chunks, *memory_, capacity_) : peak});
  }
  return all;
}

std::size_t FamilySearch::first_fit(const LeastStates& states, const LeastChunks& chunks, std::size_t first,
                                    std::size_t last) const {
  while (first < last && least_peak(states, least_activities_[first], chunks, *memory_, capacity_) > capacity_) ++first;
  return first;
}

/// Where time alone counts, the first activity that leaves room for any layout is the fastest of all that do, and so is
/// the first that leaves room for one that runs: those behind them say nothing more. Runs that hold more micro-batches,
/// or rebuild larger chunks, have no room where others have none.
const FamilySearch::PeaksUnder& FamilySearch::least_peaks_of(std::size_t states, const LeastOfRun& of) {
  PeaksUnder all{states, of.vp, of.flights, {}, 0, 0};
  const std::size_t end = least_activities_.size();
  std::size_t last = end, last_running = end;
  for (const PeaksUnder& known : peaks_) {
    if (known.states != states) continue;
    const bool less = known.vp >= of.vp && known.flights <= of.flights;
    const bool more = known.vp <= of.vp && known.flights >= of.flights;
    if (less && more) return known;
    if (less) all.first = std::max(all.first, known.first);
    if (less) all.first_running = std::max(all.first_running, known.first_running);
    if (more) last = std::min(last, known.first), last_running = std::min(last_running, known.first_running);
  }
  const StatesUnder& under = (*states_)[states];
  const LeastChunks chunks{of.vp, of.flights};
  if (!time_alone()) {
    all.peaks = all_peaks(under, chunks);
    return peaks_.emplace_back(std::move(all));
  }
  all.first = first_fit(under.memory, chunks, all.first, last);
  all.first_running =
      under.apart ? first_fit(under.running, chunks, std::max(all.first, all.first_running), last_running) : all.first;
  const bool runs = all.first_running == all.first;
  if (all.first < end) all.peaks.push_back({all.first, {}, runs ? RealBytes() : RealBytes::infinity()});
  if (!runs && all.first_running < end) all.peaks.push_back({all.first_running, {}, {}});
  return peaks_.emplace_back(std::move(all));
}

std::size_t FamilySearch::find_alive(Layout layout, const Table& table, const std::vector<Recompute>& recomputes) {
  lowest_.clear();
  const std::size_t modules = module_choices(recomputes), blocks = block_choices(recomputes);
  if (modules > 0) {  // the least of each part that some choice of modules leaves
    layout.recompute = recomputes.front();
    for (std::size_t i = 0; i < table.holders.size(); ++i) {
      Holding& holding = *table.holders[i];
      lowest_.push_back(memory_->activity(layout, holding.content, holding.sums_with(holding.least_kept), flights_[i]));
    }
  }
  for (std::size_t i = modules; i < recomputes.size(); ++i) {
    // What blocks leave is linear in their layers: the smallest and the largest say it all.
    if (i > modules && i + 1 < blocks) continue;
    layout.recompute = recomputes[i];
    const std::span<const ActivityMemory> activities = activities_of(layout, table, i);
    if (lowest_.empty()) lowest_.assign(activities.begin(), activities.end());
    for (std::size_t holder = 0; holder < lowest_.size(); ++holder) lower(lowest_[holder], activities[holder]);
  }
  alive_.clear(), least_peaks_.clear(), least_peak_ = RealBytes::infinity();
  for (std::size_t i = 0; i < table.shardings->all.size(); ++i) {
    const RealBytes peak = bounds_ ? least_peak_of(table, i, lowest_) : RealBytes();
    if (peak <= capacity_ && (!bounds_ || host_holds(layout, table, i, {}))) alive_.push_back(i);
    least_peak_ = std::min(least_peak_, peak);
    least_peaks_.push_back(peak);
  }
  return alive_.size();
}

/// Remembers a run of which the GPUs hold nothing, whatever is recomputed and sharded. What nodes hold is no reason:
/// the order of the axes decides which ranks share one.
void FamilySearch::note_crowded(const Layout& run, const ShardingList& shardings) {
  if (!(least_peak_ > capacity_)) return;
  crowded_ = {run.schedule, run.vp, &shardings, {}};
  const std::vector<Segment>& holders = evaluator_->placement().holders;
  for (std::size_t i = 0; i < holders.size(); ++i) crowded_.flights.emplace_back(holders[i].first, flights_[i]);
}

/// Layers lie where they lay in the other run, and no rank holds fewer micro-batches.
bool FamilySearch::crowded(const Layout& run, const ShardingList& shardings) const {
  if (crowded_.shardings == nullptr || crowded_.schedule != run.schedule || crowded_.vp != run.vp) return false;
  const Pipeline pipeline = pipeline_of(problem_, run);
  return shardings.among(*crowded_.shardings) &&
         std::all_of(crowded_.flights.begin(), crowded_.flights.end(),
                     [&](const auto& other) { return held(pipeline, other.first) >= other.second; });
}

/// The more layers are recomputed, the less memory they take, if a checkpoint is smaller than what it stands for. Of
/// the `live` first shardings.
std::size_t FamilySearch::find_first_fits(Layout layout, const Table& table, const std::vector<Recompute>& recomputes,
                                          std::size_t live) {
  const std::size_t begin = module_choices(recomputes), end = block_choices(recomputes);
  const bool shrinks = std::all_of(table.holders.begin(), table.holders.end(), [](const Holding* holding) {
    return holding->sums.checkpoint <= 0.999 * holding->sums.saved;
  });
  if (!bounds_ || !shrinks) return begin;
  std::fill(first_fit_.begin(), first_fit_.end(), end);
  std::size_t first = end;
  const auto may_fit = [&](std::size_t sharding, std::size_t choice) {
    layout.recompute = recomputes[choice];
    return least_peak_of(table, sharding, activities_of(layout, table, choice)) <= capacity_;
  };
  for (std::size_t i = 0; i < live; ++i) {
    std::size_t low = begin, high = end;
    while (low < high) {
      const std::size_t middle = low + (high - low) / 2;
      if (may_fit(alive_[i], middle))
        high = middle;
      else
        low = middle + 1;
    }
    first_fit_[alive_[i]] = low;
    first = std::min(first, low);
  }
  return first;
}

void FamilySearch::start_activities(const Table& table, const Recomputes& ways) {
  known_activities_.assign(ways.all.size(), false);
  activities_.resize(ways.all.size() * table.holders.size());
  flights_.clear();
  for (const Segment& holder : evaluator_->placement().holders) flights_.push_back(evaluator_->held_by(holder.first));
}

std::span<const ActivityMemory> FamilySearch::activities_of(const Layout& layout, const Table& table,
                                                            std::size_t choice) {
  const std::size_t holders = table.holders.size();
  const std::span<ActivityMemory> some = std::span(activities_).subspan(choice * holders, holders);
  if (known_activities_[choice]) return some;
  known_activities_[choice] = true;
  for (std::size_t i = 0; i < holders; ++i) {
    Holding& holding = *table.holders[i];
    some[i] = memory_->activity(layout, holding.content, holding.sums_of(choice), flights_[i]);
  }
  return some;
}

bool FamilySearch::host_holds(const Layout& layout, const Table& table, std::size_t sharding,
                              std::span<const ActivityMemory> activities) const {
  if (host_ == RealBytes::infinity()) return true;
  const Placement& placement = evaluator_->placement();
  std::vector<RealBytes> of_stage;
  for (const Segment& segment : placement.segments)
    for (int rank = segment.first; rank < segment.first + segment.ranks; ++rank) {
      std::size_t holder = 0;
      while (placement.holders[holder].content != segment.content ||
             (placement.holders[holder].first > 0) != (rank > 0))
        ++holder;
      // A holder keeps activities of more micro-batches than the ranks behind it with the same layers.
      const double waiting = problem_.training.stack.vocab_barriers;
      const double held = (evaluator_->held_by(rank) + waiting) / (flights_[holder] + waiting);
      const RealBytes waiting_there = activities.empty() ? RealBytes() : held * activities[holder].host;
      of_stage.push_back(RealBytes(round_bytes(table.holders[holder]->memory[sharding].host + waiting_there)));
    }
  return host_of_node(problem_.cluster, layout, of_stage) <= host_;
}

Bytes FamilySearch::peak_of(const Table& table, std::size_t sharding,
                            std::span<const ActivityMemory> activities) const {
  Bytes peak{};
  for (std::size_t i = 0; i < activities.size(); ++i)
    peak = std::max(peak, memory_->total(table.holders[i]->memory[sharding], activities[i]));
  return peak;
}

RealBytes FamilySearch::least_peak_of(const Table& table, std::size_t sharding,
                                      std::span<const ActivityMemory> activities) const {
  RealBytes peak;
  for (std::size_t i = 0; i < activities.size(); ++i)
    peak = std::max(peak, memory_->least_total(table.holders[i]->memory[sharding], activities[i]));
  return peak;
}

}  // namespace plan
