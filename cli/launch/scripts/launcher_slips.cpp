// Flags of launchers that none of them has. Names: torch 2.8 torch/distributed/run.py, accelerate 1.15
// commands/launch.py, DeepSpeed 0.19 launcher/runner.py. Tested by tests/launch/launcher_commands_test.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/launch/job/keys.hpp"
#include "cli/launch/job/weighty_names.hpp"
#include "cli/launch/scripts/launcher_commands.hpp"
#include "cli/launch/scripts/script_words.hpp"
#include "cli/shell/shell.hpp"
#include "cli/shell/statements.hpp"
#include "cli/terminal/words.hpp"
#include "formulas/words.hpp"
#include "presets/suggest.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

struct Starter {
  std::string_view program;
  std::string_view flags;  ///< those that say how many processes start, and all that are near one of them
};
constexpr Starter kLauncherFlags[] = {
    {"torchrun",
     "nnodes nproc_per_node node_rank standalone master_addr master_port rdzv_backend rdzv_endpoint rdzv_id rdzv_conf "
     "max_restarts monitor_interval start_method role module no_python run_path log_dir redirects tee local_addr "
     "local_ranks_filter logs_specs use_env help"},
    {"accelerate",
     "config_file num_processes num_machines machine_rank main_process_ip main_process_port mixed_precision gpu_ids "
     "multi_gpu use_deepspeed use_fsdp num_cpu_threads_per_process same_network deepspeed_config_file zero_stage "
     "offload_optimizer_device offload_param_device gradient_accumulation_steps zero3_init_flag zero3_save_16bit_model "
     "rdzv_backend rdzv_conf max_restarts monitor_interval module no_python log_dir role tee quiet debug cpu help"},
    {"deepspeed",
     "hostfile include exclude num_nodes num_gpus min_elastic_nodes max_elastic_nodes master_addr master_port "
     "node_rank launcher launcher_args module no_python no_local_rank no_ssh no_ssh_check force_multi elastic_training "
     "autotuning enable_each_rank_log bind_cores_to_rank bind_core_list ssh_port venv_script save_pid user_args help"}};

std::string_view launcher_in(std::string_view word) {
  const std::string_view program = base_name(word);
  return program.starts_with("torch.distributed.") ? std::string_view("torchrun") : program;
}

/// Where the words of a launcher end: behind the program, which `--no-python` says to be any command.
std::size_t behind_launcher(const std::vector<ShellWord>& words) {
  if (const std::optional<std::size_t> behind = behind_program(words)) return *behind;
  const auto other = std::find_if(words.begin(), words.end(), [](const ShellWord& word) {
    return word.text == "--no-python" || word.text == "--no_python";
  });
  return static_cast<std::size_t>(other == words.end() ? 0 : other - words.begin());
}

/// Whether a word is a launcher's name with others around it, as a script that wraps one is called.
bool wraps(std::string_view word, std::string_view launcher) {
  return word.size() > launcher.size() + 1 && word.find(launcher) != word.npos;
}

/// The launcher, or the verb of one, that word `at` in front of a program is a slip of; empty: none.
std::string launcher_meant(const std::vector<ShellWord>& words, std::size_t at) {
  constexpr std::string_view kLaunchers[] = {"torchrun", "deepspeed", "accelerate", "llamafactory-cli",
                                             "axolotl",  "python",    "ipython",    "mpirun"};
  constexpr std::string_view kModules[] = {"torch.distributed.run", "torch.distributed.launch"};
  constexpr std::pair<std::string_view, std::string_view> kVerbs[] = {
      {"accelerate", "launch"}, {"llamafactory-cli", "train"}, {"axolotl", "train"}};
  const std::string_view before = at > 0 ? std::string_view(words[at - 1].text) : std::string_view();
  const std::string_view word = base_name(words[at].text);
  if (word.starts_with('-')) return {};
  if (before == "-m" && word.starts_with("torch.distributed."))
    return std::find(std::begin(kModules), std::end(kModules), word) != std::end(kModules)
               ? std::string()
               : nearest_name(word, kModules);
  if (before.starts_with('-')) return {};
  for (const auto& [launcher, verb] : kVerbs)
    if (base_name(before) == launcher) return is_slip(word, std::span(&verb, 1)) ? std::string(verb) : std::string();
  const std::string near = is_slip(word, kLaunchers) ? nearest_name(word, kLaunchers) : std::string();
  return near.empty() || wraps(word, near) ? std::string() : near;
}

}  // namespace

