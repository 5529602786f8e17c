#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "formulas/names.hpp"
#include "formulas/text.hpp"
#include "planner/answer/estimate.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

inline constexpr Named<Objective> kObjectiveNames[] = {
    {Objective::StepTime, "time"}, {Objective::Memory, "memory"}, {Objective::Cost, "cost"}};

inline constexpr Named<Origin> kOriginNames[] = {{Origin::Flag, "flag"},
                                                 {Origin::Preset, "preset"},
                                                 {Origin::Profile, "profile"},
                                                 {Origin::File, "file"},
                                                 {Origin::Default, "default"}};

inline constexpr Named<Fits> kFitsNames[] = {{Fits::Yes, "yes"}, {Fits::AtRisk, "at_risk"}, {Fits::No, "no"}};

inline constexpr Named<Axis> kAxisNames[] = {
    {Axis::Tp, "tp"}, {Axis::Cp, "cp"}, {Axis::Ep, "ep"}, {Axis::Pp, "pp"}, {Axis::Dp, "dp"}};

/// Whether a layout fits, in words for a reader.
inline constexpr Named<Fits> kFitsPhrases[] = {
    {Fits::Yes, "fits"}, {Fits::AtRisk, "fits: at risk"}, {Fits::No, "does not fit"}};

constexpr std::string_view phrase(Fits v) { return detail::name_in(kFitsPhrases, v); }
constexpr std::string_view name(Objective v) { return detail::name_in(kObjectiveNames, v); }
constexpr std::string_view name(Origin v) { return detail::name_in(kOriginNames, v); }
constexpr std::string_view name(Fits v) { return detail::name_in(kFitsNames, v); }
constexpr std::string_view name(Axis v) { return detail::name_in(kAxisNames, v); }

enum class Format { Human, Json, Markdown, Csv, Html, Trace, Github, Junit, Sarif };
inline constexpr Named<Format> kFormatNames[] = {
    {Format::Human, "human"},   {Format::Json, "json"},   {Format::Markdown, "markdown"},
    {Format::Csv, "csv"},       {Format::Html, "html"},   {Format::Trace, "trace"},
    {Format::Github, "github"}, {Format::Junit, "junit"}, {Format::Sarif, "sarif"}};

/// The words of a table of names, for completions and did-you-mean.
template <class E, std::size_t N>
[[nodiscard]] std::vector<std::string> words_of(const Named<E> (&table)[N]) {
  std::vector<std::string> words;
  for (const Named<E>& row : table) words.emplace_back(row.name);
  return words;
}

/// What lies between separators, empty parts included.
[[nodiscard]] inline std::vector<std::string_view> split(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + separator.size());
  }
}

/// Whether a word is one of those that blanks part.
[[nodiscard]] constexpr bool among_words(std::string_view words, std::string_view word) {
  while (true) {
    const std::size_t end = words.find(' ');
    if (words.substr(0, end) == word) return !word.empty();
    if (end == std::string_view::npos) return false;
    words.remove_prefix(end + 1);
  }
}

/// A word as tables have it: `Megatron_LM` is `megatron-lm`.
[[nodiscard]] inline std::string folded(std::string_view word) {
  std::string out = lowered(std::string(word));
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

/// Whether two folded nouns are the same but for their number: `model` and `models`.
[[nodiscard]] inline bool same_noun(std::string_view a, std::string_view b) {
  const auto singular = [](std::string_view word) {
    return word.substr(0, word.size() - (word.ends_with('s') ? 1 : 0));
  };
  return singular(a) == singular(b);
}

}  // namespace plan
