#pragma once

#include <span>

#include "formulas/textbook/catalog_entry.hpp"
#include "formulas/textbook/sources.hpp"
#include "formulas/traced.hpp"
#include "formulas/units.hpp"

/// Bytes of weights, gradients and optimizer states on one rank (plan-formulas(7) C1). P is what tensor, pipeline
/// and expert parallelism leave on the rank; d the ranks that share its states.
namespace plan::textbook {

struct StateInput {
  double parameters = 0;  ///< P
  double ranks = 1;       ///< d
};
struct UnshardedInput {
  double parameters = 0;  ///< P
};

inline constexpr Formula kStates16{
    "states",
    "The 16-byte rule: mixed-precision Adam, nothing sharded",
    "16*P",
    "bytes",
    source::kZero,
    "2 weight + 2 gradient + 4 master + 4 + 4 moments. Frameworks that keep gradients in "
    "fp32 need 18. GPT-3: 2.8 TB, where the lab notes say more than 1 TB."};
[[nodiscard]] constexpr RealBytes states_16(const UnshardedInput& in) { return RealBytes(16 * in.parameters); }

inline constexpr Formula kWeights16{
    "weights",     "Weights in 16 bits, nothing sharded",
    "2*P",         "bytes",
    source::kZero, "What inference loads, and what ZeRO-1 and ZeRO-2 keep whole on every rank."};
[[nodiscard]] constexpr RealBytes weights_16(const UnshardedInput& in) { return RealBytes(2 * in.parameters); }

inline constexpr Formula kStates12{"states-12",
                                   "The 12-byte variant: no fp32 master weights",
                                   "12*P",
                                   "bytes",
                                   source::kCourseMaths,
                                   "Add 4 bytes with master weights, which training in bf16 needs."};
[[nodiscard]] constexpr RealBytes states_12(const UnshardedInput& in) { return RealBytes(12 * in.parameters); }

inline constexpr Formula kZero1States{"zero1", "ZeRO-1: optimizer states sharded", "(4 + 12/d)*P", "bytes",
                                      source::kZero};
[[nodiscard]] constexpr RealBytes zero1_states(const StateInput& in) {
  return RealBytes((4 + 12 / in.ranks) * in.parameters);
}

inline constexpr Formula kZero2States{"zero2", "ZeRO-2: gradients sharded too", "(2 + 14/d)*P", "bytes", source::kZero};
[[nodiscard]] constexpr RealBytes zero2_states(const StateInput& in) {
  return RealBytes((2 + 14 / in.ranks) * in.parameters);
}

inline constexpr Formula kZero3States{"zero3",       "ZeRO-3: everything sharded",
                                      "16/d*P",      "bytes",
                                      source::kZero, "Activations are not sharded, and gathered weights come on top."};
[[nodiscard]] constexpr RealBytes zero3_states(const StateInput& in) {
  return RealBytes(16 / in.ranks * in.parameters);
}

inline constexpr Formula kDdpElements{"ddp-elements",
                                      "Elements of weights, gradients and moments, nothing sharded",
                                      "4*P",
                                      "elements",
                                      source::kCourseMaths,
                                      "No master weights counted."};
[[nodiscard]] constexpr double ddp_elements(const UnshardedInput& in) { return 4 * in.parameters; }

inline constexpr Formula kZero1Elements{"zero1-elements",
                                        "The same under ZeRO-1",
                                        "2*P + 2*P/d",
                                        "elements",
                                        source::kCourseMaths,
                                        "Half at most. Elements of 2 and 4 bytes are added up as if equal: in bytes "
                                        "ZeRO-1 saves up to 75 %."};
[[nodiscard]] constexpr double zero1_elements(const StateInput& in) {
  return 2 * in.parameters + 2 * in.parameters / in.ranks;
}
inline constexpr Formula kZero2Elements{"zero2-elements", "The same under ZeRO-2", "P + 3*P/d", "elements",
                                        source::kCourseMaths};
[[nodiscard]] constexpr double zero2_elements(const StateInput& in) {
  return in.parameters + 3 * in.parameters / in.ranks;
}
inline constexpr Formula kZero3Elements{"zero3-elements", "The same under ZeRO-3", "4*P/d", "elements",
                                        source::kCourseMaths};
[[nodiscard]] constexpr double zero3_elements(const StateInput& in) { return 4 * in.parameters / in.ranks; }

struct RanksInput {
  double ranks = 1;  ///< d
};
inline constexpr Formula kZero1Saving{"zero1-saving", "Share of the 16 bytes that ZeRO-1 saves", "1 - (4 + 12/d)/16",
                                      "ratio", source::kZero};
[[nodiscard]] constexpr double zero1_saving(const RanksInput& in) { return 1 - (4 + 12 / in.ranks) / 16; }
[[nodiscard]] constexpr double zero1_saving_course(const RanksInput&) { return 0.75; }

inline constexpr Formula kZero1Factor{"zero1-factor", "How many times smaller ZeRO-1 makes the states", "16/(4 + 12/d)",
                                      "ratio", source::kZero};
[[nodiscard]] constexpr double zero1_factor(const RanksInput& in) { return 16 / (4 + 12 / in.ranks); }
[[nodiscard]] constexpr double zero1_factor_course(const RanksInput&) { return 4; }

inline constexpr Formula kZero2Factor{"zero2-factor", "How many times smaller ZeRO-2 makes the states", "16/(2 + 14/d)",
                                      "ratio", source::kZero};
[[nodiscard]] constexpr double zero2_factor(const RanksInput& in) { return 16 / (2 + 14 / in.ranks); }
[[nodiscard]] constexpr double zero2_factor_course(const RanksInput&) { return 8; }

inline constexpr Formula kMegatronSaving{
    "megatron-saving",   "Share of 18 bytes that Megatron's distributed optimizer saves",
    "1 - (6 + 12/d)/18", "ratio",
    source::kMegatron,   "Two thirds at most."};
[[nodiscard]] constexpr double megatron_saving(const RanksInput& in) { return 1 - (6 + 12 / in.ranks) / 18; }

inline constexpr Formula kMegatronStates{"megatron", "Megatron, bf16 weights and fp32 gradients", "18*P", "bytes",
                                         source::kMegatron};
[[nodiscard]] constexpr RealBytes megatron_states(const UnshardedInput& in) { return RealBytes(18 * in.parameters); }

inline constexpr Formula kMegatronDistributed{"megatron-distributed", "The same with the distributed optimizer",
                                              "(6 + 12/d)*P", "bytes", source::kMegatron};
[[nodiscard]] constexpr RealBytes megatron_distributed(const StateInput& in) {
  return RealBytes((6 + 12 / in.ranks) * in.parameters);
}

inline constexpr Formula kMegatronFp16{"megatron-fp16",   "Megatron, fp16 weights and gradients",    "20*P", "bytes",
                                       source::kMegatron, "A copy of the gradients in fp32 is kept."};
[[nodiscard]] constexpr RealBytes megatron_fp16(const UnshardedInput& in) { return RealBytes(20 * in.parameters); }

inline constexpr Formula kMegatronFp16Distributed{
    "megatron-fp16-distributed", "The same with the distributed optimizer", "(4 + 16/d)*P", "bytes", source::kMegatron};
[[nodiscard]] constexpr RealBytes megatron_fp16_distributed(const StateInput& in) {
  return RealBytes((4 + 16 / in.ranks) * in.parameters);
}

inline constexpr Formula kMegatronFp32{"megatron-fp32", "Megatron, all in fp32", "16*P", "bytes", source::kMegatron};
[[nodiscard]] constexpr RealBytes megatron_fp32(const UnshardedInput& in) { return RealBytes(16 * in.parameters); }

inline constexpr Formula kMegatronFp32Distributed{
    "megatron-fp32-distributed", "The same with the distributed optimizer", "(8 + 8/d)*P", "bytes", source::kMegatron};
[[nodiscard]] constexpr RealBytes megatron_fp32_distributed(const StateInput& in) {
  return RealBytes((8 + 8 / in.ranks) * in.parameters);
}

inline constexpr Formula kMegatronBf16Grads{
    "megatron-bf16-grads", "Megatron's distributed optimizer with a bf16 gradient buffer, between steps",
    "(4 + 12/d)*P", "bytes", source::kMegatron};
[[nodiscard]] constexpr RealBytes megatron_bf16_grads(const StateInput& in) {
  return RealBytes((4 + 12 / in.ranks) * in.parameters);
}

inline constexpr Formula kMegatronBf16GradsStep{
    "megatron-bf16-grads-step",
    "The same during the optimizer step",
    "(4 + 16/d)*P",
    "bytes",
    source::kMegatron,
    "The optimizer copies its gradient shard to fp32; with fp32 buffers it reads them in place."};
[[nodiscard]] constexpr RealBytes megatron_bf16_grads_step(const StateInput& in) {
  return RealBytes((4 + 16 / in.ranks) * in.parameters);
}

struct PrecisionAwareInput {
  double parameters = 0;    ///< P
  double ranks = 1;         ///< d
  double grad_bytes = 4;    ///< g
  double master_bytes = 4;  ///< w
  double moment1 = 4;       ///< e_m
  double moment2 = 4;       ///< e_v
};
inline constexpr Formula kPrecisionAware{
    "precision-aware",
    "Megatron's precision-aware optimizer",
    "(2 + g + (w + e_m + e_v)/d)*P",
    "bytes",
    source::kMegatron,
    "w is 2 where the master weight is stored as the bf16 weight's remainder. DeepSeek-V3: fp32 gradients and master, "
    "bf16 moments, 6 + 8/d."};
[[nodiscard]] constexpr RealBytes precision_aware_states(const PrecisionAwareInput& in) {
  return RealBytes((2 + in.grad_bytes + (in.master_bytes + in.moment1 + in.moment2) / in.ranks) * in.parameters);
}

struct InstancesInput {
  double parameters = 0;  ///< P
  double ranks = 1;       ///< d
  double instances = 1;   ///< n_i
};
inline constexpr Formula kMegatronInstances{"megatron-instances",
                                            "Megatron's distributed optimizer in several instances (hybrid ZeRO-1)",
                                            "(6 + 12/(d/n_i))*P", "bytes", source::kMegatron};
[[nodiscard]] constexpr RealBytes megatron_instances(const InstancesInput& in) {
  return RealBytes((6 + 12 / (in.ranks / in.instances)) * in.parameters);
}

inline constexpr Formula kDeepSpeedZero2{
    "deepspeed-zero2",  "DeepSpeed ZeRO-2 by its own estimator",
    "(2 + 18/d)*P",     "bytes",
    source::kDeepSpeed, "2 + 2 + 4 + 4 + 8: gradients are counted in fp16 and in fp32."};
[[nodiscard]] constexpr RealBytes deepspeed_zero2(const StateInput& in) {
  return RealBytes((2 + 18 / in.ranks) * in.parameters);
}

struct DeepSpeedZero3Input {
  double parameters = 0;     ///< P
  double ranks = 1;          ///< d
  double largest_layer = 0;  ///< P_max
};
inline constexpr Formula kDeepSpeedZero3{"deepspeed-zero3", "DeepSpeed ZeRO-3 by its own estimator", "18/d*P + 4*P_max",
                                         "bytes", source::kDeepSpeed};
[[nodiscard]] constexpr RealBytes deepspeed_zero3(const DeepSpeedZero3Input& in) {
  return RealBytes(18 / in.ranks * in.parameters + 4 * in.largest_layer);
}

inline constexpr Formula kFsdp2States{"fsdp2",        "FSDP2: fp32 weights, gradients and moments, sharded",
                                      "16/d*P",       "bytes",
                                      source::kFsdp2, "Gathered blocks come on top: fsdp2-forward, fsdp2-backward."};
[[nodiscard]] constexpr RealBytes fsdp2_states(const StateInput& in) {
  return RealBytes(16 / in.ranks * in.parameters);
}

inline constexpr Formula kHsdpStates{"hsdp", "Hybrid sharding: sharded over K ranks, replicated over the rest",
                                     "16/K*P", "bytes", source::kFsdp2};
[[nodiscard]] constexpr RealBytes hsdp_states(const StateInput& in) { return RealBytes(16 / in.ranks * in.parameters); }

struct HybridFsdpInput {
  double parameters = 0;  ///< P
  double inner = 1;       ///< n_in
  double outer = 1;       ///< n_out
  double optimizer = 12;  ///< e_opt
  double gradient = 2;    ///< g
  double weight = 2;      ///< w
};
inline constexpr Formula kHybridFsdp{"megatron-fsdp-hybrid",
                                     "Megatron-FSDP: optimizer over all ranks, gradients and weights over the inner",
                                     "(e_opt/(n_in*n_out) + (g + w)/n_in)*P", "bytes", source::kMegatron};
[[nodiscard]] constexpr RealBytes hybrid_fsdp(const HybridFsdpInput& in) {
  return RealBytes((in.optimizer / (in.inner * in.outer) + (in.gradient + in.weight) / in.inner) * in.parameters);
}

struct BlockInput {
  double block = 0;  ///< P_b
};
inline constexpr Formula kFsdp2Forward{
    "fsdp2-forward", "Gathered weights alive in FSDP2's forward pass",
    "6*P_b",         "bytes",
    source::kFsdp2,  "Block in use, its retained all-gather output, and the next one's."};
[[nodiscard]] constexpr RealBytes fsdp2_forward(const BlockInput& in) { return RealBytes(6 * in.block); }

inline constexpr Formula kFsdp2Backward{"fsdp2-backward",
                                        "Buffers alive in FSDP2's backward pass, fp32 reduction",
                                        "10*P_b",
                                        "bytes",
                                        source::kFsdp2,
                                        "Weights in use and prefetched, gradients, and the previous reduce-scatter "
                                        "input in fp32; 8 P_b when reducing in bf16."};
[[nodiscard]] constexpr RealBytes fsdp2_backward(const BlockInput& in) { return RealBytes(10 * in.block); }

inline constexpr Formula kCheckpointSize{"checkpoint-size", "Checkpoint with bf16 weights, fp32 master and moments",
                                         "14*P", "bytes", source::kDerived};
[[nodiscard]] constexpr RealBytes checkpoint_size(const UnshardedInput& in) { return RealBytes(14 * in.parameters); }

inline constexpr Formula kAdam8bit{"adam-8bit-moments",
                                   "Both moments of Adam in 8 bits, blocks of 256",
                                   "(2 + 2*4/256)*P",
                                   "bytes",
                                   "Dettmers et al. 2021, arXiv:2110.02861",
                                   "Instead of 8 P; one fp32 scale a block and moment."};
[[nodiscard]] constexpr RealBytes adam_8bit(const UnshardedInput& in) {
  return RealBytes((2 + 2.0 * 4 / 256) * in.parameters);
}

struct MatrixInput {
  double rows = 0;     ///< r
  double columns = 0;  ///< c
};
inline constexpr Formula kAdafactor{"adafactor-moments",
                                    "Second moments of Adafactor, one matrix",
                                    "4*(r + c)",
                                    "bytes",
                                    "Shazeer and Stern 2018, arXiv:1804.04235",
                                    "Instead of 8 r c; 4 r c more where a first moment is kept."};
[[nodiscard]] constexpr RealBytes adafactor(const MatrixInput& in) { return RealBytes(4 * (in.rows + in.columns)); }

inline constexpr Formula kFp8Weights{
    "fp8-weight-cache",
    "Row-wise and column-wise fp8 copies of bf16 GEMM weights",
    "2*P",
    "bytes",
    source::kTransformerEngine,
    "P: GEMM weights of the rank. fp8 saves no weight memory unless weights are gathered "
    "in fp8 as well."};
[[nodiscard]] constexpr RealBytes fp8_weight_cache(const UnshardedInput& in) { return RealBytes(2 * in.parameters); }

struct OffloadInput {
  double share = 1;       ///< phi
  double parameters = 0;  ///< P
  double ranks = 1;       ///< d
  double link = 0;        ///< W_host
};
inline constexpr Formula kOffloadTime{
    "offload-time",           "Host-link time a step of an offloaded optimizer",
    "(4 + 2)*phi*P/d/W_host", "seconds",
    source::kMegatron,        "fp32 gradients down, bf16 weights up; 12 phi P / d bytes leave the GPU."};
/// Of the parameters whose states one rank owns. V: double, or Traced for who asks how.
template <class V>
constexpr SecondsOf<V> offload_law(const V& share, const V& owned, const V& link) {
  return SecondsOf<V>(6.0 * share * owned / link);
}
[[nodiscard]] constexpr Seconds offload_time(const OffloadInput& in) {
  return offload_law(in.share, in.parameters / in.ranks, in.link);
}

struct HostStepInput {
  double share = 1;       ///< phi
  double parameters = 0;  ///< P
  double ranks = 1;       ///< d
  double of_host = 1;     ///< g
};
/// Parameters a second that the processors of one host step by Adam: 10 billion in 2.57 s on two 24-core Xeon 8168
/// with DDR4-2666, 30 bytes of memory traffic each (ZeRO-Offload, table 4). Newer hosts are faster.
inline constexpr double kHostAdamRate = 10e9 / 2.57;
inline constexpr Formula kHostStep{"host-step-time",
                                   "Time of a host a step for optimizer states that wait there",
                                   "phi*P/d*g*2.57/1e10",
                                   "seconds",
                                   "Ren et al. 2021 (ZeRO-Offload), arXiv:2101.06840, table 4",
                                   "Adam over 10 billion parameters took two Xeon 8168 2.57 s, 3.89e9 parameters/s: "
                                   "30 bytes each at half of what their memory gives. PyTorch's Adam that is "
                                   "not fused took 14.8 s; Megatron asks for the fused one."};
/// Of a rank that owns the states of so many parameters, beside as many ranks of its host as `ranks` says, itself one
/// of them: they share its memory. V: double, or Traced for who asks how.
template <class V>
constexpr SecondsOf<V> host_step_law(const V& share, const V& owned, const V& ranks, const V& rate) {
  return SecondsOf<V>(share * owned * ranks / rate);
}
[[nodiscard]] constexpr Seconds host_step_time(const HostStepInput& in) {
  return host_step_law(in.share, in.parameters / in.ranks, in.of_host, kHostAdamRate);
}

struct ClusterMemoryInput {
  double gpus = 0;       ///< n
  double gigabytes = 0;  ///< M
};
inline constexpr Formula kClusterMemory{"cluster-memory", "Memory of a cluster in decimal petabytes", "n*M/1e6", "PB",
                                        source::kDerived};
[[nodiscard]] constexpr Petabytes cluster_memory(const ClusterMemoryInput& in) {
  return Petabytes(in.gpus * in.gigabytes / 1e6);
}
[[nodiscard]] constexpr Petabytes cluster_memory_course(const ClusterMemoryInput& in) {
  return Petabytes(in.gpus * in.gigabytes / (1024.0 * 1024.0));
}

[[nodiscard]] std::span<const CatalogEntry> state_formulas();

}  // namespace plan::textbook
