#pragma once

#include "formulas/textbook/catalog_entry.hpp"
#include "formulas/textbook/sources.hpp"
#include "formulas/units.hpp"

/// Closed forms for parameters, FLOPs and utilisation (plan-formulas(7) A1, B1, B2). Models of any other shape
/// are counted by formulas/parameters.hpp and formulas/flops.hpp.
namespace plan::textbook {

struct GptShape {
  double layers = 0;  ///< L
  double hidden = 0;  ///< h
  double vocab = 0;   ///< V
  double seq = 0;     ///< s  learned positions
};

inline constexpr Formula kGptLayerParameters{"gpt-layer-parameters", "Parameters of one GPT layer, biases and norms",
                                             "12*h^2 + 13*h", "parameters", source::kNarayanan};
struct HiddenInput {
  double hidden = 0;  ///< h
};
[[nodiscard]] constexpr double gpt_layer_parameters(const HiddenInput& in) {
  return 12 * in.hidden * in.hidden + 13 * in.hidden;
}

inline constexpr Formula kGptParameters{"gpt-parameters", "Parameters of a GPT, head tied to the embedding",
                                        "L*(12*h^2 + 13*h) + V*h + s*h + 2*h", "parameters", source::kNarayanan};
[[nodiscard]] constexpr double gpt_parameters(const GptShape& in) {
  const double layers = in.layers * gpt_layer_parameters({in.hidden});
  return layers + (in.vocab + in.seq + 2) * in.hidden;  // + 2: the final norm
}

inline constexpr Formula kMegatronParameters{"megatron-parameters",
                                             "Parameters of a GPT in the form of the Megatron paper",
                                             "12*L*h^2*(1 + 13/(12*h) + (V + s)/(12*L*h))",
                                             "parameters",
                                             source::kNarayanan,
                                             "The final norm's 2 h are left out."};
[[nodiscard]] constexpr double megatron_parameters(const GptShape& in) {
  const double linear = 12 * in.layers * in.hidden * in.hidden;
  return linear * (1 + 13 / (12 * in.hidden) + (in.vocab + in.seq) / (12 * in.layers * in.hidden));
}

struct AttentionLayerInput {
  double hidden = 0;  ///< h
  double q = 0;       ///< q   heads * head_dim, not h in general
  double kv = 0;      ///< kv  kv_heads * head_dim
  double ffn = 0;     ///< f
};
inline constexpr Formula kLlamaLayerParameters{"llama-layer-parameters",
                                               "Parameters of one layer with grouped-query attention and a gated FFN",
                                               "2*h*q + 2*h*kv + 3*h*f + 2*h", "parameters", source::kMegatron};
[[nodiscard]] constexpr double llama_layer_parameters(const AttentionLayerInput& in) {
  return in.hidden * (2 * in.q + 2 * in.kv + 3 * in.ffn + 2);
}

struct MoeInput {
  double hidden = 0;        ///< h
  double experts = 0;       ///< E
  double expert_width = 0;  ///< f_e
  double shared_width = 0;  ///< f_s
};
inline constexpr Formula kMoeParameters{"moe-parameters", "Parameters of a mixture-of-experts FFN with its router",
                                        "h*E + 3*h*f_e*E + 3*h*f_s", "parameters", source::kMegatron};
[[nodiscard]] constexpr double moe_parameters(const MoeInput& in) {
  return in.hidden * (in.experts + 3 * in.expert_width * in.experts + 3 * in.shared_width);
}

struct LatentInput {
  double hidden = 0, heads = 0, q_rank = 0, kv_rank = 0;  ///< h, a, r_q, r_kv
  double nope_dim = 0, rope_dim = 0, value_dim = 0;       ///< d_n, d_r, d_v
};
inline constexpr Formula kLatentParameters{
    "mla-parameters",
    "Parameters of multi-head latent attention with a query rank",
    "h*r_q + r_q + r_q*a*(d_n + d_r) + h*(r_kv + d_r) + r_kv + r_kv*a*(d_n + d_v) + a*d_v*h",
    "parameters",
    source::kMegatron,
    "The lone ranks are the norms of the latents."};
[[nodiscard]] constexpr double latent_parameters(const LatentInput& in) {
  const double query = in.q_rank * (in.hidden + 1 + in.heads * (in.nope_dim + in.rope_dim));
  const double key_value =
      in.hidden * (in.kv_rank + in.rope_dim) + in.kv_rank + in.kv_rank * in.heads * (in.nope_dim + in.value_dim);
  return query + key_value + in.heads * in.value_dim * in.hidden;
}

struct PaddedVocabInput {
  double vocab = 0;  ///< V
  double tp = 1;     ///< t
};
inline constexpr Formula kPaddedVocab{"padded-vocabulary",     "Vocabulary padded so that every rank holds whole tiles",
                                      "ceil(V/(128*t))*128*t", "rows",
                                      source::kMegatron,       "Megatron's NullTokenizer adds 1 to V first."};
[[nodiscard]] double padded_vocabulary(const PaddedVocabInput& in);

struct SixNInput {
  double parameters = 0;  ///< N
};
inline constexpr Formula kFlopsSixN{"flops-6n",    "Training FLOPs per token without attention",
                                    "6*N",         "FLOP",
                                    source::kPalm, "N: parameters, of a mixture of experts the active ones."};
[[nodiscard]] constexpr Flops flops_six_n(const SixNInput& in) { return Flops(6 * in.parameters); }

struct PalmInput {
  double parameters = 0;  ///< N
  double layers = 0;      ///< L
  double heads = 0;       ///< a
  double head_dim = 0;    ///< d
  double seq = 0;         ///< s
};
inline constexpr Formula kFlopsPalm{"flops-palm",       "Training FLOPs per token, attention in full",
                                    "6*N + 12*L*a*d*s", "FLOP",
                                    source::kPalm,      "A causal kernel executes half of the attention term."};
[[nodiscard]] constexpr Flops flops_palm(const PalmInput& in) {
  return Flops(6 * in.parameters + 12 * in.layers * in.heads * in.head_dim * in.seq);
}

struct TorchtitanInput {
  double parameters = 0;  ///< N
  double embedding = 0;   ///< N_emb
  double layers = 0;      ///< L
  double heads = 0;       ///< a
  double qk_dim = 0;      ///< d_qk
  double v_dim = 0;       ///< d_v
  double seq = 0;         ///< s
};
inline constexpr Formula kFlopsTorchtitan{"flops-torchtitan",
                                          "Training FLOPs per token as torchtitan reports them",
                                          "6*(N - N_emb) + 6*L*a*(d_qk + d_v)*s",
                                          "FLOP",
                                          source::kTorchtitan,
                                          "Tied models keep the embedding: it is the head's weight too."};
[[nodiscard]] constexpr Flops flops_torchtitan(const TorchtitanInput& in) {
  return Flops(6 * (in.parameters - in.embedding) + 6 * in.layers * in.heads * (in.qk_dim + in.v_dim) * in.seq);
}

struct MegatronFlopsInput {
  double layers = 0;  ///< L
  double hidden = 0;  ///< h
  double q = 0;       ///< q
  double kv = 0;      ///< kv
  double ffn = 0;     ///< f
  double vocab = 0;   ///< V  padded
  double seq = 0;     ///< s
};
inline constexpr Formula kFlopsMegatron{
    "flops-megatron",
    "Training FLOPs per token as Megatron reports them, dense model",
    "6*(L*(2*h*q + 2*h*kv + 3*h*f) + h*V) + 6*L*q*s",
    "FLOP",
    source::kMegatron,
    "Causal. The vocabulary is padded; routers are not counted, the norms of latent attention are, as if GEMMs."};
[[nodiscard]] constexpr Flops flops_megatron(const MegatronFlopsInput& in) {
  const double layer = in.hidden * (2 * in.q + 2 * in.kv + 3 * in.ffn);
  return Flops(6 * (in.layers * layer + in.hidden * in.vocab) + 6 * in.layers * in.q * in.seq);
}

struct GemmInput {
  double m = 0, n = 0, k = 0;  ///< m, n, k
  double element = 2;          ///< e
  double rate = 0;             ///< C
  double bandwidth = 0;        ///< W
};
inline constexpr Formula kRoofline{"gemm-roofline",
                                   "Least time of a GEMM on one GPU",
                                   "max(2*m*n*k/C, e*(m*k + k*n + m*n)/W)",
                                   "seconds",
                                   "Williams et al. 2009, Roofline",
                                   "Real kernels lose to tiles, waves and power; the planner uses measured times."};
[[nodiscard]] constexpr Seconds gemm_roofline(const GemmInput& in) {
  const double compute = 2 * in.m * in.n * in.k / in.rate;
  const double memory = in.element * (in.m * in.k + in.k * in.n + in.m * in.n) / in.bandwidth;
  return Seconds(compute > memory ? compute : memory);
}

struct MuonInput {
  double rows = 0;     ///< m  the shorter side
  double columns = 0;  ///< n
};
inline constexpr Formula kMuon{"muon-flops",        "FLOPs of Muon's five Newton-Schulz steps on one matrix",
                               "20*m^2*n + 10*m^3", "FLOP",
                               source::kMegatron,   "m the shorter side."};
[[nodiscard]] constexpr Flops muon_flops(const MuonInput& in) {
  return Flops(in.rows * in.rows * (20 * in.columns + 10 * in.rows));
}

struct GptFlopsInput {
  double batch = 1;   ///< B  sequences
  double seq = 0;     ///< s
  double layers = 0;  ///< L
  double hidden = 0;  ///< h
  double vocab = 0;   ///< V
};
inline constexpr Formula kFlopsGpt{"flops-gpt",
                                   "Training FLOPs of a batch through a GPT",
                                   "72*B*s*L*h^2*(1 + s/(6*h) + V/(12*L*h))",
                                   "FLOP",
                                   source::kKorthikanti,
                                   "Model FLOPs: no recomputation, attention in full."};
[[nodiscard]] constexpr Flops flops_gpt(const GptFlopsInput& in) {
  const double linear = 72 * in.batch * in.seq * in.layers * in.hidden * in.hidden;
  return Flops(linear * (1 + in.seq / (6 * in.hidden) + in.vocab / (12 * in.layers * in.hidden)));
}

inline constexpr Formula kFlopsGptSelective{
    "flops-gpt-selective",
    "The same with core attention recomputed",
    "72*B*s*L*h^2*(1 + 2*s/(9*h) + V/(12*L*h))",
    "FLOP",
    source::kDerived,
    "Hardware FLOPs: a fourth forward of attention, s/(18 h) more than the model's s/(6 h)."};
[[nodiscard]] constexpr Flops flops_gpt_selective(const GptFlopsInput& in) {
  const double linear = 72 * in.batch * in.seq * in.layers * in.hidden * in.hidden;
  return Flops(linear * (1 + 2 * in.seq / (9 * in.hidden) + in.vocab / (12 * in.layers * in.hidden)));
}
/// The paper's own form, which its utilisation table uses: attention counted twice over.
[[nodiscard]] constexpr Flops flops_gpt_selective_paper(const GptFlopsInput& in) {
  const double linear = 72 * in.batch * in.seq * in.layers * in.hidden * in.hidden;
  return Flops(linear * (1 + in.seq / (3 * in.hidden) + in.vocab / (12 * in.layers * in.hidden)));
}

inline constexpr Formula kFlopsGptFull{"flops-gpt-full",
                                       "The same with every layer recomputed",
                                       "96*B*s*L*h^2*(1 + s/(6*h) + V/(16*L*h))",
                                       "FLOP",
                                       source::kNarayanan,
                                       "Hardware FLOPs: one more forward of the layers, not of the head."};
[[nodiscard]] constexpr Flops flops_gpt_full(const GptFlopsInput& in) {
  const double linear = 96 * in.batch * in.seq * in.layers * in.hidden * in.hidden;
  return Flops(linear * (1 + in.seq / (6 * in.hidden) + in.vocab / (16 * in.layers * in.hidden)));
}

struct LayerFlopsInput {
  double hidden = 0;  ///< h
  double q = 0;       ///< q
  double kv = 0;      ///< kv
  double ffn = 0;     ///< f
  double seq = 0;     ///< s
};
inline constexpr Formula kFlopsLayerForward{
    "flops-layer-forward",
    "Forward FLOPs per token of one layer, causal attention",
    "2*(2*h*q + 2*h*kv) + 6*h*f + 2*q*s",
    "FLOP",
    source::kDerived,
    "Grouped-query attention and a gated FFN. 2 q s is 4 q s halved by the causal mask. Training: three times this."};
[[nodiscard]] constexpr Flops flops_layer_forward(const LayerFlopsInput& in) {
  const double linear = 4 * in.hidden * (in.q + in.kv) + 6 * in.hidden * in.ffn;
  return Flops(linear + 2 * in.q * in.seq);
}

struct MfuInput {
  double flops = 0;  ///< F     useful FLOPs of a step
  double gpus = 1;   ///< n
  double peak = 0;   ///< peak  FLOP/s of one GPU, dense
  double time = 0;   ///< T     seconds of a step, data loading and optimizer included
};
inline constexpr Formula kMfu{
    "mfu",
    "Model FLOPs utilisation",
    "F/(n*peak)/T",
    "ratio",
    source::kCourseLecture9,
    "Only as comparable as the convention of F: attention in full against causal is 2 % to 70 % apart. Recomputed "
    "work does not count; with it the ratio is the hardware FLOPs utilisation."};
[[nodiscard]] constexpr double mfu(const MfuInput& in) { return in.flops / (in.gpus * in.peak) / in.time; }

struct ThroughputMfuInput {
  double tokens_per_s_per_gpu = 0;  ///< r
  double flops_per_token = 0;       ///< F_tok
  double peak = 0;                  ///< peak
};
inline constexpr Formula kMfuThroughput{"mfu-throughput", "Utilisation from tokens per second and GPU", "r*F_tok/peak",
                                        "ratio", source::kPalm};
[[nodiscard]] constexpr double mfu_throughput(const ThroughputMfuInput& in) {
  return in.tokens_per_s_per_gpu * in.flops_per_token / in.peak;
}

struct TrainingTimeInput {
  double flops_per_token = 0;  ///< F_tok
  double tokens = 0;           ///< D
  double gpus = 1;             ///< n
  double peak = 0;             ///< peak
  double mfu = 0.4;            ///< mfu
};
inline constexpr Formula kTrainingTime{
    "training-time",        "Time to train on a number of tokens",
    "F_tok*D/(n*peak*mfu)", "seconds",
    source::kNarayanan,     "The paper's 8 T P/(n X) is this with full recomputation counted in X."};
[[nodiscard]] constexpr Seconds training_time(const TrainingTimeInput& in) {
  return Seconds(in.flops_per_token * in.tokens / (in.gpus * in.peak * in.mfu));
}

struct ClusterPeakInput {
  double gpus = 1;  ///< n
  double peak = 0;  ///< peak  FLOP/s of one GPU, dense
};
inline constexpr Formula kClusterPeak{
    "cluster-peak",
    "Dense peak of a cluster",
    "n*peak",
    "FLOP/s",
    source::kCourseLecture9,
    "24,576 H100s: 24.3 EFLOP/s in bf16. No step reaches it: mfu says how much of it a job uses."};
[[nodiscard]] constexpr FlopsPerSecond cluster_peak(const ClusterPeakInput& in) {
  return FlopsPerSecond(in.gpus * in.peak);
}

struct ClusterCoresInput {
  double gpus = 1;  ///< n
  double sms = 0;   ///< SM
  double each = 0;  ///< c
};
inline constexpr Formula kClusterCores{
    "cluster-cores",
    "Cores of a cluster",
    "n*SM*c",
    "cores",
    source::kCourseLecture9,
    "An H100 SXM has 132 multiprocessors of 128 fp32 cores and 4 tensor cores: 24,576 of them 415 M and 13 M."};
[[nodiscard]] constexpr double cluster_cores(const ClusterCoresInput& in) { return in.gpus * in.sms * in.each; }

[[nodiscard]] std::span<const CatalogEntry> size_formulas();

}  // namespace plan::textbook
