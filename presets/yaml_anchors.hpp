#pragma once

#include <string>

#include "presets/yaml.hpp"

namespace plan::yaml {

/// `parse` for files that others wrote: `&name` marks a value, `*name` repeats it, and `<<: *name` adds the keys that a
/// map lacks. Of a key that is written twice the last one counts. The repeated values count towards the limit of a
/// file.
[[nodiscard]] Result<Document> parse_with_anchors(std::string source, std::string file);

}  // namespace plan::yaml
