// The search's account of its space against a plain count.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "formulas/schedule.hpp"
#include "oracle/random_problem.hpp"
#include "planner/enumerate.hpp"
#include "planner/search.hpp"

using namespace plan;

namespace {

/// Layouts of the whole space, counted one by one without a look at any rule.
std::int64_t count_space(const Problem& problem) {
  std::int64_t all = 0;
  const int gpus = problem.gpus, depth = problem.model.depth();
  const int experts = problem.model.moe() ? static_cast<int>(problem.model.experts()) : 1;
  const auto inner = [&](const Layout& layout) {
    for (int zero = 0; zero <= 3; ++zero)
      for (int shard = 0; shard < layout.dense_group(); ++shard)
        if (shard != 1 && layout.dense_group() % std::max(1, shard) == 0 && (zero > 0 || shard == 0))
          all += static_cast<std::int64_t>(
              std::max<std::size_t>(1, enumerate_recomputes(problem, least_deepest(problem, layout)).size()));
  };
  const auto runs = [&](Layout layout) {
    // Two orders of the axes, where a pipeline with replicas meets a tier between its inner block and the job.
    const bool both = layout.pp > 1 && layout.dp > 1 &&
                      std::any_of(problem.cluster.tiers.begin(), problem.cluster.tiers.end(), [&](const Tier& tier) {
                        return tier.size > layout.tp * layout.cp && tier.size < gpus;
                      });
    for (int schedule = 0; schedule < (layout.pp > 1 ? kSchedules : 1); ++schedule) {
      layout.schedule = layout.pp > 1 ? static_cast<Schedule>(schedule) : Schedule::OneFOneB;
      const bool chunks = layout.schedule == Schedule::Interleaved || layout.schedule == Schedule::BreadthFirst;
      const int first = chunks || v_shaped(layout.schedule) ? 2 : 1;
      const int last = chunks ? (depth + 2) / layout.pp : first;
      for (int run = 0; run < (both ? 2 : 1) * (last - first + 1); ++run) inner(layout);
    }
  };
  const auto contexts = [&](const Layout& layout) {
    const int cp = layout.cp;
    for (int kind = 0; kind < (cp > 1 ? 3 : 1); ++kind) runs(layout);  // ring, all-gather, all-to-all
    for (int part = 2; part < cp; ++part)
      if (cp % part == 0) runs(layout);
  };
  Layout layout;
  for (layout.tp = 1; layout.tp <= gpus; ++layout.tp)
    for (layout.cp = 1; layout.cp <= gpus; ++layout.cp)
      for (layout.pp = 1; layout.pp <= gpus; ++layout.pp) {
        if (gpus % layout.tp != 0 || gpus / layout.tp % layout.cp != 0 || gpus / layout.tp / layout.cp % layout.pp != 0)
          continue;
        layout.dp = gpus / layout.tp / layout.cp / layout.pp;
        const std::int64_t batch = problem.training.global_batch;
        int micro_batches = 0, widths = 0;
        for (int size = 1; size <= batch; ++size)
          micro_batches += batch % (std::int64_t{layout.dp} * size) == 0 &&
                           (layout.pp == 1 || (size & (size - 1)) == 0) &&
                           (size == 1 || size * problem.training.seq <= 131072);
        for (int etp = 1; etp <= layout.tp; ++etp) widths += layout.tp % etp == 0 && (problem.model.moe() || etp == 1);
        for (int ep = 1; ep <= experts; ++ep)
          if (experts % ep == 0)  // replicas that do not divide the batch are one choice, which a rule rejects
            for (int choice = 0; choice < std::max(1, micro_batches) * widths; ++choice) contexts(layout);
      }
  return all;
}

}  // namespace

TEST_CASE("every layout of the space is found, pruned or rejected by a named rule") {
  std::mt19937 random(23);
  for (int i = 0; i < 12; ++i) {
    Problem problem = oracle::random_problem(random, 16);
    problem.fixed = {};
    const SearchStats stats = find_layouts(problem).stats;
    CHECK(stats.considered == count_space(problem));
  }
}
