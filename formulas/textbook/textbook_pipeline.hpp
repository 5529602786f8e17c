#pragma once

#include <span>

#include "formulas/textbook/catalog_entry.hpp"
#include "formulas/textbook/sources.hpp"
#include "formulas/units.hpp"

/// Closed forms for pipelines of equal stages (plan-formulas(7) D5, F6). Uneven stages: formulas/schedule.hpp.
/// F and B are times of one micro-batch through a whole stage; B is the full backward, B_i its input-gradient
/// part and W its weight-gradient part.
namespace plan::textbook {

struct BubbleInput {
  double pp = 1;             ///< p
  double micro_batches = 1;  ///< m
};
inline constexpr Formula kBubbleFraction{"bubble-fraction", "Share of the step that 1F1B and GPipe wait",
                                         "(p - 1)/(m + p - 1)", "ratio", source::kNarayanan};
[[nodiscard]] constexpr double bubble_fraction(const BubbleInput& in) {
  return (in.pp - 1) / (in.micro_batches + in.pp - 1);
}
inline constexpr Formula kBubbleRatio{
    "bubble-ratio",     "Waiting over working time of 1F1B and GPipe",
    "(p - 1)/m",        "ratio",
    source::kNarayanan, "Over the ideal time, not a share of the step: that is bubble-fraction."};
[[nodiscard]] constexpr double bubble_ratio(const BubbleInput& in) { return (in.pp - 1) / in.micro_batches; }

struct InterleavedBubbleInput {
  double pp = 1;             ///< p
  double micro_batches = 1;  ///< m
  double vp = 1;             ///< v
};
inline constexpr Formula kBubbleFractionInterleaved{"bubble-fraction-interleaved",
                                                    "Share of the step that the interleaved schedule waits",
                                                    "(p - 1)/(m*v + p - 1)", "ratio", source::kNarayanan};
[[nodiscard]] constexpr double bubble_fraction_interleaved(const InterleavedBubbleInput& in) {
  return (in.pp - 1) / (in.micro_batches * in.vp + in.pp - 1);
}
inline constexpr Formula kBubbleRatioInterleaved{"bubble-ratio-interleaved",
                                                 "Waiting over working time of the interleaved schedule",
                                                 "(p - 1)/(m*v)", "ratio", source::kNarayanan};
[[nodiscard]] constexpr double bubble_ratio_interleaved(const InterleavedBubbleInput& in) {
  return (in.pp - 1) / (in.micro_batches * in.vp);
}

struct StagesInput {
  double pp = 1;  ///< p
};
inline constexpr Formula kNaivePipeline{"naive-pipeline-utilisation",
                                        "Utilisation of layers split without micro-batches",
                                        "1/p",
                                        "ratio",
                                        source::kCourseLecture9,
                                        "Also the ceiling of MFU for it; course notes call it model parallelism."};
[[nodiscard]] constexpr double naive_pipeline(const StagesInput& in) { return 1 / in.pp; }

struct PipelineStepInput {
  double pp = 1;             ///< p
  double micro_batches = 1;  ///< m
  double forward = 0;        ///< F
  double backward = 0;       ///< B
};
inline constexpr Formula kStep1F1B{
    "step-1f1b",
    "Step time of 1F1B and GPipe",
    "(m + p - 1)*(F + B)",
    "seconds",
    source::kNarayanan,
    "1F1B has GPipe's bubble and saves memory only; course notes that title it interleaved mix up the "
    "two: interleaving v chunks divides the bubble by v."};
[[nodiscard]] constexpr Seconds step_1f1b(const PipelineStepInput& in) {
  return Seconds((in.micro_batches + in.pp - 1) * (in.forward + in.backward));
}

inline constexpr Formula kBubble1F1B{"bubble-1f1b", "Waiting time of 1F1B and GPipe", "(p - 1)*(F + B)", "seconds",
                                     source::kNarayanan};
struct BubbleTimeInput {
  double pp = 1;        ///< p
  double forward = 0;   ///< F
  double backward = 0;  ///< B
};
[[nodiscard]] constexpr Seconds bubble_1f1b(const BubbleTimeInput& in) {
  return Seconds((in.pp - 1) * (in.forward + in.backward));
}

struct InterleavedStepInput {
  double pp = 1;             ///< p
  double micro_batches = 1;  ///< m
  double vp = 1;             ///< v
  double forward = 0;        ///< F
  double backward = 0;       ///< B
};
inline constexpr Formula kStepInterleaved{"step-interleaved",
                                          "Step time of interleaved and breadth-first schedules",
                                          "m*(F + B) + (p - 1)*(F + B)/v",
                                          "seconds",
                                          source::kNarayanan,
                                          "Needs m to be a multiple of p."};
[[nodiscard]] constexpr Seconds step_interleaved(const InterleavedStepInput& in) {
  const double both = in.forward + in.backward;
  return Seconds(in.micro_batches * both + (in.pp - 1) * both / in.vp);
}

struct SplitBackwardInput {
  double pp = 1;               ///< p
  double forward = 0;          ///< F
  double backward_input = 0;   ///< B_i
  double backward_weight = 0;  ///< W
};
inline constexpr Formula kBubbleZbH1{
    "bubble-zb-h1",          "Waiting time of ZB-H1",
    "(p - 1)*(F + B_i - W)", "seconds",
    source::kZeroBubble,     "DualPipe's README writes (p - 1)(F + B - 2W): there B is the whole backward."};
[[nodiscard]] constexpr Seconds bubble_zb_h1(const SplitBackwardInput& in) {
  return Seconds((in.pp - 1) * (in.forward + in.backward_input - in.backward_weight));
}

inline constexpr Formula kBubbleZbH2{
    "bubble-zb-h2",
    "Waiting time of one device under ZB-H2",
    "(p - 1)*max(0, F + B_i - 2*W)",
    "seconds",
    source::kZeroBubble,
    "Only with optimizer post-validation; with a global gradient norm see step-zb-h2."};
[[nodiscard]] constexpr Seconds bubble_zb_h2(const SplitBackwardInput& in) {
  const double idle = in.forward + in.backward_input - 2 * in.backward_weight;
  return Seconds((in.pp - 1) * (idle > 0 ? idle : 0));
}

struct SplitStepInput {
  double pp = 1;               ///< p
  double micro_batches = 1;    ///< m
  double forward = 0;          ///< F
  double backward = 0;         ///< B
  double backward_weight = 0;  ///< W
};
inline constexpr Formula kStepZbH1{
    "step-zb-h1", "Step time of ZB-H1", "m*(F + B) + (p - 1)*max(F, max(B - W, F + B - 2*W))",
    "seconds",    source::kZeroBubble,  "B is the whole backward. For F = B_i = W the bubble is bubble-zb-h1."};
[[nodiscard]] constexpr Seconds step_zb_h1(const SplitStepInput& in) {
  double wait = in.forward + in.backward - 2 * in.backward_weight;
  if (in.backward - in.backward_weight > wait) wait = in.backward - in.backward_weight;
  if (in.forward > wait) wait = in.forward;
  return Seconds(in.micro_batches * (in.forward + in.backward) + (in.pp - 1) * wait);
}

inline constexpr Formula kStepZbH2{"step-zb-h2",
                                   "Step time of ZB-H2 when the optimizer waits for every stage",
                                   "m*(F + B) + (p - 1)*max(F, F + B - 3*W)",
                                   "seconds",
                                   "event simulation",
                                   "A global gradient norm makes every stage wait for the last. m at least 2p - 1."};
[[nodiscard]] constexpr Seconds step_zb_h2(const SplitStepInput& in) {
  const double behind = in.backward - 3 * in.backward_weight;
  const double wait = in.forward + (behind > 0 ? behind : 0);
  return Seconds(in.micro_batches * (in.forward + in.backward) + (in.pp - 1) * wait);
}

inline constexpr Formula kStepZbV{"step-zb-v",
                                  "Step time of ZB-V when the optimizer waits for every stage",
                                  "m*(F + B) + (p - 1)/2*max(F, max(B - W, 2*(B - 2*W)))",
                                  "seconds",
                                  "event simulation",
                                  "Two chunks a rank; times of both together. m at least 2p - 1."};
[[nodiscard]] constexpr Seconds step_zb_v(const SplitStepInput& in) {
  const double input = in.backward - in.backward_weight;
  double wait = 2 * (input - in.backward_weight);
  if (input > wait) wait = input;
  if (in.forward > wait) wait = in.forward;
  return Seconds(in.micro_batches * (in.forward + in.backward) + (in.pp - 1) / 2 * wait);
}

inline constexpr Formula kBubbleVHalf{"bubble-v-half",
                                      "Waiting time of V-Half",
                                      "(p - 1)*(F + B)/2",
                                      "seconds",
                                      "sail-sg/zero-bubble-pipeline-parallelism",
                                      "For F = B_i = W. ZB-V waits not at all."};
[[nodiscard]] constexpr Seconds bubble_v_half(const BubbleTimeInput& in) {
  return Seconds((in.pp - 1) * (in.forward + in.backward) / 2);
}
inline constexpr Formula kBubbleVMin{"bubble-v-min",
                                     "Waiting time of V-Min",
                                     "(p - 1)*(F + B)*2/3",
                                     "seconds",
                                     "sail-sg/zero-bubble-pipeline-parallelism",
                                     "For F = B_i = W."};
[[nodiscard]] constexpr Seconds bubble_v_min(const BubbleTimeInput& in) {
  return Seconds((in.pp - 1) * (in.forward + in.backward) * 2 / 3);
}

struct DualPipeInput {
  double pp = 2;               ///< p
  double pair = 0;             ///< FB
  double backward = 0;         ///< B
  double backward_weight = 0;  ///< W
};
inline constexpr Formula kBubbleDualPipe{"bubble-dualpipe",
                                         "Waiting time of DualPipe",
                                         "(p/2 - 1)*(FB + B - 3*W)",
                                         "seconds",
                                         source::kDualPipe,
                                         "p even, m even and at least 2p; exact for F = B_i = W. B is the whole "
                                         "backward. Every rank holds two stages' weights."};
[[nodiscard]] constexpr Seconds bubble_dualpipe(const DualPipeInput& in) {
  return Seconds((in.pp / 2 - 1) * (in.pair + in.backward - 3 * in.backward_weight));
}
inline constexpr Formula kBubbleDualPipeV{
    "bubble-dualpipev",       "Waiting time of DualPipeV on p ranks",
    "(p - 1)*(FB + B - 3*W)", "seconds",
    source::kDualPipe,        "p ranks hold 2p stages; times are of one of the two. m at least 2p."};
[[nodiscard]] constexpr Seconds bubble_dualpipev(const DualPipeInput& in) {
  return Seconds((in.pp - 1) * (in.pair + in.backward - 3 * in.backward_weight));
}

struct DualPipeStepInput {
  double pp = 2;               ///< p
  double micro_batches = 4;    ///< m
  double forward = 0;          ///< F
  double backward = 0;         ///< B
  double backward_weight = 0;  ///< W
  double pair = 0;             ///< FB
};
inline constexpr Formula kStepDualPipe{
    "step-dualpipe",
    "Step time of DualPipe",
    "m*(F + B) - (m - p - 1)*(F + B - FB) + (p/2 - 1)*(FB + B - 3*W)",
    "seconds",
    source::kDualPipe,
    "The middle ranks overlap the fewest pairs, m - p - 1, and set the pace. Exact for F = B_i = W."};
[[nodiscard]] constexpr Seconds step_dualpipe(const DualPipeStepInput& in) {
  const double both = in.forward + in.backward;
  const double busy = in.micro_batches * both - (in.micro_batches - in.pp - 1) * (both - in.pair);
  return Seconds(busy) + bubble_dualpipe({in.pp, in.pair, in.backward, in.backward_weight});
}

inline constexpr Formula kStepDualPipeV{"step-dualpipev",
                                        "Step time of DualPipeV on p ranks",
                                        "m*(F + B) - (m - p - 0.5)*(F + B - FB) + (p - 1)/2*(FB + B - 3*W)",
                                        "seconds",
                                        source::kDualPipe,
                                        "Times are of both stages of a rank together. m at least 2p."};
[[nodiscard]] constexpr Seconds step_dualpipev(const DualPipeStepInput& in) {
  const double both = in.forward + in.backward;
  const double busy = in.micro_batches * both - (in.micro_batches - in.pp - 0.5) * (both - in.pair);
  const double bubble = (in.pp - 1) / 2 * (in.pair + in.backward - 3 * in.backward_weight);
  return Seconds(busy + bubble);
}

struct InFlightInput {
  double pp = 1;             ///< p
  double micro_batches = 1;  ///< m
  double rank = 0;           ///< r
};
inline constexpr Formula kInFlight1F1B{"in-flight-1f1b",  "Micro-batches that rank r (0 first) holds under 1F1B",
                                       "min(p - r, m)",   "micro-batches",
                                       source::kMegatron, "GPipe holds all m."};
[[nodiscard]] constexpr double in_flight_1f1b(const InFlightInput& in) {
  const double warm_up = in.pp - in.rank;
  return warm_up < in.micro_batches ? warm_up : in.micro_batches;
}
inline constexpr Formula kInFlightZbH2{"in-flight-zb-h2", "Micro-batches that rank r holds under ZB-H2",
                                       "min(2*(p - r) - 1, m)", "micro-batches", source::kZeroBubble};
[[nodiscard]] constexpr double in_flight_zb_h2(const InFlightInput& in) {
  const double warm_up = 2 * (in.pp - in.rank) - 1;
  return warm_up < in.micro_batches ? warm_up : in.micro_batches;
}

struct InFlightInterleavedInput {
  double pp = 1;             ///< p
  double micro_batches = 1;  ///< m
  double vp = 1;             ///< v
  double group = 1;          ///< G
  double rank = 0;           ///< r
};
inline constexpr Formula kInFlightInterleaved{"in-flight-interleaved",
                                              "Chunks (1/v of a stage) that rank r holds, interleaved",
                                              "min(m*v, 2*(p - r - 1) + (v - 1)*G + 1)",
                                              "chunks",
                                              source::kMegatron,
                                              "Breadth-first is G = m."};
[[nodiscard]] constexpr double in_flight_interleaved(const InFlightInterleavedInput& in) {
  const double warm_up = 2 * (in.pp - in.rank - 1) + (in.vp - 1) * in.group + 1;
  const double all = in.micro_batches * in.vp;
  return warm_up < all ? warm_up : all;
}
inline constexpr Formula kInFlightDualPipe{
    "in-flight-dualpipe", "Stages' activations that a rank holds under DualPipe",    "p + 1", "micro-batches",
    source::kDualPipe,    "Of stages of 1/p of the model, both directions together."};
[[nodiscard]] constexpr double in_flight_dualpipe(const StagesInput& in) { return in.pp + 1; }

struct HopInput {
  double pp = 1;             ///< p
  double micro_batches = 1;  ///< m
  double hop = 0;            ///< x
};
inline constexpr Formula kHop1F1B{"p2p-1f1b",
                                  "Exposed transfers of 1F1B",
                                  "x*(2*(p - 1) + 2*((m - 1) - ceil((m - 1)/p)))",
                                  "seconds",
                                  "event simulation",
                                  "Grows with m: p - r micro-batches in flight leave no slack for a transfer."};
[[nodiscard]] Seconds hop_1f1b(const HopInput& in);

struct HopInterleavedInput {
  double pp = 1;   ///< p
  double vp = 1;   ///< v
  double hop = 0;  ///< x
};
inline constexpr Formula kHopInterleaved{"p2p-interleaved",  "Exposed transfers of the interleaved schedule",
                                         "2*(p*v - 1)*x",    "seconds",
                                         "event simulation", "While a transfer fits into a chunk's slack."};
[[nodiscard]] constexpr Seconds hop_interleaved(const HopInterleavedInput& in) {
  return Seconds(2 * (in.pp * in.vp - 1) * in.hop);
}

struct UnevenInput {
  double micro_batches = 1;  ///< m
  double sum = 0;            ///< S
  double slowest = 0;        ///< M
};
inline constexpr Formula kStepUneven{"step-uneven",    "Upper bound of 1F1B's step with unequal stages",
                                     "S + (m - 1)*M",  "seconds",
                                     source::kDerived, "Exact where the slowest stage is the last."};
[[nodiscard]] constexpr Seconds step_uneven(const UnevenInput& in) {
  return Seconds(in.sum + (in.micro_batches - 1) * in.slowest);
}

[[nodiscard]] std::span<const CatalogEntry> pipeline_formulas();

}  // namespace plan::textbook
