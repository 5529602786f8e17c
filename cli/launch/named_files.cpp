// Configuration files that scripts name, and what their commands say beside them. Tested by
// tests/launch/overlays_test.cpp.
#include "cli/launch/named_files.hpp"
#include "cli/launch/job/weighty_names.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "cli/launch/overlays.hpp"
#include "cli/launch/scripts/script_words.hpp"
#include "cli/launch/trainer/hugging_face.hpp"
#include "cli/shell/shell.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

/// What a command of no known tool says beside the files that it names: its words may lie over theirs.
std::optional<std::string> unread_words(const ShellCommand& command, const std::vector<std::string>& names,
                                        const std::set<std::size_t>& taken) {
  constexpr std::string_view kNaming[] = {"--config", "--job.config", "--deepspeed_config", "--include"};
  constexpr std::size_t kMostShown = 24;
  std::string shown, files;
  std::size_t count = 0;
  const std::vector<ShellWord>& words = command.words;
  std::size_t first = 1;  // behind the program: the launcher's own options say nothing of the job
  for (std::size_t i = 0; i + 1 < words.size() && first == 1; ++i)
    if (words[i].text.ends_with(".py") || words[i].text == "-m") first = i + 1;
  for (std::size_t i = first; i < words.size(); ++i) {
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

/// Files that one command of a script names and that a reader knows, no more than `most`, and what its words lay over
/// them; which of its words are not read is a note of the script's. Whether it names one. `job`: the file of an earlier
/// command that states a job; another training is left out, which is a note as well.
bool add_files_of(const ShellCommand& command, LaunchSource& script, std::size_t most, Recognises* known,
                  std::vector<LaunchSource>& files, std::string& job) {
  std::vector<std::string> names;
  std::vector<LaunchSource> own;  // what shards a training that is left out is left out with it
  std::set<std::size_t> taken;
  const std::string before = job;
  for (const ShellWord& word : command.words) {
    const std::string name = word.text.substr(word.text.find('=') == std::string::npos ? 0 : word.text.find('=') + 1);
    const bool config =
        name.ends_with(".yaml") || name.ends_with(".yml") || name.ends_with(".toml") || name.ends_with(".json");
    if (!config || files.size() + own.size() >= most) continue;
    std::optional<LaunchSource> named = beside(script, name);
    const auto same = [&](const LaunchSource& file) { return named && file.path.ends_with(named->path); };
    if (!named || std::any_of(files.begin(), files.end(), same) || std::any_of(own.begin(), own.end(), same) ||
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
  return true;
}

}  // namespace

std::set<std::string> add_named_files(std::vector<LaunchSource>& files, Recognises* known) {
  std::set<std::string> naming;
  constexpr std::size_t kMostNamed = 8;
  const std::size_t given = files.size();
  for (std::size_t i = 0; i < given; ++i) {
    if (!is_shell(files[i]) || known(files[i])) continue;
    LaunchSource script = files[i];  // which the vector may move
    std::string job;
    for (const ShellCommand& command : follow_script(script).commands)
      if (!trains_nothing(command) && add_files_of(command, script, given + kMostNamed, known, files, job))
        naming.insert(script.path);
    files[i] = std::move(script);
  }
  return naming;
}

}  // namespace plan
