#pragma once

#include <optional>
#include <vector>

#include "planner/answer/plan.hpp"

namespace plan {

/// MFU below which GPUs are starved, whatever it comes from.
inline constexpr double kStarvedMfu = 0.1;
/// Tokens/s of a GPU among twice as many, as a multiple of what it does now, from which it is starved, too.
inline constexpr double kFarBetter = 2;
/// MFU from which twice the GPUs are not asked about: none could do twice as much.
inline constexpr double kFilled = 0.3;
/// Least multiple of a GPU's tokens/s that a change must bring to be named, and share of all tokens/s that fewer GPUs
/// must keep.
inline constexpr double kLift = 1.25, kAsFast = 0.9;

/// Of a plan whose GPUs are starved, what one change of the job would at least lift the tokens/s of each GPU to, the
/// most first: fewer GPUs that train nearly as fast, or else more, up to eight times; a word of `--layout` or the
/// framework left free, a larger batch, CUDA graphs; where fewer are not as fast also offload, narrower states, a
/// shorter sequence, another precision; until three fill the GPUs. Nothing if they are not starved.
[[nodiscard]] std::optional<std::vector<Advice>> starved(const Problem& asked, const Plan& plan);

/// How many times the tokens/s of a GPU the change brings.
[[nodiscard]] double lift(const Advice& one, const Plan& plan);

}  // namespace plan
