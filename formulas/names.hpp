#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "formulas/cluster.hpp"
#include "formulas/layout.hpp"
#include "formulas/training.hpp"

namespace plan {

/// A value of an enumeration and the word that flags, files and reports use for it.
template <class E>
struct Named {
  E value;
  std::string_view name;
};

namespace detail {
struct ScheduleNames {
  Named<Schedule> rows[kSchedules] = {};
};
inline constexpr ScheduleNames kScheduleNames = [] {
  ScheduleNames names;
  for (int i = 0; i < kSchedules; ++i) names.rows[i] = {kScheduleRows[i].schedule, kScheduleRows[i].name};
  return names;
}();
}  // namespace detail
inline constexpr const Named<Schedule> (&kScheduleNames)[kSchedules] = detail::kScheduleNames.rows;

/// As Megatron spells them.
inline constexpr Named<AxisOrder> kAxisOrderNames[] = {{AxisOrder::PipelineOutermost, "tp-cp-ep-dp-pp"},
                                                       {AxisOrder::DataOutermost, "tp-cp-ep-pp-dp"}};

/// Megatron core's words for parts of a layer (transformer/cuda_graph_config.py, CudaGraphModule).
inline constexpr Named<GraphScope> kGraphScopeNames[] = {{kGraphAttention, "attn"},
                                                         {kGraphMamba, "mamba"},
                                                         {kGraphMlp, "mlp"},
                                                         {kGraphRouter, "moe_router"},
                                                         {kGraphPreprocess, "moe_preprocess"},
                                                         {kGraphExperts, "moe"}};

inline constexpr Named<CpKind> kCpKindNames[] = {{CpKind::Ring, "ring"},
                                                 {CpKind::AllGather, "all-gather"},
                                                 {CpKind::Ulysses, "ulysses"},
                                                 {CpKind::Hybrid, "hybrid"}};

inline constexpr Named<Precision> kPrecisionNames[] = {
    {Precision::Fp32, "fp32"},         {Precision::Fp16, "fp16"},
    {Precision::Bf16, "bf16"},         {Precision::Fp8Delayed, "fp8-delayed"},
    {Precision::Fp8Tensorwise, "fp8"}, {Precision::Fp8Blockwise, "fp8-blockwise"},
    {Precision::Mxfp8, "mxfp8"},       {Precision::Nvfp4, "nvfp4"}};

inline constexpr Named<DType> kDTypeNames[] = {
    {DType::Fp32, "fp32"}, {DType::Fp16, "fp16"}, {DType::Bf16, "bf16"}, {DType::Fp8, "fp8"}, {DType::Fp4, "fp4"}};

inline constexpr Named<Architecture> kArchitectureNames[] = {{Architecture::Volta, "volta"},
                                                             {Architecture::Turing, "turing"},
                                                             {Architecture::Ampere, "ampere"},
                                                             {Architecture::Ada, "ada"},
                                                             {Architecture::Hopper, "hopper"},
                                                             {Architecture::Blackwell, "blackwell"},
                                                             {Architecture::RtxBlackwell, "rtx-blackwell"},
                                                             {Architecture::Cdna2, "cdna2"},
                                                             {Architecture::Cdna3, "cdna3"},
                                                             {Architecture::Cdna4, "cdna4"},
                                                             {Architecture::Gaudi2, "gaudi2"},
                                                             {Architecture::Gaudi3, "gaudi3"},
                                                             {Architecture::TpuV3, "tpu-v3"},
                                                             {Architecture::TpuV4, "tpu-v4"},
                                                             {Architecture::TpuV5e, "tpu-v5e"},
                                                             {Architecture::TpuV5p, "tpu-v5p"},
                                                             {Architecture::TpuV6e, "tpu-v6e"},
                                                             {Architecture::TpuV7, "tpu-v7"},
                                                             {Architecture::NeuronV3, "neuron-v3"}};

inline constexpr Named<CollectiveLibrary> kCollectiveLibraryNames[] = {{CollectiveLibrary::Nccl, "nccl"},
                                                                       {CollectiveLibrary::Rccl, "rccl"},
                                                                       {CollectiveLibrary::Hccl, "hccl"},
                                                                       {CollectiveLibrary::Xla, "xla"},
                                                                       {CollectiveLibrary::Neuron, "neuron"}};

inline constexpr Named<Optimizer> kOptimizerNames[] = {
    {Optimizer::Adam, "adam"}, {Optimizer::Adam8bit, "adam8bit"},        {Optimizer::Adafactor, "adafactor"},
    {Optimizer::Muon, "muon"}, {Optimizer::SgdMomentum, "sgd-momentum"}, {Optimizer::Sgd, "sgd"}};

inline constexpr Named<Task> kTaskNames[] = {
    {Task::Pretrain, "pretrain"}, {Task::FullFinetune, "finetune"}, {Task::Lora, "lora"}, {Task::Qlora, "qlora"}};

inline constexpr Named<Collective> kCollectiveNames[] = {
    {Collective::AllReduce, "all_reduce"},         {Collective::AllGather, "all_gather"},
    {Collective::ReduceScatter, "reduce_scatter"}, {Collective::AllToAll, "all_to_all"},
    {Collective::SendRecv, "send_recv"},           {Collective::Broadcast, "broadcast"}};

inline constexpr Named<RecomputeModule> kRecomputeModuleNames[] = {{kRecomputeCoreAttention, "core_attn"},
                                                                   {kRecomputeNorm, "layernorm"},
                                                                   {kRecomputeMlp, "mlp"},
                                                                   {kRecomputeMoe, "moe"},
                                                                   {kRecomputeMoeActivation, "moe_act"},
                                                                   {kRecomputeLatentUp, "mla_up_proj"},
                                                                   {kRecomputeSharedExperts, "shared_experts"},
                                                                   {kRecomputeMlpActivation, "mlp_act"},
                                                                   {kRecomputeOps, "op"}};

inline constexpr Named<OffloadModule> kOffloadModuleNames[] = {
    {kOffloadAttentionNorm, "attn_norm"},       {kOffloadQkvLinear, "qkv_linear"}, {kOffloadCoreAttention, "core_attn"},
    {kOffloadAttentionProjection, "attn_proj"}, {kOffloadMlpNorm, "mlp_norm"},     {kOffloadExpertFc1, "expert_fc1"},
    {kOffloadMoeActivation, "moe_act"}};

namespace detail {
template <class E, std::size_t N>
constexpr std::string_view name_in(const Named<E> (&table)[N], E value) {
  for (const Named<E>& row : table)
    if (row.value == value) return row.name;
  return "?";
}
template <class E, std::size_t N>
constexpr std::optional<E> find_in(const Named<E> (&table)[N], std::string_view name) {
  for (const Named<E>& row : table)
    if (row.name == name) return row.value;
  return std::nullopt;
}
}  // namespace detail

constexpr std::string_view name(Schedule v) { return schedule_row(v).name; }
constexpr std::string_view name(AxisOrder v) { return detail::name_in(kAxisOrderNames, v); }
constexpr std::string_view name(CpKind v) { return detail::name_in(kCpKindNames, v); }
constexpr std::string_view name(Precision v) { return detail::name_in(kPrecisionNames, v); }
constexpr std::string_view name(DType v) { return detail::name_in(kDTypeNames, v); }
constexpr std::string_view name(Architecture v) { return detail::name_in(kArchitectureNames, v); }
constexpr std::string_view name(CollectiveLibrary v) { return detail::name_in(kCollectiveLibraryNames, v); }
constexpr std::string_view name(Optimizer v) { return detail::name_in(kOptimizerNames, v); }
constexpr std::string_view name(Task v) { return detail::name_in(kTaskNames, v); }
constexpr std::string_view name(Collective v) { return detail::name_in(kCollectiveNames, v); }
constexpr std::string_view name(RecomputeModule v) { return detail::name_in(kRecomputeModuleNames, v); }

/// The value that a word names in one of the tables above, if any.
template <class E, std::size_t N>
constexpr std::optional<E> parse(const Named<E> (&table)[N], std::string_view word) {
  return detail::find_in(table, word);
}

}  // namespace plan
