// JSON as every report prints it. Tested by tests/cli/json_test.cpp.
#include "cli/terminal/json_text.hpp"

#include <nlohmann/json.hpp>

namespace plan {

std::string dump(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

}  // namespace plan
