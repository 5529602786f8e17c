#pragma once

#include <optional>
#include <span>

#include "cli/launch/job/format.hpp"
#include "cli/shell/shell.hpp"

namespace plan {

/// What starts a training, whatever it is: the last such command; nullptr: the script only asks for nodes.
[[nodiscard]] const ShellCommand* training_command(const Script& script);

/// Whether the program of the command answers, converts or checks by its name, and trains nothing: the configuration
/// that it is given is no job.
[[nodiscard]] bool trains_nothing(const ShellCommand& command);

/// The flags that weigh and have other values in two commands that a loop starts; empty: none.
[[nodiscard]] std::string differing_flags(const ShellCommand& a, const ShellCommand& b);

/// Whether two commands are the same but for which machine it is on: `--node_rank`, as a job's master and workers have.
[[nodiscard]] bool starts_the_same(const ShellCommand& a, const ShellCommand& b);

/// Tells what scripts keep from every reader: what was not followed before the last program that they start, and words
/// of programs that run others which no file holds.
void tell_of_scripts(std::span<const LaunchSource> files, LaunchJob& job);

/// A line that is meant to go on with the command above it and starts one of its own, which no shell can run.
[[nodiscard]] std::optional<Error> broken_command(const LaunchSource& source);
/// Index of the word behind the program's file or module: those before it are the launcher's own. Nothing where neither
/// is named.
[[nodiscard]] std::optional<std::size_t> behind_program(const std::vector<ShellWord>& words);

/// Adds what scripts keep from every reader to the mistake that no command was found: it may be there.
void add_left_out(std::span<const LaunchSource> files, Errors& errors);

/// Names the variables that files ask the environment for, `${oc.env:NAME,8}`: their defaults are read.
void tell_of_environment(std::span<const LaunchSource> files, LaunchJob& job);

}  // namespace plan
