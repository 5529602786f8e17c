// What moved a figure since the baseline, from inputs set back one at a time. Tested by tests/cli/check_test.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "cli/check/check.hpp"
#include "cli/check/limit_text.hpp"
#include "cli/terminal/format.hpp"
#include "formulas/names.hpp"
#include "planner/problem/axes.hpp"
#include "presets/quantity.hpp"

namespace plan {
namespace {

/// Inputs that do not change what a job needs, or that other keys say better.
constexpr std::array<std::string_view, 8> kIgnored = {"layout",  "objective", "top", "pareto",
                                                      "threads", "tokens",    "dp",  "micro_batches"};

const StageMemory& worst(const Estimate& e) { return e.stages[static_cast<std::size_t>(e.peak_stage)]; }

/// Is it a part of layouts, and not one of the job's inputs?
bool of_layout(std::string_view key) {
  bool axis = key == "micro_batches";
  each_axis([&](const auto& row) { axis = axis || row.key == key; });
  return axis;
}

std::string_view origin_text(const ResolvedJob& job, std::string_view key) {
  const Input* input = find_input(job.problem.inputs, key);
  if (input == nullptr) return job.layout ? "a default" : "chosen by the search";
  switch (input->origin) {
    case Origin::Preset: return "from its preset";
    case Origin::Profile: return "from the profile";
    case Origin::Default: return "a default";
    case Origin::Flag:
    case Origin::File: break;
  }
  return "";
}

Cause cause_at(const ResolvedJob& job, std::string key) {
  Cause cause{.key = std::move(key)};
  cause.place = place_of_input(job, cause.key);
  cause.where = cause.place.line > 0 ? fmt::format("{}:{}", cause.place.file, cause.place.line)
                                     : std::string(origin_text(job, cause.key));
  const Input* input = find_input(job.problem.inputs, cause.key);
  if (cause.place.line == 0 && !job.budget->from.empty() && (input == nullptr || input->origin == Origin::Default)) {
    cause.place = home_of_input(job, cause.key);
    cause.where = fmt::format("not stated in {}:{}", cause.place.file, cause.place.line);
  }
  return cause;
}

/// Is it what a preset has come to say of the job, which nobody stated before or now?
bool of_preset_alone(const ResolvedJob& job, const EarlierPlan& baseline, std::string_view key) {
  const Input* input = find_input(job.problem.inputs, key);
  return input != nullptr && input->origin == Origin::Preset && find_input(baseline.inputs, key) == nullptr;
}

/// Inputs that differ beside the causes that are known: of a preset, its content.
void add_other_inputs(const ResolvedJob& job, const EarlierPlan& baseline, std::vector<Cause>& causes) {
  for (const Input& input : job.problem.inputs) {
    const bool ignored = std::find(kIgnored.begin(), kIgnored.end(), input.key) != kIgnored.end();
    const bool choice =
        input.key != "gpu" && std::find(choice_keys().begin(), choice_keys().end(), input.key) != choice_keys().end();
    const Input* before = find_input(baseline.inputs, input.key);
    const bool known = std::any_of(causes.begin(), causes.end(), [&](const Cause& c) { return c.key == input.key; });
    if (ignored || choice || known || before == nullptr) continue;
    const bool content = before->value == input.value && !before->digest.empty() && before->digest != input.digest;
    if (before->value == input.value && !content) continue;
    Cause cause = cause_at(job, input.key);
    cause.before = content ? "its earlier preset" : before->value;
    cause.after = content ? "its preset now" : input.value;
    causes.push_back(std::move(cause));
  }
}

template <class T, class Read>
void take(const EarlierPlan& baseline, const char* key, std::optional<T>& out, Read read) {
  if (const Input* input = find_input(baseline.inputs, key))
    if (const auto value = read(std::string_view(input->value))) out = static_cast<T>(*value);
}

}  // namespace

std::string input_text(const std::vector<Input>& inputs, std::string_view key, std::string_view unstated) {
  const Input* input = find_input(inputs, key);
  return input == nullptr ? std::string(unstated) : input->value;
}

std::string inputs_apart(const ResolvedJob& job, const EarlierPlan& baseline) {
  std::string out;
  for (const Input& input : job.problem.inputs) {
    const Input* before = find_input(baseline.inputs, input.key);
    const bool ignored = std::find(kIgnored.begin(), kIgnored.end(), input.key) != kIgnored.end();
    if (ignored || before == nullptr || before->value == input.value) continue;
    out += fmt::format("{}{} {} -> {}", out.empty() ? "" : ", ", input.key, before->value, input.value);
  }
  return out;
}

std::vector<std::pair<std::string, Bytes>> memory_change(const Estimate& now, const Estimate& before) {
  std::vector<std::pair<std::string, Bytes>> out;
  if (now.stages.empty() || before.stages.empty()) return out;
  for (const MemoryCategory& row : kMemoryCategories)
    if (const Bytes moved = worst(now).*row.bytes - worst(before).*row.bytes; moved.value != 0)
      out.emplace_back(row.word, moved);
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
    return std::llabs(a.second.value) > std::llabs(b.second.value);
  });
  return out;
}

