// The catalog's table of activation formulas. Tested by tests/formulas/equations_test.cpp and textbook_memory_test.cpp.
#include "formulas/textbook/textbook_activations.hpp"

#include <cmath>

namespace plan::textbook {
namespace {

constexpr Symbol kS{"s", "sequence length", "tokens", kNoTypical, Domain::Count};
constexpr Symbol kB{"b", "sequences in a micro-batch", "", 1, Domain::Count};
constexpr Symbol kH{"h", "hidden width", "", kNoTypical, Domain::Count};
constexpr Symbol kA{"a", "query heads", "", kNoTypical, Domain::Count};
constexpr Symbol kT{"t", "tensor-parallel ranks", "", 1, Domain::Count};
constexpr Symbol kP{"p", "pipeline stages", "", 1, Domain::Count};
constexpr Symbol kL{"L", "layers", "", kNoTypical, Domain::Count};
constexpr Symbol kN{"N", "tokens of a micro-batch on the rank: b s / c", "tokens", kNoTypical, Domain::Count};
constexpr Symbol kLayerBytes{"A", "activations of one layer", "bytes"};
constexpr Symbol kTokenBytes{"A", "activations of one layer, per token", "bytes"};
constexpr Symbol kStageLayers{"L_s", "layers of the stage", "", kNoTypical, Domain::Count};

constexpr Symbol kGpt[] = {kS, kB, kH, kA, kT};
constexpr Symbol kLinear[] = {kS, kB, kH, kT};
constexpr Symbol kInput[] = {kS, kB, kH};
constexpr Symbol kScores[] = {kS, kB, kA};
constexpr Symbol kFirst[] = {kLayerBytes, kL};
constexpr Symbol kInterleaved[] = {
    kLayerBytes, kL, kP, {"v", "model chunks of a stage", "", kNoTypical, Domain::Count}};
constexpr Symbol kEmbedding[] = {kS, kB, kH, {"m", "micro-batches", "", kNoTypical, Domain::Count}, kP, kT};
constexpr Symbol kHead[] = {kS, kB, kH, {"V", "vocabulary", "", kNoTypical, Domain::Count}, kT};
constexpr Symbol kLlama[] = {kN,
                             kH,
                             {"q", "query width: heads * head_dim", "", kNoTypical, Domain::Count},
                             {"kv", "key and value width: kv_heads * head_dim", "", kNoTypical, Domain::Count},
                             {"f", "FFN width", "", kNoTypical, Domain::Count},
                             kA,
                             kT};
constexpr Symbol kLatent[] = {kN,
                              kH,
                              kA,
                              {"r_q", "query rank", "", 1536, Domain::Count},
                              {"r_kv", "key-value rank", "", 512, Domain::Count},
                              {"d_n", "head dimension without rotation", "", 128, Domain::Count},
                              {"d_r", "rotated head dimension", "", 64, Domain::Count},
                              {"d_v", "value head dimension", "", 128, Domain::Count}};
constexpr Symbol kMoe[] = {kN,
                           kH,
                           {"E", "routed experts", "", kNoTypical, Domain::Count},
                           {"k", "experts of a token", "", kNoTypical, Domain::Count},
                           {"c_f", "imbalance or capacity factor", "", 1},
                           {"f_e", "width of one expert", "", kNoTypical, Domain::Count},
                           {"f_s", "width of all shared experts together", "", 0, Domain::Amount}};
constexpr Symbol kLogits[] = {kN, {"V", "padded vocabulary", "", kNoTypical, Domain::Count}, kT};
constexpr Symbol kLoss[] = {kN, {"V", "padded vocabulary", "", kNoTypical, Domain::Count}, kH, kT};
constexpr Symbol kMoePeak[] = {
    kN, kH, {"k", "experts of a token", "", kNoTypical, Domain::Count}, {"c_f", "imbalance or capacity factor", "", 1}};
constexpr Symbol kEstimator[] = {kS, kB, kH, {"f", "FFN width", "", kNoTypical, Domain::Count}, kT};
constexpr Symbol kRingHeld[] = {kN,
                                {"kv", "key and value width: kv_heads * head_dim", "", kNoTypical, Domain::Count},
                                {"c", "context-parallel ranks", "", kNoTypical, Domain::Count},
                                kT};
constexpr Symbol kEvery[] = {kH, kStageLayers, kTokenBytes, {"n", "layers between checkpoints", "", 1, Domain::Count}};
constexpr Symbol kBest[] = {kH, kStageLayers, kTokenBytes};
constexpr Symbol kDepth[] = {kL};
constexpr Symbol kCache[] = {kL,
                             {"kv", "key and value width", "", kNoTypical, Domain::Count},
                             {"e", "bytes of an element", "bytes", 2},
                             {"N", "tokens", "tokens", kNoTypical, Domain::Count}};

constexpr CatalogEntry kEntries[] = {
    entry<activation_tp>(kActivation, kGpt),
    entry<activation_sp>(kActivationSp, kGpt),
    entry<activation_selective>(kActivationSelective, kLinear),
    entry<activation_sp_selective>(kActivationSpSelective, kLinear),
    entry<activation_full>(
        kActivationFull, kInput,
        misstatement("CS336 lecture 7 notes, p. 53", "recomputation makes activations 5 to 10 times smaller",
                     "2 of 34 + 5 a s/h bytes stay: 17 times smaller without the scores, 57 times for GPT-3.")),
    entry<activation_full_sp>(kActivationFullSp, kLinear),
    entry<activation_scores>(
        kActivationScores, kScores,
        erratum<activation_scores_doubled>("CS336 notes, the mathematics of parallelism, section 6.2.1", "2*5*b*a*s^2",
                                           "5bas^2 is bytes already: 160 GiB at b 1, a 32, s 32768, not 343 GB.")),
    entry<activation_first_stage>(
        kActivationFirstStage, kFirst,
        misstatement("CS336 notes, the mathematics of parallelism, section 10",
                     "recomputation makes room for more micro-batches",
                     "Under 1F1B memory does not depend on m: p micro-batches are in flight however many follow. What "
                     "it makes room for is a larger micro-batch, or fewer stages.")),
    entry<activation_interleaved>(kActivationInterleaved, kInterleaved),
    entry<activation_embedding>(kActivationEmbedding, kEmbedding),
    entry<activation_head>(kActivationHead, kHead),
    entry<activation_llama>(kActivationLlama, kLlama),
    entry<activation_llama_tp>(kActivationLlamaTp, kLlama),
    entry<activation_llama_fp8>(kActivationLlamaFp8, kLlama),
    entry<activation_llama_mxfp8>(kActivationLlamaMxfp8, kLlama),
    entry<activation_latent>(kActivationLatent, kLatent),
    entry<activation_moe>(kActivationMoe, kMoe),
    entry<logits_peak>(kLogitsPeak, kLogits),
    entry<loss_peak>(kLossPeakBytes, kLoss),
    entry<moe_peak>(kMoePeakBytes, kMoePeak),
    entry<megatron_estimate>(kMegatronEstimate, kEstimator),
    entry<ring_buffers>(
        kRingBuffers, kRingHeld,
        erratum<ring_buffers_two>("Liu et al. 2023, arXiv:2310.01889", "2*4*N*kv/t",
                                  "Two blocks would do; TransformerEngine keeps all c for the kernel.")),
    entry<recompute_uniform>(kRecomputeUniform, kEvery),
    entry<recompute_best>(kRecomputeBest, kBest,
                          erratum<recompute_best_course>(source::kCourseLecture9, "sqrt(L_s)",
                                                         "That holds if a layer keeps no more than its input.")),
    entry<recompute_work>(kRecomputeWork, kDepth,
                          erratum<recompute_work_course>(source::kCourseLecture9, "L*sqrt(L)",
                                                         "That is the variant which stores nothing inside a segment.")),
    entry<kv_cache>(kKvCache, kCache),
};

}  // namespace

double recompute_best(const BestCheckpointInput& in) { return std::sqrt(2 * in.hidden * in.layers / in.layer_bytes); }
double recompute_best_course(const BestCheckpointInput& in) { return std::sqrt(in.layers); }
double recompute_work_course(const SegmentsInput& in) { return in.layers * std::sqrt(in.layers); }

std::span<const CatalogEntry> activation_formulas() { return kEntries; }

}  // namespace plan::textbook
