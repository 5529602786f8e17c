#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cli/launch/dialect/dialect.hpp"

namespace plan {

/// AMD's Primus: an experiment names a model's file and a module's defaults, and lays its own keys over them.
namespace primus {

struct Experiment {
  StatedKeys overrides{};  ///< what the file itself states
  StatedKeys keys{};       ///< with the model's file below
  StatedKeys defaults{};   ///< of the module
};

/// The experiment of a file with the files that it names, from `primus/configs/{models,modules}/BACKEND` above it.
[[nodiscard]] Result<Experiment> experiment_of(const LaunchSource& source, std::string_view backend);
/// The GPU that the experiment's folder names.
[[nodiscard]] LaunchFacts with_gpu(LaunchFacts facts, const LaunchSource& source);

}  // namespace primus
}  // namespace plan
