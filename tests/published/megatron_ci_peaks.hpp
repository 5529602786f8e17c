#pragma once

#include <string_view>

namespace plan::published {

/// `mem-max-allocated-bytes` of the last pipeline rank in Megatron-LM's own functional tests, in MiB:
/// NVIDIA/Megatron-LM tests/functional_tests/test_cases/gpt/*/golden_values_*.json, commit d98e8a64.
/// No constant of ours was fitted to them.
enum class CiPlatform { A100, H100, Gb200 };

struct CiPeak {
  std::string_view name;
  CiPlatform platform;
  double mib;
};

/// gpt3_7b_tp4_pp1_memory_speed: TP4, DP2, micro-batch 2, sequence 8,192.
inline constexpr CiPeak kGpt7bTp4[] = {
    {"A100", CiPlatform::A100, 55492.5}, {"H100", CiPlatform::H100, 54496.6}, {"GB200", CiPlatform::Gb200, 55520.5}};

/// gpt3_7b_tp1_pp4_memory_speed: PP4, 8 chunks a rank, DP2, micro-batch 1, sequence 8,192, 4 micro-batches.
inline constexpr CiPeak kGpt7bPp4[] = {
    {"A100", CiPlatform::A100, 57686.9}, {"H100", CiPlatform::H100, 57907.9}, {"GB200", CiPlatform::Gb200, 57714.7}};

/// gpt3_15b_8t_release: squared ReLU, TP8 with sequence parallelism, micro-batch 4, DP16 (inferred from
/// the static bytes).
inline constexpr CiPeak kGpt15bTp8[] = {{"H100", CiPlatform::H100, 26852.8}};

}  // namespace plan::published
