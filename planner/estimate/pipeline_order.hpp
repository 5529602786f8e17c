#pragma once

#include <cstdint>
#include <vector>

#include "formulas/schedule.hpp"

namespace plan {

enum class PipelineWork : std::uint8_t {
  Forward,
  Backward,        ///< input and weight gradient in one
  InputGradient,   ///< schedules with split backward
  WeightGradient,  ///< likewise
  Pair             ///< DualPipe: a forward and a whole backward, overlapped
};

/// One operation of one rank. Chunks count through the whole model: pp * vp of them.
struct PipelineOp {
  PipelineWork work = PipelineWork::Forward;
  int chunk = 0;
  int micro_batch = 0;
  int back_chunk = -1;  ///< Pair: the backward's
  int back_micro_batch = -1;
  bool operator==(const PipelineOp&) const = default;
};

/// Chunks that the model is cut into.
[[nodiscard]] constexpr int model_chunks(const Pipeline& pipeline) { return pipeline.pp * pipeline.vp; }

/// Rank that runs a chunk for a micro-batch; where micro-batches go both ways, odd ones enter at the last rank.
[[nodiscard]] constexpr int pipeline_rank(const Pipeline& pipeline, int chunk, int micro_batch) {
  const int pp = pipeline.pp;
  if (both_ways(pipeline.schedule)) return micro_batch % 2 == 0 ? chunk : pp - 1 - chunk;
  return v_shaped(pipeline.schedule) && chunk >= pp ? 2 * pp - 1 - chunk : chunk % pp;
}

/// Operations in a step of all ranks together: what pipeline_order() and the simulation cost in time and
/// memory. Ask before simulating an input with very many micro-batches.
[[nodiscard]] constexpr std::int64_t pipeline_operations(const Pipeline& pipeline) {
  return static_cast<std::int64_t>(model_chunks(pipeline)) * (splits_backward(pipeline.schedule) ? 3 : 2) *
         pipeline.micro_batches;
}

/// What each rank does, in order. The pipeline must be one that schedule_allows().
[[nodiscard]] std::vector<std::vector<PipelineOp>> pipeline_order(const Pipeline& pipeline);

}  // namespace plan
