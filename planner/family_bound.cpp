// Bounds from below on the step time and the memory of all layouts of a family, without placing layers.
// Tested by tests/planner/properties_test.cpp.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "planner/family_search.hpp"

namespace plan {
namespace {

/// Time of one micro-batch with nothing beside it.
Seconds work_alone(const LayerCost& cost) { return cost.work().total(); }

/// The content of a rank that holds the whole model, embedding and head included.
StageContent whole_model(const Model& model) {
  StageContent content;
  for (const int kind : model.layers) ++content.layers_of_kind[static_cast<std::size_t>(kind)];
  content.embedding = content.head = true, content.mtp = model.mtp.depth;
  return content;
}

template <class T>
using ByKind = std::array<T, kMaxLayerKinds>;

/// The mean over the ranks of the largest value among the kinds of layer that a rank holds is at least this, if every
/// rank has `fewest` layers or more: so many ranks at most hold nothing but kinds of small values. `whole` is the
/// model.
template <class T>
T mean_of_largest(const StageContent& whole, const Layout& family, int fewest, const ByKind<T>& values) {
  std::array<std::size_t, kMaxLayerKinds> kinds{};
  std::size_t size = 0;
  int left = 0;
  for (std::size_t kind = 0; kind < values.size(); ++kind)
    if (const int count = whole.layers_of_kind[kind]; count > 0) kinds[size++] = kind, left += count;
  std::sort(kinds.begin(), kinds.begin() + size, [&](std::size_t a, std::size_t b) { return values[a] > values[b]; });
  // At most two ranks, of the embedding and of the head, are without a layer.
  int ranks = fewest > 0 ? family.pp : std::max(0, family.pp - 2);
  T sum{};
  for (std::size_t i = 0; i < size; ++i) {
    left -= whole.layers_of_kind[kinds[i]];
    const int without = std::min(ranks, left / std::max(1, fewest));
    sum += values[kinds[i]] * (ranks - without);
    ranks = without;
  }
  return sum / family.pp;
}

/// Takes out what is nowhere below another one. `parts` of one as an array.
template <class T, class Parts>
void keep_least(std::vector<T>& all, const Parts& parts) {
  std::vector<T> least;
  for (const T& one : all) {
    const auto beats = [&](const T& a, const T& b) {
      const auto left = parts(a), right = parts(b);
      for (std::size_t i = 0; i < left.size(); ++i)
        if (left[i] > right[i]) return false;
      return true;
    };
    if (std::any_of(least.begin(), least.end(), [&](const T& other) { return beats(other, one); })) continue;
    std::erase_if(least, [&](const T& other) { return beats(one, other); });
    least.push_back(one);
  }
  all = std::move(least);
}

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

std::vector<ShardedMemory> least_states(const Problem& problem, const Layout& family,
                                        const std::vector<Sharding>& shardings, int fewest, const MemoryModel& memory) {
  const StageContent whole = whole_model(problem.model);
  StageSums sums = memory.sums(whole);
  for (double StageSums::*part :
       {&StageSums::dense, &StageSums::expert, &StageSums::trained_dense, &StageSums::trained_expert, &StageSums::ends,
        &StageSums::quantised, &StageSums::expert_quantised})
    sums.*part /= family.pp;
  ByKind<double> blocks{};
  for (std::size_t kind = 0; kind < problem.model.kinds.size(); ++kind) {
    const LayerMemory& layer = memory.layer(static_cast<int>(kind));
    blocks[kind] = layer.dense_parameters + layer.expert_parameters;
  }
  sums.block = mean_of_largest(whole, family, fewest, blocks);
  sums.fresh_grads = RealBytes();  // which depends on the micro-batch, and states known for one serve all
  Layout layout = family;
  layout.schedule = Schedule::OneFOneB;  // the rank of a DualPipe holds twice the weights
  const StageContent no_ends{};
  // What DeepSpeed gathers at most does not grow with what a rank holds: the mean of that may be less.
  const bool gathers = problem.training.stack.states != StateLayout::DeepSpeed;
  constexpr RealBytes kRounding(16);  // of the parts that ranks round
  std::vector<ShardedMemory> all;
  for (const Sharding& sharding : shardings) {
    layout.zero = sharding.zero, layout.shard = sharding.shard;
    const ShardedMemory one = memory.sharded(layout, 0, no_ends, sums);
    ShardedMemory mean;
    mean.weights = round_bytes(std::max(RealBytes(), one.states() - one.late_grads - kRounding));
    mean.communication = one.communication, mean.host = one.host;
    if (gathers) mean.forward = one.forward, mean.backward = one.backward;
    all.push_back(mean);
  }
  keep_least(all, [](const ShardedMemory& one) {
    return std::array{static_cast<double>((one.weights + one.communication).value), one.forward.value,
                      one.backward.value, one.host.value};
  });
  return all;
}

RealBytes LeastStates::of(const Layout& family) {
  // States do not depend on how context is exchanged, nor on the micro-batch where there are several.
  const bool several = micro_batches(problem_.training.global_batch, family.dp, family.micro_batch) > 1;
  const std::array like{family.tp,
                        family.cp,
                        family.pp,
                        family.dp,
                        family.ep,
                        family.etp,
                        int{family.sequence_parallel},
                        several ? 1 : family.micro_batch};
  if (least_ >= RealBytes() && like == last_) return least_;
  last_ = like;
  // No group takes less than all ranks do.
  static const std::vector<Sharding> widest = {{0, 0}, {1, 0}, {2, 0}, {3, 0}};
  const std::tuple key(family.tp, family.ep, family.etp, family.pp);
  auto found = models_.find(key);
  if (found == models_.end()) found = models_.emplace(key, MemoryModel(problem_, family)).first;
  RealBytes least = RealBytes::infinity();
  for (const ShardedMemory& states : least_states(problem_, family, widest, 0, found->second))
    least = std::min(least, found->second.least_total(states, {}));
  return least_ = least;
}

std::vector<LeastActivity> least_activities(const Problem& problem, const Layout& family,
                                            const std::vector<Recompute>& recomputes, int fewest,
                                            const KeptLayers& kept, const MemoryModel& memory, const CostModel* costs) {
  const double on_gpu = problem.training.offload.activations() ? 0 : 1;
  const StageContent content = whole_model(problem.model);
  const std::size_t kinds = problem.model.kinds.size();
  std::vector<LeastActivity> least;
  ByKind<RealBytes> transients{}, saved{};
  for (std::size_t kind = 0; kind < kinds; ++kind) saved[kind] = memory.layer(static_cast<int>(kind)).saved;
  for (std::size_t i = 0; i < recomputes.size(); ++i) {
    const Recompute& choice = recomputes[i];
    const bool whole = choice.kind == RecomputeKind::Full, all = whole && choice.layers == 0;
    if (whole && !all && i + 1 < recomputes.size()) continue;  // the last represents them
    const bool blocks = all && choice.uniform <= 1 && i > 0 && recomputes[i - 1].kind == RecomputeKind::Full;
    LeastActivity one{.together = std::max(1, choice.uniform)};
    RealBytes none;
    double cheapest = std::numeric_limits<double>::infinity();  // seconds for a byte that recomputing frees
    for (std::size_t kind = 0; kind < kinds; ++kind) {
      const int count = content.layers_of_kind[kind], k = static_cast<int>(kind);
      const LayerMemory& layer = memory.layer(k);
      const KeptLayer& here = kept.of(std::min(i, kept.choices() - 1), k);
      const RealBytes checkpoint = std::min(layer.saved, layer.checkpoint / std::max(1, choice.uniform));
      one.held += count * (whole ? checkpoint : here.kept), none += count * layer.saved;
      transients[kind] = here.backward + (whole ? std::max(RealBytes(), layer.saved - layer.checkpoint) : RealBytes());
      if (costs == nullptr || count == 0 || (whole && !all)) continue;
      const Seconds again = (whole ? costs->full_recompute(k) : costs->selective_recompute(k, choice.modules)).total();
      one.again += count * again;
      if (layer.saved > checkpoint) cheapest = std::min(cheapest, again.value / (layer.saved - checkpoint).value);
    }
    one.held = one.held * (on_gpu / family.pp), none = none * (on_gpu / family.pp);
    // A rank may rebuild layers of another kind than the one that needs most for its backward pass.
    one.transient = mean_of_largest(content, family, fewest, transients);
    if (one.together > 1) one.layer = mean_of_largest(content, family, fewest, saved);
    if (!blocks) {
      least.push_back(one);
      continue;
    }
    // What some blocks free and what they cost are shares of what all layers do; each piece has the time of its
    // smallest and the memory of its largest share.
    constexpr int kPieces = 8;
    const RealBytes freed = none - one.held;
    const Seconds cost(freed > RealBytes() ? cheapest * freed.value * family.pp : 0);
    for (int piece = 0; piece < kPieces; ++piece)
      least.push_back({none - freed * (piece + 1) / kPieces, one.transient, cost * piece / kPieces});
  }
  keep_least(least, [](const LeastActivity& one) {
    return std::array{one.held.value, one.transient.value, one.again.value, ((one.together - 1) * one.layer).value};
  });
  return least;
}

ActivityMemory least_activity(const LeastActivity& under, int vp, int fewest, double flights) {
  ActivityMemory activity;
  activity.activations = under.held * flights;
  const int together = rebuilt_together({.kind = RecomputeKind::Full, .uniform = under.together}, vp, fewest);
  activity.backward = under.transient + (together - 1) * under.layer;
  return activity;
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
  least = least_memory(run, shardings, family, of);
  if (bounds_ && least > capacity_) return Fate::TooBig;
  if (hopeless(run, time, least, run_runs_on_)) return Fate::Pruned;
  // What takes the least memory is not what takes the least time.
  const auto beaten = [&](const Score& floor) { return hopeless(run, floor.step_time, floor.peak, run_runs_on_); };
  const bool all = bounds_ && !floors_.empty() && std::all_of(floors_.begin(), floors_.end(), beaten);
  return all ? Fate::Pruned : Fate::Searched;
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
                                     const LeastOfRun& of) {
  floors_.clear();
  if (!bounds_) return {};
  const int fewest = family.fewest_layers;
  const std::size_t states = least_states_of(run, shardings, fewest);
  // The model states alone may be too large, or leave too few choices to be fast: then activations need no look.
  const RealBytes bare = states_[states].bare;
  if (bare > capacity_ || hopeless(run, family.bound.any, bare, run_runs_on_)) return bare;
  if (least_activities_.empty())
    least_activities_ =
        least_activities(problem_, run, recomputing_of(run).all, fewest, kept_of(run), memory_of(run), family.costs);
  const std::vector<RealBytes>& peaks = least_peaks_of(states, of, fewest);
  RealBytes least = RealBytes::infinity();
  for (std::size_t i = 0; i < peaks.size(); ++i) {
    least = std::min(least, peaks[i]);
    if (peaks[i] > capacity_) continue;
    floors_.push_back({family.bound.of_run(run, of.micro_batches, of.steps, least_activities_[i].again), peaks[i]});
  }
  return least;
}

bool FamilySearch::traffic_beats(const Layout& run, const ShardingList& shardings) {
  least_traffic_ = nullptr, running_traffic_ = paper_traffic_ = {};
  if (!bounds_) return false;
  least_traffic_ = &traffic_.of(run, shardings.all, pricer(), memory_of(run));
  const std::vector<FrameworkMask>& runs_on = shardings.runs_on(problem_, run, wanted_);
  running_traffic_ = paper_traffic_ = Seconds::infinity();
  for (std::size_t i = 0; i < runs_on.size(); ++i) {
    Seconds& least = runs_on[i] == 0 ? paper_traffic_ : running_traffic_;
    least = std::min(least, straggling_ * (*least_traffic_)[i]);
  }
  return !floors_.empty() && std::all_of(floors_.begin(), floors_.end(), [&](const Score& floor) {
    return hopeless_with_traffic(run, floor.step_time, floor.peak);
  });
}

}  // namespace plan