std::string with_misspelt_flag(const LaunchSource& source) {
  if (!is_shell(source)) return {};
  for (const ShellCommand& command : follow_script(source).commands) {
    const std::size_t end = behind_launcher(command.words);
    const Starter* launcher = nullptr;
    for (std::size_t i = 0; i < end && !trains_nothing(command); ++i) {
      const ShellWord& word = command.words[i];
      for (const Starter& one : kLauncherFlags)
        if (launcher == nullptr && launcher_in(word.text) == one.program) launcher = &one;
      if (launcher == nullptr || !word.text.starts_with("--")) continue;
      const std::string flag = with_underscores(std::string_view(word.text).substr(2, word.text.find('=') - 2));
      const std::vector<std::string_view> known = split(launcher->flags, " ");
      // Python's parser takes the beginning of a flag for it.
      if (std::any_of(known.begin(), known.end(), [&](std::string_view name) { return name.starts_with(flag); }))
        continue;
      if (!is_slip(flag, known)) continue;
      return fmt::format("{}:{}: {} has no flag `{}`, near `--{}`, and stops there: counted as not stated", source.path,
                         word.line, launcher->program, yaml::printable(word.text.substr(0, word.text.find('='))),
                         nearest_name(flag, known));
    }
  }
  return {};
}

std::string with_misspelt_launcher(const LaunchSource& source) {
  if (!is_shell(source)) return {};
  for (const ShellCommand& command : follow_script(source).commands) {
    const std::vector<ShellWord>& words = command.words;
    const std::size_t end = behind_program(words).value_or(3);
    for (std::size_t i = 0; i + 1 < end && i < words.size() && !trains_nothing(command); ++i)
      if (const std::string near = launcher_meant(words, i); !near.empty())
        return fmt::format(
            "{}:{}: `{}` is not known here, and may be meant as `{}`: what it starts is counted as its "
            "flags say",
            source.path, words[i].line, yaml::printable(words[i].text), near);
  }
  return {};
}

std::string standing_alone(const LaunchSource& source, const LaunchFacts& facts) {
  if (!is_shell(source) || facts.nodes <= 1) return {};
  for (const ShellCommand& command : follow_script(source).commands) {
    const std::size_t end = behind_launcher(command.words);
    for (std::size_t i = 0; i < end && !trains_nothing(command); ++i)
      if (command.words[i].text == "--standalone")
        return fmt::format("{}:{}: `--standalone` makes each node a job of its own: counted is one on {} nodes",
                           source.path, command.words[i].line, facts.nodes);
  }
  return {};
}

std::string with_comment_word(const LaunchSource& source) {
  if (!is_shell(source)) return {};
  for (const ShellCommand& command : follow_script(source).commands) {
    if (trains_nothing(command) || !behind_program(command.words)) continue;
    for (const ShellWord& word : command.words)
      if (word.text == "#" || word.text.starts_with("#-"))
        return fmt::format(
            "{}:{}: `{}` starts no comment where a variable or a here-document becomes words: the program gets it as a "
            "word, at which most stop, and the flags behind it count",
            source.path, word.line, yaml::printable(word.text));
  }
  return {};
}

