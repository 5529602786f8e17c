#pragma once

#include <cstdint>
#include <string>

#include "cli/launch/job/format.hpp"
#include "cli/shell/shell.hpp"

namespace plan {

/// `--nnodes=4` or `--nnodes 4`, and the line of the value: where it was assigned, not its use.
struct FlagAndValue {
  std::string flag{}, value{};
  int line = 0;
};
[[nodiscard]] FlagAndValue flag_at(const ShellCommand& command, std::size_t i);

/// GPUs in `0,1,2,3`, with blanks or without; 0: another word.
[[nodiscard]] int visible_devices(std::string_view list);

/// A program, by the last part of its path, that starts the ranks of a node by itself; and Python or a script of it.
[[nodiscard]] bool starts_ranks(std::string_view program);
[[nodiscard]] bool is_python(std::string_view program);

/// Ranks that are no nodes times GPUs. Launchers that disagree state nothing.
void state_ranks(int ranks, std::string where, LaunchFacts& facts);

/// Adds the nodes and GPUs that the commands of a script state, where nothing before them did.
void count_commands(const Script& script, const std::string& file, LaunchFacts& facts);

/// That launchers start other GPUs `there` than are counted for the job, which `counted_where` states.
[[nodiscard]] std::string started_elsewhere(const LaunchFacts& there, std::int64_t counted,
                                            std::string_view counted_where);

/// A command of a script that states other GPUs than the command or the header from which the job has its own; empty:
/// none.
[[nodiscard]] std::string with_other_gpus(const LaunchSource& source, const LaunchFacts& facts);

/// A command that starts more processes on a machine, `each` where its flags state none, than `CUDA_VISIBLE_DEVICES` or
/// `--gpu_ids` lets it see GPUs, at which it stops; empty: none.
[[nodiscard]] std::string with_fewer_visible(const LaunchSource& source, int each);

/// A flag of a launcher or a line of Slurm's that counts nodes or GPUs by something that is no count, at which it
/// stops; empty: none. What a variable holds is not known, and a range of nodes is a count to launchers.
[[nodiscard]] std::string with_no_count(const LaunchSource& source);

/// A flag in front of the program that its launcher does not have and that is near one of its own, at which it stops;
/// empty: none.
[[nodiscard]] std::string with_misspelt_flag(const LaunchSource& source);

/// A word in the place of a launcher that is nearly one's name, `torchrunn train.py`; empty: none.
[[nodiscard]] std::string with_misspelt_launcher(const LaunchSource& source);

/// torchrun's `--standalone` on several nodes, each of which is then alone; empty: none.
[[nodiscard]] std::string standing_alone(const LaunchSource& source, const LaunchFacts& facts);

/// A `#` in a text that a variable or a here-document makes into words of a command that trains: the shell cuts no
/// comment there; empty: none.
[[nodiscard]] std::string with_comment_word(const LaunchSource& source);

/// A manifest whose pods with GPUs are not the nodes that are counted, said in a line; empty if they agree.
[[nodiscard]] std::string with_other_pods(const LaunchSource& source, const LaunchFacts& facts);

/// Pods count as nodes where their command states none: an operator tells torchrun of them, and without one each of
/// several pods could be a job of its own.
void count_pods(const LaunchSource& source, LaunchFacts& facts);

/// Why the pods of a manifest state no GPUs, where nothing else of the job does: a number of copies that is none, or a
/// program of one process in a pod of several GPUs.
[[nodiscard]] std::optional<Error> pods_not_counted(const LaunchSource& source);

/// Nodes and GPUs that launchers among the files state (sbatch header, torchrun's flags, TrainJob, SkyPilot, hostfile).
[[nodiscard]] LaunchFacts launcher_facts(std::span<const LaunchSource> files);

}  // namespace plan
