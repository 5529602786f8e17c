#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/problem/problem.hpp"

namespace plan {

/// Where models and clusters come from; the planner itself reads no files.
struct Catalogue {
  /// The preset of that name or alias, if there is one.
  std::function<std::optional<Model>(std::string_view name)> model;
  /// A cluster of `gpus` GPUs of that name; nullopt for a name nobody knows.
  std::function<std::optional<Cluster>(std::string_view gpu, int gpus_per_node, int gpus)> cluster;
  /// The switches of a stack as a release of that name had them; may be empty, where releases are not distinguished.
  std::function<Stack(std::string_view release, Stack stack)> released{};
};

/// A run as the planner sees it.
struct RunProblem {
  Problem problem{};
  Layout layout{};
  bool guessed = false;  ///< degrees that the row does not state were searched for, or its software is named loosely:
                         ///< no constant is fitted to it
  std::vector<std::string> remarks{};  ///< what was taken for something else than a cell says, in sentences
};

}  // namespace plan
