#pragma once

#include <string>
#include <string_view>

#include "formulas/result.hpp"
#include "formulas/training.hpp"

namespace plan {

/// Reads `--offload optimizer=0.5,parameters,core_attn+attn_proj,layers=4`. Every mistake at once.
[[nodiscard]] Result<Offload> read_offload(std::string_view text);

/// Writes it as the flag takes it; empty if nothing is offloaded.
[[nodiscard]] std::string offload_text(const Offload& offload);

}  // namespace plan
