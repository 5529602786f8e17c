// Configuration files that scripts name, and what their commands say beside them. Tested by
// tests/launch/overlays_test.cpp.
#include "cli/launch/named_files.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>

#include "cli/launch/job/unread.hpp"
#include "cli/launch/job/weighty_names.hpp"
#include "cli/launch/overlays.hpp"
#include "cli/launch/scripts/launcher_commands.hpp"
#include "cli/launch/scripts/script_words.hpp"
#include "cli/launch/trainer/hugging_face.hpp"
#include "cli/shell/shell.hpp"
#include "formulas/text.hpp"
#include "formulas/words.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

/// Where the own words of a command's program begin: the launcher's options in front say nothing of the job.
std::size_t own_words(const std::vector<ShellWord>& words) {
  for (std::size_t i = 0; i + 1 < words.size(); ++i)
    if (words[i].text.ends_with(".py") || words[i].text == "-m") return i + 1;
  return 1;
}

/// Degrees that a command states beside the files that it names, where no reader takes them: `--pipe_parallel_size 4`.
void refuse_degrees(const ShellCommand& command, const std::string& script, const std::set<std::size_t>& taken,
                    Errors& errors) {
  for (std::size_t i = own_words(command.words); i < command.words.size(); ++i) {
    const std::string& word = command.words[i].text;
    if (taken.count(i) > 0 || (!word.starts_with("--") && word.find('=') == std::string::npos)) continue;
    const auto& [flag, value, line] = flag_at(command, i);
    const std::string_view key = std::string_view(flag).substr(std::min(flag.find_first_not_of("-+"), flag.size()));
    if (states_degree(key, value)) errors.push_back(degree_not_read(fmt::format("{}:{}", script, line), key, value));
  }
}

/// What a command of no known tool says beside the files that it names: its words may lie over theirs.
std::optional<std::string> unread_words(const ShellCommand& command, const std::vector<std::string>& names,
                                        const std::set<std::size_t>& taken) {
  constexpr std::string_view kNaming[] = {"--config", "--job.config", "--deepspeed_config", "--include"};
  constexpr std::size_t kMostShown = 24;
  std::string shown, files;
  std::size_t count = 0;
  const std::vector<ShellWord>& words = command.words;
  for (std::size_t i = own_words(words); i < words.size(); ++i) {
    const ShellWord& word = words[i];
    const bool flag = word.text.starts_with("--"), sets = word.text.find('=') != std::string::npos;
    const bool naming = std::any_of(std::begin(kNaming), std::end(kNaming),
                                    [&](std::string_view start) { return word.text.starts_with(start); });
    if (taken.count(i) > 0) continue;
    const bool harmless = flag && sounds_harmless(word.text.substr(2, word.text.find('=') - 2));
    const bool named = std::find(names.begin(), names.end(), word.text) != names.end();
    if ((!flag && !sets) || naming || harmless || named || ++count > kMostShown) continue;
    shown += fmt::format("{}`{}`", shown.empty() ? "" : ", ", yaml::printable(word.text));
  }
  if (count == 0) return std::nullopt;
  for (const std::string& name : names)
    files += fmt::format("{}`{}`", files.empty() ? "" : " and ", yaml::printable(name));
  return fmt::format("line {}: the file{} {} {} read, and the other words of the command are not: {}{}",
                     command.words.front().line, names.size() > 1 ? "s" : "", files, names.size() > 1 ? "are" : "is",
                     shown, count > kMostShown ? ", ..." : "");
}

/// Does a file state a job by itself, and not only how one is sharded?
bool states_a_job(const LaunchSource& file) {
  const hugging_face::Kind kind = hugging_face::kind_of(file);
  return kind != hugging_face::Kind::Accelerate && kind != hugging_face::Kind::DeepSpeed;
}

/// The file that a word of a command names, if it is a configuration; else empty.
std::string config_in(std::string_view word) {
  const std::size_t equals = word.find('=');
  const std::string_view name = word.substr(equals == std::string_view::npos ? 0 : equals + 1);
  const bool config =
      name.ends_with(".yaml") || name.ends_with(".yml") || name.ends_with(".toml") || name.ends_with(".json");
  return config ? std::string(name) : std::string();
}

/// The words of one command over a file that another does not lay over it; empty: they lay the same.
std::string words_beside(const std::vector<Overlay>& own, const std::vector<Overlay>& other) {
  std::string out;
  for (const Overlay& one : own)
    if (std::none_of(other.begin(), other.end(),
                     [&](const Overlay& over) { return over.key == one.key && over.value == one.value; }))
      out += fmt::format("{}`{}={}`", out.empty() ? "" : ", ", yaml::printable(one.key), yaml::printable(one.value));
  return out;
}

/// A command over the file that an earlier one is counted with: other words than its are left out, which is a note.
void tell_other_words(const ShellCommand& command, const LaunchSource& counted, LaunchSource named,
                      LaunchSource& script) {
  const std::string start = fmt::format("line {}: another command over", command.words.front().line);
  for (const std::string& note : script.notes)
    if (note.starts_with(start)) return;  // of an earlier turn of the loop
  (void)lay_over(command, script.path, named);
  const std::string own = words_beside(named.overlays, counted.overlays),
                    other = words_beside(counted.overlays, named.overlays);
  if (own.empty() && other.empty()) return;
  script.notes.push_back(fmt::format("{} `{}`, {}, is left out: counted is that {}", start, yaml::printable(named.path),
                                     own.empty() ? "without " + other : "with " + own,
                                     other.empty() ? "without " + own : "with " + other));
}