std::string categories_text(const std::vector<std::pair<std::string, Bytes>>& moved) {
  std::string out;
  const bool large = !moved.empty() && std::llabs(moved.front().second.value) >= (std::int64_t{1} << 30);
  for (const auto& [category, bytes] : moved) {
    const double gibs = static_cast<double>(bytes.value) / kGiB;
    if (large && std::fabs(gibs) < 0.05) continue;
    const std::string change =
        large ? signed_number(gibs, 1) + " GiB" : change_text(MetricUnit::Memory, static_cast<double>(bytes.value));
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", category, change);
  }
  return out;
}

EarlierJob earlier_job(const EarlierPlan& baseline) {
  EarlierJob job{.layout = baseline.best.layout};
  take(baseline, "seq", job.seq, parse_integer);
  take(baseline, "global_batch", job.global_batch, parse_integer);
  job.gpus = earlier_gpus(baseline).used;
  take(baseline, "precision", job.precision, [](std::string_view s) { return parse(kPrecisionNames, s); });
  take(baseline, "optimizer", job.optimizer, [](std::string_view s) { return parse(kOptimizerNames, s); });
  return job;
}

JobGpus earlier_gpus(const EarlierPlan& baseline) {
  const auto number = [&](std::string_view key) {
    const Input* input = find_input(baseline.inputs, key);
    return input == nullptr ? 0 : static_cast<int>(parse_integer(input->value).value_or(0));
  };
  const int used = baseline.best.layout.world();
  return {std::max(used, number("gpus") - number("spares")), used};
}

std::vector<Cause> find_causes(const ResolvedJob& job, const Plan& now, const EarlierPlan& baseline, Metric metric,
                               const std::vector<Restoration>& restored) {
  std::vector<Cause> causes;
  const double value = measure(metric, now.best, {job.problem.gpus, now.problem.gpus}, job.run).value;
  for (const Restoration& one : restored) {
    Cause cause = cause_at(job, one.key);
    const bool axis = of_layout(one.key);
    cause.before = axis ? choice_text(one.key, Problem{}, baseline.best.layout) : input_text(baseline.inputs, one.key);
    cause.after = axis ? choice_text(one.key, job.problem, now.best.layout) : input_text(job.problem.inputs, one.key);
    if (one.estimate) {
      cause.known = true;
      cause.effect = value - measure(metric, *one.estimate, {one.problem.gpus, one.problem.gpus}, job.run).value;
      cause.memory = memory_change(now.best, *one.estimate);
    }
    if (cause.effect == 0 && of_preset_alone(job, baseline, one.key)) continue;
    causes.push_back(std::move(cause));
  }
  add_other_inputs(job, baseline, causes);
  std::stable_sort(causes.begin(), causes.end(),
                   [](const Cause& a, const Cause& b) { return std::fabs(a.effect) > std::fabs(b.effect); });
  return causes;
}

}  // namespace plan
