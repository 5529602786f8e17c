#pragma once

// Layers and recomputation of every stage by itself. Under 1F1B the first stages hold the most micro-batches and the
// last one the head: what they have to recompute, and how many layers they carry, need not be the same for all.

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/estimate/stage_cells.hpp"
#include "planner/search/ranking.hpp"

namespace plan {

/// Step time and peak memory of a layout with strategies for its stages.
[[nodiscard]] Score score_stages(StageModels& models, const Problem& problem, const Layout& layout);

/// Pipelines whose step is weighed exactly, of one (degrees, schedule, sharding): of more the search takes the best of
/// the pipeline's law.
inline constexpr std::int64_t kMostWeighed = 200;
/// Beginnings of pipelines, stage by stage, that are followed for one (degrees, schedule, sharding): a bound cuts
/// nearly all of them off, but of a dozen stages with near choices there are more than a lifetime can follow.
inline constexpr std::int64_t kMostWalked = 1'000'000;
/// Stages with layers whose memory is asked for, over all pipelines in the order of their bound: two or three seconds.
inline constexpr std::int64_t kMostStages = 200'000;

/// The fastest way to give each stage layers and recomputation, of those that fit and are faster than what is known.
struct FoundStages {
  Layout layout{};  ///< with chunk_layers, and stages if they differ
  Score score{};
};
struct StageSearch {
  std::optional<FoundStages> best{};
  std::int64_t pipelines = 0;  ///< (degrees, schedule, sharding) looked into
  std::int64_t stages = 0;     ///< with their layers, whose memory was asked for
  std::int64_t followed = 0;   ///< mixes of layers that were begun or grown by a layer, on the way to stages
  bool exact = true;           ///< nothing faster was left out
};

/// What a step takes at least on any split of the layers, through which a micro-batch takes `trip`.
[[nodiscard]] Seconds least_step(Seconds trip, const Problem& problem, const Layout& layout);

/// Of one pipeline, within `capacity` and in less than `beat`; exact if ZeRO is 0 or 1 and no more than `most`
/// ways are left to weigh.
/// `base`: all axes but layers and recomputation. Under 1F1B the layers of each stage are chosen; other schedules keep
/// the balanced layers, and each stage recomputes no more than it must. Ways to recompute are those of
/// enumerate_recomputes(). Under ZeRO 0 and 1 a stage that recomputes less is taken never to make the step longer,
/// which the law of round trips over slow, uneven stages may miss by a little.
[[nodiscard]] StageSearch best_stages(StageModels& models, const Problem& problem, const Layout& base,
                                      RealBytes capacity, Seconds beat = Seconds::infinity(),
                                      std::int64_t most = kMostWeighed);

/// The same over all degrees, schedules and shardings of the problem: families in the order of a bound from below.
[[nodiscard]] StageSearch find_stages(const Problem& problem, RealBytes capacity, Seconds beat);

}  // namespace plan
