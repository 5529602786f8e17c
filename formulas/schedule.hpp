#pragma once

#include <cstdint>
#include <span>

#include "formulas/formula.hpp"
#include "formulas/layout.hpp"
#include "formulas/units.hpp"

namespace plan {

/// Shape of a pipeline run.
struct Pipeline {
  Schedule schedule = Schedule::OneFOneB;
  int pp = 1;
  int vp = 1;
  std::int64_t micro_batches = 1;
  int group = 0;  ///< micro-batches per virtual stage group (interleaved); 0 = pp
};

/// Whole-stage times of one pipeline rank for one micro-batch.
///
/// "Stage" is 1/pp of the model, that is all vp chunks of the rank together. A DualPipe rank holds two
/// stages, r and pp-1-r, and a micro-batch meets only one of them: give the mean of the two.
struct StageTime {
  Seconds forward{};
  Seconds backward_input{};   ///< gradient of the input, recompute included
  Seconds backward_weight{};  ///< gradient of the weights
  Seconds pair{};             ///< DualPipe, DualPipeV: one forward overlapped with one backward; 0 = forward + backward
  constexpr Seconds backward() const { return backward_input + backward_weight; }
  constexpr Seconds work() const { return forward + backward(); }
};

/// Peak activations that `rank` (0 first) holds from forward to weight gradient, in units of one
/// micro-batch through the rank's whole stage: chunks / vp where a stage is cut into chunks. For DualPipe
/// the unit is one stage of 1/pp of the model, although the rank holds two (formulas.md D5).
///
/// Zero-bubble schedules keep part of a micro-batch's activations (the inputs of its linear layers) until
/// the weight gradient is done; this counts all of them that long, which is safe.
[[nodiscard]] double in_flight(const Pipeline& pipeline, int rank);

/// The same, counted only until the input gradient is done: what a schedule with split backward frees early.
[[nodiscard]] double in_flight_input(const Pipeline& pipeline, int rank);

/// Copies of the stage's parameters that a rank holds: 2 for DualPipe. DualPipeV's two half-size chunks
/// are one copy of a 1/pp stage.
[[nodiscard]] int parameter_copies(Schedule schedule);

/// Makespan of the pipeline, split so that `busy + bubble + hop` is the whole.
struct PipelineTime {
  Seconds busy{};    ///< work of the bottleneck stage, all micro-batches
  Seconds bubble{};  ///< waiting for other stages
  Seconds hop{};     ///< exposed point-to-point transfers
  Seconds total() const { return busy + bubble + hop; }
};

/// `stages` has pp entries, one a rank. `hop` is the latency of handing one activation to the next stage.
/// Exact for equal stages, checked by simulation; for unequal ones the longest of the paths that can
/// bind, see schedule.cpp. Chunks of a rank are taken as equal. Allocates nothing, O(pp).
[[nodiscard]] PipelineTime pipeline_time(const Pipeline& pipeline, std::span<const StageTime> stages, Seconds hop);

/// Is the combination possible (pp even for DualPipe, vp > 1 for interleaved, limits on micro-batches)?
[[nodiscard]] bool schedule_allows(const Pipeline& pipeline);

/// Does the schedule compute input and weight gradients as separate operations?
[[nodiscard]] constexpr bool splits_backward(Schedule schedule) {
  switch (schedule) {
    case Schedule::ZbH1:
    case Schedule::ZbH2:
    case Schedule::ZbV:
    case Schedule::VHalf:
    case Schedule::VMin:
    case Schedule::DualPipe:
    case Schedule::DualPipeV: return true;
    case Schedule::GPipe:
    case Schedule::OneFOneB:
    case Schedule::Interleaved:
    case Schedule::BreadthFirst: return false;
  }
  return false;
}

/// Does each rank hold two chunks, r and 2 pp - 1 - r, so that the first and last stage share rank 0?
[[nodiscard]] constexpr bool v_shaped(Schedule schedule) {
  return schedule == Schedule::ZbV || schedule == Schedule::VHalf || schedule == Schedule::VMin ||
         schedule == Schedule::DualPipeV;
}

/// Equations of equal stages: F and B of a whole stage and micro-batch, W the weight-gradient part of B,
/// P a forward overlapped with a backward, p ranks, v chunks a rank, m micro-batches, r the rank.
inline constexpr Formula kScheduleFormulas[] = {
    {"pipeline_1f1b", "step time of GPipe and 1F1B", "(m + p - 1) * (F + B)", "s",
     "Narayanan et al. 2021, arXiv:2104.04473",
     "bubble over ideal is (p-1)/m; as a share of the step it is (p-1)/(m+p-1)"},
    {"pipeline_interleaved", "step time of interleaved 1F1B and breadth-first", "m * (F + B) + (p - 1) * (F + B) / v",
     "s", "Narayanan et al. 2021, arXiv:2104.04473; Lamy-Poirier 2022, arXiv:2211.05953"},
    {"pipeline_zb_h1", "step time of ZB-H1", "m * (F + B) + (p - 1) * max(F, max(B - W, F + B - 2 * W))", "s",
     "Qi et al. 2023, arXiv:2401.10241"},
    {"pipeline_zb_h2", "step time of ZB-H2, optimizer step synchronised",
     "m * (F + B) + (p - 1) * max(F, F + B - 3 * W)", "s", "Qi et al. 2023, arXiv:2401.10241",
     "the paper's zero bubble needs an optimizer step without a global gradient norm; m >= 2p - 1"},
    {"pipeline_zb_v", "step time of ZB-V", "m * (F + B) + (p - 1) / 2 * max(F, max(B - W, 2 * (B - 2 * W)))", "s",
     "Qi et al. 2024, arXiv:2405.15362; order as in torchtitan", "m >= 2p - 1"},
    {"pipeline_dualpipe", "step time of DualPipe",
     "(m - p - 1) * P + (p + 1) * (F + B) + (p / 2 - 1) * (P + B - 3 * W)", "s",
     "DeepSeek-AI 2024, github.com/deepseek-ai/DualPipe", "p even, m even and at least 2p"},
    {"pipeline_dualpipe_v", "step time of DualPipeV",
     "(m - p - 0.5) * P + (p + 0.5) * (F + B) + (p - 1) / 2 * (P + B - 3 * W)", "s",
     "DeepSeek-AI 2025, github.com/deepseek-ai/DualPipe", "m >= 2p"},
    {"in_flight_1f1b", "micro-batches held by rank r under 1F1B", "min(p - r, m)", "micro-batches",
     "Narayanan et al. 2021, arXiv:2104.04473"},
    {"in_flight_interleaved", "micro-batches held by rank r under interleaved 1F1B, chunks over v",
     "min(m * v, 2 * (p - r - 1) + (v - 1) * G + 1) / v", "micro-batches",
     "Megatron-LM schedules.py; Korthikanti et al. 2022, arXiv:2205.05198", "G is p unless set; breadth-first: G = m"},
    {"exposed_hops_1f1b", "exposed hand-overs of 1F1B, equal stages", "2 * (p - 1) + 2 * ((m - 1) - ceil((m - 1) / p))",
     "hops", "simulation", "grows with m: p - r micro-batches in flight leave no slack"},
    {"exposed_hops_interleaved", "exposed hand-overs of interleaved 1F1B, equal stages", "2 * (p * v - 1)", "hops",
     "simulation"},
};

}  // namespace plan
