// Batch scripts of Slurm. A job of a site runs for days: each rank is a task, so that signals reach it without
// torchrun's half minute between them; before the time limit Slurm wakes the script, which tells the ranks to save and
// end; and a job that failed or ran out of time goes back into the queue and goes on from its last checkpoint. Source:
// sbatch(1), srun(1), scancel(1) of Slurm 24.05. Tested by tests/cli/site_test.cpp, which runs the scripts.
#include "cli/launch/start/slurm.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/launch/start/launcher.hpp"

namespace plan {
namespace {

std::string logs_of(const Site& site) { return site.logs.empty() ? site.work_dir + "/logs" : site.logs; }

/// Folder of a mount inside the container.
std::string_view target_of(std::string_view mount) {
  mount.remove_prefix(mount.find(':') + 1);
  return mount.substr(0, mount.find(':'));
}

bool holds(std::string_view folder, std::string_view path) {
  while (folder.size() > 1 && folder.back() == '/') folder.remove_suffix(1);
  return path == folder || (path.starts_with(folder) && (folder == "/" || path[folder.size()] == '/'));
}

bool mounted(const Site& site, std::string_view path) {
  return std::any_of(site.mounts.begin(), site.mounts.end(),
                     [&](const std::string& mount) { return holds(target_of(mount), path); });
}

/// Enroot's container by way of pyxis; the folder of the job is mounted where it is.
std::string container(const EmitOptions& options) {
  if (options.image.empty()) return {};
  if (!options.site)
    return fmt::format("--container-image={} --container-mounts=\"$PWD:$PWD\" --container-workdir=\"$PWD\" ",
                       shell_quoted(options.image));
  const Site& site = *options.site;
  std::vector<std::string> mounts = site.mounts;
  if (!mounted(site, site.work_dir)) mounts.insert(mounts.begin(), site.work_dir + ":" + site.work_dir);
  return fmt::format("--container-image={} --container-mounts={} --container-workdir={} ", shell_quoted(options.image),
                     shell_quoted(fmt::format("{}", fmt::join(mounts, ","))), shell_quoted(site.work_dir));
}

std::string directives(const BatchJob& job, const Upkeep& upkeep, const EmitOptions& options) {
  const int tasks = job.per_rank ? job.gpus : 1;
  std::string out = fmt::format("#SBATCH --job-name={}\n#SBATCH --nodes={}\n#SBATCH --ntasks-per-node={}\n", job.name,
                                job.nodes, tasks);
  out += fmt::format("#SBATCH --gpus-per-node={}\n", job.gpus);
  if (job.segment > 0) out += fmt::format("#SBATCH --segment={}\n", job.segment);
  if (options.site && options.site->cpus_per_gpu > 0)
    out += fmt::format("#SBATCH --cpus-per-task={}\n", options.site->cpus_per_gpu * (job.gpus / tasks));
  out += "#SBATCH --exclusive\n#SBATCH --mem=0\n";
  if (!options.site) return out + "#SBATCH --time=24:00:00\n#SBATCH --output=%x-%j.out\n";
  const Site& site = *options.site;
  for (const auto& [key, value] : site.sbatch) out += fmt::format("#SBATCH --{}={}\n", key, value);
  const std::int64_t s = site.time_limit_s;
  out += fmt::format("#SBATCH --time={}-{:02}:{:02}:{:02}\n", s / 86400, s / 3600 % 24, s / 60 % 60, s % 60);
  out += fmt::format("#SBATCH --signal=B:USR1@{}\n", upkeep.lead_s);
  out += site.requeue > 0 ? "#SBATCH --requeue\n#SBATCH --open-mode=append\n" : "#SBATCH --no-requeue\n";
  return out + fmt::format("#SBATCH --chdir={0}\n#SBATCH --output={0}/%x-%j.out\n", site.work_dir);
}

std::string srun(const BatchJob& job, const EmitOptions& options) {
  std::string out = "srun --kill-on-bad-exit=1 ";
  if (options.site) {
    const Site& site = *options.site;
    out += "--output=\"$LOGS/%x-%j-%t.log\" --open-mode=append ";
    // Steps do not inherit the batch job's number of CPUs.
    if (site.cpus_per_gpu > 0)
      out += fmt::format("--cpus-per-task={} ", site.cpus_per_gpu * (job.per_rank ? 1 : job.gpus));
    if (site.numa) out += "--cpu-bind=none ";
  }
  return out + container(options);
}

/// A step of its own, a task a GPU like the probe itself, in the container that trains.
std::string preflight(const BatchJob& job, const EmitOptions& options) {
  if (options.site->preflight.empty()) return {};
  return fmt::format(
      "# Is every node fit for the job? Says what is wrong with which one.\n"
      "if ! srun --ntasks={} --ntasks-per-node={} --cpu-bind=none {}{} probe --check; then\n"
      "    echo 'the preflight failed, see above: nothing was started' >&2\n    exit 1\nfi\n\n",
      job.nodes * job.gpus, job.gpus, container(options), shell_quoted(options.site->preflight));
}

/// Runs the step so that the script hears of the limit, and decides what comes after it. A signal ends a `wait` with a
/// status of its own: only a wait during which none came tells how the step ended, also if it had ended before.
std::string watched(const BatchJob& job, const Upkeep& upkeep, const EmitOptions& options) {
  std::string out = fmt::format(
      "# {} s before the limit Slurm sends USR1 here: the ranks are told to save and to end.\n"
      "late=0\ntrap 'late=$((late + 1)); scancel --signal=TERM \"$SLURM_JOB_ID\"' USR1\n"
      "# shellcheck disable=SC2016\n",
      upkeep.lead_s);
  out += srun(job, options) + job.command + " &\nstep=$! heard=-1\n";
  out += "while ((heard != late)); do\n    heard=$late status=0\n    wait \"$step\" || status=$?\ndone\n";
  if (options.site->requeue > 0)
    out += fmt::format(
        "# Failed, or out of time: once more, from the last checkpoint.\n"
        "if ((status != 0 || late)) && ((${{SLURM_RESTART_COUNT:-0}} < {})); then\n"
        "    scontrol requeue \"$SLURM_JOB_ID\"\nfi\n",
        options.site->requeue);
  return out + "exit \"$status\"\n";
}

/// Whether every path of the job lies in what the container mounts.
Errors unmounted(const Plan& plan, const EmitOptions& options) {
  Errors errors;
  if (options.image.empty() || launcher_of(options) != "slurm") return errors;
  const Site& site = *options.site;
  for (const std::string& path :
       {checkpoint_folder(plan, options), logs_of(site), options.data_path, options.tokenizer}) {
    if (path.empty() || path.front() != '/' || holds(site.work_dir, path) || mounted(site, path)) continue;
    errors.push_back({"conflicting_keys",
                      fmt::format("`{}` lies in no folder that the container mounts", path),
                      {},
                      {fmt::format("add `{0}:{0}` to `container.mounts`", path)}});
  }
  return errors;
}

}  // namespace

std::string site_opening(const Plan& plan, const EmitOptions& options) {
  if (!options.site) return {};
  const Site& site = *options.site;
  std::string out = fmt::format("cd -- {}\n", shell_quoted(site.work_dir));
  for (const std::string& line : site.setup) out += line + "\n";
  for (const auto& [name, value] : site.environment) out += fmt::format("export {}={}\n", name, shell_quoted(value));
  out += fmt::format("LOGS={}\nmkdir -p -- \"$LOGS\" {}\n", shell_quoted(logs_of(site)),
                     shell_quoted(checkpoint_folder(plan, options)));
  return out;
}

std::string site_preflight(const EmitOptions& options) {
  if (!options.site || options.site->preflight.empty()) return {};
  return fmt::format("# Is this node fit for the job?\n{} probe --check\n\n", shell_quoted(options.site->preflight));
}

std::string torchrun_words(const EmitOptions& options) {
  if (!options.site) return {};
  return fmt::format("--log-dir \"$LOGS\" --tee 3 {}", options.site->numa ? "--numa-binding node " : "");
}

std::string rank_start(const EmitOptions& options) {
  std::string out = "export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS; ";
  if (!options.site || !options.site->numa) return out + "exec ";
  // A GPU's bus as the kernel names it: lower case, with four digits of domain. Node -1: the machine has but one.
  out += "gpu=$(nvidia-smi --id=\"$LOCAL_RANK\" --query-gpu=pci.bus_id --format=csv,noheader); gpu=${gpu,,}; ";
  out += "numa=-1; read -r numa < \"/sys/bus/pci/devices/${gpu:4}/numa_node\"; ((numa >= 0)) || numa=0; ";
  return out + "exec numactl --cpunodebind=\"$numa\" --membind=\"$numa\" ";
}

Errors site_mistakes(const Plan& plan, const EmitOptions& options,
                     const std::vector<std::pair<std::string, std::string>>& environment) {
  if (!options.site) return {};
  Errors errors = unused_by(*options.site, launcher_of(options));
  for (Errors more : {clashes(*options.site, environment), unmounted(plan, options)})
    errors.insert(errors.end(), more.begin(), more.end());
  return errors;
}

std::string batch_script(const BatchJob& job, const Plan& plan, const EmitOptions& options) {
  const Upkeep upkeep = upkeep_of(plan, options);
  std::string out = "#!/bin/bash\n" + directives(job, upkeep, options) + job.header + "set -euo pipefail\n\n";
  if (!options.site)
    return out + job.before + "# shellcheck disable=SC2016\n" + srun(job, options) + job.command + "\n";
  return out + site_opening(plan, options) + "\n" + preflight(job, options) + job.before +
         watched(job, upkeep, options);
}

}  // namespace plan
