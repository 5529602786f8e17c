// The catalog's table of pipeline formulas. Tested by tests/formulas/equations_test.cpp and textbook_pipeline_test.cpp.
#include "formulas/textbook/textbook_pipeline.hpp"

#include <cmath>

namespace plan::textbook {
namespace {

constexpr Symbol kP{"p", "pipeline stages", "", kNoTypical, Domain::Count};
constexpr Symbol kM{"m", "micro-batches", "", kNoTypical, Domain::Count};
constexpr Symbol kV{"v", "model chunks of a stage", "", 1, Domain::Count};
constexpr Symbol kF{"F", "forward of one micro-batch through a stage", "seconds"};
constexpr Symbol kB{"B", "its whole backward", "seconds"};
constexpr Symbol kBi{"B_i", "its backward for the input's gradient", "seconds"};
constexpr Symbol kW{"W", "its backward for the weights' gradient", "seconds"};
constexpr Symbol kPair{"FB", "one forward overlapped with one backward", "seconds"};
constexpr Symbol kR{"r", "pipeline rank, 0 first", "", 0, Domain::Amount};
constexpr Symbol kX{"x", "time to hand one activation to the next stage", "seconds"};

constexpr Symbol kBubble[] = {kP, kM};
constexpr Symbol kInterleaved[] = {kP, kM, kV};
constexpr Symbol kStages[] = {kP};
constexpr Symbol kStep[] = {kP, kM, kF, kB};
constexpr Symbol kSplitStep[] = {kP, kM, kF, kB, kW};
constexpr Symbol kBubbleTime[] = {kP, kF, kB};
constexpr Symbol kInterleavedStep[] = {kP, kM, kV, kF, kB};
constexpr Symbol kSplit[] = {kP, kF, kBi, kW};
constexpr Symbol kDual[] = {kP, kPair, kB, kW};
constexpr Symbol kDualStep[] = {kP, kM, kF, kB, kW, kPair};
constexpr Symbol kHeld[] = {kP, kM, kR};
constexpr Symbol kHeldInterleaved[] = {
    kP, kM, kV, {"G", "micro-batches of a group, usually p", "", kNoTypical, Domain::Count}, kR};
constexpr Symbol kHop[] = {kP, kM, kX};
constexpr Symbol kHopInterleavedSymbols[] = {kP, kV, kX};
constexpr Symbol kUneven[] = {kM,
                              {"S", "forward and backward of all stages together", "seconds"},
                              {"M", "forward and backward of the slowest", "seconds"}};

constexpr CatalogEntry kEntries[] = {
    entry<bubble_fraction>(kBubbleFraction, kBubble,
                           erratum<bubble_ratio>("CS336 lecture 7 notes, p. 40", "(p - 1)/m",
                                                 "That is the ratio to the ideal time; 16 stages and 16 micro-batches "
                                                 "wait 48 % of the step, not 94 %.")),
    entry<bubble_ratio>(kBubbleRatio, kBubble),
    entry<bubble_fraction_interleaved>(kBubbleFractionInterleaved, kInterleaved),
    entry<bubble_ratio_interleaved>(kBubbleRatioInterleaved, kInterleaved),
    entry<naive_pipeline>(kNaivePipeline, kStages),
    entry<step_1f1b>(kStep1F1B, kStep),
    entry<bubble_1f1b>(kBubble1F1B, kBubbleTime),
    entry<step_interleaved>(kStepInterleaved, kInterleavedStep),
    entry<bubble_zb_h1>(kBubbleZbH1, kSplit),
    entry<bubble_zb_h2>(kBubbleZbH2, kSplit),
    entry<step_zb_h1>(kStepZbH1, kSplitStep),
    entry<step_zb_h2>(kStepZbH2, kSplitStep),
    entry<step_zb_v>(kStepZbV, kSplitStep),
    entry<bubble_v_half>(kBubbleVHalf, kBubbleTime),
    entry<bubble_v_min>(kBubbleVMin, kBubbleTime),
    entry<bubble_dualpipe>(kBubbleDualPipe, kDual),
    entry<bubble_dualpipev>(kBubbleDualPipeV, kDual),
    entry<step_dualpipe>(kStepDualPipe, kDualStep),
    entry<step_dualpipev>(kStepDualPipeV, kDualStep),
    entry<in_flight_1f1b>(kInFlight1F1B, kHeld),
    entry<in_flight_zb_h2>(kInFlightZbH2, kHeld),
    entry<in_flight_interleaved>(kInFlightInterleaved, kHeldInterleaved),
    entry<in_flight_dualpipe>(kInFlightDualPipe, kStages),
    entry<hop_1f1b>(kHop1F1B, kHop),
    entry<hop_interleaved>(kHopInterleaved, kHopInterleavedSymbols),
    entry<step_uneven>(kStepUneven, kUneven),
};

}  // namespace

Seconds hop_1f1b(const HopInput& in) {
  const double steady = in.micro_batches - 1;
  return Seconds(in.hop * (2 * (in.pp - 1) + 2 * (steady - std::ceil(steady / in.pp))));
}

std::span<const CatalogEntry> pipeline_formulas() { return kEntries; }

}  // namespace plan::textbook
