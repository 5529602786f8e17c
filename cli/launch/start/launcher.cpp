// How a command starts on every node: sbatch, torchrun, Kubernetes TrainJob, SkyPilot, hostfile.
// Tested by tests/frameworks/quoting_test.cpp.
#include "cli/launch/start/launcher.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "cli/launch/start/slurm.hpp"
#include "formulas/text.hpp"
#include "presets/suggest.hpp"

namespace plan {
namespace {

struct Nodes {
  int count = 1;
  int gpus = 8;     ///< per node
  int segment = 0;  ///< nodes that stay in one NVLink domain wider than a node; 0 = no such domain
};

/// Largest number of nodes up to a domain's that divides all of them, so that no group leaves its domain.
int segment_of(int nodes, int per_domain) {
  for (int size = std::min(nodes, per_domain); size > 1; --size)
    if (nodes % size == 0) return size;
  return 0;
}

Nodes nodes_of(const Plan& plan) {
  const Cluster& cluster = plan.problem.cluster;
  Nodes nodes;
  nodes.gpus = std::clamp(cluster.gpus_per_node, 1, std::max(1, plan.problem.gpus));
  nodes.count = std::max(1, (plan.problem.gpus + nodes.gpus - 1) / nodes.gpus);
  const int domain = cluster.scale_up_size() / nodes.gpus;
  if (domain > 1 && nodes.count > 1) nodes.segment = segment_of(nodes.count, domain);
  return nodes;
}

std::string header(const LaunchCommand& command) {
  std::string out = fmt::format("# {}\n", command.title);
  for (const std::string& line : command.comments) out += fmt::format("#{}{}\n", line.empty() ? "" : " ", line);
  return out;
}

std::string exports(const LaunchCommand& command) {
  std::string out;
  for (const auto& [name, value] : command.environment) out += fmt::format("export {}={}\n", name, shell_quoted(value));
  for (const std::string& line : command.setup) out += line + "\n";
  return out;
}

std::string arrays(const LaunchCommand& command) {
  std::string out;
  for (const ArgumentGroup& group : command.groups) {
    out += fmt::format("{}=(\n", group.name);
    for (const std::string& line : group.lines) out += fmt::format("    {}\n", line);
    out += ")\n";
  }
  return out;
}

/// `"${MODEL_ARGS[@]}" "${DATA_ARGS[@]}"`
std::string all_arrays(const LaunchCommand& command) {
  std::string out;
  for (const ArgumentGroup& group : command.groups) out += fmt::format(" \"${{{}[@]}}\"", group.name);
  return out;
}

LaunchFile slurm(const LaunchCommand& command, const Nodes& nodes, const Plan& plan, const EmitOptions& options) {
  BatchJob job{.name = job_name(plan, options),
               .nodes = nodes.count,
               .gpus = nodes.gpus,
               .segment = nodes.segment,
               .per_rank = options.site.has_value() && command.starter == "torchrun",
               .header = header(command),
               .before = exports(command),
               .command = {}};
  job.before += "MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n";
  job.before += "MASTER_PORT=${MASTER_PORT:-29500}\n";
  if (job.per_rank) job.before += "export MASTER_ADDR MASTER_PORT\n";
  if (options.site && !job.per_rank) job.before += "export LOGS\n";
  job.before += "\n" + arrays(command) + "\n";
  if (job.per_rank)
    job.command = fmt::format("bash -c '{}python3 -u \"$@\"' rank \\\n    {} \\\n   {}", rank_start(options),
                              command.program, all_arrays(command));
  else
    job.command = fmt::format(
        "bash -c 'exec {} {}--nnodes \"$SLURM_NNODES\" --nproc-per-node {} --node-rank \"$SLURM_NODEID\" "
        "--master-addr \"$0\" --master-port \"$1\" \"${{@:2}}\"' \\\n    \"$MASTER_ADDR\" \"$MASTER_PORT\" {} \\\n   "
        "{}",
        command.starter, torchrun_words(options), nodes.gpus, command.program, all_arrays(command));
  return {command.stem + ".sbatch", batch_script(job, plan, options), true};
}

LaunchFile torchrun(const LaunchCommand& command, const Nodes& nodes, const Plan& plan, const EmitOptions& options) {
  std::string text = "#!/bin/bash\n" + header(command);
  text += nodes.count > 1 ? "# On every node: NODE_RANK=0.." + std::to_string(nodes.count - 1) +
                                " MASTER_ADDR=<node 0> ./" + command.stem + ".sh\n"
                          : "";
  text += "set -euo pipefail\n\n" + site_opening(plan, options) + site_preflight(options) + exports(command);
  text += "NODE_RANK=${NODE_RANK:-0}\nMASTER_ADDR=${MASTER_ADDR:-127.0.0.1}\nMASTER_PORT=${MASTER_PORT:-29500}\n\n";
  text += arrays(command) + "\n";
  text += fmt::format("exec {} {}--nnodes {} --nproc-per-node {} --node-rank \"$NODE_RANK\" \\\n", command.starter,
                      torchrun_words(options), nodes.count, nodes.gpus);
  text += fmt::format("    --master-addr \"$MASTER_ADDR\" --master-port \"$MASTER_PORT\" \\\n    {} \\\n   {}\n",
                      command.program, all_arrays(command));
  return {command.stem + ".sh", text, true};
}

/// Words of a line that shell_quoted has put together.
std::vector<std::string> split_words(const std::string& line) {
  std::vector<std::string> words;
  std::string word;
  bool started = false, quoted = false, escaped = false;
  for (const char c : line) {
    if (escaped) {
      word.push_back(c), escaped = false;
    } else if (c == '\\' && !quoted) {
      escaped = started = true;
    } else if (c == '\'') {
      quoted = !quoted, started = true;
    } else if (c == ' ' && !quoted) {
      if (started) words.push_back(std::exchange(word, {}));
      started = false;
    } else {
      word.push_back(c), started = true;
    }
  }
  if (started) words.push_back(word);
  return words;
}

LaunchFile train_job(const LaunchCommand& command, const Nodes& nodes, const std::string& name,
                     const EmitOptions& options) {
  std::string text = header(command);
  text += "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata:\n";
  text += fmt::format("  name: {}\nspec:\n  runtimeRef:\n    apiGroup: trainer.kubeflow.org\n", name);
  text += "    kind: ClusterTrainingRuntime\n    name: torch-distributed\n  trainer:\n";
  text += fmt::format("    image: {}\n",
                      string_quoted(options.image.empty() ? "nvcr.io/nvidia/nemo:26.08" : options.image));
  text += fmt::format("    numNodes: {}\n    numProcPerNode: {}\n    resourcesPerNode:\n", nodes.count, nodes.gpus);
  text += fmt::format("      requests:\n        nvidia.com/gpu: {0}\n      limits:\n        nvidia.com/gpu: {0}\n",
                      nodes.gpus);
  // The controller tells torchrun nodes, ranks and address in PET_* variables; flags of its own would be refused.
  text += "    command:\n";
  for (const std::string& word : split_words(command.starter)) text += fmt::format("      - {}\n", word);
  text += "    args:\n";
  for (const std::string& word : split_words(command.plain_program))
    text += fmt::format("      - {}\n", string_quoted(word));
  for (const ArgumentGroup& group : command.groups)
    for (const std::string& line : group.lines)
      for (const std::string& word : split_words(line)) text += fmt::format("      - {}\n", string_quoted(word));
  std::vector<std::pair<std::string, std::string>> variables = command.environment;
  if (options.site)  // those that both state are the same: else they were refused
    for (const auto& variable : options.site->environment)
      if (std::find(variables.begin(), variables.end(), variable) == variables.end()) variables.push_back(variable);
  if (!variables.empty()) text += "    env:\n";
  for (const auto& [variable, value] : variables)
    text += fmt::format("      - name: {}\n        value: {}\n", variable, string_quoted(value));
  return {"trainjob.yaml", text, false};
}

/// SkyPilot's name for the cluster's GPU, as its catalogue has it: H100:8.
std::string sky_gpu(const Plan& plan) {
  const std::string& name = plan.problem.cluster.gpu.name;
  return capitals(name.substr(0, name.find('-')));
}

LaunchFile skypilot(const LaunchCommand& command, const Nodes& nodes, const std::string& name, const Plan& plan,
                    const EmitOptions& options) {
  const std::string& image = options.image;
  std::string text = header(command);
  text += fmt::format("name: {}\nnum_nodes: {}\nresources:\n  accelerators: {}:{}\n{}run: |\n", name, nodes.count,
                      sky_gpu(plan), nodes.gpus,
                      image.empty() ? "" : fmt::format("  image_id: {}\n", string_quoted("docker:" + image)));
  std::string script = "set -euo pipefail\n" + site_opening(plan, options) + site_preflight(options);
  script += exports(command) + arrays(command) + command.starter + " " + torchrun_words(options);
  script +=
      "--nnodes \"$SKYPILOT_NUM_NODES\" --nproc-per-node \"$SKYPILOT_NUM_GPUS_PER_NODE\" \\\n"
      "    --node-rank \"$SKYPILOT_NODE_RANK\" --master-addr \"$(echo \"$SKYPILOT_NODE_IPS\" | head -n 1)\" \\\n";
  script += fmt::format("    --master-port 29500 {} \\\n   {}\n", command.program, all_arrays(command));
  for (std::size_t at = 0; at < script.size();) {
    const std::size_t end = script.find('\n', at);
    text += "  " + script.substr(at, end - at) + "\n";
    at = end + 1;
  }
  return {"sky.yaml", text, false};
}

LaunchFile hostfile(const Nodes& nodes) {
  std::string text;
  for (int node = 0; node < nodes.count; ++node) text += fmt::format("node-{} slots={}\n", node, nodes.gpus);
  return {"hostfile", text, false};
}

}  // namespace

std::vector<std::string> launcher_words() { return {"slurm", "torchrun", "k8s", "skypilot", "hostfile"}; }

std::string string_quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\u{:04x}", byte);
    } else {
      if (c == '"' || c == '\\') out.push_back('\\');
      out.push_back(c);
    }
  }
  return out + "\"";
}

