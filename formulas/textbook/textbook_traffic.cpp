// The catalog's table of communication volumes. Tested by tests/formulas/equations_test.cpp and
// textbook_traffic_test.cpp.
#include "formulas/textbook/textbook_traffic.hpp"

namespace plan::textbook {
namespace {

constexpr Symbol kB{"b", "sequences in a micro-batch", "", 1, Domain::Count};
constexpr Symbol kS{"s", "sequence length", "tokens", kNoTypical, Domain::Count};
constexpr Symbol kH{"h", "hidden width", "", kNoTypical, Domain::Count};
constexpr Symbol kT{"t", "tensor-parallel ranks", "", 1, Domain::Count};
constexpr Symbol kP{"P", "parameters on the rank, after tensor and pipeline parallelism", "parameters"};
constexpr Symbol kRanks{"n", "data-parallel ranks", "", 1, Domain::Count};
constexpr Symbol kG{"g", "bytes of a reduced gradient", "bytes", 4};
constexpr Symbol kM{"m", "micro-batches of a step", "", 1, Domain::Count};
constexpr Symbol kN{"N", "tokens of a micro-batch on the rank", "tokens", kNoTypical, Domain::Count};
constexpr Symbol kD{"D", "hidden width", "", kNoTypical, Domain::Count};
constexpr Symbol kF{"F", "FFN width", "", kNoTypical, Domain::Count};
constexpr Symbol kTokens{"B", "tokens of the whole batch", "tokens", kNoTypical, Domain::Count};
constexpr Symbol kQ{"q", "query width on the rank", "", kNoTypical, Domain::Count};
constexpr Symbol kKv{"kv", "key and value width on the rank", "", kNoTypical, Domain::Count};
constexpr Symbol kC{"c", "context-parallel ranks", "", kNoTypical, Domain::Count};
constexpr Symbol kE{"e", "bytes of an element", "bytes", 2};
constexpr Symbol kK{"k", "experts of a token", "", kNoTypical, Domain::Count};
constexpr Symbol kEp{"ep", "expert-parallel ranks", "", kNoTypical, Domain::Count};
constexpr Symbol kNodes{"G", "nodes", "", kNoTypical, Domain::Count};

constexpr Symbol kTensor[] = {kB, kS, kH, kT};
constexpr Symbol kOutput[] = {kN, kD};
constexpr Symbol kPipeline[] = {kB, kS, kH, kT};
constexpr Symbol kTied[] = {{"V", "vocabulary", "", kNoTypical, Domain::Count}, kH, kT};
constexpr Symbol kData[] = {kP, kRanks, kG};
constexpr Symbol kWeights[] = {kP, kRanks};
constexpr Symbol kStep[] = {kP, kRanks, kG, kM};
constexpr Symbol kShards{"K", "shards in a group", "", 8, Domain::Count};
constexpr Symbol kReduced{"g", "bytes of a reduced gradient", "bytes", 2};
constexpr Symbol kHsdpGroup[] = {kP, kShards, kReduced, kM};
constexpr Symbol kHsdp[] = {kP, kShards, {"M", "groups", "", kNoTypical, Domain::Count}, kReduced, kM};
constexpr Symbol kTable[] = {kTokens,
                             kD,
                             kF,
                             {"X", "data-parallel shards", "", 1, Domain::Count},
                             {"Y", "model-parallel shards", "", 1, Domain::Count}};
constexpr Symbol kTableWeights[] = {kD, kF};
constexpr Symbol kTableModel[] = {kTokens, kD};
constexpr Symbol kContext[] = {kN, kKv, kC};
constexpr Symbol kUlyssesSymbols[] = {kN, kQ, kKv, kC};
constexpr Symbol kRatio[] = {kQ, kKv, kC};
constexpr Symbol kLink[] = {kS, kH, {"P", "ranks", "", kNoTypical, Domain::Count}};
constexpr Symbol kSequence[] = {kS, kH};
constexpr Symbol kExpert[] = {kN, kH, kK, kE, kEp};
constexpr Symbol kGather[] = {kN, kH, kE, kEp};
constexpr Symbol kDistinct[] = {kNodes, {"E_n", "experts on a node", "", kNoTypical, Domain::Count}, kK};
constexpr Symbol kLimit[] = {{"M_n", "nodes that a token may reach", "", 4, Domain::Count}, kNodes};
constexpr Symbol kDedup[] = {kN, kH, kE, {"R", "remote nodes of a token", ""}};

constexpr CatalogEntry kEntries[] = {
    entry<tp_traffic>(kTpTraffic, kTensor),
    entry<tp_sp_traffic>(
        kTpSpTraffic, kTensor,
        erratum<tp_traffic>("CS336 notes, the mathematics of parallelism, section 7.3", "8*b*s*h*(t - 1)/t",
                            "Sequence parallelism is said to add nothing; Megatron gathers inputs "
                            "again, a quarter more.")),
    entry<tp_full_traffic>(kTpFullTraffic, kTensor),
    entry<tp_sp_full_traffic>(kTpSpFullTraffic, kTensor),
    entry<tp_output>(
        kTpOutput, kOutput,
        erratum<tp_output_course>(source::kCourseLecture9, "D*D",
                                  "The figure's Y and Z have a row for each token, not for each feature.")),
    entry<pp_traffic>(kPpTraffic, kPipeline),
    entry<tied_traffic>(kTiedTraffic, kTied),
    entry<ddp_traffic>(kDdpTraffic, kData),
    entry<zero1_traffic>(kZero1Traffic, kData),
    entry<zero2_traffic>(kZero2Traffic, kStep),
    entry<zero1_weights>(kZero1Weights, kWeights,
                         erratum<no_traffic>("CS336 lecture 7 notes, p. 26", "0",
                                             "A rank that updates its own share alone must send it to the others.")),
    entry<zero3_traffic>(
        kZero3Traffic, kStep,
        erratum<zero3_traffic_once>("CS336 notes, the mathematics of parallelism, section 3.3",
                                    "(2 + 2 + g)*P*(n - 1)/n", "Every micro-batch gathers and scatters again.")),
    entry<fsdp_keep_traffic>(kFsdpKeep, kStep),
    entry<hsdp_intra>(kHsdpIntra, kHsdpGroup),
    entry<hsdp_inter>(
        kHsdpInter, kHsdp,
        erratum<hsdp_inter_course>(source::kCourseLecture9, "g*P",
                                   "1x counts tensors, not bytes: each rank reduces its shard alone, 1/K of "
                                   "the model, in two phases.")),
    entry<table_compute>(kTableCompute, kTable),
    entry<table_dp>(kTableDp, kTableWeights),
    entry<table_fsdp>(kTableFsdp, kTableWeights),
    entry<table_mp>(kTableMp, kTableModel),
    entry<table_fsdp_mp>(
        kTableFsdpMp, kTable,
        erratum<table_fsdp_mp_course>("CS336 notes, the mathematics of parallelism, section 8.2",
                                      "(4*B*D/X + 4*D*F/Y) + (8*B*D/X + 8*D*F/Y)",
                                      "At X = 1 its backward moves 8 B D, where the table's own row for "
                                      "model parallelism says 4 B D.")),
    entry<ring_forward>(kRingForward, kContext),
    entry<ring_backward>(kRingBackward, kContext),
    entry<ulysses_traffic>(kUlysses, kUlyssesSymbols),
    entry<ring_over_ulysses>(kRingOverUlysses, kRatio),
    entry<ulysses_link>(kUlyssesLink, kLink),
    entry<megatron_sp_link>(kMegatronSpLink, kSequence),
    entry<expert_traffic>(kAllToAll, kExpert),
    entry<expert_gather>(kExpertGather, kGather),
    entry<distinct_nodes>(kDistinctNodes, kDistinct),
    entry<remote_nodes>(kRemoteNodes, kLimit),
    entry<dedup_traffic>(kDedupTraffic, kDedup),
};

}  // namespace

double distinct_nodes(const DistinctNodesInput& in) {
  const double experts = in.nodes * in.per_node;
  double none_here = 1;  // chance that none of the k distinct experts lies on a given node
  for (double drawn = 0; drawn < in.top_k && none_here > 0; ++drawn)
    none_here *= (experts - in.per_node - drawn) / (experts - drawn);
  return in.nodes * (1 - none_here);
}

std::span<const CatalogEntry> traffic_formulas() { return kEntries; }

}  // namespace plan::textbook
