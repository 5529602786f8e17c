// What the words of a command line mean that no option takes: misspelt flags and commands, values with a space, files
// and models without their flag. Each gets one error with the smallest change. Tested by tests/cli/options_test.cpp.
#include "cli/request/flags/leftovers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "cli/request/table/command_table.hpp"
#include "cli/request/table/option_table.hpp"
#include "cli/request/words/layout_flag.hpp"
#include "cli/request/words/layout_items.hpp"
#include "cli/request/words/layout_spacing.hpp"
#include "cli/request/words/pool_words.hpp"
#include "cli/terminal/words.hpp"
#include "presets/quantity.hpp"
#include "presets/shell_quoted.hpp"
#include "presets/store.hpp"
#include "presets/suggest.hpp"

namespace plan {
namespace {

using Words = std::vector<std::string>;

Error unknown_flag(const std::string& word, Words meant) {
  Words known;
  for (const Option& option : options()) known.emplace_back(option.flag.substr(2));  // dashes are common to all names
  const std::string flag = flag_name(word);
  const std::string name = flag.substr(std::min(flag.find_first_not_of('-'), flag.size()));
  const Command* command = meant.empty() && !name.empty() ? find_command(name) : nullptr;
  if (command != nullptr) meant.push_back(fmt::format("`{0}` is a command, no flag: see `plan {0} --help`", name));
  const std::string near = meant.empty() ? nearest_name(name, known) : "";
  Error error{"unknown_flag", fmt::format("unknown flag `{}`", flag), {}, std::move(meant)};
  if (!near.empty()) error.help.push_back(fmt::format("a flag with a similar name exists: `--{}`", near));
  error.help.push_back("list all with `plan --help`");
  return error;
}

/// What the user meant by a file in the command line without a flag: a model's configuration, a log, or a job.
/// Empty where no such file exists or the command reads none.
Words meaning_of_file(const std::string& word, const Command& command) {
  std::error_code unreadable;
  const std::filesystem::path path = word;
  const bool model = path.filename() == "config.json" || std::filesystem::exists(path / "config.json", unreadable);
  if (!model && !std::filesystem::is_regular_file(path, unreadable)) return {};
  const auto takes = [&](std::string_view flag) { return (find_option(flag)->verbs & command.bit) != 0; };
  constexpr std::string_view kLogs[] = {".log", ".txt", ".out", ".err"};
  const bool log =
      !model && takes("--log") &&
      std::any_of(std::begin(kLogs), std::end(kLogs), [&](std::string_view end) { return word.ends_with(end); });
  const Option* option = find_option(model ? "--model" : log ? "--log" : "--from");
  if ((option->verbs & command.bit) == 0) return {};
  return {fmt::format("write `{} {}`", option->flag, shell_quoted(word))};
}

/// What people call a command, or what none is needed for, and what to write.
struct CommandWord {
  std::string_view words, help;
};
constexpr CommandWord kCommandWords[] = {
    {"help man", "write `plan --help`, `plan emit --help`, or `man plan`"},
    {"completion completions", "write `plan --completion bash`, `zsh` or `fish`"},
    {"version", "write `plan --version`"},
    {"plan search run find optimize optimise recommend best tune auto",
     "leave `{}` out: what is planned needs no command"},
    {"html json csv markdown md", "a format of the answer: `plan --format html`"},
    {"log logs profile trace debug", "logs and traces of a run are read by `plan diagnose --log FILE`"},
    {"ls", "write `plan list models`"},
    {"info describe cat get print", "write `plan show model 8b`"},
    {"memory mem vram mfu bubble flops time throughput", "a number is explained by `plan explain memory`"},
    {"cost price", "what a run costs is printed with `--tokens 15T --price 2.5`"},
    {"export generate gen launch write config", "launch files are written by `plan emit megatron-lm -o FOLDER`"},
    {"predict simulate sim evaluate eval fit fits", "one layout is judged by `plan estimate --layout tp8,pp16`"},
    {"bench benchmark measure", "a node is measured by `plan probe -o node.yaml`"},
    {"diff", "two plans are compared by `plan compare tp8 tp4,pp2`"},
    {"scale scaling", "a table over numbers of GPUs is `plan sweep --gpus 256..65536`"},
};

/// What such a word means; empty if it is none.
std::string meaning_of_command(std::string_view word) {
  for (const CommandWord& row : kCommandWords)
    if (among_words(row.words, word)) return fmt::format(fmt::runtime(row.help), word);
  return {};
}

/// A word that is named like a file, and is none that exists.
bool looks_like_file(std::string_view word) {
  constexpr std::string_view kEndings[] = {".log", ".txt", ".sh",   ".sbatch", ".py",   ".json",
                                           ".csv", ".yml", ".yaml", ".toml",   ".slurm"};
  return std::any_of(std::begin(kEndings), std::end(kEndings),
                     [&](std::string_view ending) { return word.size() > ending.size() && word.ends_with(ending); });
}

/// Whether a command may take a flag that is not yet given.
using Takes = std::function<bool(std::string_view)>;

/// GPUs, a GPU or a cluster without their flag, by the names that are known: `16xh100`, `h100`. Empty for other words.
Words meaning_of_hardware(const std::string& word, const Takes& takes) {
  const StoreOptions store = StoreOptions::from_environment();
  if (takes("--gpus") && names_pools(word) && read_pools(word, store)) return {fmt::format("write `--gpus {}`", word)};
  if (!takes("--gpu") || !takes("--cluster")) return {};  // a cluster has its GPU
  const std::string name = shell_quoted(word);
  if (load_gpu(word, store)) return {fmt::format("a GPU is named with a flag: `--gpu {}`", name)};
  if (load_cluster(word, store)) return {fmt::format("a cluster is named with a flag: `--cluster {}`", name)};
  return {};
}

/// Is it a name that the flag takes?
bool names_preset(std::string_view flag, const std::string& name) {
  const StoreOptions store = StoreOptions::from_environment();
  return (flag == "--model" && load_model(name, store)) || (flag == "--gpu" && load_gpu(name, store)) ||
         (flag == "--cluster" && load_cluster(name, store));
}

/// `--model llama 3 8b`: the value of a flag with the words behind it up to this one or beyond, where they are a name
/// that is known.
Words name_with_blanks(const std::string& word, const Words& words) {
  const auto at = std::find(words.begin(), words.end(), word);
  auto first = at;
  while (first != words.begin() && !is_flag(*(first - 1))) --first;
  if (first == words.begin() || first == at) return {};
  const std::string& flag = *(first - 1);
  for (auto end = std::find_if(at, words.end(), is_flag); end > at; --end)
    if (const std::string name = fmt::format("{}", fmt::join(first, end, " ")); names_preset(flag, name))
      return {fmt::format("write `{} {}`: a value with a space needs quotes", flag, shell_quoted(name))};
  return {};
}

/// `compare tp8 pp2 tp4 pp2`: two layouts with blanks between their axes. Empty where the words are no two layouts.
Words compared_with_blanks(const Words& words) {
  Words layouts, seen;
  for (std::size_t i = 1; i < words.size() && !is_flag(words[i]); ++i) {
    const std::string axis(axis_of_item(words[i]).key);
    if (axis.empty() || layouts.size() > 2) return {};
    if (layouts.empty() || std::find(seen.begin(), seen.end(), axis) != seen.end())
      layouts.push_back(words[i]), seen.clear();
    else
      layouts.back() += "," + words[i];
    seen.push_back(axis);
  }
  if (layouts.size() != 2 || !read_layout(layouts[0]) || !read_layout(layouts[1])) return {};
  return {fmt::format("write `plan compare {} {}`: the axes of a layout stand between commas", layouts[0], layouts[1])};
}

/// What a third word of `plan compare` means that is no flag's value; empty where it may lack its flag.
Words meaning_of_third(const std::string& word, const Words& words) {
  if (Words layouts = compared_with_blanks(words); !layouts.empty()) return layouts;
  if (word == "best" || read_layout(word) || looks_like_file(word))
    return {fmt::format("two plans are compared at a time: leave `{}` out", word)};
  return {};
}

/// What the user meant by a word without a flag, by the words before it: the second half of a value with a space, a
/// number of GPUs, a model. Empty where nothing says.
Words meaning_of_word(const std::string& word, const Words& words, const Command& command) {
  const auto given = [&](std::string_view flag) {
    return std::any_of(words.begin(), words.end(),
                       [&](const std::string& w) { return is_flag(w) && flag_name(w) == flag; });
  };
  const auto takes = [&](std::string_view flag) {
    return (find_option(std::string(flag))->verbs & command.bit) != 0 && !given(flag);
  };
  if (const std::size_t equals = word.find('='); equals != std::string::npos && equals + 1 < word.size())
    if (const std::string flag = "--" + word.substr(0, equals); find_option(flag) != nullptr && takes(flag))
      return {fmt::format("write `{} {}`", flag, shell_quoted(word.substr(equals + 1)))};
  const std::size_t digits = word.find_first_not_of("0123456789");
  const bool number = digits != 0 && (digits == std::string::npos || word.substr(digits) == "k");
  if (Words name = name_with_blanks(word, words); !name.empty()) return name;
  if (command.name == "compare")
    if (Words third = meaning_of_third(word, words); !third.empty()) return third;
  if (command.name == "list" && words.size() >= 2 && words[0] == "list" && word.find('/') == std::string::npos)
    return {fmt::format("one list at a time: `plan list {} | grep -iF {}` looks for a word in it",
                        shell_quoted(words[1]), shell_quoted(word))};
  if (number && takes("--gpus")) return {fmt::format("write `--gpus {}`", word)};
  if (takes("--layout"))
    for (const std::string& axes : {word, between_commas(word)})
      if (read_layout(axes)) return {fmt::format("write `--layout {}`", axes)};
  if (Words hardware = meaning_of_hardware(word, takes); !hardware.empty()) return hardware;
  const auto at = std::find(words.begin(), words.end(), word);
  if (at != words.end() && at - words.begin() >= 2 && !is_flag(*(at - 1))) {
    const Option* option = find_option(*(at - 2));
    if (option != nullptr && option->takes_value())
      return {fmt::format("write `{} {}`: a value with a space needs quotes", option->flag,
                          shell_quoted(*(at - 1) + " " + word))};
  }
  if (looks_like_file(word)) {
    if (takes("--log")) return {fmt::format("what a run printed is read by `--log {}`", shell_quoted(word))};
    return takes("--from")
               ? Words{fmt::format("no such file is here; launch files are read by `--from {}`", shell_quoted(word))}
               : Words{};
  }
  const bool path = word.find_first_of("/.") == 0;
  if (!number && !path && takes("--model"))
    return {fmt::format("a model is named with a flag: `--model {}`", shell_quoted(word))};
  return {};
}

/// `--gpus 2 048`: digits that belong to the number before them. What to write; empty if the word is no such thing.
std::string number_before(const std::string& word, const Words& words) {
  const auto at = std::find(words.begin(), words.end(), word);
  if (at == words.begin() || at == words.end() || word.size() < 3) return {};
  const auto plain = without_separators(*(at - 1) + ' ' + word);
  return plain && plain->find(' ') == std::string::npos ? *plain : std::string();
}

Error unknown_word(const std::string& word, const Words& words, const Args& args) {
  const Command* command = find_command(args.verb);
  Words meant = command == nullptr ? Words{} : meaning_of_file(word, *command);
  if (meant.empty() && command != nullptr) meant = meaning_of_word(word, words, *command);
  if (!args.verb.empty() && (word == "help" || word == "man"))
    meant = {fmt::format("write `plan {} --help`", args.verb)};
  if (args.verb == "formula" && word.find('=') != std::string::npos) meant = {fmt::format("write `--set {}`", word)};
  if (word == "plan") meant = {"leave `plan` out: it is the program's name"};
  if (!args.verb.empty()) {
    if (meant.empty()) meant.push_back(fmt::format("see `plan {} --help`", args.verb));
    return {"unexpected_word", fmt::format("unexpected word `{}` after `plan {}`", word, args.verb), {}, meant};
  }
  Words verbs;
  for (const Command& command : kCommands) verbs.emplace_back(command.name);
  Error error{"unknown_command", fmt::format("unknown command `{}`", word), {}, {}};
  const std::string near = nearest_name(word, verbs);
  if (std::string said = meaning_of_command(word); !said.empty())
    error.help.push_back(std::move(said));
  else if (!near.empty())
    error.help.push_back(fmt::format("a command with a similar name exists: `{}`", near));
  else if (!meant.empty())
    error.help.push_back(std::move(meant.front()));
  error.help.push_back("list all with `plan --help`");
  return error;
}

}  // namespace

void add_unknown_word(const std::string& word, const Words& words, const Args& args, Errors& errors) {
  Error error = unknown_word(word, words, args);
  const auto same = [&](const Error& other) {
    return !other.help.empty() && other.help.front() == error.help.front() && error.help.front().starts_with("write `");
  };
  if (std::none_of(errors.begin(), errors.end(), same)) errors.push_back(std::move(error));
}

bool follows_stranger(const std::string& word, const Words& leftovers, const Words& words) {
  // The same word may be the value of a known flag, too: `--gpus 8 --ep 8`.
  const auto stranger = [&](std::size_t at) {
    return is_flag(words[at]) && std::find(leftovers.begin(), leftovers.end(), words[at]) != leftovers.end();
  };
  for (std::size_t at = 1; at < words.size(); ++at)
    if (words[at] == word && (stranger(at - 1) || (at >= 2 && is_unit_of_batch(word) && stranger(at - 2)))) return true;
  return false;
}

void judge_leftovers(const Words& leftovers, const Words& words, const Args& args, const FlagMeanings& meanings,
                     Errors& errors) {
  bool behind_command = false;
  for (const std::string& word : leftovers) {
    if (is_flag(word))
      errors.push_back(unknown_flag(word, meanings.of(word)));
    else if (const std::string number = number_before(word, words); !number.empty())
      errors.push_back({"bad_number",
                        fmt::format("`{}` follows another number after a blank", word),
                        {},
                        {fmt::format("write numbers without spaces: `{}`", number)}});
    else if (!behind_command && !follows_stranger(word, leftovers, words))
      add_unknown_word(word, words, args, errors);
    // What is behind a command by another name is that command's own.
    behind_command = behind_command || (args.verb.empty() && !meaning_of_command(word).empty());
  }
}

}  // namespace plan
