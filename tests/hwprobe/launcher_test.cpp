#include "hwprobe/start/launcher.hpp"

#include <doctest/doctest.h>

#include <map>
#include <set>
#include <string_view>

using namespace plan;

namespace {
using Env = std::map<std::string, std::string, std::less<>>;
Variables of(Env env) {
  return [env = std::move(env)](std::string_view name) -> std::optional<std::string> {
    const auto found = env.find(name);
    return found == env.end() ? std::nullopt : std::optional(found->second);
  };
}
const Env kSlurmStep{{"SLURM_JOB_ID", "812"},
                     {"SLURM_STEP_ID", "0"},
                     {"SLURM_PROCID", "9"},
                     {"SLURM_STEP_NUM_TASKS", "16"},
                     {"SLURM_LOCALID", "1"},
                     {"SLURM_NTASKS", "16"},
                     {"SLURM_STEP_NODELIST", "gpu[03-04]"}};
Env with(Env env, const Env& more) {
  for (const auto& [key, value] : more) env[key] = value;
  return env;
}
}  // namespace

TEST_CASE("each launcher is known by its variables") {
  const Identity slurm = detect_launcher(of(kSlurmStep)).value();
  CHECK(slurm.launcher == Launcher::Slurm);
  CHECK(slurm.rank == 9);
  CHECK(slurm.world == 16);
  CHECK(slurm.local_rank == 1);
  CHECK(slurm.local_world == 8);
  CHECK(slurm.address == "gpu03");
  CHECK(slurm.job_key == "slurm:812.0");

  const Identity torchrun = detect_launcher(of({{"RANK", "3"},
                                                {"WORLD_SIZE", "4"},
                                                {"LOCAL_RANK", "1"},
                                                {"LOCAL_WORLD_SIZE", "2"},
                                                {"MASTER_ADDR", "10.0.0.1"},
                                                {"MASTER_PORT", "29500"},
                                                {"TORCHELASTIC_RUN_ID", "none"},
                                                {"TORCHELASTIC_USE_AGENT_STORE", "True"}}))
                                .value();
  CHECK(torchrun.launcher == Launcher::Torchrun);
  CHECK(torchrun.address == "10.0.0.1");
  CHECK(torchrun.job_key == "torchrun:10.0.0.1:29500:4");

  const Identity mpi = detect_launcher(of({{"OMPI_COMM_WORLD_RANK", "1"},
                                           {"OMPI_COMM_WORLD_SIZE", "2"},
                                           {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                           {"PMIX_NAMESPACE", "prte-7@1"}}))
                           .value();
  CHECK(mpi.launcher == Launcher::OpenMpi);
  CHECK(mpi.rank == 1);
  CHECK(mpi.job_key == "mpirun:prte-7@1");
  CHECK(detect_launcher(of({{"PMI_RANK", "0"}, {"PMI_SIZE", "4"}}))->launcher == Launcher::Pmi);
  CHECK(detect_launcher(of({{"FLUX_TASK_RANK", "2"}, {"FLUX_JOB_SIZE", "4"}, {"FLUX_JOB_ID", "f1"}}))->job_key ==
        "Flux:f1");
  CHECK(detect_launcher(of({}))->launcher == Launcher::None);
}

TEST_CASE("every launcher has a name of its own, and what starts its ranks is in it") {
  std::set<std::string_view> names;
  for (const Launcher launcher : {Launcher::None, Launcher::Flags, Launcher::Self, Launcher::Torchrun,
                                  Launcher::OpenMpi, Launcher::Pmi, Launcher::Pals, Launcher::Flux, Launcher::Slurm})
    names.insert(name(launcher));
  CHECK(names.size() == 9);
  CHECK(name(Launcher::Slurm) == "srun");
  CHECK(name(Launcher::None) == "none");
  CHECK(name(Launcher::Torchrun) == "torchrun");
}

TEST_CASE("a launcher that is silent about the node has one rank there, and a variable exported empty says nothing") {
  const Identity silent = detect_launcher(of({{"RANK", "5"}, {"WORLD_SIZE", "8"}})).value();
  CHECK(silent.rank == 5);
  CHECK(silent.world == 8);
  CHECK(silent.local_rank == 0);
  CHECK(silent.local_world == 1);
  // Not rank 0 of a job of eight, nor one of one.
  CHECK(detect_launcher(of({{"RANK", ""}, {"WORLD_SIZE", "8"}}))->launcher == Launcher::None);
  CHECK(detect_launcher(of({{"RANK", "5"}, {"WORLD_SIZE", ""}}))->launcher == Launcher::None);
  CHECK(detect_launcher(of(with(kSlurmStep, {{"RANK", ""}, {"WORLD_SIZE", ""}})))->launcher == Launcher::Slurm);
  CHECK(detect_launcher(of(with(kSlurmStep, {{"SLURM_PROCID", ""}})))->launcher == Launcher::None);
  CHECK(detect_launcher(of(with(kSlurmStep, {{"SLURM_LOCALID", ""}})))->local_rank == 0);
}

TEST_CASE("the innermost launcher wins") {
  CHECK(
      detect_launcher(of(with(kSlurmStep, {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}})))->launcher ==
      Launcher::OpenMpi);
  CHECK(detect_launcher(of(with(kSlurmStep, {{"RANK", "5"}, {"WORLD_SIZE", "8"}})))->rank == 5);
  CHECK(detect_launcher(of(with(kSlurmStep, {{"PLAN_RANK", "1"}, {"PLAN_WORLD", "2"}})))->launcher == Launcher::Flags);
}

TEST_CASE("the shell of sbatch is no step") {
  const Identity shell = detect_launcher(of({{"SLURM_JOB_ID", "812"},
                                             {"SLURM_PROCID", "0"},
                                             {"SLURM_NTASKS", "16"},
                                             {"SLURM_NODELIST", "gpu[03-04]"}}))
                             .value();
  CHECK(shell.launcher == Launcher::None);
  CHECK(shell.world == 1);
  CHECK(shell.note.find("job 812 but not in a step") != std::string::npos);
}

TEST_CASE("contradictions name the variable") {
  const auto message = [](const Env& env) {
    const auto id = detect_launcher(of(env));
    return id ? std::string() : id.error()[0].message;
  };
  CHECK(message(with(kSlurmStep, {{"SLURM_PROCID", "16"}})) == "`SLURM_PROCID` is 16 and `SLURM_STEP_NUM_TASKS` is 16");
  CHECK(message(with(kSlurmStep, {{"SLURM_STEP_NODELIST", "gpu[3-"}})).find("bracket") != std::string::npos);
  CHECK(message({{"RANK", "one"}, {"WORLD_SIZE", "2"}}).find("`RANK` is `one`") != std::string::npos);
  CHECK(message({{"RANK", "-1"}, {"WORLD_SIZE", "2"}}).find("`RANK`") != std::string::npos);
}