std::string string_unquoted(std::string_view text) {
  if (text.size() < 2 || text.front() != '"' || text.back() != '"') return std::string(text);
  text = text.substr(1, text.size() - 2);
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out.push_back(text[i]);
    } else if (text[++i] == 'u' && i + 4 < text.size()) {
      out.push_back(static_cast<char>(std::strtol(std::string(text.substr(i + 1, 4)).c_str(), nullptr, 16)));
      i += 4;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

std::string job_name(const Plan& plan, const EmitOptions& options) {
  std::string out;
  for (const char c : options.name.empty() ? "plan-" + plan.problem.model.name : options.name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      out.push_back(lower_case(c));
    else if (!out.empty() && out.back() != '-')
      out.push_back('-');
  }
  out.resize(std::min<std::size_t>(out.size(), 50));
  while (!out.empty() && out.back() == '-') out.pop_back();
  return out.empty() ? "plan" : out;
}

Errors beyond_itself(std::string_view format, const EmitOptions& options, std::string_view also) {
  const auto error = [&](std::string_view flag, const std::string& word) {
    return Error{"not_expressible",
                 fmt::format("{} starts its own processes; `{} {}` does not go with it", format, flag, word),
                 {},
                 {fmt::format("leave `{}` out", flag)}};
  };
  Errors errors;
  if (!options.launcher.empty() && options.launcher != also) errors.push_back(error("--launcher", options.launcher));
  if (options.site) errors.push_back(error("--site", options.site->file));
  return errors;
}

Result<std::vector<LaunchFile>> write_launcher(const LaunchCommand& command, const Plan& plan,
                                               const EmitOptions& options) {
  const Nodes nodes = nodes_of(plan);
  const std::string name = job_name(plan, options), launcher = launcher_of(options);
  std::vector<LaunchFile> files;
  if (Errors errors = site_mistakes(plan, options, command.environment); !errors.empty())
    return fail(std::move(errors));
  if (!options.image.empty() && launcher != "k8s" && launcher != "skypilot" && launcher != "slurm")
    return fail({"not_expressible",
                 fmt::format("`--image` does not go with `--launcher {}`, which starts on the node itself", launcher),
                 {},
                 {"write `--launcher slurm`, `k8s` or `skypilot`, or leave `--image` out"}});
  LaunchCommand kept = command;
  if (!checkpoint_folder(plan, options).empty()) kept.comments.push_back(upkeep_of(plan, options).line());
  if (launcher == "slurm") files = {slurm(kept, nodes, plan, options)};
  if (launcher == "torchrun") files = {torchrun(kept, nodes, plan, options)};
  if (launcher == "k8s") files = {train_job(kept, nodes, name, options)};
  if (launcher == "skypilot") files = {skypilot(kept, nodes, name, plan, options)};
  if (launcher == "hostfile") files = {torchrun(kept, nodes, plan, options), hostfile(nodes)};
  if (!files.empty()) return files;
  Error error{"unknown_launcher", fmt::format("unknown launcher `{}`", launcher), {}, {}};
  suggest(error, launcher, launcher_words());
  return fail(error);
}

}  // namespace plan
