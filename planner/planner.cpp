// From a problem to a ranked plan. Tested by tests/planner/search_test.cpp.
#include "planner/planner.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "formulas/names.hpp"
#include "planner/choice/advice.hpp"
#include "planner/choice/choice.hpp"
#include "planner/choice/hardware_notes.hpp"
#include "planner/choice/host_remedy.hpp"
#include "planner/choice/nearest.hpp"
#include "planner/choice/why.hpp"
#include "planner/estimate/draws.hpp"
#include "planner/estimate/learnt.hpp"
#include "planner/estimate/physics.hpp"
#include "planner/memory/host_memory.hpp"
#include "planner/memory/memory.hpp"
#include "planner/pools/pools.hpp"
#include "planner/problem/axes.hpp"
#include "planner/rules/complete_layout.hpp"
#include "planner/rules/frameworks.hpp"
#include "planner/rules/rules.hpp"
#include "planner/rules/words.hpp"
#include "planner/search/search.hpp"
#include "planner/search/switches.hpp"
#include "planner/stages/stage_search.hpp"

namespace plan {
namespace {

/// Of the hardware, and of what is left in host memory.
std::vector<Note> notes_of(const Plan& plan, bool at_risk) {
  std::vector<Note> all = hardware_notes(plan.problem, at_risk && fits_gpu(plan.best) != Fits::Yes);
  for (Note& note : host_notes(plan.problem, plan.best)) all.push_back(std::move(note));
  return all;
}

/// Of a cluster that was calibrated, whether its runs say how far the step may lie from its prediction.
void add_learnt_note(Plan& plan) {
  const LearntSteps& learnt = plan.problem.cluster.learnt;
  if (learnt.runs == 0) return;
  if (const std::optional<std::string> why = never_ran(learnt, plan.problem, plan.best.layout))
    plan.notes.push_back(
        {"interval_not_learnt", fmt::format("the step's interval is that of published runs, not of {}'s own: {}",
                                            plan.problem.cluster.name, *why)});
  else
    plan.notes.push_back({"interval_learnt", fmt::format("the step's interval is what {} runs of {} showed",
                                                         learnt.runs, plan.problem.cluster.name)});
}

/// Says so where the framework that runs the plan is not one of those whose software the figures would be of.
void add_framework_note(Plan& plan, const Problem& asked, const RunnableSearch& found) {
  if (found.nothing_runs) {
    plan.notes.push_back({"no_framework", "no framework of the list runs a layout of this job that fits"});
    return;
  }
  if (found.problem.framework == asked.framework) return;
  const char* most = asked.objective == Objective::Memory ? "whose layout holds the least" : "the fastest framework";
  const char* which = found.result.at_risk                   ? "that runs it"
                      : asked.objective == Objective::Memory ? "of those that fit for certain"
                                                             : "whose best layout fits for certain";
  plan.notes.push_back({"framework_chosen", fmt::format("the figures are of {}, {} {}",
                                                        framework_row(found.problem.framework).name, most, which)});
}

/// Says what the hosts' memory would bring where a framework was chosen for holding less than Megatron, or where it is
/// not stated and what fits without is short of memory.
void add_host_note(Plan& plan, const Problem& asked, const RunnableSearch& found) {
  constexpr std::int64_t kFamilies = 300;
  constexpr double kWorthANote = 0.1;
  if (found.result.at_risk || found.nothing_runs || asked.pools.size() > 1) return;
  const bool unstated = asked.cluster.host_memory.value == 0 && short_of_memory(found);
  if (found.problem.framework == asked.framework && !unstated) return;
  if (asked.objective != Objective::StepTime || (asked.free_switches & kHostSwitches) == 0) return;
  std::optional<Advice> best;
  for (const ChangedJob& change : offloads(asked))
    if (std::optional<Advice> one = worth(change, asked, plan, best ? best->faster : kWorthANote, kFamilies))
      best = std::move(one);
  if (best)
    plan.notes.push_back({"other_memory", fmt::format("`{}` would train {:.0f} % more tokens/s ({})", best->change,
                                                      100 * best->faster, degrees_text(best->fastest.layout))});
}

/// Says of what may not fit which nodes would make it certain.
void add_roomier_note(Plan& plan, const Problem& asked, const RunnableSearch& found) {
  if (!found.result.at_risk && !found.nothing_runs) return;
  const std::optional<RoomierHosts> roomier = with_roomier_hosts(asked);
  if (!roomier) return;
  plan.notes.push_back({"other_hosts", fmt::format("`{}` would fit for certain: {} would be left in each node's memory",
                                                   roomier->change.flag, gib_text(RealBytes(roomier->need)))});
}

/// Says which switches the search turned on, and what the hosts bring where it could do without them.
void add_switch_note(Plan& plan, const RunnableSearch& found) {
  const std::vector<std::string>& on = plan.best.switches;
  if (!on.empty())
    plan.notes.push_back({"switched_on", fmt::format("the search turned on `{}`", fmt::join(on, "` and `"))});
  if (const Seconds without = found.without_hosts; without > Seconds())
    plan.notes.push_back(
        {"without_hosts",
         fmt::format("`--offload none` leaves nothing to the hosts: {:.4g} s on as many GPUs, {:.0f} % more",
                     without.value, 100 * (without / plan.fastest->step_time - 1))});
}

/// Why not all GPUs are used.
std::string why_fewer(const RunnableSearch& found) {
  const int used = found.problem.gpus;
  switch (found.all_ready) {
    case Ready::Nothing:
      return fmt::format("the search finds no layout that fits and uses all of them, and {} train", used);
    case Ready::PaperAtRisk:
    case Ready::Paper:
      return fmt::format("the search finds no layout on all of them that fits and that a framework runs, and {} train",
                         used);
    case Ready::AtRisk: return fmt::format("no layout that uses all of them fits for certain, and {} train", used);
    case Ready::Yes: break;
  }
  const Seconds fewer = found.result.ranking.best().front().score.step_time;
  return fmt::format("the fastest on all of them takes {:.3g} s, {:.0f} % more than on {}", found.all_gpus.value,
                     100 * (found.all_gpus / fewer - 1), used);
}

/// Says how many GPUs the plan leaves idle, and what they would bring.
void add_idle_note(Plan& plan, const Problem& asked, const RunnableSearch& found) {
  plan.idle_gpus = asked.gpus - found.problem.gpus;
  if (plan.idle_gpus == 0) return;
  plan.notes.push_back(
      {"gpus_idle", fmt::format("{} of {} GPUs stay idle: {}", plan.idle_gpus, asked.gpus, why_fewer(found))});
}

/// Says so where the batch keeps the GPUs from dividing, and the nearest other one would be worth something.
void add_batch_note(Plan& plan, const Problem& asked, const RunnableSearch& answer) {
  constexpr double kWorthANote = 0.03;
  // With another batch some framework may run the job, which is as fast as that framework is and not as paper.
  if (asked.objective != Objective::StepTime || answer.nothing_runs) return;
  const std::vector<ChangedJob> near = near_batches(asked);
  if (near.empty()) return;
  Problem other = near.front().problem;
  other.top = 1, other.pareto = false, other.framework = plan.problem.framework;
  other.training.stack = answer.problem.training.stack;
  other = with_switches(other, plan.problem.switched);  // like beside like, in one search
  const double tokens = static_cast<double>(other.training.tokens_per_step());
  const Seconds slowest(tokens / plan.fastest->tokens_per_s / (1 + kWorthANote));
  const SearchResult found = find_layouts(other, {.best_alone = true, .slowest = slowest * (1 + 1e-9)});
  if (found.ranking.best().empty()) return;
  const double gain = tokens / found.ranking.best().front().score.step_time.value / plan.fastest->tokens_per_s - 1;
  if (gain >= kWorthANote)
    plan.notes.push_back(
        {"other_batch", fmt::format("a global batch of {} instead of {} would train {:.0f} % more "
                                    "tokens/s on {} GPUs",
                                    other.training.global_batch, asked.training.global_batch, 100 * gain, asked.gpus)});
}

/// Layers and recomputation of every stage by itself, where that is faster than any layout whose stages are equal.
PerStage per_stage(const Plan& plan, const SearchResult& result) {
  const Problem& problem = plan.problem;
  const Seconds beat = (1 - 1e-9) * plan.fastest->step_time;
  StageSearch found = find_stages(problem, usable_memory(problem, result.at_risk), beat);
  PerStage out{
      .best = std::nullopt, .difference = {}, .runs_on = {}, .pipelines = found.pipelines, .exact = found.exact};
  if (!found.best) return out;
  const Layout layout = without_list(found.best->layout).value_or(found.best->layout);
  out.best = estimate(problem, layout);
  if (out.best->fits > plan.best.fits) {  // the search of stages looks at GPUs alone
    out.best.reset();
    return out;
  }
  out.difference = paired_difference(problem, *out.best, plan.best);
  Problem stated = problem;
  stated.fixed.chunk_layers = layout.chunk_layers;
  out.runs_on = frameworks_that_run(stated, layout);
  return out;
}

/// How sure the choice is: the errors of the model drawn over all layouts that may be the fastest.
void weigh(Plan& plan, const SearchResult& result) {
  const Terms& best = plan.best.terms;
  std::vector<Terms> steps = result.near_terms;
  steps.push_back(best);
  for (const RunnerUp& runner : plan.runners_up) steps.push_back(runner.estimate.terms);
  const Draws draws(steps);
  for (RunnerUp& runner : plan.runners_up) {
    runner.difference = paired_difference(plan.problem, runner.estimate, plan.best);
    runner.against_best = against(plan.best, runner.estimate);
  }
  // Twins that differ in a group or in how states are shared out are hardly ever the fastest by turns: what wins or
  // loses is a choice of degrees.
  double degrees = 0;
  for (std::size_t i = 0; i < result.near.size(); ++i)
    if (same_idea(result.near[i].layout, plan.best.layout)) degrees += draws.within(result.near_terms[i], 0);
  plan.choice = Certainty{.best_share = draws.within(best, 0),
                          .degrees_share = std::min(1.0, std::max(degrees, draws.within(best, 0))),
                          .within_2_percent_share = draws.within(best, kAsGood),
                          .headroom = plan.best.capacity - plan.best.peak};
}

}  // namespace

Result<Plan> search(const Problem& problem) {
  if (problem.fixed.stages)
    return fail({"conflicting_flags",
                 "`stages=` says what each stage does, which is the same for all that a search looks at",
                 {},
                 {"`plan estimate` prices the layout", "leave `stages=` out, and `--per-stage` finds them"}});
  if (!problem.pools.empty()) return search_pooled(problem);
  const RunnableSearch found = find_on_at_most(problem);
  const SearchResult& result = found.result;
  if (result.ranking.best().empty()) return fail(explain_no_layout(problem, result));
  std::vector<Candidate> answers = result.ranking.best();
  if (result.recommended) answers.push_back(*result.recommended);
  for (const Candidate& candidate : answers)
    if (const std::vector<std::string> lost = words_lost(problem.fixed, candidate.layout); !lost.empty())
      return fail({"internal", fmt::format("the layout found is not what was fixed: {}", fmt::join(lost, ", "))});
  Plan plan;
  const Candidate& chosen = *result.recommended;
  plan.problem = with_switches(found.problem, chosen.switched);
  plan.search = result.stats;
  plan.best = estimate(found.problem, chosen);
  plan.notes = notes_of(plan, result.at_risk);
  add_framework_note(plan, problem, found);
  add_idle_note(plan, problem, found);
  const Candidate &fastest = result.ranking.best().front(), &paper = result.paper.best().front();
  add_learnt_note(plan);
  plan.fastest = estimate(found.problem, fastest);
  plan.fastest_on_paper = estimate(found.problem, paper);
  add_switch_note(plan, found);
  add_batch_note(plan, problem, found);
  add_host_note(plan, problem, found);
  add_roomier_note(plan, problem, found);
  for (const auto& [estimated, on] : {std::pair(&plan.best, chosen.switched),
                                      {&*plan.fastest, fastest.switched},
                                      {&*plan.fastest_on_paper, paper.switched}})
    if (std::optional<Error> error = beyond_physics(with_switches(found.problem, on), *estimated))
      return fail(*std::move(error));
  plan.paper_lacks =
      found.nothing_runs ? "" : what_it_lacks(with_switches(found.problem, paper.switched), paper.layout);
  plan.runs_on = frameworks_that_run(plan.problem, chosen.layout);
  for (const Candidate& candidate : result.ranking.best())
    if (!same_idea(candidate.layout, chosen.layout) && static_cast<int>(plan.runners_up.size()) + 1 < problem.top)
      plan.runners_up.push_back({estimate(found.problem, candidate), {}, {}});
  weigh(plan, result);
  for (const Candidate& candidate : result.front.members())
    plan.front.push_back(estimate(found.problem, candidate.layout));
  plan.why = why(plan.problem, plan.best);
  if (problem.per_stage) {
    plan.per_stage = per_stage(plan, result);
    if (plan.per_stage->best)
      if (std::optional<Error> error = beyond_physics(found.problem, *plan.per_stage->best))
        return fail(*std::move(error));
  }
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
  if (std::optional<Error> error = beyond_physics(problem, plan.best)) return fail(*std::move(error));
  plan.runs_on = frameworks_that_run(problem, layout);
  plan.search = {.considered = 1, .legal = 1, .fit = plan.best.fits == Fits::No ? 0 : 1};
  plan.notes = notes_of(plan, plan.best.fits == Fits::AtRisk);
  add_learnt_note(plan);
  return plan;
}

Result<Plan> plan_layout(const Problem& problem) {
  Result<Plan> plan = plan_layout(problem, complete_layout(problem));
  if (!plan) return plan;
  if (Errors dropped = dropped_words(problem); !dropped.empty()) return fail(std::move(dropped));
  return plan;
}

}  // namespace plan
