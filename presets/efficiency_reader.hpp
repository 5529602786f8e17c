#pragma once

#include <string>

#include "formulas/cluster.hpp"
#include "formulas/result.hpp"
#include "presets/lines.hpp"
#include "presets/yaml.hpp"

namespace plan {

/// Largest share of a table's rate: more than 1 where that is another GPU's, whose power limit held back its bursts.
inline constexpr double kMostSustained = 1.3;

/// Fills the measured part of `gpu` (GEMM grids, attention, collectives, ...) from one file of presets/efficiency.
/// `gpu` already holds its data sheet: rates are shares of the peaks and bandwidths under which they were measured, and
/// scale with its own. Where `gpu.efficiency` is not the GPU of the file, provenance says Inherited.
[[nodiscard]] Result<void> read_efficiency(std::string text, std::string file, Gpu& gpu);

/// The same from a map that is part of a larger file, such as a profile's `efficiency`.
void read_efficiency_fields(yaml::Map& root, Gpu& gpu);

/// Writes the measured part of `gpu` so that read_efficiency_fields reads it back; `source` says who measured.
void write_efficiency_fields(Lines& out, int indent, const Gpu& gpu, const std::string& source);

/// Anything measured in it: a GEMM fit, attention or a collective.
[[nodiscard]] bool has_efficiency(const Gpu& gpu);

/// Takes from `other` what `gpu` did not measure itself.
void fill_efficiency(Gpu& gpu, const Gpu& other);

/// The measured efficiencies shipped under the key `gpu.efficiency`: a table of that name, or the one named under
/// `like` in presets/efficiency/inherited.yaml; never by the GPU's display name. Fills `gpu.edited`. `false` where
/// there is no key: the data sheet's shares then apply.
[[nodiscard]] Result<bool> apply_efficiency(Gpu& gpu);

}  // namespace plan
