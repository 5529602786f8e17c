// What the software behind published runs allocated otherwise than that of today. Tested by
// tests/planner/run_stack_test.cpp.
#include "planner/runs/run_memory.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "planner/runs/run_dates.hpp"

namespace plan {
namespace {

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

/// A number behind a word of a text; `otherwise` where the word or the number is missing.
int number_behind(std::string_view text, std::string_view word, int otherwise) {
  const std::size_t at = text.find(word);
  if (at == std::string_view::npos) return otherwise;
  const std::string_view digits = text.substr(at + word.size());
  int value = otherwise;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

/// CUDA loaded all kernels of PyTorch with the context, 1113 MiB on V100 (BigScience, experiments/tr3m-1B3.md), until
/// PyTorch 1.13 set CUDA_MODULE_LOADING=LAZY.
constexpr double kEagerContext = 1113.0 * (1 << 20);
constexpr int kLazyLoading = month_of(2022, 11);

/// Month and day of "date 02-28" in notes, as 228.
int day_of(std::string_view notes) {
  const int month = number_behind(notes, "date ", 0);
  const std::size_t at = notes.find("date ");
  return month == 0 ? 0 : 100 * month + number_behind(notes.substr(at + 5), "-", 0);
}

/// BigScience's Megatron-DeepSpeed of 2021 and 2022. Its scripts leave dropout at Megatron's default
/// (train/tr3-1B3-baseline, train/tr11-176B-ml). Its bf16 optimizer sums gradients in fp32 since 28 February 2022, in
/// 16 bits before (tr11-176B-ml/chronicles-prequel.md, "Rebalancing layers").
void big_science(const Run& run, Problem& problem) {
  constexpr int kSumsInFp32 = 228;
  problem.training.dropout = 0.1;
  if (contains(run.source, "prequel") && day_of(run.notes) > 0 && day_of(run.notes) < kSumsInFp32)
    problem.training.grad_bytes = 2;
}

/// The month of Megatron core's minor releases that matter here.
int megatron_month(const Run& run) {
  const int minor = number_behind(run.framework, "Megatron-Core 0.", 0);
  return minor > 0 && minor < 8 ? month_of(2024, 4) : software_month(run);
}

/// Megatron's own loss subtracted the largest logit in a copy from September 2022 (commit 55817ec9b9) to June 2024
/// (9634c0e4a3, core 0.8), in place before and after.
constexpr int kLossCopies = month_of(2022, 9), kLossInPlace = month_of(2024, 6);

}  // namespace

void apply_memory_facts(const Run& run, Problem& problem) {
  Training& training = problem.training;
  Stack& stack = training.stack;
  const bool big = contains(run.source, "BigScience") || contains(run.source, "bigscience");
  const bool megatron = contains(run.framework, "Megatron") && !contains(run.framework, "Bridge");
  if (big && megatron) big_science(run, problem);
  if (contains(run.notes, "bf16 gradient accumulation")) training.grad_bytes = 2;
  const int month = megatron_month(run);
  if (megatron && !big && month >= kLossCopies && month < kLossInPlace) stack.loss_in_place = false;
  // MaxText: queries, keys and values wait in host memory, and what follows from them is rebuilt up to the FFN's norm.
  if (run.recompute == "custom:qkv_proj_offloaded")
    training.offload.modules = kOffloadCoreAttention | kOffloadAttentionProjection | kOffloadMlpNorm;
  // Megatron-LM's layers before core wrote SwiGLU as three operations (megatron/model/transformer.py).
  if (contains(run.framework, "Megatron-LM") && !stack.transformer_engine) stack.fused_activation = false;
  Bytes& context = problem.cluster.gpu.context;
  if (big || software_month(run) < kLazyLoading) context = std::max(context, round_bytes(kEagerContext));
}

}  // namespace plan
