#pragma once

#include <string_view>

namespace plan::published {

/// Peaks of torch.cuda.max_memory_allocated on 8 B200, per pipeline stage: Megatron core 0.14,
/// TransformerEngine 2.11, micro-batch 1, distributed optimizer, fp32 gradients, sequence parallelism with
/// tensor parallelism, fused cross entropy, all-to-all context parallelism, bf16, no recompute.
/// The runs used a null tokenizer, which adds one to the vocabulary of 128,256 (102,400; 129,280).
/// Source: MooreThreads/SimuMax docs/b200/b200_release_v1.2_summary.json, commit 4dcaae5.
enum class SimumaxModel { Llama70bL12, Llama405bL4, DeepSeekV2L4, DeepSeekV3L4 };

struct SimumaxPeak {
  std::string_view name;
  SimumaxModel model;
  int tp, cp, pp, dp, ep, seq;
  int stage;  ///< pipeline rank
  double mib;
};

inline constexpr SimumaxPeak kSimumaxPeaks[] = {
    {"70B TP1 PP2 DP4 first", SimumaxModel::Llama70bL12, 1, 1, 2, 4, 1, 4096, 0, 68149.2},
    {"70B TP1 PP2 DP4 last", SimumaxModel::Llama70bL12, 1, 1, 2, 4, 1, 4096, 1, 64478.5},
    {"70B TP2 DP4", SimumaxModel::Llama70bL12, 2, 1, 1, 4, 1, 4096, 0, 62136.3},
    {"70B TP4 DP2", SimumaxModel::Llama70bL12, 4, 1, 1, 2, 1, 4096, 0, 40009.7},
    {"70B TP8", SimumaxModel::Llama70bL12, 8, 1, 1, 1, 1, 4096, 0, 28965.4},
    {"405B TP1 PP2 DP4 first", SimumaxModel::Llama405bL4, 1, 1, 2, 4, 1, 4096, 0, 88688.8},
    {"405B TP1 PP2 DP4 last", SimumaxModel::Llama405bL4, 1, 1, 2, 4, 1, 4096, 1, 89173.4},
    {"405B TP2 DP4", SimumaxModel::Llama405bL4, 2, 1, 1, 4, 1, 4096, 0, 83549.6},
    {"405B TP4 DP2", SimumaxModel::Llama405bL4, 4, 1, 1, 2, 1, 4096, 0, 54158.0},
    {"405B TP8", SimumaxModel::Llama405bL4, 8, 1, 1, 1, 1, 4096, 0, 39499.8},
    {"70B TP2 CP4 32k", SimumaxModel::Llama70bL12, 2, 4, 1, 1, 1, 32768, 0, 70070.5},
    {"70B TP1 CP8 32k", SimumaxModel::Llama70bL12, 1, 8, 1, 1, 1, 32768, 0, 107016.1},
    {"405B TP2 CP4 32k", SimumaxModel::Llama405bL4, 2, 4, 1, 1, 1, 32768, 0, 89113.7},
    {"405B TP1 CP8 32k", SimumaxModel::Llama405bL4, 1, 8, 1, 1, 1, 32768, 0, 142557.4},
    {"70B TP2 CP4 128k", SimumaxModel::Llama70bL12, 2, 4, 1, 1, 1, 131072, 0, 115371.9},
    {"70B TP1 CP8 128k", SimumaxModel::Llama70bL12, 1, 8, 1, 1, 1, 131072, 0, 151538.4},
    {"405B TP2 CP4 128k", SimumaxModel::Llama405bL4, 2, 4, 1, 1, 1, 131072, 0, 120962.4},
    {"DeepSeek-V2 EP8 DP8", SimumaxModel::DeepSeekV2L4, 1, 1, 1, 8, 8, 4096, 0, 46726.2},
    {"DeepSeek-V2 EP4 PP2 DP4 first", SimumaxModel::DeepSeekV2L4, 1, 1, 2, 4, 4, 4096, 0, 32342.7},
    {"DeepSeek-V2 EP4 PP2 DP4 last", SimumaxModel::DeepSeekV2L4, 1, 1, 2, 4, 4, 4096, 1, 45775.8},
    {"DeepSeek-V3 EP8 DP8", SimumaxModel::DeepSeekV3L4, 1, 1, 1, 8, 8, 4096, 0, 106801.2},
    {"DeepSeek-V3 EP4 PP2 DP4 first", SimumaxModel::DeepSeekV3L4, 1, 1, 2, 4, 4, 4096, 0, 72948.3},
    {"DeepSeek-V3 EP4 PP2 DP4 last", SimumaxModel::DeepSeekV3L4, 1, 1, 2, 4, 4, 4096, 1, 116736.9},
};

}  // namespace plan::published
