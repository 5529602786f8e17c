// The values that a search tries on each axis. Tested against brute force in tests/planner/search_test.cpp.
#include "planner/search/axis_values.hpp"

#include <bit>

#include "formulas/schedule.hpp"
#include "planner/rules/frameworks.hpp"
#include "planner/rules/rules.hpp"
#include "planner/search/enumerate.hpp"

namespace plan {
namespace {

/// All-to-all parts of a hybrid context group: proper divisors.
std::vector<int> hybrid_parts(const Problem& problem, int cp) {
  std::vector<int> parts = divisors(cp);
  std::erase_if(parts, [&](int part) {
    return part == 1 || part == cp || (problem.fixed.cp_ulysses && part != *problem.fixed.cp_ulysses);
  });
  return parts;
}

std::vector<int> etp_values(const Problem& problem, const Layout& grid) {
  if (problem.fixed.etp) return {*problem.fixed.etp};
  return problem.model.moe() ? divisors(grid.tp) : std::vector<int>{1};
}

std::vector<int> ep_values(const Problem& problem, const Layout&) {
  if (problem.fixed.ep) return {*problem.fixed.ep};
  return problem.model.moe() ? divisors(problem.model.experts()) : std::vector<int>{1};
}

/// Those that divide a replica's sequences, see kMostTokens. Where the replicas do not divide the batch, no micro-batch
/// does, and one is kept for the rule to name.
std::vector<int> micro_batch_values(const Problem& problem, const Layout& grid) {
  if (problem.fixed.micro_batch) return {*problem.fixed.micro_batch};
  const std::int64_t batch = problem.training.global_batch;
  if (grid.dp < 1 || batch < 1 || batch % grid.dp != 0) return {1};
  const std::int64_t sequences = batch / grid.dp, most = kMostTokens / problem.training.seq;
  const bool halves = sequences % kMostOfAny == 0;
  std::vector<int> all = divisors(sequences);
  std::erase_if(all, [&](int size) {
    const bool odd = !std::has_single_bit(static_cast<unsigned>(size)) && (halves || size > kMostOfAny);
    return size > 1 && (size > most || (grid.pp > 1 && odd));
  });
  return all;
}

constexpr OuterAxis kOuterAxes[] = {
    {etp_values, [](Layout& l, int v) { l.etp = v; }, [](const Layout& grid) { return grid.tp; }, Level::Experts},
    {ep_values, [](Layout& l, int v) { l.ep = v; }, [](const Layout&) { return 0; }, Level::Experts},
    {micro_batch_values, [](Layout& l, int v) { l.micro_batch = v; },
     [](const Layout& grid) { return grid.pp > 1 ? -grid.dp : grid.dp; },  // pipelines have choices of their own
     Level::MicroBatch},
};

/// Most chunks per rank that leave each chunk a layer, or the embedding or the head alone.
int most_chunks(const Problem& problem, int pp) { return (problem.model.depth() + 2) / pp; }

}  // namespace

std::span<const OuterAxis> outer_axes() { return kOuterAxes; }

std::vector<int> divisors(std::int64_t n) {
  std::vector<int> all;
  all.reserve(32);
  for (std::int64_t d = 1; d * d <= n; ++d)
    if (n % d == 0) all.push_back(static_cast<int>(d));
  for (std::size_t i = all.size(); i > 0; --i)  // and what each goes into `n` times, a square's root once
    if (const auto large = static_cast<int>(n / all[i - 1]); large > all[i - 1]) all.push_back(large);
  return all;
}

bool sequence_parallel(const Problem& problem, const Layout& grid) {
  const bool divides = problem.training.seq % (std::int64_t{grid.cp} * grid.tp) == 0;
  return grid.tp > 1 &&
         problem.fixed.sequence_parallel.value_or(divides && framework_row(problem.framework).splits_sequence);
}

std::vector<ContextChoice> context_choices(const Problem& problem, int cp) {
  const bool parts = problem.fixed.cp_ulysses.value_or(1) > 1;
  const CpKind fixed = problem.fixed.cp_kind.value_or(CpKind::Ring);
  if (cp == 1 && !parts && problem.fixed.stages && have_context(*problem.fixed.stages)) return {{fixed, 1}};
  if (cp == 1) return parts || fixed != CpKind::Ring ? std::vector<ContextChoice>{} : std::vector<ContextChoice>{{}};
  std::vector<ContextChoice> all;
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

std::vector<Schedule> schedule_choices(const Problem& problem, int pp) {
  std::vector<Schedule> all;
  for (const ScheduleRow& row : kScheduleRows)
    if ((pp > 1 || row.schedule == Schedule::OneFOneB) &&
        row.schedule == problem.fixed.schedule.value_or(row.schedule) &&
        (problem.fixed.group.value_or(0) == 0 || row.passes == Passes::EachGroup))
      all.push_back(row.schedule);
  return all;
}

std::vector<int> group_choices(const Problem& problem, int pp, Schedule schedule) {
  if (problem.fixed.group) return {*problem.fixed.group};
  if (schedule_row(schedule).passes != Passes::EachGroup) return {0};
  return {0, 2 * pp, 4 * pp};
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

std::size_t shards_under(const Problem& problem, int zero, const std::vector<int>& shards) {
  return zero == 0 && !problem.fixed.shard ? 1 : shards.size();
}

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

}  // namespace plan
