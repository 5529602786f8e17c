#pragma once

#include <random>
#include <vector>

#include "planner/answer/plan.hpp"
#include "planner/rules/frameworks.hpp"
#include "planner/rules/rules.hpp"
#include "planner/search/enumerate.hpp"
#include "presets/store.hpp"

namespace plan {

/// A random layout that is legal under the problem's framework, uneven stages included; nothing if a draw is unlucky.
inline std::optional<Layout> random_layout(const Problem& problem, std::mt19937& random) {
  Tally tally;
  const auto pick = [&](const auto& all) { return all[random() % all.size()]; };
  const std::vector<Family> families = enumerate_families(problem, tally);
  if (families.empty()) return std::nullopt;
  Layout layout = pick(families).layout;
  const std::vector<Pipelining> runs = enumerate_runs(problem, layout, tally);
  if (runs.empty()) return std::nullopt;
  const Pipelining run = pick(runs);
  layout.schedule = run.schedule, layout.vp = run.vp;
  const std::vector<Sharding> shardings = enumerate_shardings(problem, layout, tally);
  if (shardings.empty()) return std::nullopt;
  const Sharding sharding = pick(shardings);
  layout.zero = sharding.zero, layout.shard = sharding.shard;
  const int per_chunk = std::max(1, problem.model.depth() / (layout.pp * layout.vp));
  layout.recompute = pick(enumerate_recomputes(problem, per_chunk));
  if (broken_rule(problem, layout) >= 0) return std::nullopt;
  return layout;
}

/// A problem of a published model under a framework, with the defaults that `plan` takes.
inline Problem problem_of(const char* model, int gpus, Precision precision, Framework framework, const char* cluster) {
  const StoreOptions store;
  Problem problem;
  problem.model = load_model(model, store)->value;
  problem.cluster = load_cluster(cluster, store)->value;
  problem.gpus = gpus;
  problem.framework = framework;
  problem.training.seq = problem.model.default_seq;
  problem.training.global_batch = problem.model.default_global_batch;
  problem.training.precision = precision;
  problem.training.dropout = problem.model.dropout;
  problem.training.stack = framework_row(framework).stack;
  return problem;
}

}  // namespace plan
