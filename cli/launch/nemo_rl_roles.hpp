#pragma once

#include <vector>

#include "cli/launch/dialect.hpp"

/// NeMo-RL's clusters hold more than the training.
namespace plan::nemo_rl {

struct Roles {
  Errors errors{};
  std::vector<Note> notes{};   ///< what is left out of the numbers as it should be
  std::vector<Note> unused{};  ///< what is not counted and takes memory or time
};

/// Leaves the training's share in the keys of the cluster, and sequences in those of the batches.
[[nodiscard]] Roles take_roles(DialectKeys& keys);

}  // namespace plan::nemo_rl
