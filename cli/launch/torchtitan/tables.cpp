// Names and numbers of torchtitan: v0.2.2 models/*/__init__.py, main b5bcd76c models/*/config_registry.py, PyTorch's
// get_schedule_class, distributed/pipeline_parallel.py (generate_llm_fqn_per_model_part).
// Tested by tests/frameworks/framework_files_test.cpp and against torchtitan, tests/validators/.
#include <algorithm>
#include <cctype>
#include <utility>

#include "cli/launch/torchtitan/torchtitan.hpp"
#include "formulas/text.hpp"

namespace plan::torchtitan {
namespace {

constexpr Flavor kFlavors[] = {
    {"llama3", "8B", "llama3-8b", "Llama-3.1-8B", 131072, "llama3_8b"},
    {"llama3", "70B", "llama3-70b", "Llama-3.1-70B", 131072, "llama3_70b"},
    {"llama3", "405B", "llama3-405b", "Llama-3.1-405B", 131072, "llama3_405b"},
    {"llama4", "17bx16e", "llama4-scout", "Llama-4-Scout-17B-16E", 0, ""},
    {"llama4", "17bx128e", "llama4-maverick", "Llama-4-Maverick-17B-128E", 0, ""},
    {"deepseek_v3", "16B", "deepseek-v2-lite", "deepseek-moe-16b-base", 16384, "deepseek_v3_16b"},
    {"deepseek_v3", "236B", "deepseek-v2", "DeepSeek-V2", 16384, "deepseek_v3_671b"},
    {"deepseek_v3", "671B", "deepseek-v3", "DeepSeek-V3.1-Base", 16384, "deepseek_v3_671b"},
    {"qwen3", "0.6B", "qwen3-0.6b", "Qwen3-0.6B", 40960, "qwen3_0_6b"},
    {"qwen3", "1.7B", "qwen3-1.7b", "Qwen3-1.7B", 40960, "qwen3_1_7b"},
    {"qwen3", "4B", "qwen3-4b", "Qwen3-4B", 40960, "qwen3_14b"},
    {"qwen3", "8B", "qwen3-8b", "Qwen3-8B", 40960, "qwen3_14b"},
    {"qwen3", "14B", "qwen3-14b", "Qwen3-14B", 40960, "qwen3_14b"},
    {"qwen3", "32B", "qwen3-32b", "Qwen3-32B", 40960, "qwen3_32b"},
    {"qwen3", "30B-A3B", "qwen3-30b-a3b", "Qwen3-30B-A3B", 40960, "qwen3_30b_a3b"},
    {"qwen3", "235B-A22B", "qwen3-235b-a22b", "Qwen3-235B-A22B", 40960, "qwen3_30b_a3b"},
    {"gpt_oss", "20b", "gpt-oss-20b", "gpt-oss-20b", 131072, "gpt_oss_20b"},
    {"gpt_oss", "120b", "gpt-oss-120b", "gpt-oss-120b", 131072, "gpt_oss_120b"},
};

}  // namespace

std::span<const Flavor> flavors() { return kFlavors; }

const Flavor* flavor_of(const Model& model) { return row_of_model(flavors(), model); }

const ScheduleRow* find_schedule(std::string_view word) {
  for (const ScheduleRow& row : kScheduleRows)
    if (!row.torch.empty() && same_but_for_case(row.torch, word)) return &row;
  return nullptr;
}

std::vector<int> deal(int layers, int stages, int first, int last) {
  if (stages == 1) return {layers};
  const int all = layers + first + last;
  const int each = stages > 0 ? all / stages : 0;
  if (each < 1 || first > each || last > each) return {};
  std::vector<int> counts(static_cast<std::size_t>(stages), each);
  for (int i = 0; i < all % stages; ++i) ++counts[static_cast<std::size_t>(i)];
  counts.front() -= first;
  counts.back() -= last;
  return counts;
}

std::optional<Split> split_for(const std::vector<int>& chunk_layers, int layers) {
  const int stages = static_cast<int>(chunk_layers.size());
  constexpr int kMostWeight = 4;
  std::vector<std::pair<int, int>> weights{{1, 1}};  // torchtitan's own first
  for (int first = 0; first <= kMostWeight; ++first)
    for (int last = 0; last <= kMostWeight; ++last) weights.emplace_back(first, last);
  for (const auto& [first, last] : weights) {
    if (deal(layers, stages, first, last) != chunk_layers) continue;
    const int all = layers + first + last, per_stage = (all + stages - 1) / stages;
    if ((all + per_stage - 1) / per_stage == stages) return Split{first, last, per_stage};
  }
  return std::nullopt;
}

}  // namespace plan::torchtitan
