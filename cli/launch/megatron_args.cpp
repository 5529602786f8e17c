// Words behind pretrain_gpt.py as flags and values. Tested by tests/launch/files_test.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "cli/launch/megatron.hpp"
#include "cli/launch/megatron_flags.hpp"
#include "presets/suggest.hpp"

namespace plan {
namespace {

std::vector<std::string_view> parts(std::string_view name) {
  std::vector<std::string_view> out;
  while (!name.empty()) {
    const std::size_t dash = name.find('-');
    if (dash != 0) out.push_back(name.substr(0, dash));
    name = dash == std::string_view::npos ? std::string_view{} : name.substr(dash + 1);
  }
  return out;
}

/// Whether each part of `typed` is, but for a slip, a part of `known`, in order: `tensor-paralel` of
/// `tensor-model-parallel-size`.
bool resembles(std::string_view typed, std::string_view known) {
  const std::vector<std::string_view> own = parts(typed), theirs = parts(known);
  if (own.size() < 2) return false;
  std::size_t at = 0;
  for (const std::string_view part : own) {
    const std::size_t slips = part.size() > 4 ? 2 : part.size() > 2 ? 1 : 0;
    while (at < theirs.size() && edit_distance(part, theirs[at], slips + 1) > slips) ++at;
    if (at++ == theirs.size()) return false;
  }
  return true;
}

/// The known flag that `name` was meant to be; empty if it looks like none.
std::string meant(const std::string& name) {
  std::vector<std::string_view> names;
  for (const MegatronFlag& flag : megatron_flags()) names.push_back(flag.name);
  std::string near = nearest_name(name, names);
  if (!near.empty() && edit_distance(near, name) <= 2) return near;
  std::string shortest;
  for (const std::string_view known : names)
    if (resembles(name, known) && (shortest.empty() || known.size() < shortest.size())) shortest = known;
  return shortest;
}

void judge_unknown(const std::string& name, const std::string& where, Errors& errors, std::vector<Note>& notes) {
  const std::string near = meant(name);
  if (near.empty()) {
    notes.push_back(
        {"unknown_flag",
         fmt::format("{}: Megatron-LM has no flag `--{}`; taken as a fork's own and left out", where, name)});
    return;
  }
  Error error{"unknown_flag", fmt::format("{}: Megatron-LM has no flag `--{}`", where, name), {}, {}};
  error.facts.push_back("its parser takes no abbreviations and stops at unknown flags");
  error.help.push_back(fmt::format("the nearest is `--{}`", near));
  errors.push_back(std::move(error));
}

bool is_flag(std::string_view word) { return word.size() > 2 && word.starts_with("--"); }

}  // namespace

std::string MegatronArgs::text(std::string_view flag) const {
  const auto found = given.find(flag);
  return found == given.end() || found->second.values.empty() ? std::string() : found->second.values.front();
}

std::string MegatronArgs::where(std::string_view flag) const {
  const auto found = given.find(flag);
  return found == given.end() ? std::string() : found->second.where;
}

std::optional<std::int64_t> MegatronArgs::integer(std::string_view flag) const {
  const std::string word = text(flag);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (word.empty() || error != std::errc{} || end != word.data() + word.size()) return std::nullopt;
  return value;
}

MegatronArgs read_megatron_words(std::span<const ShellWord> words, const std::string& file, Errors& errors,
                                 std::vector<Note>& notes) {
  MegatronArgs args;
  std::size_t unknown = 0;
  for (std::size_t i = 0; i < words.size();) {
    const ShellWord& word = words[i++];
    const std::string where = fmt::format("{}:{}", file, word.line);
    if (!is_flag(word.text)) {
      if (!word.text.empty() && word.text != "-" && !word.text.starts_with('$'))
        notes.push_back({"unexpected_word", fmt::format("{}: `{}` belongs to no flag", where, word.text)});
      else if (word.text.starts_with('$'))
        notes.push_back({"unknown_arguments", fmt::format("{}: what `{}` holds is not in the file", where, word.text)});
      continue;
    }
    const std::size_t equals = word.text.find('=');
    std::string name = word.text.substr(2, equals == std::string::npos ? equals : equals - 2);
    const MegatronFlag* known = find_megatron_flag(name);
    MegatronValue value{{}, where};
    if (equals != std::string::npos) value.values.push_back(word.text.substr(equals + 1));
    const std::size_t wanted = known == nullptr || known->values == MegatronFlag::kMany
                                   ? words.size()
                                   : static_cast<std::size_t>(known->values);
    while (value.values.size() < wanted && i < words.size() && !is_flag(words[i].text))
      value.values.push_back(words[i++].text);
    if (known == nullptr) {
      if (++unknown <= kMostTold) judge_unknown(name, where, errors, notes);
      continue;
    }
    if (known->until < kNewestMegatron)
      notes.push_back(
          {"flag_gone", fmt::format("{}: `--{}` is gone from Megatron core 0.{} on", where, name, known->until + 1)});
    if (known->values > 0 && value.values.size() < wanted)
      errors.push_back({"missing_value", fmt::format("{}: `--{}` needs a value", where, name), {}, {}});
    if (args.has(name) && args.given[name].values != value.values)
      notes.push_back({"given_twice", fmt::format("{}: `--{}` is given before; the last one counts", where, name)});
    args.given[name] = std::move(value);
  }
  if (unknown > kMostTold)
    notes.push_back({"unknown_flag", fmt::format("{}: {} more flags are unknown to Megatron-LM and left out", file,
                                                 unknown - kMostTold)});
  return args;
}

}  // namespace plan
