#pragma once

#include <string>
#include <vector>

#include "cli/explain/explanation.hpp"
#include "formulas/flops.hpp"
#include "formulas/traced.hpp"
#include "planner/answer/plan.hpp"
#include "planner/cost/kernels.hpp"
#include "planner/estimate/evaluate.hpp"
#include "planner/memory/memory.hpp"

namespace plan {

/// An explanation in one expression; a part of another one is named as its symbol.
[[nodiscard]] Explanation explained(std::string title, std::string equation, double value, std::string unit,
                                    std::vector<ExplainedSymbol> symbols, std::string source = {},
                                    std::vector<Explanation> parts = {});

/// The same of what a law reports.
[[nodiscard]] Explanation explained(std::string title, const Traced& law, std::string unit, std::string source = {});

/// A sum that grows term by term: "a + 3*b + ...". Terms of value 0 are left out.
class ExplainedSum {
 public:
  void add(ExplainedSymbol symbol) { add("", std::move(symbol)); }
  /// `factor` is text before the symbol: "l_0*".
  void add(const std::string& factor, ExplainedSymbol symbol);
  /// A symbol that is explained itself; named as the part.
  void add(const std::string& factor, std::string meaning, Explanation part);
  void give(ExplainedSymbol symbol) { symbols.push_back(std::move(symbol)); }

  std::string equation{};
  std::vector<ExplainedSymbol> symbols{};
  std::vector<Explanation> parts{};
};

/// The stage whose work makes the step: what it holds, and one micro-batch through it.
struct SlowestStage {
  StageContent content{};
  StageCost cost{};
  double visits = 1;        ///< share of its layers that a micro-batch meets: half of DualPipe's
  double ends = 1;          ///< share of embedding and head on it
  double times = 0;         ///< micro-batches one after another, of which pairs that overlap count less
  Seconds host_wait{};      ///< of one, that compute waits for activations on their way to the host and back
  PipelineTime pipeline{};  ///< of the whole step, by the law of the schedule
  Seconds hop{};            ///< the slowest hand-over between stages
};
/// Of the plan's best layout, reported by an evaluator of its own and not read from the plan's times.
[[nodiscard]] SlowestStage slowest_stage(const Plan& plan);

/// A stage as the memory model sees it.
struct StageRank {
  MemoryModel model;
  StageContent content{};
  StageSums sums{};
  double held = 0;        ///< micro-batches held at once
  std::string instant{};  ///< what runs when it peaks
};
/// Of the plan's best layout; `stage` counts from 0.
[[nodiscard]] StageRank stage_rank(const Plan& plan, int stage);

// Seconds of one micro-batch and their parts.
[[nodiscard]] Explanation explain_kernels(const Plan& plan, std::string name, std::string title,
                                          const std::vector<KernelTime>& kernels, Seconds whole);

/// FLOPs of a token, layer kind by layer kind and weight by weight, named `F`.
[[nodiscard]] Explanation explain_flops(const Plan& plan, Mask mask);
/// The same under the causal mask, with what recomputation repeats.
[[nodiscard]] Explanation explain_hardware_flops(const Plan& plan);

/// Parameters of a stage on one rank that are trained: those of experts, or all others.
[[nodiscard]] Explanation explain_trained(const Plan& plan, const StageRank& rank, const char* name, bool experts);

/// Bytes that one layer kind keeps of a micro-batch under the recomputation that `memory` was made with, tensor by
/// tensor; `whole`: without it.
[[nodiscard]] Explanation explain_ledger(const Plan& plan, const MemoryModel& memory, std::string name, int kind,
                                         bool whole = false);

/// Seconds of one hand-over between pipeline stages.
[[nodiscard]] Explanation explain_hand_over(const Plan& plan, std::string name);

}  // namespace plan
