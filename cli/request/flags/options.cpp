// Reads the command line with CLI11, from the option table. CLI11's `required()` hides a misspelt flag behind
// "--model is required", so nothing is required here: leftovers are judged first, missing values by resolve.cpp.
// Tested by tests/cli/options_test.cpp.
#include "cli/request/flags/options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <map>
#include <optional>

#include "cli/request/flags/flag_meanings.hpp"
#include "cli/request/flags/leftovers.hpp"
#include "cli/request/flags/sweep_axes.hpp"
#include "cli/request/table/command_table.hpp"
#include "cli/request/table/option_table.hpp"
#include "cli/request/words/choice_words.hpp"
#include "cli/request/words/layout_flag.hpp"
#include "cli/terminal/offload_flag.hpp"
#include "cli/terminal/overlap_words.hpp"
#include "cli/terminal/state_formats.hpp"
#include "cli/terminal/words.hpp"
#include "formulas/keep_errors.hpp"

namespace plan {
namespace {

using Words = std::vector<std::string>;

bool is_number(std::string_view word) {
  return word.size() > 1 && word[0] == '-' && (std::isdigit(static_cast<unsigned char>(word[1])) || word[1] == '.');
}

/// A word behind an option that is a flag, and not the option's value: what a script is given may begin with dashes.
bool stands_for_itself(const std::string& word, const Option& option) {
  if (option.flag == "--args") return find_option(flag_name(word)) != nullptr;
  return is_flag(word) && !is_number(word);
}

/// Joins what a shell has torn apart: negative numbers, which CLI11 would read as flags, and `16M tokens`.
/// Reports flags without a value.
Words join_values(const Words& words, Errors& errors) {
  Words joined;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const Option* option = find_option(words[i]);
    joined.push_back(words[i]);
    if (option == nullptr || !option->takes_value()) continue;
    const bool last = i + 1 == words.size();
    if (last || words[i + 1].empty() || stands_for_itself(words[i + 1], *option)) {
      errors.push_back({"missing_value",
                        fmt::format("`{}` needs a value", words[i]),
                        {},
                        {fmt::format("write `{} {}`", option->flag, option->argument)}});
      joined.pop_back();
      if (!last && words[i + 1].empty()) ++i;
      continue;
    }
    joined.back() = fmt::format("{}={}", option->flag, words[++i]);
    if (i + 1 < words.size() && same_but_for_case(words[i + 1], "tokens")) joined.back() += " " + words[++i];
  }
  return joined;
}

std::string verb_text(std::string_view verb) { return verb.empty() ? "plan" : fmt::format("plan {}", verb); }

Error wrong_verb(const Option& option, const Command& command, Words meant) {
  std::string owners;
  for (const Command& other : kCommands)
    if ((option.verbs & other.bit) != 0) owners += (owners.empty() ? "`" : ", `") + verb_text(other.name) + "`";
  return {"wrong_command",
          fmt::format("`{}` does not go with `{}`", option.flag, verb_text(command.name)),
          {},
          meant.empty() ? Words{fmt::format("it belongs to {}", owners)} : std::move(meant)};
}

/// Typed words by row of the option table, as CLI11 stores them.
using Slots = std::map<std::string_view, Words>;

/// Words between commas, each as read_choice() has it.
Result<std::string> read_choices(std::string_view flag, std::string_view text) {
  std::string all;
  for (const std::string_view part : split(text, ",")) {
    Result<std::string> word = read_choice(flag, part);
    if (!word) return word;
    all += (all.empty() ? "" : ",") + *word;
  }
  return all;
}

/// What to write instead of a flag's several values: one list of them, or the command that takes several.
Words instead_of_several(std::string_view flag, const Words& typed) {
  const std::string list = fmt::format("{}", fmt::join(typed, ","));
  if (flag == "--layout")
    if (const Result<Fixed> layout = read_layout(list); !layout && layout.error().front().code == "given_twice")
      return layout.error().front().help;
  if ((flag == "--layout" && read_layout(list)) || (flag == "--offload" && read_offload(list)) ||
      (flag == "--overlap" && read_overlap(list)) || (flag == "--state-formats" && read_state_formats(list)))
    return {fmt::format("write `{} {}`", flag, list)};
  Words help{"write it once"};
  if (std::string swept = swept_instead(flag, list); !swept.empty()) help.push_back(std::move(swept));
  return help;
}

void fill(const Option& option, const Words& typed, Args& args, Errors& errors) {
  if (typed.empty()) return;
  if (option.values != nullptr) {
    Words& all = args.*option.values;  // which two flags may fill
    all.insert(all.end(), typed.begin(), typed.end());
    return;
  }
  if (typed.size() > 1) {
    errors.push_back({"given_twice",
                      fmt::format("`{}` is given {} times: {}", option.flag, typed.size(), fmt::join(typed, ", ")),
                      {},
                      instead_of_several(option.flag, typed)});
    return;
  }
  if (option.value == &Args::list) {  // the command of that name judges its word
    args.list = typed[0];
    return;
  }
  const bool list = args.verb == "sweep" && sweeps_words(option.flag);
  Result<std::string> word = list ? read_choices(option.flag, typed[0]) : read_choice(option.flag, typed[0]);
  if (!word && !list && read_choices(option.flag, typed[0]))
    if (const std::string swept = swept_instead(option.flag, typed[0]); !swept.empty())
      word.error().front().help = {swept};
  if (keep_errors(errors, word)) args.*option.value = *word;
}

/// Unknown flags, and those of other verbs, which may be another tool's words as well.
Words strangers(const Words& leftovers, const Slots& slots, const Args& args) {
  Words all;
  std::copy_if(leftovers.begin(), leftovers.end(), std::back_inserter(all),
               [](const std::string& word) { return is_flag(word); });
  const Command* command = find_command(args.verb);
  for (const auto& [flag, typed] : slots)
    if (!typed.empty() && command != nullptr && (find_option(flag)->verbs & command->bit) == 0) all.emplace_back(flag);
  return all;
}

/// The verb of a command line: the first word that is no flag, or the first after strangers that names a command.
/// Words after it are its own: `formula` in `plan show formula` is a kind, though it names a command too.
const Command* chosen_verb(const Words& joined) {
  for (const std::string& word : joined)
    if (const Command* command = word.empty() || is_flag(word) ? nullptr : find_command(word)) return command;
  return nullptr;
}

/// Of the verbs only the chosen one: CLI11 would take any word that names a sibling for that sibling.
void declare(CLI::App& app, const Command* command, Slots& slots, Args& args) {
  app.set_help_flag();
  app.allow_extras();
  for (const Option& option : options()) {
    const std::string names =
        option.letter == 0 ? std::string(option.flag) : fmt::format("-{},{}", option.letter, option.flag);
    if (option.on != nullptr)
      app.add_flag(names, args.*option.on);
    else
      app.add_option(names, slots[option.flag])->allow_extra_args(false);
  }
  if (command == nullptr) return;
  CLI::App* verb = app.add_subcommand(std::string(command->name));
  verb->set_help_flag();
  verb->fallthrough()->allow_extras();
  verb->callback([&args, name = command->name] { args.verb = name; });
  verb->add_option("words", args.words)->expected(0, kAnyWords);
}

}  // namespace

