// Which jobs a cluster's own runs tell something of: those that lie between them.
//
// Assumption: a layout whose every number lies between the least and the most that ran, of a model, a format and
// kernels that ran, errs as one of these runs does when it is predicted from the others. It is what leave-one-out
// errors measure; nothing is known of how errors grow outside, so that outside the interval of published runs is kept.
// Tested by tests/cli/learnt_test.cpp.
#include "planner/estimate/learnt.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "formulas/names.hpp"
#include "planner/estimate/claims.hpp"

namespace plan {
namespace {

using Numbers = std::vector<std::pair<std::string, std::int64_t>>;

Numbers numbers_of(const Problem& problem, const Layout& layout) {
  const Training& training = problem.training;
  return {{"gpus", problem.gpus},
          {"seq", training.seq},
          {"micro_batches", micro_batches(training.global_batch, layout.dp, layout.micro_batch)},
          {"micro_batch", layout.micro_batch},
          {"tp", layout.tp},
          {"cp", layout.cp},
          {"pp", layout.pp},
          {"vp", layout.vp},
          {"dp", layout.dp},
          {"ep", layout.ep},
          {"zero", layout.zero}};
}

std::string_view word_of(RecomputeKind kind) {
  switch (kind) {
    case RecomputeKind::None: return "none";
    case RecomputeKind::Selective: return "selective";
    case RecomputeKind::Full: return "full";
  }
  return {};
}

std::vector<std::string> traits_of(const Problem& problem, const Layout& layout) {
  const Training& training = problem.training;
  std::vector<std::string> traits{
      "model " + problem.model.name,
      fmt::format("precision {}", name(training.precision)),
      fmt::format("task {}", name(training.task)),
      fmt::format("recompute {}", word_of(layout.recompute.kind)),
      fmt::format("attention {}", training.stack.flash_attention ? "fused" : "unfused"),
      fmt::format("pointwise {}", training.stack.fused_pointwise ? "fused" : "unfused"),
      fmt::format("launches {}", training.stack.eager_launches ? "eager" : "graphs_or_c++"),
  };
  if (layout.pp > 1) traits.push_back(fmt::format("schedule {}", name(layout.schedule)));
  if (layout.cp > 1) traits.push_back(fmt::format("cp_kind {}", name(layout.cp_kind)));
  return traits;
}

}  // namespace

LearntSteps learnt_from(std::span<const RanJob> runs, const Interval& unseen) {
  LearntSteps learnt{static_cast<int>(runs.size()), unseen.low, unseen.high, {}, {}};
  for (const RanJob& run : runs) {
    const Numbers numbers = numbers_of(*run.problem, *run.layout);
    if (learnt.ranges.empty())
      for (const auto& [name, value] : numbers) learnt.ranges.push_back({name, value, value});
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      learnt.ranges[i].least = std::min(learnt.ranges[i].least, numbers[i].second);
      learnt.ranges[i].most = std::max(learnt.ranges[i].most, numbers[i].second);
    }
    for (std::string& trait : traits_of(*run.problem, *run.layout)) learnt.traits.push_back(std::move(trait));
  }
  std::sort(learnt.traits.begin(), learnt.traits.end());
  learnt.traits.erase(std::unique(learnt.traits.begin(), learnt.traits.end()), learnt.traits.end());
  return learnt;
}

std::optional<std::string> never_ran(const LearntSteps& learnt, const Problem& problem, const Layout& layout) {
  for (const std::string& trait : traits_of(problem, layout))
    if (std::find(learnt.traits.begin(), learnt.traits.end(), trait) == learnt.traits.end())
      return fmt::format("none of the {} runs had {}", learnt.runs, trait);
  for (const auto& [name, value] : numbers_of(problem, layout)) {
    const std::string& wanted = name;
    const auto range = std::find_if(learnt.ranges.begin(), learnt.ranges.end(),
                                    [&](const LearntRange& one) { return one.name == wanted; });
    if (range == learnt.ranges.end()) return fmt::format("the profile does not say what {} its runs had", name);
    if (value < range->least || value > range->most)
      return range->least == range->most
                 ? fmt::format("{} is {}, and was {} in all {} runs", name, value, range->least, learnt.runs)
                 : fmt::format("{} is {}, and was {} to {} in the {} runs", name, value, range->least, range->most,
                               learnt.runs);
  }
  return std::nullopt;
}

Interval step_interval(const Problem& problem, const Estimate& estimate, bool guessed) {
  const LearntSteps& learnt = problem.cluster.learnt;
  if (learnt.runs > 0 && !guessed && !never_ran(learnt, problem, estimate.layout)) return {learnt.low, learnt.high};
  return time_interval(problem, estimate.terms, time_coverage(problem, estimate).share, guessed);
}

}  // namespace plan
