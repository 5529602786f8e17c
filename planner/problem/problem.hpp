#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "formulas/cluster.hpp"
#include "formulas/model.hpp"
#include "formulas/pool.hpp"
#include "formulas/training.hpp"
#include "planner/problem/axes.hpp"
#include "planner/problem/framework.hpp"

namespace plan {

enum class Objective { StepTime, Memory, Cost };

/// Switches of a job that a search may turn (planner/search/switches.hpp), one bit each.
using SwitchMask = std::uint8_t;
enum Switch : SwitchMask {
  kSwitchGraphs = 1,       ///< CUDA graphs launch what parts of a layer they can
  kSwitchOptimizer = 2,    ///< the optimizer's states wait in host memory
  kSwitchActivations = 4,  ///< so do the inputs of every module that can leave them there
  kSwitchWeights = 8,      ///< with the optimizer's states their sharded weights and gradients wait there, too
};

/// How much of the GPU's memory a plan must leave free. Where nobody says: what the prediction may be wrong by.
struct Headroom {
  std::optional<double> share{};  ///< of the GPU's memory
  std::optional<double> bytes{};
  bool accept_risk = false;  ///< a plan that may fit will do
  bool operator==(const Headroom&) const = default;
};

/// Where a resolved input came from.
enum class Origin { Flag, Preset, Profile, File, Default };

/// A resolved input as reports print it, in a fixed order.
struct Input {
  std::string key;
  std::string value;
  Origin origin = Origin::Default;
  std::string where{};   ///< file and line, for presets and launch files
  std::string digest{};  ///< SHA-256 of the preset that it names
  bool guessed = false;  ///< nobody stated it, and no framework's default decides it
};

/// Null if none has the key.
[[nodiscard]] inline const Input* find_input(const std::vector<Input>& inputs, std::string_view key) {
  for (const Input& input : inputs)
    if (input.key == key) return &input;
  return nullptr;
}

/// Something the reader must know to judge the numbers. `code` is stable, `text` is for people.
struct Note {
  std::string code;
  std::string text;
};

/// Everything that a plan follows from. The same problem gives the same plan.
struct Problem {
  Model model{};
  Cluster cluster{};
  Training training{};
  int gpus = 0;
  Fixed fixed{};
  Framework framework = Framework::Any;
  bool built = false;  ///< a launch file states model and framework: that builds it, whatever its releases do
  int release = 0;     ///< minor number of Megatron core that must run it; 0: the newest
  Objective objective = Objective::StepTime;
  Headroom headroom{};
  SwitchMask free_switches = 0;         ///< that nobody stated: a search for speed may turn them on
  SwitchMask switched = 0;              ///< that a search turned on
  int top = 4;                          ///< layouts to report, the best included
  bool pareto = false;                  ///< also keep the front of memory against step time
  bool per_stage = false;               ///< also find layers and recomputation of every stage by itself
  std::vector<Cluster> alternatives{};  ///< other hardware to suggest when nothing fits
  /// The same for whoever leaves them out: asked only when nothing fits.
  std::function<std::vector<Cluster>(const Cluster&)> more_alternatives{};
  int threads = 0;  ///< 0 = all cores; the answer does not depend on it
  std::vector<Input> inputs{};
  std::vector<Note> notes{};   ///< what launch files leave open or misspell
  std::vector<Note> unused{};  ///< what they state that would change the answer and has no meaning here
  /// Where an input that no launch file states would be written ("run.sh:12").
  std::map<std::string, std::string, std::less<>> homes{};
  /// Kinds of GPU in the order in which they were named; none: all are of `cluster`. With several, `gpus` counts them
  /// all and `cluster` represents them together (planner/pools/pools.hpp, joined()).
  std::vector<Pool> pools{};
  /// Networks between two of them that differ from `cluster`'s, by their places in `pools`.
  std::vector<PoolLink> pool_links{};
  /// The framework gives each pool a process mesh with tp and dp of its own, as FlagScale does.
  bool mesh_per_pool = false;
  /// Axes that were fixed for each pool alone, in the same order; none: `fixed` holds for all of them.
  std::vector<Fixed> pool_fixed{};
};

}  // namespace plan
