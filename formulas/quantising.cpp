// Traffic of quantisation: what a linear's inputs and gradients cost on their way from 16 bits to the format of its
// GEMMs. Assumption: kernels of their own, which read 16 bits and write each copy once, as fast as memory allows.
// Source: TransformerEngine's user guide, performance considerations (which copies each GEMM reads), and its published
// layer (docs/examples/gemm_profiling), where the four products of a layer on B300 take 482 us more with mxfp8's
// quantisation than without: 4.1 bytes for each of 656 million elements, at 5.5 TB/s. Tested by
// tests/formulas/quantising_test.cpp.
#include "formulas/quantising.hpp"

namespace plan {
namespace {

/// One scale for a whole tensor.
bool scales_tensors(Precision precision) {
  return precision == Precision::Fp8Delayed || precision == Precision::Fp8Tensorwise;
}

}  // namespace

RealBytes gemm_input_bytes(Precision precision) {
  switch (precision) {
    case Precision::Fp32: return RealBytes(4);
    case Precision::Fp16:
    case Precision::Bf16: return RealBytes(2);
    case Precision::Fp8Delayed:
    case Precision::Fp8Tensorwise: return RealBytes(1);
    case Precision::Fp8Blockwise: return RealBytes(1 + 4.0 / 128);  // one fp32 scale for 1 x 128
    case Precision::Mxfp8: return RealBytes(33.0 / 32);             // one byte of scale for 32
    case Precision::Nvfp4: return RealBytes(0.5 + 1.0 / 16);        // one byte of scale for 16
  }
  return RealBytes(2);
}

RealBytes quantising_bytes(const Training& training, GpuGeneration generation, bool weight_gradient) {
  constexpr double kRead = 2;
  const Precision precision = training.precision;
  const bool fp4 = precision == Precision::Nvfp4;
  if (!is_narrow(precision)) return {};
  // Of blocks along the tokens the scales are others; of a whole tensor Blackwell reads the columns of the one copy.
  const bool both = weight_gradient && !(scales_tensors(precision) && generation == GpuGeneration::Blackwell);
  const double codes = gemm_input_bytes(precision).value * (both ? 2 : 1);
  // A scale for the whole tensor that is not carried over from earlier steps is found in a pass of its own; of nvfp4
  // that finds the second level of its scales.
  const double greatest = precision == Precision::Fp8Tensorwise || fp4 ? kRead : 0;
  // The columns of nvfp4 are rotated before they are quantised (random Hadamard transform): read once more. So are
  // those of other blocks, but by TransformerEngine (torchao, prototype/mx_formats/mx_linear.py: a cast for rows and
  // one for columns).
  const bool apart = !training.stack.transformer_engine && both && !scales_tensors(precision);
  const double again = weight_gradient && (fp4 || apart) ? kRead : 0;
  return RealBytes(kRead + greatest + again + codes);
}

RealBytes transposing_bytes(Precision precision, GpuGeneration generation) {
  return scales_tensors(precision) && generation != GpuGeneration::Blackwell ? RealBytes(1 + 1) : RealBytes();
}

RealBytes gathered_bytes(const Training& training, Precision precision, bool gradient) {
  const bool tensors = scales_tensors(precision) && !training.stack.fp8_rowwise;
  const bool quantised = is_narrow(precision) && (training.stack.transformer_engine || tensors);
  if (!quantised) return RealBytes(activation_bytes(precision));
  return gemm_input_bytes(precision) * (gradient && !tensors ? 2 : 1);
}

bool userbuffers_carry(Precision precision) {
  return precision != Precision::Nvfp4 && precision != Precision::Fp8Blockwise;
}

}  // namespace plan
