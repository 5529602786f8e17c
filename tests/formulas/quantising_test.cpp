// Oracle: a count by hand of what a kernel that quantises reads and writes, format by format.
#include "formulas/quantising.hpp"

#include <doctest/doctest.h>

using namespace plan;

namespace {

double bytes(Precision precision, GpuGeneration generation, bool weight_gradient, bool transformer_engine = true) {
  Training training;
  training.precision = precision;
  training.stack.transformer_engine = transformer_engine;
  return quantising_bytes(training, generation, weight_gradient).value;
}

}  // namespace

TEST_CASE("16 bits are read, and each copy that a product reads is written with its scales") {
  for (const GpuGeneration generation : {GpuGeneration::Hopper, GpuGeneration::Blackwell})
    for (const bool weight_gradient : {false, true})
      for (const Precision wide : {Precision::Fp32, Precision::Fp16, Precision::Bf16}) {
        CHECK(bytes(wide, generation, weight_gradient) == 0);
        CHECK(transposing_bytes(wide, generation) == RealBytes(0));
      }
  // One copy for the forward pass; along the tokens mxfp8 has other scales, so a second one.
  CHECK(bytes(Precision::Mxfp8, GpuGeneration::Blackwell, false) == doctest::Approx(2 + 33.0 / 32));
  CHECK(bytes(Precision::Mxfp8, GpuGeneration::Blackwell, true) == doctest::Approx(2 + 2 * 33.0 / 32));
  CHECK(bytes(Precision::Fp8Blockwise, GpuGeneration::Hopper, true) == doctest::Approx(2 + 2 * (1 + 4.0 / 128)));
  // The greatest value of a tensor is looked for before it is scaled, unless earlier steps give it.
  CHECK(bytes(Precision::Fp8Tensorwise, GpuGeneration::Hopper, true) -
            bytes(Precision::Fp8Delayed, GpuGeneration::Hopper, true) ==
        doctest::Approx(2));
  CHECK(bytes(Precision::Fp8Delayed, GpuGeneration::Hopper, false) == doctest::Approx(3));
  // One scale holds for rows and columns: Hopper's products want a second copy, turned, and Blackwell's read the first.
  CHECK(bytes(Precision::Fp8Delayed, GpuGeneration::Hopper, true) == doctest::Approx(2 + 2 * 1));
  CHECK(bytes(Precision::Fp8Delayed, GpuGeneration::Blackwell, true) == doctest::Approx(2 + 1));
  // Half a byte and a scale of one for 16; a pass for the greatest value, and one that rotates what is read by columns.
  CHECK(bytes(Precision::Nvfp4, GpuGeneration::Blackwell, false) == doctest::Approx(2 + 2 + 0.5 + 1.0 / 16));
  CHECK(bytes(Precision::Nvfp4, GpuGeneration::Blackwell, true) == doctest::Approx(2 + 2 + 2 + 2 * (0.5 + 1.0 / 16)));
}

TEST_CASE("two kernels for the two copies of blocks read 16 bits each") {
  const auto apart = [](Precision precision, bool weight_gradient) {
    return bytes(precision, GpuGeneration::Blackwell, weight_gradient, false);
  };
  CHECK(apart(Precision::Mxfp8, true) == doctest::Approx(2 * (2 + 33.0 / 32)));
  CHECK(apart(Precision::Fp8Blockwise, true) == doctest::Approx(2 * (2 + 1 + 4.0 / 128)));
  CHECK(apart(Precision::Mxfp8, false) == doctest::Approx(2 + 33.0 / 32));
  // Where one scale holds for both, or a second pass is made anyway, nothing is read once more.
  for (const Precision precision : {Precision::Fp8Tensorwise, Precision::Fp8Delayed, Precision::Nvfp4, Precision::Bf16})
    CHECK(apart(precision, true) == bytes(precision, GpuGeneration::Blackwell, true));
}

TEST_CASE("a gathered operand is turned where the products cannot read its columns") {
  CHECK(transposing_bytes(Precision::Fp8Delayed, GpuGeneration::Hopper) == RealBytes(2));
  CHECK(transposing_bytes(Precision::Fp8Tensorwise, GpuGeneration::Hopper) == RealBytes(2));
  CHECK(transposing_bytes(Precision::Fp8Tensorwise, GpuGeneration::Blackwell) == RealBytes(0));
  CHECK(transposing_bytes(Precision::Mxfp8, GpuGeneration::Blackwell) == RealBytes(0));
  CHECK(transposing_bytes(Precision::Fp8Blockwise, GpuGeneration::Hopper) == RealBytes(0));
}

TEST_CASE("tensor ranks gather what the products read, by rows and by columns where their scales differ") {
  Training training;
  const auto bytes = [&](Precision precision, bool gradient) {
    return gathered_bytes(training, precision, gradient).value;
  };
  for (const bool gradient : {false, true}) {
    CHECK(bytes(Precision::Fp32, gradient) == 4);
    CHECK(bytes(Precision::Bf16, gradient) == 2);
    CHECK(bytes(Precision::Fp16, gradient) == 2);
    CHECK(bytes(Precision::Fp8Tensorwise, gradient) == 1);
    CHECK(bytes(Precision::Fp8Delayed, gradient) == 1);
  }
  CHECK(bytes(Precision::Mxfp8, false) == doctest::Approx(33.0 / 32));
  CHECK(bytes(Precision::Mxfp8, true) == doctest::Approx(2 * 33.0 / 32));
  CHECK(bytes(Precision::Fp8Blockwise, true) == doctest::Approx(2 * 33.0 / 32));
  CHECK(bytes(Precision::Nvfp4, false) == doctest::Approx(9.0 / 16));
  CHECK(bytes(Precision::Nvfp4, true) == doctest::Approx(9.0 / 8));
  // torchtitan gathers fp8 where one scale holds for a tensor, and 16 bits with scales for rows or blocks.
  training.stack.transformer_engine = false;
  CHECK(bytes(Precision::Fp8Tensorwise, true) == 1);
  CHECK(bytes(Precision::Mxfp8, true) == 2);
  training.stack.fp8_rowwise = true;
  CHECK(bytes(Precision::Fp8Tensorwise, false) == 2);
}
