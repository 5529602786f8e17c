// Files that hand a command to nodes: `run:` of a SkyPilot task, `commands:` of a dstack task, `command:` and `args:`
// of a container or a TrainJob, `entrypoint:` of Determined's and `arguments:` of Beaker's experiments. The command
// becomes a script, each word on the line where it is written, so that every reader of scripts reads it. Tested by
// tests/launch/manifests_test.cpp.
#include "cli/launch/scripts/manifests.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cli/launch/scripts/pods.hpp"
#include "cli/launch/start/launcher.hpp"
#include "cli/terminal/words.hpp"
#include "formulas/text.hpp"
#include "formulas/words.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

using yaml::Node;

/// The lines of the script that is being put together, as many as the file has.
class Lines {
 public:
  explicit Lines(std::string_view text) : file_(split(text, "\n")), script_(file_.size()) {
    for (std::string_view& line : file_) line = trim(line, kBlanks);
  }

  /// One statement more on a line of the file.
  void add(int line, const std::string& statement) {
    std::string& into = at(line);
    into += (into.empty() ? "" : "; ") + statement;
  }
  /// A command whose words have lines of their own, in their order; else all of them on the line of the first.
  void add_command(const std::vector<Node>& words) {
    const auto above = [](const Node& a, const Node& b) { return a.line < b.line; };
    const bool in_order = std::is_sorted(words.begin(), words.end(), above);
    const int first = words.front().line, last = in_order ? words.back().line : first;
    add(first, "");
    for (const Node& word : words) at(in_order ? word.line : first) += shell_quoted(word.text) + ' ';
    for (int line = first; line < last; ++line) at(line) += '\\';
  }

  /// A text of several lines, where the file has it: behind the line of its `|`.
  void add_text(const Node& node) {
    if (node.text.empty()) return;
    std::vector<std::string_view> rows = split(node.text, "\n");
    if (rows.back().empty()) rows.pop_back();
    int line = node.line;
    const auto same = [&](int there) {
      return file_[static_cast<std::size_t>(there) - 1] == trim(rows.front(), kBlanks);
    };
    while (line < static_cast<int>(file_.size()) && !same(line)) ++line;
    if (!same(line)) line = node.line;
    for (const std::string_view row : rows) add(line++, std::string(row));
  }

  std::string text() const {
    std::string out;
    for (const std::string& line : script_) out += line + '\n';
    return out;
  }

 private:
  static constexpr std::string_view kBlanks = " \t\r";

  std::string& at(int line) {
    return script_[static_cast<std::size_t>(std::clamp(line, 1, static_cast<int>(script_.size()))) - 1];
  }

  std::vector<std::string_view> file_{};
  std::vector<std::string> script_{};
};

void add_variable(Lines& lines, int line, const std::string& name, const std::string& value) {
  lines.add(line, fmt::format("export {}={}", name, shell_quoted(value)));
}

/// What SkyPilot itself tells the command of its nodes.
void add_sky_variables(Lines& lines, const Node& root, int line) {
  const Node* nodes = value_of(root, "num_nodes");
  const Node* resources = value_of(root, "resources");
  const Node* gpus = resources == nullptr ? nullptr : value_of(*resources, "accelerators");
  add_variable(lines, line, "SKYPILOT_NUM_NODES", nodes == nullptr ? "1" : nodes->text);
  add_variable(lines, line, "SKYPILOT_NODE_RANK", "0");
  if (gpus == nullptr || gpus->kind != yaml::Kind::Scalar) return;
  const std::size_t colon = gpus->text.rfind(':');
  add_variable(lines, line, "SKYPILOT_NUM_GPUS_PER_NODE",
               colon == std::string::npos ? "1" : gpus->text.substr(colon + 1));
}

bool add_sky_task(Lines& lines, const Node& root) {
  const Node* run = value_of(root, "run");
  const bool task = value_of(root, "resources") != nullptr || value_of(root, "num_nodes") != nullptr;
  if (run == nullptr || !task || run->kind != yaml::Kind::Scalar) return false;
  if (const Node* variables = value_of(root, "envs"); variables != nullptr)
    for (std::size_t i = 0; i + 1 < variables->items.size(); i += 2)
      if (variables->items[i + 1].kind == yaml::Kind::Scalar)
        add_variable(lines, variables->items[i].line, variables->items[i].text, variables->items[i + 1].text);
  add_sky_variables(lines, root, run->line);
  lines.add_text(*run);
  return true;
}

