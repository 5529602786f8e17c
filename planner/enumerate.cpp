// The space of layouts, outer axes first. Tested against brute force in tests/planner/search_test.cpp.
#include "planner/enumerate.hpp"

#include <algorithm>
#include <span>

#include "planner/rules.hpp"

namespace plan {
namespace {

std::vector<int> divisors(std::int64_t n) {
  std::vector<int> small, large;
  for (std::int64_t d = 1; d * d <= n; ++d)
    if (n % d == 0) {
      small.push_back(static_cast<int>(d));
      if (d * d != n) large.push_back(static_cast<int>(n / d));
    }
  small.insert(small.end(), large.rbegin(), large.rend());
  return small;
}

/// What the user fixed, or else all candidates.
template <class T>
std::vector<T> choose(const std::optional<T>& fixed, std::vector<T> candidates) {
  return fixed ? std::vector<T>{*fixed} : candidates;
}

bool sequence_parallel(const Problem& problem, int tp) {
  return tp > 1 && problem.fixed.sequence_parallel.value_or(splits_sequence(problem.framework));
}

/// All-to-all parts of a hybrid context group: proper divisors.
std::vector<int> hybrid_parts(const Problem& problem, int cp) {
  if (problem.fixed.cp_ulysses) return {*problem.fixed.cp_ulysses};
  std::vector<int> parts = divisors(cp);
  std::erase_if(parts, [&](int part) { return part == 1 || part == cp; });
  return parts;
}

void add_contexts(const Problem& problem, Layout layout, std::vector<Family>& families, Tally& tally) {
  const auto add = [&](CpKind kind, int part) {
    layout.cp_kind = kind, layout.cp_ulysses = part;
    if (const int rule = broken_rule(problem, layout, Level::Context); rule >= 0)
      tally.reject(rule, 1);
    else
      families.push_back({layout});
  };
  if (layout.cp == 1) return add(CpKind::Ring, 1);
  for (const CpKind kind :
       choose<CpKind>(problem.fixed.cp_kind, {CpKind::Ring, CpKind::AllGather, CpKind::Ulysses, CpKind::Hybrid})) {
    if (kind != CpKind::Hybrid) {
      add(kind, 1);
      continue;
    }
    for (const int part : hybrid_parts(problem, layout.cp)) add(kind, part);
  }
}

void add_micro_batches(const Problem& problem, Layout layout, std::vector<Family>& families, Tally& tally) {
  for (const int micro_batch : choose<int>(problem.fixed.micro_batch, {1, 2, 4, 8, 16})) {
    layout.micro_batch = micro_batch;
    if (const int rule = broken_rule(problem, layout, Level::MicroBatch); rule >= 0)
      tally.reject(rule, 1);
    else
      add_contexts(problem, layout, families, tally);
  }
}

void add_experts(const Problem& problem, Layout layout, std::vector<Family>& families, Tally& tally) {
  const bool moe = problem.model.moe();
  std::vector<int> widths{1};
  if (moe && layout.tp > 1) widths.push_back(layout.tp);
  for (const int etp : choose<int>(problem.fixed.etp, widths))
    for (const int ep : choose<int>(problem.fixed.ep, moe ? divisors(problem.model.experts()) : std::vector<int>{1})) {
      layout.ep = ep, layout.etp = etp;
      if (const int rule = broken_rule(problem, layout, Level::Experts); rule >= 0)
        tally.reject(rule, 1);
      else
        add_micro_batches(problem, layout, families, tally);
    }
}

/// Most chunks per rank that leave each chunk a layer, or the embedding or the head alone.
int most_chunks(const Problem& problem, int pp) { return (problem.model.depth() + 2) / pp; }

std::vector<int> chunks_per_rank(const Problem& problem, const Layout& family, Schedule schedule) {
  switch (schedule) {
    case Schedule::Interleaved:
    case Schedule::BreadthFirst: {
      std::vector<int> all;
      for (int vp = 2; vp <= most_chunks(problem, family.pp); ++vp) all.push_back(vp);
      return choose<int>(problem.fixed.vp, all);
    }
    case Schedule::ZbV:
    case Schedule::VHalf:
    case Schedule::VMin:
    case Schedule::DualPipeV: return problem.fixed.vp.value_or(2) == 2 ? std::vector<int>{2} : std::vector<int>{};
    default: return problem.fixed.vp.value_or(1) == 1 ? std::vector<int>{1} : std::vector<int>{};
  }
}

/// Ways to recompute that a model offers, whatever the framework.
std::vector<Recompute> possible_recomputes(const Problem& problem, std::uint16_t modules_present, int stage_layers) {
  std::vector<Recompute> options{{}};
  // With flash attention there is no s x s tensor to drop: rebuilding the core saves nothing (D4).
  std::uint16_t useful = modules_present;
  if (problem.training.stack.flash_attention) useful = static_cast<std::uint16_t>(useful & ~kRecomputeCoreAttention);
  for (std::uint16_t subset = useful; subset != 0; subset = static_cast<std::uint16_t>((subset - 1) & useful)) {
    const bool twice = (subset & kRecomputeMoe) && (subset & (kRecomputeMoeActivation | kRecomputeSharedExperts));
    if (!twice) options.push_back({.kind = RecomputeKind::Selective, .modules = subset});
  }
  if (problem.framework == Framework::Torchtitan)
    options.push_back({.kind = RecomputeKind::Selective, .modules = kRecomputeOps});
  for (int block = 1; block < stage_layers; ++block) options.push_back({.kind = RecomputeKind::Full, .layers = block});
  options.push_back({.kind = RecomputeKind::Full});
  return options;
}

}  // namespace

void Tally::reject(int rule, std::int64_t layouts) {
  if (by_rule_.empty()) by_rule_.resize(rules().size());
  by_rule_[static_cast<std::size_t>(rule)] += layouts;
}

void Tally::merge(const Tally& other) {
  if (by_rule_.empty()) by_rule_.resize(rules().size());
  for (std::size_t i = 0; i < other.by_rule_.size(); ++i) by_rule_[i] += other.by_rule_[i];
}

std::int64_t Tally::total() const {
  std::int64_t sum = 0;
  for (const std::int64_t count : by_rule_) sum += count;
  return sum;
}

std::vector<Rejected> Tally::rows() const {
  std::vector<Rejected> rows;
  for (std::size_t i = 0; i < by_rule_.size(); ++i)
    if (by_rule_[i] > 0) rows.push_back({std::string(rules()[i].code), by_rule_[i]});
  return rows;
}

std::vector<Family> enumerate_families(const Problem& problem, Tally& tally) {
  std::vector<Family> families;
  for (const int tp : choose<int>(problem.fixed.tp, divisors(problem.gpus)))
    for (const int cp : choose<int>(problem.fixed.cp, divisors(problem.gpus / tp)))
      for (const int pp : choose<int>(problem.fixed.pp, divisors(problem.gpus / tp / cp))) {
        const std::int64_t inner = static_cast<std::int64_t>(tp) * cp * pp;
        Layout layout;
        layout.tp = tp, layout.cp = cp, layout.pp = pp;
        layout.dp = problem.fixed.dp.value_or(static_cast<int>(std::max<std::int64_t>(1, problem.gpus / inner)));
        layout.sequence_parallel = sequence_parallel(problem, tp);
        if (const int rule = broken_rule(problem, layout, Level::Grid); rule >= 0)
          tally.reject(rule, 1);
        else
          add_experts(problem, layout, families, tally);
      }
  return families;
}

std::vector<Pipelining> enumerate_runs(const Problem& problem, const Layout& family, Tally& tally) {
  std::vector<Pipelining> runs;
  std::vector<Schedule> all;
  for (int i = 0; i < kSchedules; ++i) all.push_back(static_cast<Schedule>(i));
  all = choose<Schedule>(problem.fixed.schedule, all);
  if (family.pp == 1) all = {Schedule::OneFOneB};  // every schedule is the same without stages
  for (const Schedule schedule : all)
    for (const int vp : chunks_per_rank(problem, family, schedule)) {
      Layout layout = family;
      layout.schedule = schedule, layout.vp = vp;
      if (const int rule = broken_rule(problem, layout, Level::Schedule); rule >= 0)
        tally.reject(rule, 1);
      else
        runs.push_back({schedule, vp});
    }
  return runs;
}

std::vector<Sharding> enumerate_shardings(const Problem& problem, const Layout& run, Tally& tally) {
  std::vector<Sharding> shardings;
  std::vector<int> shards = divisors(run.dense_group());
  shards.front() = 0;  // all of them
  if (shards.size() > 1) shards.pop_back();
  shards = choose<int>(problem.fixed.shard, std::move(shards));
  Layout layout = run;
  for (const int zero : choose<int>(problem.fixed.zero, {0, 1, 2, 3})) {
    // Without sharding there is nothing to divide.
    const std::size_t choices = zero == 0 && !problem.fixed.shard ? 1 : shards.size();
    for (const int shard : std::span(shards).first(choices)) {
      layout.zero = zero, layout.shard = shard;
      if (const int rule = broken_rule(problem, layout, Level::Sharding); rule >= 0)
        tally.reject(rule, 1);
      else
        shardings.push_back({zero, shard});
    }
  }
  return shardings;
}

int broken_rule(const Problem& problem, const Recompute& recompute) {
  Layout layout;
  layout.recompute = recompute;
  return broken_rule(problem, layout, Level::Recompute);
}

int least_deepest(const Problem& problem, const Layout& run) {
  const int held = problem.model.depth() * (run.schedule == Schedule::DualPipe ? 2 : 1);
  return (held + run.pp - 1) / run.pp;
}

std::vector<Recompute> enumerate_recomputes(const Problem& problem, std::uint16_t modules_present, int stage_layers) {
  std::vector<Recompute> options = problem.fixed.recompute
                                       ? std::vector<Recompute>{*problem.fixed.recompute}
                                       : possible_recomputes(problem, modules_present, stage_layers);
  if (rules_of(problem.framework, Level::Recompute).empty()) return options;
  std::erase_if(options, [&](const Recompute& option) { return broken_rule(problem, option) >= 0; });
  return options;
}

}  // namespace plan
