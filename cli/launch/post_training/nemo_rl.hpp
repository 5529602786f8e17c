#pragma once

#include <vector>

#include "cli/launch/job/keys.hpp"

namespace plan {

/// A file of NeMo-RL's with the files that it lies over.
[[nodiscard]] Result<StatedKeys> keys_of_nemo_rl(const LaunchSource& source);

/// NeMo-RL's clusters hold more than the training.
namespace nemo_rl {

struct Roles {
  Errors errors{};
  std::vector<Note> notes{};   ///< what is left out of the numbers as it should be
  std::vector<Note> unused{};  ///< what is not counted and takes memory or time
};

/// Puts the second DTensor worker's section, `policy.dtensor_v2_cfg` of forks, in the first one's place where it is on.
void take_second_dtensor(StatedKeys& keys);

/// Leaves the training's share in the keys of the cluster, and sequences in those of the batches.
[[nodiscard]] Roles take_roles(StatedKeys& keys);

}  // namespace nemo_rl
}  // namespace plan
