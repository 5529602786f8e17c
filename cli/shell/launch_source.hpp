#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formulas/result.hpp"

namespace plan {

/// A value that the command which starts a job lays over the file that it names.
struct Overlay {
  std::string key{};  ///< as the file has it, with dots
  std::string value{};
  Place place{};  ///< in the script
};

struct FollowedScript;

/// A launch file as it lies on disk.
struct LaunchSource {
  std::string path{};
  std::string text{};
  std::string selector{};                ///< recipe of a Python module that was asked for
  std::vector<std::string> arguments{};  ///< of a script: $1, $2, ...
  /// Of the job that the user asked for, which a scheduler would tell the script; 0: what its own header asks for.
  int nodes = 0, gpus_per_node = 0;
  /// Opens a file that this one names, wherever it lies: beside it or above. Null: none can be opened.
  std::function<std::optional<LaunchSource>(std::string_view name)> open{};
  std::vector<std::string> notes{};  ///< what the record of a captured job lacks
  std::vector<Overlay> overlays{};   ///< of the command that names the file
  std::string manifest{};            ///< of a script that a task or a job of nodes holds: the whole file
  /// What follow_script() found of it, for every reader that asks.
  mutable std::shared_ptr<const FollowedScript> followed{};
};

/// The file that `source` names, if there is one.
[[nodiscard]] std::optional<LaunchSource> beside(const LaunchSource& source, std::string_view name);
/// Whether the file is a script of a shell, by its first line or its name.
[[nodiscard]] bool is_shell(const LaunchSource& source);

}  // namespace plan
