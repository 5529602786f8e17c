// The smallest changes that make a job keep its limits: neighbours of its layout are estimated, nothing is canned.
// Tested by tests/planner/remedy_test.cpp.
#include "planner/choice/remedy.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "planner/choice/cheapest.hpp"
#include "planner/cost/cost.hpp"
#include "planner/memory/host_memory.hpp"
#include "planner/problem/axes.hpp"
#include "planner/rules/complete_layout.hpp"
#include "planner/rules/rules.hpp"
#include "planner/rules/words.hpp"
#include "planner/search/axis_values.hpp"
#include "planner/search/enumerate.hpp"
#include "planner/search/search.hpp"
#include "planner/search/switches.hpp"

namespace plan {
namespace {

constexpr int kMostMicroBatch = 64;
/// Estimates of one change at a time and of two, families of the last search: counted and not timed, so that every
/// machine suggests the same.
constexpr std::size_t kMostSingles = 3000, kMostPairs = 3000;
constexpr std::int64_t kMostTried = 5'000;

using Variants = std::vector<Variant>;

/// Values other than `from`, the nearest first as ratios go, smaller ones first among equals.
std::vector<int> by_distance(std::vector<int> values, int from) {
  std::erase(values, from);
  const auto away = [&](int v) { return std::fabs(std::log(static_cast<double>(v) / from)); };
  std::stable_sort(values.begin(), values.end(), [&](int a, int b) { return away(a) < away(b); });
  return values;
}

/// Some rules hold unless their axis is fixed: what somebody states may be run, what nobody does is not proposed. So an
/// axis that is changed is fixed no more.
bool proposable(const Problem& problem, const Layout& layout) {
  if (broken_rule(problem, layout) >= 0) return false;
  Fixed kept = problem.fixed;
  each_axis([&](const auto& axis) {
    if (kept.*axis.fixed && !(*(kept.*axis.fixed) == layout.*axis.value)) (kept.*axis.fixed).reset();
  });
  if (kept == problem.fixed) return true;
  Problem open = problem;
  open.fixed = std::move(kept);
  return broken_rule(open, layout) < 0;
}

void add(Variants& out, const Variant& from, Layout layout) {
  if (layout == from.layout || !settle_dp(from.problem, layout) || layout == from.layout) return;
  if (proposable(from.problem, layout)) out.push_back({from.problem, std::move(layout)});
}

Variants other_recompute(const Variant& from) {
  Variants out;
  if (broken_rule(from.problem, from.layout) >= 0) return out;
  Problem open = from.problem;
  open.fixed.recompute.reset();
  const std::vector<int> stages = estimate(from.problem, from.layout).stage_layers;
  const int deepest = (*std::max_element(stages.begin(), stages.end()) + from.layout.vp - 1) / from.layout.vp;
  for (const Recompute& choice : enumerate_recomputes(open, deepest)) {
    Layout layout = from.layout;
    layout.recompute = choice;
    add(out, from, layout);
  }
  return out;
}

template <class Change>
Variants each(const Variant& from, const std::vector<int>& values, Change change) {
  Variants out;
  for (const int value : values) {
    Layout layout = from.layout;
    change(layout, value);
    add(out, from, layout);
  }
  return out;
}

Variants other_micro_batch(const Variant& from) {
  std::vector<int> values;
  for (int b = 1; b <= std::max(kMostMicroBatch, from.layout.micro_batch); ++b) values.push_back(b);
  return each(from, by_distance(values, from.layout.micro_batch), [](Layout& l, int v) { l.micro_batch = v; });
}

Variants other_zero(const Variant& from) {
  return each(from, {0, 1, 2, 3}, [](Layout& l, int v) { l.zero = v, l.shard = v == 0 ? 0 : l.shard; });
}

Variants other_sequence_parallel(const Variant& from) {
  return each(from, {0, 1}, [](Layout& l, int v) { l.sequence_parallel = v == 1 && l.tp > 1; });
}

Variants other_cp(const Variant& from) {
  return each(from,
              by_distance(divisors(from.problem.gpus / std::max(1, from.layout.tp * from.layout.pp)), from.layout.cp),
              [](Layout& l, int v) {
                l.cp = v;
                if (v == 1 || l.cp_kind == CpKind::Hybrid) l.cp_kind = CpKind::Ring, l.cp_ulysses = 1;
              });
}

Variants other_pipeline(const Variant& from) {
  Variants out;
  const int room = from.problem.gpus / std::max(1, from.layout.tp * from.layout.cp);
  const int chunks = from.problem.model.depth() + 2;
  for (const int pp : divisors(room))
    for (int vp = 1; static_cast<std::int64_t>(pp) * vp <= chunks && (pp > 1 || vp == 1); ++vp) {
      Layout layout = from.layout;
      layout.pp = pp, layout.vp = vp;
      place_layers(from.problem, layout);
      if (vp != from.layout.vp) layout.schedule = vp > 1 ? Schedule::Interleaved : Schedule::OneFOneB;
      add(out, from, layout);
    }
  const auto away = [&](const Variant& v) {  // from the present split, as ratios go
    return std::fabs(std::log(static_cast<double>(v.layout.pp) / from.layout.pp)) +
           std::fabs(std::log(static_cast<double>(v.layout.vp) / from.layout.vp));
  };
  std::stable_sort(out.begin(), out.end(), [&](const Variant& a, const Variant& b) { return away(a) < away(b); });
  return out;
}

Variants other_tp(const Variant& from) {
  const bool experts_follow = from.layout.etp == from.layout.tp;
  const bool sequences = from.layout.sequence_parallel || from.layout.tp == 1;
  return each(from,
              by_distance(divisors(from.problem.gpus / std::max(1, from.layout.cp * from.layout.pp)), from.layout.tp),
              [&](Layout& l, int v) {
                l.tp = v, l.sequence_parallel = v > 1 && sequences;
                if (experts_follow) l.etp = v;
              });
}

Variants other_ep(const Variant& from) {
  if (!from.problem.model.moe()) return {};
  return each(from, by_distance(divisors(static_cast<int>(from.problem.model.experts())), from.layout.ep),
              [](Layout& l, int v) { l.ep = v; });
}

Variants other_order(const Variant& from) {
  return each(from, {0, 1}, [](Layout& l, int v) { l.order = static_cast<AxisOrder>(v); });
}

/// One switch of the training changed, under the same framework and layout.
Variants switched(const Variant& from, std::vector<ChangedJob> changes) {
  Variants out;
  for (ChangedJob& change : changes)
    if (change.problem.framework == from.problem.framework && broken_rule(change.problem, from.layout) < 0)
      out.push_back({std::move(change.problem), from.layout});
  return out;
}

Variants other_offload(const Variant& from) { return switched(from, offloads(from.problem)); }

Variants other_states(const Variant& from) { return switched(from, narrower_states(from.problem)); }

Variants other_precision(const Variant& from) { return switched(from, other_precisions(from.problem)); }

/// The batch that its replicas divide, the nearest; then halves and doubles.
Variants other_batch(const Variant& from) {
  const std::int64_t now = from.problem.training.global_batch;
  const std::int64_t once = std::max<std::int64_t>(1, from.layout.dp) * std::max(1, from.layout.micro_batch);
  const std::int64_t below = now / once * once, above = below + once;
  const bool up = above - now < now - below;
  Variants out;
  for (const std::int64_t batch : {up ? above : below, up ? below : above, now / 2, now * 2, now / 4, now * 4}) {
    Variant next = from;
    next.problem.training.global_batch = batch;
    if (batch > 0 && batch != now && broken_rule(next.problem, next.layout) < 0) out.push_back(next);
  }
  return out;
}

/// Powers of two from the GPUs that there are; then the replicas that the batch divides among, the most first.
Variants other_gpu_count(const Variant& from) {
  const int now = from.problem.gpus, inner = from.layout.tp * from.layout.cp * from.layout.pp;
  std::vector<int> counts;
  for (const auto& [times, over] :
       {std::pair{2, 1}, std::pair{1, 2}, std::pair{4, 1}, std::pair{1, 4}, std::pair{8, 1}})
    counts.push_back(now * times / over);
  const std::int64_t micro_batches = from.problem.training.global_batch / std::max(1, from.layout.micro_batch);
  for (int dp = static_cast<int>(std::min<std::int64_t>(micro_batches, now / std::max(1, inner))); dp > 0; --dp)
    if (micro_batches % dp == 0) counts.push_back(dp * inner);
  Variants out;
  for (const int gpus : counts) {
    Variant next = from;
    next.problem.gpus = gpus;
    if (gpus > 0 && gpus != now && settle_dp(next.problem, next.layout) && broken_rule(next.problem, next.layout) < 0)
      out.push_back(next);
  }
  return out;
}

Variants other_gpu_kind(const Variant& from) {
  Variants out;
  for (const Cluster& cluster : from.problem.alternatives) {
    Variant next = from;
    next.problem.cluster = with_stated_hosts(cluster, from.problem);
    if (unsupported_hardware(next.problem).empty() && broken_rule(next.problem, next.layout) < 0) out.push_back(next);
  }
  return out;
}

/// One way to change a job. `fastest`: its variants differ in price, take the fastest; else the first, the nearest.
struct Lever {
  Variants (*variants)(const Variant&);
  bool fastest;
};
constexpr Lever kLevers[] = {
    {other_recompute, true}, {other_micro_batch, false}, {other_zero, false},    {other_sequence_parallel, false},
    {other_cp, false},       {other_pipeline, false},    {other_tp, false},      {other_ep, false},
    {other_order, false},    {other_offload, false},     {other_states, true},   {other_precision, true},
    {other_batch, false},    {other_gpu_count, false},   {other_gpu_kind, false}};
constexpr std::size_t kPairedLevers = 7;  ///< changes of the layout that are worth two at a time

/// The best variant that keeps the limits.
std::optional<Remedy> best_of(const Variants& variants, bool fastest, const Patient& patient, std::size_t& budget) {
  std::optional<Remedy> best;
  for (const Variant& variant : variants) {
    if (budget == 0) break;
    --budget;
    Estimate detail = estimate(variant.problem, variant.layout);
    if (!patient.accepts(variant.problem, detail)) continue;
    if (best && !(detail.step_time < best->estimate.step_time)) continue;
    best = Remedy{variant.problem, variant.layout, std::move(detail)};
    if (!fastest) break;
  }
  return best;
}

/// Two changes at once: the cheapest pair of axes of which some combination is enough, and its fastest.
std::optional<Remedy> best_pair(const Variant& from, const Patient& patient) {
  std::size_t budget = kMostPairs;
  for (std::size_t second = 1; second < kPairedLevers; ++second)
    for (std::size_t first = 0; first < second; ++first) {
      std::optional<Remedy> best;
      for (const Variant& outer : kLevers[second].variants(from)) {
        std::optional<Remedy> found = best_of(kLevers[first].variants(outer), true, patient, budget);
        if (found && (!best || found->estimate.step_time < best->estimate.step_time)) best = std::move(found);
      }
      if (best || budget == 0) return best;
    }
  return std::nullopt;
}

/// The fastest layout of all that keeps the limits among those that a search reports; its layers are where a launch
/// puts them by default, if that is enough.
std::optional<Remedy> best_of_all(const Patient& patient) {
  Problem open = patient.problem;
  open.fixed = {}, open.free_switches = 0;
  open.pareto = true;  // limits on memory and on time both find their layout on the front
  const SearchResult found = find_layouts(open, {.families = kMostTried});
  std::vector<Candidate> candidates = found.ranking.best();
  candidates.insert(candidates.end(), found.front.members().begin(), found.front.members().end());
  for (const Candidate& candidate : candidates) {
    for (const bool by_work : {false, true}) {
      Layout layout = candidate.layout;
      if (!by_work) place_layers(open, layout);
      Estimate detail = estimate(open, layout);
      if (!patient.accepts(open, detail)) continue;
      if (by_work) layout.chunk_layers = detail.layout.chunk_layers;
      return Remedy{patient.problem, std::move(layout), std::move(detail)};
    }
  }
  return std::nullopt;
}

TokenCost token_cost(const Remedy& remedy) {
  const Problem& problem = remedy.problem;
  return {problem.gpus * remedy.estimate.step_time.value / static_cast<double>(problem.training.tokens_per_step()),
          problem.cluster.gpu.price_per_hour};
}

bool has(const std::vector<Remedy>& remedies, const Remedy& one) {
  return std::any_of(remedies.begin(), remedies.end(), [&](const Remedy& other) {
    return other.layout == one.layout && other.problem.gpus == one.problem.gpus &&
           other.problem.training == one.problem.training && other.problem.cluster.name == one.problem.cluster.name;
  });
}

}  // namespace

std::vector<Remedy> find_remedies(const Patient& patient, std::size_t most) {
  std::vector<Remedy> remedies;
  const Variant from{patient.problem, patient.layout};
  std::size_t budget = kMostSingles;
  const auto offer = [&](std::optional<Remedy> remedy) {
    if (remedy && remedies.size() < most && !has(remedies, *remedy)) remedies.push_back(std::move(*remedy));
  };
  for (const Variant& variant : patient.first) offer(best_of({variant}, false, patient, budget));
  std::vector<Remedy> singles;
  for (const Lever& lever : kLevers)
    if (remedies.size() < most)
      if (std::optional<Remedy> found = best_of(lever.variants(from), lever.fastest, patient, budget))
        singles.push_back(std::move(*found));
  sort_cheapest_first(singles, token_cost);
  for (Remedy& single : singles) offer(std::move(single));
  if (remedies.empty()) offer(best_pair(from, patient));
  if (remedies.empty()) offer(best_of_all(patient));
  return remedies;
}

}  // namespace plan
