#pragma once

#include <cstdint>
#include <vector>

#include "formulas/efficiency.hpp"
#include "planner/cost/cost.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// One kernel of a layer, or a run of equal ones, as its time comes about.
struct KernelTime {
  enum class Law : std::uint8_t { Gemm, GroupedGemm, Attention, Memory, Scan, Launches };
  enum class Pass : std::uint8_t { Forward, Backward, WeightGrad };
  Law law = Law::Gemm;
  Pass pass = Pass::Forward;
  Seconds time{};     ///< of all of them, per micro-batch
  double share = 1;   ///< of the rate measured alone that training reaches
  double runs = 1;    ///< equal kernels
  GemmShape shape{};  ///< Gemm; GroupedGemm: rows, n and k of one expert, batch of them
  DType dtype = DType::Bf16;
  Orientation orientation = Orientation::Forward;
  AttentionWork work{};
  const char* what = "";       ///< Memory: the work
  double rows = 0, width = 0;  ///< Memory: elements
  RealBytes each{};            ///< Memory: read and written of an element
  double kernels = 0;          ///< Memory, Launches
  Flops flops{};               ///< Scan
  FlopsPerSecond rate{};       ///< Scan
  Seconds launch{};            ///< Launches: of one
  Seconds busy{};              ///< Launches: that the GPU works meanwhile
};

/// The kernels whose times a layer kind's compute consists of; forward, input and weight gradient add up to
/// LayerCost's.
[[nodiscard]] std::vector<KernelTime> layer_kernels(const Problem& problem, const Split& split, int kind);
/// The kernels of the embedding, at the front of the pipeline.
[[nodiscard]] std::vector<KernelTime> embedding_kernels(const Problem& problem, const Split& split);
/// The kernels of output projection and loss at its end, with prediction modules.
[[nodiscard]] std::vector<KernelTime> head_kernels(const Problem& problem, const Split& split);

}  // namespace plan
