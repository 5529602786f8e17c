// What MaxText accepts. Sources: MaxText e591f30c src/maxtext/configs/types.py (validators), configs/base.yml
// (logical_axis_rules: which weights and activations each mesh axis splits), layers/pipeline.py.
// Tested by tests/planner/framework_rules_test.cpp and by MaxText itself, tests/validators/.
#include "formulas/rank_grid.hpp"
#include "planner/rules/rule_tables.hpp"
#include "planner/rules/stack_data.hpp"

namespace plan {
namespace {

constexpr FrameworkMask kMaxtext = framework_bit(Framework::Maxtext);

bool known_precision(Precision precision) {
  switch (precision) {
    case Precision::Fp32:
    case Precision::Bf16:
    case Precision::Fp8Delayed:
    case Precision::Fp8Tensorwise:
    case Precision::Mxfp8: return true;
    case Precision::Fp16:
    case Precision::Fp8Blockwise:
    case Precision::Nvfp4: return false;
  }
  return false;
}

bool equal_chunks(const Layout& l) {
  return std::adjacent_find(l.chunk_layers.begin(), l.chunk_layers.end(), std::not_equal_to<>()) ==
         l.chunk_layers.end();
}

/// MaxText/layers/decoders.py of 0.2.5: blocks of Llama, Mistral, Mixtral, DeepSeek, Gemma 1 to 3, GPT-3, Qwen3 and
/// Qwen3-Next, gpt-oss, OLMo 3.
std::string_view maxtext_lacks(const Model& model) {
  const auto any = [&](bool (*has)(const Layer&)) { return std::any_of(model.kinds.begin(), model.kinds.end(), has); };
  const auto has_block = [](const Layer& l) {
    return l.mixer == Mixer::Attention || l.mixer == Mixer::Latent || l.mixer == Mixer::DeltaNet;
  };
  if (any([](const Layer& l) { return l.ffn == Ffn::None; }) ||
      !std::all_of(model.kinds.begin(), model.kinds.end(), has_block))
    return "layers that are neither attention nor Gated DeltaNet, or have no feed-forward";
  if (any([](const Layer& l) { return l.norms == 1; })) return "layers with one norm";
  const auto whole = [](const Layer& l) { return l.attention.qk_norm == QkNorm::Full; };
  const bool windows = any([](const Layer& l) { return l.attention.window > 0; });  // OLMo 3, not 2
  if (any(whole) && (model.moe() || !windows)) return rule::kNormsOfAllHeads;
  if (model.embedding_norm) return rule::kEmbeddingNorm;
  return model.head_bias ? rule::kHeadBias : std::string_view();
}

constexpr Rule kRules[] = {
    {"maxtext_model", "MaxText builds the model's layers", Level::Grid, kMaxtext,
     [](const Problem& p, const Layout&) { return p.built || maxtext_lacks(p.model).empty(); }},
    {"maxtext_adapters", "MaxText's jobs train whole models here, no adapters", Level::Grid, kMaxtext,
     [](const Problem& p, const Layout&) { return p.built || !p.training.adapters(); }},
    {"maxtext_precision", "MaxText trains in fp32, bf16, fp8 or mxfp8 of Transformer Engine", Level::Grid, kMaxtext,
     [](const Problem& p, const Layout&) { return known_precision(p.training.precision); }},
    {"maxtext_bf16_layers", "MaxText quantises all layers the same way", Level::Grid, kMaxtext,
     [](const Problem& p, const Layout&) { return !p.training.bf16_layers.any(); }},
    {"maxtext_kv_heads", "MaxText's tensor axis divides the KV heads", Level::Grid, kMaxtext,
     [](const Problem& p, const Layout& l) { return rule::whole_kv_heads(p, l.tp); }},
    {"maxtext_pipeline_models", "MaxText pipelines layers that are all the same, without multi-token prediction",
     Level::Grid, kMaxtext,
     [](const Problem& p, const Layout& l) {
       return l.pp == 1 || (p.model.kinds.size() == 1 && p.model.mtp.depth == 0);
     }},

    {"maxtext_etp", "MaxText splits every expert by its tensor axis", Level::Experts, kMaxtext,
     [](const Problem& p, const Layout& l) { return !p.model.moe() || l.etp == l.tp; }},
    {"maxtext_expert_axis", "MaxText's expert axis is a part of dp", Level::Experts, kMaxtext,
     [](const Problem&, const Layout& l) { return rule::divides(l.ep, l.dp); }},

    {"maxtext_delayed_fp8", "MaxText accumulates no gradients under delayed fp8 scaling: one micro-batch without pp",
     Level::MicroBatch, kMaxtext,
     [](const Problem& p, const Layout& l) {
       return p.training.precision != Precision::Fp8Delayed || l.pp > 1 || rule::micro_batches_of(p, l) == 1;
     }},

    {"maxtext_cp_kind", "MaxText gathers or rotates keys and values on GPUs", Level::Context, kMaxtext,
     [](const Problem&, const Layout& l) {
       return l.cp == 1 || l.cp_kind == CpKind::AllGather || l.cp_kind == CpKind::Ring;
     }},

    {"maxtext_schedule", "MaxText runs all micro-batches forward, then backward: GPipe, or breadth-first with repeats",
     Level::Schedule, kMaxtext,
     [](const Problem&, const Layout& l) {
       return l.pp == 1 || l.schedule == Schedule::GPipe || l.schedule == Schedule::BreadthFirst;
     }},
    {"maxtext_stages", "MaxText's stages * repeats divide the layers evenly", Level::Schedule, kMaxtext,
     [](const Problem& p, const Layout& l) {
       return l.pp == 1 || (rule::divides(static_cast<std::int64_t>(l.pp) * l.vp, p.model.depth()) && equal_chunks(l));
     }},
    {"maxtext_micro_batches", "pp divides MaxText's micro-batches", Level::Schedule, kMaxtext,
     [](const Problem& p, const Layout& l) { return l.pp == 1 || rule::divides(l.pp, rule::micro_batches_of(p, l)); }},

    {"maxtext_zero", "MaxText shards everything (zero 3), the optimizer (zero 1) or nothing; cp and ep shard weights",
     Level::Sharding, kMaxtext,
     [](const Problem&, const Layout& l) {
       if (l.zero == 3) return l.shard_group() > 1;
       return l.cp == 1 && l.ep == 1 && rule::shards_over_all(l) && (l.zero == 0 || (l.zero == 1 && l.dp > 1));
     }},
    {"maxtext_shard", "MaxText's shard group holds whole context and expert groups", Level::Sharding, kMaxtext,
     [](const Problem&, const Layout& l) {
       return l.zero != 3 || rule::divides(static_cast<std::int64_t>(l.cp) * l.ep, l.shard_group());
     }},
    // Its mesh is data, stage, fsdp, ...: replicas of the data axis alone lie outside the stages. With replicas of
    // shard groups some lie outside and some inside; they are counted as inside.
    {"maxtext_order", "MaxText's data axis is outside the pipeline, its fsdp axis inside", Level::Sharding, kMaxtext,
     [](const Problem& p, const Layout& l) {
       const bool outside = l.order == AxisOrder::DataOutermost;
       return outside == (l.zero != 3) || !order_matters(p.cluster, l);
     }},

    {"maxtext_recompute", "MaxText rebuilds whole layers (full) or all but matmuls and attention (layernorm)",
     Level::Recompute, kMaxtext,
     [](const Problem&, const Layout& l) {
       const Recompute minimal{.kind = RecomputeKind::Selective, .modules = kRecomputeNorm};
       return l.recompute == minimal || l.recompute == Recompute{.kind = RecomputeKind::Full};
     }},
};

}  // namespace

FrameworkRow maxtext_framework() {
  return {
      .framework = Framework::Maxtext,
      .name = "maxtext",
      .title = "MaxText",
      .help = "JAX: every axis a mesh axis, split over slices",
      .stack = stacks::maxtext(),
      // MaxText's README: TPUs and NVIDIA GPUs; AMD's port, rocm.docs.amd.com, "Training a model with JAX MaxText".
      .vendors = "google nvidia amd",
      .aliases = "jax",
      .run_word = "MaxText",
      .rules = kRules,
      .rebuilds_all = true,  // configs/base.yml: remat_policy: 'full'
      .both_orders = true,
      .ends_outside = true,
      .offloads_optimizer = true,
      .lacks = maxtext_lacks,
  };
}

}  // namespace plan
