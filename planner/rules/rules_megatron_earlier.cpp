// What earlier releases of Megatron core reject beyond the newest: `until` is the last release that does, from the
// checks of core_v0.12.3 to core_v0.19.0 in the files that rules_megatron.cpp names.
// Tested by tests/planner/framework_rules_test.cpp and, against each release's own code, tests/validators/megatron.sh.
#include "formulas/partition.hpp"
#include "planner/rules/rule_tables.hpp"

namespace plan {
namespace {

constexpr FrameworkMask kMegatron = framework_bit(Framework::Megatron);

/// Stages that flags other than the layout string, which came with 0.13 and knew no prediction layers there, can say.
bool plain_stages(const Problem& problem, const Layout& layout) {
  const int depth = problem.model.depth();
  if (layout.pp == 1) return true;
  if (layout.chunk_layers.empty()) return !plain_chunks(depth, layout.pp * layout.vp).empty();
  const SplitShape shape = split_shape(layout.chunk_layers, depth, layout.vp);
  return shape != SplitShape::Uneven && (shape != SplitShape::OwnEnds || problem.model.mtp.depth == 0);
}

bool has_none_of(const Problem& problem, Mixer mixer) {
  return rule::all_kinds(problem, [mixer](const Layer& kind) { return kind.mixer != mixer; });
}

constexpr Rule kEarlierRules[] = {
    {"early_tp_kv_heads", "before core 0.16, tp divides the KV heads", Level::Grid, kMegatron,
     [](const Problem& p, const Layout& l) { return rule::whole_kv_heads(p, l.tp); }, 15},
    {"early_mtp_context", "before core 0.14, prediction layers stand without context parallelism", Level::Grid,
     kMegatron, [](const Problem& p, const Layout& l) { return p.model.mtp.depth == 0 || l.cp == 1; }, 13},
    {"early_mamba_context", "before core 0.13, layers of Mamba stand without context parallelism", Level::Grid,
     kMegatron, [](const Problem& p, const Layout& l) { return l.cp == 1 || has_none_of(p, Mixer::Mamba2); }, 12},
    {"early_delta_context", "before core 0.18, layers of Gated DeltaNet stand without context parallelism", Level::Grid,
     kMegatron, [](const Problem& p, const Layout& l) { return l.cp == 1 || has_none_of(p, Mixer::DeltaNet); }, 17},
    {"early_offload_modules", "before core 0.16, modules keep their activations on the GPU", Level::Grid, kMegatron,
     [](const Problem& p, const Layout&) { return p.training.offload.modules == 0; }, 15},
    {"early_expert_precision", "before core 0.16, experts train in bf16, with or without fp8", Level::Experts,
     kMegatron,
     [](const Problem& p, const Layout& l) {
       if (!p.model.moe()) return true;
       const Precision precision = p.training.precision;
       if (p.training.stack.grouped_gemm) return precision != Precision::Fp16 && precision != Precision::Fp32;
       return precision != Precision::Fp16 || l.ep == 1;
     },
     15},
    {"early_mxfp8_gather", "before core 0.13, mxfp8 gathers its weights in bf16", Level::Experts, kMegatron,
     [](const Problem& p, const Layout&) {
       return p.training.precision != Precision::Mxfp8 || !p.training.stack.fp8_param_gather;
     },
     12},
    {"early_stages", "before core 0.13, or 0.14 with prediction layers, stages are equal but for the two ends",
     Level::Schedule, kMegatron,
     [](const Problem& p, const Layout& l) { return !plain_stages_only(p) || plain_stages(p, l); }, 13},
    {"early_muon", "before core 0.18, muon shards no states", Level::Sharding, kMegatron,
     [](const Problem& p, const Layout& l) { return p.training.optimizer != Optimizer::Muon || l.zero == 0; }, 17},
    {"early_recompute_fp8", "before core 0.14, norms and expert activations are not recomputed under fp8",
     Level::Recompute, kMegatron,
     [](const Problem& p, const Layout& l) {
       return !is_fp8(p.training.precision) || l.recompute.kind != RecomputeKind::Selective ||
              (l.recompute.modules & (kRecomputeNorm | kRecomputeMoeActivation)) == 0;
     },
     13},
    {"early_recompute_shared", "before core 0.14, shared experts are not recomputed alone", Level::Recompute, kMegatron,
     [](const Problem&, const Layout& l) {
       return l.recompute.kind != RecomputeKind::Selective || (l.recompute.modules & kRecomputeSharedExperts) == 0;
     },
     13},
};

}  // namespace

bool plain_stages_only(const Problem& problem) {
  if (problem.framework != Framework::Megatron || problem.release == 0) return false;
  return problem.release <= (problem.model.mtp.depth > 0 ? 13 : 12);
}

std::span<const Rule> earlier_megatron_rules() { return kEarlierRules; }

}  // namespace plan