namespace {

using shell::count_of;

/// Who reads a count: Slurm takes `4K`, and of nodes a range with a step, `1-16:4`.
enum class Reader { Launcher, Slurm };

bool is_count(std::string_view word, Reader reader) {
  constexpr std::string_view kThousands = "kKmMgGtTpP";
  if (reader == Reader::Slurm && !word.empty() && kThousands.find(word.back()) != std::string_view::npos)
    word.remove_suffix(1);
  return count_of(word) > 0;
}

/// What a launcher takes: a count, `2:4` and `2-4` of nodes, `gpu` and `auto` of processes. Others are not judged where
/// they begin with a letter, as names of GPUs do, or hold what the shell leaves open.
bool is_no_count(std::string_view value, Reader reader) {
  if (value.empty() || value.find_first_of("$`<{(,") != std::string_view::npos || is_count(value, reader)) return false;
  const bool number = std::isdigit(static_cast<unsigned char>(value.front())) != 0;
  if (!number && value.front() != '-') return false;
  const std::size_t between = value.find_first_of(":-", 1);
  if (between == std::string_view::npos) return true;
  std::string_view most = value.substr(between + 1);
  if (const std::size_t step = most.find(':'); reader == Reader::Slurm && step != std::string_view::npos) {
    if (value[between] != '-' || !is_count(most.substr(step + 1), reader)) return true;
    most = most.substr(0, step);
  }
  return !is_count(value.substr(0, between), reader) || !is_count(most, reader);
}

/// What `flag value` is to launchers, at `where`; empty where it is a count.
std::string no_count(std::string_view flag, std::string_view value, std::string_view where, Reader reader) {
  if (!is_no_count(value, reader)) return {};
  return fmt::format("{}: `{} {}` is no count, and its launcher stops there: counted as not stated", where, flag,
                     value);
}

/// The same of a line of sbatch's. A resource of another kind, `--gres=tmpfs:100G`, counts no GPUs, and a kind without
/// a count, `gpu:3g.20gb`, means one.
std::string no_count_of(const ShellDirective& line, const std::string& file) {
  constexpr std::string_view kLines[] = {"nodes", "N", "ntasks-per-node", "gpus-per-node", "gres", "ntasks", "n"};
  const bool counts = std::find(std::begin(kLines), std::end(kLines), line.name) != std::end(kLines);
  if (!counts || line.value.find_first_of("(,") != std::string::npos) return {};  // sockets, and several resources
  const bool node = line.name == "nodes" || line.name == "N";
  if (line.name == "gres" && shell::gpus_of_gres(line.value).empty()) return {};
  const std::string_view count = node ? std::string_view(line.value) : shell::behind_kind(line.value);
  if (!node && count.find("g.") != std::string_view::npos) return {};  // a part of a GPU, by its name
  return no_count(line.name, count, fmt::format("{}:{}", file, line.line), Reader::Slurm);
}

}  // namespace

std::string with_no_count(const LaunchSource& source) {
  constexpr std::string_view kCounts[] = {"--nnodes",   "--nproc-per-node", "--num-nodes",
                                          "--num-gpus", "--num-machines",   "--num-processes"};
  if (!is_shell(source)) return {};
  const Script& script = follow_script(source);
  for (const ShellDirective& line : script.sbatch)
    if (std::string found = no_count_of(line, source.path); !found.empty()) return found;
  for (const ShellCommand& command : script.commands) {
    if (trains_nothing(command)) continue;
    bool starts = false, deepspeed = false;
    for (std::size_t i = 0; i < command.words.size(); ++i) {
      const std::string_view program = base_name(command.words[i].text);
      deepspeed |= program == "deepspeed";
      if (starts && is_python(program)) break;  // the program's own words
      starts |= starts_ranks(program);
      if (!starts) continue;
      const auto& [flag, value, line] = flag_at(command, i);
      const bool counts = std::any_of(std::begin(kCounts), std::end(kCounts),
                                      [&f = flag](auto name) { return with_dashes(f) == name; });
      if (!counts || (deepspeed && value == "-1")) continue;  // all that there are
      std::string found = no_count(flag, value, fmt::format("{}:{}", source.path, line), Reader::Launcher);
      if (!found.empty()) return found;
    }
  }
  return {};
}

}  // namespace plan
