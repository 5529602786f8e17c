#pragma once

#include <span>
#include <string_view>

#include "formulas/textbook/catalog_entry.hpp"
#include "formulas/textbook/sources.hpp"

/// Rules of thumb of the course notes as limits that can be computed, and as checks with their reason
/// (plan-formulas(7) G).
namespace plan {

// --- Limits -----------------------------------------------------------------------------------------------

struct TpLimitInput {
  double ffn = 0;        ///< F
  double bandwidth = 0;  ///< W
  double rate = 0;       ///< C
};
inline constexpr Formula kTpLimit{
    "tp-limit",
    "Tensor-parallel ranks below which compute outlasts communication",
    "F*W/C",
    "ranks",
    source::kCourseMaths,
    "W per direction; C the rate GEMMs reach, about 0.6 of peak. F 53,248 on H100: 32 over "
    "NVLink, 4 over 45 GB/s."};
[[nodiscard]] constexpr double tp_limit(const TpLimitInput& in) { return in.ffn * in.bandwidth / in.rate; }

struct FsdpLimitInput {
  double bandwidth = 0;   ///< W
  double rate = 0;        ///< C
  double grad_bytes = 2;  ///< g
};
inline constexpr Formula kFsdpLimit{
    "fsdp-min-tokens",
    "Tokens a rank and micro-batch needs to hide FSDP's gathers",
    "C/W*max(1, (2 + g)/4)",
    "tokens",
    source::kCourseMaths,
    "Independent of the model: weights and work both grow with its size. fp32 gradients "
    "need half as many again."};
[[nodiscard]] constexpr double fsdp_min_tokens(const FsdpLimitInput& in) {
  const double backward = (2 + in.grad_bytes) / 4;
  return in.rate / in.bandwidth * (backward > 1 ? backward : 1);
}

struct RingLimitInput {
  double q = 0;          ///< q
  double kv = 0;         ///< kv
  double bandwidth = 0;  ///< W
  double rate = 0;       ///< C
};
inline constexpr Formula kRingLimit{"ring-min-tokens", "Tokens a rank needs to hide ring attention, causal",
                                    "2*kv/q*C/W",      "tokens",
                                    source::kDerived,  "Without the causal mask half as many."};
[[nodiscard]] constexpr double ring_min_tokens(const RingLimitInput& in) {
  return 2 * in.kv / in.q * in.rate / in.bandwidth;
}

struct BlockLimitInput {
  double bandwidth = 0;  ///< W
  double rate = 0;       ///< C
};
inline constexpr Formula kRingBlock{"ring-attention-block",
                                    "Least block of ring attention, multi-head",
                                    "C/W",
                                    "tokens",
                                    "Liu et al. 2023, arXiv:2310.01889",
                                    "From 4 d c^2 FLOPs against 4 c d bytes."};
[[nodiscard]] constexpr double ring_block(const BlockLimitInput& in) { return in.rate / in.bandwidth; }
inline constexpr Formula kRingSequence{"ring-attention-sequence", "Least sequence on a device, six blocks", "6*C/W",
                                       "tokens", "Liu et al. 2023, arXiv:2310.01889"};
[[nodiscard]] constexpr double ring_sequence(const BlockLimitInput& in) { return 6 * in.rate / in.bandwidth; }

struct AttentionHalfInput {
  double linear = 0;  ///< F_lin
  double layers = 0;  ///< L
  double q = 0;       ///< q
};
inline constexpr Formula kAttentionHalf{"attention-half-sequence",
                                        "Sequence at which causal attention is half of the work", "F_lin/(6*L*q)",
                                        "tokens", source::kDerived};
[[nodiscard]] constexpr double attention_half_sequence(const AttentionHalfInput& in) {
  return in.linear / (6 * in.layers * in.q);
}

struct BubbleTargetInput {
  double pp = 1;       ///< p
  double vp = 1;       ///< v
  double share = 0.1;  ///< f
};
inline constexpr Formula kBubbleTarget{"micro-batches-for-bubble", "Micro-batches that keep the bubble at a share f",
                                       "(p - 1)*(1 - f)/(f*v)", "micro-batches", source::kNarayanan};
[[nodiscard]] constexpr double micro_batches_for_bubble(const BubbleTargetInput& in) {
  return (in.pp - 1) * (1 - in.share) / (in.share * in.vp);
}

struct RowsInput {
  double tokens = 0;   ///< N
  double top_k = 1;    ///< k
  double experts = 1;  ///< E
  double ep = 1;       ///< ep
};
inline constexpr Formula kRowsPerExpert{"rows-per-expert", "Rows of an expert's GEMM, balanced routing",
                                        "N*ep*k/E",        "rows",
                                        source::kDerived,  "Grouped GEMMs want 512 to 1024."};
[[nodiscard]] constexpr double rows_per_expert(const RowsInput& in) {
  return in.tokens * in.ep * in.top_k / in.experts;
}

struct RecomputeShareInput {
  double share = 1;  ///< x
};
inline constexpr Formula kRecomputeOverhead{
    "recompute-overhead",
    "Extra work of recomputing a share of the forward pass",
    "x/3",
    "ratio",
    source::kKorthikanti,
    "The course's 33 % is full recomputation; recomputing attention alone costs a "
    "few percent."};
[[nodiscard]] constexpr double recompute_overhead(const RecomputeShareInput& in) { return in.share / 3; }

struct SpSavingInput {
  double seq = 0;          ///< s
  double micro_batch = 1;  ///< b
  double hidden = 0;       ///< h
  double tp = 1;           ///< t
};
inline constexpr Formula kSpSaving{"sp-saving", "Activations that sequence parallelism saves in one GPT layer",
                                   "10*s*b*h*(1 - 1/t)", "bytes", source::kKorthikanti};
[[nodiscard]] constexpr RealBytes sp_saving(const SpSavingInput& in) {
  return RealBytes(10 * in.seq * in.micro_batch * in.hidden * (1 - 1 / in.tp));
}

struct WorldInput {
  double tp = 1, cp = 1, pp = 1, dp = 1;  ///< t, c, p, d
};
inline constexpr Formula kWorldSize{
    "world-size",
    "GPUs of a layout",
    "t*c*p*d",
    "GPUs",
    source::kMegatron,
    "The course's Llama 3 example (lecture 7, p. 57) says 16,384 GPUs with TP 8, CP 1, PP "
    "16, DP 64; those make 8,192. DP was 128."};
[[nodiscard]] constexpr double world_size(const WorldInput& in) { return in.tp * in.cp * in.pp * in.dp; }

// --- Checks -----------------------------------------------------------------------------------------------

/// A rule as the field states it.
struct RuleOfThumb {
  std::string_view name;
  std::string_view rule;
  std::string_view why;
  std::string_view when_false;
  std::string_view formula;  ///< its limit in the catalog
};
[[nodiscard]] std::span<const RuleOfThumb> rules_of_thumb();
/// nullptr if there is none of that name.
[[nodiscard]] const RuleOfThumb* find_rule(std::string_view name);

/// How a layout compares with a rule.
struct RuleVerdict {
  bool holds = true;
  double value = 0;
  double limit = 0;  ///< the value must not be on the wrong side of it
  bool operator==(const RuleVerdict&) const = default;
};
[[nodiscard]] constexpr RuleVerdict at_most(double value, double limit) { return {value <= limit, value, limit}; }
[[nodiscard]] constexpr RuleVerdict at_least(double value, double limit) { return {value >= limit, value, limit}; }

struct TpDomainCheck {
  int tp = 1;
  int scale_up_size = 8;
};
[[nodiscard]] constexpr RuleVerdict tp_inside_domain(const TpDomainCheck& in) {
  return at_most(in.tp, in.scale_up_size);
}

struct TpLimitCheck {
  int tp = 1;
  TpLimitInput limit{};
};
[[nodiscard]] constexpr RuleVerdict tp_below_limit(const TpLimitCheck& in) {
  return at_most(in.tp, tp_limit(in.limit));
}

struct BubbleCheck {
  double micro_batches = 1;
  int pp = 1;
  int vp = 1;
};
[[nodiscard]] constexpr RuleVerdict enough_micro_batches(const BubbleCheck& in) {
  return at_least(in.micro_batches * in.vp, in.pp > 1 ? 4.0 * in.pp : 1.0);
}

struct FsdpCheck {
  double tokens = 0;  ///< of one micro-batch on one rank
  FsdpLimitInput limit{};
};
[[nodiscard]] constexpr RuleVerdict fsdp_hidden(const FsdpCheck& in) {
  return at_least(in.tokens, fsdp_min_tokens(in.limit));
}

struct RingCheck {
  double tokens = 0;  ///< of one micro-batch on one rank
  RingLimitInput limit{};
};
[[nodiscard]] constexpr RuleVerdict ring_hidden(const RingCheck& in) {
  return at_least(in.tokens, ring_min_tokens(in.limit));
}

struct UlyssesCheck {
  int cp = 1;
  int tp = 1;
  int kv_heads = 1;
};
[[nodiscard]] constexpr RuleVerdict ulysses_fits_heads(const UlyssesCheck& in) {
  return at_most(in.cp, static_cast<double>(in.kv_heads) / in.tp);
}

struct ShardCheck {
  int shard = 8;
  int scale_up_size = 8;
};
[[nodiscard]] constexpr RuleVerdict shard_inside_domain(const ShardCheck& in) {
  return at_most(in.shard, in.scale_up_size);
}

/// Grouped GEMMs lose half of their rate below this many rows (measured on B200: 512 rows .37, 1024 rows .46
/// of peak, 128 rows .21).
inline constexpr double kExpertRows = 512;
[[nodiscard]] constexpr RuleVerdict enough_expert_rows(const RowsInput& in) {
  return at_least(rows_per_expert(in), kExpertRows);
}

/// Rows from which a GEMM's rate stops growing.
inline constexpr double kGemmRows = 4096;
struct GemmRowsCheck {
  double tokens = 0;  ///< of one micro-batch on one rank
};
[[nodiscard]] constexpr RuleVerdict enough_gemm_rows(const GemmRowsCheck& in) { return at_least(in.tokens, kGemmRows); }

struct BatchCheck {
  double tokens = 0;  ///< of one optimizer step
  double loss = 0;    ///< expected
};
[[nodiscard]] RuleVerdict batch_below_critical(const BatchCheck& in);

[[nodiscard]] std::span<const CatalogEntry> rule_formulas();

}  // namespace plan
