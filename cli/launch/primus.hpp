#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cli/launch/dialect.hpp"

namespace plan {

/// The keys that start so, without that start.
[[nodiscard]] DialectKeys keys_under(const DialectKeys& keys, std::string_view prefix);

/// AMD's Primus: an experiment names a model's file and a module's defaults, and lays its own keys over them.
namespace primus {

struct Experiment {
  DialectKeys overrides{};  ///< what the file itself states
  DialectKeys keys{};       ///< with the model's file below
  DialectKeys defaults{};   ///< of the module
};

/// The experiment of a file with the files that it names, from `primus/configs/{models,modules}/BACKEND` above it.
[[nodiscard]] Result<Experiment> experiment_of(const LaunchSource& source, std::string_view backend);
/// The GPU that the experiment's folder names.
[[nodiscard]] LaunchFacts with_gpu(LaunchFacts facts, const LaunchSource& source);

}  // namespace primus
}  // namespace plan
