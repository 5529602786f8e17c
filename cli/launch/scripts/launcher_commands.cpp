// GPUs as the commands of a script state them, by the flags of launchers and by variables. Tested by
// tests/frameworks/framework_files_test.cpp and tests/launch/launcher_commands_test.cpp.
#include "cli/launch/scripts/launcher_commands.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/launch/scripts/script_words.hpp"
#include "cli/shell/statements.hpp"
#include "cli/terminal/words.hpp"
#include "formulas/text.hpp"
#include "formulas/words.hpp"

namespace plan {
namespace {

using shell::count_of;
using shell::kMostCounted;
using Commands = std::vector<const ShellCommand*>;

/// Both `--num_gpus` and `--num-gpus`.
bool is(std::string_view word, std::string_view name) {
  return word.size() == name.size() && std::equal(word.begin(), word.end(), name.begin(),
                                                  [](char a, char b) { return a == b || (a == '_' && b == '-'); });
}

/// Programs that start a command on machines of their choice.
constexpr std::string_view kElsewhere[] = {"srun",  "mpirun",  "mpiexec",  "pdsh",  "ssh",   "clush",
                                           "xargs", "kubectl", "parallel", "jsrun", "aprun", "docker"};
bool starts_elsewhere(std::string_view program) {
  return std::find(std::begin(kElsewhere), std::end(kElsewhere), program) != std::end(kElsewhere);
}

/// The launcher of a command that starts on this one machine where no flag says otherwise: torch/distributed/run.py has
/// 1:1 for --nnodes, DeepSpeed takes the local GPUs where there is no hostfile. Empty: what starts it on how many
/// machines is another's decision.
std::string_view starts_on_one_node(const ShellCommand& command) {
  constexpr std::string_view kNodes[] = {"--nnodes", "--num-nodes", "--hostfile", "-H",         "--include",
                                         "-i",       "--exclude",   "-e",         "--node-rank"};
  std::string_view starter, before;
  for (const ShellWord& word : command.words) {
    const std::string_view text = std::string_view(word.text).substr(0, word.text.find('='));
    const std::string_view program = base_name(text);
    if (starter.empty()) {
      if (starts_elsewhere(program)) return {};
      if (program == "torchrun" || text == "torch.distributed.run" || text == "torch.distributed.launch")
        starter = "torchrun";
      if (program == "deepspeed") starter = "deepspeed";
    } else if (std::any_of(std::begin(kNodes), std::end(kNodes),
                           [&](std::string_view flag) { return is(text, flag); })) {
      return {};
    }
    const bool open = text.starts_with('$') && !before.starts_with('-');  // words that only the machine knows
    if (open) return {};
    if (text.ends_with(".py")) break;  // the program's own words follow
    before = text;
  }
  return command.environment.contains("PET_NNODES") ? std::string_view() : starter;
}

/// DeepSpeed's `--include localhost:0,1@worker:0,1`, where all hosts have as many.
void from_inclusion(std::string_view hosts, LaunchFacts& facts) {
  int nodes = 0, each = 0;
  while (!hosts.empty()) {
    const std::string_view host = hosts.substr(0, hosts.find('@'));
    const std::size_t colon = host.find(':');
    if (colon == std::string_view::npos || host.find_first_not_of("0123456789,", colon + 1) != std::string_view::npos)
      return;
    const auto slots = static_cast<int>(std::count(host.begin(), host.end(), ',')) + 1;
    if (each != 0 && slots != each) return;
    each = slots, ++nodes;
    hosts.remove_prefix(std::min(hosts.size(), host.size() + 1));
  }
  facts.nodes = nodes, facts.gpus_per_node = each;
}

/// `-j 2x8` of torchx's dist.ddp: nodes and processes of each (torchx/components/dist.py); a range of nodes is not
/// known.
void from_torchx(std::string_view word, std::string_view nodes_by_each, LaunchFacts& facts) {
  const std::size_t by = nodes_by_each.find('x');
  if ((word != "-j" && word != "--j") || by == std::string_view::npos || facts.gpus() > 0) return;
  const int nodes = count_of(nodes_by_each.substr(0, by)), each = count_of(nodes_by_each.substr(by + 1));
  if (nodes > 0 && each > 0) facts.nodes = nodes, facts.gpus_per_node = each, facts.one_node.clear();
}

/// torchrun's --nnodes and --nproc-per-node, DeepSpeed's --num_nodes and --num_gpus, accelerate's machines.
void from_command(const ShellCommand& command, const std::string& file, LaunchFacts& facts) {
  const bool starts_accelerate = std::any_of(command.words.begin(), command.words.end(), [](const ShellWord& word) {
    return word.text == "accelerate" || word.text.ends_with("/accelerate") ||
           word.text.starts_with("accelerate.commands");
  });
  // Megatron-Bridge's scripts take all GPUs of the job as `--num_gpus`, beside those of a node.
  const auto program = std::find_if(command.words.begin(), command.words.end(),
                                    [](const ShellWord& word) { return word.text.ends_with(".py"); });
  const bool of_all = std::any_of(program, command.words.end(), [](const ShellWord& word) {
    return is(std::string_view(word.text).substr(0, word.text.find('=')), "--gpus-per-node");
  });
  const bool torchx = std::any_of(command.words.begin(), program,
                                  [](const ShellWord& word) { return base_name(word.text) == "torchx"; });
  int machines = 1, processes = 0, processes_line = 0;
  for (std::size_t i = 0; i < command.words.size(); ++i) {
    const auto& [word, value, line] = flag_at(command, i);
    const int count = count_of(value);
    if ((is(word, "--include") || torchx) && facts.gpus() == 0) {
      torchx ? from_torchx(word, value, facts) : from_inclusion(value, facts);
      if (facts.gpus() > 0) facts.gpus_where = fmt::format("{}:{}", file, line);
    }
    if (count == 0) continue;
    const bool nodes = is(word, "--nnodes") || is(word, "--num-nodes");
    const bool each = is(word, "--nproc-per-node") || (is(word, "--num-gpus") && !of_all);
    if (starts_accelerate && is(word, "--num-machines")) machines = count;
    if (starts_accelerate && is(word, "--num-processes")) processes = count, processes_line = line;
    if (nodes && facts.nodes == 0) facts.nodes = count, facts.one_node.clear();
    if (each && facts.gpus_per_node == 0) facts.gpus_per_node = count;
    if ((nodes || each) && facts.gpus_where.empty()) facts.gpus_where = fmt::format("{}:{}", file, line);
  }
  if (processes == 0 || processes % machines != 0 || facts.gpus() > 0) return;
  facts.nodes = machines, facts.gpus_per_node = processes / machines;  // accelerate counts those of all machines
  facts.gpus_where = fmt::format("{}:{}", file, processes_line);
}

/// `mpirun -np 64 -npernode 4 python ...`, `mpiexec -n 64`, `flux run -n 64`, `horovodrun -np 64`, `jsrun -n 8 -g 6`,
/// MindSpore's `msrun --worker_num 64 --local_worker_num 8`: a rank for each GPU, where the launcher itself starts
/// Python.
void from_ranks(const ShellCommand& command, const std::string& file, LaunchFacts& facts) {
  constexpr std::string_view kLaunchers[] = {"mpirun", "mpiexec", "orterun", "horovodrun",
                                             "flux",   "jsrun",   "srun",    "msrun"};
  constexpr std::string_view kAll[] = {"-np", "-n", "--np", "--ntasks", "--worker-num"},
                             kEach[] = {"-npernode", "--npernode",        "-ppn",
                                        "--ppn",     "--ntasks-per-node", "--local-worker-num"};
  const auto one_of = [](std::string_view word, const auto& words) {
    return std::any_of(std::begin(words), std::end(words), [&](std::string_view other) { return is(word, other); });
  };
  std::string_view launcher;
  int all = 0, each = 0, in_set = 1, line = 0;
  for (std::size_t i = 0; i < command.words.size(); ++i) {
    const std::string& text = command.words[i].text;
    const std::string_view program = base_name(text);
    if (starts_ranks(program)) return;
    if (is_python(program)) break;  // what follows are its own words
    if (launcher.empty() && one_of(program, kLaunchers)) launcher = program;
    if (launcher.empty()) continue;
    const auto& [word, stated, line_of_value] = flag_at(command, i);
    const int value = count_of(stated);
    if (one_of(word, kAll)) all = value, line = line_of_value;
    if (one_of(word, kEach)) each = value;
    if (launcher == "jsrun" && word == "-g") in_set = std::max(1, value);
  }
  if (all == 0 && each > 1 && facts.gpus_per_node == 0) facts.gpus_per_node = each;  // on nodes that nobody states
  if (all == 0 || all > kMostCounted / in_set) return;
  const int ranks = all * in_set;
  state_ranks(ranks, fmt::format("{}:{}", file, line), facts);
  if (each == 0 || ranks % each != 0 || facts.gpus_per_node > 0) return;
  facts.nodes = ranks / each, facts.gpus_per_node = each;
}

/// NNODES and NPROC_PER_NODE, which ms-swift and LLaMA-Factory hand to torchrun.
void from_variables(const Script& script, const Commands& commands, const std::string& file, LaunchFacts& facts) {
  int line = 0;  // of the last one found
  const auto value = [&](const char* name) {
    const auto found = script.exported.find(name);
    if (found != script.exported.end()) return line = found->second.line, count_of(found->second.text);
    for (const ShellCommand* command : commands)
      if (const auto own = command->environment.find(name); own != command->environment.end())
        return line = command->words.front().line, count_of(own->second);
    return 0;
  };
  if (const int each = value("NPROC_PER_NODE"); each > 0 && facts.gpus_per_node == 0) {
    facts.gpus_per_node = each;
    if (facts.nodes == 0) facts.nodes = std::max(1, value("NNODES"));
    if (facts.gpus_where.empty()) facts.gpus_where = line > 0 ? fmt::format("{}:{}", file, line) : file;
  }
}

/// The items of `0,1,2,3`, of `0, 1` and of `0,1,`: what is empty is none.
int items_in(std::string_view list) {
  int count = 0;
  for (const std::string_view item : split(list, ",")) count += trim(item).empty() ? 0 : 1;
  return count;
}

/// GPUs that `CUDA_VISIBLE_DEVICES=0,1,2,3` shows a command; 0: it is not set, or a variable is.
int shown_to(const ShellCommand& command) {
  const auto own = command.environment.find("CUDA_VISIBLE_DEVICES");
  return own == command.environment.end() || own->second.find('$') != std::string::npos ? 0 : items_in(own->second);
}

/// The word that starts ranks, or the tool that trains on all GPUs that are shown to it; empty: there is none.
std::string_view starter_of(const ShellCommand& command) {
  for (std::size_t i = 0; i < command.words.size(); ++i) {
    const std::string_view program = base_name(command.words[i].text);
    const bool trains = i + 1 == command.words.size() || command.words[i + 1].text == "train";
    if (starts_ranks(program) || ((program == "llamafactory-cli" || program == "axolotl") && trains)) return program;
  }
  return {};
}

/// The machines that a command starts on: the count of its flags or of NNODES, 1 where nothing speaks of others; 0: a
/// word that is open or another launcher decides it.
int machines_of(const ShellCommand& command) {
  constexpr std::string_view kCount[] = {"--nnodes", "--num-nodes", "--num-machines"};
  constexpr std::string_view kOneOfSeveral[] = {"--node-rank", "--machine-rank", "--hostfile", "--include",
                                                "--exclude"};
  const auto one_of = [](std::string_view word, const auto& names) {
    return std::any_of(std::begin(names), std::end(names), [&](std::string_view name) { return is(word, name); });
  };
  const std::size_t end = behind_program(command.words).value_or(command.words.size());
  bool several = false;
  std::string_view before;
  for (std::size_t i = 0; i < end; before = command.words[i++].text) {
    const auto& [flag, value, line] = flag_at(command, i);
    if (starts_elsewhere(base_name(flag)) || (flag.starts_with('$') && !before.starts_with('-'))) return 0;
    if (one_of(flag, kCount)) return count_of(value);
    several |= one_of(flag, kOneOfSeveral);
  }
  for (const char* name : {"NNODES", "PET_NNODES"})
    if (const auto own = command.environment.find(name); own != command.environment.end()) return count_of(own->second);
  return several ? 0 : 1;
}

/// The GPUs of a machine that a command takes by what is shown to it; 0: other words count its processes. DeepSpeed
/// looks at them on one machine alone, torchrun where it is asked to.
int taken_of_shown(const ShellCommand& command, std::string_view starter, int machines) {
  if (starter == "deepspeed" && machines != 1) return 0;
  const bool torchrun = starter == "torchrun" || starter.starts_with("torch.distributed");
  for (std::size_t i = 0; i < command.words.size() && torchrun; ++i)
    if (const FlagAndValue each = flag_at(command, i); is(each.flag, "--nproc-per-node"))
      return each.value == "gpu" || each.value == "auto" ? shown_to(command) : 0;
  return torchrun ? 0 : shown_to(command);
}

/// `CUDA_VISIBLE_DEVICES=0,1,2,3` in front of a tool that starts a process for each, or of one process. What a script
/// runs in one process beside such a tool writes answers, scores or serves, on GPUs that are not the training's.
void from_visible_devices(const Commands& commands, const std::string& file, LaunchFacts& facts) {
  if (facts.gpus() > 0 || facts.gpus_per_node > 0 || commands.empty()) return;
  int each = -1, machines = 1;
  for (const ShellCommand* command : commands) {
    const std::string_view starter = starter_of(*command);
    if (starter.empty()) continue;
    const int on = machines_of(*command), own = taken_of_shown(*command, starter, on);
    if (each >= 0 && (own != each || on != machines)) return;  // which of them is the training is not known
    each = own, machines = on;
  }
  const bool one_process =
      std::any_of(commands.front()->words.begin(), commands.front()->words.end(),
                  [](const auto& w) { return w.text == "swift" || w.text == "python" || w.text == "python3"; });
  if (each < 0 && one_process && shown_to(*commands.front()) == 1 && machines_of(*commands.front()) == 1) each = 1;
  if (each < 1) return;
  if (machines > 0) facts.nodes = machines;  // else those of a header
  facts.gpus_per_node = each, facts.gpus_where = file, facts.one_node.clear();
}

bool states_gpus_of_a_node(const ShellCommand& command) {
  return std::any_of(command.words.begin(), command.words.end(), [](const ShellWord& word) {
    const std::string_view flag = std::string_view(word.text).substr(0, word.text.find('='));
    return is(flag, "--nproc-per-node") || is(flag, "--num-gpus");
  });
}

/// The commands that may train, the one with the most to say first: a script also prepares data, serves a judge and
/// evaluates, each on GPUs of its own.
Commands by_weight(const Script& script) {
  Commands out;
  for (const ShellCommand& command : script.commands)
    if (!trains_nothing(command)) out.push_back(&command);
  std::stable_sort(out.begin(), out.end(),
                   [](const auto* a, const auto* b) { return a->words.size() > b->words.size(); });
  return out;
}

/// What the flags of one command alone state.
LaunchFacts stated_by(const ShellCommand& command, const std::string& file) {
  LaunchFacts own;
  from_command(command, file, own);
  if (own.nodes == 0 && !starts_on_one_node(command).empty()) own.nodes = 1, own.one_node = starts_on_one_node(command);
  return own;
}

}  // namespace

FlagAndValue flag_at(const ShellCommand& command, std::size_t i) {
  const ShellWord& word = command.words[i];
  if (const std::size_t equals = word.text.find('='); equals != std::string::npos)
    return {word.text.substr(0, equals), word.text.substr(equals + 1), word.line};
  if (i + 1 == command.words.size()) return {word.text, "", word.line};
  return {word.text, command.words[i + 1].text, command.words[i + 1].line};
}

int visible_devices(std::string_view list) {
  return list.find_first_not_of("0123456789, \t") == std::string_view::npos ? items_in(list) : 0;
}

bool starts_ranks(std::string_view program) {
  constexpr std::string_view kStarters[] = {"torchrun", "torch.distributed.run", "torch.distributed.launch",
                                            "deepspeed", "accelerate"};
  return std::any_of(std::begin(kStarters), std::end(kStarters),
                     [&](std::string_view starter) { return is(program, starter); });
}

bool is_python(std::string_view program) { return program.starts_with("python") || program.ends_with(".py"); }

void state_ranks(int ranks, std::string where, LaunchFacts& facts) {
  if (ranks == 0) return;
  facts.ranks = facts.ranks == 0 || facts.ranks == ranks ? ranks : -1;
  if (facts.gpus_where.empty()) facts.gpus_where = std::move(where);
}

void count_commands(const Script& script, const std::string& file, LaunchFacts& facts) {
  const Commands commands = by_weight(script);
  for (const ShellCommand* command : commands) from_command(*command, file, facts);
  const auto launcher = std::find_if(commands.begin(), commands.end(), [](const ShellCommand* command) {
    return states_gpus_of_a_node(*command) || !starts_on_one_node(*command).empty();
  });
  if (facts.nodes == 0 && facts.gpus_per_node > 0 && launcher != commands.end())
    facts.one_node = starts_on_one_node(**launcher);
  for (const ShellCommand* command : commands) from_ranks(*command, file, facts);
  from_variables(script, commands, file, facts);
  from_visible_devices(commands, file, facts);
}

std::string started_elsewhere(const LaunchFacts& there, std::int64_t counted, std::string_view counted_where) {
  return fmt::format("{}: {} GPUs are started there: counted are the {} of {}", there.gpus_where, there.gpus(), counted,
                     counted_where);
}

std::string with_fewer_visible(const LaunchSource& source, int each) {
  if (!is_shell(source)) return {};
  for (const ShellCommand* command : by_weight(follow_script(source))) {
    std::string_view starter;
    for (const ShellWord& word : command->words)
      if (starter.empty() && starts_ranks(base_name(word.text))) starter = base_name(word.text);
    if (starter.empty() || starter == "deepspeed") continue;  // whose flags go over the variable
    std::string name = "CUDA_VISIBLE_DEVICES", shown;
    if (const auto own = command->environment.find(name); own != command->environment.end()) shown = own->second;
    for (std::size_t i = 0; i < command->words.size() && starter == "accelerate"; ++i)
      if (const FlagAndValue flag = flag_at(*command, i); is(flag.flag, "--gpu-ids"))
        name = flag.flag, shown = flag.value;
    const int visible = visible_devices(shown);
    const int stated = stated_by(*command, source.path).gpus_per_node;
    const int processes = stated > 0 ? stated : each;
    if (visible > 0 && processes > visible)
      return fmt::format("{}:{}: {} processes start on a machine of whose GPUs `{}` shows {}: counted are {}",
                         source.path, command->words.front().line, processes, name, visible, processes);
  }
  return {};
}

std::string with_other_gpus(const LaunchSource& source, const LaunchFacts& facts) {
  if (!is_shell(source)) return {};
  const Script& script = follow_script(source);
  std::optional<LaunchFacts> counted;
  for (const ShellCommand* command : by_weight(script)) {
    const LaunchFacts own = stated_by(*command, source.path);
    if (own.gpus() == 0) continue;
    if (!counted) counted = own;
    // The header's count, or another file's. One that states no nodes may run on each of the header's.
    if (counted->gpus() != facts.gpus() && (facts.gpus() == 0 || !own.one_node.empty())) return {};
    if (counted->gpus() != facts.gpus()) return started_elsewhere(own, facts.gpus(), facts.gpus_where);
    if (own.gpus() != counted->gpus()) return started_elsewhere(own, counted->gpus(), counted->gpus_where);
  }
  return {};
}

}  // namespace plan
