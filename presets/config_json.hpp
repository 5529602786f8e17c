#pragma once

#include <cstdint>
#include <string>

#include "formulas/model.hpp"
#include "formulas/result.hpp"

namespace plan {

/// Who wrote the keys: a checkpoint, whose keys all mean something, or a reader of launch files, which states those of
/// several families at once and leaves to `model_type` which of them count.
enum class KeysOf : std::uint8_t { Checkpoint, Reader };

/// Model from the text of a Hugging Face config.json. `file` is the name in messages; the model is named after the
/// repository that the config or the folder of `file` states.
[[nodiscard]] Result<Model> read_config_json(const std::string& text, const std::string& file,
                                             KeysOf keys = KeysOf::Checkpoint);

/// Sections of a config.json that are not read: of parts beside the language model (towers of images, sound and the
/// like) and of how its weights are stored: `vision_config, quantization_config`. Empty where there are none.
[[nodiscard]] std::string parts_beside(const std::string& text);

}  // namespace plan
