#pragma once

#include <optional>
#include <string_view>

#include "cli/launch/megatron/megatron.hpp"

namespace plan {

struct CountedAs;

/// Names in the job's first lines every flag of Megatron-LM's own that changes memory, time or the model of this very
/// layout and is counted as if it were not there.
void tell_counted_flags(const MegatronArgs& args, LaunchJob& job);

/// A key of a file that is such a flag in another spelling: `bias_swiglu_fusion`, whose `false` is the flag
/// `--no-bias-swiglu-fusion`. Nothing: the key is no flag, or it is read, or it changes nothing.
[[nodiscard]] std::optional<CountedAs> counted_key(std::string_view key);

/// The flag that says what `false` says under a key: `no-bias-swiglu-fusion`; empty: Megatron-LM has none.
[[nodiscard]] std::string_view flag_of_false(std::string_view key);

}  // namespace plan
