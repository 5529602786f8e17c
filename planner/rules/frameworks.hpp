#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "formulas/training.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// A framework that plans can be made for, with its documented defaults.
struct FrameworkRow {
  Framework framework;
  std::string_view name;
  std::string_view help;
  Stack stack;
  std::string_view vendors{};  ///< of the GPUs that it runs on, as presets name them; empty: whoever's
};

/// Does the framework run on GPUs of that vendor? On one that is not stated, who knows.
[[nodiscard]] bool runs_on(const FrameworkRow& row, std::string_view vendor);

/// Is it the name of a framework, not a word for how to choose one?
[[nodiscard]] constexpr bool named(Framework framework) {
  return framework != Framework::Any && framework != Framework::None;
}

/// All frameworks, `any` first, `none` last.
[[nodiscard]] std::span<const FrameworkRow> frameworks();
[[nodiscard]] const FrameworkRow& framework_row(Framework framework);
[[nodiscard]] std::optional<Framework> find_framework(std::string_view name);

/// What a published run did where it does not say: its framework's documented defaults.
struct FrameworkDefaults {
  std::string_view keyword;  ///< found in the run's `framework`
  Stack stack;
  int zero = 0;
  int grad_bytes = 4;
  bool sequence_parallel = false;  ///< whenever tp > 1
  bool etp_is_tp = true;           ///< experts split by tp unless stated
  CpKind cp_kind = CpKind::Ring;
  bool flash_fp16 = true;          ///< flash attention in fp16 too: off for stacks of the years before it
  bool interleaves = false;        ///< pipelines take one layer at a time unless `vp` is stated
  bool accumulates = true;         ///< micro-batches of one sequence unless stated; false: the whole batch in one
  std::uint16_t recomputes = 0;    ///< RecomputeModule bits of what is recomputed unless stated
  bool recomputes_to_fit = false;  ///< unless stated, as many layers are recomputed as memory demands
  AxisOrder order = AxisOrder::PipelineOutermost;
};

/// The first row whose keyword is part of `framework`; Megatron-LM's if none does.
[[nodiscard]] FrameworkDefaults run_defaults(std::string_view framework);

}  // namespace plan
