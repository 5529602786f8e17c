#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formulas/result.hpp"

namespace plan {

/// Looks up a variable of the environment; empty when it is not set.
using Variables = std::function<std::optional<std::string>(std::string_view)>;
[[nodiscard]] Variables process_variables();

/// Who started this process.
enum class Launcher { None, Flags, Self, Torchrun, OpenMpi, Pmi, Pals, Flux, Slurm };
[[nodiscard]] std::string_view name(Launcher launcher);

/// This process among the ranks of its job, as the launcher says.
struct Identity {
  Launcher launcher = Launcher::None;
  int rank = 0;
  int world = 1;
  int local_rank = 0;
  int local_world = 1;
  std::string address{};             ///< host of rank 0 where the launcher names one
  std::string job_key{};             ///< the same on every rank of the job and on no other job; empty: none known
  std::vector<std::string> hosts{};  ///< nodes of the job, where stated
  std::string note{};                ///< what a user should know about the choice
};

/// Reads the environment with the precedence of plan-measuring(7) 3.1: mpirun inside a Slurm job also sees SLURM_*, and
/// torchrun under srun sees the agent's. Contradictions (rank outside world, a node list that does not parse) are
/// errors that name the variable.
[[nodiscard]] Result<Identity> detect_launcher(const Variables& variables);

}  // namespace plan
