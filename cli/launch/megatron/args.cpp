// Words behind pretrain_gpt.py as flags and values. Tested by tests/launch/files_test.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "cli/launch/job/unread.hpp"
#include "cli/launch/job/weighty_names.hpp"
#include "cli/launch/megatron/flags.hpp"
#include "cli/launch/megatron/fork_flags.hpp"
#include "cli/launch/megatron/megatron.hpp"
#include "formulas/text.hpp"
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
  constexpr std::size_t kLettersPerSlip = 5;  // of a short name two other letters make another name: use-mpi, use-mup
  const std::size_t most = std::clamp<std::size_t>(name.size() / kLettersPerSlip, 1, 2);
  std::string near = nearest_name(name, names);
  if (!near.empty() && edit_distance(near, name) <= most) return near;
  std::string shortest;
  for (const std::string_view known : names)
    if (resembles(name, known) && (shortest.empty() || known.size() < shortest.size())) shortest = known;
  return shortest;
}

/// Flags that Megatron-LM does not have, sorted by what becomes of them.
struct Unknown {
  bool fork = false;  ///< a slip of a known flag may as well be the fork's own
  std::size_t count = 0;
  std::string harmless{};  ///< that change nothing here
  Unread open{};           ///< that may weigh

  void judge(const std::string& name, std::string_view value, const std::string& at, Errors& errors,
             std::vector<Note>& notes) {
    if (sounds_harmless(name)) {
      harmless += fmt::format("{}`--{}`", harmless.empty() ? "" : ", ", name);
      return;
    }
    const std::string near = fork ? "" : meant(name);
    if (near.empty() && states_degree(name, value)) return errors.push_back(degree_not_read(at, "--" + name, value));
    if (near.empty()) {
      notes.push_back(
          {"unknown_flag",
           fmt::format("{}: Megatron-LM has no flag `--{}`; taken as a fork's own and left out", at, name)});
      return open.add("--" + name, at);
    }
    Error error{"unknown_flag", fmt::format("{}: Megatron-LM has no flag `--{}`", at, name), {}, {}};
    error.facts.push_back("its parser takes no abbreviations and stops at unknown flags");
    error.help.push_back(the_nearest_is("--" + near));
    errors.push_back(std::move(error));
  }
};

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
  return as_number<std::int64_t>(text(flag));
}

namespace {

/// Index behind a template's place to be filled in, `<PATH TO CKPT>/x`, whose first word is in front of `at`: the shell
/// splits it where it stood in a variable. `at` where there is none.
std::size_t behind_template(std::span<const ShellWord> words, std::size_t at) {
  const auto closes = [](const ShellWord& word) { return word.text.find('>') != std::string::npos; };
  if (!words[at - 1].text.starts_with('<') || closes(words[at - 1])) return at;
  for (std::size_t end = at; end < words.size() && !is_flag(words[end].text); ++end)
    if (closes(words[end])) return end + 1;
  return at;
}

/// Values that follow a flag: as many as it takes, up to the next flag.
void take_values(std::span<const ShellWord> words, std::size_t& at, int wanted, StatedValue& value) {
  const std::size_t most = wanted == MegatronFlag::kMany ? words.size() : static_cast<std::size_t>(wanted);
  while (value.values.size() < most && at < words.size() && !is_flag(words[at].text)) {
    value.values.push_back(words[at++].text);
    const std::size_t end = behind_template(words, at);
    while (at < end) value.values.back() += " " + words[at++].text;
  }
}

/// Python's int() reads `32_000` as 32000: one underscore between digits says nothing.
void drop_underscores(std::string& word) {
  const auto digit = [&](std::size_t at) { return at < word.size() && word[at] >= '0' && word[at] <= '9'; };
  for (std::size_t i = 0; i < word.size(); ++i)
    if (!digit(i) && !(word[i] == '_' && i > 0 && digit(i - 1) && digit(i + 1))) return;
  std::erase(word, '_');
}

/// Words that follow no flag, which argparse dies on: all in one line.
struct Stray {
  std::string words{}, where{};

