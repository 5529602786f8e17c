#pragma once

#include <string>
#include <vector>

#include "cli/launch/job/job_builder.hpp"
#include "formulas/training.hpp"

namespace plan::torchtitan {

/// What a list of names that a converter leaves alone, or alone converts, says of whole layers.
struct FilteredLayers {
  Bf16Layers layers{};                ///< that stay in bf16
  std::vector<std::string> others{};  ///< names of parts of layers, and of layers between the ends
};

/// torchtitan leaves a linear alone whose qualified name, `layers.3.attention.wq`, contains one of the names. The head
/// (`output`, `lm_head`) is always counted in bf16.
[[nodiscard]] FilteredLayers filtered_layers(const std::vector<std::string>& names, int depth);

/// The same where only linears are converted whose name contains one of them; no names: all are converted.
[[nodiscard]] FilteredLayers converted_layers(const std::vector<std::string>& names, int depth);

/// Reads them of a file for torchtitan 0.2.2 or a recipe for main; tells what are no whole layers at the ends.
void read_bf16_layers(JobBuilder& builder);

/// Names of the layers that stay in bf16, or of all others; each holds for one layer alone.
[[nodiscard]] std::vector<std::string> layer_names(const Bf16Layers& layers, int depth, bool in_bf16);

}  // namespace plan::torchtitan
