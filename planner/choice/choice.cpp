// Which layout to recommend, who runs it, and how sure that is. Tested by tests/planner/search_test.cpp.
#include "planner/choice/choice.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "formulas/parameters.hpp"
#include "formulas/states.hpp"
#include "planner/choice/fewer_gpus.hpp"
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
  if (row.framework != problem.framework) own.training.stack = stack_under(problem, row, problem.cluster.gpu);
  return own;
}

/// Switches that a framework has a word for.
unsigned switches_of(const FrameworkRow& row) {
  return (row.graphs_of_parts ? unsigned{kSwitchGraphs} : 0) |
         (row.offloads_optimizer ? unsigned{kSwitchOptimizer} : 0) |
         (row.offloads_weights ? unsigned{kSwitchOptimizer} | unsigned{kSwitchWeights} : 0) |
         (row.offloads_activations ? unsigned{kSwitchActivations} : 0);
}

RealBytes least_peak(const RunnableSearch& found) { return found.result.ranking.best().front().score.peak; }

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

/// Asks each framework whose software the figures are not of, with its own. Where something else answers for certain
/// already it has to be better by more than plainness is worth: of a speed that is known soonest.
void ask_others(RunnableSearch& found, const Problem& problem, const Extent& extent, Searches& searches) {
  if (problem.framework != Framework::Any) return;
  const bool answered = answers_for_certain(found.result), timed = problem.objective != Objective::Memory;
  Extent asked = extent, quick = extent;
  asked.if_any = quick.if_any = quick.best_alone = true;
  if (answered && timed) quick.slowest = std::min(extent.slowest, fastest_step(found) / (1 + kPriceOfPlainness));
  const RealBytes most = answered && !timed ? least_peak(found) / (1 + kPriceOfPlainness) : RealBytes::infinity();
  const FrameworkMask ours = wanted_frameworks(problem);
  std::int64_t judged = found.judged;
  for (const FrameworkRow& row : frameworks()) {
    if (!named(row.framework) || (ours & framework_bit(row.framework)) != 0) continue;
    if (!runs_on(row, problem.cluster.gpu.vendor) || drops_stated(problem, row)) continue;
    RunnableSearch other{under(problem, row), {}};
    const auto ask = [&](const Extent& as) {
      other.result = searches.find(other.problem, as);
      judged += other.result.judged;
      return answers_for_certain(other.result);
    };
    if (answered && !(ask(quick) && least_peak(other) < most)) continue;
    if (!answered || !extent.best_alone) (void)ask(asked);
    if (answers_better(other, found)) found = std::move(other);
  }
  found.judged = judged;
}

RunnableSearch find_as_stated(const Problem& problem, const Extent& extent, Searches& searches) {
  RunnableSearch found{problem, searches.find(problem, extent)};
  found.judged = found.result.judged;
  ask_others(found, problem, extent, searches);
  if (problem.framework != Framework::Any || !found.result.ranking.best().empty() || extent.certain) return found;
  RunnableSearch paper{problem, {}, true};
  paper.problem.framework = Framework::None;
  Extent any = extent;
  any.if_any = true;
  paper.result = searches.find(paper.problem, any);
  const std::int64_t judged = found.judged + paper.result.judged;
  if (!paper.result.ranking.best().empty()) found = std::move(paper);
  found.judged = judged;
  return found;
}

}  // namespace

namespace {

/// As below, of hosts whose memory is stated: their speed is taken from another's, and what their copies take from the
/// work beside them is not counted.
constexpr double kWorthTheHost = 1.1;
/// Of others, which may not have that memory.
constexpr double kWorthUnknownHosts = 2;

}  // namespace

double worth_the_host(const Problem& problem) {
  return problem.cluster.host_memory.value > 0 ? kWorthTheHost : kWorthUnknownHosts;
}

RunnableSearch find_offloaded(const Problem& problem, Extent extent, Seconds slowest, Searches& searches) {
  extent.certain = extent.if_any = true;
  if (slowest == Seconds::infinity()) return find_as_stated(problem, extent, searches);
  Extent quick = extent;
  quick.best_alone = true, quick.slowest = std::min(slowest, extent.slowest);
  RunnableSearch found = find_as_stated(problem, quick, searches);
  if (found.result.ranking.best().empty() || extent.best_alone) return found;
  const std::int64_t judged = found.judged;
  found = find_as_stated(problem, extent, searches);
  found.judged += judged;
  return found;
}

