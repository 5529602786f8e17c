#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/launch/job/launch_job.hpp"
#include "cli/shell/shell.hpp"

/// epfLLM's Megatron-LLM, a fork of Megatron-LM whose parser takes underscores and no hyphens.
namespace plan::megatron_llm {

/// A command of its trainer.
struct Command {
  std::vector<ShellWord> words{};  ///< with the flags behind the program under Megatron-LM's own names
  std::size_t program = 0;
  std::optional<Error> refused{};  ///< what its program would not train for
};

[[nodiscard]] bool is_script(const LaunchSource& source);
/// Nothing where the command is none of its trainer's.
[[nodiscard]] std::optional<Command> command_of(const std::vector<ShellWord>& words, const std::string& file);

}  // namespace plan::megatron_llm
