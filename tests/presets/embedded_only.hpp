#pragma once

#include "presets/store.hpp"

namespace plan {

/// The presets that the program holds, and no file of the machine's.
inline const StoreOptions kEmbeddedOnly{};

}  // namespace plan
