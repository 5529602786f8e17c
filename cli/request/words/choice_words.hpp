#pragma once

#include <string>
#include <string_view>

#include "formulas/result.hpp"

namespace plan {

/// What a word is called among the choices of `flag`: `torch.bfloat16` is bf16, `SFT` finetune. A word that has no
/// other name comes back as it is, in small letters with hyphens.
[[nodiscard]] std::string usual_choice(std::string_view flag, std::string_view word);

/// What a person who writes a word that `flag` does not take looks for; empty where that is not known.
[[nodiscard]] std::string hint_for(std::string_view flag, std::string_view word);

/// A word that `flag` takes, or what another name for one means; else an error that lists them.
[[nodiscard]] Result<std::string> read_choice(std::string_view flag, std::string_view word);

}  // namespace plan