namespace {

/// Do states alone take so much of the GPUs that what fits them is most often short of memory?
bool states_fill_memory(const Problem& problem) {
  constexpr double kMuch = 0.2;  // with all that is shared out
  if (problem.training.adapters()) return false;
  const StateBytes states = state_bytes(problem.training, 0);
  const auto parameters = static_cast<double>(model_parameters(problem.model).total);
  const RealBytes all = parameters * (states.weights + states.grads + states.master + states.moments);
  return all > kMuch * problem.gpus * RealBytes(problem.cluster.gpu.memory);
}

/// What leaves something to the hosts, where it is so much faster than what fits the GPUs. Their fastest layout says
/// that alone: all else that a search finds is thrown away then.
std::optional<RunnableSearch> find_hosted_first(const Problem& problem, Extent quick, const Extent& extent,
                                                Searches& searches) {
  quick.best_alone = true;
  RunnableSearch fast = find_as_stated(on_gpus(problem), quick, searches);
  if (!answers_for_certain(fast.result) || fast.nothing_runs || !short_of_memory(fast)) return std::nullopt;
  const Seconds fastest = fastest_step(fast);
  RunnableSearch hosted = find_offloaded(problem, extent, fastest / worth_the_host(problem), searches);
  if (!answers_for_certain(hosted.result) || hosted.nothing_runs) return std::nullopt;
  hosted.judged += fast.judged, hosted.without_hosts = fastest;
  return hosted;
}

}  // namespace

RunnableSearch find_runnable(const Problem& problem, const Extent& extent) {
  Searches searches;
  return find_runnable(problem, extent, searches);
}

RunnableSearch find_runnable(const Problem& problem, const Extent& extent, Searches& searches) {
  const bool offloads = (problem.free_switches & kHostSwitches) != 0;
  Extent first = extent;
  first.if_any |= offloads;
  Extent sure = first;
  // What may fit the GPUs is no answer where something fits for certain with the hosts' memory.
  const bool later =
      offloads && !extent.certain && extent.families == Extent{}.families && problem.objective == Objective::StepTime;
  sure.certain |= later;
  if (later && !extent.best_alone && states_fill_memory(problem))
    if (std::optional<RunnableSearch> hosted = find_hosted_first(problem, sure, extent, searches))
      return *std::move(hosted);
  RunnableSearch found = find_as_stated(on_gpus(problem), sure, searches);
  const bool answered = answers_for_certain(found.result) && !found.nothing_runs;
  // What is slower than was asked for is not counted: there may be legal layouts then.
  const bool illegal = found.result.stats.legal == 0 && extent.slowest == Seconds::infinity();
  if (illegal && later) return find_as_stated(on_gpus(problem), first, searches);
  if (!offloads || illegal || (answered && !short_of_memory(found))) return found;
  const Seconds slowest = answered ? fastest_step(found) / worth_the_host(problem) : Seconds::infinity();
  RunnableSearch offloaded = find_offloaded(problem, extent, slowest, searches);
  const std::int64_t judged = found.judged + offloaded.judged;
  const Seconds without_hosts = answered ? fastest_step(found) : Seconds();
  if (answers_for_certain(offloaded.result) && !offloaded.nothing_runs)
    found = std::move(offloaded), found.without_hosts = without_hosts;
  else if (later && !answered)
    found = find_as_stated(on_gpus(problem), first, searches);
  if (!answered && !extent.if_any && !extent.best_alone && found.result.ranking.best().empty())
    found =
        find_as_stated(on_gpus(problem), extent, searches);  // whoever reports that nothing fits counts what does not
  found.judged = judged;
  return found;
}

RunnableSearch find_faster(const Problem& asked, Seconds slowest, std::int64_t families) {
  Searches searches;
  return find_faster(asked, slowest, families, searches);
}

RunnableSearch find_faster(const Problem& asked, Seconds slowest, std::int64_t families, Searches& searches) {
  const Problem problem = on_gpus(asked);
  const Extent fast{.families = families, .best_alone = true, .slowest = slowest};
  const RunnableSearch found{problem, searches.find(problem, fast)};
  RunnableSearch best = found;
  ask_others(best, problem, fast, searches);
  if (!found.result.ranking.best().empty() || best.result.ranking.best().empty()) return best;
  // What is faster by less answers only where nothing of these fits, however slow, which takes longest to know.
  const bool far = (1 + kPriceOfPlainness) * fastest_step(best) <= slowest;
  return far || !(found.result.slower || anything_fits(problem)) ? best : found;
}

Seconds fastest_step(const RunnableSearch& found) { return found.result.ranking.best().front().score.step_time; }

bool fills_memory(const RunnableSearch& found) {
  constexpr double kRoomy = 0.5;  // of the memory
  if (!answers_for_certain(found.result) || found.problem.objective == Objective::Memory) return false;
  return found.result.ranking.best().front().score.peak > kRoomy * RealBytes(found.problem.cluster.gpu.memory);
}

bool short_of_memory(const RunnableSearch& found) {
  if (!fills_memory(found)) return false;
  const Estimate estimated = estimate(found.problem, found.result.ranking.best().front());
  const Terms& terms = estimated.terms;
  // Stages that do nothing twice wait for each other for less long, too.
  const Seconds busy = estimated.step_time - terms.bubble;
  // With more memory fewer ranks may share a layer. Of many nodes the search is too long to ask for that alone.
  const Seconds saved = terms.recompute + (few_nodes(found.problem) ? terms.tp + terms.cp : Seconds());
  return kWorthTheHost * (busy - saved) < busy || estimated.mfu.model_causal < kHardlyBusy;
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
