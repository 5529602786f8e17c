// Shell scripts that start Megatron-LM. Tested by tests/launch/shell_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "cli/launch/megatron.hpp"
#include "cli/launch/shell.hpp"

namespace plan {
namespace {

/// The programs of Megatron-LM that train a decoder.
bool is_program(std::string_view word) {
  const std::size_t slash = word.rfind('/');
  if (slash != std::string_view::npos) word.remove_prefix(slash + 1);
  return word == "pretrain_gpt.py" || word == "pretrain_mamba.py" || word == "pretrain_hybrid.py" ||
         word == "finetune_gpt.py";
}

/// A TrainJob lists torchrun's words in YAML: one line each, `- "word"` or inside brackets.
std::vector<ShellWord> listed_words(const std::string& text) {
  std::vector<ShellWord> words;
  int line = 0;
  bool inside = false;
  for (std::size_t at = 0; at < text.size();) {
    ++line;
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view row = std::string_view(text).substr(at, end - at);
    at = end + 1;
    const std::size_t first = row.find_first_not_of(' ');
    if (first == std::string_view::npos) continue;
    row.remove_prefix(first);
    if (row.starts_with("args:")) {
      inside = true;
      row.remove_prefix(5);
    } else if (inside && !row.starts_with("- ")) {
      inside = false;
    }
    if (!inside) continue;
    std::string word;
    char quote = 0;
    bool started = false;
    const auto flush = [&] {
      if (started && word != "-") words.push_back({word, line});
      word.clear(), started = false;
    };
    for (std::size_t i = 0; i < row.size(); ++i) {
      const char c = row[i];
      if (quote != 0 && c == '\\' && quote == '"' && i + 1 < row.size())
        word.push_back(row[++i]);
      else if (quote != 0 && c == quote)
        quote = 0;
      else if (quote != 0)
        word.push_back(c);
      else if (c == '"' || c == '\'')
        quote = c, started = true;
      else if (c == ' ' || c == '[' || c == ']' || c == ',')
        flush();
      else
        word.push_back(c), started = true;
    }
    flush();
  }
  return words;
}

struct Launch {
  std::string file{};
  ShellCommand command{};
  std::size_t program = 0;  ///< index of the program among the words
};

std::vector<Launch> launches_in(const LaunchSource& source, std::vector<Note>& notes) {
  std::vector<Launch> out;
  if (source.text.find("kind: TrainJob") != std::string::npos) {
    ShellCommand command{listed_words(source.text), {}};
    for (std::size_t i = 0; i < command.words.size(); ++i)
      if (is_program(command.words[i].text)) return {{source.path, command, i}};
    return out;
  }
  const Script script = follow_script(source.text, source.path);
  for (const ShellCommand& command : script.commands)
    for (std::size_t i = 0; i < command.words.size(); ++i)
      if (is_program(command.words[i].text)) {
        out.push_back({source.path, command, i});
        break;
      }
  notes.insert(notes.end(), script.notes.begin(), script.notes.end());
  // `srun bash -c 'torchrun ... "$@"' pretrain_gpt.py ...` shows the same launch twice: the innermost counts.
  if (out.size() > 1) out.erase(out.begin(), out.end() - 1);
  return out;
}

/// Variables that the script sets or exports, with their lines where known.
void take_environment(const Launch& launch, const LaunchSource& source, MegatronArgs& args) {
  for (const auto& [name, value] : launch.command.environment) args.environment[name] = {{value}, source.path};
  if (source.text.find("kind: TrainJob") == std::string::npos) {
    for (const auto& [name, word] : follow_script(source.text, source.path).exported)
      args.environment[name] = {{word.text}, fmt::format("{}:{}", source.path, word.line)};
    return;
  }
  for (const char* name : {"CUDA_DEVICE_MAX_CONNECTIONS", "PYTORCH_CUDA_ALLOC_CONF"}) {
    const std::size_t at = source.text.find(fmt::format("name: {}", name));
    const std::size_t value = at == std::string::npos ? at : source.text.find("value:", at);
    if (value == std::string::npos) continue;
    std::string text = source.text.substr(value + 6, source.text.find('\n', value) - value - 6);
    std::erase_if(text, [](char c) { return c == '"' || c == ' ' || c == '\''; });
    args.environment[name] = {{text}, source.path};
  }
}

}  // namespace

bool is_megatron_script(const LaunchSource& source) {
  return source.text.find("pretrain_gpt.py") != std::string::npos ||
         source.text.find("pretrain_mamba.py") != std::string::npos ||
         source.text.find("pretrain_hybrid.py") != std::string::npos ||
         source.text.find("finetune_gpt.py") != std::string::npos;
}

Result<LaunchJob> read_megatron_scripts(std::span<const LaunchSource> files, const LaunchFacts& facts) {
  Errors errors;
  std::vector<Note> notes;
  for (const LaunchSource& source : files) {
    const std::vector<Launch> launches = launches_in(source, notes);
    if (launches.empty()) continue;
    const Launch& launch = launches.back();
    const std::span words = std::span(launch.command.words).subspan(launch.program + 1);
    const auto flags =
        std::count_if(words.begin(), words.end(), [](const ShellWord& w) { return w.text.starts_with("--"); });
    if (std::optional<Error> error = too_many("flags", static_cast<std::size_t>(flags), source.path))
      return fail(std::move(*error));
    MegatronArgs args = read_megatron_words(words, source.path, errors, notes);
    take_environment(launch, source, args);
    Result<LaunchJob> job = megatron_job(args, facts);
    if (!job) errors.insert(errors.end(), job.error().begin(), job.error().end());
    if (!errors.empty()) return fail(std::move(errors));
    job->notes.insert(job->notes.begin(), notes.begin(), notes.end());
    const std::string command = fmt::format("{}:{}", source.path, launch.command.words.front().line);
    for (const Input& input : job->inputs)
      if (input.origin == Origin::Default) job->homes[input.key] = command;
    return job;
  }
  return fail({"no_launch",
               fmt::format("{}: no command that starts Megatron-LM was found", files.front().path),
               {},
               {"plan follows `pretrain_gpt.py` in bash scripts"}});
}

}  // namespace plan
