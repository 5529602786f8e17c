// Which layout to recommend, who runs it, and how sure that is. Tested by tests/planner/search_test.cpp.
#include "planner/choice.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "planner/evaluate.hpp"
#include "planner/fewer_gpus.hpp"
#include "planner/host_memory.hpp"
#include "planner/plainness.hpp"
#include "planner/problem/axes.hpp"
#include "planner/rules/frameworks.hpp"
#include "planner/rules/rules.hpp"
#include "planner/starved.hpp"
#include "planner/switches.hpp"

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

/// Does what fits for certain fill the GPUs' memory and reach less than that MFU? A framework that holds less, or the
/// host, may be many times as fast.
bool cramped(const RunnableSearch& found, double mfu) {
  constexpr double kRoomy = 0.5;  // of the memory
  const Problem& problem = found.problem;
  if (!certain(found.result) || problem.objective != Objective::StepTime) return false;
  const Candidate& best = found.result.ranking.best().front();
  return best.score.peak > kRoomy * RealBytes(problem.cluster.gpu.memory) &&
         estimate(problem, best).mfu.model_causal < mfu;
}

constexpr double kHardlyBusy = 0.2;       ///< MFU below which another framework may be much faster
constexpr double kNearlyAsBusy = 0.85;    ///< fewer may still train faster: deep pipelines wait longer
constexpr std::size_t kFewerNumbers = 3;  ///< of GPUs, tried where all of them cannot be kept busy

}  // namespace

