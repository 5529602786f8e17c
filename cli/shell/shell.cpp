// Follows a bash script: which commands would run, with which words. Nothing is executed.
// Tested by tests/launch/shell_test.cpp.
#include "cli/shell/shell.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <memory>

#include "cli/shell/follower.hpp"
#include "cli/shell/launch_source.hpp"
#include "cli/shell/statements.hpp"

namespace plan::shell {
namespace {

constexpr std::size_t kMostNotes = 100;  // of one script

}  // namespace

void Follower::run(std::string_view text, int first_line) {
  follow(tokens(text, first_line));
  if (scope.budget == 0) stop(first_line);  // words may lack what could not be afforded
}

void Follower::note(int line, std::string text) {
  Note note{"script_not_followed", fmt::format("{}:{}: {}", file_, line, text)};
  if (script_.notes.size() >= kMostNotes) return;
  const bool known = std::any_of(script_.notes.begin(), script_.notes.end(),
                                 [&](const Note& other) { return other.text == note.text; });
  if (known) return;
  script_.notes.push_back(std::move(note));
  script_.noted_at.push_back(script_.commands.size());
}

bool Follower::affords(std::size_t work, int line) {
  if (scope.spend(work)) return true;
  stop(line);
  return false;
}

/// What is not followed may start another training, so there is a note whatever is before it.
void Follower::stop(int line) {
  if (stopped_) return;
  stopped_ = true;
  script_.notes.push_back({"script_not_followed", fmt::format("{}:{}: the script {}", file_, line, kTooMuch)});
  script_.noted_at.push_back(0);
}

}  // namespace plan::shell

namespace plan {

std::vector<Note> Script::notes_before(std::size_t command) const {
  std::vector<Note> out;
  for (std::size_t i = 0; i < notes.size(); ++i)
    if (noted_at[i] <= command) out.push_back(notes[i]);
  return out;
}

Script follow_script(std::string_view text, const std::string& file) {
  Script script;
  script.sbatch = shell::sbatch_directives(text);
  shell::Follower follower(file, script);
  shell::set_slurm_variables(script.sbatch, follower.scope);
  follower.run(text, 1);
  return script;
}

/// A script with all that it was followed from, but for the files that it opens.
struct FollowedScript {
  std::string path{}, text{};
  std::vector<std::string> arguments{};
  int nodes = 0, gpus_per_node = 0;
  Script script{};

  [[nodiscard]] bool is_of(const LaunchSource& source) const {
    return path == source.path && text == source.text && arguments == source.arguments && nodes == source.nodes &&
           gpus_per_node == source.gpus_per_node;
  }
};

namespace {

Script followed_again(const LaunchSource& source) {
  Script script;
  script.sbatch = shell::sbatch_directives(source.text);
  shell::Follower follower(source.path, script);
  follower.source = &source;
  shell::set_slurm_variables(script.sbatch, follower.scope);
  if (source.nodes > 0) shell::set_slurm_variables(source.nodes, source.gpus_per_node, follower.scope);
  if (!source.arguments.empty()) {
    follower.scope.knows_positional = true;
    follower.scope.positional.emplace_back();
    follower.scope.positional.back().add(source.path, 1);
    for (const std::string& word : source.arguments) {
      follower.scope.positional.emplace_back();
      follower.scope.positional.back().add(word, 1);
    }
  }
  follower.run(source.text, 1);
  return script;
}

}  // namespace

const Script& follow_script(const LaunchSource& source) {
  if (!source.followed || !source.followed->is_of(source))
    source.followed = std::make_shared<const FollowedScript>(FollowedScript{
        source.path, source.text, source.arguments, source.nodes, source.gpus_per_node, followed_again(source)});
  return source.followed->script;
}

}  // namespace plan
