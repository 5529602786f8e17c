// What accelerate accepts with FSDP2 and a ParallelismConfig, under the Trainer. Sources: accelerate 1.15.0
// parallelism_config.py, utils/dataclasses.py, utils/launch.py; transformers' tensor-parallel plans.
// Tested by tests/planner/framework_rules_test.cpp and by accelerate itself, tests/validators/.
#include "planner/rules/rule_tables.hpp"
#include "planner/rules/stack_data.hpp"

namespace plan {
namespace {

constexpr FrameworkMask kAccelerate = framework_bit(Framework::Accelerate);

constexpr Rule kRules[] = {
    {"accelerate_precision", "accelerate trains in fp32, fp16 or bf16", Level::Grid, kAccelerate,
     [](const Problem& p, const Layout&) {
       return p.training.precision == Precision::Fp32 || p.training.precision == Precision::Fp16 ||
              p.training.precision == Precision::Bf16;
     }},
    {"accelerate_pipeline", "accelerate has no pipeline parallelism in training: pp 1", Level::Grid, kAccelerate,
     [](const Problem&, const Layout& l) { return l.pp == 1; }},
    {"accelerate_sequence_parallel", "accelerate's tp does not split the sequence between its regions", Level::Grid,
     kAccelerate, [](const Problem&, const Layout& l) { return !l.sequence_parallel; }},
    {"accelerate_kv_heads", "accelerate's tp divides the KV heads", Level::Grid, kAccelerate,
     [](const Problem& p, const Layout& l) { return rule::whole_kv_heads(p, l.tp); }},

    {"accelerate_experts", "accelerate has no expert parallelism: ep 1, each expert split by tp", Level::Experts,
     kAccelerate, [](const Problem& p, const Layout& l) { return l.ep == 1 && (!p.model.moe() || l.etp == l.tp); }},

    {"accelerate_cp_kind", "accelerate's context parallelism gathers or rotates keys and values", Level::Context,
     kAccelerate,
     [](const Problem&, const Layout& l) {
       return l.cp == 1 || l.cp_kind == CpKind::AllGather || l.cp_kind == CpKind::Ring;
     }},

    {"accelerate_offload", "accelerate offloads weights, gradients and all states together", Level::Grid, kAccelerate,
     [](const Problem& p, const Layout&) { return rule::offloads_all_or_none(p.training.offload); }},
    {"accelerate_zero", "FSDP2 shards weights (zero 3, or 2 kept gathered); dp alone may replicate all (zero 0)",
     Level::Sharding, kAccelerate,
     [](const Problem&, const Layout& l) {
       return l.zero >= 2 || (l.zero == 0 && rule::shards_over_all(l) && l.tp == 1 && l.cp == 1);
     }},
    {"accelerate_shard", "FSDP2's shard group is above 1 and holds whole context groups", Level::Sharding, kAccelerate,
     [](const Problem&, const Layout& l) {
       return l.zero < 2 || (l.shard_group() > 1 && rule::divides(l.cp, l.shard_group()));
     }},
    {"accelerate_replicas", "accelerate replicates over dp beside tp or cp only if dp also shards", Level::Sharding,
     kAccelerate,
     [](const Problem&, const Layout& l) {
       const bool replicates = l.shard_group() < l.dense_group();
       return l.zero < 2 || !replicates || (l.tp == 1 && l.cp == 1) || l.shard_group() > l.cp;
     }},

    {"accelerate_recompute", "the Trainer checkpoints every layer or none", Level::Recompute, kAccelerate,
     [](const Problem&, const Layout& l) { return rule::full_or_none(l.recompute); }},
};

}  // namespace

FrameworkRow accelerate_framework() {
  return {
      .framework = Framework::Accelerate,
      .name = "accelerate",
      .title = "accelerate",
      .help = "Hugging Face: FSDP2 with tp and cp",
      .stack = stacks::accelerate(),
      // accelerate/utils/imports.py: CUDA, HPU (Gaudi); its parallelism_config.py asks for a torch device mesh.
      .vendors = "nvidia amd intel",
      .aliases = "hf-accelerate",
      .run_word = "FSDP2",
      .rules = kRules,
      .cp_kind = CpKind::AllGather,
      .splits_sequence = false,
      .offloads_weights = true,
  };
}

}  // namespace plan
