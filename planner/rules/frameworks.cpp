// The frameworks that plans are made for, joined, and what published runs ran. Tested by
// tests/planner/framework_rules_test.cpp.
#include "planner/rules/frameworks.hpp"

#include <algorithm>
#include <vector>

#include "planner/rules/stack_data.hpp"

namespace plan {
namespace {

/// Its norms and latent up-projections are recomputed (section 3.2.3), and what SwiGLU makes (section 3.3.3).
FrameworkDefaults deepseek() {
  FrameworkDefaults row{"HAI-LLM", stacks::hai_llm(), 1};
  row.recomputes = kRecomputeNorm | kRecomputeLatentUp | kRecomputeMoeActivation;
  return row;
}

/// What Pax's default checkpoint policy, SAVE_DOT_WITH_NO_BATCH_DIM, drops are the scores
/// (paxml/tasks/lm/model_params.py).
FrameworkDefaults pax() {
  FrameworkDefaults row{"Pax", stacks::pax(), 0};
  row.recomputes = kRecomputeCoreAttention | kRecomputeNorm;
  return row;
}

/// Megatron Core as its README's tables ran it: "overlapping with PP (enabled by default)" is on when virtual stages
/// are (transformer/moe/README.md, P2P Comm Overlap).
FrameworkDefaults megatron_core(std::string_view keyword) {
  FrameworkDefaults row{keyword, stacks::megatron_core(), 1, 4, true};
  row.interleaves = true;
  return row;
}

/// Llama 3, arXiv:2407.21783 section 3.3.2: a chunk is one layer; the first holds the embedding alone, the last the
/// loss.
FrameworkDefaults meta() {
  FrameworkDefaults row{"Meta", stacks::meta(), 2, 4, true, true, CpKind::AllGather};
  row.interleaves = true;
  row.order = AxisOrder::DataOutermost;  // [TP, CP, PP, DP], section 3.3.2
  return row;
}

/// A row that recomputes as many layers as memory demands unless stated.
FrameworkDefaults to_fit(FrameworkDefaults row) {
  row.recomputes_to_fit = true;
  return row;
}

/// DeepSpeed's batch arithmetic: a `train_batch_size` alone is one micro-batch per rank, without accumulation.
FrameworkDefaults whole_batches(FrameworkDefaults row) {
  row.accumulates = false;
  return row;
}

const std::vector<FrameworkDefaults>& run_table() {
  static const std::vector<FrameworkDefaults> rows = {
      {"Megatron-DeepSpeed", stacks::megatron_deepspeed()},
      {"DeepSpeed 3D", stacks::megatron_deepspeed(), 1},
      whole_batches({"GPT-NeoX", stacks::megatron_deepspeed(), 1}),
      {"Composer", stacks::composer(), 3, 2},  // its benchmarks' `mixed_precision: PURE` reduces in 16 bits
      {"torchtitan", stacks::fsdp_compiled(), 3, 4, true, false, CpKind::AllGather},
      to_fit({"Automodel", stacks::automodel(), 3}),
      to_fit({"AutoModel", stacks::automodel(), 3}),  // as its pages before 2026 write it
      to_fit({"FSDP2", stacks::fsdp_compiled(), 3}),
      {"Megatron-Core FSDP", stacks::nemo(), 3, 4, true},
      {"FSDP1 + compile", stacks::fms_fsdp(), 3, 2},  // fms-fsdp's `bfSixteen` policy reduces in 16 bits
      {"FSDP", stacks::fsdp(), 3},
      {"LitGPT", stacks::litgpt(), 3},
      {"Bridge", stacks::megatron_bridge(), 1, 2, true,
       false},  // grad_reduce_in_fp32 = False in its perf_recipes, NeMo's too
      {"NeMo", stacks::nemo(), 1, 2, true},
      megatron_core("Megatron-Core"),
      {"MaxText", stacks::maxtext(), 3, 4,
       true},  // its `activation_embed` is split over the tensor axis (configs/base.yml)
      {"InternEvo", stacks::internevo(), 1, 2},
      {"Aleph Alpha", stacks::research(), 1},
      {"flash-attn", stacks::flash_attn(), 1},
      deepseek(),
      pax(),
      meta(),
      to_fit(whole_batches({"HF transformers", stacks::deepspeed(), 3, 2})),
      whole_batches({"DeepSpeed", stacks::megatron_deepspeed(), 3, 2}),
  };
  return rows;
}

}  // namespace

FrameworkDefaults run_defaults(std::string_view framework) {
  for (const FrameworkDefaults& row : run_table())
    if (framework.find(row.keyword) != std::string_view::npos) return row;
  if (framework.find("Megatron") == std::string_view::npos && !framework.empty())
    return {.keyword = "", .stack = stacks::eager(), .recomputes_to_fit = true};
  return {.keyword = "Megatron-LM", .stack = stacks::megatron_lm(), .flash_fp16 = false, .recomputes_to_fit = true};
}

std::span<const FrameworkRow> frameworks() {
  static const std::vector<FrameworkRow> rows = [] {
    std::vector<FrameworkRow> all;
    for (const auto& row : kFrameworkRows) all.push_back(row());
    return all;
  }();
  return rows;
}

bool runs_on(const FrameworkRow& row, std::string_view vendor) {
  return row.vendors.empty() || vendor.empty() || row.vendors.find(vendor) != std::string_view::npos;
}

std::optional<Framework> find_framework(std::string_view name) {
  for (const FrameworkRow& row : frameworks())
    if (row.name == name) return row.framework;
  return std::nullopt;
}

std::string framework_flag(const FrameworkRow& row) { return "--framework " + std::string(row.name); }

std::optional<Framework> framework_called(std::string_view alias) {
  for (const FrameworkRow& row : frameworks())
    for (std::string_view rest = row.aliases; !rest.empty();) {
      const std::string_view word = rest.substr(0, rest.find(' '));
      if (word == alias) return row.framework;
      rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    }
  return std::nullopt;
}

}  // namespace plan
