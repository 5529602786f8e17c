// What torchtitan accepts, v0.2.2 and main: a layout passes here only if both run it. Sources:
// torchtitan v0.2.2 distributed/parallel_dims.py, distributed/pipeline_parallel.py, distributed/utils.py
// (maybe_enable_amp), models/*/infra/parallelize.py, models/llama4/infra/parallelize.py (apply_moe_ep_tp);
// main b5bcd76c distributed/parallel_dims.py, models/common/decoder.py; PyTorch's pipelining/schedules.py.
// Tested by tests/planner/framework_rules_test.cpp and by torchtitan itself, tests/validators/.
#include "planner/rules/rule_tables.hpp"
#include "planner/rules/stack_data.hpp"

namespace plan {
namespace {

constexpr FrameworkMask kTorchtitan = framework_bit(Framework::Torchtitan);

bool known_precision(Precision precision) {
  return precision == Precision::Fp32 || precision == Precision::Bf16 || precision == Precision::Fp8Tensorwise ||
         precision == Precision::Mxfp8;
}

/// Qwen3 and gpt-oss have no pipelining function: their attention has norms on heads, or sinks.
bool pipelines(const Layer& kind) {
  return kind.mixer != Mixer::Attention || (kind.attention.qk_norm == QkNorm::None && !kind.attention.sinks);
}

/// DeepSeek's flavors and gpt-oss run FlexAttention, which context parallelism does not support in them.
bool splits_context(const Layer& kind) {
  return kind.mixer != Mixer::Latent && (kind.mixer != Mixer::Attention || !kind.attention.sinks);
}

/// PyTorch's interleaved schedule goes round in m / pp rounds of equal length, which are its groups.
bool whole_rounds(std::int64_t m, const Layout& l) {
  const std::int64_t rounds = std::max<std::int64_t>(1, m / l.pp);
  return m % rounds == 0 && (l.group == 0 || l.group == m / rounds);
}

bool plain_ddp(const Layout& l) { return l.tp == 1 && l.cp == 1 && l.pp == 1 && l.ep == 1; }

/// Its models are Llama 3 and 4, DeepSeek-V3, Qwen3 and gpt-oss: other sizes of them are one line, other layers are
/// not.
std::string_view torchtitan_lacks(const Model& model) {
  const auto any = [&](bool (*has)(const Layer&)) { return std::any_of(model.kinds.begin(), model.kinds.end(), has); };
  if (any([](const Layer& l) { return l.norms != 2; })) return rule::kOtherNorms;
  if (any([](const Layer& l) { return l.mixer != Mixer::Attention && l.mixer != Mixer::Latent; }) ||
      any([](const Layer& l) { return l.ffn == Ffn::None; }))
    return "layers without attention or feed-forward";
  if (any([](const Layer& l) { return l.attention.qk_norm == QkNorm::Full; })) return rule::kNormsOfAllHeads;
  if (any([](const Layer& l) { return l.latent.index_top_k > 0; })) return "attention to chosen keys";
  if (model.norm != Norm::Rms) return "LayerNorm";
  if (model.positions > 0) return "learned positions";
  if (model.embedding_norm) return rule::kEmbeddingNorm;
  return model.head_bias ? rule::kHeadBias : std::string_view();
}

constexpr Rule kRules[] = {
    {"torchtitan_model", "torchtitan builds the model's layers", Level::Grid, kTorchtitan,
     [](const Problem& p, const Layout&) { return p.built || torchtitan_lacks(p.model).empty(); }},
    // torchtune's recipe lora_finetune_distributed, which tuning_write.cpp writes.
    {"torchtitan_adapters", "adapters train under FSDP alone (torchtune)", Level::Grid, kTorchtitan,
     [](const Problem& p, const Layout& l) {
       return p.built || !p.training.adapters() || (l.tp == 1 && l.cp == 1 && l.pp == 1);
     }},
    {"torchtitan_precision", "torchtitan trains in fp32, bf16, fp8 (tensorwise) or mxfp8", Level::Grid, kTorchtitan,
     [](const Problem& p, const Layout&) { return known_precision(p.training.precision); }},
    {"torchtitan_kv_heads", "torchtitan's tp divides the KV heads", Level::Grid, kTorchtitan,
     [](const Problem& p, const Layout& l) { return rule::whole_kv_heads(p, l.tp); }},
    // main's `enable_sequence_parallel = False` leaves it whole; 0.2.2 has no such switch, and no file of it says so.
    {"torchtitan_sequence_parallel",
     "torchtitan's tp splits the sequence between its regions, unless a file of main's "
     "says otherwise",
     Level::Grid, kTorchtitan,
     [](const Problem& p, const Layout& l) { return p.built || l.tp == 1 || l.sequence_parallel; }},
    {"torchtitan_sequence", "tp * 2 cp divides torchtitan's sequence", Level::Grid, kTorchtitan,
     [](const Problem& p, const Layout& l) {
       return rule::divides(static_cast<std::int64_t>(l.tp) * (l.cp > 1 ? 2 * l.cp : 1), p.training.seq);
     }},
    {"torchtitan_pipeline_ends", "torchtitan pipelines no tied embeddings", Level::Grid, kTorchtitan,
     [](const Problem& p, const Layout& l) { return l.pp == 1 || !p.model.tied; }},
    {"torchtitan_pipeline_models", "torchtitan 0.2.2 pipelines Llama and DeepSeek, not Qwen3 or gpt-oss", Level::Grid,
     kTorchtitan, [](const Problem& p, const Layout& l) { return l.pp == 1 || rule::all_kinds(p, pipelines); }},
    {"torchtitan_context_models", "torchtitan splits the context of scaled-dot-product attention only", Level::Grid,
     kTorchtitan, [](const Problem& p, const Layout& l) { return l.cp == 1 || rule::all_kinds(p, splits_context); }},
    {"torchtitan_latent_fp8", "torchtitan's DeepSeek has no tensorwise fp8 under tp", Level::Grid, kTorchtitan,
     [](const Problem& p, const Layout& l) {
       return l.tp == 1 || p.training.precision != Precision::Fp8Tensorwise ||
              rule::all_kinds(p, [](const Layer& kind) { return kind.mixer != Mixer::Latent; });
     }},

    {"torchtitan_etp", "torchtitan splits an expert by tp without ep, and by 1 or tp with ep", Level::Experts,
     kTorchtitan,
     [](const Problem& p, const Layout& l) { return !p.model.moe() || l.etp == l.tp || (l.ep > 1 && l.etp == 1); }},

    {"torchtitan_cp_kind", "torchtitan's context parallelism gathers or rotates keys and values", Level::Context,
     kTorchtitan,
     [](const Problem&, const Layout& l) {
       return l.cp == 1 || l.cp_kind == CpKind::AllGather || l.cp_kind == CpKind::Ring;
     }},

    {"torchtitan_order", "torchtitan's mesh has the pipeline outermost", Level::Schedule, kTorchtitan,
     [](const Problem&, const Layout& l) { return l.pp == 1 || l.order == AxisOrder::PipelineOutermost; }},
    {"torchtitan_schedule", "torchtitan runs GPipe, 1F1B, interleaved, breadth-first, ZB-V and DualPipeV",
     Level::Schedule, kTorchtitan,
     [](const Problem&, const Layout& l) { return !schedule_row(l.schedule).torch.empty(); }},
    {"torchtitan_micro_batches", "1F1B needs pp micro-batches, interleaved 1F1B rounds of equal length",
     Level::Schedule, kTorchtitan,
     [](const Problem& p, const Layout& l) {
       const std::int64_t m = rule::micro_batches_of(p, l);
       if (l.pp == 1) return true;
       if (l.schedule == Schedule::OneFOneB) return m >= l.pp;
       return l.schedule != Schedule::Interleaved || whole_rounds(m, l);
     }},

    {"torchtitan_offload", "torchtitan offloads weights, gradients and all states together", Level::Grid, kTorchtitan,
     [](const Problem& p, const Layout&) { return rule::offloads_all_or_none(p.training.offload); }},
    // distributed/parallel_dims.py, fsdp_enabled: without a shard group nothing hands the policy on.
    {"torchtitan_offload_shards", "torchtitan offloads what FSDP shards: over more than one rank", Level::Sharding,
     kTorchtitan,
     [](const Problem& p, const Layout& l) { return !p.training.offload.parameters || l.shard_group() > 1; }},
    {"torchtitan_zero", "torchtitan shards weights (zero 3, or 2 kept gathered), or replicates all on dp alone",
     Level::Sharding, kTorchtitan,
     [](const Problem&, const Layout& l) {
       return l.zero >= 2 || (l.zero == 0 && rule::shards_over_all(l) && plain_ddp(l));
     }},
    // Its recipe of one device, lora_finetune_single_device, has nothing to share.
    {"torchtitan_adapter_shards", "adapters train with weights that all ranks share (torchtune)", Level::Sharding,
     kTorchtitan,
     [](const Problem& p, const Layout& l) {
       return p.built || !p.training.adapters() || l.dense_group() == 1 || (l.zero >= 2 && rule::shards_over_all(l));
     }},
    {"torchtitan_shard", "torchtitan's shard group holds whole context groups", Level::Sharding, kTorchtitan,
     [](const Problem&, const Layout& l) { return l.zero < 2 || rule::divides(l.cp, l.shard_group()); }},
    {"torchtitan_mixed_precision", "torchtitan's mixed precision under tp or pp needs a shard group above 1",
     Level::Sharding, kTorchtitan,
     [](const Problem& p, const Layout& l) {
       if (l.zero < 2) return true;
       if (l.shard_group() == 1 && l.dense_group() > 1) return false;  // that is plain replication: zero 0
       return l.shard_group() > 1 || (l.tp == 1 && l.pp == 1) || p.training.precision == Precision::Fp32;
     }},
    {"torchtitan_expert_shard", "ep * etp divides torchtitan's shard group * tp", Level::Sharding, kTorchtitan,
     [](const Problem& p, const Layout& l) {
       return !p.model.moe() || l.ep == 1 ||
              rule::divides(static_cast<std::int64_t>(l.ep) * l.etp, static_cast<std::int64_t>(l.shard_group()) * l.tp);
     }},

    {"torchtitan_recompute", "torchtitan recomputes nothing, whole layers, or all but the ops it saves",
     Level::Recompute, kTorchtitan,
     [](const Problem& p, const Layout& l) {
       const Recompute ops{.kind = RecomputeKind::Selective, .modules = kRecomputeOps};
       // Every n-th layer, torchtitan's default, is a block of as many here: where it is asked for, not proposed.
       const bool asked = l.recompute.kind == RecomputeKind::Full && p.fixed.recompute == l.recompute;
       return rule::full_or_none(l.recompute) || l.recompute == ops || asked;
     }},
};

}  // namespace

FrameworkRow torchtitan_framework() {
  return {
      .framework = Framework::Torchtitan,
      .name = "torchtitan",
      .title = "torchtitan",
      .help = "PyTorch's own: FSDP2 with tp, cp, pp and ep",
      .stack = stacks::torchtitan(),
      .vendors = "nvidia amd",  // torchtitan's README: CUDA and ROCm; its XPU runs are no Gaudi
      .run_word = "torchtitan",
      .rules = kRules,
      .cp_kind = CpKind::AllGather,
      .spares_layers = true,
      .offloads_weights = true,
      .lacks = torchtitan_lacks,
      .recomputes = kRecomputeOps,
  };
}

}  // namespace plan