Result<Args> parse_arguments(const std::vector<std::string>& typed) {
  Args args;
  Words words = typed, command_behind_dashes;
  const auto dashes = std::find(words.begin(), words.end(), "--");
  if (const Command* verb = chosen_verb({words.begin(), dashes}); verb != nullptr && verb->bit == kForCapture) {
    command_behind_dashes.assign(dashes == words.end() ? dashes : dashes + 1, words.end());
    words.erase(dashes, words.end());
  }
  Slots slots;
  Errors errors;
  CLI::App app("plan");
  Words reversed = join_values(words, errors);
  declare(app, chosen_verb(reversed), slots, args);
  args.short_help = std::find(words.begin(), words.end(), "-h") != words.end();
  std::reverse(reversed.begin(), reversed.end());
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::Error& error) {
    errors.push_back({"bad_arguments", error.what(), {}, {"see `plan --help`"}});
    return fail(std::move(errors));
  }
  const Words leftovers = app.remaining(true);
  const Words& layout = slots["--layout"];
  const FlagMeanings meanings(strangers(leftovers, slots, args), words, layout.empty() ? "" : layout.front());
  judge_leftovers(leftovers, words, args, meanings, errors);
  for (const Option& option : options())
    if (option.takes_value()) fill(option, slots[option.flag], args, errors);
  if (args.list && args.verb.empty()) {
    args.verb = "list";
    args.words = {*args.list};
    args.list.reset();
  }
  const Command* command = find_command(args.verb);
  if (command == nullptr) return fail({"unknown_command", fmt::format("unknown command `{}`", args.verb)});
  if (command->bit == kForCapture && !args.words.empty()) {
    errors.push_back(
        {"unexpected_word",
         fmt::format("the command that `plan capture` runs follows `--`: `{}` is in front of it", args.words.front()),
         {},
         {"write `plan capture -o job.json -- bash train.sh 8B 1 8`"}});
    return fail(std::move(errors));
  }
  for (std::size_t i = static_cast<std::size_t>(command->most_words); i < args.words.size(); ++i)
    if (!follows_stranger(args.words[i], leftovers, words)) add_unknown_word(args.words[i], words, args, errors);
  if (command->bit == kForCapture) args.words = command_behind_dashes;
  for (const Option& option : options()) {
    const bool given = option.on != nullptr ? args.*option.on : !slots[option.flag].empty();
    if (given && option.flag != "--list" && (option.verbs & command->bit) == 0)
      errors.push_back(wrong_verb(option, *command, meanings.of(option.flag)));
  }
  if (!errors.empty()) return fail(std::move(errors));
  return args;
}

}  // namespace plan
