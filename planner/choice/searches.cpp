// Searches that are asked for more than once while it is found out how many GPUs to use, and of which framework. Tested
// by tests/planner/choice_test.cpp.
#include "planner/choice/searches.hpp"

#include <algorithm>
#include <utility>

namespace plan {
namespace {

/// That nothing is as fast as was asked for.
SearchResult nothing_of(const SearchResult& like, bool slower) {
  SearchResult none;
  none.stats = like.stats, none.slower = slower, none.none_run = like.none_run;
  return none;
}

}  // namespace

bool answers_for_certain(const SearchResult& result) { return !result.ranking.best().empty() && !result.at_risk; }

Searches::Known& Searches::known(const Problem& problem) {
  const auto same = [&](const Known& one) {
    return one.gpus == problem.gpus && one.framework == problem.framework && one.free_switches == problem.free_switches;
  };
  const auto found = std::find_if(known_.begin(), known_.end(), same);
  if (found != known_.end()) return *found;
  known_.push_back({.gpus = problem.gpus, .framework = problem.framework, .free_switches = problem.free_switches});
  return known_.back();
}

SearchResult Searches::find(const Problem& problem, const Extent& extent) {
  const bool all = extent.families == Extent{}.families;
  if (!all || problem.objective != Objective::StepTime) return find_layouts(problem, extent);
  // Who runs a layout does not hang on switches that are free.
  const auto none_run = [&](const Known& one) {
    return one.found.none_run && one.gpus == problem.gpus && one.framework == problem.framework;
  };
  const auto like = std::find_if(known_.begin(), known_.end(), none_run);
  if ((extent.best_alone || extent.if_any) && like != known_.end()) return nothing_of(like->found, false);
  Known& about = known(problem);
  Extent asked = extent;
  asked.none_certain = about.none_up_to == Seconds::infinity();
  if (!extent.best_alone) {
    if (asked.none_certain && extent.certain && extent.if_any) return nothing_of(about.found, about.found.slower);
    SearchResult found = find_layouts(problem, asked);
    if (found.none_run || (extent.certain && found.ranking.best().empty())) {
      about.found.stats = found.stats, about.found.none_run = found.none_run;
      about.none_up_to = Seconds::infinity();
    }
    return found;
  }
  const bool sure = extent.certain || extent.slowest < Seconds::infinity();
  if (answers_for_certain(about.found)) {
    const Seconds fastest = about.found.ranking.best().front().score.step_time;
    return fastest <= extent.slowest ? about.found : nothing_of(about.found, true);
  }
  if (extent.slowest <= about.none_up_to) {
    if (sure) return nothing_of(about.found, about.found.slower);
    if (about.knows_risk) return about.found;
  }
  Problem first = problem;
  first.top = 1, first.pareto = false;
  SearchResult found = find_layouts(first, asked);
  about.found = found, about.found.judged = 0;
  about.knows_risk = !sure;
  if (!answers_for_certain(found)) about.none_up_to = std::max(about.none_up_to, extent.slowest);
  return found;
}

}  // namespace plan
