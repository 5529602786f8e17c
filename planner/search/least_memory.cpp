// Bounds from below on the memory of all layouts of a family, without placing layers.
// Tested by tests/planner/properties_test.cpp.
#include "planner/search/least_memory.hpp"

#include <algorithm>
#include <limits>

namespace plan {
namespace {

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

bool is_block(const Recompute& recompute) { return recompute.kind == RecomputeKind::Full; }

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

/// What every sharding shares out of the mean rank: a part of all that the model has.
StageSums mean_sums(const Problem& problem, const Layout& family, int fewest, const MemoryModel& memory) {
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
  return sums;
}

/// The same of the fullest rank. A rank of DualPipe shares its optimizer states with the one that holds the same, and
/// of the two stages that it holds one may be empty: half of what the two have together counts.
StageSums fullest_sums(const FullestRank& rank, int pp, bool both, const MemoryModel& memory) {
  StageSums sums = memory.sums(rank.content);
  const double held = rank.layers_on(pp);
  const double counted = both ? (2 * rank.of_model + pp - 1) / pp / 2.0 : held;
  for (double StageSums::*part : {&StageSums::dense, &StageSums::expert, &StageSums::trained_dense,
                                  &StageSums::trained_expert, &StageSums::quantised, &StageSums::expert_quantised})
    sums.*part *= counted / held;
  return sums;
}

std::vector<ShardedMemory> states_of(const Problem& problem, Layout layout, const std::vector<Sharding>& shardings,
                                     StageSums sums, const MemoryModel& memory) {
  sums.fresh_grads = RealBytes();        // which depends on the micro-batch, and states known for one serve all
  layout.schedule = Schedule::OneFOneB;  // the rank of a DualPipe holds twice the weights
  const StageContent no_ends{};
  // What DeepSpeed gathers at most does not grow with what a rank holds: the mean of that may be less.
  const bool gathers = problem.training.stack.states != StateLayout::DeepSpeed;
  constexpr RealBytes kRounding(16);  // of the parts that ranks round
  std::vector<ShardedMemory> all;
  for (const Sharding& sharding : shardings) {
    layout.zero = sharding.zero, layout.shard = sharding.shard;
    const ShardedMemory one = memory.sharded(layout, 0, no_ends, sums);
    ShardedMemory least;
    least.weights = round_bytes(std::max(RealBytes(), one.states() - one.late_grads - kRounding));
    least.communication = one.communication, least.host = one.host;
    if (gathers) least.forward = one.forward, least.backward = one.backward;
    all.push_back(least);
  }
  keep_least(all, [](const ShardedMemory& one) {
    return std::array{static_cast<double>((one.weights + one.communication).value), one.forward.value,
                      one.backward.value, one.host.value};
  });
  return all;
}

RealBytes least_total(const std::vector<ShardedMemory>& states, const ActivityMemory& activity,
                      const MemoryModel& memory) {
  RealBytes least = RealBytes::infinity();
  for (const ShardedMemory& one : states) least = std::min(least, memory.least_total(one, activity));
  return least;
}

}  // namespace

std::size_t module_choices(const std::vector<Recompute>& recomputes) {
  return static_cast<std::size_t>(std::find_if(recomputes.begin(), recomputes.end(), is_block) - recomputes.begin());
}

std::size_t block_choices(const std::vector<Recompute>& recomputes) {
  const auto together = [](const Recompute& recompute) { return is_block(recompute) && recompute.uniform > 1; };
  return static_cast<std::size_t>(std::find_if(recomputes.begin(), recomputes.end(), together) - recomputes.begin());
}

LeastStates least_states(const Problem& problem, const Layout& family, const std::vector<Sharding>& shardings,
                         int fewest, bool both, const MemoryModel& memory) {
  const StageSums mean = mean_sums(problem, family, fewest, memory);
  LeastStates least{.mean = states_of(problem, family, shardings, mean, memory)};
  if (family.pp == 1) return least;
  const FullestRank rank = fullest_rank(problem, memory, family.pp);
  if (rank.of_model == 0) return least;
  const StageSums fullest = fullest_sums(rank, family.pp, both, memory);
  if (fullest.dense + fullest.expert > mean.dense + mean.expert + mean.ends || fullest.block > mean.block)
    least.fullest = states_of(problem, family, shardings, fullest, memory);
  return least;
}

int batch_of_states(const Problem& problem, const Layout& family) {
  const bool several = micro_batches(problem.training.global_batch, family.dp, family.micro_batch) > 1;
  return several ? 1 : family.micro_batch;
}

RealBytes LeastStatesOfAny::of(const Layout& family) {
  const std::pair like{degrees_of(family), batch_of_states(problem_, family)};
  if (least_ >= RealBytes() && like == last_) return least_;
  last_ = like;
  // No group takes less than all ranks do.
  static const std::vector<Sharding> widest = {{0, 0}, {1, 0}, {2, 0}, {3, 0}};
  const std::tuple key(family.tp, family.ep, family.etp, family.pp);
  auto found = models_.find(key);
  if (found == models_.end()) found = models_.emplace(key, MemoryModel(problem_, family)).first;
  return least_ = least_peak(least_states(problem_, family, widest, 0, true, found->second), {}, {}, found->second);
}

namespace {

/// What one layer of each kind leaves on the GPU under a way to recompute.
struct LayersUnder {
  ByKind<RealBytes> held{}, transient{}, saved{};
  Seconds again{};                                            ///< work that recomputing all of them takes
  double cheapest = std::numeric_limits<double>::infinity();  ///< seconds for a byte that it frees
};

LayersUnder layers_under(const Recompute& choice, std::size_t kept_choice, const StageContent& model,
                         const KeptLayers& kept, const MemoryModel& memory, const CostModel* costs, std::size_t kinds) {
  LayersUnder under;
  const bool whole = is_block(choice);
  for (std::size_t kind = 0; kind < kinds; ++kind) {
    const int count = model.layers_of_kind[kind], k = static_cast<int>(kind);
    const LayerMemory& layer = memory.layer(k);
    const KeptLayer& here = kept.of(kept_choice, k);
    const RealBytes checkpoint = std::min(layer.saved, layer.checkpoint / std::max(1, choice.uniform));
    under.saved[kind] = layer.saved, under.held[kind] = whole ? checkpoint : here.kept;
    under.transient[kind] =
        here.backward + (whole ? std::max(RealBytes(), layer.saved - layer.checkpoint) : RealBytes());
    if (costs == nullptr || count == 0 || (whole && choice.layers != 0)) continue;
    const Seconds again = (whole ? costs->full_recompute(k) : costs->selective_recompute(k, choice.modules)).total();
    under.again += count * again;
    if (layer.saved > checkpoint)
      under.cheapest = std::min(under.cheapest, again.value / (layer.saved - checkpoint).value);
  }
  return under;
}

RealBytes mean_of(const ByKind<RealBytes>& values, const StageContent& model, int pp) {
  RealBytes sum;
  for (std::size_t kind = 0; kind < values.size(); ++kind) sum += model.layers_of_kind[kind] * values[kind];
  return sum / pp;
}

/// The least of the kinds that the fullest rank may hold.
RealBytes least_of(const ByKind<RealBytes>& values, const FullestRank& rank) {
  RealBytes least = RealBytes::infinity();
  for (std::size_t kind = 0; kind < values.size(); ++kind)
    if (rank.may_hold[kind]) least = std::min(least, values[kind]);
  return least;
}

}  // namespace

std::vector<LeastActivity> least_activities(const Problem& problem, const Layout& family,
                                            const std::vector<Recompute>& recomputes, int fewest,
                                            const KeptLayers& kept, const MemoryModel& memory, const CostModel* costs) {
  // Modules whose activations wait in host memory are not among what layers keep. Of whole layers that leave, a rank
  // may have no others; the fullest has some.
  const int away = problem.training.offload.layers;
  const double on_gpu = away > 0 ? 0 : 1;
  const StageContent model = whole_model(problem.model);
  const FullestRank rank = fullest_rank(problem, memory, family.pp);
  const int full = rank.layers_on(family.pp);
  std::vector<LeastActivity> least;
  for (std::size_t i = 0; i < recomputes.size(); ++i) {
    const Recompute& choice = recomputes[i];
    const bool all = is_block(choice) && choice.layers == 0;
    if (is_block(choice) && !all && i + 1 < recomputes.size()) continue;  // the last represents them
    const bool blocks = all && choice.uniform <= 1 && i > 0 && is_block(recomputes[i - 1]);
    const LayersUnder under =
        layers_under(choice, std::min(i, kept.choices() - 1), model, kept, memory, costs, problem.model.kinds.size());
    LeastActivity one{.again = under.again, .together = std::max(1, choice.uniform)};
    one.mean.layers = fewest, one.mean.held = on_gpu * mean_of(under.held, model, family.pp);
    // A rank may rebuild layers of another kind than the one that needs most for its backward pass.
    one.mean.transient = mean_of_largest(model, family, fewest, under.transient);
    if (one.together > 1) one.mean.layer = mean_of_largest(model, family, fewest, under.saved);
    if (rank.of_model > 0) {
      one.fullest = {std::max(fewest, full), std::max(0, full - away) * least_of(under.held, rank),
                     least_of(under.transient, rank)};
      if (one.together > 1) one.fullest.layer = least_of(under.saved, rank);
    }
    if (!blocks) {
      least.push_back(one);
      continue;
    }
    // What some blocks free of the mean rank and what they cost are shares of what all layers do; each piece has the
    // time of its smallest and the memory of its largest share. One rank may be through before others are.
    constexpr int kPieces = 8;
    const RealBytes none = on_gpu * mean_of(under.saved, model, family.pp), freed = none - one.mean.held;
    const Seconds cost(freed > RealBytes() ? under.cheapest * freed.value * family.pp : 0);
    for (int piece = 0; piece < kPieces; ++piece) {
      one.mean.held = none - freed * (piece + 1) / kPieces, one.again = cost * piece / kPieces;
      least.push_back(one);
    }
  }
  keep_least(least, [](const LeastActivity& one) {
    const double more = one.together - 1;
    return std::array{one.again.value,
                      one.mean.held.value,
                      one.mean.transient.value,
                      one.fullest.held.value,
                      one.fullest.transient.value,
                      more * one.mean.layer.value,
                      more * one.fullest.layer.value};
  });
  return least;
}

RealBytes least_peak(const LeastStates& states, const LeastActivity& under, const LeastChunks& chunks,
                     const MemoryModel& memory, RealBytes capacity) {
  const auto of = [&](const std::vector<ShardedMemory>& shared, const LeastHeld& rank) {
    ActivityMemory activity;
    activity.activations = rank.held * chunks.flights;
    const int together =
        rebuilt_together({.kind = RecomputeKind::Full, .uniform = under.together}, chunks.vp, rank.layers);
    activity.backward = rank.transient + (together - 1) * rank.layer;
    return least_total(shared, activity, memory);
  };
  const RealBytes mean = of(states.mean, under.mean);
  if (states.fullest.empty() || mean > capacity) return mean;
  return std::max(mean, of(states.fullest, under.fullest));
}

}  // namespace plan
