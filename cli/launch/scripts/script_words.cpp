// What scripts keep from their readers, whichever framework they start. Tested by tests/launch/left_out_test.cpp.
#include "cli/launch/scripts/script_words.hpp"
#include "cli/launch/job/keys.hpp"
#include "cli/launch/job/weighty_names.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>

#include "cli/terminal/words.hpp"
#include "formulas/text.hpp"
#include "formulas/words.hpp"
#include "presets/suggest.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

constexpr auto kStarters = word_list([] {
  return "torchrun deepspeed accelerate python python3 srun mpirun llamafactory-cli axolotl swift megatron "
         "tune ray torch.distributed.launch uv mpiexec jsrun oumi sbatch litgpt automodel composer trl xtuner nemo "
         "colossalai dlrover-run torchx";
});

bool starts_program(const ShellCommand& command) {
  return std::any_of(command.words.begin(), command.words.end(), [](const ShellWord& word) {
    const std::string_view base = base_name(word.text);
    return std::find(std::begin(kStarters), std::end(kStarters), base) != std::end(kStarters);
  });
}

/// The name in `$NAME`, `${NAME}` and `${NAME[@]}`, as a flag would have it; empty where there is more to the word.
std::string name_in(std::string_view word) {
  std::string out;
  for (const char c : trim(word, "${")) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_') break;
    out += c == '_' ? '-' : lower_case(c);
  }
  return out;
}

/// Whether word `at`, which the file does not hold, may be words of the program's own, and not the value of a flag.
bool stands_for_words(const std::vector<ShellWord>& words, std::size_t at) {
  const std::string_view word = words[at].text;
  const bool open = word.size() > 1 && (word.front() == '$' || word.front() == '`');
  if (!open || word.find(' ') != std::string_view::npos || word.find('/') != std::string_view::npos) return false;
  if (word.find("[@]") != std::string_view::npos || word.find("[*]") != std::string_view::npos || word == "$@" ||
      word == "$*" || word == "${@}")
    return true;
  const std::string name = name_in(word);
  if (name.empty() || sounds_harmless(name)) return false;
  const std::string_view before = words[at - 1].text;
  if (!before.starts_with('-') || before.find('=') != std::string_view::npos) return true;
  constexpr std::string_view kMany[] = {"arg", "opt", "extra", "overrid", "flag", "param", "config"};
  return std::any_of(std::begin(kMany), std::end(kMany),
                     [&](std::string_view part) { return name.find(part) != std::string::npos; });
}

bool says(const std::vector<Note>& notes, const std::string& text) {
  return std::any_of(notes.begin(), notes.end(), [&](const Note& note) { return note.text == text; });
}

/// A line, counted from 1, without the blanks in front.
std::string_view at_line(const std::vector<std::string_view>& lines, int line) {
  if (line < 1 || static_cast<std::size_t>(line) > lines.size()) return {};
  const std::string_view text = lines[static_cast<std::size_t>(line) - 1];
  return text.substr(std::min(text.find_first_not_of(" \t"), text.size()));
}

/// `--flag`, `trainer.nnodes=2`: a word that no program is called by.
bool goes_on(std::string_view word) {
  if (word.starts_with("--")) return word.size() > 2 && std::isalpha(static_cast<unsigned char>(word[2])) != 0;
  const std::size_t equals = word.find('='), dot = word.find('.');
  return dot < equals && equals != std::string_view::npos && word.find('/') > equals;
}

/// Why the line does not belong to the command above, and what makes it do so.
std::pair<std::string, std::string> why_broken(const std::vector<std::string_view>& lines, int line) {
  const std::string_view above = at_line(lines, line - 1);
  const std::size_t last = above.find_last_not_of(" \t\r");
  if (last == std::string_view::npos)
    return {fmt::format("line {} above it is empty, which ends the command", line - 1),
            fmt::format("take line {} out", line - 1)};
  if (above.starts_with('#'))
    return {fmt::format("the comment in line {} ends the command above", line - 1),
            fmt::format("take the comments out of the command, line {} first", line - 1)};
  if (above[last] == '\\')
    return {fmt::format("a blank behind the `\\` of line {} ends the command there", line - 1),
            fmt::format("end line {} with the `\\`", line - 1)};
  return {fmt::format("line {} above it does not end in `\\`", line - 1),
          fmt::format("end line {} with ` \\`", line - 1)};
}

