// The space of layouts, outer axes first. Tested against brute force in tests/planner/search_test.cpp.
#include "planner/enumerate.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <map>
#include <span>

#include "formulas/rank_grid.hpp"
#include "formulas/schedule.hpp"
#include "planner/rules/frameworks.hpp"
#include "planner/rules/rules.hpp"

namespace plan {
namespace {

/// Divisors of `n` in order.
std::vector<int> divisors(std::int64_t n) {
  std::vector<int> all;
  all.reserve(32);
  for (std::int64_t d = 1; d * d <= n; ++d)
    if (n % d == 0) all.push_back(static_cast<int>(d));
  for (std::size_t i = all.size(); i > 0; --i)  // and what each goes into `n` times, a square's root once
    if (const auto large = static_cast<int>(n / all[i - 1]); large > all[i - 1]) all.push_back(large);
  return all;
}

/// What the user fixed, or else all candidates.
template <class T>
std::vector<T> choose(const std::optional<T>& fixed, std::vector<T> candidates) {
  if (fixed) return {*fixed};
  return candidates;
}

/// Where nobody fixed it: as the framework does, and off where tp does not divide a context rank's tokens. Where it
/// does, splitting them too keeps less and moves as much.
bool sequence_parallel(const Problem& problem, const Layout& grid) {
  const bool divides = problem.training.seq % (std::int64_t{grid.cp} * grid.tp) == 0;
  return grid.tp > 1 &&
         problem.fixed.sequence_parallel.value_or(divides && framework_row(problem.framework).splits_sequence);
}

/// All-to-all parts of a hybrid context group: proper divisors.
std::vector<int> hybrid_parts(const Problem& problem, int cp) {
  std::vector<int> parts = divisors(cp);
  std::erase_if(parts, [&](int part) {
    return part == 1 || part == cp || (problem.fixed.cp_ulysses && part != *problem.fixed.cp_ulysses);
  });
  return parts;
}

struct Context {
  CpKind kind = CpKind::Ring;
  int ulysses = 1;
};

/// What is fixed of the context needs a group to hold for: none of it is dropped at cp 1.
std::vector<Context> context_choices(const Problem& problem, int cp) {
  const bool parts = problem.fixed.cp_ulysses.value_or(1) > 1;
  const CpKind fixed = problem.fixed.cp_kind.value_or(CpKind::Ring);
  if (cp == 1 && !parts && problem.fixed.stages && have_context(*problem.fixed.stages)) return {{fixed, 1}};
  if (cp == 1) return parts || fixed != CpKind::Ring ? std::vector<Context>{} : std::vector<Context>{{}};
  std::vector<Context> all;
  for (const CpKind kind :
       choose<CpKind>(problem.fixed.cp_kind, {CpKind::Ring, CpKind::AllGather, CpKind::Ulysses, CpKind::Hybrid})) {
    if (kind != CpKind::Hybrid) {
      if (!parts) all.push_back({kind, 1});
      continue;
    }
    for (const int part : hybrid_parts(problem, cp)) all.push_back({kind, part});
  }
  return all;
}

/// Those that divide a replica's sequences, see kMostTokens. Where the replicas do not divide the batch, no micro-batch
/// does, and one is kept for the rule to name.
std::vector<int> micro_batch_choices(const Problem& problem, const Layout& grid) {
  if (problem.fixed.micro_batch) return {*problem.fixed.micro_batch};
  const std::int64_t batch = problem.training.global_batch;
  if (grid.dp < 1 || batch < 1 || batch % grid.dp != 0) return {1};
  std::vector<int> all = divisors(batch / grid.dp);
  const std::int64_t most = kMostTokens / problem.training.seq;
  std::erase_if(all, [&](int size) {
    return size > 1 && (size > most || (grid.pp > 1 && !std::has_single_bit(static_cast<unsigned>(size))));
  });
  return all;
}

std::vector<int> etp_choices(const Problem& problem, int tp) {
  return choose<int>(problem.fixed.etp, problem.model.moe() ? divisors(tp) : std::vector<int>{1});
}

std::vector<int> ep_choices(const Problem& problem) {
  return choose<int>(problem.fixed.ep, problem.model.moe() ? divisors(problem.model.experts()) : std::vector<int>{1});
}

/// Every schedule is the same without stages, but a fixed one asks for them, as a fixed group does for interleaving.
std::vector<Schedule> schedule_choices(const Problem& problem, int pp) {
  std::vector<Schedule> all;
  for (const ScheduleRow& row : kScheduleRows)
    if ((pp > 1 || row.schedule == Schedule::OneFOneB) &&
        row.schedule == problem.fixed.schedule.value_or(row.schedule) &&
        (problem.fixed.group.value_or(0) == 0 || row.passes == Passes::EachGroup))
      all.push_back(row.schedule);
  return all;
}

std::vector<int> shard_choices(const Problem& problem, const Layout& run) {
  // Copies that train apart share no states: each shards its own.
  if (const LocalUpdates& local = problem.training.local; local.any())
    return choose<int>(problem.fixed.shard, {std::max(1, run.dense_group() / local.copies)});
  std::vector<int> shards = divisors(run.dense_group());
  shards.front() = 0;  // all of them
  if (shards.size() > 1) shards.pop_back();
  return choose<int>(problem.fixed.shard, std::move(shards));
}

std::vector<int> zero_choices(const Problem& problem) { return choose<int>(problem.fixed.zero, {0, 1, 2, 3}); }

/// Without sharding there is nothing to divide.
std::size_t shards_under(const Problem& problem, int zero, const std::vector<int>& shards) {
  return zero == 0 && !problem.fixed.shard ? 1 : shards.size();
}

/// Most chunks per rank that leave each chunk a layer, or the embedding or the head alone.
int most_chunks(const Problem& problem, int pp) { return (problem.model.depth() + 2) / pp; }

std::vector<int> chunks_per_rank(const Problem& problem, const Layout& family, Schedule schedule) {
  if (problem.fixed.vp)
    return takes_chunks(schedule, *problem.fixed.vp) ? std::vector<int>{*problem.fixed.vp} : std::vector<int>{};
  switch (schedule_row(schedule).chunks) {
    case Chunks::One: return {1};
    case Chunks::Two: return {2};
    case Chunks::Many: break;
  }
  std::vector<int> all;
  for (int vp = 2; vp <= most_chunks(problem, family.pp); ++vp) all.push_back(vp);
  return all;
}

/// Ways to recompute that a model offers, whatever the framework.
std::vector<Recompute> possible_recomputes(const Problem& problem, int stage_layers) {
  std::vector<Recompute> options{{}};
  // With flash attention there is no s x s tensor to drop: rebuilding the core saves nothing (D4).
  std::uint16_t useful = modules_of(problem.model);
  if (problem.training.stack.flash_attention) useful = static_cast<std::uint16_t>(useful & ~kRecomputeCoreAttention);
  // A set comes after its subsets, so that what fits early beats what costs more.
  for (unsigned subset = (0u - useful) & useful; subset != 0; subset = (subset - useful) & useful) {
    const bool twice = (subset & kRecomputeMoe) && (subset & (kRecomputeMoeActivation | kRecomputeSharedExperts));
    if (!twice) options.push_back({.kind = RecomputeKind::Selective, .modules = static_cast<std::uint16_t>(subset)});
  }
  if (const std::uint16_t own = framework_row(problem.framework).recomputes; own != 0)
    options.push_back({.kind = RecomputeKind::Selective, .modules = own});
  for (int block = 1; block < stage_layers; ++block) options.push_back({.kind = RecomputeKind::Full, .layers = block});
  options.push_back({.kind = RecomputeKind::Full});
  // Inputs kept every n layers, which are rebuilt together: of l layers in flight l / n inputs and n layers are held,
  // the least at n^2 = l times an input over a layer. A layer keeps several times its input, and no rank holds more
  // than twice the model in flight: beyond the root of its depth n only adds. Near the least, memory is flat.
  for (int apart = 2; apart <= stage_layers && apart * apart <= problem.model.depth(); apart *= 2)
    options.push_back({.kind = RecomputeKind::Full, .uniform = apart});
  return options;
}

template <class List>
std::int64_t count(const List& list) {
  return static_cast<std::int64_t>(list.size());
}

template <class Work>
std::int64_t remembered(std::map<int, std::int64_t>& known, int key, const Work& work) {
  const auto found = known.find(key);
  return found != known.end() ? found->second : known[key] = work(key);
}

/// Walks the outer axes, counts what rules reject and collects the rest.
class FamilyWalk {
 public:
  using Visit = std::function<bool(const Family&)>;
  FamilyWalk(const Problem& problem, Tally& tally, std::int64_t most, const Visit& visit)
      : problem_(problem), tally_(tally), inner_(problem), all_(divisors(problem.gpus)), most_(most), visit_(visit) {}

