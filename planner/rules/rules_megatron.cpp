// What Megatron-LM accepts beyond what divides (plan-launch(7) 3.1.2): arguments.py:validate_args, TransformerConfig,
// moe_layer.py, distributed/, TransformerEngine's shape checks; core 0.20.0-dev at d98e8a64ddf3.
// Tested by tests/planner/rules_test.cpp and, against Megatron's own verdicts, tests/launch/megatron_verdicts_test.cpp.
#include "formulas/overlap.hpp"
#include "planner/rules/megatron_models.hpp"
#include "planner/rules/rule_tables.hpp"
#include "planner/rules/stack_data.hpp"

namespace plan {
namespace {

constexpr FrameworkMask kMegatron = framework_bit(Framework::Megatron);

bool megatron_schedule(Schedule schedule) {
  return schedule == Schedule::OneFOneB || schedule == Schedule::Interleaved;
}

/// TransformerEngine's check_recipe_support (pytorch/quantization.py at 001597e9062a) by compute capability: blocks of
/// fp8 from 9.0 on, mxfp8 from 10.0 on and below 12.0, whose GEMMs lack a layout.
bool has_recipe(Architecture architecture, Precision precision) {
  if (precision == Precision::Fp8Blockwise) return architecture != Architecture::Ada;
  return precision != Precision::Mxfp8 || architecture != Architecture::RtxBlackwell;
}

bool sparse(const Layer& kind) { return kind.mixer == Mixer::Latent && kind.latent.index_heads > 0; }

/// Elements that TransformerEngine's narrow GEMMs want the last dimension to be a multiple of; 1 for 16 bits.
std::int64_t alignment(Precision precision) {
  if (precision == Precision::Mxfp8) return 32;  // a scale for every 32
  return is_narrow(precision) ? 16 : 1;
}

/// Every sharded width of the layers is a multiple of `step`.
bool widths_align(const Problem& problem, const Layout& layout, std::int64_t step) {
  return problem.model.hidden % step == 0 && rule::all_kinds(problem, [&](const Layer& kind) {
           if (kind.mixer == Mixer::Attention && kind.attention.q() / layout.tp % step != 0) return false;
           if (kind.ffn == Ffn::Dense) return kind.dense.width / layout.tp % step == 0;
           return kind.ffn != Ffn::Moe || kind.moe.expert_width / layout.etp % step == 0;
         });
}

bool recomputes(const Layout& layout, std::uint16_t modules) {
  return layout.recompute.kind == RecomputeKind::Selective && (layout.recompute.modules & modules) != 0;
}

bool pipeline_outermost(const Layout& l) { return l.order == AxisOrder::PipelineOutermost || l.pp == 1; }

constexpr Rule kMegatronRules[] = {
    {"megatron_model", "Megatron builds the model's layers", Level::Grid, kMegatron,
     [](const Problem& p, const Layout&) { return p.built || megatron_lacks(p.model).empty(); }},
    {"megatron_precision", "TransformerEngine has no fp8-blockwise on Ada and no mxfp8 on RTX Blackwell", Level::Grid,
     kMegatron,
     [](const Problem& p, const Layout&) { return has_recipe(p.cluster.gpu.architecture, p.training.precision); }},
    {"moe_tp_needs_sp", "experts under tp need sequence parallelism", Level::Experts, kMegatron,
     [](const Problem& p, const Layout& l) { return !p.model.moe() || l.tp == 1 || l.sequence_parallel; }},
    {"expert_biases", "experts with biases are whole on their ranks: etp 1", Level::Experts, kMegatron,
     [](const Problem& p, const Layout& l) {
       return l.etp == 1 || rule::all_kinds(p, [](const Layer& k) { return k.ffn != Ffn::Moe || !k.moe.expert_bias; });
     }},
    {"mamba_groups", "tp divides the groups of heads that share B and C of Mamba-2", Level::Grid, kMegatron,
     [](const Problem& p, const Layout& l) {
       return rule::all_kinds(
           p, [&](const Layer& kind) { return kind.mixer != Mixer::Mamba2 || rule::divides(l.tp, kind.mamba.groups); });
     }},
    {"fp8_widths", "TransformerEngine's fp8 takes widths in multiples of 16, mxfp8 of 32", Level::Experts, kMegatron,
     [](const Problem& p, const Layout& l) { return widths_align(p, l, alignment(p.training.precision)); }},
    {"bf16_layers_scaling", "under delayed scaling no layer stays in bf16", Level::Grid, kMegatron,
     [](const Problem& p, const Layout&) {
       return p.training.precision != Precision::Fp8Delayed || !p.training.bf16_layers.any();
     }},
    {"bf16_layers_stage", "beside fp8, at most a stage's layers stay in bf16 at either end", Level::Grid, kMegatron,
     [](const Problem& p, const Layout& l) {
       const Bf16Layers& ends = p.training.bf16_layers;
       return !is_fp8(p.training.precision) || std::max(ends.first, ends.last) <= p.model.depth() / l.pp;
     }},
    {"fp8_tokens", "TransformerEngine's fp8 takes a multiple of 8 tokens", Level::MicroBatch, kMegatron,
     [](const Problem& p, const Layout& l) {
       return alignment(p.training.precision) == 1 || p.training.seq / l.cp * l.micro_batch % 8 == 0;
     }},
    // Core 0.20, gpt/experimental_attention_variant_module_specs.py, _validate_dsa_index_share_pipeline_split.
    {"shared_index_stages",
     "a stage that uses keys that an earlier layer chose holds that layer, too: pp 1, or layers=", Level::Schedule,
     kMegatron,
     [](const Problem& p, const Layout& l) {
       const SharedIndex index = l.pp == 1 ? SharedIndex{} : shared_index(p.model);
       if (index.period <= 1) return true;
       int next = 0;
       for (const int layers : l.chunk_layers) {
         if (std::max(next + 1 - index.offset, 0) % index.period != 0) return false;
         next += layers;
       }
       return p.fixed.chunk_layers.has_value();
     }},
    {"sparse_attention_gathers", "sparse attention gathers its context", Level::Context, kMegatron,
     [](const Problem& p, const Layout& l) {
       return l.cp == 1 || l.cp_kind == CpKind::AllGather ||
              rule::all_kinds(p, [](const Layer& k) { return !sparse(k); });
     }},
    {"windows_gather", "sliding windows need all-to-all or gathered context", Level::Context, kMegatron,
     [](const Problem& p, const Layout& l) {
       const bool gathers = l.cp_kind == CpKind::AllGather || l.cp_kind == CpKind::Ulysses;
       return l.cp == 1 || gathers || rule::all_kinds(p, [](const Layer& k) { return k.attention.window == 0; });
     }},
    {"sinks_need_all_to_all", "learned attention sinks need all-to-all context parallelism", Level::Context, kMegatron,
     [](const Problem& p, const Layout& l) {
       return l.cp == 1 || l.cp_kind == CpKind::Ulysses ||
              rule::all_kinds(p, [](const Layer& k) { return !k.attention.sinks; });
     }},
    // TransformerEngine's get_attention_backend leaves none there.
    {"context_needs_fused_attention", "attention that is not fused takes no context parallelism", Level::Context,
     kMegatron, [](const Problem& p, const Layout& l) { return l.cp == 1 || p.training.stack.flash_attention; }},
    {"offload_weights", "Megatron keeps weights and gradients on the GPU", Level::Grid, kMegatron,
     [](const Problem& p, const Layout&) { return !p.training.offload.parameters; }},
    {"offload_layers", "offloading whole layers needs pp 1 and a layer that stays", Level::Grid, kMegatron,
     [](const Problem& p, const Layout& l) {
       const int away = p.training.offload.layers;
       return away == 0 || (l.pp == 1 && away < p.model.depth());
     }},
    // Of a dense model, too: its experts' grid is etp wide, or tp where nobody says.
    {"order_keeps_copies",
     "with dp outermost Megatron wants as many copies of experts as of the rest: cp 1 without "
     "experts",
     Level::Schedule, kMegatron,
     [](const Problem& p, const Layout& l) {
       return pipeline_outermost(l) || p.model.moe() || l.cp == 1 || l.etp == l.tp * l.cp;
     }},
    {"schedule_unknown", "Megatron runs 1F1B and interleaved", Level::Schedule, kMegatron,
     [](const Problem&, const Layout& l) { return megatron_schedule(l.schedule); }},
    {"interleaving_needs_overlap", "interleaved stages on pp 2 need overlapped point-to-point communication",
     Level::Schedule, kMegatron,
     [](const Problem& p, const Layout& l) { return l.vp == 1 || l.pp > 2 || p.training.stack.p2p_overlap; }},
    {"expert_overlap_needs_ep", "overlapping expert communication needs ep > 1", Level::Experts, kMegatron,
     [](const Problem& p, const Layout& l) { return !p.training.stack.ep_overlap || !p.model.moe() || l.ep > 1; }},
    {"tp_overlap_needs_sp", "overlapping tensor parallelism's messages needs sequence parallelism", Level::Experts,
     kMegatron,
     [](const Problem& p, const Layout& l) {
       return !p.training.stack.tp_overlap || l.tp == 1 || l.sequence_parallel;
     }},
    {"expert_overlap_interleaves", "overlapping expert communication on a pipeline needs interleaved stages",
     Level::Schedule, kMegatron,
     [](const Problem& p, const Layout& l) {
       return !p.training.stack.ep_overlap || l.ep == 1 || l.pp == 1 || l.vp > 1;
     }},
    // Its code allows Megatron-FSDP within a pipeline, but no published run does: only where the user asks for it.
    {"zero_needs_pp_1",
     "Megatron shards gradients and weights (zero 2, 3) without pipeline stages, unless zero is fixed", Level::Sharding,
     kMegatron, [](const Problem& p, const Layout& l) { return l.zero <= 1 || l.pp == 1 || p.fixed.zero; }},
    {"fsdp_order", "Megatron-FSDP keeps the pipeline outermost", Level::Sharding, kMegatron,
     [](const Problem&, const Layout& l) { return l.zero <= 1 || pipeline_outermost(l); }},
    {"fsdp_optimizer", "Megatron-FSDP needs adam or sgd", Level::Sharding, kMegatron,
     [](const Problem& p, const Layout& l) { return l.zero <= 1 || p.training.optimizer != Optimizer::Muon; }},
    // DistributedOptimizer.__init__ stops at another one, Megatron-FSDP's too; layer-wise Muon has a class of its own.
    {"sgd_unsharded", "Megatron's distributed optimizer takes no SGD: zero 0", Level::Sharding, kMegatron,
     [](const Problem& p, const Layout& l) {
       return l.zero == 0 || (p.training.optimizer != Optimizer::Sgd && p.training.optimizer != Optimizer::SgdMomentum);
     }},
    {"precision_aware_shards", "optimizer states that are offloaded or narrower than fp32 are sharded", Level::Sharding,
     kMegatron, [](const Problem& p, const Layout& l) { return l.zero >= 1 || !precision_aware(p.training); }},
    {"copies_divide_experts", "copies of the optimizer states divide the ranks that share an expert", Level::Sharding,
     kMegatron,
     [](const Problem& p, const Layout& l) {
       return !p.model.moe() || l.zero == 0 || rule::divides(l.dense_group() / l.shard_group(), l.expert_dp());
     }},
    {"recompute_unknown", "Megatron recomputes modules or layers, not single operations", Level::Recompute, kMegatron,
     [](const Problem&, const Layout& l) { return !recomputes(l, kRecomputeOps | kRecomputeMlpActivation); }},
    {"recompute_delayed_scaling", "norms and expert activations are not recomputed under fp8 with delayed scaling",
     Level::Recompute, kMegatron,
     [](const Problem& p, const Layout& l) {
       return p.training.precision != Precision::Fp8Delayed || !recomputes(l, kRecomputeNorm | kRecomputeMoeActivation);
     }},
    {"recompute_grouped_gemm", "recomputing expert activations needs grouped GEMMs", Level::Recompute, kMegatron,
     [](const Problem& p, const Layout& l) {
       return p.training.stack.grouped_gemm || !recomputes(l, kRecomputeMoeActivation);
     }},
    {"offload_recompute", "what is recomputed as a whole has no activations to offload", Level::Recompute, kMegatron,
     [](const Problem& p, const Layout& l) {
       const Offload& offload = p.training.offload;
       if (l.recompute.kind == RecomputeKind::None || !offload.activations()) return true;
       return l.recompute.kind != RecomputeKind::Full && offload.layers == 0;
     }},
    {"offload_recomputed_experts",
     "Megatron core 0.19 and newer offload nothing inside experts that are recomputed as a whole", Level::Recompute,
     kMegatron,
     [](const Problem& p, const Layout& l) {
       constexpr int kSince = 19;  // TransformerConfig.__post_init__ of core_v0.18.2 takes both
       const bool inside = (p.training.offload.modules & (kOffloadExpertFc1 | kOffloadMoeActivation)) != 0;
       return !inside || !recomputes(l, kRecomputeMoe) || (p.release > 0 && p.release < kSince);
     }},
    {"graphs_recompute", "CUDA graphs of parts exclude recomputing whole layers", Level::Recompute, kMegatron,
     [](const Problem& p, const Layout& l) {
       return p.training.stack.graph_scopes == 0 || l.recompute.kind != RecomputeKind::Full;
     }},
    // Rules of recomputation see nothing else of a layout: this one asks for experts where Megatron asks for ep > 1.
    {"expert_overlap_recompute", "overlapping expert communication excludes recomputing whole layers or experts",
     Level::Recompute, kMegatron,
     [](const Problem& p, const Layout& l) {
       return !p.training.stack.ep_overlap || !p.model.moe() ||
              (l.recompute.kind != RecomputeKind::Full && !recomputes(l, kRecomputeMoe));
     }},
};

}  // namespace

FrameworkRow megatron_framework() {
  return {
      .framework = Framework::Megatron,
      .name = "megatron",
      .title = "Megatron",
      .help = "Megatron-LM and its dialects",
      .stack = stacks::megatron(),
      .vendors = "nvidia amd",  // also AMD's own port, github.com/ROCm/Megatron-LM
      .aliases = "nemo mcore megatron-lm megatron-bridge megatron-core",
      .run_word = "Megatron-Core",
      .rules = kMegatronRules,
      .earlier = earlier_megatron_rules(),
      .both_orders = true,
      .empty_chunks = true,
      .narrow_states = true,
      .spares_layers = true,
      .graphs_of_parts = true,
      .overlaps = kOverlapAll,
      .dispatches = true,
      .offloads_optimizer = true,
      .offloads_activations = true,
      .mesh_per_pool = true,  // FlagScale starts it so
      .image = "nvcr.io/nvidia/nemo",
      .lacks = megatron_lacks,
      .sharded = StateLayout::MegatronFsdp,
  };
}

}  // namespace plan
