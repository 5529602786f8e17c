#pragma once

#include <cstdint>
#include <string>

#include "cli/launch/job/launch_job.hpp"

namespace plan {

/// How a job keeps what it has trained: checkpoints as often as pays, and time for a last one before the limit.
struct Upkeep {
  double gpu_mtbf_hours = 0;
  bool assumed = false;      ///< nobody states the rate of failures: it is what Llama 3's GPUs had
  Seconds save_time{};       ///< of one checkpoint, written at the job's bandwidth to storage
  Bytes size{};              ///< of one checkpoint
  Seconds interval{};        ///< between checkpoints
  std::int64_t every = 1;    ///< the same in steps
  std::int64_t limit_s = 0;  ///< time limit of the job; 0: none
  std::int64_t lead_s = 0;   ///< before the limit, when the ranks save and end
  std::string line() const;  ///< "a checkpoint of 980 GB every 12 steps (31 min): ..."
};

/// What runs on every node: `options.launcher`, or slurm.
[[nodiscard]] std::string launcher_of(const EmitOptions& options);

[[nodiscard]] Upkeep upkeep_of(const Plan& plan, const EmitOptions& options);

/// `--checkpoint-dir`, the site's folder, or one under its work_dir; empty: nothing is saved.
[[nodiscard]] std::string checkpoint_folder(const Plan& plan, const EmitOptions& options);

/// Minutes after which ranks that got no signal save and end by themselves; 0: never.
[[nodiscard]] std::int64_t exit_minutes(const Upkeep& upkeep);

}  // namespace plan
