// The smallest changes that keep every limit, as the user would write them. Tested by tests/cli/check_test.cpp.
#include <algorithm>

#include "cli/check/check.hpp"
#include "cli/request/resolve.hpp"
#include "planner/rules/frameworks.hpp"

namespace plan {
namespace {

bool is_stated(const ResolvedJob& job, std::string_view key) {
  const Input* input = find_input(job.problem.inputs, key);
  return input != nullptr && input->origin == Origin::File;
}

/// Words that are set back to what they were, and have no row among the choices.
void add_words(const ResolvedJob& job, const Problem& mended, std::vector<Step>& steps) {
  for (const std::string_view key : job_words()) {
    const std::vector<std::string>& suggested = suggested_keys();
    if (key == "layout" || std::find(suggested.begin(), suggested.end(), key) != suggested.end()) continue;
    std::string before = input_text(job.problem.inputs, key), after = input_text(mended.inputs, key);
    if (before == after) continue;
    Step step{std::string(key), std::move(before), std::move(after), place_of_input(job, key)};
    if (step.place.line == 0) step.place = home_of_input(job, key);
    steps.push_back(std::move(step));
  }
}

Suggestion suggestion(const ResolvedJob& job, const Layout& layout, const Remedy& remedy) {
  Suggestion out{.peak = remedy.estimate.peak, .step_time = remedy.estimate.step_time};
  for (const std::string& key : suggested_keys()) {
    // What the other choices leave, and what a file states all the same: its number must change with them.
    if ((key == "dp" || key == "layers" || key == "micro_batches") && !is_stated(job, key)) continue;
    if (key == "cp_kind" && layout.cp == 1 && remedy.layout.cp_kind == framework_row(job.problem.framework).cp_kind)
      continue;
    Step step{key, choice_text(key, job.problem, layout), choice_text(key, remedy.problem, remedy.estimate.layout),
              place_of_input(job, key)};
    if (step.place.line == 0) step.place = home_of_input(job, key);
    if (step.before != step.after && !step.after.empty()) out.steps.push_back(std::move(step));
  }
  add_words(job, remedy.problem, out.steps);
  return out;
}

}  // namespace

std::vector<Suggestion> find_suggestions(const ResolvedJob& job, const Layout& layout, const EarlierPlan* baseline,
                                         const std::vector<Restoration>& restored) {
  Baseline before;
  if (baseline != nullptr) before = {baseline->best, earlier_gpus(*baseline)};
  Problem problem = job.problem;
  Patient patient{problem,
                  layout,
                  [&](const Problem& changed, const Estimate& estimate) {
                    RunLength run = job.run;
                    Budget budget = job.budget->budget;
                    budget.run = run;
                    return passes(judge_all(budget, estimate, {changed.gpus, changed.gpus},
                                            baseline == nullptr ? nullptr : &before));
                  },
                  {}};
  for (const Restoration& one : restored)
    if (one.estimate) patient.first.push_back({one.problem, one.layout});
  std::vector<Remedy> remedies = find_remedies(patient);
  if (remedies.empty()) {
    problem.alternatives = larger_clusters(problem.cluster);
    remedies = find_remedies(patient);
  }
  std::vector<Suggestion> out;
  for (const Remedy& remedy : remedies) {
    out.push_back(suggestion(job, layout, remedy));
    out.back().restores = std::any_of(patient.first.begin(), patient.first.end(), [&](const Variant& variant) {
      return variant.layout == remedy.layout && variant.problem.training == remedy.problem.training &&
             variant.problem.gpus == remedy.problem.gpus;
    });
  }
  return out;
}

}  // namespace plan
