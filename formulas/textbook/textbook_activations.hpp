#pragma once

#include <span>

#include "formulas/textbook/catalog_entry.hpp"
#include "formulas/textbook/sources.hpp"

/// Bytes kept from forward to backward (plan-formulas(7) D). The coefficients of Korthikanti et al. are bytes
/// already: multiplying them by the size of an element counts it twice.
namespace plan::textbook {

struct ActivationInput {
  double seq = 0;          ///< s
  double micro_batch = 1;  ///< b
  double hidden = 0;       ///< h
  double heads = 0;        ///< a
  double tp = 1;           ///< t

  constexpr double sbh() const { return seq * micro_batch * hidden; }
  /// Softmax, dropout mask and dropout output: 5 a s^2 b bytes, in units of sbh.
  constexpr double scores() const { return 5 * heads * seq / hidden; }
};

inline constexpr Formula kActivation{
    "activation",
    "Activations of one GPT layer under tensor parallelism",
    "s*b*h*(10 + 24/t + 5*a*s/(h*t))",
    "bytes",
    source::kKorthikanti,
    "t = 1 is the textbook's sbh(34 + 5as/h). Bytes, not elements: never times 2. Dropout, GELU and a materialised "
    "s*s of scores; today's layers are in activation-llama."};
[[nodiscard]] constexpr RealBytes activation_tp(const ActivationInput& in) {
  return RealBytes(in.sbh() * (10 + 24 / in.tp + in.scores() / in.tp));
}

inline constexpr Formula kActivationSp{"activation-sp", "The same with sequence parallelism",
                                       "s*b*h*(34/t + 5*a*s/(h*t))", "bytes", source::kKorthikanti};
[[nodiscard]] constexpr RealBytes activation_sp(const ActivationInput& in) {
  return RealBytes(in.sbh() * (34 / in.tp + in.scores() / in.tp));
}

struct LinearActivationInput {
  double seq = 0;          ///< s
  double micro_batch = 1;  ///< b
  double hidden = 0;       ///< h
  double tp = 1;           ///< t
  constexpr double sbh() const { return seq * micro_batch * hidden; }
};

inline constexpr Formula kActivationSelective{
    "activation-selective", "Tensor parallelism, core attention recomputed or fused",     "s*b*h*(10 + 24/t)", "bytes",
    source::kKorthikanti,   "Flash attention has the same effect: no s*s tensor is kept."};
[[nodiscard]] constexpr RealBytes activation_selective(const LinearActivationInput& in) {
  return RealBytes(in.sbh() * (10 + 24 / in.tp));
}

inline constexpr Formula kActivationSpSelective{"activation-sp-selective",
                                                "Tensor and sequence parallelism, core attention recomputed or fused",
                                                "34*s*b*h/t", "bytes", source::kKorthikanti};
[[nodiscard]] constexpr RealBytes activation_sp_selective(const LinearActivationInput& in) {
  return RealBytes(34 * in.sbh() / in.tp);
}

struct TokensActivationInput {
  double seq = 0;          ///< s
  double micro_batch = 1;  ///< b
  double hidden = 0;       ///< h
};
inline constexpr Formula kActivationFull{"activation-full", "Full recomputation: the layer's input alone", "2*s*b*h",
                                         "bytes", source::kKorthikanti};
[[nodiscard]] constexpr RealBytes activation_full(const TokensActivationInput& in) {
  return RealBytes(2 * in.seq * in.micro_batch * in.hidden);
}

inline constexpr Formula kActivationFullSp{"activation-full-sp", "The same, the input split by sequence parallelism",
                                           "2*s*b*h/t", "bytes", source::kMegatron};
[[nodiscard]] constexpr RealBytes activation_full_sp(const LinearActivationInput& in) {
  return RealBytes(2 * in.sbh() / in.tp);
}

struct ScoresInput {
  double seq = 0;          ///< s
  double micro_batch = 1;  ///< b
  double heads = 0;        ///< a
};
inline constexpr Formula kActivationScores{"activation-scores", "The s*s part of one layer's activations", "5*b*a*s^2",
                                           "bytes", source::kKorthikanti};
[[nodiscard]] constexpr RealBytes activation_scores(const ScoresInput& in) {
  return RealBytes(5 * in.micro_batch * in.heads * in.seq * in.seq);
}
[[nodiscard]] constexpr RealBytes activation_scores_doubled(const ScoresInput& in) { return 2 * activation_scores(in); }

struct FirstStageInput {
  double layer_bytes = 0;  ///< A
  double layers = 0;       ///< L
};
inline constexpr Formula kActivationFirstStage{
    "activation-first-stage",
    "Activations of the first pipeline stage, 1F1B",
    "A*L",
    "bytes",
    source::kKorthikanti,
    "p micro-batches in flight over L/p layers: pipelining saves no activations on the first stage."};
[[nodiscard]] constexpr RealBytes activation_first_stage(const FirstStageInput& in) {
  return RealBytes(in.layer_bytes * in.layers);
}

struct InterleavedStageInput {
  double layer_bytes = 0;  ///< A
  double layers = 0;       ///< L
  double pp = 1;           ///< p
  double vp = 1;           ///< v
};
inline constexpr Formula kActivationInterleaved{
    "activation-interleaved",  "Activations of the first stage, interleaved schedule",
    "A*L*(1 + (p - 1)/(p*v))", "bytes",
    source::kKorthikanti,      "For v > 1; plain 1F1B is activation-first-stage."};
[[nodiscard]] constexpr RealBytes activation_interleaved(const InterleavedStageInput& in) {
  return RealBytes(in.layer_bytes * in.layers * (1 + (in.pp - 1) / (in.pp * in.vp)));
}

struct EmbeddingActivationInput {
  double seq = 0;            ///< s
  double micro_batch = 1;    ///< b
  double hidden = 0;         ///< h
  double micro_batches = 1;  ///< m
  double pp = 1;             ///< p
  double tp = 1;             ///< t
};
inline constexpr Formula kActivationEmbedding{"activation-embedding", "Embedding dropout masks on the first stage",
                                              "s*b*h*min(m, p)/t", "bytes", source::kKorthikanti};
[[nodiscard]] constexpr RealBytes activation_embedding(const EmbeddingActivationInput& in) {
  const double held = in.micro_batches < in.pp ? in.micro_batches : in.pp;
  return RealBytes(in.seq * in.micro_batch * in.hidden * held / in.tp);
}

struct HeadActivationInput {
  double seq = 0;          ///< s
  double micro_batch = 1;  ///< b
  double hidden = 0;       ///< h
  double vocab = 0;        ///< V
  double tp = 1;           ///< t
};
inline constexpr Formula kActivationHead{"activation-head", "Final norm, head input and fp32 logits of the last stage",
                                         "4*s*b*h*(1 + V/h)/t", "bytes", source::kKorthikanti};
[[nodiscard]] constexpr RealBytes activation_head(const HeadActivationInput& in) {
  return RealBytes(4 * in.seq * in.micro_batch * in.hidden * (1 + in.vocab / in.hidden) / in.tp);
}

struct LlamaActivationInput {
  double tokens = 0;  ///< N   tokens of a micro-batch on the rank: b s / c
  double hidden = 0;  ///< h
  double q = 0;       ///< q
  double kv = 0;      ///< kv
  double ffn = 0;     ///< f
  double heads = 0;   ///< a
  double tp = 1;      ///< t
};
inline constexpr Formula kActivationLlama{
    "activation-llama",
    "One layer with flash attention, gated FFN and no dropout, bf16, sequence-parallel",
    "N*(8*h + 4*q + 4*kv + 6*f + 4*a + 8)/t",
    "bytes",
    source::kTransformerEngine,
    "Norm inputs and outputs, Q, K, V, attention output, statistics, gate and up, their product."};
[[nodiscard]] constexpr RealBytes activation_llama(const LlamaActivationInput& in) {
  const double per_token = 8 * in.hidden + 4 * in.q + 4 * in.kv + 6 * in.ffn + 4 * in.heads + 8;
  return RealBytes(in.tokens * per_token / in.tp);
}

inline constexpr Formula kActivationLlamaTp{"activation-llama-tp", "The same without sequence parallelism",
                                            "N*(8*h + 8 + (4*q + 4*kv + 6*f + 4*a)/t)", "bytes",
                                            source::kTransformerEngine};
[[nodiscard]] constexpr RealBytes activation_llama_tp(const LlamaActivationInput& in) {
  const double split = 4 * in.q + 4 * in.kv + 6 * in.ffn + 4 * in.heads;
  return RealBytes(in.tokens * (8 * in.hidden + 8 + split / in.tp));
}

inline constexpr Formula kActivationLlamaFp8{"activation-llama-fp8",
                                             "The same in fp8, sequence-parallel",
                                             "N*(6*h + 5*q + 4*kv + 5*f + 4*a + 8)/t",
                                             "bytes",
                                             source::kTransformerEngine,
                                             "GEMM inputs take one byte; attention stays in bf16 and its output is "
                                             "kept once more for the projection."};
[[nodiscard]] constexpr RealBytes activation_llama_fp8(const LlamaActivationInput& in) {
  const double per_token = 6 * in.hidden + 5 * in.q + 4 * in.kv + 5 * in.ffn + 4 * in.heads + 8;
  return RealBytes(in.tokens * per_token / in.tp);
}

inline constexpr Formula kActivationLlamaMxfp8{
    "activation-llama-mxfp8", "The same in mxfp8: one scale byte for 32 elements",
    "N*(4*h + 4*q + 4*kv + 4*f + 4*a + 8 + (2*h + q + f)*33/32)/t", "bytes", source::kTransformerEngine};
[[nodiscard]] constexpr RealBytes activation_llama_mxfp8(const LlamaActivationInput& in) {
  const double wide = 4 * (in.hidden + in.q + in.kv + in.ffn + in.heads) + 8;
  const double narrow = 2 * in.hidden + in.q + in.ffn;
  return RealBytes(in.tokens * (wide + narrow * 33 / 32) / in.tp);
}

struct LatentActivationInput {
  double tokens = 0, hidden = 0, heads = 0, q_rank = 0, kv_rank = 0;  ///< N, h, a, r_q, r_kv
  double nope_dim = 0, rope_dim = 0, value_dim = 0;                   ///< d_n, d_r, d_v
};
inline constexpr Formula kActivationLatent{"activation-mla", "Multi-head latent attention of one layer, unfused norms",
                                           "N*(4*h + 12 + 4*r_q + 4*r_kv + 4*a*(d_n + d_r) + 4*a*d_v + 4*a)", "bytes",
                                           source::kMegatron};
[[nodiscard]] constexpr RealBytes activation_latent(const LatentActivationInput& in) {
  const double heads = in.heads * (4 * (in.nope_dim + in.rope_dim) + 4 * in.value_dim + 4);
  return RealBytes(in.tokens * (4 * in.hidden + 12 + 4 * in.q_rank + 4 * in.kv_rank + heads));
}

struct MoeActivationInput {
  double tokens = 0, hidden = 0, experts = 0, top_k = 0;  ///< N, h, E, k
  double capacity = 1;                                    ///< c_f
  double expert_width = 0, shared_width = 0;              ///< f_e, f_s
};
inline constexpr Formula kActivationMoe{
    "activation-moe",
    "Mixture-of-experts FFN of one layer",
    "N*(4*h + 4 + 8*E + k*c_f*(2*h + 6*f_e + 4) + 6*f_s)",
    "bytes",
    source::kMegatron,
    "c_f: tokens of the busiest rank over the mean; the capacity factor where tokens are dropped and padded."};
[[nodiscard]] constexpr RealBytes activation_moe(const MoeActivationInput& in) {
  const double routed = in.top_k * in.capacity * (2 * in.hidden + 6 * in.expert_width + 4);
  return RealBytes(in.tokens * (4 * in.hidden + 4 + 8 * in.experts + routed + 6 * in.shared_width));
}

struct LogitsInput {
  double tokens = 0;  ///< N
  double vocab = 0;   ///< V   padded
  double tp = 1;      ///< t
};
inline constexpr Formula kLogitsPeak{"logits-peak",     "Logits at the loss's peak, unfused cross entropy",
                                     "6*N*V/t",         "bytes",
                                     source::kMegatron, "bf16 logits and their fp32 copy; 4 N V / t stay."};
[[nodiscard]] constexpr RealBytes logits_peak(const LogitsInput& in) {
  return RealBytes(6 * in.tokens * in.vocab / in.tp);
}

struct LossPeakInput {
  double tokens = 0;  ///< N
  double vocab = 0;   ///< V   padded
  double hidden = 0;  ///< h
  double tp = 1;      ///< t
};
inline constexpr Formula kLossPeakBytes{
    "loss-peak",
    "Buffers alive in the head's backward pass, cross entropy in place",
    "2*N*V/t + 6*N*h/t + 4*N/t + 4*N*h",
    "bytes",
    source::kTransformerEngine,
    "Last pipeline stage, sequence-parallel: logits, head input and norm input, gathered input, its gradient and its "
    "scattered share."};
[[nodiscard]] constexpr RealBytes loss_peak(const LossPeakInput& in) {
  return RealBytes(in.tokens * (2 * in.vocab / in.tp + 6 * in.hidden / in.tp + 4 / in.tp + 4 * in.hidden));
}

struct MoePeakInput {
  double tokens = 0;    ///< N
  double hidden = 0;    ///< h
  double top_k = 1;     ///< k
  double capacity = 1;  ///< c_f
};
inline constexpr Formula kMoePeakBytes{
    "moe-forward-peak",    "Buffers alive in the forward pass of a mixture of experts",
    "8*N*k*c_f*h + 6*N*h", "bytes",
    source::kMegatron,     "Permuted, received, sorted and combined copies of the routed tokens."};
[[nodiscard]] constexpr RealBytes moe_peak(const MoePeakInput& in) {
  return RealBytes(in.tokens * in.hidden * (8 * in.top_k * in.capacity + 6));
}

struct EstimatorInput {
  double seq = 0;          ///< s
  double micro_batch = 1;  ///< b
  double hidden = 0;       ///< h
  double ffn = 0;          ///< f
  double tp = 1;           ///< t
};
inline constexpr Formula kMegatronEstimate{"activation-megatron-estimate",
                                           "What Megatron's own estimator says of one layer",
                                           "s*b*h*(18 + 4*f/h)/t",
                                           "bytes",
                                           source::kMegatron,
                                           "Neither grouped queries nor gated FFNs, latent attention, experts or "
                                           "context parallelism are in it; activation-llama "
                                           "and activation-moe count those."};
[[nodiscard]] constexpr RealBytes megatron_estimate(const EstimatorInput& in) {
  return RealBytes(in.seq * in.micro_batch * in.hidden * (18 + 4 * in.ffn / in.hidden) / in.tp);
}

struct RingBuffersInput {
  double tokens = 0;  ///< N
  double kv = 0;      ///< kv
  double cp = 1;      ///< c
  double tp = 1;      ///< t
};
inline constexpr Formula kRingBuffers{"ring-buffers",
                                      "Keys and values that ring attention holds in a forward pass, bf16",
                                      "4*N*kv*c/t",
                                      "bytes",
                                      source::kTransformerEngine,
                                      "As much as an all-gather of them; the backward pass gets by with four blocks."};
[[nodiscard]] constexpr RealBytes ring_buffers(const RingBuffersInput& in) {
  return RealBytes(4 * in.tokens * in.kv * in.cp / in.tp);
}
[[nodiscard]] constexpr RealBytes ring_buffers_two(const RingBuffersInput& in) {
  return RealBytes(2 * 4 * in.tokens * in.kv / in.tp);
}

struct CheckpointEveryInput {
  double hidden = 0;       ///< h
  double layers = 0;       ///< L_s
  double layer_bytes = 0;  ///< A
  double every = 1;        ///< n
};
inline constexpr Formula kRecomputeUniform{
    "recompute-uniform", "Activations per token with a checkpoint every n layers",
    "2*h*L_s/n + n*A",   "bytes/token",
    source::kDerived,    "Checkpoints, and the n layers being rebuilt."};
[[nodiscard]] constexpr BytesPerToken recompute_uniform(const CheckpointEveryInput& in) {
  return BytesPerToken(2 * in.hidden * in.layers / in.every + in.every * in.layer_bytes);
}

struct BestCheckpointInput {
  double hidden = 0;       ///< h
  double layers = 0;       ///< L_s
  double layer_bytes = 0;  ///< A
};
inline constexpr Formula kRecomputeBest{
    "recompute-best",
    "Layers between checkpoints that need the least memory",
    "sqrt(2*h*L_s/A)",
    "layers",
    source::kDerived,
    "About 2 to 3, not the square root of the depth: a layer's activations are some "
    "17 times its input."};
[[nodiscard]] double recompute_best(const BestCheckpointInput& in);
[[nodiscard]] double recompute_best_course(const BestCheckpointInput& in);

struct SegmentsInput {
  double layers = 0;  ///< L
};
inline constexpr Formula kRecomputeWork{"recompute-work",
                                        "Forward layers rebuilt with sqrt(L) checkpoints",
                                        "L",
                                        "layers",
                                        "Chen et al. 2016, arXiv:1604.06174",
                                        "One more forward in all: +33 % of a training step."};
[[nodiscard]] constexpr double recompute_work(const SegmentsInput& in) { return in.layers; }
[[nodiscard]] double recompute_work_course(const SegmentsInput& in);

struct KvCacheInput {
  double layers = 0;   ///< L
  double kv = 0;       ///< kv
  double element = 2;  ///< e
  double tokens = 0;   ///< N
};
inline constexpr Formula kKvCache{
    "kv-cache", "Key-value cache while generating", "2*L*kv*e*N", "bytes", source::kDerived, "Not part of training."};
[[nodiscard]] constexpr RealBytes kv_cache(const KvCacheInput& in) {
  return RealBytes(2 * in.layers * in.kv * in.element * in.tokens);
}

[[nodiscard]] std::span<const CatalogEntry> activation_formulas();

}  // namespace plan::textbook
