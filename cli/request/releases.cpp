// Releases of software that a problem is for. Tested by tests/cli/resolve_test.cpp.
#include "cli/request/releases.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "cli/launch/launch.hpp"
#include "cli/launch/megatron.hpp"
#include "cli/request/plan_json_read.hpp"
#include "presets/stack.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

constexpr std::string_view kContainer = "nemo";  ///< presets/stacks, and the image's name

void take_core(const Args& args, Problem& problem, Errors& errors) {
  if (!args.megatron_version) return;
  const Result<int> release = read_megatron_release(*args.megatron_version);
  if (!release) {
    errors.insert(errors.end(), release.error().begin(), release.error().end());
  } else if (problem.framework != Framework::Megatron) {
    errors.push_back(
        {"conflicting_flags", "`--megatron-version` goes with Megatron alone", {}, {"add `--framework megatron`"}});
  } else {
    problem.release = *release;
    problem.inputs.push_back({"megatron_version", fmt::format("0.{}", *release), Origin::Flag});
  }
}

std::string fact_words(const StackChange& change) {
  std::string words = change.name;
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}

/// What earlier releases do otherwise than the newest, of what this problem has.
void note_assumed(const StackHistory& history, Problem& problem) {
  std::string others;
  for (const StackChange& change : history.changes)
    if (matters(change, problem.model, problem.training))
      others += fmt::format("{}{} {} {}", others.empty() ? "" : ", ", stack_release_text(change.since),
                            change.on ? "has" : "lacks", fact_words(change));
  if (others.empty()) return;
  problem.notes.push_back({"release_assumed", fmt::format("no release of the software is stated, so the newest known, "
                                                          "{}, is assumed; of what this model needs, {}; see --release",
                                                          stack_release_text(history.newest), others)});
}

Error unknown_release(std::string_view word, const StackHistory& history, std::string reason) {
  return {"unknown_release",
          fmt::format("`--release {}` {}", yaml::printable(word), reason),
          {},
          {fmt::format("write year and month up to {}, or leave `--release` out for that one",
                       stack_release_text(history.newest))}};
}

void take_flag(const std::string& word, const StackHistory& history, Problem& problem, Errors& errors) {
  const std::optional<StackRelease> release = read_stack_release(word);
  if (!release) return errors.push_back(unknown_release(word, history, "names no month"));
  if (history.newest < *release)
    return errors.push_back(unknown_release(word, history, "is newer than any that is known"));
  if (problem.framework != Framework::Megatron && problem.framework != Framework::Any)
    return errors.push_back({"conflicting_flags",
                             "`--release` goes with Megatron, whose containers are known by month",
                             {},
                             {"add `--framework megatron`"}});
  const bool any = std::any_of(history.changes.begin(), history.changes.end(), [&](const StackChange& change) {
    return matters(change, problem.model, problem.training);
  });
  problem.training.stack = history.at(*release, problem.training.stack);
  problem.inputs.push_back({"release", stack_release_text(*release), Origin::Flag});
  if (!any)
    problem.notes.push_back({"release_without_effect",
                             fmt::format("`--release {}` changes no number: nothing of what is known to differ between "
                                         "releases concerns this model",
                                         stack_release_text(*release))});
}

/// The image that launch files name. One newer than the newest known does what that does.
void take_image(const Input& image, const StackHistory& history, Problem& problem) {
  const std::optional<StackRelease> release = read_stack_release(image.value);
  if (!release || problem.framework != Framework::Megatron) return;
  problem.training.stack = history.at(*release, problem.training.stack);
  problem.inputs.push_back(image);
  if (history.newest < *release)
    problem.notes.push_back(
        {"release_assumed", fmt::format("{}: {} is newer than any release that is known, so {} is "
                                        "assumed",
                                        image.where, image.value, stack_release_text(history.newest))});
}

}  // namespace

Errors take_releases(const Args& args, const LaunchJob* job, Problem& problem) {
  Errors errors;
  take_core(args, problem, errors);
  const std::optional<StackHistory> history = load_stack(kContainer);
  if (!history) return errors;
  const Input* image = job != nullptr ? find_input(job->inputs, "release") : nullptr;
  if (args.release)
    take_flag(*args.release, *history, problem, errors);
  else if (image != nullptr)
    take_image(*image, *history, problem);
  else if (problem.framework == Framework::Megatron || problem.framework == Framework::Any)
    note_assumed(*history, problem);
  return errors;
}

std::string container_of(const Problem& problem) {
  const Input* release = find_input(problem.inputs, "release");
  return release != nullptr ? fmt::format("nvcr.io/nvidia/{}:{}", kContainer, release->value) : "";
}

}  // namespace plan
