// From a problem to a ranked plan. Tested by tests/planner/search_test.cpp.
#include "planner/plan.hpp"

#include <fmt/format.h>

#include "planner/nearest.hpp"
#include "planner/problem/axes.hpp"
#include "planner/rules/rules.hpp"
#include "planner/search.hpp"
#include "planner/why.hpp"

namespace plan {
namespace {

/// What of a profile was measured, and what stands in for the rest.
std::string coverage(const Cluster& cluster) {
  std::string text = fmt::format("{}: measured {}", cluster.name, fmt::join(cluster.measured_parts, ", "));
  if (!cluster.unmeasured_parts.empty())
    text += fmt::format("; not measured {}", fmt::join(cluster.unmeasured_parts, ", "));
  return text;
}

std::vector<Note> notes(const Problem& problem, bool at_risk) {
  std::vector<Note> list;
  const Gpu& gpu = problem.cluster.gpu;
  if (!problem.cluster.measured_parts.empty())
    list.push_back({"profile_coverage", coverage(problem.cluster)});
  else if (!problem.cluster.measured)
    list.push_back({"hardware_not_measured", problem.cluster.name + " is a preset, not measured here"});
  if (!gpu.measured_as.empty())
    list.push_back({"efficiency_inherited", gpu.name + " was never measured: kernels scaled from " + gpu.measured_as});
  if (problem.training.offload.any() && gpu.host_link.value == 0)
    list.push_back(
        {"host_link_unknown", gpu.name + ": its link to the host is not known, copies over it count as free"});
  if (problem.training.offload.optimizer > 0)
    list.push_back({"host_optimizer", "the host's own time to step its share of the optimizer is not counted"});
  if (at_risk)
    list.push_back(
        {"memory_at_risk", "nothing fits for certain: the interval of the peak reaches past the GPU's memory"});
  return list;
}

}  // namespace

Result<Plan> search(const Problem& problem) {
  const SearchResult found = find_layouts(problem);
  if (found.ranking.best().empty()) return fail(explain_no_layout(problem, found));
  for (const Candidate& candidate : found.ranking.best())
    if (const std::vector<std::string> lost = words_lost(problem.fixed, candidate.layout); !lost.empty())
      return fail({"internal", fmt::format("the layout found is not what was fixed: {}", fmt::join(lost, ", "))});
  Plan plan;
  plan.problem = problem;
  plan.search = found.stats;
  plan.notes = notes(problem, found.at_risk);
  for (const Candidate& candidate : found.ranking.best()) {
    Estimate detail = estimate(problem, candidate.layout);
    if (plan.best.stages.empty())
      plan.best = std::move(detail);
    else
      plan.runners_up.push_back({detail, against(plan.best, detail)});
  }
  for (const Candidate& candidate : found.front.members()) plan.front.push_back(estimate(problem, candidate.layout));
  plan.why = why(problem, plan.best);
  return plan;
}

Result<Plan> plan_layout(const Problem& problem, const Layout& layout) {
  const int broken = broken_rule(problem, layout);
  if (broken >= 0) {
    return fail({"no_layout",
                 fmt::format("the layout is not possible: {}", broken_text(problem, layout, broken)),
                 {fmt::format("{} on {} GPUs; sequence {}, global batch {}, micro_batch {}", degrees_text(layout),
                              problem.gpus, problem.training.seq, problem.training.global_batch, layout.micro_batch)},
                 {}});
  }
  Plan plan;
  plan.problem = problem;
  plan.best = estimate(problem, layout);
  plan.search = {.considered = 1, .legal = 1, .fit = plan.best.fits == Fits::No ? 0 : 1};
  plan.notes = notes(problem, plan.best.fits == Fits::AtRisk);
  return plan;
}

}  // namespace plan