/// `NAME=value` of a list, or `NAME: value` of a map; a name alone is taken from who submits the task.
void add_dstack_variables(Lines& lines, const Node& root) {
  const Node* variables = value_of(root, "env");
  if (variables == nullptr) return;
  const bool map = variables->kind == yaml::Kind::Map;
  for (std::size_t i = 0; i < variables->items.size(); i += map ? 2 : 1) {
    const Node& item = variables->items[i];
    const std::size_t equals = item.text.find('=');
    if (map && i + 1 < variables->items.size())
      add_variable(lines, item.line, item.text, variables->items[i + 1].text);
    else if (!map && equals != std::string::npos)
      add_variable(lines, item.line, item.text.substr(0, equals), item.text.substr(equals + 1));
  }
}

/// GPUs of a node as dstack names them: `H100:8`, `A100:80GB:4`, `8`, or a map with `count:`; empty if not stated so.
std::string dstack_gpus(const Node& root) {
  const Node* resources = value_of(root, "resources");
  const Node* gpu = resources == nullptr ? nullptr : value_of(*resources, "gpu");
  if (gpu != nullptr && gpu->kind == yaml::Kind::Map) gpu = value_of(*gpu, "count");
  if (gpu == nullptr || gpu->kind != yaml::Kind::Scalar) return {};
  const std::string last = gpu->text.substr(gpu->text.rfind(':') + 1);
  return last.find_first_not_of("0123456789") == std::string::npos ? last : std::string();
}

bool add_dstack_task(Lines& lines, const Node& root) {
  const Node *type = value_of(root, "type"), *commands = value_of(root, "commands");
  if (type == nullptr || type->text != "task" || commands == nullptr || commands->kind != yaml::Kind::Sequence ||
      commands->items.empty())
    return false;
  add_dstack_variables(lines, root);
  const int first = commands->items.front().line;
  const Node* nodes = value_of(root, "nodes");
  add_variable(lines, first, "DSTACK_NODES_NUM", nodes == nullptr ? "1" : nodes->text);
  add_variable(lines, first, "DSTACK_NODE_RANK", "0");
  if (const std::string gpus = dstack_gpus(root); !gpus.empty()) {
    add_variable(lines, first, "DSTACK_GPUS_PER_NODE", gpus);
    if (nodes == nullptr) add_variable(lines, first, "DSTACK_GPUS_NUM", gpus);
  }
  for (const Node& command : commands->items) lines.add_text(command);
  return true;
}

bool is_shell_name(std::string_view word) {
  constexpr std::string_view kShells[] = {"bash", "sh", "dash", "ash", "zsh", "ksh"};
  return std::find(std::begin(kShells), std::end(kShells), base_name(word)) != std::end(kShells);
}

/// Index of the text that a shell is given behind `-c`, whatever options are in front of it and behind it: `bash -x
/// -c`, `bash -euxo pipefail -c`, `bash -c --`; 0: the words start no shell so.
std::size_t text_of_shell(const std::vector<Node>& words) {
  if (words.empty() || !is_shell_name(words[0].text)) return 0;
  bool text = false;
  std::size_t i = 1;
  for (; i < words.size(); ++i) {
    const std::string& word = words[i].text;
    if (word.size() < 2 || (word[0] != '-' && word[0] != '+')) break;
    if (word == "--rcfile" || word == "--init-file") ++i;  // bash's options with a value of their own
    if (word == "--") {
      ++i;
      break;
    }
    if (word.starts_with("--")) continue;
    text |= word[0] == '-' && word.find('c') != std::string::npos;
    i +=
        static_cast<std::size_t>(std::count(word.begin(), word.end(), 'o') + std::count(word.begin(), word.end(), 'O'));
  }
  return text && i < words.size() ? i : 0;
}

/// Kubernetes puts a variable's value in where `$(NAME)` is written.
void expand(std::string& text, const std::string& reference, const std::string& value) {
  for (std::size_t at = text.find(reference); at != std::string::npos; at = text.find(reference, at + value.size()))
    text.replace(at, reference.size(), value);
}

/// `command:` and `args:` of one container.
bool add_container(Lines& lines, const Node& map) {
  std::vector<Node> words;
  for (const char* key : {"command", "args", "arguments"})
    if (const Node* list = value_of(map, key); list != nullptr && list->kind == yaml::Kind::Sequence)
      words.insert(words.end(), list->items.begin(), list->items.end());
  if (words.empty()) return false;
  const std::size_t shell = text_of_shell(words);
  const int start = words[shell].line;  // variables are known from there on, wherever `env:` is
  const Node* variables = value_of(map, "env");
  if (variables == nullptr) variables = value_of(map, "envVars");
  if (variables != nullptr)
    for (const Node& one : variables->items) {
      const Node *name = value_of(one, "name"), *value = value_of(one, "value");
      if (name == nullptr || value == nullptr) continue;
      add_variable(lines, std::min(name->line, start), name->text, value->text);
      for (Node& word : words) expand(word.text, fmt::format("$({})", name->text), value->text);
    }
  if (shell > 0)
    lines.add_text(words[shell]);
  else
    lines.add_command(words);  // kubectl writes `args:` in front of `command:`
  return true;
}

