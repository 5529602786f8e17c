#pragma once

#include <cstdint>

namespace plan {

/// `Any`: one that exists, whichever; `None`: what divides, whether or not something runs it. In the order of
/// kFrameworkRows.
enum class Framework : std::uint8_t { Any, Megatron, Torchtitan, DeepSpeed, Accelerate, Maxtext, None };

struct FrameworkRow;  // planner/rules/frameworks.hpp

/// What is known of a framework is written beside its rules, a file each, built in by its being there.
FrameworkRow any_framework();
FrameworkRow megatron_framework();
FrameworkRow torchtitan_framework();
FrameworkRow deepspeed_framework();
FrameworkRow accelerate_framework();
FrameworkRow maxtext_framework();
FrameworkRow no_framework();
inline constexpr FrameworkRow (*kFrameworkRows[])() = {any_framework,       megatron_framework,   torchtitan_framework,
                                                       deepspeed_framework, accelerate_framework, maxtext_framework,
                                                       no_framework};

/// Is it the name of a framework, not a word for how to choose one?
[[nodiscard]] constexpr bool named(Framework framework) {
  return framework != Framework::Any && framework != Framework::None;
}

}  // namespace plan
