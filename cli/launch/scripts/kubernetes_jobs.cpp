// The jobs in a manifest of Kubernetes, of which the one that trains becomes a script. Tested by
// tests/launch/manifest_objects_test.cpp.
#include "cli/launch/scripts/kubernetes_jobs.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>

#include "cli/launch/scripts/manifest_lines.hpp"
#include "cli/launch/scripts/mounted_files.hpp"
#include "cli/launch/scripts/script_words.hpp"
#include "cli/shell/shell.hpp"
#include "formulas/text.hpp"

namespace plan {
namespace {

using manifest::add_container;
using manifest::add_variable;
using manifest::Lines;
using yaml::Node;

// As deep as the document, which is bounded.
// NOLINTNEXTLINE(misc-no-recursion)
void add_containers(Lines& lines, const Node& node) {
  (void)add_container(lines, node);
  for (const Node& item : node.items) add_containers(lines, item);
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

/// What of a manifest is one job: an object that starts pods, or a TrainJob with the runtime that it names.
using Parts = std::vector<const ManifestDocument*>;

bool is_runtime(const ManifestDocument& document) {
  return text_below(document.root, {"kind"}).ends_with("TrainingRuntime");
}

std::vector<Parts> jobs_of(const std::vector<ManifestDocument>& documents) {
  std::vector<Parts> jobs;
  bool train_job = false;
  for (const ManifestDocument& document : documents) {
    const std::string kind = text_below(document.root, {"kind"});
    if (!is_kubernetes(document.root) || is_runtime(document) || kind == "ConfigMap") continue;
    jobs.push_back({&document});
    if (kind != "TrainJob") continue;
    train_job = true;
    for (const ManifestDocument& other : documents)
      if (is_runtime(other) &&
          text_below(other.root, {"metadata", "name"}) == text_below(document.root, {"spec", "runtimeRef", "name"}))
        jobs.back().push_back(&other);
  }
  for (const ManifestDocument& document : documents)  // which starts nothing where no job names it
    if (!train_job && is_runtime(document)) jobs.push_back({&document});
  return jobs;
}

/// The file with the lines of one job alone, where they are.
std::string lines_of(std::string_view text, const Parts& job) {
  std::string out;
  int line = 0;
  for (const std::string_view row : split(text, "\n")) {
    ++line;
    const bool starts = std::any_of(job.begin(), job.end(), [&](const auto* part) { return line == part->first; });
    if (starts && out.ends_with("\n\n")) out.insert(out.size() - 1, "---");
    if (std::any_of(job.begin(), job.end(),
                    [&](const auto* part) { return line >= part->first && line <= part->last; }))
      out.append(row);
    out.push_back('\n');
  }
  return out;
}

// As deep as the document, which is bounded.
// NOLINTNEXTLINE(misc-no-recursion)
bool holds_command(const Node& node) {
  return manifest::has_command(node) || std::any_of(node.items.begin(), node.items.end(), holds_command);
}

/// The script of one job; nothing where it hands over no command. A TrainJob's own command goes over its runtime's.
Result<std::optional<LaunchSource>> script_of_job(const LaunchSource& source,
                                                  const std::vector<ManifestDocument>& documents, const Parts& job) {
  const auto with_command =
      std::find_if(job.begin(), job.end(), [](const auto* part) { return holds_command(part->root); });
  if (with_command == job.end()) return std::nullopt;
  LaunchSource script = source;
  Lines lines(source.text);
  script.manifest = lines_of(source.text, job);
  add_operators_variables(lines, pods_of(script.manifest, source.path));
  add_containers(lines, (*with_command)->root);
  script.text = lines.text();
  if (std::optional<Error> error = let_open_mounted(script, documents, job)) return fail(std::move(*error));
  return script;
}

bool starts_training(const LaunchSource& script) {
  const ShellCommand* command = training_command(follow_script(script));
  return command != nullptr && !trains_nothing(*command);
}

/// A script that one job of a manifest hands over.
struct JobScript {
  LaunchSource script{};
  const ManifestDocument* object = nullptr;
};

Error several_jobs(const LaunchSource& source, const std::vector<JobScript>& jobs) {
  std::string all;
  for (std::size_t i = 0; i < std::min<std::size_t>(jobs.size(), 4); ++i)
    all +=
        fmt::format("{}{} `{}` (line {})", i == 0 ? "" : ", ", text_below(jobs[i].object->root, {"kind"}),
                    yaml::printable(text_below(jobs[i].object->root, {"metadata", "name"})), jobs[i].object->root.line);
  return {"several_jobs",
          fmt::format("{}: {} objects start a job each: {}", source.path, jobs.size(), all),
          {},
          {"give a file with the one that is to be planned"}};
}

}  // namespace

Result<std::optional<LaunchSource>> script_of_kubernetes(const LaunchSource& source,
                                                         const std::vector<ManifestDocument>& documents,
                                                         Recognises* known) {
  constexpr std::size_t kMostJobs = 100;  // of which a script is made for each
  std::vector<JobScript> jobs;
  for (const Parts& job : jobs_of(documents)) {
    Result<std::optional<LaunchSource>> script = script_of_job(source, documents, job);
    if (!script) return script;
    if (*script) jobs.push_back({std::move(**script), job.front()});
    if (jobs.size() > kMostJobs) return fail(several_jobs(source, jobs));
  }
  const auto trains = [&](const JobScript& job) { return starts_training(job.script) && known(job.script); };
  const auto starts = [](const JobScript& job) { return starts_training(job.script); };
  const auto has_gpus = [&](const JobScript& job) { return pods_of(job.script.manifest, source.path).count > 0; };
  const auto keep = [&](const auto& wanted) {
    if (jobs.size() > 1 && std::any_of(jobs.begin(), jobs.end(), wanted))
      std::erase_if(jobs, [&](const JobScript& job) { return !wanted(job); });
  };
  keep(trains), keep(starts), keep(has_gpus);
  if (jobs.empty()) return std::nullopt;
  if (jobs.size() > 1) return fail(several_jobs(source, jobs));
  return std::move(jobs.front().script);
}

}  // namespace plan
