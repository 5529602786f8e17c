#pragma once

#include <string>
#include <string_view>

namespace plan {

/// What a word is called among the choices of `flag`: `torch.bfloat16` is bf16, `SFT` finetune. A word that has no
/// other name comes back as it is, in small letters with hyphens.
[[nodiscard]] std::string usual_choice(std::string_view flag, std::string_view word);

/// What a person who writes a word that `flag` does not take looks for; empty where that is not known.
[[nodiscard]] std::string hint_for(std::string_view flag, std::string_view word);

}  // namespace plan
