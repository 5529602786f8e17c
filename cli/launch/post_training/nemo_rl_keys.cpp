// NeMo-RL's YAML with what it inherits: `defaults:` names the files that it lies over, and the overrides of a command
// that starts one of its programs lie over both.
// Tested by tests/launch/reading_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "cli/launch/post_training/nemo_rl.hpp"
#include "cli/shell/shell.hpp"

namespace plan {
namespace {

constexpr int kDeepest = 8;

// Files inherit as deep as kDeepest.
// NOLINTNEXTLINE(misc-no-recursion)
Result<StatedKeys> inherited(const LaunchSource& source, int depth) {
  Result<StatedKeys> keys = keys_of_yaml(source);
  if (!keys) return keys;
  const auto defaults = keys->find("defaults");
  if (defaults == keys->end()) return keys;
  const StatedValue named = defaults->second;
  keys->erase(defaults);
  for (auto name = named.values.rbegin(); name != named.values.rend(); ++name) {  // later files lie over earlier ones
    const std::optional<LaunchSource> file = depth < kDeepest ? beside(source, *name) : std::nullopt;
    if (!file) {
      (*keys)[std::string(kMissingBase)] = {{*name}, named.where};
      continue;
    }
    Result<StatedKeys> below = inherited(*file, depth + 1);
    if (!below) return below;
    keys->insert(below->begin(), below->end());
  }
  return keys;
}

/// What `examples/run_NAME.py` reads where its command names no file, NeMo-RL 0.7.
struct Program {
  std::string_view name;
  std::string_view config;
};
constexpr std::string_view kProgramsBegin = "examples/run_";
constexpr Program kPrograms[] = {{"run_grpo.py", "grpo_math_1B.yaml"},
                                 {"run_sft.py", "sft.yaml"},
                                 {"run_dpo.py", "dpo.yaml"},
                                 {"run_rm.py", "rm.yaml"},
                                 {"run_distillation.py", "distillation_math.yaml"},
                                 {"run_vlm_grpo.py", "vlm_grpo_3B.yaml"}};

/// The file of a program that a word names, `examples.run_sft` being a module; empty: it names none.
std::string program_in(const std::string& word) {
  std::string path = word;
  if (path.find(kProgramsBegin) == std::string::npos && path.starts_with("examples.run_")) {
    std::replace(path.begin(), path.end(), '.', '/');
    path += ".py";
  }
  return path.find(kProgramsBegin) == std::string::npos ? "" : path;
}

bool open_substitution(const std::string& text) {
  return std::count(text.begin(), text.end(), '(') > std::count(text.begin(), text.end(), ')');
}

/// The file that the command reads: behind `--config`, or its program's own.
std::string config_of(const ShellCommand& command) {
  std::string config;
  for (std::size_t i = 0; i < command.words.size(); ++i) {
    const std::string& word = command.words[i].text;
    const std::string path = program_in(word);
    for (const Program& program : kPrograms)
      if (path.ends_with(program.name) && config.empty())
        config = fmt::format("{}configs/{}", path.substr(0, path.size() - program.name.size()), program.config);
    if (word == "--config" && i + 1 < command.words.size()) {
      config = command.words[i + 1].text;
      // `$(realpath $DIR/../..)/x.yaml`: what the shell alone knows, and its blanks, come before the name.
      for (std::size_t j = i + 2; j < command.words.size() && open_substitution(config); ++j)
        config += " " + command.words[j].text;
    }
    if (word.starts_with("--config=")) config = word.substr(std::string_view("--config=").size());
  }
  return config;
}

/// A script's command: its overrides over the file that it names.
Result<StatedKeys> started(const LaunchSource& source) {
  Result<StatedKeys> keys = keys_of_overrides(source, kProgramsBegin);
  if (!keys) return keys;
  std::string config;
  int line = 1;
  for (const ShellCommand& command : follow_script(source).commands)
    for (const ShellWord& word : command.words)
      if (!program_in(word.text).empty()) config = config_of(command), line = word.line;
  const std::optional<LaunchSource> file = config.empty() ? std::nullopt : beside(source, config);
  if (!file) {
    (*keys)[std::string(kMissingBase)] = {{config}, fmt::format("{}:{}", source.path, line)};
    return keys;
  }
  Result<StatedKeys> below = inherited(*file, 0);
  if (!below) return below;
  keys->insert(below->begin(), below->end());
  return keys;
}

}  // namespace

Result<StatedKeys> keys_of_nemo_rl(const LaunchSource& source) {
  Result<StatedKeys> keys = is_shell(source) ? started(source) : inherited(source, 0);
  if (keys) interpolate(*keys);
  return keys;
}

}  // namespace plan
