#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/answer/estimate.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// Parts of a step that logs and traces show. They are coarser than the terms of an estimate, because a trace cannot
/// tell some terms apart: recomputed kernels look like any others, and a stage that waits for its neighbour spins in
/// the receive, so that the bubble is part of the hand-over.
enum class Observable { Step, Compute, Tp, Cp, Ep, Pipeline, Dp, Optimizer, Idle };
inline constexpr int kObservables = 9;
inline constexpr std::array<std::string_view, kObservables> kObservableNames{
    "step", "compute", "tp", "cp", "ep", "pipeline", "dp", "optimizer", "idle"};

/// Seconds of a step by Observable.
using StepParts = std::array<double, kObservables>;

/// What was measured of a run, as far as its files show it.
struct MeasuredStep {
  std::array<std::optional<double>, kObservables> seconds{};  ///< median step after warm-up, and its parts
  double spread = 0;  ///< relative standard deviation of a step from one to the next
};

/// Something seen outside the times that speaks for a fault or against it: a line of NCCL's log, a clock.
struct Evidence {
  std::string fault{};  ///< code of the fault
  bool speaks_for = true;
  std::string text{};   ///< "NCCL took sockets: NET/Socket"
  bool direct = false;  ///< shows what the plan rules out, whatever the times say: kernels of a forward pass run twice
};

/// One thing that can be wrong with a run, and what the step would be if it were.
struct Fault {
  std::string_view code;
  std::string_view what;     ///< "the network between nodes gives less than planned"
  std::string_view look;     ///< the setting or the place to look at
  std::string_view confirm;  ///< the check that would decide it
  double least = 1;          ///< smallest factor that is worth a word; equal to `most`: a switch
  double most = 1;
  /// Can this job have it at all?
  bool (*possible)(const Problem&, const Estimate&);
  /// The parts of a step with the fault at `factor`.
  StepParts (*parts)(const Problem&, const Estimate&, double factor);
  /// Looks in the times like another fault that is likelier: only what is seen besides makes it a suspect.
  bool needs_evidence = false;
};

/// The table of faults; `plan diagnose` tests each of them.
[[nodiscard]] const std::vector<Fault>& faults();

/// A measured part of the step beside the predicted one.
struct ComparedPart {
  Observable part = Observable::Step;
  double measured = 0;   ///< seconds
  double predicted = 0;  ///< seconds
  double sigma = 0;      ///< standard deviation of measured - predicted on a healthy run, seconds
  double error = 0;      ///< of that, the model's: a share of what it predicts, under a fault of what it predicts then
  double z() const { return (measured - predicted) / sigma; }
};

/// A fault that could have made what was measured.
struct Suspect {
  const Fault* fault = nullptr;
  double factor = 1;  ///< that explains the measurements best
  /// Sum of squared z that is left with it, and of 2 ln(sigma / sigma of a healthy run): -2 ln of its likelihood.
  double misfit = 0;
  double share = 0;   ///< of belief among all faults that were tested, 0 to 1
  StepParts parts{};  ///< the step with it
  std::vector<Evidence> evidence{};
  bool besides = false;  ///< beside the first of the suspects, which alone does not explain what was measured
};

struct Diagnosis {
  std::vector<ComparedPart> parts{};
  double misfit = 0;                ///< sum of squared z without any fault
  std::optional<Observable> worst;  ///< part furthest above its interval; none: nothing stands out
  std::vector<Suspect> suspects{};  ///< most believed first; empty where nothing stands out
};

/// Parts of the step that an estimate predicts.
[[nodiscard]] StepParts parts_of(const Problem& problem, const Estimate& estimate);

/// Measured beside predicted, and the faults that explain the difference.
///
/// Each fault is put into the model, its size chosen to fit the measurements best, and judged by its likelihood, with
/// two units of penalty for a size that was fitted (Akaike's criterion). What speaks
/// for or against a fault outside the times moves it by so many units, too. Where the likeliest one leaves a part
/// unexplained, the fault that explains most of the rest beside it comes second. Nothing stands out unless a part lies
/// above its interval by more than chance makes of that many parts in 3 of 100 healthy runs, or direct evidence shows a
/// fault under which the prediction comes closer to what was measured. `measured` must hold at least the step.
[[nodiscard]] Diagnosis diagnose(const Problem& problem, const Estimate& estimate, const MeasuredStep& measured,
                                 const std::vector<Evidence>& evidence);

}  // namespace plan
