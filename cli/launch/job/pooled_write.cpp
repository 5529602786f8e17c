// Plans for several kinds of GPU in files of frameworks that know nothing of kinds: one strategy for all stages, of
// which those on the slower kind have fewer layers. Tested by tests/launch/flagscale_test.cpp.
#include "cli/launch/job/pooled_write.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/launch/job/job_builder.hpp"
#include "planner/pools/pools.hpp"
#include "planner/problem/axes.hpp"
#include "planner/rules/frameworks.hpp"

namespace plan {

Result<Plan> as_one_kind(std::string_view format, Framework framework, const Plan& plan, const EmitOptions& options) {
  const std::string name(format);
  const PooledLayout layout = pooled_layout(plan.best);
  const std::optional<Layout> one = as_one(layout);
  if (!one)
    return cannot(name, "takes one strategy for all stages, and those of the kinds of GPU differ in more than layers",
                  "`plan emit flagscale` writes a process mesh for each kind");
  Problem problem = plan.problem;
  problem.framework = framework;
  const std::vector<Framework> runs = frameworks_that_run(problem, layout);
  if (std::find(runs.begin(), runs.end(), framework) == runs.end())
    return cannot(name, fmt::format("runs no layout whose stages have {} layers on these GPUs",
                                    stage_layers_text(one->chunk_layers)));
  for (const char* launcher : {"k8s", "skypilot"})
    if (options.launcher == launcher)
      return cannot(name, fmt::format("is started by `--launcher {}` on nodes of one kind", launcher),
                    "leave `--launcher` out");
  Plan single = plan;
  const Pool& front = plan.problem.pools.front();
  for (const Pool& pool : plan.problem.pools)
    if (pool.cluster.gpus_per_node != front.cluster.gpus_per_node || pool.gpus % pool.cluster.gpus_per_node != 0)
      return cannot(name, fmt::format("starts as many processes on every node, and {} GPUs of {} stand in nodes of {}",
                                      pool.gpus, pool.cluster.gpu.name, pool.cluster.gpus_per_node));
  single.problem.cluster = front.cluster;
  single.problem.cluster.gpu.name = plan.problem.cluster.gpu.name;
  single.problem.pools.clear(), single.problem.pool_links.clear(), single.problem.pool_fixed.clear();
  single.problem.fixed.chunk_layers = one->chunk_layers;
  single.best.layout = *one, single.best.stage_layers = one->chunk_layers;
  single.best.runs.clear();
  return single;
}

}  // namespace plan
