// What runs beside the products of a layer's linears: sums of gradients, weights that come from 4 bits, and how many
// kernels each of them is.
#include <doctest/doctest.h>

#include <cmath>
#include <string_view>
#include <vector>

#include "formulas/efficiency.hpp"
#include "formulas/states.hpp"
#include "planner/cost/kernels.hpp"
#include "planner/small_job.hpp"

using namespace plan;
using namespace plan::small;
using Pass = KernelTime::Pass;
using Law = KernelTime::Law;

namespace {

std::vector<KernelTime> kernels_of(const Problem& problem, int tp = 1) {
  Split split;
  split.tp = tp;
  return layer_kernels(problem, split, 0);
}

std::vector<KernelTime> called(const std::vector<KernelTime>& all, std::string_view what) {
  std::vector<KernelTime> out;
  for (const KernelTime& kernel : all)
    if (kernel.law == Law::Memory && kernel.what == what) out.push_back(kernel);
  return out;
}

double launches(const std::vector<KernelTime>& all, Pass pass) {
  double sum = 0;
  for (const KernelTime& kernel : all)
    if (kernel.law == Law::Launches && kernel.pass == pass) sum += kernel.kernels;
  return sum;
}

}  // namespace

TEST_CASE("gradients that no product adds to their sum are added by a pass of their own, once for each weight") {
  for (const StateLayout states :
       {StateLayout::Megatron, StateLayout::DeepSpeed, StateLayout::Fsdp2, StateLayout::MegatronFsdp})
    for (const bool fusion : {false, true})
      for (const int bytes : {2, 4})
        for (const int tp : {1, 2}) {
          CAPTURE(static_cast<int>(states));
          CAPTURE(fusion);
          CAPTURE(bytes);
          Problem problem = small_job();
          problem.training.stack.states = states, problem.training.stack.gradient_fusion = fusion;
          problem.training.grad_bytes = bytes;
          const std::vector<KernelTime> all = kernels_of(problem, tp), sums = called(all, "sum of the gradient");
          double weights = 0, summed = 0;
          std::size_t products = 0;
          for (const KernelTime& kernel : all)
            if (kernel.law == Law::Gemm && kernel.pass == Pass::WeightGrad)
              weights += kernel.shape.m * kernel.shape.n, ++products;
          REQUIRE(products > 0);
          if (fusion || states == StateLayout::Fsdp2) {
            CHECK(sums.empty());
            continue;
          }
          CHECK(sums.size() == products);
          for (const KernelTime& sum : sums) {
            summed += sum.rows * sum.width;
            CHECK(sum.kernels == 1);
            CHECK(sum.pass == Pass::WeightGrad);
            // Written and read in 16 bits, added to what is read and written; DeepSpeed's copy in fp32 is, too.
            CHECK(sum.each.value == 2 + 2 + 2 * bytes + (states == StateLayout::DeepSpeed && bytes == 4 ? 8 : 0));
          }
          CHECK(summed == weights);
        }
}

TEST_CASE("weights in 4 bits are turned to 16 before each product, forward and backward, by a kernel of its own") {
  Problem problem = small_job();
  problem.cluster.calibration.kernel_gap_us = 5000;  // the GPU waits for launches, so that they are told
  problem.training.lora = {.rank = 16};
  problem.training.task = Task::Lora;
  const std::vector<KernelTime> wide = kernels_of(problem);
  CHECK(called(wide, "weights from 4 bits to 16").empty());
  problem.training.task = Task::Qlora;
  const std::vector<KernelTime> all = kernels_of(problem), turned = called(all, "weights from 4 bits to 16");
  double products = 0;
  for (const KernelTime& kernel : all)
    if (kernel.law == Law::Gemm && kernel.pass == Pass::Forward && kernel.shape.n > 16 && kernel.shape.k > 16)
      ++products;
  REQUIRE(products > 0);
  CHECK(static_cast<double>(turned.size()) == 2 * products);
  for (const KernelTime& kernel : turned) {
    CHECK(kernel.kernels == 1);
    CHECK(kernel.each.value == frozen_weight_bytes(problem.training).value + 2);
  }
  for (const Pass pass : {Pass::Forward, Pass::Backward})
    CHECK(launches(all, pass) - launches(wide, pass) == doctest::Approx(products));
}

TEST_CASE("whatever passes over memory is one kernel at least, and takes its launches and its bytes") {
  for (const bool experts : {false, true})
    for (const Precision precision : {Precision::Bf16, Precision::Fp8Tensorwise, Precision::Fp8Blockwise})
      for (const bool fused : {false, true}) {
        Problem problem = small_job(experts);
        problem.training.precision = precision;
        Stack& stack = problem.training.stack;
        stack.fused_pointwise = stack.gradient_fusion = stack.fused_qkv = stack.fused_gate = fused;
        for (const KernelTime& kernel : kernels_of(problem)) {
          if (kernel.law != Law::Memory) continue;
          CAPTURE(kernel.what);
          CHECK(kernel.kernels >= 1);
          const RealBytes bytes = kernel.each * kernel.rows * kernel.width;
          CHECK(kernel.time.value ==
                doctest::Approx(memory_bound_time(problem.cluster.gpu, bytes, kernel.kernels).value / kernel.share));
        }
      }
}
