#pragma once

#include <span>

#include "cli/launch/job/format.hpp"
#include "cli/launch/job/keys.hpp"

/// Tools for post-training whose trained model is sharded by PyTorch's FSDP: verl's actor and its supervised trainer,
/// NeMo-RL with DTensor, the policy of SkyRL and the actor of EasyR1.
namespace plan {

/// NeMo-RL's keys where `policy.megatron_cfg.enabled` is false.
[[nodiscard]] Result<LaunchJob> read_nemo_rl_dtensor(const StatedKeys& keys, const LaunchFacts& facts);
/// SkyRL's keys where `trainer.strategy` is none of Megatron's.
[[nodiscard]] Result<LaunchJob> read_skyrl_fsdp(const StatedKeys& keys, const LaunchFacts& facts);
/// EasyR1's keys.
[[nodiscard]] Result<LaunchJob> read_easyr1_actor(const StatedKeys& keys, const LaunchFacts& facts);

}  // namespace plan
