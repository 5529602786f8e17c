// Names of MaxText e591f30c: configs/types.py (ModelName, QuantizationType), configs/models/*.yml.
// Tested by tests/frameworks/framework_files_test.cpp and against MaxText, tests/validators/.
#include <algorithm>
#include <numeric>

#include "cli/launch/maxtext/maxtext.hpp"

namespace plan::maxtext {
namespace {

constexpr ModelName kModels[] = {
    {"llama3.1-405b", "llama3-405b"},
    {"llama3.1-70b", "llama3-70b"},
    {"llama3.1-8b", "llama3-8b"},
    {"llama3-405b", "llama3-405b"},
    {"llama3-70b", "llama3-70b"},
    {"llama3-8b", "llama3-8b"},
    {"llama3.3-70b", "llama3-70b"},
    {"llama2-7b", "llama2-7b"},
    {"llama2-13b", "llama2-13b"},
    {"llama2-70b", "llama2-70b"},
    {"mistral-7b", "mistral-7b"},
    {"mixtral-8x7b", "mixtral-8x7b"},
    {"mixtral-8x22b", "mixtral-8x22b"},
    {"deepseek2-16b", "deepseek-v2-lite"},
    {"deepseek2-236b", "deepseek-v2"},
    {"deepseek3-671b", "deepseek-v3"},
    {"gemma-2b", "gemma-2b"},
    {"gemma-7b", "gemma-7b"},
    {"gemma2-2b", "gemma2-2b"},
    {"gemma2-9b", "gemma2-9b"},
    {"gemma2-27b", "gemma2-27b"},
    {"gemma3-4b", "gemma3-4b"},
    {"gemma3-12b", "gemma3-12b"},
    {"gemma3-27b", "gemma3-27b"},
    {"qwen2.5-1.5b", "qwen2.5-1.5b"},
    {"qwen2.5-7b", "qwen2.5-7b"},
    {"qwen2.5-14b", "qwen2.5-14b"},
    {"qwen3-0.6b", "qwen3-0.6b"},
    {"qwen3-1.7b", "qwen3-1.7b"},
    {"qwen3-4b", "qwen3-4b"},
    {"qwen3-8b", "qwen3-8b"},
    {"qwen3-14b", "qwen3-14b"},
    {"qwen3-32b", "qwen3-32b"},
    {"qwen3-30b-a3b", "qwen3-30b-a3b"},
    {"qwen3-235b-a22b", "qwen3-235b-a22b"},
    {"qwen3-480b-a35b", "qwen3-coder-480b-a35b"},
    {"gpt-oss-20b", "gpt-oss-20b"},
    {"gpt-oss-120b", "gpt-oss-120b"},
    {"gpt3-175b", "gpt3-175b"},
    {"kimi-k2-1t", "kimi-k2"},
    {"llama4-17b-16e", "llama4-scout"},
    {"llama4-17b-128e", "llama4-maverick"},
    {"olmo3-7b", "olmo3-7b"},
    {"olmo3-32b", "olmo3-32b"},
};

constexpr Quantization kQuantizations[] = {{Precision::Fp8Delayed, "te_fp8_delayedscaling"},
                                           {Precision::Fp8Tensorwise, "te_fp8_currentscaling"},
                                           {Precision::Mxfp8, "te_mxfp8"}};

}  // namespace

std::span<const ModelName> model_names() { return kModels; }
std::span<const Quantization> quantizations() { return kQuantizations; }

const ModelName* name_of(const Model& model) { return row_of_model(model_names(), model); }

std::vector<MeshAxis> split_axes(std::vector<MeshAxis> inner_to_outer, int slice) {
  int left = slice;
  for (MeshAxis& axis : inner_to_outer) {
    axis.inside = std::gcd(axis.size, left);
    left /= axis.inside;
  }
  return left == 1 ? inner_to_outer : std::vector<MeshAxis>{};
}

}  // namespace plan::maxtext
