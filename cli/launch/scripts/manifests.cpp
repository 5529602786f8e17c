// Files that hand a command to nodes: `run:` of a SkyPilot task, `commands:` of a dstack task, `command:` and `args:`
// of a container or a TrainJob, `entrypoint:` of Determined's and `arguments:` of Beaker's experiments. The command
// becomes a script, each word on the line where it is written, so that every reader of scripts reads it. Tested by
// tests/launch/manifests_test.cpp.
#include "cli/launch/scripts/manifests.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cli/launch/scripts/kubernetes_jobs.hpp"
#include "cli/launch/scripts/manifest_lines.hpp"
#include "cli/launch/scripts/pods.hpp"
#include "cli/terminal/words.hpp"
#include "formulas/text.hpp"
#include "formulas/words.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

using manifest::add_container;
using manifest::add_variable;
using manifest::Lines;
using yaml::Node;

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

/// Whether a file that is no YAML as it is would be a task or a job of nodes: no other reader takes it then.
bool sounds_like_manifest(std::string_view text) {
  const auto any = [&](std::string_view key) {
    return text.starts_with(key) || text.find("\n" + std::string(key)) != std::string_view::npos;
  };
  return (any("apiVersion:") && any("kind:")) || (any("run:") && (any("resources:") || any("num_nodes:"))) ||
         (any("type: task") && any("commands:")) || (any("entrypoint:") && (any("searcher:") || any("resources:"))) ||
         (any("version: v2") && any("tasks:"));
}

}  // namespace

Result<std::optional<LaunchSource>> script_of_manifest(const LaunchSource& source, Recognises* known) {
  const bool yaml = source.path.ends_with(".yaml") || source.path.ends_with(".yml");
  if (!yaml || is_shell(source)) return std::nullopt;
  const ManifestDocuments documents = documents_of(source.text, source.path);
  const bool kubernetes = std::any_of(documents.all.begin(), documents.all.end(),
                                      [](const ManifestDocument& document) { return is_kubernetes(document.root); });
  if (!documents.broken.empty() && (kubernetes || sounds_like_manifest(source.text))) return fail(documents.broken);
  if (kubernetes) return script_of_kubernetes(source, documents.all, known);
  if (documents.all.size() != 1) return std::nullopt;
  const Node& root = documents.all.front().root;
  Lines lines(source.text);
  if (!add_sky_task(lines, root) && !add_dstack_task(lines, root) && !add_determined_experiment(lines, root) &&
      !add_beaker_tasks(lines, root))
    return std::nullopt;
  LaunchSource script = source;
  script.manifest = source.text;
  script.text = lines.text();
  return script;
}

}  // namespace plan
