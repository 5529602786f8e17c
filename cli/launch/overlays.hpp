#pragma once

#include <set>
#include <string>

#include "cli/launch/job/format.hpp"
#include "cli/shell/shell.hpp"

namespace plan {

/// The words of a command that its program lays over the configuration file that it names, in the program's own way:
/// `--training.seq_len 8192` of torchtitan, `key=value` of LLaMA-Factory, torchtune and Composer, `--max_length 8192`
/// of TRL's, and what accelerate's launcher is told beside a file of its own. They go to `file`.
/// @return the words that were taken, by their place in the command
std::set<std::size_t> lay_over(const ShellCommand& command, const std::string& script, LaunchSource& file);

}  // namespace plan
