// The catalog's table of parameter and FLOP formulas. Tested by tests/formulas/equations_test.cpp and
// conventions_test.cpp.
#include "formulas/textbook/textbook_size.hpp"

#include <cmath>

namespace plan::textbook {
namespace {

constexpr Symbol kL{"L", "layers", "", kNoTypical, Domain::Count};
constexpr Symbol kH{"h", "hidden width", "", kNoTypical, Domain::Count};
constexpr Symbol kV{"V", "vocabulary", "", kNoTypical, Domain::Count};
constexpr Symbol kA{"a", "query heads", "", kNoTypical, Domain::Count};
constexpr Symbol kS{"s", "sequence length", "tokens", kNoTypical, Domain::Count};
constexpr Symbol kQ{"q", "query width: heads * head_dim", "", kNoTypical, Domain::Count};
constexpr Symbol kKv{"kv", "key and value width: kv_heads * head_dim", "", kNoTypical, Domain::Count};
constexpr Symbol kF{"f", "FFN width", "", kNoTypical, Domain::Count};
constexpr Symbol kN{"N", "parameters"};
constexpr Symbol kFtok{"F_tok", "training FLOPs per token", "FLOP"};
constexpr Symbol kPeak{"peak", "dense peak of one GPU; default H100 in bf16", "FLOP/s", 989.5e12};
constexpr Symbol kGpus{"n", "GPUs", "", 1, Domain::Count};

constexpr Symbol kHidden[] = {kH};
constexpr Symbol kGpt[] = {kL, kH, kV, kS};
constexpr Symbol kAttentionLayer[] = {kH, kQ, kKv, kF};
constexpr Symbol kMoe[] = {kH,
                           {"E", "routed experts", "", kNoTypical, Domain::Count},
                           {"f_e", "width of one expert", "", kNoTypical, Domain::Count},
                           {"f_s", "width of all shared experts together", "", 0, Domain::Amount}};
constexpr Symbol kLatent[] = {kH,
                              kA,
                              {"r_q", "query rank", "", 1536, Domain::Count},
                              {"r_kv", "key-value rank", "", 512, Domain::Count},
                              {"d_n", "head dimension without rotation", "", 128, Domain::Count},
                              {"d_r", "rotated head dimension", "", 64, Domain::Count},
                              {"d_v", "value head dimension", "", 128, Domain::Count}};
constexpr Symbol kPadded[] = {kV, {"t", "tensor-parallel ranks", "", 1, Domain::Count}};
constexpr Symbol kSixN[] = {kN};
constexpr Symbol kPalm[] = {kN, kL, kA, {"d", "head dimension", "", 128, Domain::Count}, kS};
constexpr Symbol kTitan[] = {kN,
                             {"N_emb", "parameters of the embedding; 0 if tied", "", 0, Domain::Amount},
                             kL,
                             kA,
                             {"d_qk", "query and key head dimension", "", 128, Domain::Count},
                             {"d_v", "value head dimension", "", 128, Domain::Count},
                             kS};
constexpr Symbol kMegatron[] = {kL, kH, kQ, kKv, kF, {"V", "padded vocabulary", "", kNoTypical, Domain::Count}, kS};
constexpr Symbol kGemm[] = {{"m", "rows of the input", "", kNoTypical, Domain::Count},
                            {"n", "columns of the weight", "", kNoTypical, Domain::Count},
                            {"k", "inner dimension", "", kNoTypical, Domain::Count},
                            {"e", "bytes of an element", "bytes", 2},
                            {"C", "rate of one GPU; default H100 in bf16", "FLOP/s", 989.5e12},
                            {"W", "memory bandwidth; default H100", "bytes/s", 3.35e12}};
constexpr Symbol kMuonSymbols[] = {{"m", "shorter side of the matrix", "", kNoTypical, Domain::Count},
                                   {"n", "longer side", "", kNoTypical, Domain::Count}};
constexpr Symbol kGptFlops[] = {{"B", "sequences", "", 1, Domain::Count}, kS, kL, kH, kV};
constexpr Symbol kLayerFlops[] = {kH, kQ, kKv, kF, kS};
constexpr Symbol kMfuSymbols[] = {
    {"F", "useful FLOPs of a step", "FLOP"}, kGpus, kPeak, {"T", "time of a step", "seconds"}};
constexpr Symbol kThroughput[] = {{"r", "tokens per second and GPU", "tokens/s"}, kFtok, kPeak};
constexpr Symbol kTime[] = {
    kFtok, {"D", "tokens", "tokens"}, kGpus, kPeak, {"mfu", "model FLOPs utilisation", "", 0.4, Domain::Real}};

constexpr Symbol kClusterRate[] = {kGpus, kPeak};
constexpr Symbol kCores[] = {
    kGpus,
    {"SM", "multiprocessors of one GPU; default H100", "", 132, Domain::Count},
    {"c", "cores of one multiprocessor; default fp32 cores of an H100", "", 128, Domain::Count}};

constexpr CatalogEntry kEntries[] = {
    entry<gpt_layer_parameters>(kGptLayerParameters, kHidden),
    entry<gpt_parameters>(kGptParameters, kGpt),
    entry<megatron_parameters>(kMegatronParameters, kGpt),
    entry<llama_layer_parameters>(kLlamaLayerParameters, kAttentionLayer),
    entry<moe_parameters>(kMoeParameters, kMoe),
    entry<latent_parameters>(kLatentParameters, kLatent),
    entry<padded_vocabulary>(kPaddedVocab, kPadded),
    entry<flops_six_n>(kFlopsSixN, kSixN),
    entry<flops_palm>(kFlopsPalm, kPalm),
    entry<flops_torchtitan>(kFlopsTorchtitan, kTitan),
    entry<flops_megatron>(kFlopsMegatron, kMegatron),
    entry<flops_gpt>(kFlopsGpt, kGptFlops),
    entry<flops_gpt_selective>(
        kFlopsGptSelective, kGptFlops,
        erratum<flops_gpt_selective_paper>(source::kKorthikanti, "72*B*s*L*h^2*(1 + s/(3*h) + V/(12*L*h))",
                                           "It adds all of attention's forward and backward again, not one forward.")),
    entry<flops_gpt_full>(kFlopsGptFull, kGptFlops),
    entry<flops_layer_forward>(kFlopsLayerForward, kLayerFlops),
    entry<mfu>(kMfu, kMfuSymbols),
    entry<mfu_throughput>(kMfuThroughput, kThroughput,
                          misstatement(source::kCourseLecture9, "400 of 989 TFLOP/s are 41 %",
                                       "40.4 %; 41 % is the published figure of the run with its own count of FLOPs.")),
    entry<training_time>(kTrainingTime, kTime),
    entry<cluster_peak>(kClusterPeak, kClusterRate),
    entry<cluster_cores>(kClusterCores, kCores),
    entry<gemm_roofline>(kRoofline, kGemm),
    entry<muon_flops>(kMuon, kMuonSymbols),
};

}  // namespace

double padded_vocabulary(const PaddedVocabInput& in) {
  const double tile = 128 * in.tp;
  return std::ceil(in.vocab / tile) * tile;
}

std::span<const CatalogEntry> size_formulas() { return kEntries; }

}  // namespace plan::textbook
