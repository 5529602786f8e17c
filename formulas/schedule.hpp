#pragma once

#include <cstdint>
#include <span>

#include "formulas/hops.hpp"
#include "formulas/layout.hpp"
#include "formulas/pipeline.hpp"
#include "formulas/units.hpp"

namespace plan {

/// The smallest Pipeline::group that interleaving takes: pp where that divides the micro-batches, else the next that
/// leaves none over, or pp at least. With fewer than pp, which it does not take, pp.
[[nodiscard]] std::int64_t fewest_in_group(int pp, std::int64_t micro_batches);

/// Peak activations that `rank` (0 first) holds from forward to weight gradient, in units of one
/// micro-batch through the rank's whole stage: chunks / vp where a stage is cut into chunks. For DualPipe
/// the unit is one stage of 1/pp of the model, although the rank holds two (plan-formulas(7) D5).
///
/// Zero-bubble schedules keep part of a micro-batch's activations (the inputs of its linear layers) until
/// the weight gradient is done; this counts all of them that long, which is safe.
[[nodiscard]] double in_flight(const Pipeline& pipeline, int rank);

/// Makespan of the pipeline, or where steps roll on the time from one to the next, split so that `busy + bubble + hop`
/// is the whole.
struct PipelineTime {
  Seconds busy{};    ///< work of the bottleneck stage, all micro-batches
  Seconds bubble{};  ///< waiting for other stages
  Seconds hop{};     ///< exposed point-to-point transfers
  Seconds total() const { return busy + bubble + hop; }
};

/// `stages` has pp entries, one a rank. Exact for equal stages and hops, checked by simulation; for unequal ones the
/// longest of the paths that can bind, pipeline_paths.cpp. Chunks of a rank are taken as equal. Allocates nothing,
/// O(pp) where hops are equal.
[[nodiscard]] PipelineTime pipeline_time(const Pipeline& pipeline, std::span<const StageTime> stages, const Hops& hops);

/// What pipeline_time() makes of free hand-overs at least, however the times of all stages together, `whole`, are
/// divided among them; of schedules that pair micro-batches only if a pair takes as long as both.
[[nodiscard]] Seconds least_span(const Pipeline& pipeline, const StageTime& whole);

/// Is the combination possible (pp even for DualPipe, vp > 1 for interleaved, limits on micro-batches)?
[[nodiscard]] bool schedule_allows(const Pipeline& pipeline);

}  // namespace plan
