#pragma once

#include <string>

#include "formulas/model.hpp"
#include "formulas/result.hpp"

namespace plan {

/// Model from the text of a Hugging Face config.json. `file` is the name in messages; the model is named after the
/// repository that the config or the folder of `file` states.
[[nodiscard]] Result<Model> read_config_json(const std::string& text, const std::string& file);

}  // namespace plan
