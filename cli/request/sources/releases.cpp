// Releases of software that a problem is for. Tested by tests/cli/resolve_test.cpp.
#include "cli/request/sources/releases.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "cli/request/sources/plan_json_read.hpp"
#include "cli/request/sources/switches.hpp"
#include "formulas/words.hpp"
#include "presets/stack.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

/// The file of presets/stacks that lists the releases of a framework's image.
std::string_view history_name(const FrameworkRow& row) { return base_name(row.image); }

std::optional<StackHistory> history_of(const FrameworkRow* row) {
  return row != nullptr ? load_stack(history_name(*row)) : std::nullopt;
}

void take_core(const Request& request, Problem& problem, Errors& errors) {
  if (!request.megatron_version) return;
  if (!has_earlier_releases(framework_row(problem.framework)))
    return errors.push_back(
        needs_framework(has_earlier_releases, "`--megatron-version` goes with {} alone", problem.framework));
  problem.release = request.megatron_version->value;
  problem.inputs.push_back(request.megatron_version->input);
}

std::string fact_words(const StackChange& change) {
  std::string words(change.fact.row->name);
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}

/// What earlier releases do otherwise than the newest, of what this problem has.
void note_assumed(const StackHistory& history, Problem& problem) {
  std::string others;
  for (const StackChange& change : history.changes)
    if (matters(change, problem.model, problem.training))
      others += fmt::format("{}{} {} {}", others.empty() ? "" : ", ", stack_release_text(change.since),
                            change.fact.value != 0 ? "has" : "lacks", fact_words(change));
  if (others.empty()) return;
  problem.notes.push_back({"release_assumed", fmt::format("no release of the software is stated, so the newest known, "
                                                          "{}, is assumed; of what this model needs, {}; see --release",
                                                          stack_release_text(history.newest), others)});
}

/// A year and a month in another writing, as a release has them: `26.4`, `2026-04`, `v26.04`, `nemo:26.04`.
std::optional<StackRelease> meant_release(std::string_view word) {
  constexpr std::string_view kDigits = "0123456789";
  std::vector<std::string> numbers;
  for (std::size_t at = word.find_first_of(kDigits); at < word.size(); at = word.find_first_of(kDigits, at)) {
    const std::size_t end = std::min(word.find_first_not_of(kDigits, at), word.size());
    numbers.emplace_back(word.substr(at, end - at)), at = end;
  }
  if (numbers.size() < 2) return std::nullopt;
  if (numbers[0].size() == 4 && numbers[0].starts_with("20")) numbers[0].erase(0, 2);
  if (numbers[1].size() == 1) numbers[1].insert(0, "0");
  return read_stack_release(numbers[0] + "." + numbers[1]);
}

Error unknown_release(std::string_view word, const StackHistory& history, std::string reason) {
  Error error{"unknown_release", fmt::format("`--release {}` {}", yaml::printable(word), reason), {}, {}};
  if (const auto meant = meant_release(word); meant && *meant <= history.newest && stack_release_text(*meant) != word)
    error.help.push_back(fmt::format("write `--release {}`", stack_release_text(*meant)));
  error.help.push_back(fmt::format("write year and month up to {}, or leave `--release` out for that one",
                                   stack_release_text(history.newest)));
  return error;
}

/// A release that a person asked for.
void take_word(const Stated<StackRelease>& stated, const StackHistory& history, Problem& problem, Errors& errors) {
  if (framework_with(problem.framework, has_image) == nullptr)
    return errors.push_back(
        needs_framework(has_image, "`--release` goes with {}, whose containers are known by month", problem.framework));
  const bool any = std::any_of(history.changes.begin(), history.changes.end(), [&](const StackChange& change) {
    return matters(change, problem.model, problem.training);
  });
  problem.training.stack = history.at(stated.value, problem.training.stack);
  problem.inputs.push_back(stated.input);
  if (!any)
    problem.notes.push_back({"release_without_effect",
                             fmt::format("`--release {}` changes no number: nothing of what is known to differ between "
                                         "releases concerns this model",
                                         stated.input.value)});
}

/// The image that launch files name. One newer than the newest known does what that does.
void take_image(const Stated<StackRelease>& stated, const StackHistory& history, Problem& problem) {
  if (!has_image(framework_row(problem.framework))) return;
  problem.training.stack = history.at(stated.value, problem.training.stack);
  problem.inputs.push_back(stated.input);
  if (history.newest < stated.value)
    problem.notes.push_back(
        {"release_assumed", fmt::format("{}: {} is newer than any release that is known, so {} is "
                                        "assumed",
                                        stated.input.where, stated.input.value, stack_release_text(history.newest))});
}

}  // namespace

Result<StackRelease> read_release(std::string_view word) {
  const std::optional<StackRelease> release = read_stack_release(word);
  const std::optional<StackHistory> history = history_of(framework_with(Framework::Any, has_image));
  if (!history) return fail({"unknown_release", "no release of the software is known", {}, {}});
  // An image's tag may hold more than the month; what a person writes may not.
  const bool bare = word.find_first_not_of("0123456789.") == std::string_view::npos;
  if (!release || !bare) return fail(unknown_release(word, *history, "names no month"));
  if (history->newest < *release) return fail(unknown_release(word, *history, "is newer than any that is known"));
  return *release;
}

Errors take_releases(const Request& request, Problem& problem) {
  Errors errors;
  take_core(request, problem, errors);
  const FrameworkRow* row = framework_with(problem.framework, has_image);
  const std::optional<StackHistory> history =
      history_of(row != nullptr ? row : framework_with(Framework::Any, has_image));
  if (!history) return errors;
  if (!request.release) {
    if (row != nullptr) note_assumed(*history, problem);
  } else if (request.release->by_person) {
    take_word(*request.release, *history, problem, errors);
  } else {
    take_image(*request.release, *history, problem);
  }
  return errors;
}

std::string container_of(const Problem& problem) {
  const Input* release = find_input(problem.inputs, "release");
  const FrameworkRow* row = framework_with(problem.framework, has_image);
  return release != nullptr && row != nullptr ? fmt::format("{}:{}", row->image, release->value) : "";
}

}  // namespace plan
