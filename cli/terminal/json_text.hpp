#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace plan {

/// Keys keep the order in which they were written.
using Json = nlohmann::ordered_json;

/// Two spaces, a line feed at the end, invalid UTF-8 replaced.
[[nodiscard]] std::string dump(const Json& json);

}  // namespace plan
