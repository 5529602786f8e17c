#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/launch/job/launch_job.hpp"
#include "presets/shell_quoted.hpp"

namespace plan {

/// Arguments that belong together, as one shell array: MODEL_ARGS=( ... ), a line per entry.
struct ArgumentGroup {
  std::string name{};
  std::vector<std::string> lines{};  ///< each "--flag value ...", quoted for a shell where it needs to be
};

/// What runs on each GPU: torchrun [-m module] program arguments.
struct LaunchCommand {
  std::string starter = "torchrun";     ///< what starts the ranks of a node; another one takes torchrun's flags
  std::string title{};                  ///< "Llama-3.1-405B on 16384 GPUs"
  std::vector<std::string> comments{};  ///< lines of the header
  std::vector<std::pair<std::string, std::string>> environment{};
  std::vector<std::string> setup{};  ///< shell lines before the launch: paths that the user sets
  std::string program{};             ///< in shell words: "$MEGATRON_PATH/pretrain_gpt.py" or -m torchtitan.train
  std::string plain_program{};       ///< without a shell, for containers: pretrain_gpt.py
  std::vector<ArgumentGroup> groups{};
  std::string stem = "run";  ///< file name without its suffix
};

/// Words that `--launcher` takes.
[[nodiscard]] std::vector<std::string> launcher_words();

/// The files of `options.launcher` that start the command on every node of the plan's cluster.
[[nodiscard]] Result<std::vector<LaunchFile>> write_launcher(const LaunchCommand& command, const Plan& plan,
                                                             const EmitOptions& options);

/// What of the options a tool that starts its own processes has no place for; `also` is a launcher that it takes.
[[nodiscard]] Errors beyond_itself(std::string_view format, const EmitOptions& options, std::string_view also = "");

/// `text` in double quotes as YAML, TOML, JSON and Python read it, whatever it holds.
[[nodiscard]] std::string string_quoted(std::string_view text);
/// What `string_quoted` was given; any other text as it is.
[[nodiscard]] std::string string_unquoted(std::string_view text);
/// A name that job schedulers and Kubernetes take: lower case, digits and dashes, at most 50 characters.
[[nodiscard]] std::string job_name(const Plan& plan, const EmitOptions& options);

}  // namespace plan
