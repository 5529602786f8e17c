// Which layout to recommend, who runs it, and how sure that is. Tested by tests/planner/search_test.cpp.
#include "planner/choice/choice.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "planner/estimate/evaluate.hpp"
#include "planner/memory/host_memory.hpp"
#include "planner/problem/axes.hpp"
#include "planner/rules/frameworks.hpp"
#include "planner/rules/rules.hpp"
#include "planner/search/plainness.hpp"
#include "planner/search/switches.hpp"

namespace plan {
namespace {

/// The job under a framework's own rules and with that framework's software.
Problem under(const Problem& problem, const FrameworkRow& row) {
  Problem own = problem;
  own.framework = row.framework;
  if (row.framework != problem.framework) own.training.stack = stack_on(row, problem.cluster.gpu);
  return own;
}

/// Switches that a framework has a word for.
unsigned switches_of(const FrameworkRow& row) {
  return (row.graphs_of_parts ? unsigned{kSwitchGraphs} : 0) |
         (row.offloads_optimizer ? unsigned{kSwitchOptimizer} : 0) |
         (row.offloads_weights ? unsigned{kSwitchOptimizer} | unsigned{kSwitchWeights} : 0) |
         (row.offloads_activations ? unsigned{kSwitchActivations} : 0);
}

bool certain(const SearchResult& result) { return !result.ranking.best().empty() && !result.at_risk; }

/// Does `a` answer better than `b`: with what is readier to be started, then sooner?
bool answers_better(const RunnableSearch& a, const RunnableSearch& b) {
  const Ready left = ready(a), right = ready(b);
  if (left != right || left == Ready::Nothing) return left > right;
  return better(a.problem.objective, a.result.ranking.best().front(), b.result.ranking.best().front());
}

}  // namespace

Problem on_gpus(const Problem& problem) {
  Problem job = problem;
  job.free_switches = static_cast<SwitchMask>(job.free_switches & ~unsigned{kHostSwitches});
  return job;
}

namespace {

/// Asks each framework whose software the figures are not of, with its own, where no other one answers for certain, or
/// only with a layout that nobody would launch.
void ask_others(RunnableSearch& found, const Problem& problem, const Extent& extent) {
  if (problem.framework != Framework::Any || (certain(found.result) && !cramped(found, kHardlyBusy))) return;
  const FrameworkMask asked = wanted_frameworks(problem);
  std::int64_t judged = found.judged;
  for (const FrameworkRow& row : frameworks()) {
    if (!named(row.framework) || (asked & framework_bit(row.framework)) != 0) continue;
    if (!runs_on(row, problem.cluster.gpu.vendor) || drops_stated(problem, row)) continue;
    RunnableSearch other{under(problem, row), {}};
    Extent any = extent;
    any.if_any = true;
    other.result = find_layouts(other.problem, any);
    judged += other.result.judged;
    if (answers_better(other, found)) found = std::move(other);
  }
  found.judged = judged;
}

RunnableSearch find_as_stated(const Problem& problem, const Extent& extent) {
  RunnableSearch found{problem, find_layouts(problem, extent)};
  found.judged = found.result.judged;
  ask_others(found, problem, extent);
  if (problem.framework != Framework::Any || !found.result.ranking.best().empty() || extent.certain) return found;
  RunnableSearch paper{problem, {}, true};
  paper.problem.framework = Framework::None;
  Extent any = extent;
  any.if_any = true;
  paper.result = find_layouts(paper.problem, any);
  const std::int64_t judged = found.judged + paper.result.judged;
  if (!paper.result.ranking.best().empty()) found = std::move(paper);
  found.judged = judged;
  return found;
}

}  // namespace

namespace {

/// What the host would have to hold up before it is worth less than layouts that leave nothing there: the host's own
/// time to step an optimizer has no law here, and is well below half of a step that starves the GPUs.
constexpr double kWorthTheHost = 2;

/// The job with what it holds left in host memory, if something fits for certain then and takes `slowest` at most.
RunnableSearch find_offloaded(const Problem& problem, Extent extent, Seconds slowest) {
  extent.certain = extent.if_any = true;
  if (slowest == Seconds::infinity()) return find_as_stated(problem, extent);
  Extent quick = extent;
  quick.best_alone = true, quick.slowest = std::min(slowest, extent.slowest);
  RunnableSearch found = find_as_stated(problem, quick);
  if (found.result.ranking.best().empty() || extent.best_alone) return found;
  const std::int64_t judged = found.judged;
  found = find_as_stated(problem, extent);
  found.judged += judged;
  return found;
}

}  // namespace

RunnableSearch find_runnable(const Problem& problem, const Extent& extent) {
  const bool offloads = (problem.free_switches & kHostSwitches) != 0;
  Extent first = extent;
  first.if_any |= offloads;
  RunnableSearch found = find_as_stated(on_gpus(problem), first);
  const bool answered = certain(found.result) && !found.nothing_runs;
  // What is slower than was asked for is not counted: there may be legal layouts then.
  const bool illegal = found.result.stats.legal == 0 && extent.slowest == Seconds::infinity();
  if (!offloads || illegal || (answered && !cramped(found, kHardlyBusy))) return found;
  const Seconds slowest = answered ? fastest_step(found) / kWorthTheHost : Seconds::infinity();
  RunnableSearch offloaded = find_offloaded(problem, extent, slowest);
  const std::int64_t judged = found.judged + offloaded.judged;
  if (certain(offloaded.result) && !offloaded.nothing_runs)
    found = std::move(offloaded);
  else if (!answered && !extent.if_any && !extent.best_alone && found.result.ranking.best().empty())
    found = find_as_stated(on_gpus(problem), extent);  // whoever reports that nothing fits counts what does not
  found.judged = judged;
  return found;
}

RunnableSearch find_faster(const Problem& asked, Seconds slowest, std::int64_t families) {
  const Problem problem = on_gpus(asked);
  RunnableSearch found{problem, find_layouts(problem, {.families = families, .best_alone = true, .slowest = slowest})};
  if (!found.result.ranking.best().empty() || found.result.slower) return found;
  // Other frameworks answer only where nothing of these fits, however slow, which takes longest to know.
  RunnableSearch other = found;
  ask_others(other, problem, {.families = families, .best_alone = true, .slowest = slowest, .certain = true});
  if (other.result.ranking.best().empty() || anything_fits(problem)) return found;
  return other;
}

Seconds fastest_step(const RunnableSearch& found) { return found.result.ranking.best().front().score.step_time; }

bool cramped(const RunnableSearch& found, double mfu) {
  constexpr double kRoomy = 0.5;  // of the memory
  const Problem& problem = found.problem;
  if (!certain(found.result) || problem.objective != Objective::StepTime) return false;
  const Candidate& best = found.result.ranking.best().front();
  return best.score.peak > kRoomy * RealBytes(problem.cluster.gpu.memory) &&
         estimate(problem, best).mfu.model_causal < mfu;
}

Ready ready(const RunnableSearch& found) {
  if (found.result.ranking.best().empty()) return Ready::Nothing;
  if (found.nothing_runs) return found.result.at_risk ? Ready::PaperAtRisk : Ready::Paper;
  return found.result.at_risk ? Ready::AtRisk : Ready::Yes;
}

std::vector<RunsOn> frameworks_that_run(const Problem& problem, const Layout& layout) {
  std::vector<RunsOn> all;
  const FrameworkMask ours = wanted_frameworks(problem);
  for (const FrameworkRow& row : frameworks()) {
    if (!named(row.framework) || !runs_on(row, problem.cluster.gpu.vendor)) continue;
    if ((problem.switched & ~switches_of(row)) != 0 || drops_stated(problem, row)) continue;
    Problem own = under(problem, row);
    // The figures are of this framework's software, or of what Megatron's becomes with its switches set.
    if (problem.framework == Framework::Any && (ours & framework_bit(row.framework)) != 0)
      own.training.stack = problem.training.stack;
    if (broken_rule(own, layout) >= 0) continue;
    const Estimate estimated = estimate(own, layout);
    if (estimated.fits != Fits::No || row.framework == problem.framework)
      all.push_back({row.framework, estimated.step_time, estimated.fits});
  }
  return all;
}

std::string what_it_lacks(const Problem& problem, const Layout& layout) {
  std::string text;
  const FrameworkMask wanted = wanted_frameworks(problem);
  for (const FrameworkRow& row : frameworks()) {
    if (!named(row.framework) || (wanted & framework_bit(row.framework)) == 0) continue;
    Problem own = problem;
    own.framework = row.framework;
    const int broken = broken_rule(own, layout);
    if (broken < 0) return "";
    text += fmt::format("{}{}", text.empty() ? "" : "; ", rules()[static_cast<std::size_t>(broken)].text);
  }
  return text;
}

}  // namespace plan