namespace {

/// The job with all that it holds left on the GPUs. The host's time to step the optimizer has no law here, nor has what
/// copies of activations take from the work beside them: beside layouts that do without, one that offloads would look
/// faster than it is, if not by much.
Problem on_gpus(const Problem& problem) {
  Problem job = problem;
  job.free_switches = static_cast<SwitchMask>(job.free_switches & ~unsigned{kHostSwitches});
  return job;
}

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

Seconds fastest_step(const RunnableSearch& found) { return found.result.ranking.best().front().score.step_time; }

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
  if (!offloads || found.result.stats.legal == 0 || (answered && !cramped(found, kStarvedMfu))) return found;
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

namespace {

/// Of each number of GPUs the fastest step alone is asked for, until it is known which number to use.
constexpr Extent kFirst{.best_alone = true};

Problem with_best_alone(const Problem& problem, int gpus) {
  Problem one = problem;
  one.gpus = gpus, one.top = 1, one.pareto = false;
  return one;
}

/// The answer on fewer GPUs, with what all of them had.
RunnableSearch on_fewer(RunnableSearch found, const RunnableSearch& all) {
  found.all_ready = ready(all);
  found.all_gpus = all.result.ranking.best().empty() ? Seconds() : fastest_step(all);
  return found;
}

/// Of a number of GPUs of which no framework uses all, a half, a quarter and so on, of which the fastest counts, and of
/// those as fast but for what plainness is worth the largest: a batch that has no sequence for each GPU is what keeps
/// frameworks that know data parallelism alone from it. 0: none of them runs.
int half_that_runs(const Problem& problem) {
  int best = 0;
  Seconds slowest = Seconds::infinity();
  for (int gpus = problem.gpus; gpus % 2 == 0;) {
    gpus /= 2;
    const RunnableSearch half =
        find_runnable(with_best_alone(problem, gpus), {.best_alone = true, .certain = true, .if_any = true});
    if (ready(half) != Ready::Yes) {
      if (best > 0) break;  // the rest holds less still
      continue;
    }
    if (!(fastest_step(half) < slowest)) continue;
    best = gpus, slowest = fastest_step(half) / (1 + kPriceOfPlainness);
  }
  return best;
}

/// Of a number of GPUs that divides well but is too large for the batch: the same on half of them, and half again, as
/// long as each half is faster by more than plainness is worth.
RunnableSearch find_on_halves(const Problem& problem, RunnableSearch found) {
  Problem chosen = problem;
  if (found.nothing_runs) {
    chosen.gpus = half_that_runs(problem);
    return chosen.gpus == 0 ? found : on_fewer(find_on_halves(chosen, find_runnable(chosen)), found);
  }
  if (ready(found) != Ready::Yes) return found;
  const Candidate& fastest = found.result.ranking.best().front();
  if (estimate(found.problem, fastest).mfu.model_causal >= kStarvedMfu) return found;
  Seconds slowest = fastest_step(found) / (1 + kPriceOfPlainness);
  int gpus = problem.gpus;
  while (gpus % 2 == 0) {
    const RunnableSearch other = find_faster(with_best_alone(problem, gpus / 2), slowest);
    if (other.result.ranking.best().empty()) break;
    gpus /= 2, slowest = fastest_step(other) / (1 + kPriceOfPlainness);
  }
  if (gpus == problem.gpus) return found;
  chosen.gpus = gpus;
  return on_fewer(find_runnable(chosen), found);
}

/// A number of GPUs to use, with all that was found or the fastest step alone.
struct FewerGpus {
  RunnableSearch found{};
  bool whole = false;
};

/// Of a few numbers that may keep more GPUs busy than all that there are, the one that answers best: fewer GPUs have to
/// be faster by more than plainness is worth, unless what all of them have could not be started. `tried` are numbers
/// that are known not to answer better; those that are tried now join them.
FewerGpus find_busier(const Problem& problem, const RunnableSearch& all, std::vector<int>& tried) {
  FewerGpus best{all};
  const double busy = ready(all) == Ready::Yes ? kNearlyAsBusy * busy_gpus(problem, problem.gpus) : 0;
  for (const int gpus : fewer_but_busier(problem, busy, kFewerNumbers)) {
    if (std::find(tried.begin(), tried.end(), gpus) != tried.end()) continue;
    tried.push_back(gpus);
    const Ready before = ready(best.found);
    // What no number divides better than is most often the one to use: a look at its fastest step alone would come
    // on top.
    const bool likely = before == Ready::Nothing && divides_well(problem, gpus);
    Problem fewer = likely ? problem : with_best_alone(problem, gpus);
    fewer.gpus = gpus;
    // More GPUs than the best so far uses have to be faster at all, fewer by more than plainness is worth.
    const double worth = gpus > best.found.problem.gpus ? 0 : kPriceOfPlainness;
    const Seconds slowest = before == Ready::Nothing ? Seconds::infinity() : fastest_step(best.found) / (1 + worth);
    RunnableSearch other = before == Ready::Yes ? find_faster(fewer, slowest)
                                                : find_runnable(fewer, likely ? Extent{.if_any = true} : kFirst);
    const Ready now = ready(other);
    // GPUs are left idle for what starts for certain, or where there is no other answer.
    const bool readier = now > before && (now == Ready::Yes || before == Ready::Nothing);
    const bool faster = now == before && now != Ready::Nothing && fastest_step(other) < slowest;
    if (readier || faster) best = {std::move(other), likely};
  }
  return best;
}

/// The answer on that many GPUs, or on fewer. `first`: the fastest step on all of them, where that is known already;
/// `tried` as above.
RunnableSearch find_from(const Problem& problem, std::optional<RunnableSearch> first, std::vector<int> tried) {
  if (divides_well(problem, problem.gpus)) return find_on_halves(problem, find_runnable(problem));
  if (!first) first = find_runnable(with_best_alone(problem, problem.gpus), kFirst);
  // A word that does not suit is reported. Too big for a number that divides badly may fit fewer that divide well.
  if (ready(*first) == Ready::Nothing && !fixed_words(problem.fixed).empty()) return *std::move(first);
  FewerGpus best = find_busier(problem, *first, tried);
  if (ready(best.found) == Ready::Nothing) return *std::move(first);
  Problem chosen = problem;
  chosen.gpus = best.found.problem.gpus;
  if (chosen.gpus == problem.gpus) return find_runnable(problem);
  // Who asks for the number that is used gets the same answer: it may be bettered by a smaller one as this was.
  if (best.whole) return on_fewer(find_on_halves(chosen, std::move(best.found)), *first);
  return on_fewer(find_from(chosen, std::move(best.found), std::move(tried)), *first);
}

}  // namespace

Ready ready(const RunnableSearch& found) {
  if (found.result.ranking.best().empty()) return Ready::Nothing;
  if (found.nothing_runs) return found.result.at_risk ? Ready::PaperAtRisk : Ready::Paper;
  return found.result.at_risk ? Ready::AtRisk : Ready::Yes;
}

RunnableSearch find_on_at_most(const Problem& problem) {
  if (problem.objective == Objective::Memory) return find_runnable(problem);
  return find_from(problem, std::nullopt, {});
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