  void judge(const ShellWord& word, const std::string& at, MegatronArgs& args, std::vector<Note>& notes) {
    if (word.text.starts_with('$')) {
      const std::string text = fmt::format("{}: what `{}` holds is not in the file", at, word.text);
      notes.push_back({"unknown_arguments", text});
      if (word.text != "$@") args.unused.push_back({"unknown_arguments", text});
    } else if (!word.text.empty() && word.text != "-") {
      if (words.empty()) where = at;
      words += fmt::format("{}`{}`", words.empty() ? "" : ", ", word.text);
    }
  }
};

bool has_fork_flags(std::span<const ShellWord> words) {
  return std::any_of(words.begin(), words.end(), [](const ShellWord& word) {
    return is_flag(word.text) && find_fork_flag(word.text.substr(2, word.text.find('=') - 2)) != nullptr;
  });
}

/// What was found that no flag is, once and together.
void tell(const Unknown& unknown, const Stray& stray, const std::string& file, MegatronArgs& args,
          std::vector<Note>& notes) {
  if (!unknown.harmless.empty())
    notes.push_back(
        {"flags_left_out", fmt::format("{}: flags of a fork that change nothing here: {}", file, unknown.harmless)});
  unknown.open.tell(args.unused, "these flags of a fork", "unknown_flag");
  if (!stray.words.empty())
    args.unused.push_back({"unexpected_word", fmt::format("{}: no flag takes {}", stray.where, stray.words)});
  if (unknown.count > kMostNoted)
    notes.push_back({"unknown_flag", fmt::format("{}: {} more flags are unknown to Megatron-LM and left out", file,
                                                 unknown.count - kMostNoted)});
}

}  // namespace

MegatronArgs read_megatron_words(std::span<const ShellWord> words, const std::string& file, Errors& errors,
                                 std::vector<Note>& notes, bool fork) {
  MegatronArgs args;
  args.fork = fork || has_fork_flags(words);
  Unknown unknown{.fork = args.fork, .count = 0, .harmless = {}, .open = {}};
  Stray stray;
  std::size_t words_noted = 0;
  for (std::size_t i = 0; i < words.size();) {
    const ShellWord& word = words[i++];
    const std::string where = fmt::format("{}:{}", file, word.line);
    if (!is_flag(word.text)) {
      if (++words_noted <= kMostNoted) stray.judge(word, where, args, notes);
      continue;
    }
    const std::size_t equals = word.text.find('=');
    const std::string name = word.text.substr(2, equals == std::string::npos ? equals : equals - 2);
    const MegatronFlag* known = find_megatron_flag(name);
    const ForkFlag* own = known == nullptr ? find_fork_flag(name) : nullptr;
    args.foreign = args.foreign || known == nullptr || known->until < kOldestMegatron;
    StatedValue value{{}, where};
    if (equals != std::string::npos) value.values.push_back(word.text.substr(equals + 1));
    const int wanted = known != nullptr ? known->values : own != nullptr ? own->values : MegatronFlag::kMany;
    const std::size_t first = i;
    take_values(words, i, wanted, value);
    std::for_each(value.values.begin(), value.values.end(), drop_underscores);
    if (i > first) value.where = fmt::format("{}:{}", file, words[first].line);  // where it was assigned, not its use
    if (known == nullptr && own == nullptr) {
      const std::string_view first_value = value.values.empty() ? std::string_view() : value.values.front();
      if (++unknown.count <= kMostNoted) unknown.judge(name, first_value, where, errors, notes);
      continue;
    }
    if (wanted > 0 && value.values.size() < static_cast<std::size_t>(wanted))
      errors.push_back({"missing_value", fmt::format("{}: `--{}` needs a value", where, name), {}, {}});
    if (own != nullptr) {
      if (own->meaning == ForkFlag::Meaning::Weighs)
        args.unused.push_back({"not_used", fmt::format("{}: `--{}`: {}", where, name, own->as)});
      if (own->meaning == ForkFlag::Meaning::Own)
        args.given[name] = std::move(value);
      else if (own->meaning == ForkFlag::Meaning::Same)
        args.given.try_emplace(std::string(own->as), std::move(value));
      continue;
    }
    if (known->until < kNewestMegatron && !args.fork)
      notes.push_back(
          {"flag_gone", fmt::format("{}: `--{}` is gone from Megatron core 0.{} on", where, name, known->until + 1)});
    if (args.has(name) && args.given[name].values != value.values)
      notes.push_back({"given_twice", fmt::format("{}: `--{}` is given before; the last one counts", where, name)});
    args.given[name] = std::move(value);
  }
  tell(unknown, stray, file, args, notes);
  return args;
}

}  // namespace plan