// As deep as the document, which is bounded.
// NOLINTNEXTLINE(misc-no-recursion)
bool add_containers(Lines& lines, const Node& node) {
  bool any = add_container(lines, node);
  for (const Node& item : node.items) any |= add_containers(lines, item);
  return any;
}

/// An experiment of Beaker's: `tasks:` with `command:`, `arguments:` and `envVars:`, as its specification of version 2
/// has them.
bool add_beaker_tasks(Lines& lines, const Node& root) {
  const Node *version = value_of(root, "version"), *tasks = value_of(root, "tasks");
  if (version == nullptr || !version->text.starts_with("v2") || tasks == nullptr || tasks->kind != yaml::Kind::Sequence)
    return false;
  bool any = false;
  for (const Node& task : tasks->items) {
    if (const Node* replicas = value_of(task, "replicas"); replicas != nullptr)
      add_variable(lines, replicas->line, "BEAKER_REPLICA_COUNT", replicas->text);
    any |= add_container(lines, task);
  }
  return any;
}

/// An experiment of Determined's: `entrypoint:` starts on all slots of a trial.
bool add_determined_experiment(Lines& lines, const Node& root) {
  const Node *entry = value_of(root, "entrypoint"), *resources = value_of(root, "resources");
  const bool slots = resources != nullptr && value_of(*resources, "slots_per_trial") != nullptr;
  if (entry == nullptr || (!slots && value_of(root, "searcher") == nullptr)) return false;
  if (entry->kind == yaml::Kind::Scalar)
    lines.add_text(*entry);
  else if (entry->kind == yaml::Kind::Sequence && !entry->items.empty())
    lines.add_command(entry->items);
  return true;
}

/// What an operator tells the pods that it starts, in front of their commands: how many they are.
void add_operators_variables(Lines& lines, const Pods& pods) {
  if (!pods.hand_to_torchrun || pods.count == 0) return;
  const std::string nodes = fmt::format("{}", pods.count);
  add_variable(lines, 1, "PET_NNODES", nodes);
  add_variable(lines, 1, "NODE_NUM", nodes);  // DLRover
  // The training operator counts processes where the job states them, else pods.
  add_variable(lines, 1, "WORLD_SIZE", fmt::format("{}", std::int64_t{pods.count} * std::max(1, pods.ranks)));
  add_variable(lines, 1, "RANK", "0");
}

/// Files that a ConfigMap beside the job mounts can be opened by their names.
void let_open_mounted(LaunchSource& script, const std::vector<Node>& documents) {
  std::map<std::string, LaunchSource> files;
  for (const Node& document : documents) {
    const Node *kind = value_of(document, "kind"), *data = value_of(document, "data");
    if (kind == nullptr || kind->text != "ConfigMap" || data == nullptr || data->kind != yaml::Kind::Map) continue;
    for (std::size_t i = 0; i + 1 < data->items.size(); i += 2)
      files[data->items[i].text] = {data->items[i].text, data->items[i + 1].text, {}, {}, {}, {}};
  }
  if (files.empty()) return;
  script.open = [disk = std::move(script.open), files = std::move(files)](std::string_view name) {
    const auto found = files.find(std::string(base_name(name)));
    if (found != files.end()) return std::optional<LaunchSource>(found->second);
    return disk ? disk(name) : std::nullopt;
  };
}

}  // namespace

std::optional<LaunchSource> script_of_manifest(const LaunchSource& source) {
  const bool yaml = source.path.ends_with(".yaml") || source.path.ends_with(".yml");
  if (!yaml || is_shell(source)) return std::nullopt;
  const std::vector<Node> documents = documents_of(source.text, source.path);
  Lines lines(source.text);
  const bool kubernetes = std::any_of(documents.begin(), documents.end(), is_kubernetes);
  bool any = false;
  if (kubernetes) {
    add_operators_variables(lines, pods_of(source.text, source.path));
    for (const Node& document : documents) any |= add_containers(lines, document);
  } else if (documents.size() == 1) {
    const Node& root = documents.front();
    any = add_sky_task(lines, root) || add_dstack_task(lines, root) || add_determined_experiment(lines, root) ||
          add_beaker_tasks(lines, root);
  }
  if (!any) return std::nullopt;
  LaunchSource script = source;
  script.manifest = source.text;
  script.text = lines.text();
  if (kubernetes) let_open_mounted(script, documents);
  return script;
}

}  // namespace plan
