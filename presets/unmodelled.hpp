#pragma once

#include <string_view>

namespace plan {

/// A family of models whose layers have a part that is not modelled.
struct Unmodelled {
  std::string_view model_type;  ///< in config.json; also that of a language model with a suffix such as `_text`
  std::string_view name;        ///< how the names of its checkpoints begin, in small letters without `-_.`
  std::string_view part;        ///< what is not modelled
};

/// By the `model_type` of a config.json; null if there is none.
[[nodiscard]] const Unmodelled* unmodelled_type(std::string_view type);
/// By the name of a checkpoint, with its owner or without; null if there is none.
[[nodiscard]] const Unmodelled* unmodelled_name(std::string_view checkpoint);

}  // namespace plan