/// `--max-seq-length`: a flag by its whole name, for `--dataset_config` and `--model_tag` say nothing of the job.
bool weighs(std::string_view flag) {
  constexpr auto kWeighty = word_list([] {
    return "model model-name model-path model-id model-type model-name-or-path model-id-or-path base-model pretrain "
           "pretrained-model-name-or-path config-name ref-model reward-model teacher-model batch-size train-batch-size "
           "micro-batch-size global-batch-size micro-train-batch-size per-device-train-batch-size "
           "per-device-batch-size per-gpu-train-batch-size gradient-accumulation-steps gradient-accumulation "
           "accumulation-steps max-len max-length max-seq-len max-seq-length seq-len seq-length sequence-length "
           "sequence-len model-max-length cutoff-len block-size context-length max-prompt-length "
           "max-completion-length max-source-length max-target-length prompt-max-len generate-max-len lora-r "
           "lora-rank rank use-lora lora lora-enable use-peft lora-target lora-target-modules finetuning-type "
           "tuner-type train-type method stage zero zero-stage deepspeed deepspeed-config config config-file "
           "fsdp fsdp-config nnodes num-nodes num-machines nproc nproc-per-node num-processes num-gpus gpus "
           "tensor-parallel-size sequence-parallel-size context-parallel-size pipeline-parallel-size "
           "tensor-model-parallel-size pipeline-model-parallel-size expert-model-parallel-size";
  });
  const std::string name = with_dashes(std::string(trim(flag, "-")));
  return std::find(kWeighty.begin(), kWeighty.end(), name) != kWeighty.end();
}

}  // namespace

std::optional<std::size_t> behind_program(const std::vector<ShellWord>& words) {
  for (std::size_t i = 0; i < words.size(); ++i)
    if (words[i].text.ends_with(".py") && words[i].text.find('=') == std::string::npos) return i + 1;
  for (std::size_t i = 0; i + 1 < words.size(); ++i)
    if (words[i].text == "-m" && !words[i + 1].text.starts_with("torch.distributed")) return i + 2;
  return std::nullopt;
}

const ShellCommand* training_command(const Script& script) {
  const auto last = std::find_if(script.commands.rbegin(), script.commands.rend(), starts_program);
  return last == script.commands.rend() ? nullptr : &*last;
}

bool trains_nothing(const ShellCommand& command) {
  constexpr std::string_view kTrains[] = {"train", "tune", "sft", "ppo", "grpo", "dpo"};
  constexpr std::string_view kOther[] = {"generat", "decode",  "infer",   "eval",    "convert",  "ckpt",
                                         "checker", "server",  "serve",   "export",  "merge",    "download",
                                         "to_hf",   "preproc", "tokeniz", "annotat", "quantize", "chatbot"};
  const auto given = [&](std::string_view flag) {
    return std::any_of(command.words.begin(), command.words.end(),
                       [&](const ShellWord& word) { return word.text == flag; });
  };
  if (given("--do_predict") && !given("--do_train")) return true;
  const std::size_t behind = behind_program(command.words).value_or(1);
  std::string_view program = command.words[behind - 1].text;
  if (program.ends_with(".py")) program.remove_suffix(3);
  program.remove_prefix(program.find_last_of("/.") == std::string_view::npos ? 0 : program.find_last_of("/.") + 1);
  const auto holds = [&](std::string_view part) { return program.find(part) != std::string_view::npos; };
  return behind > 1 && !std::any_of(std::begin(kTrains), std::end(kTrains), holds) &&
         std::any_of(std::begin(kOther), std::end(kOther), holds);
}

std::string differing_flags(const ShellCommand& a, const ShellCommand& b) {
  if (a.words.size() != b.words.size()) return "the number of their words";
  std::string out;
  for (std::size_t i = 1; i < a.words.size(); ++i) {
    if (a.words[i].text == b.words[i].text) continue;
    const std::string& word = a.words[i].text;
    const std::string flag = word.starts_with('-') ? word.substr(0, word.find('=')) : a.words[i - 1].text;
    if (weighs(flag)) out += fmt::format("{}`{}`", out.empty() ? "" : ", ", flag);
  }
  return out;
}

bool starts_the_same(const ShellCommand& a, const ShellCommand& b) {
  if (a.words.size() != b.words.size()) return false;
  for (std::size_t i = 0; i < a.words.size(); ++i) {
    const std::string &one = a.words[i].text, &other = b.words[i].text;
    if (one == other) continue;
    const std::size_t equals = one.find('=');
    const std::string& flag = equals != one.npos || i == 0 ? one : a.words[i - 1].text;
    const std::string name = with_underscores(trim(std::string_view(flag).substr(0, flag.find('=')), "-"));
    const bool same_flag = equals == one.npos || other.substr(0, other.find('=')) == one.substr(0, equals);
    const bool rank = name == "node_rank" || name == "machine_rank" || name == "master_addr" || name == "master_port";
    if (!flag.starts_with("--") || !same_flag || !rank) return false;
  }
  return true;
}

namespace {

/// Whether a command has flags with values, as trainings have, and not one word that is spelt like a flag.
bool has_flags(const ShellCommand& command) {
  return std::count_if(command.words.begin(), command.words.end(),
                       [](const ShellWord& word) { return word.text.starts_with("--"); }) > 2;
}

}  // namespace

