#pragma once

#include <string_view>

/// Where equations come from, as `plan explain` prints it.
namespace plan::source {

inline constexpr std::string_view kZero = "Rajbhandari et al. 2019, arXiv:1910.02054";
inline constexpr std::string_view kNarayanan = "Narayanan et al. 2021, arXiv:2104.04473";
inline constexpr std::string_view kKorthikanti = "Korthikanti et al. 2022, arXiv:2205.05198";
inline constexpr std::string_view kPalm = "Chowdhery et al. 2022, arXiv:2204.02311";
inline constexpr std::string_view kZeroBubble = "Qi et al. 2023, arXiv:2401.10241";
inline constexpr std::string_view kDualPipe = "deepseek-ai/DualPipe";
inline constexpr std::string_view kMegatron = "NVIDIA/Megatron-LM";
inline constexpr std::string_view kDeepSpeed = "deepspeedai/DeepSpeed memory estimators";
inline constexpr std::string_view kFsdp2 = "PyTorch fully_shard";
inline constexpr std::string_view kTorchtitan = "pytorch/torchtitan";
inline constexpr std::string_view kTransformerEngine = "NVIDIA/TransformerEngine";
inline constexpr std::string_view kNcclTests = "NVIDIA/nccl-tests, PERFORMANCE.md";
inline constexpr std::string_view kNccl = "NVIDIA/nccl, tuning.cc";
inline constexpr std::string_view kCourseMaths = "CS336 notes, the mathematics of parallelism";
inline constexpr std::string_view kCourseLecture9 = "CS231n lecture 9 notes";
inline constexpr std::string_view kCourseLab0 = "distributed training lab 0 notes";
inline constexpr std::string_view kDerived = "derived from the tensors' shapes";

}  // namespace plan::source
