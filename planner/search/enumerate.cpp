// The space of layouts, outer axes first. Tested against brute force in tests/planner/search_test.cpp.
#include "planner/search/enumerate.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <span>

#include "formulas/rank_grid.hpp"
#include "planner/rules/frameworks.hpp"
#include "planner/rules/rules.hpp"
#include "planner/search/axis_values.hpp"

namespace plan {
namespace {

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
  /// Chooses the outer axes from `at` on, then contexts.
  void outer(std::size_t at, const Layout& layout);
  void contexts(const Layout& layout);
  /// Is it legal at this level? If not, it counts.
  bool passes(const Layout& layout, Level level);

  /// The divisors of what is left of the GPUs once other axes have taken theirs, found among the divisors of all.
  std::vector<int> divisors_of(std::int64_t left) const;

  const Problem& problem_;
  Tally& tally_;
  InnerSpace inner_;
  std::vector<int> all_;
  std::map<int, std::vector<ContextChoice>> contexts_{};  ///< by cp
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
  auto choices = contexts_.find(layout.cp);
  if (choices == contexts_.end()) choices = contexts_.emplace(layout.cp, context_choices(problem_, layout.cp)).first;
  Family family{layout};
  for (const ContextChoice& context : choices->second) {
    family.layout.cp_kind = context.kind, family.layout.cp_ulysses = context.ulysses;
    if (on_ && passes(family.layout, Level::Context)) on_ = visit_(family);
  }
}

void FamilyWalk::outer(std::size_t at, const Layout& layout) {
  const std::span<const OuterAxis> axes = outer_axes();
  if (at == axes.size()) return contexts(layout);
  const bool last = at + 1 == axes.size() || axes[at + 1].level != axes[at].level;
  Layout next = layout;
  for (const int value : inner_.values(at, layout)) {
    axes[at].put(next, value);
    if (!last || passes(next, axes[at].level)) outer(at + 1, next);
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
        if (passes(layout, Level::Grid)) outer(0, layout);
      }
  return grids_;
}

}  // namespace

namespace {

bool both_orders(const Problem& problem, const Layout& family) {
  return !problem.fixed.order && framework_row(problem.framework).both_orders && order_matters(problem.cluster, family);
}

}  // namespace

std::vector<AxisOrder> order_choices(const Problem& problem, const Layout& family) {
  if (both_orders(problem, family)) return {AxisOrder::PipelineOutermost, AxisOrder::DataOutermost};
  return {problem.fixed.order.value_or(AxisOrder::PipelineOutermost)};
}

std::int64_t InnerSpace::size(const Layout& layout, Level level) {
  if (level == Level::Recompute) return 1;
  if (level == Level::Sharding) return recomputes(layout);
  if (level == Level::Schedule) return recomputes(layout) * shardings(layout);
  std::int64_t all = runs(layout) * (both_orders(problem_, layout) ? 2 : 1) * shardings(layout);
  if (level < Level::Context) all *= contexts(layout.cp);
  for (std::size_t axis = 0; axis < outer_axes().size(); ++axis)
    if (level < outer_axes()[axis].level) all *= count(values(axis, layout));
  return all;
}

InnerSpace::InnerSpace(const Problem& problem) : problem_(problem), values_(outer_axes().size()) {}

const std::vector<int>& InnerSpace::values(std::size_t outer_axis, const Layout& grid) {
  const OuterAxis& axis = outer_axes()[outer_axis];
  const int key = axis.depend(grid);
  const auto found = values_[outer_axis].find(key);
  if (found != values_[outer_axis].end()) return found->second;
  return values_[outer_axis].emplace(key, axis.values(problem_, grid)).first->second;
}

std::int64_t InnerSpace::contexts(int cp) {
  return remembered(contexts_, cp, [&](int) { return count(context_choices(problem_, cp)); });
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

/// Schedules with their chunks, each with its ways to recompute.
std::int64_t InnerSpace::runs(const Layout& family) {
  return remembered(runs_, family.pp, [&](int pp) {
    std::int64_t all = 0;
    Layout run = family;
    for (const Schedule schedule : schedule_choices(problem_, pp)) {
      run.schedule = schedule;
      all += count(chunks_per_rank(problem_, family, schedule)) * count(group_choices(problem_, pp, schedule)) *
             recomputes(run);
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
  layout.schedule = run.schedule, layout.vp = run.vp, layout.order = run.order, layout.group = run.group;
  if (problem.fixed.chunk_layers) layout.chunk_layers = *problem.fixed.chunk_layers;
  return layout;
}

std::vector<Pipelining> enumerate_runs(const Problem& problem, const Layout& family, Tally& tally, InnerSpace& inner) {
  std::vector<Pipelining> runs;
  Layout layout = run_of(problem, family, {});
  const std::vector<AxisOrder> orders = order_choices(problem, family);
  for (const Schedule schedule : schedule_choices(problem, family.pp))
    for (const int vp : chunks_per_rank(problem, family, schedule))
      for (const int group : group_choices(problem, family.pp, schedule))
        for (const AxisOrder order : orders) {
          layout.schedule = schedule, layout.vp = vp, layout.order = order, layout.group = group;
          if (const int rule = broken_rule(problem, layout, Level::Schedule); rule >= 0)
            tally.reject(rule, inner.size(layout, Level::Schedule));
          else
            runs.push_back({schedule, vp, order, group});
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
