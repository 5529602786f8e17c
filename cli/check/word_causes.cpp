// What words of a job did that its baseline did not have, or had otherwise: the job is made once more from its words
// with one of them as it was. Tested by tests/cli/word_causes_test.cpp.
#include <algorithm>
#include <iterator>

#include "cli/check/check.hpp"
#include "cli/request/resolve.hpp"
#include "planner/answer/estimate.hpp"
#include "planner/rules/rules.hpp"
#include "planner/search/switches.hpp"

namespace plan {
namespace {

/// Words that other causes say better: the layout by its axes, the GPU and its number as numbers.
constexpr std::string_view kElsewhere[] = {"layout", "gpu", "gpus", "seq", "global_batch", "precision", "optimizer"};

/// The job's words with one as it was; empty: nobody stated it.
Asked with_word(Asked asked, std::string_view key, const std::string& was) {
  if (key == "cluster" || key == "profile")
    for (const char* hardware : {"gpu", "cluster", "profile"}) asked.words.erase(hardware);
  if (was.empty())
    asked.words.erase(std::string(key));
  else
    asked.words[std::string(key)] = {was, {}};
  return asked;
}

}  // namespace

std::vector<Restoration> word_restorations(const ResolvedJob& job, const Plan& now, const Layout& layout,
                                           const EarlierPlan& baseline) {
  std::vector<Restoration> out;
  for (const std::string_view key : job_words()) {
    if (std::find(std::begin(kElsewhere), std::end(kElsewhere), key) != std::end(kElsewhere)) continue;
    const std::string was = input_text(baseline.inputs, key, "");
    if (input_text(job.problem.inputs, key, "") == was) continue;
    Restoration one{std::string(key), job.problem, layout, std::nullopt};
    const Result<Problem> problem = resolve_problem(with_word(job.asked, key, was));
    // What another framework than the job's own was chosen for cannot be told from what the word did.
    if (problem && input_text(problem->inputs, key, "") == was && now.problem.framework == job.problem.framework) {
      const auto still_free = static_cast<SwitchMask>(now.problem.switched & problem->free_switches);
      one.problem = still_free == 0 ? *problem : with_switches(*problem, still_free);
      one.problem.gpus = now.problem.gpus;
      if (broken_rule(one.problem, layout) < 0) one.estimate = estimate(one.problem, layout);
    }
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace plan
