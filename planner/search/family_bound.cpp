// Bounds from below on the step time and the memory of all layouts of a family, without placing layers.
// Tested by tests/planner/properties_test.cpp.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "planner/search/family_search.hpp"

namespace plan {
namespace {

/// Time of one micro-batch with nothing beside it.
Seconds work_alone(const LayerCost& cost) { return cost.work().total(); }

}  // namespace

Seconds least_work(const LayerCost& cost) {
  const Phase work = cost.work();
  return work.total() - work.ep + std::min(work.ep, cost.paired_ep);
}

LeastWork::LeastWork(const CostModel& costs, std::span<const int> times, bool by_itself) {
  const auto work = by_itself ? work_alone : least_work;
  for (int kind = 0; kind < costs.kinds(); ++kind) layers.push_back(work(costs.layer(kind)));
  head = work(costs.head()), ends = work(costs.embedding()) + head;
  sum = ends;
  for (std::size_t kind = 0; kind < layers.size(); ++kind) sum += times[kind] * layers[kind];
}

SplitWork::SplitWork(const Problem& problem, const CostModel& costs, std::span<const int> times)
    : least(costs, times, false), alone(costs, times, true) {
  const auto time = [&](const LayerCost& cost) {
    const bool hides = problem.training.stack.ep_overlap && cost.forward.ep > Seconds();
    const auto of = [&](const Phase& pass) {
      return pass.total() - (hides ? std::max(Seconds(), pass.ep - cost.paired_ep / 2) : Seconds());
    };
    waiting = std::max(waiting, cost.waiting);
    return StageTime{of(cost.forward), of(cost.backward_input), cost.backward_weight.total()};
  };
  const auto add = [&](const StageTime& one, int often) {
    whole.forward += often * one.forward, whole.backward_input += often * one.backward_input;
    whole.backward_weight += often * one.backward_weight;
  };
  // Kinds of prediction modules alone are asked, too: the head waits as long as they.
  for (int kind = 0; kind < costs.kinds(); ++kind) add(time(costs.layer(kind)), times[static_cast<std::size_t>(kind)]);
  add(time(costs.embedding()), 1), add(time(costs.head()), 1);
}

/// A split leaves a rank a layer less than the mean only where its ends weigh more, and by what layers do not divide:
/// of the ranks behind it each may hold one too many of those that were left.
int fewest_layers(const Problem& problem, const SplitWork* work, const Layout& family) {
  const int depth = problem.model.depth();
  if (family.pp == 1) return depth;
  if (work == nullptr || depth == 0 || problem.fixed.chunk_layers) return 0;
  const LeastWork& alone = work->alone;
  const Seconds dearest = *std::max_element(alone.layers.begin(), alone.layers.end());
  if (dearest <= Seconds()) return 0;
  const double fewest = (alone.sum / family.pp - alone.ends) / dearest - 2 - std::log(family.pp);
  return std::max(0, static_cast<int>(std::min<double>(fewest, depth)));
}

std::vector<int> layers_of_kinds(const Model& model) {
  std::vector<int> layers(model.kinds.size());
  for (const int kind : model.layers) ++layers[static_cast<std::size_t>(kind)];
  return layers;
}

LeastTimes::LeastTimes(const Problem& problem)
    : problem_(problem), layers_(layers_of_kinds(problem.model)), slowest_(slowest_of(problem.gpus)) {}

/// Layers do not divide: of those that take as long as one kind or longer, some rank holds a whole number, no less than
/// the mean. Some rank holds the head, where not all share it.
Seconds LeastTimes::fullest(const LeastWork& work, int pp, int parts) const {
  Seconds most = problem_.training.stack.vocab_barriers > 0 ? Seconds() : work.head / parts;
  for (const Seconds each : work.layers) {
    int pieces = 0;
    for (std::size_t kind = 0; kind < layers_.size(); ++kind)
      if (work.layers[kind] >= each) pieces += parts * layers_[kind];
    most = std::max(most, each * ((pieces + pp - 1) / pp) / parts);
  }
  return most;
}

/// The least under all schedules that so many micro-batches allow, with as many chunks as there may be.
Seconds LeastTimes::least_of_any(const LeastTime& least, Layout run, std::int64_t micro_batches) const {
  Seconds any = Seconds::infinity();
  std::array<double, 3> steps{};  // of backward passes in one piece, by chunks; 0: not known yet
  for (const ScheduleRow& row : kScheduleRows) {
    run.schedule = row.schedule;
    run.vp = row.chunks == Chunks::One ? 1 : row.chunks == Chunks::Two ? 2 : std::max(2, problem_.model.depth());
    if (!schedule_allows({run.schedule, run.pp, run.vp, micro_batches})) continue;
    double of_this = 0, &known = row.splits_backward ? of_this : steps[static_cast<std::size_t>(row.chunks)];
    if (known == 0) known = least_steps(run, micro_batches);
    any = std::min(any, least.of_run(run, micro_batches, known, {}));
    if (any <= least.any) break;
  }
  return std::max(any, least.any);
}

LeastTime LeastTimes::of(const SplitWork& work, const Layout& family, Seconds slowest) const {
  const LeastWork& alone = problem_.training.stack.ep_overlap ? work.least : work.alone;
  const double m = static_cast<double>(micro_batches(problem_.training.global_batch, family.dp, family.micro_batch));
  // A rank of DualPipe holds halves of two stages.
  const Seconds busy = m * std::max(work.least.sum / family.pp, fullest(work.least, family.pp, 2));
  const double straggles = family.world() == problem_.gpus ? slowest_ : slowest_of(family.world());
  const double waits = kBelow * (1 + problem_.cluster.calibration.jitter * straggles);
  LeastTime least{waits * busy, waits * work.least.sum, waits * alone.sum, waits * fullest(alone, family.pp, 1), waits,
                  work.whole};
  if (least.any <= slowest) least.any = least_of_any(least, family, static_cast<std::int64_t>(m));
  return least;
}

/// Rank r of a pipeline whose backward stays in one piece begins when a chunk of every rank before it is through, both
/// ways: m w_r + (w_0 + ... + w_{r-1}) / vp seconds pass at least. That is the same on all ranks, and so least for its
/// longest, if each has a share 1 / (m vp) less work than the one before.
double least_steps(const Layout& run, std::int64_t micro_batches) {
  const double m = static_cast<double>(micro_batches), even = m / run.pp;
  if (run.pp == 1 || splits_backward(run.schedule)) return even;
  const double part = 1.0 / run.vp, share = part / m;
  return std::max(even, part / (1 - std::pow(1 - share, run.pp)));
}

Seconds LeastTime::of_run(const Layout& run, std::int64_t micro_batches) const {
  return of_run(run, micro_batches, least_steps(run, micro_batches), {});
}

Seconds LeastTime::of_run(const Layout& run, std::int64_t micro_batches, double steps, Seconds more) const {
  if (schedule_row(run.schedule).pairs) return std::max(any, steps * (micro_batch + waits * more));
  StageTime parts = whole;
  parts.backward_input += more;
  const Seconds span = least_span({run.schedule, run.pp, run.vp, micro_batches}, parts);
  return std::max({any, steps * (alone + waits * more), static_cast<double>(micro_batches) * longest, waits * span});
}

FamilySearch::LeastOfRun FamilySearch::least_of(const Layout& run) const {
  const Pipeline pipeline = pipeline_of(problem_, run);
  // No earlier rank holds fewer micro-batches than the last.
  return {pipeline.micro_batches, run.vp, least_steps(run, pipeline.micro_batches), held(pipeline, run.pp - 1)};
}

/// By what no order of the axes changes: the family's least time and the least memory, which takes longer to bound.
FamilySearch::Fate FamilySearch::judge_run(const Layout& run, const ShardingList& shardings, const Costed& family,
                                           RealBytes& least) {
  const LeastOfRun of = least_of(run);
  const Seconds time = family.bound.of_run(run, of.micro_batches, of.steps, {});
  if (hopeless(run, time, {}, run_runs_on_)) return Fate::Pruned;
  least = least_memory(run, shardings, family, of, time);
  if (bounds_ && least > capacity_) return Fate::TooBig;
  if (hopeless(run, time, least, run_runs_on_)) return Fate::Pruned;
  // What takes the least memory is not what takes the least time.
  const bool all = bounds_ && !floors_.empty() &&
                   std::all_of(floors_.begin(), floors_.end(), [&](const Floor& floor) { return beaten(run, floor); });
  return all ? Fate::Pruned : Fate::Searched;
}

bool FamilySearch::among(const ShardingList& some, const ShardingList& others) const {
  if (&some == &others) return true;
  const std::vector<FrameworkMask>& ours = some.runs_on(problem_, wanted_);
  const std::vector<FrameworkMask>& theirs = others.runs_on(problem_, wanted_);
  std::size_t at = 0;  // both are in the same order
  for (std::size_t i = 0; i < some.all.size(); ++i, ++at) {
    while (at < others.all.size() && !(others.all[at] == some.all[i])) ++at;
    if (at == others.all.size() || (ours[i] & ~unsigned{theirs[at]}) != 0) return false;
  }
  return true;
}

/// No order of the axes changes the bounds, nor does interleaving larger groups, but for what ranks hold then; and
/// nothing is plainer than the usual order. Who runs a layout and how it may shard count, too: less of either makes no
/// bound better, more of them may.
bool FamilySearch::no_better(const Layout& run, const ShardingList& shardings, const Judged& before) const {
  if (before.order != run.order && before.order != Layout{}.order) return false;
  const Pipeline pipeline = pipeline_of(problem_, run);
  if (before.shardings == nullptr || before.pipeline.schedule != pipeline.schedule ||
      before.pipeline.vp != pipeline.vp || held(pipeline, run.pp - 1) < held(before.pipeline, run.pp - 1))
    return false;
  return (run_runs_on_ & ~unsigned{before.runs_on}) == 0 && among(shardings, *before.shardings);
}

FamilySearch::Fate FamilySearch::judge(const Layout& run, const ShardingList& shardings, const Costed& family,
                                       std::array<Judged, kAxisOrders>& rejected, RealBytes& least_memory) {
  for (const Judged& before : rejected)
    if (no_better(run, shardings, before)) return before.fate;
  const Fate fate = judge_run(run, shardings, family, least_memory);
  rejected[static_cast<std::size_t>(run.order)] = {pipeline_of(problem_, run), run.order, run_runs_on_,
                                                   fate == Fate::Searched ? nullptr : &shardings, fate};
  return fate;
}

MemoryModel& FamilySearch::memory_of(const Layout& run) {
  if (!memory_) memory_.emplace(problem_, run);
  return *memory_;
}

const KeptLayers& FamilySearch::kept_of(const Layout& run) {
  if (!kept_layers_) {
    const std::vector<Recompute>& recomputes = recomputing_of(run).all;
    kept_layers_.emplace(problem_.model, std::span(recomputes).first(module_choices(recomputes)), memory_of(run));
  }
  return *kept_layers_;
}

/// The fullest rank holds at least the mean of what all hold.
RealBytes FamilySearch::least_memory(const Layout& run, const ShardingList& shardings, const Costed& family,
                                     const LeastOfRun& of, Seconds time) {
  floors_.clear();
  if (!bounds_) return {};
  const int fewest = family.fewest_layers;
  const std::size_t states = least_states_of(run, shardings, fewest);
  // The model states alone may be too large, or leave too few choices to be fast: then activations need no look.
  const RealBytes bare = (*states_)[states].bare;
  if (bare > capacity_ || hopeless(run, time, bare, run_runs_on_)) return bare;
  if (least_activities_.empty()) {
    least_activities_ =
        least_activities(problem_, run, recomputing_of(run).all, fewest, kept_of(run), memory_of(run), family.costs);
    std::stable_sort(least_activities_.begin(), least_activities_.end(),
                     [](const LeastActivity& a, const LeastActivity& b) { return a.again < b.again; });
  }
  RealBytes least = RealBytes::infinity();
  for (const LeastPeak& one : least_peaks_of(states, of).peaks) {
    least = std::min(least, one.peak);
    const Seconds again = least_activities_[one.activity].again;
    floors_.push_back({family.bound.of_run(run, of.micro_batches, of.steps, again), one.peak, one.running});
  }
  return least;
}

bool FamilySearch::traffic_beats(const Layout& run, const ShardingList& shardings) {
  least_traffic_ = nullptr, running_traffic_ = paper_traffic_ = {};
  if (!bounds_) return false;
  least_traffic_ = &traffic_.of(run, shardings.all, pricer(), memory_of(run));
  const std::vector<FrameworkMask>& runs_on = shardings.runs_on(problem_, wanted_);
  running_traffic_ = paper_traffic_ = Seconds::infinity();
  for (std::size_t i = 0; i < runs_on.size(); ++i) {
    Seconds& least = (runs_on[i] & run_runs_on_) == 0 ? paper_traffic_ : running_traffic_;
    least = std::min(least, straggling_ * (*least_traffic_)[i]);
  }
  return !floors_.empty() && std::all_of(floors_.begin(), floors_.end(),
                                         [&](const Floor& floor) { return beaten_with_traffic(run, floor); });
}

}  // namespace plan