std::optional<Error> broken_command(const LaunchSource& source) {
  if (!is_shell(source)) return std::nullopt;
  const std::vector<std::string_view> lines = split(source.text, "\n");
  bool started = false;  // by the last command that a shell can run
  for (const ShellCommand& command : follow_script(source).commands) {
    const ShellWord& first = command.words.front();
    const std::string_view line = at_line(lines, first.line);
    if (!goes_on(first.text) || !line.starts_with(first.text.substr(0, first.text.find_first_of("=$")))) {
      started = starts_program(command);
    } else if (started) {
      const auto [why, help] = why_broken(lines, first.line);
      return Error{"broken_command",
                   fmt::format("{}:{}: `{}` starts a command of its own: {}", source.path, first.line,
                               yaml::printable(first.text), why),
                   {"a shell starts the training without that word and those behind it"},
                   {help}};
    } else if (source.manifest.empty() && has_flags(command)) {  // an image of Kubernetes has a program of its own
      return Error{"broken_command",
                   fmt::format("{}:{}: `{}` starts a command: no program is in front of it", source.path, first.line,
                               yaml::printable(first.text)),
                   {"a shell starts nothing"},
                   {"write the program and its launcher in front of it"}};
    }
  }
  return std::nullopt;
}

void add_left_out(std::span<const LaunchSource> files, Errors& errors) {
  constexpr std::size_t kMost = 3;
  for (Error& error : errors) {
    if (error.code != "no_launch" && error.code != "training_not_understood") continue;
    bool arguments = false;
    for (const LaunchSource& source : files) {
      if (!is_shell(source)) continue;
      for (const Note& note : follow_script(source).notes) {
        const bool asks = note.text.find("as not given") != std::string::npos;
        const bool stops =
            note.text.find("left out") != std::string::npos || note.text.find(kTooMuch) != std::string::npos;
        if ((!asks && !stops) || error.facts.size() >= kMost) continue;
        error.facts.push_back(fmt::format("what was not followed may start it: {}", note.text));
        arguments |= asks;
      }
    }
    if (arguments) error.help.emplace_back("give the script's arguments with `--args`");
  }
}

void tell_of_environment(std::span<const LaunchSource> files, LaunchJob& job) {
  constexpr std::string_view kAsks = "oc.env:";
  constexpr std::size_t kMostNamed = 12;
  for (const LaunchSource& source : files) {
    if (is_shell(source)) continue;
    std::string names;
    std::size_t count = 0;
    for (std::size_t at = source.text.find(kAsks); at != std::string::npos; at = source.text.find(kAsks, at)) {
      at += kAsks.size();
      const std::string name = source.text.substr(at, source.text.find_first_of(",}\n", at) - at);
      const std::string words = with_dashes(lowered(name));
      const bool chooses = words.ends_with("profile");  // a set of settings, and no file that is read or written
      if (!chooses && (sounds_harmless(words) || words.ends_with("file"))) continue;
      const std::string quoted = fmt::format("`{}`", yaml::printable(name));
      if (names.find(quoted) == std::string::npos && ++count <= kMostNamed)
        names += fmt::format("{}{}", names.empty() ? "" : ", ", quoted);
    }
    if (count > 0)
      unused(job, "environment",
             fmt::format("{}: variables of the environment are taken as not set: {}{}", source.path, names,
                         count > kMostNamed ? ", ..." : ""));
  }
}

void tell_of_scripts(std::span<const LaunchSource> files, LaunchJob& job) {
  std::vector<Note> own;
  for (const LaunchSource& source : files) {
    if (!is_shell(source)) continue;
    const Script& script = follow_script(source);
    const ShellCommand* command = training_command(script);
    if (command == nullptr) continue;
    for (Note& note : script.notes_before(static_cast<std::size_t>(command - script.commands.data())))
      if (!says(job.notes, note.text)) own.push_back(std::move(note));
    for (const ShellCommand& started : script.commands) {
      if (!starts_program(started)) continue;
      for (std::size_t i = behind_program(started.words).value_or(1); i < started.words.size(); ++i) {
        if (!stands_for_words(started.words, i)) continue;
        const ShellWord& word = started.words[i];
        const std::string text = fmt::format("{}:{}: what `{}` holds is not in the file", source.path, word.line,
                                             yaml::printable(word.text));
        if (says(job.notes, text) || says(job.unused, text) || says(own, text)) continue;
        own.push_back({"unknown_arguments", text});
        if (word.text != "$@") unused(job, "unknown_arguments", text);
      }
    }
  }
  job.notes.insert(job.notes.begin(), own.begin(), own.end());
}

}  // namespace plan
