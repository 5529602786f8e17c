#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formulas/result.hpp"
#include "planner/estimate/failures.hpp"

namespace plan {

/// What a cluster asks of a job that no plan knows: the file of `plan emit --site`. Paths are the cluster's, absolute.
struct Site {
  std::string file{};
  std::string work_dir{};            ///< where the job's files lie and the job runs; empty: not stated
  std::string checkpoints{};         ///< empty: `checkpoints/` and the job's name under work_dir
  std::string logs{};                ///< one file a rank; empty: `logs` under work_dir
  std::vector<std::string> setup{};  ///< shell lines before the job: modules, an environment of Python's
  std::vector<std::pair<std::string, std::string>> environment{};
  std::string preflight = "plan";                             ///< program whose `probe --check` goes first; empty: none
  std::vector<std::pair<std::string, std::string>> sbatch{};  ///< partition, account, ... as sbatch's flags have them
  std::int64_t time_limit_s = 24 * 3600;
  int requeue = 10;  ///< times that a job which failed or ran out of time starts again
  std::string image{};
  std::vector<std::string> mounts{};  ///< `/from:/to` or `/from:/to:ro`
  int cpus_per_gpu = 0;               ///< 0: Slurm's default
  bool numa = false;                  ///< every rank on the CPUs and the memory beside its GPU
  FailureFacts failures{};
  std::map<std::string, Place, std::less<>> stated{};  ///< every word of the file: `slurm.partition`
};

/// Reads a site file. Every mistake at once: unknown words, relative paths, what a launcher would take for another
/// word.
[[nodiscard]] Result<Site> read_site(const std::string& path);

/// Words of the site that `launcher` has no place for, each with its place.
[[nodiscard]] Errors unused_by(const Site& site, std::string_view launcher);

/// A variable of the site that the launcher sets itself, or that the plan needs at another value.
[[nodiscard]] Errors clashes(const Site& site, const std::vector<std::pair<std::string, std::string>>& environment);

}  // namespace plan
