// What files under presets/stacks can say of a software stack. Tested by tests/presets/stack_test.cpp.
#include "presets/stack_facts.hpp"

#include <algorithm>
#include <type_traits>

namespace plan {
namespace {

bool has_experts(const Model& model, const Training&) { return model.moe(); }
bool always(const Model&, const Training&) { return true; }
bool in_fp8(const Model&, const Training& training) { return is_fp8(training.precision); }

bool has_biased_experts(const Model& model, const Training& training) {
  return training.precision == Precision::Mxfp8 &&
         std::any_of(model.kinds.begin(), model.kinds.end(),
                     [](const Layer& kind) { return kind.ffn == Ffn::Moe && kind.moe.expert_bias; });
}

bool has_sinks(const Model& model, const Training&) {
  return std::any_of(model.kinds.begin(), model.kinds.end(),
                     [](const Layer& kind) { return kind.mixer == Mixer::Attention && kind.attention.sinks; });
}

constexpr StackFactRow kRows[] = {
    {"states", &Stack::states},
    {"cross_entropy", &Stack::cross_entropy},
    {"flash_attention", &Stack::flash_attention},
    {"attention_kernel", &Stack::attention_kernel},
    {"fused_pointwise", &Stack::fused_pointwise},
    {"fused_norms", &Stack::fused_norms},
    {"transformer_engine", &Stack::transformer_engine},
    {"fused_qkv", &Stack::fused_qkv},
    {"fused_gate", &Stack::fused_gate},
    {"fused_activation", &Stack::fused_activation},
    {"keeps_gathered", &Stack::keeps_gathered},
    {"expands_kv", &Stack::expands_kv},
    {"weighs_outputs", &Stack::weighs_outputs},
    {"fp8_activation_input", &Stack::fp8_activation_input},
    {"vocab_parallel_loss", &Stack::vocab_parallel_loss},
    {"loss_in_place", &Stack::loss_in_place},
    {"frees_stage_outputs", &Stack::frees_stage_outputs},
    {"gradient_fusion", &Stack::gradient_fusion},
    {"overlap_grad_reduce", &Stack::overlap_grad_reduce},
    {"overlap_param_gather", &Stack::overlap_param_gather},
    {"tp_overlap", &Stack::tp_overlap, always},
    {"reduces_per_linear", &Stack::reduces_per_linear},
    {"tp_async_reduce", &Stack::tp_async_reduce},
    {"ep_overlap", &Stack::ep_overlap, has_experts},
    {"p2p_overlap", &Stack::p2p_overlap},
    {"post_validates", &Stack::post_validates},
    {"scatters_hand_overs", &Stack::scatters_hand_overs},
    {"cuda_graphs", &Stack::cuda_graphs},
    {"eager_launches", &Stack::eager_launches},
    {"gathers_per_layer", &Stack::gathers_per_layer},
    {"shards_in_lists", &Stack::shards_in_lists},
    {"reduces_once", &Stack::reduces_once},
    {"grouped_gemm", &Stack::grouped_gemm},
    {"expandable_segments", &Stack::expandable_segments},
    {"fp8_dispatch", &Stack::fp8_dispatch, has_experts},
    {"dedup_dispatch", &Stack::dedup_dispatch, has_experts},
    {"fused_router", &Stack::fused_router, has_experts},
    {"node_limit", &Stack::node_limit},
    {"fp8_param_gather", &Stack::fp8_param_gather, in_fp8},
    {"legacy_moe_probs", &Stack::legacy_moe_probs},
    {"batch_first_attention", &Stack::batch_first_attention},
    {"fused_softmax", &Stack::fused_softmax},
    {"broadcasts_shards", &Stack::broadcasts_shards},
    {"prunes_recompute", &Stack::prunes_recompute},
    {"fused_biased_experts", &Stack::fused_biased_experts, has_biased_experts},
    {"fused_sinks", &Stack::fused_sinks, has_sinks},
    {"loader_attention_mask", &Stack::loader_attention_mask},
    {"reshard_after_forward", &Stack::reshard_after_forward},
    {"gathers_tensors", &Stack::gathers_tensors},
};

}  // namespace

std::span<const StackFactRow> stack_fact_rows() { return kRows; }

void set_fact(const StackFactRow& row, int value, Stack& stack) {
  std::visit(
      [&](auto member) {
        using Value = std::remove_reference_t<decltype(stack.*member)>;
        stack.*member = static_cast<Value>(value);
      },
      row.member);
}

int fact_of(const StackFactRow& row, const Stack& stack) {
  return std::visit([&](auto member) { return static_cast<int>(stack.*member); }, row.member);
}

}  // namespace plan
