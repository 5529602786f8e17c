// Nodes and GPUs that the pods of a manifest of Kubernetes are. Tested by tests/launch/manifests_test.cpp and
// manifest_objects_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "cli/launch/job/format.hpp"
#include "cli/launch/scripts/launcher_commands.hpp"
#include "cli/launch/scripts/pods.hpp"
#include "cli/launch/scripts/script_words.hpp"
#include "cli/shell/shell.hpp"
#include "formulas/words.hpp"

namespace plan {
namespace {

/// A Python program that no launcher starts, of which a pod has one process; empty: there is none.
std::string without_launcher(const LaunchSource& source) {
  const ShellCommand* command = training_command(follow_script(source));
  if (command == nullptr || !base_name(command->words.front().text).starts_with("python")) return {};
  for (const ShellWord& word : command->words)
    if (starts_ranks(base_name(word.text)) || word.text.starts_with("accelerate.") ||
        word.text.starts_with("deepspeed."))  // modules of launchers
      return {};
  return command->words.front().text + (command->words.size() > 1 ? " " + command->words[1].text : "");
}

}  // namespace

void count_pods(const LaunchSource& source, LaunchFacts& facts) {
  const Pods pods = pods_of(source.manifest, source.path);
  const std::string where = pods.line > 0 ? fmt::format("{}:{}", source.path, pods.line) : source.path;
  count_commands(follow_script(source), source.path, facts);
  const bool tells = pods.hand_to_torchrun && without_launcher(source).empty();
  if (tells && facts.gpus_per_node == 0) facts.gpus_per_node = pods.ranks > 0 ? pods.ranks : pods.gpus;
  if (facts.nodes > 0 || facts.ranks > 0) return;
  if (tells && pods.unread.empty()) facts.nodes = pods.count, facts.gpus_where = where;
  if (pods.hand_to_torchrun || pods.count > 1 || !pods.unread.empty()) facts.one_node.clear();
}

std::string with_other_pods(const LaunchSource& source, const LaunchFacts& facts) {
  if (source.manifest.empty() || facts.nodes == 0 || facts.gpus_per_node == 0) return {};
  const Pods pods = pods_of(source.manifest, source.path);
  if (pods.count == 0 || !pods.unread.empty()) return {};
  if (pods.gpus == 0 && pods.fewest > 0 && pods.fewest < facts.gpus_per_node)
    return fmt::format("{}:{}: some of the {} pods have {} GPUs, on which {} processes stop: counted are {} of {} each",
                       source.path, pods.line, pods.count, pods.fewest, facts.gpus_per_node, facts.nodes,
                       facts.gpus_per_node);
  if (pods.count == facts.nodes && (pods.gpus == 0 || pods.gpus == facts.gpus_per_node)) return {};
  const auto several = [](int count, const char* what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
  };
  const std::string gpus = pods.gpus == 0 ? "" : " of " + several(pods.gpus, "GPU");
  return fmt::format("{}:{}: {}{} {} started; the command's {} of {} {}", source.path, pods.line,
                     several(pods.count, pods.word), gpus, pods.count == 1 ? "is" : "are", several(facts.nodes, "node"),
                     facts.gpus_per_node, facts.nodes == 1 ? "counts" : "count");
}

std::optional<Error> pods_not_counted(const LaunchSource& source) {
  if (source.manifest.empty() || source.manifest.find("apiVersion:") == std::string::npos) return std::nullopt;
  const Pods pods = pods_of(source.manifest, source.path);
  if (!pods.unread.empty())
    return Error{"count_not_read",
                 fmt::format("{}:{}: `{}` is no number, so that it is not known how many GPUs the job has", source.path,
                             pods.unread_line, pods.unread),
                 {},
                 {"state the job's GPUs with `--gpus`, or write the number"}};
  const std::string program = without_launcher(source);
  if (program.empty() || !pods.hand_to_torchrun || (pods.gpus <= 1 && pods.ranks <= 1)) return std::nullopt;
  return Error{"one_process_a_pod",
               fmt::format("{}:{}: `{}` starts one process in a pod of {} GPUs", source.path, pods.line, program,
                           std::max(pods.gpus, pods.ranks)),
               {},
               {"start it with `torchrun`, or state the GPUs that train with `--gpus`"}};
}

}  // namespace plan
