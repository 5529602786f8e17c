// Which launcher started this process and as which rank. Variables and traps: plan-measuring(7) 3.1.
// Tested by tests/hwprobe/launcher_test.cpp.
#include "hwprobe/start/launcher.hpp"

#include <fmt/core.h>

#include <charconv>
#include <cstdlib>

#include "formulas/text.hpp"
#include "hwprobe/start/nodelist.hpp"

namespace plan {
namespace {

/// The variables of one launcher; empty names do not exist there.
struct LauncherRow {
  Launcher launcher;
  std::string_view name;
  std::string_view rank, world, local_rank, local_world;
  std::string_view address;
  std::string_view key;  ///< names the job
};

// PMIx sets PMIX_NAMESPACE to the same text on every rank; Open MPI 4 also knows the job's number.
constexpr LauncherRow kLaunchers[] = {
    {Launcher::Self, "plan probe itself", "PLAN_RANK", "PLAN_WORLD", "PLAN_LOCAL_RANK", "PLAN_LOCAL_WORLD", "",
     "PLAN_JOB"},
    {Launcher::Torchrun, "torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR",
     "TORCHELASTIC_RUN_ID"},
    {Launcher::OpenMpi, "mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", "", "PMIX_NAMESPACE"},
    {Launcher::Pmi, "mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "", "PMI_JOBID"},
    {Launcher::Pals, "PALS", "PALS_RANKID", "PMI_SIZE", "PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE", "", "PALS_APID"},
    {Launcher::Flux, "Flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID", "", "", "FLUX_JOB_ID"},
};

/// A whole number of a variable that is set.
Result<int> number_of(std::string_view variable, const std::string& text) {
  if (const std::optional<int> value = as_number<int>(text); value && *value >= 0) return *value;
  return fail(Error{"bad_environment",
                    fmt::format("`{}` is `{}`, which is no rank or count", variable, text.substr(0, 40)),
                    {},
                    {fmt::format("unset {}, or start plan with a launcher that sets it", variable)}});
}

/// Whether a variable says anything: one that is exported empty does not.
bool said(const Variables& variables, std::string_view variable) {
  return !variable.empty() && !variables(variable).value_or("").empty();
}

struct Reading {
  const Variables& variables;
  Errors errors{};
  /// Of a variable that is said.
  int integer(std::string_view variable) {
    const Result<int> value = number_of(variable, text(variable));
    if (!value) errors.push_back(value.error()[0]);
    return value.value_or(-1);
  }
  int integer(std::string_view variable, int otherwise) {
    return said(variables, variable) ? integer(variable) : otherwise;
  }
  std::string text(std::string_view variable) const {
    return variable.empty() ? std::string() : variables(variable).value_or("");
  }
};

Result<Identity> checked(Identity id, Reading& reading, std::string_view rank_variable,
                         std::string_view world_variable) {
  if (!reading.errors.empty()) return fail(reading.errors);
  if (id.world < 1 || id.rank >= id.world)
    return fail(Error{"bad_environment",
                      fmt::format("`{}` is {} and `{}` is {}", rank_variable, id.rank, world_variable, id.world),
                      {"ranks count from 0 to one less than the number of ranks"},
                      {"start every rank with the same launcher"}});
  return id;
}

Result<Identity> read_row(const LauncherRow& row, const Variables& variables) {
  Reading reading{variables};
  Identity id{.launcher = row.launcher};
  id.rank = reading.integer(row.rank);
  id.world = reading.integer(row.world);
  id.local_rank = reading.integer(row.local_rank, 0);
  id.local_world = reading.integer(row.local_world, 1);
  id.address = reading.text(row.address);
  const std::string key = reading.text(row.key);
  if (row.launcher == Launcher::Self && !key.starts_with("self:")) id.launcher = Launcher::Flags;  // set by hand
  if (!key.empty() && key != "none") id.job_key = fmt::format("{}:{}", row.name, key);
  if (row.launcher == Launcher::Torchrun && id.job_key.empty())  // --rdzv-id is "none" unless given
    id.job_key = fmt::format("torchrun:{}:{}:{}", id.address, reading.text("MASTER_PORT"), id.world);
  if (row.launcher == Launcher::Pmi && id.job_key.empty() && variables("SLURM_JOB_ID"))
    id.job_key = "slurm:" + reading.text("SLURM_JOB_ID") + "." + reading.text("SLURM_STEP_ID");
  return checked(std::move(id), reading, row.rank, row.world);
}

/// A step of Slurm. In the shell of sbatch and salloc SLURM_PROCID is 0 without a step around it.
Result<Identity> read_slurm(const Variables& variables) {
  Reading reading{variables};
  Identity id{.launcher = Launcher::Slurm};
  id.rank = reading.integer("SLURM_PROCID");
  id.world = reading.integer("SLURM_STEP_NUM_TASKS");
  id.local_rank = reading.integer("SLURM_LOCALID", 0);
  id.job_key = fmt::format("slurm:{}.{}", reading.text("SLURM_JOB_ID"), reading.text("SLURM_STEP_ID"));
  Result<std::vector<std::string>> hosts = expand_nodelist(reading.text("SLURM_STEP_NODELIST"));
  if (!hosts) {
    Error error = hosts.error()[0];
    error.facts.push_back("it is in `SLURM_STEP_NODELIST`");
    error.help.push_back("give the address yourself: --rendezvous HOST:PORT, or --rendezvous file:FOLDER");
    reading.errors.push_back(std::move(error));
  } else {
    id.hosts = *std::move(hosts);
    id.address = id.hosts.front();
    const int nodes = static_cast<int>(id.hosts.size());
    id.local_world = (id.world + nodes - 1) / nodes;
  }
  return checked(std::move(id), reading, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS");
}

}  // namespace

Variables process_variables() {
  return [](std::string_view name) -> std::optional<std::string> {
    const char* value = std::getenv(std::string(name).c_str());
    if (value == nullptr) return std::nullopt;
    return std::string(value);
  };
}

std::string_view name(Launcher launcher) {
  for (const LauncherRow& row : kLaunchers)
    if (row.launcher == launcher) return row.name;
  if (launcher == Launcher::Flags) return "flags";
  return launcher == Launcher::Slurm ? "srun" : "none";
}

Result<Identity> detect_launcher(const Variables& variables) {
  for (const LauncherRow& row : kLaunchers)
    if (said(variables, row.rank) && said(variables, row.world)) return read_row(row, variables);
  if (said(variables, "SLURM_STEP_NODELIST") && said(variables, "SLURM_STEP_NUM_TASKS") &&
      said(variables, "SLURM_PROCID"))
    return read_slurm(variables);
  Identity alone;
  if (variables("SLURM_JOB_ID"))
    alone.note = fmt::format(
        "inside Slurm job {} but not in a step: probing this node alone; for the whole job write `srun "
        "--ntasks-per-node=GPUS plan probe -o node.yaml`",
        variables("SLURM_JOB_ID").value_or(""));
  return alone;
}

}  // namespace plan
