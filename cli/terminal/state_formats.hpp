#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "formulas/result.hpp"
#include "formulas/training.hpp"

namespace plan {

/// Number formats of what the optimizer works on, bytes a parameter, and of what stays in memory between a product and
/// the next that reads it, bytes an element: the weights of products, and what the activation of an FFN reads. Nothing
/// where the words leave one as it is.
struct StateFormats {
  std::optional<double> gradients, master, moment1, moment2, kept;

  /// Narrow weights and moments are what Megatron calls precision-aware: gradients are read in place.
  void apply(Training& training) const;
};

/// Reads `--state-formats grads=bf16,master=fp16,moments=bf16,kept=fp8`, or `moment1=`, `moment2=` apart. Every mistake
/// at once.
[[nodiscard]] Result<StateFormats> read_state_formats(std::string_view text);

/// Writes them as the flag takes them: the states of a job that are not in fp32; empty if all are.
[[nodiscard]] std::string state_formats_text(const Training& training);

}  // namespace plan
