#pragma once

#include <string>

#include "formulas/cluster.hpp"
#include "formulas/result.hpp"
#include "presets/lines.hpp"
#include "presets/yaml.hpp"

namespace plan {

/// Fills the measured part of `gpu` (GEMM grids, attention, collectives, ...) from one file of presets/efficiency.
/// `gpu` already holds its data sheet. When it is not the GPU that the file was measured on, rates scale with the
/// data sheets and provenance says Inherited.
[[nodiscard]] Result<void> read_efficiency(std::string text, std::string file, Gpu& gpu);

/// The same from a map that is part of a larger file, such as a profile's `efficiency`.
void read_efficiency_fields(yaml::Map& root, Gpu& gpu);

/// Writes the measured part of `gpu` so that read_efficiency_fields reads it back; `source` says who measured.
void write_efficiency_fields(Lines& out, int indent, const Gpu& gpu, const std::string& source);

/// Anything measured in it: a GEMM fit, attention or a collective.
[[nodiscard]] bool has_efficiency(const Gpu& gpu);

/// Takes from `other` what `gpu` did not measure itself.
void fill_efficiency(Gpu& gpu, const Gpu& other);

/// The measured efficiencies shipped for `gpu.name`, its own or those of the GPU named under `like` in
/// presets/efficiency/inherited.yaml. `false` where there are none: the data sheet's shares then apply.
[[nodiscard]] Result<bool> apply_efficiency(Gpu& gpu);

/// GPU whose measurements stand in for those of `name`; empty when it has its own or none.
[[nodiscard]] Result<std::string> efficiency_like(const std::string& name);

}  // namespace plan
