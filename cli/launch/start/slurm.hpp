#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/launch/job/launch_job.hpp"
#include "cli/launch/start/upkeep.hpp"

namespace plan {

/// A batch job of whole nodes: what is asked of Slurm, and what runs on every node or for every GPU.
struct BatchJob {
  std::string name{};
  int nodes = 1;
  int gpus = 8;           ///< per node
  int segment = 0;        ///< nodes that stay in one NVLink domain wider than a node; 0: no such domain
  bool per_rank = false;  ///< a task a GPU: ranks get Slurm's signals themselves. Else one a node.
  std::string header{};   ///< comments, each line begun with #
  std::string before{};   ///< shell lines of the job's own: variables, arguments
  std::string command{};  ///< what srun starts: `bash -c '...' words`, one line or more
};

/// The whole script. Without a site: ready to try, in the folder where it is submitted. With one: ready to run for
/// days.
[[nodiscard]] std::string batch_script(const BatchJob& job, const Plan& plan, const EmitOptions& options);

/// `cd`, set-up and variables of the site, and the folders that the job writes to; nothing without a site.
[[nodiscard]] std::string site_opening(const Plan& plan, const EmitOptions& options);
/// `plan probe --check` on the node itself, for launchers that start one script a node; nothing without a site.
[[nodiscard]] std::string site_preflight(const EmitOptions& options);
/// torchrun's words for one file a rank and for the CPUs beside its GPU; nothing without a site.
[[nodiscard]] std::string torchrun_words(const EmitOptions& options);
/// The words in front of a rank's program that bind it, and the variables that torchrun would have set.
[[nodiscard]] std::string rank_start(const EmitOptions& options);

/// What of the site does not go with the launcher, the plan's own variables or the container; nothing without a site.
[[nodiscard]] Errors site_mistakes(const Plan& plan, const EmitOptions& options,
                                   const std::vector<std::pair<std::string, std::string>>& environment);

}  // namespace plan
