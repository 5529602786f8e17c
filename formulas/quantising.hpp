#pragma once

#include "formulas/real_bytes.hpp"
#include "formulas/states.hpp"
#include "formulas/training.hpp"

namespace plan {

/// Bytes that are read and written for each element of an activation or of its gradient before GEMMs read it in fp8 or
/// fp4; 0 in wider formats. `weight_gradient`: a GEMM along the tokens reads it as well, which needs it column-wise.
[[nodiscard]] RealBytes quantising_bytes(const Training& training, GpuGeneration generation, bool weight_gradient);

/// Bytes that are read and written for each element to turn a gathered fp8 operand for the GEMM along the tokens; 0
/// where that reads rows and columns in one pass, or where scales of blocks have both made before.
[[nodiscard]] RealBytes transposing_bytes(Precision precision, GpuGeneration generation);

}  // namespace plan
