// What DeepSpeed accepts from its JSON file. Sources: DeepSpeed 0.19.8 runtime/config.py, runtime/engine.py (AutoTP,
// AutoEP, Ulysses), module_inject/auto_ep_config.py, runtime/sequence_parallel/ulysses_sp.py,
// docs/_pages/config-json.md. Tested by tests/planner/framework_rules_test.cpp and by DeepSpeed itself,
// tests/validators/.
#include "formulas/overlap.hpp"
#include "planner/rules/rule_tables.hpp"
#include "planner/rules/stack_data.hpp"

namespace plan {
namespace {

constexpr FrameworkMask kDeepSpeed = framework_bit(Framework::DeepSpeed);

constexpr Rule kRules[] = {
    {"deepspeed_precision", "DeepSpeed trains in fp32, fp16 or bf16", Level::Grid, kDeepSpeed,
     [](const Problem& p, const Layout&) {
       return p.training.precision == Precision::Fp32 || p.training.precision == Precision::Fp16 ||
              p.training.precision == Precision::Bf16;
     }},
    {"deepspeed_pipeline", "DeepSpeed's file has no pipeline stages: pp 1", Level::Grid, kDeepSpeed,
     [](const Problem&, const Layout& l) { return l.pp == 1; }},
    {"deepspeed_sequence_parallel", "AutoTP does not split the sequence between its regions", Level::Grid, kDeepSpeed,
     [](const Problem&, const Layout& l) { return !l.sequence_parallel; }},
    {"deepspeed_kv_heads", "AutoTP's tp divides the KV heads", Level::Grid, kDeepSpeed,
     [](const Problem& p, const Layout& l) { return rule::whole_kv_heads(p, l.tp); }},
    {"deepspeed_tp_or_cp", "DeepSpeed combines AutoTP with no Ulysses group", Level::Grid, kDeepSpeed,
     [](const Problem&, const Layout& l) { return l.tp == 1 || l.cp == 1; }},

    {"deepspeed_experts", "AutoEP needs tp 1 and cp 1; AutoTP splits every expert by tp", Level::Experts, kDeepSpeed,
     [](const Problem& p, const Layout& l) {
       return !p.model.moe() || (l.etp == l.tp && (l.ep == 1 || (l.tp == 1 && l.cp == 1)));
     }},

    {"deepspeed_cp_kind", "DeepSpeed's context parallelism is Ulysses", Level::Context, kDeepSpeed,
     [](const Problem&, const Layout& l) { return l.cp == 1 || l.cp_kind == CpKind::Ulysses; }},

    {"deepspeed_shard", "DeepSpeed shards over all data-parallel ranks: MiCS is removed", Level::Sharding, kDeepSpeed,
     [](const Problem&, const Layout& l) { return rule::shards_over_all(l); }},
    {"deepspeed_offload", "DeepSpeed offloads optimizer states from zero 1 on", Level::Sharding, kDeepSpeed,
     [](const Problem& p, const Layout& l) { return l.zero >= 1 || p.training.offload.optimizer == 0; }},

    {"deepspeed_offload_weights", "DeepSpeed offloads weights under zero 3 only", Level::Sharding, kDeepSpeed,
     [](const Problem& p, const Layout& l) { return l.zero == 3 || !p.training.offload.parameters; }},

    {"deepspeed_recompute", "the Trainer checkpoints every layer or none", Level::Recompute, kDeepSpeed,
     [](const Problem&, const Layout& l) { return rule::full_or_none(l.recompute); }},
};

}  // namespace

FrameworkRow deepspeed_framework() {
  return {
      .framework = Framework::DeepSpeed,
      .name = "deepspeed",
      .title = "DeepSpeed",
      .help = "ZeRO 0-3 with AutoTP, AutoEP or Ulysses",
      .stack = stacks::deepspeed(),
      .vendors = "nvidia amd intel",  // deepspeed.ai/tutorials/accelerator-setup-guide
      .run_word = "DeepSpeed",
      .rules = kRules,
      .cp_kind = CpKind::Ulysses,
      .splits_sequence = false,
      .overlaps = kOverlapGrads,
      .offloads_optimizer = true,
      .offloads_weights = true,
  };
}

}  // namespace plan