/// Files that one command of a script names and that a reader knows, no more than a few, and what its words lay over
/// them; which of its words are not read is a note of the script's. Whether it names one. `job`: the file of an earlier
/// command that states a job; another training is left out, which is a note as well. The first `given` files are not
/// named by commands.
bool add_files_of(const ShellCommand& command, LaunchSource& script, std::size_t given, Recognises* known,
                  std::vector<LaunchSource>& files, std::string& job, Errors& errors) {
  constexpr std::size_t kMostNamed = 8;
  std::vector<std::string> names;
  std::vector<LaunchSource> own;  // what shards a training that is left out is left out with it
  std::set<std::size_t> taken;
  const std::string before = job;
  for (const ShellWord& word : command.words) {
    const std::string name = config_in(word.text);
    if (name.empty()) continue;
    std::optional<LaunchSource> named = beside(script, name);
    const auto same = [&](const LaunchSource& file) { return named && file.path.ends_with(named->path); };
    const auto before_it = std::find_if(files.begin(), files.end(), same);
    if (before_it != files.end()) {
      const bool counted = static_cast<std::size_t>(before_it - files.begin()) >= given;
      if (counted && states_a_job(*named)) tell_other_words(command, *before_it, *std::move(named), script);
      continue;
    }
    if (!named || files.size() + own.size() >= given + kMostNamed || std::any_of(own.begin(), own.end(), same) ||
        !known(*named))
      continue;
    if (states_a_job(*named)) {
      if (!before.empty()) {
        script.notes.push_back(fmt::format("line {}: another training, of `{}`, is left out: counted is that of `{}`",
                                           word.line, yaml::printable(name), yaml::printable(before)));
        return false;
      }
      job = name;
    }
    taken.merge(lay_over(command, script.path, *named));
    own.push_back(std::move(*named));
    names.push_back(word.text);
  }
  if (names.empty()) return false;
  std::move(own.begin(), own.end(), std::back_inserter(files));
  if (std::optional<std::string> text = unread_words(command, names, taken)) script.notes.push_back(std::move(*text));
  refuse_degrees(command, script.path, taken, errors);
  return true;
}

/// Whether a command starts the ranks of a training, or a program that trains by its name; others may prepare one.
bool starts_training(const ShellCommand& command) {
  constexpr std::string_view kPrograms[] = {"srun",  "mpirun", "mpiexec",  "jsrun",           "aprun",
                                            "swift", "tune",   "composer", "llamafactory-cli"};
  const std::size_t behind = behind_program(command.words).value_or(command.words.size());
  for (std::size_t i = 0; i < behind; ++i) {
    const std::string_view program = base_name(command.words[i].text);
    if (starts_ranks(program) || std::find(std::begin(kPrograms), std::end(kPrograms), program) != std::end(kPrograms))
      return true;
  }
  const std::string program = lowered(command.words[behind - 1].text);
  return program.find("train") != std::string::npos || program.find("tun") != std::string::npos;
}

/// The commands of a script that may train, in order; but the first that starts a training over a file comes before
/// those that only name the same file: `python prepare.py --config run.yaml` states no job.
std::vector<const ShellCommand*> in_order(const std::vector<ShellCommand>& commands) {
  std::map<std::string, const ShellCommand*> trainings;
  for (const ShellCommand& command : commands)
    if (!trains_nothing(command) && starts_training(command))
      for (const ShellWord& word : command.words)
        if (const std::string name = config_in(word.text); !name.empty()) trainings.try_emplace(name, &command);
  std::vector<const ShellCommand*> out;
  std::set<const ShellCommand*> taken;
  const auto take = [&](const ShellCommand& command) {
    if (taken.insert(&command).second) out.push_back(&command);
  };
  for (const ShellCommand& command : commands) {
    if (trains_nothing(command)) continue;
    if (!starts_training(command))
      for (const ShellWord& word : command.words)
        if (const auto found = trainings.find(config_in(word.text)); found != trainings.end()) take(*found->second);
    take(command);
  }
  return out;
}

}  // namespace

Result<std::set<std::string>> add_named_files(std::vector<LaunchSource>& files, Recognises* known) {
  std::set<std::string> naming;
  Errors errors;
  const std::size_t given = files.size();
  for (std::size_t i = 0; i < given; ++i) {
    if (!is_shell(files[i]) || known(files[i])) continue;
    LaunchSource script = files[i];  // which the vector may move
    std::string job;
    for (const ShellCommand* command : in_order(follow_script(script).commands))
      if (add_files_of(*command, script, given, known, files, job, errors)) naming.insert(script.path);
    files[i] = std::move(script);
  }
  if (!errors.empty()) return fail(std::move(errors));
  return naming;
}

}  // namespace plan
