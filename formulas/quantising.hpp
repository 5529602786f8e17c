#pragma once

#include "formulas/real_bytes.hpp"
#include "formulas/states.hpp"
#include "formulas/training.hpp"

namespace plan {

/// Bytes of one element of a tensor that is kept only as the input of a GEMM: in the format that the GEMM reads.
[[nodiscard]] RealBytes gemm_input_bytes(Precision precision);

/// Bytes that are read and written for each element of an activation or of its gradient before GEMMs read it in fp8 or
/// fp4; 0 in wider formats. `weight_gradient`: a GEMM along the tokens reads it as well, which needs it column-wise.
[[nodiscard]] RealBytes quantising_bytes(const Training& training, GpuGeneration generation, bool weight_gradient);

/// Bytes that are read and written for each element to turn a gathered fp8 operand for the GEMM along the tokens; 0
/// where that reads rows and columns in one pass, or where scales of blocks have both made before.
[[nodiscard]] RealBytes transposing_bytes(Precision precision, GpuGeneration generation);

/// Bytes of each element of a linear's input, or of its output's gradient, that tensor ranks gather: in the format of
/// the GEMMs where the framework quantises first, else in 16 bits. Two products read a gradient, one by rows and one by
/// columns: what has scales of its own for each is gathered twice.
/// TransformerEngine gathers what it has quantised (pytorch/distributed.py, gather_along_first_dim; module/base.py,
/// grad_output_preprocess); torchtitan only what has one scale for a whole tensor (models/*/parallelize.py,
/// enable_float8_tensorwise_tp).
[[nodiscard]] RealBytes gathered_bytes(const Training& training, Precision precision, bool gradient);

/// Can userbuffers carry these operands beside the GEMMs? They have no buffer for blocks of fp4 or of fp8 with scales
/// of 128 (TransformerEngine, module/base.py, fill_userbuffers_buffer_for_all_gather).
[[nodiscard]] bool userbuffers_carry(Precision precision);

}  // namespace plan
