#pragma once

#include <span>

#include "formulas/textbook/catalog_entry.hpp"
#include "formulas/textbook/sources.hpp"

/// What each parallel axis moves (plan-formulas(7) E). Bytes that one rank sends, unless a formula says elements.
namespace plan::textbook {

// --- Tensor parallelism, one layer, one micro-batch, forward and backward --------------------------------

struct TensorTrafficInput {
  double micro_batch = 1;  ///< b
  double seq = 0;          ///< s
  double hidden = 0;       ///< h
  double tp = 1;           ///< t
  constexpr double share() const { return micro_batch * seq * hidden * (tp - 1) / tp; }
};

inline constexpr Formula kTpTraffic{"tp-traffic",
                                    "Tensor parallelism, one layer",
                                    "8*b*s*h*(t - 1)/t",
                                    "elements",
                                    source::kNarayanan,
                                    "Four all-reduces of two phases each (reduce-scatter, all-gather); not because a "
                                    "rank sends and receives, as the course notes say. 2 bytes an element in bf16."};
[[nodiscard]] constexpr double tp_traffic(const TensorTrafficInput& in) { return 8 * in.share(); }

inline constexpr Formula kTpSpTraffic{"tp-sp-traffic",
                                      "Tensor and sequence parallelism, one layer",
                                      "10*b*s*h*(t - 1)/t",
                                      "elements",
                                      source::kMegatron,
                                      "The inputs of both column-parallel GEMMs are gathered again for the weight "
                                      "gradient; that gather hides under the data gradient."};
[[nodiscard]] constexpr double tp_sp_traffic(const TensorTrafficInput& in) { return 10 * in.share(); }

inline constexpr Formula kTpFullTraffic{"tp-traffic-full", "Tensor parallelism with full recomputation",
                                        "12*b*s*h*(t - 1)/t", "elements", source::kMegatron};
[[nodiscard]] constexpr double tp_full_traffic(const TensorTrafficInput& in) { return 12 * in.share(); }

inline constexpr Formula kTpSpFullTraffic{"tp-sp-traffic-full", "Tensor and sequence parallelism, full recomputation",
                                          "14*b*s*h*(t - 1)/t", "elements", source::kMegatron};
[[nodiscard]] constexpr double tp_sp_full_traffic(const TensorTrafficInput& in) { return 14 * in.share(); }

struct OutputInput {
  double tokens = 0;  ///< N
  double hidden = 0;  ///< D
};
inline constexpr Formula kTpOutput{"tp-output",
                                   "Elements of a tensor-parallel layer's output, before its all-reduce",
                                   "N*D",
                                   "elements",
                                   source::kDerived,
                                   "A column split needs no communication before the row split, whose partial sums are "
                                   "all-reduced; lab 0 notes have it the other way round."};
[[nodiscard]] constexpr double tp_output(const OutputInput& in) { return in.tokens * in.hidden; }
[[nodiscard]] constexpr double tp_output_course(const OutputInput& in) { return in.hidden * in.hidden; }

// --- Pipeline parallelism --------------------------------------------------------------------------------

struct PipelineTrafficInput {
  double micro_batch = 1;  ///< b
  double seq = 0;          ///< s
  double hidden = 0;       ///< h
  double tp = 1;           ///< t
};
inline constexpr Formula kPpTraffic{"pp-traffic",
                                    "One activation handed to the next stage, bf16",
                                    "2*b*s*h/t",
                                    "bytes",
                                    source::kMegatron,
                                    "Split by t with sequence parallelism; otherwise t = 1. 2 m v of them a rank and "
                                    "step; DualPipe and ZB-V twice as many."};
[[nodiscard]] constexpr RealBytes pp_traffic(const PipelineTrafficInput& in) {
  return RealBytes(2 * in.micro_batch * in.seq * in.hidden / in.tp);
}

struct TiedInput {
  double vocab = 0;   ///< V
  double hidden = 0;  ///< h
  double tp = 1;      ///< t
};
inline constexpr Formula kTiedTraffic{"tied-embedding-traffic",
                                      "Gradient of an embedding shared by first and last stage, all-reduced in fp32",
                                      "4*V*h/t", "bytes", source::kMegatron};
[[nodiscard]] constexpr RealBytes tied_traffic(const TiedInput& in) {
  return RealBytes(4 * in.vocab * in.hidden / in.tp);
}

// --- Data parallelism, one optimizer step ----------------------------------------------------------------

struct DataTrafficInput {
  double parameters = 0;  ///< P
  double ranks = 1;       ///< n
  double grad_bytes = 4;  ///< g
  constexpr double share() const { return parameters * (ranks - 1) / ranks; }
};

inline constexpr Formula kDdpTraffic{"ddp-traffic", "Data parallelism: gradients all-reduced", "2*g*P*(n - 1)/n",
                                     "bytes", source::kZero};
[[nodiscard]] constexpr RealBytes ddp_traffic(const DataTrafficInput& in) {
  return RealBytes(2 * in.grad_bytes * in.share());
}

inline constexpr Formula kZero1Traffic{
    "zero1-traffic",
    "ZeRO-1: gradients reduce-scattered, weights gathered",
    "(g + 2)*P*(n - 1)/n",
    "bytes",
    source::kZero,
    "Equal to the all-reduce where gradients are bf16 too; with fp32 gradients 6 "
    "bytes a parameter against 4. If the all-reduce is kept the gather comes on top."};
[[nodiscard]] constexpr RealBytes zero1_traffic(const DataTrafficInput& in) {
  return RealBytes((in.grad_bytes + 2) * in.share());
}

inline constexpr Formula kZero2Traffic{
    "zero2-traffic",
    "ZeRO-2: gradients reduce-scattered in every micro-batch, weights gathered once",
    "(m*g + 2)*P*(n - 1)/n",
    "bytes",
    source::kZero,
    "Shards of gradients leave no room to add up whole ones first. Where a stack keeps whole gradients until the last "
    "micro-batch, as Megatron's distributed optimizer does, m = 1: the traffic of ZeRO-1."};

inline constexpr Formula kZero1Weights{
    "zero1-weights-traffic",
    "ZeRO-1: updated weights gathered",
    "2*P*(n - 1)/n",
    "bytes",
    source::kZero,
    "The gradients' reduce-scatter is half an all-reduce, so the total does not grow; "
    "but the gather is traffic and can be exposed."};
struct WeightsInput {
  double parameters = 0;  ///< P
  double ranks = 1;       ///< n
};
[[nodiscard]] constexpr RealBytes zero1_weights(const WeightsInput& in) {
  return RealBytes(2 * in.parameters * (in.ranks - 1) / in.ranks);
}
[[nodiscard]] constexpr RealBytes no_traffic(const WeightsInput&) { return RealBytes(0); }

struct StepTrafficInput {
  double parameters = 0;     ///< P
  double ranks = 1;          ///< n
  double grad_bytes = 4;     ///< g
  double micro_batches = 1;  ///< m
  constexpr double share() const { return parameters * (ranks - 1) / ranks; }
};
inline constexpr Formula kZero3Traffic{
    "zero3-traffic",
    "ZeRO-3, FSDP: weights gathered twice, gradients reduce-scattered",
    "m*(2 + 2 + g)*P*(n - 1)/n",
    "bytes",
    source::kZero,
    "Once per layer and micro-batch. With bf16 gradients the textbook's 3 P. Every rank holds a slice of "
    "every weight: slices are gathered, no owner broadcasts a whole one."};
[[nodiscard]] constexpr RealBytes zero3_traffic(const StepTrafficInput& in) {
  return RealBytes(in.micro_batches * (4 + in.grad_bytes) * in.share());
}
[[nodiscard]] constexpr RealBytes zero3_traffic_once(const StepTrafficInput& in) {
  return RealBytes((4 + in.grad_bytes) * in.share());
}

inline constexpr Formula kFsdpKeep{"fsdp-traffic-no-reshard", "FSDP that keeps gathered weights for the backward pass",
                                   "m*(2 + g)*P*(n - 1)/n", "bytes", source::kTorchtitan};
[[nodiscard]] constexpr RealBytes fsdp_keep_traffic(const StepTrafficInput& in) {
  return RealBytes(in.micro_batches * (2 + in.grad_bytes) * in.share());
}

[[nodiscard]] constexpr RealBytes zero2_traffic(const StepTrafficInput& in) {
  return RealBytes((in.micro_batches * in.grad_bytes + 2) * in.share());
}

struct HsdpGroupInput {
  double parameters = 0;     ///< P
  double shards = 8;         ///< K
  double grad_bytes = 2;     ///< g
  double micro_batches = 1;  ///< m
};
struct HsdpInput {
  double parameters = 0;     ///< P
  double shards = 8;         ///< K
  double replicas = 1;       ///< M
  double grad_bytes = 2;     ///< g
  double micro_batches = 1;  ///< m
};
inline constexpr Formula kHsdpIntra{"hsdp-intra-traffic",
                                    "Hybrid sharding, inside a group of K shards",
                                    "m*(2 + 2 + g)*P*(K - 1)/K",
                                    "bytes",
                                    source::kFsdp2,
                                    "The course's 3x: three tensors of the model's size, in every micro-batch."};
[[nodiscard]] constexpr RealBytes hsdp_intra(const HsdpGroupInput& in) {
  return RealBytes(in.micro_batches * (4 + in.grad_bytes) * in.parameters * (in.shards - 1) / in.shards);
}
inline constexpr Formula kHsdpInter{
    "hsdp-inter-traffic",  "Hybrid sharding, between the M replicas",
    "m*2*g*(M - 1)/M*P/K", "bytes",
    source::kFsdp2,        "m = 1 where the replicas meet in the last micro-batch alone."};
[[nodiscard]] constexpr RealBytes hsdp_inter(const HsdpInput& in) {
  return RealBytes(in.micro_batches * 2 * in.grad_bytes * (in.replicas - 1) / in.replicas * in.parameters / in.shards);
}
/// The course's 1x: one gradient tensor of the model's size.
[[nodiscard]] constexpr RealBytes hsdp_inter_course(const HsdpInput& in) {
  return RealBytes(in.grad_bytes * in.parameters);
}

// --- The course's table: a two-matmul FFN, global batch of B tokens, bf16 -------------------------------------------

struct TableInput {
  double tokens = 0;  ///< B   of the whole batch
  double hidden = 0;  ///< D
  double ffn = 0;     ///< F
  double data = 1;    ///< X
  double model = 1;   ///< Y
};
inline constexpr Formula kTableCompute{
    "table-compute",
    "FLOPs of one FFN on one GPU, forward and backward",
    "4*B*D*F/(X*Y) + 8*B*D*F/(X*Y)",
    "FLOP",
    source::kCourseMaths,
    "B counts the whole batch's tokens; the notes call it the tokens of one GPU, and then the "
    "division by X does not hold."};
[[nodiscard]] constexpr Flops table_compute(const TableInput& in) {
  return Flops(12 * in.tokens * in.hidden * in.ffn / (in.data * in.model));
}

struct TableWeightsInput {
  double hidden = 0;  ///< D
  double ffn = 0;     ///< F
};
inline constexpr Formula kTableDp{"table-dp",           "Traffic of data parallelism in the course's table",
                                  "0 + 8*D*F",          "bytes",
                                  source::kCourseMaths, "All-reduce of 2 D F weights, 2 bytes, 2 phases."};
[[nodiscard]] constexpr RealBytes table_dp(const TableWeightsInput& in) { return RealBytes(8 * in.hidden * in.ffn); }
inline constexpr Formula kTableFsdp{"table-fsdp",         "Traffic of FSDP in the course's table",
                                    "4*D*F + 8*D*F",      "bytes",
                                    source::kCourseMaths, "Gather; gather and reduce-scatter."};
[[nodiscard]] constexpr RealBytes table_fsdp(const TableWeightsInput& in) { return RealBytes(12 * in.hidden * in.ffn); }

struct TableModelInput {
  double tokens = 0;  ///< B
  double hidden = 0;  ///< D
};
inline constexpr Formula kTableMp{
    "table-mp",
    "Traffic of model parallelism in the course's table",
    "4*B*D + 4*B*D",
    "bytes",
    source::kCourseMaths,
    "Gather the input, reduce-scatter the output; + 2 B D if the backward pass gathers the "
    "input again."};
[[nodiscard]] constexpr RealBytes table_mp(const TableModelInput& in) { return RealBytes(8 * in.tokens * in.hidden); }

inline constexpr Formula kTableFsdpMp{"table-fsdp-mp",
                                      "Traffic of FSDP with model parallelism",
                                      "(4*B*D/X + 4*D*F/Y) + (4*B*D/X + 8*D*F/Y)",
                                      "bytes",
                                      source::kDerived,
                                      "6 B D / X in the backward pass where the input is gathered again."};
[[nodiscard]] constexpr RealBytes table_fsdp_mp(const TableInput& in) {
  return RealBytes(8 * in.tokens * in.hidden / in.data + 12 * in.hidden * in.ffn / in.model);
}
[[nodiscard]] constexpr RealBytes table_fsdp_mp_course(const TableInput& in) {
  return RealBytes(12 * in.tokens * in.hidden / in.data + 12 * in.hidden * in.ffn / in.model);
}

// --- Context parallelism, one layer; q and kv already divided by tp ----------------------------------------------

struct ContextInput {
  double tokens = 0;  ///< N   on the rank
  double kv = 0;      ///< kv
  double cp = 1;      ///< c
};
inline constexpr Formula kRingForward{"ring-traffic",
                                      "Ring or all-gather context parallelism, forward, bf16",
                                      "4*(c - 1)*N*kv",
                                      "bytes",
                                      source::kTransformerEngine,
                                      "Keys and values."};
[[nodiscard]] constexpr RealBytes ring_forward(const ContextInput& in) {
  return RealBytes(4 * (in.cp - 1) * in.tokens * in.kv);
}

inline constexpr Formula kRingBackward{"ring-traffic-backward",
                                       "Ring context parallelism, backward, bf16",
                                       "4*N*kv*(c - 1) + 4*N*kv*c",
                                       "bytes",
                                       source::kTransformerEngine,
                                       "Keys and values again, and their gradients the whole way round; those in fp32 "
                                       "in ring-flash-attention."};
[[nodiscard]] constexpr RealBytes ring_backward(const ContextInput& in) {
  return RealBytes(4 * in.tokens * in.kv * (2 * in.cp - 1));
}

struct UlyssesInput {
  double tokens = 0;  ///< N
  double q = 0;       ///< q
  double kv = 0;      ///< kv
  double cp = 1;      ///< c
};
inline constexpr Formula kUlysses{"ulysses-traffic",
                                  "Ulysses context parallelism, each way, bf16",
                                  "(c - 1)/c*N*(2*q + 2*kv)*2",
                                  "bytes",
                                  source::kTransformerEngine,
                                  "Queries, keys and values in, output out: four all-to-alls. c divides heads / t."};
[[nodiscard]] constexpr RealBytes ulysses_traffic(const UlyssesInput& in) {
  return RealBytes((in.cp - 1) / in.cp * in.tokens * (2 * in.q + 2 * in.kv) * 2);
}

struct RingRatioInput {
  double q = 0;   ///< q
  double kv = 0;  ///< kv
  double cp = 1;  ///< c
};
inline constexpr Formula kRingOverUlysses{"ring-over-ulysses", "Forward traffic of ring over Ulysses",
                                          "c*kv/(q + kv)",     "ratio",
                                          source::kDerived,    "Above 1 Ulysses moves less, grouped queries or not."};
[[nodiscard]] constexpr double ring_over_ulysses(const RingRatioInput& in) { return in.cp * in.kv / (in.q + in.kv); }

struct UlyssesLinkInput {
  double seq = 0;     ///< s
  double hidden = 0;  ///< h
  double ranks = 1;   ///< P
};
inline constexpr Formula kUlyssesLink{"ulysses-link-elements", "Elements of four all-to-alls on each link, forward",
                                      "4*s*h/P", "elements", "Jacobs et al. 2023, arXiv:2309.14509"};
[[nodiscard]] constexpr double ulysses_link(const UlyssesLinkInput& in) { return 4 * in.seq * in.hidden / in.ranks; }
struct SequenceInput {
  double seq = 0;     ///< s
  double hidden = 0;  ///< h
};
inline constexpr Formula kMegatronSpLink{"megatron-sp-link-elements",
                                         "Elements of Megatron's gathers and scatters, one layer, forward", "4*s*h",
                                         "elements", "Jacobs et al. 2023, arXiv:2309.14509"};
[[nodiscard]] constexpr double megatron_sp_link(const SequenceInput& in) { return 4 * in.seq * in.hidden; }

// --- Expert parallelism, one layer, one micro-batch ----------------------------------------------------------------

struct ExpertInput {
  double tokens = 0;   ///< N
  double hidden = 0;   ///< h
  double top_k = 1;    ///< k
  double element = 2;  ///< e
  double ep = 1;       ///< ep
};
inline constexpr Formula kAllToAll{
    "ep-traffic",          "One dispatch or combine of routed tokens",
    "N*k*h*e*(ep - 1)/ep", "bytes",
    source::kMegatron,     "Forward one dispatch and one combine, backward the same. e = 1 for fp8 dispatch."};
[[nodiscard]] constexpr RealBytes expert_traffic(const ExpertInput& in) {
  return RealBytes(in.tokens * in.top_k * in.hidden * in.element * (in.ep - 1) / in.ep);
}

struct ExpertGatherInput {
  double tokens = 0, hidden = 0, element = 2, ep = 1;  ///< N, h, e, ep
};
inline constexpr Formula kExpertGather{
    "ep-allgather-traffic", "All tokens gathered by every expert rank",
    "N*h*e*(ep - 1)",       "bytes",
    source::kMegatron,      "Independent of k: less than ep-traffic once k exceeds ep."};
[[nodiscard]] constexpr RealBytes expert_gather(const ExpertGatherInput& in) {
  return RealBytes(in.tokens * in.hidden * in.element * (in.ep - 1));
}

struct DistinctNodesInput {
  double nodes = 1;     ///< G
  double per_node = 1;  ///< E_n
  double top_k = 1;     ///< k
};
inline constexpr Formula kDistinctNodes{"distinct-nodes", "Nodes that the k experts of a token lie on, uniform routing",
                                        "G*(1 - choose(E_n*G - E_n, k)/choose(E_n*G, k))", "nodes", source::kDerived};
[[nodiscard]] double distinct_nodes(const DistinctNodesInput& in);

struct NodeLimitInput {
  double limit = 1;  ///< M_n
  double nodes = 1;  ///< G
};
inline constexpr Formula kRemoteNodes{"remote-nodes", "Nodes other than its own that a token is sent to, M_n at most",
                                      "M_n*(1 - 1/G)", "nodes", "DeepSeek-AI 2024, arXiv:2412.19437"};
[[nodiscard]] constexpr double remote_nodes(const NodeLimitInput& in) { return in.limit * (1 - 1 / in.nodes); }

struct DedupInput {
  double tokens = 0, hidden = 0, element = 2, remote = 1;  ///< N, h, e, R
};
inline constexpr Formula kDedupTraffic{"ep-internode-traffic", "One copy of a token for each remote node", "N*h*e*R",
                                       "bytes", "DeepSeek-AI 2024, arXiv:2412.19437"};
[[nodiscard]] constexpr RealBytes dedup_traffic(const DedupInput& in) {
  return RealBytes(in.tokens * in.hidden * in.element * in.remote);
}

[[nodiscard]] std::span<const CatalogEntry> traffic_formulas();

}  // namespace plan::textbook
