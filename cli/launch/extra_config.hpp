#pragma once

#include <vector>

#include "cli/launch/dialect.hpp"

namespace plan {

/// LLaMA-Factory's keys for what it hands to Megatron-Bridge unread are in one string of JSON.
void fold_extra_config(std::vector<DialectSetting>& settings);

/// The other way round, as far as the string is JSON; a path to a file of it is left alone.
void unfold_extra_config(DialectKeys& keys);

}  // namespace plan
