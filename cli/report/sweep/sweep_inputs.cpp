// What the points of a sweep have in common, and what nobody stated and yet differs between them: a default that comes
// with the model, the task or the GPU changes the question from point to point. Tested by tests/cli/sweep_test.cpp.
#include "cli/report/sweep/sweep_inputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "planner/rules/frameworks.hpp"

namespace plan {
namespace {

bool is_swept(const PlanSweep& sweep, const std::string& key) {
  return std::any_of(sweep.axes.begin(), sweep.axes.end(), [&](const SweepAxis& axis) { return axis.key == key; });
}

/// The points' words on some axes: "8b" or "8b 64".
std::string words_at(const PlanSweep& sweep, const SweptPlan& point, std::size_t first, std::size_t count) {
  std::string out;
  for (std::size_t i = first; i < first + count; ++i)
    out += (out.empty() ? "" : " ") + sweep.axes[i].values[point.at[i]].text;
  return out;
}

/// The words of one axis if they decide the fact, else those of all.
std::vector<std::string> labels(const PlanSweep& sweep, const DifferingInput& input) {
  const auto words = [&](std::size_t first, std::size_t count) {
    std::vector<std::string> out;
    for (const SweptPlan& point : sweep.points) out.push_back(words_at(sweep, point, first, count));
    return out;
  };
  for (std::size_t axis = 0; axis < sweep.axes.size(); ++axis) {
    std::vector<std::string> own = words(axis, 1);
    std::map<std::string, std::string> settled;
    bool settles = true;
    for (std::size_t i = 0; i < own.size(); ++i)
      settles = settles && settled.try_emplace(own[i], input.facts[i].value).first->second == input.facts[i].value;
    if (settles) return own;
  }
  return words(0, sweep.axes.size());
}

}  // namespace

std::vector<Input> common_inputs(const PlanSweep& sweep) {
  std::vector<Input> out;
  if (sweep.points.empty()) return out;
  for (const Input& input : sweep.points.front().inputs) {
    const bool same = std::all_of(sweep.points.begin(), sweep.points.end(), [&](const SweptPlan& p) {
      return std::any_of(p.inputs.begin(), p.inputs.end(),
                         [&](const Input& other) { return other.key == input.key && other.value == input.value; });
    });
    if (same && !is_swept(sweep, input.key)) out.push_back(input);
  }
  return out;
}

std::vector<Note> unused(const PlanSweep& sweep) {
  std::vector<Note> out;
  for (const SweptPlan& point : sweep.points)
    for (const Note& note : point.plan ? point.plan->problem.unused : std::vector<Note>{})
      if (std::none_of(out.begin(), out.end(), [&](const Note& known) { return known.text == note.text; }))
        out.push_back(note);
  return out;
}

std::vector<DifferingInput> differing_inputs(const PlanSweep& sweep) {
  const std::vector<Input> common = common_inputs(sweep);
  std::vector<DifferingInput> out;
  for (std::size_t i = 0; i < sweep.points.size(); ++i)
    for (Unstated& fact : unstated(sweep.points[i].inputs)) {
      const bool same =
          std::any_of(common.begin(), common.end(), [&](const Input& input) { return input.key == fact.field; });
      if (same || is_swept(sweep, fact.field)) continue;
      auto known =
          std::find_if(out.begin(), out.end(), [&](const DifferingInput& input) { return input.field == fact.field; });
      if (known == out.end()) known = out.insert(out.end(), {fact.field, std::vector<Unstated>(sweep.points.size())});
      known->facts[i] = std::move(fact);
    }
  return out;
}

namespace {

/// `1024 at pretrain, 128 at lora`: which value holds at which points, in their order.
std::string values_at(const PlanSweep& sweep, const DifferingInput& input) {
  const std::vector<std::string> own = labels(sweep, input);
  std::vector<std::pair<std::string, std::vector<std::string>>> values;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const Unstated& fact = input.facts[i];
    if (fact.field.empty()) continue;
    auto known =
        std::find_if(values.begin(), values.end(), [&](const auto& value) { return value.first == fact.value; });
    if (known == values.end()) known = values.insert(values.end(), {fact.value, {}});
    std::vector<std::string>& at = known->second;
    if (std::find(at.begin(), at.end(), own[i]) == at.end()) at.push_back(own[i]);
  }
  std::string text;
  for (const auto& [value, at] : values)
    text += fmt::format("{}{} at {}", text.empty() ? "" : ", ", value, fmt::join(at, " and "));
  return text;
}

}  // namespace

std::string differing_text(const PlanSweep& sweep) {
  std::string out;
  for (const DifferingInput& input : differing_inputs(sweep))
    out += fmt::format("{}{} {}", out.empty() ? "not stated, not the same at every point: " : "; ", input.field,
                       values_at(sweep, input));
  return out;
}

std::string framework_of(const Plan& plan) {
  const bool any = plan.problem.framework == Framework::Any && !plan.runs_on.empty();
  return std::string(framework_row(any ? plan.runs_on.front().framework : plan.problem.framework).name);
}

std::string frameworks_text(const PlanSweep& sweep) {
  DifferingInput frameworks{"framework", std::vector<Unstated>(sweep.points.size())};
  bool several = false;
  const SweptPlan* first = nullptr;
  for (std::size_t i = 0; i < sweep.points.size(); ++i) {
    const SweptPlan& point = sweep.points[i];
    if (!point.plan) continue;
    if (first == nullptr) first = &point;
    frameworks.facts[i] = {.field = "framework", .value = framework_of(*point.plan)};
    several = several || framework_of(*point.plan) != framework_of(*first->plan);
  }
  if (!several || is_swept(sweep, "framework")) return {};
  return fmt::format("the figures are of several frameworks: {}", values_at(sweep, frameworks));
}

}  // namespace plan