  /// Grids of (tp, cp, pp) that it looked at.
  std::int64_t run();

 private:
  void experts(Layout layout);
  void micro_batches(Layout layout, const std::vector<int>& sizes);
  void contexts(const Layout& layout);
  /// Is it legal at this level? If not, it counts.
  bool passes(const Layout& layout, Level level);

  /// Of the GPUs' divisors those of what is left of them.
  std::vector<int> divisors_of(std::int64_t left) const;

  const Problem& problem_;
  Tally& tally_;
  InnerSpace inner_;
  std::vector<int> all_;
  std::int64_t most_, grids_ = 0;
  const Visit& visit_;
  bool on_ = true;  ///< more families are wanted
};

std::vector<int> FamilyWalk::divisors_of(std::int64_t left) const {
  if (left <= 0 || problem_.gpus % left != 0) return divisors(left);  // a fixed axis need not divide the GPUs
  std::vector<int> some;
  some.reserve(all_.size());
  for (const int divisor : all_) {
    if (divisor > left) break;
    if (left % divisor == 0) some.push_back(divisor);
  }
  return some;
}

bool FamilyWalk::passes(const Layout& layout, Level level) {
  const int rule = broken_rule(problem_, layout, level);
  if (rule >= 0) tally_.reject(rule, inner_.size(layout, level));
  return rule < 0;
}

void FamilyWalk::contexts(const Layout& layout) {
  for (const Context& context : context_choices(problem_, layout.cp)) {
    Layout family = layout;
    family.cp_kind = context.kind, family.cp_ulysses = context.ulysses;
    if (on_ && passes(family, Level::Context)) on_ = visit_({family});
  }
}

void FamilyWalk::micro_batches(Layout layout, const std::vector<int>& sizes) {
  for (const int micro_batch : sizes) {
    layout.micro_batch = micro_batch;
    if (passes(layout, Level::MicroBatch)) contexts(layout);
  }
}

void FamilyWalk::experts(Layout layout) {
  const std::vector<int> sizes = micro_batch_choices(problem_, layout);
  for (const int etp : etp_choices(problem_, layout.tp))
    for (const int ep : ep_choices(problem_)) {
      layout.ep = ep, layout.etp = etp;
      if (passes(layout, Level::Experts)) micro_batches(layout, sizes);
    }
}

std::int64_t FamilyWalk::run() {
  for (const int tp : choose<int>(problem_.fixed.tp, all_))
    for (const int cp : choose<int>(problem_.fixed.cp, divisors_of(problem_.gpus / tp)))
      for (const int pp : choose<int>(problem_.fixed.pp, divisors_of(problem_.gpus / tp / cp))) {
        if (!on_ || grids_++ >= most_) return grids_;
        const std::int64_t inner = static_cast<std::int64_t>(tp) * cp * pp;
        Layout layout;
        layout.tp = tp, layout.cp = cp, layout.pp = pp;
        layout.dp = problem_.fixed.dp.value_or(static_cast<int>(std::max<std::int64_t>(1, problem_.gpus / inner)));
        layout.sequence_parallel = sequence_parallel(problem_, layout);
        if (problem_.fixed.sequence_parallel.value_or(false) && !layout.sequence_parallel) continue;
        if (passes(layout, Level::Grid)) experts(layout);
      }
  return grids_;
}

}  // namespace

std::vector<AxisOrder> order_choices(const Problem& problem, const Layout& family) {
  if (problem.fixed.order) return {*problem.fixed.order};
  const bool both = framework_row(problem.framework).both_orders && order_matters(problem.cluster, family);
  if (!both) return {AxisOrder::PipelineOutermost};
  return {AxisOrder::PipelineOutermost, AxisOrder::DataOutermost};
}

std::int64_t InnerSpace::size(const Layout& layout, Level level) {
  if (level == Level::Recompute) return 1;
  if (level == Level::Sharding) return recomputes(layout);
  if (level == Level::Schedule) return recomputes(layout) * shardings(layout);
  std::int64_t all = runs(layout) * count(order_choices(problem_, layout)) * shardings(layout);
  if (level < Level::Context) all *= count(context_choices(problem_, layout.cp));
  if (level < Level::MicroBatch) all *= micro_batches(layout);
  if (level < Level::Experts) all *= count(etp_choices(problem_, layout.tp)) * count(ep_choices(problem_));
  return all;
}

std::int64_t InnerSpace::recomputes(const Layout& run) {
  return remembered(recomputes_, least_deepest(problem_, run), [&](int deepest) {
    return std::max<std::int64_t>(1, count(enumerate_recomputes(problem_, deepest)));
  });
}

std::int64_t InnerSpace::shardings(const Layout& run) {
  return remembered(shardings_, run.dense_group(), [&](int) {
    const std::vector<int> shards = shard_choices(problem_, run);
    std::int64_t all = 0;
    for (const int zero : zero_choices(problem_))
      all += static_cast<std::int64_t>(shards_under(problem_, zero, shards));
    return all;
  });
}

std::int64_t InnerSpace::micro_batches(const Layout& grid) {
  const int key = grid.pp > 1 ? -grid.dp : grid.dp;  // pipelines have choices of their own
  return remembered(micro_batches_, key, [&](int) { return count(micro_batch_choices(problem_, grid)); });
}

/// Schedules with their chunks, each with its ways to recompute.
std::int64_t InnerSpace::runs(const Layout& family) {
  return remembered(runs_, family.pp, [&](int pp) {
    std::int64_t all = 0;
    Layout run = family;
    for (const Schedule schedule : schedule_choices(problem_, pp)) {
      run.schedule = schedule;
      all += count(chunks_per_rank(problem_, family, schedule)) * recomputes(run);
    }
    return all;
  });
}

std::vector<Family> enumerate_families(const Problem& problem, Tally& tally) {
  std::vector<Family> families;
  (void)visit_families(problem, tally, std::numeric_limits<std::int64_t>::max(), [&](const Family& family) {
    families.push_back(family);
    return true;
  });
  return families;
}

std::int64_t visit_families(const Problem& problem, Tally& tally, std::int64_t most,
                            const std::function<bool(const Family&)>& visit) {
  return FamilyWalk(problem, tally, most, visit).run();
}

Layout run_of(const Problem& problem, const Layout& family, const Pipelining& run) {
  Layout layout = family;
  layout.schedule = run.schedule, layout.vp = run.vp, layout.order = run.order;
  layout.group = problem.fixed.group.value_or(0);
  if (problem.fixed.chunk_layers) layout.chunk_layers = *problem.fixed.chunk_layers;
  return layout;
}

std::vector<Pipelining> enumerate_runs(const Problem& problem, const Layout& family, Tally& tally, InnerSpace& inner) {
  std::vector<Pipelining> runs;
  Layout layout = run_of(problem, family, {});
  const std::vector<AxisOrder> orders = order_choices(problem, family);
  for (const Schedule schedule : schedule_choices(problem, family.pp))
    for (const int vp : chunks_per_rank(problem, family, schedule))
      for (const AxisOrder order : orders) {
        layout.schedule = schedule, layout.vp = vp, layout.order = order;
        if (const int rule = broken_rule(problem, layout, Level::Schedule); rule >= 0)
          tally.reject(rule, inner.size(layout, Level::Schedule));
        else
          runs.push_back({schedule, vp, order});
      }
  return runs;
}

std::vector<Sharding> enumerate_shardings(const Problem& problem, const Layout& run, Tally& tally, InnerSpace& inner) {
  std::vector<Sharding> shardings;
  const std::vector<int> shards = shard_choices(problem, run);
  Layout layout = run;
  shardings.reserve(4 * shards.size());
  for (const int zero : zero_choices(problem))
    for (const int shard : std::span(shards).first(shards_under(problem, zero, shards))) {
      layout.zero = zero, layout.shard = zero == 0 && problem.training.local.any() ? 0 : shard;
      if (const int rule = broken_rule(problem, layout, Level::Sharding); rule >= 0)
        tally.reject(rule, inner.size(layout, Level::Sharding));
      else
        shardings.push_back({zero, layout.shard});
    }
  return shardings;
}

std::vector<Pipelining> enumerate_runs(const Problem& problem, const Layout& family, Tally& tally) {
  InnerSpace inner(problem);
  return enumerate_runs(problem, family, tally, inner);
}

std::vector<Sharding> enumerate_shardings(const Problem& problem, const Layout& run, Tally& tally) {
  InnerSpace inner(problem);
  return enumerate_shardings(problem, run, tally, inner);
}

int broken_rule(const Problem& problem, const Recompute& recompute) {
  Layout layout;
  layout.recompute = recompute;
  return broken_rule(problem, layout, Level::Recompute);
}

int least_deepest(const Problem& problem, const Layout& run) {
  const int held = problem.model.depth() * parameter_copies(run.schedule);
  return (held + run.pp - 1) / run.pp;
}

std::vector<Recompute> enumerate_recomputes(const Problem& problem, int stage_layers) {
  std::vector<Recompute> options = problem.fixed.recompute ? std::vector<Recompute>{*problem.fixed.recompute}
                                                           : possible_recomputes(problem, stage_layers);
  if (rules_of(problem.framework, Level::Recompute).empty()) return options;
  std::erase_if(options, [&](const Recompute& option) { return broken_rule(problem, option) >= 0; });
  return options;
}

}  // namespace plan
