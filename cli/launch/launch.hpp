#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/launch/job/launch_job.hpp"
#include "cli/launch/start/launcher.hpp"
#include "cli/shell/launch_source.hpp"

/// The front door of launch files: what reads those of any framework, and what writes them.
namespace plan {

/// The words of `--args`, cut at blanks.
[[nodiscard]] std::vector<std::string> script_arguments(std::string_view typed);

/// Reads launch files, whatever framework they are for; several make one job (script, JSON, the model's config.json).
/// A path may end in `:NAME`, which picks one recipe of a Python module.
[[nodiscard]] Result<LaunchJob> read_launch_files(const std::vector<std::string>& paths,
                                                  const LaunchContext& context = {});

/// The job of files that were read already.
[[nodiscard]] Result<LaunchJob> read_launch_sources(const std::vector<LaunchSource>& files,
                                                    const LaunchContext& context = {});

/// The launch files of a plan, or why the framework cannot run it, naming the axis in the way.
[[nodiscard]] Result<std::vector<LaunchFile>> write_launch(std::string_view format, const Plan& plan,
                                                           const EmitOptions& options);

/// Words that `plan emit` takes.
[[nodiscard]] std::vector<std::string> emit_words();

/// What a format's own tool does otherwise than its framework: the formats of its states, meshes of kinds of GPU.
void settle(std::string_view format, Problem& problem);

/// Framework of a format that can be written; nothing for an unknown word.
[[nodiscard]] std::optional<Framework> framework_of_format(std::string_view format);

}  // namespace plan
