#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cli/launch/job/format.hpp"

namespace plan {

/// What files are written for that is no GPU with a preset, by the words and variables that only its software has, and
/// the word and its place: ``Ascend NPUs (run.sh:3: `HCCL_CONNECT_TIMEOUT`)``. Empty: nothing says so, or the file is
/// for CUDA as well.
[[nodiscard]] std::string other_hardware(std::span<const LaunchSource> files);

/// Whether a script starts MindSpeed, whose parser has flags of its own, in Megatron-LM's program: by the same signs of
/// Ascend's software, also beside those of CUDA, or by its name outside of comments.
[[nodiscard]] bool for_ascend(const LaunchSource& script);

/// The smallest change for files that are for such hardware: `--gpu` with a preset of its kind, where there is one.
[[nodiscard]] std::string help_with_hardware(std::string_view hardware);

}  // namespace plan
