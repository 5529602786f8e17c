// A plan as Megatron-LM's arguments (plan-launch(7) 3.1). Tested by tests/launch/round_trip_test.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "cli/launch/megatron.hpp"
#include "cli/launch/megatron_model_facts.hpp"
#include "cli/launch/upkeep.hpp"
#include "cli/terminal/cuda_graphs.hpp"
#include "formulas/names.hpp"
#include "formulas/partition.hpp"
#include "planner/problem/pipeline.hpp"
#include "planner/rules/rules.hpp"

namespace plan {
namespace {

using Settings = std::vector<MegatronSetting>;

std::string text(std::int64_t value) { return fmt::format("{}", value); }

void put(Settings& out, std::string flag) { out.push_back({std::move(flag), {}}); }
void put(Settings& out, std::string flag, std::string value) { out.push_back({std::move(flag), {std::move(value)}}); }
void put(Settings& out, std::string flag, std::int64_t value) { put(out, std::move(flag), text(value)); }

/// The layer kind that all arguments describe: MoE if the model has one.
const Layer& main_kind(const Model& model) {
  const auto moe =
      std::find_if(model.kinds.begin(), model.kinds.end(), [](const Layer& kind) { return kind.ffn == Ffn::Moe; });
  return moe != model.kinds.end() ? *moe : model.kinds.front();
}
const Layer* dense_kind(const Model& model) {
  const auto dense =
      std::find_if(model.kinds.begin(), model.kinds.end(), [](const Layer& kind) { return kind.ffn == Ffn::Dense; });
  return dense != model.kinds.end() ? &*dense : nullptr;
}

void attention(Settings& out, const Layer& kind) {
  if (kind.mixer == Mixer::Latent) {
    const LatentShape& shape = kind.latent;
    put(out, "num-attention-heads", shape.heads);
    put(out, "multi-latent-attention");
    if (shape.q_rank > 0) put(out, "q-lora-rank", shape.q_rank);
    put(out, "kv-lora-rank", shape.kv_rank);
    put(out, "qk-head-dim", shape.nope_dim);
    put(out, "qk-pos-emb-head-dim", shape.rope_dim);
    put(out, "v-head-dim", shape.value_dim);
    put(out, "qk-layernorm");
    return;
  }
  const AttentionShape& shape = kind.attention;
  put(out, "num-attention-heads", shape.heads);
  if (shape.kv_heads != shape.heads) {
    put(out, "group-query-attention");
    put(out, "num-query-groups", shape.kv_heads);
  }
  put(out, "kv-channels", shape.head_dim);
  if (shape.qk_norm == QkNorm::PerHead) put(out, "qk-layernorm");
  if (shape.qkv_bias && !shape.out_bias) put(out, "add-qkv-bias");
  if (shape.sinks) put(out, "softmax-type", "learnable");
}

/// Sliding windows: the same in all layers, or every n-th in full (`--window-attn-skip-freq n`).
void windows(Settings& out, const Model& model) {
  std::int64_t window = 0;
  std::string pattern;
  for (const int kind : model.layers) {
    const std::int64_t own = model.kinds[static_cast<std::size_t>(kind)].attention.window;
    window = std::max(window, own);
    pattern += fmt::format("{}{}", pattern.empty() ? "" : ",", own > 0 ? 1 : 0);
  }
  if (window == 0) return;
  out.push_back({"window-size", {fmt::format("{},0", window - 1)}});
  if (pattern.find('0') != std::string::npos) put(out, "window-attn-skip-freq", fmt::format("[{}]", pattern));
}

MegatronGroup model_arguments(const Plan& plan) {
  const Model& model = plan.problem.model;
  const Layer& kind = main_kind(model);
  const MegatronModelFacts facts = megatron_model_facts(model.name, plan.problem.training.seq);
  const Layer* dense = dense_kind(model);
  Settings out;
  put(out, "num-layers", model.depth());
  put(out, "hidden-size", model.hidden);
  put(out, "ffn-hidden-size", dense != nullptr ? dense->dense.width : kind.moe.expert_width);
  attention(out, kind);
  windows(out, model);
  put(out, "seq-length", plan.problem.training.seq);
  put(out, "max-position-embeddings", std::max(model.positions, plan.problem.training.seq));
  put(out, "position-embedding-type", model.positions > 0 ? "learned_absolute" : "rope");
  if (facts.rotary_base > 0 && model.positions == 0) put(out, "rotary-base", facts.rotary_base);
  if (facts.rope_scaling > 0) {
    put(out, "use-rope-scaling");
    put(out, "rope-scaling-factor", facts.rope_scaling);
  }
  put(out, "normalization", model.norm == Norm::Rms ? "RMSNorm" : "LayerNorm");
  const bool gated = dense != nullptr ? dense->dense.gated : kind.moe.gated;
  if (gated)
    put(out, "swiglu");
  else if (facts.squared_relu)
    put(out, "squared-relu");
  const bool biases = kind.mixer == Mixer::Attention && kind.attention.out_bias;
  if (!biases) put(out, "disable-bias-linear");
  if (!model.tied) put(out, "untie-embeddings-and-output-weights");
  if (model.mtp.depth > 0) put(out, "mtp-num-layers", model.mtp.runs());
  if (model.mtp.passes > 1) put(out, "mtp-use-repeated-layer");
  const std::string dropout =
      plan.problem.training.dropout > 0 ? fmt::format("{}", plan.problem.training.dropout) : "0.0";
  put(out, "attention-dropout", dropout);
  put(out, "hidden-dropout", dropout);
  return {"MODEL_ARGS", std::move(out)};
}

/// `([0]*3+[1]*58)`: which layers hold experts.
std::string moe_frequency(const Model& model) {
  std::string out;
  for (std::size_t i = 0; i < model.layers.size();) {
    const auto is_moe = [&](std::size_t layer) {
      return model.kinds[static_cast<std::size_t>(model.layers[layer])].ffn == Ffn::Moe;
    };
    std::size_t end = i;
    while (end < model.layers.size() && is_moe(end) == is_moe(i)) ++end;
    out += fmt::format("{}[{}]*{}", out.empty() ? "" : "+", is_moe(i) ? 1 : 0, end - i);
    i = end;
  }
  return "(" + out + ")";
}

MegatronGroup expert_arguments(const Plan& plan) {
  const Model& model = plan.problem.model;
  const MoeShape& moe = main_kind(model).moe;
  const Stack& stack = plan.problem.training.stack;
  Settings out;
  put(out, "num-experts", moe.experts);
  put(out, "moe-router-topk", moe.top_k);
  put(out, "moe-ffn-hidden-size", moe.expert_width);
  if (dense_kind(model) != nullptr) put(out, "moe-layer-freq", moe_frequency(model));
  if (moe.shared_width > 0) put(out, "moe-shared-expert-intermediate-size", moe.shared_width);
  if (moe.shared_gate) put(out, "moe-shared-expert-gate");
  if (moe.score_bias) {
    put(out, "moe-router-score-function", "sigmoid");
    put(out, "moe-router-enable-expert-bias");
  }
  const RouterFacts router = megatron_model_facts(model.name, plan.problem.training.seq).router;
  if (router.groups > 0) {
    put(out, "moe-router-num-groups", router.groups);
    put(out, "moe-router-group-topk", router.group_top_k);
  }
  if (!router.scaling.empty()) put(out, "moe-router-topk-scaling-factor", std::string(router.scaling));
  if (router.pre_softmax) put(out, "moe-router-pre-softmax");
  put(out, "moe-router-load-balancing-type", std::string(router.loss));
  put(out, "moe-aux-loss-coeff", std::string(router.coefficient));
  if (stack.grouped_gemm) put(out, "moe-grouped-gemm");
  put(out, "moe-token-dispatcher-type", stack.dedup_dispatch ? "flex" : "alltoall");
  if (stack.dedup_dispatch) put(out, "moe-flex-dispatcher-backend", "deepep");
  put(out, "moe-router-dtype", "fp32");
  if (stack.ep_overlap && plan.best.layout.ep > 1) put(out, "overlap-moe-expert-parallel-comm");
  return {"MOE_ARGS", std::move(out)};
}

void context(Settings& out, const Layout& layout) {
  put(out, "context-parallel-size", layout.cp);
  if (layout.cp == 1) return;
  switch (layout.cp_kind) {
    case CpKind::Ring: put(out, "cp-comm-type", "p2p"); break;
    case CpKind::AllGather: put(out, "cp-comm-type", "all_gather"); break;
    case CpKind::Ulysses: put(out, "cp-comm-type", "a2a"); break;
    case CpKind::Hybrid:
      put(out, "cp-comm-type", "a2a+p2p");
      out.push_back(
          {"hierarchical-context-parallel-sizes", {text(layout.cp_ulysses), text(layout.cp / layout.cp_ulysses)}});
      break;
  }
}

/// Equal chunks need no word; uneven ends have flags of their own; anything else is a layout string.
void stages(Settings& out, const Plan& plan) {
  const Layout& layout = plan.best.layout;
  const std::vector<int>& chunks = layout.chunk_layers;
  const int mtp = plan.problem.model.mtp.depth;
  SplitShape shape = split_shape(chunks, plan.problem.model.depth(), layout.vp);
  if (shape == SplitShape::OwnEnds && mtp > 0) shape = SplitShape::Uneven;
  const bool regular = shape == SplitShape::Equal || shape == SplitShape::EndsCounted;
  if (layout.vp > 1 && regular) put(out, "num-virtual-stages-per-pipeline-rank", layout.vp);
  if (const int group = pipeline_of(layout, plan.best.micro_batches).group; group > 0 && group != layout.pp)
    put(out, "microbatch-group-size-per-virtual-pipeline-stage", group);
  if (shape == SplitShape::EndsCounted) {
    put(out, "account-for-embedding-in-pipeline-split");
    put(out, "account-for-loss-in-pipeline-split");
  }
  if (shape == SplitShape::OwnEnds) {
    put(out, "decoder-first-pipeline-num-layers", chunks.front());
    put(out, "decoder-last-pipeline-num-layers", chunks.back());
  }
  if (shape == SplitShape::Uneven) put(out, "pipeline-model-parallel-layout", pipeline_layout_text(chunks, mtp));
}

void sharding(Settings& out, const Plan& plan) {
  const Layout& layout = plan.best.layout;
  const int copies = layout.dense_group() / layout.shard_group();
  if (layout.zero >= 1) put(out, "use-distributed-optimizer");
  if (layout.zero >= 2) {
    put(out, "use-megatron-fsdp");
    put(out, "data-parallel-sharding-strategy", layout.zero == 2 ? "optim_grads" : "optim_grads_params");
  }
  if (layout.zero >= 1 && copies > 1) put(out, "num-distributed-optimizer-instances", copies);
  const Stack& stack = plan.problem.training.stack;
  if (stack.overlap_grad_reduce) put(out, "overlap-grad-reduce");
  if (stack.overlap_grad_reduce && stack.overlap_param_gather && layout.zero >= 1) put(out, "overlap-param-gather");
}

MegatronGroup parallel_arguments(const Plan& plan) {
  const Layout& layout = plan.best.layout;
  const Stack& stack = plan.problem.training.stack;
  Settings out;
  put(out, "tensor-model-parallel-size", layout.tp);
  if (layout.sequence_parallel) put(out, "sequence-parallel");
  put(out, "pipeline-model-parallel-size", layout.pp);
  if (layout.pp > 1) stages(out, plan);
  if (layout.pp > 1 && layout.order == AxisOrder::DataOutermost) put(out, "use-tp-pp-dp-mapping");
  context(out, layout);
  if (plan.problem.model.moe()) {
    put(out, "expert-model-parallel-size", layout.ep);
    put(out, "expert-tensor-parallel-size", layout.etp);
  }
  sharding(out, plan);
  if (stack.tp_overlap && layout.tp > 1 && layout.sequence_parallel) put(out, "tp-comm-overlap");
  if (!stack.p2p_overlap && layout.vp > 1) put(out, "no-overlap-p2p-communication");
  return {"PARALLEL_ARGS", std::move(out)};
}

constexpr struct {
  Precision precision;
  const char *kind, *format, *recipe;
} kNarrowFormats[] = {{Precision::Fp8Delayed, "fp8", "hybrid", "delayed"},
                      {Precision::Fp8Tensorwise, "fp8", "hybrid", "tensorwise"},
                      {Precision::Fp8Blockwise, "fp8", "e4m3", "blockwise"},
                      {Precision::Mxfp8, "fp8", "e4m3", "mxfp8"},
                      {Precision::Nvfp4, "fp4", "e2m1", "nvfp4"}};

MegatronGroup precision_arguments(const Plan& plan) {
  const Training& training = plan.problem.training;
  Settings out;
  if (training.precision != Precision::Fp32) put(out, training.precision == Precision::Fp16 ? "fp16" : "bf16");
  for (const auto& row : kNarrowFormats) {
    if (row.precision != training.precision) continue;
    put(out, fmt::format("{}-format", row.kind), row.format);
    put(out, fmt::format("{}-recipe", row.kind), row.recipe);
    if (is_fp8(row.precision) && training.stack.fp8_param_gather && plan.best.layout.zero >= 1)
      put(out, "fp8-param-gather");
    if (!training.bf16_layers.any()) continue;
    put(out, "first-last-layers-bf16");
    put(out, "num-layers-at-start-in-bf16", training.bf16_layers.first);
    put(out, "num-layers-at-end-in-bf16", training.bf16_layers.last);
  }
  return {"PRECISION_ARGS", std::move(out)};
}

MegatronGroup recompute_arguments(const Plan& plan) {
  const Recompute& recompute = plan.best.layout.recompute;
  Settings out;
  if (recompute.kind == RecomputeKind::Full) {
    put(out, "recompute-granularity", "full");
    put(out, "recompute-method", recompute.layers > 0 ? "block" : "uniform");
    put(out, "recompute-num-layers", recompute.layers > 0 ? recompute.layers : std::max(1, recompute.uniform));
  }
  if (recompute.kind == RecomputeKind::Selective) {
    put(out, "recompute-granularity", "selective");
    MegatronSetting modules{"recompute-modules", {}};
    for (const Named<RecomputeModule>& row : kRecomputeModuleNames)
      if ((recompute.modules & row.value) != 0) modules.values.emplace_back(row.name);
    out.push_back(std::move(modules));
  }
  return {"RECOMPUTE_ARGS", std::move(out)};
}

MegatronGroup offload_arguments(const Offload& offload) {
  Settings out;
  if (offload.layers > 0) put(out, "cpu-offloading-num-layers", offload.layers);
  if (offload.modules == 0) return {"OFFLOAD_ARGS", std::move(out)};
  put(out, "fine-grained-activation-offloading");
  MegatronSetting modules{"offload-modules", {}};
  for (const Named<OffloadModule>& row : kOffloadModuleNames)
    if ((offload.modules & row.value) != 0) modules.values.emplace_back(row.name);
  out.push_back(std::move(modules));
  return {"OFFLOAD_ARGS", std::move(out)};
}

std::string moment(double bytes) { return bytes >= 4 ? "fp32" : bytes >= 2 ? "bf16" : "fp8"; }

MegatronGroup optimizer_arguments(const Plan& plan) {
  const Training& training = plan.problem.training;
  Settings out;
  put(out, "optimizer",
      training.optimizer == Optimizer::Muon   ? "muon"
      : training.optimizer == Optimizer::Adam ? "adam"
                                              : "sgd");
  if (precision_aware(training)) {
    put(out, "use-precision-aware-optimizer");
    if (training.grad_bytes == 2) put(out, "main-grads-dtype", "bf16");
    if (training.master_bytes < 4) put(out, "main-params-dtype", "fp16");
    if (training.moment1_bytes < 4) put(out, "exp-avg-dtype", moment(training.moment1_bytes));
    if (training.moment2_bytes < 4) put(out, "exp-avg-sq-dtype", moment(training.moment2_bytes));
  }
  if (training.grad_bytes == 2 && training.precision != Precision::Fp16) put(out, "grad-reduce-in-bf16");
  if (training.offload.optimizer > 0) {
    put(out, "optimizer-cpu-offload");
    put(out, "optimizer-offload-fraction", fmt::format("{}", training.offload.optimizer));
    put(out, "overlap-cpu-optimizer-d2h-h2d");
  }
  out.push_back({"lr", {"1e-4"}});
  out.push_back({"min-lr", {"1e-5"}});
  out.push_back({"lr-decay-style", {"cosine"}});
  out.push_back({"lr-warmup-iters", {"100"}});
  out.push_back({"weight-decay", {"0.1"}});
  out.push_back({"clip-grad", {"1.0"}});
  return {"OPTIMIZER_ARGS", std::move(out)};
}

/// Graphs draw random numbers of TransformerEngine's, and a whole iteration cannot stop to look for one that is none.
void graph_arguments(const Stack& stack, Settings& out) {
  if (!stack.cuda_graphs && stack.graph_scopes == 0) return;
  put(out, "cuda-graph-impl", stack.cuda_graphs ? "full_iteration" : "transformer_engine");
  put(out, "te-rng-tracker");
  if (stack.cuda_graphs) return put(out, "no-check-for-nan-in-loss-and-grad");
  MegatronSetting modules{"cuda-graph-modules", {}};
  for (const Named<GraphScope>& row : kGraphScopeNames)
    if (stack.graph_scopes & row.value) modules.values.emplace_back(row.name);
  out.push_back(std::move(modules));
}

MegatronGroup run_arguments(const Plan& plan, const EmitOptions& options) {
  const Training& training = plan.problem.training;
  Settings out;
  put(out, "micro-batch-size", plan.best.layout.micro_batch);
  put(out, "global-batch-size", training.global_batch);
  put(out, "train-iters", 1000);
  put(out, "eval-interval", 1000);  // without it Megatron dies before the first step
  put(out, "eval-iters", 10);
  put(out, "log-interval", 1);
  put(out, "log-throughput");
  put(out, "distributed-timeout-minutes", 60);
  put(out, "manual-gc");
  put(out, "manual-gc-interval", 100);
  const CrossEntropy loss = training.stack.cross_entropy;
  put(out, "cross-entropy-loss-fusion");
  put(out, "cross-entropy-fusion-impl",
      loss == CrossEntropy::FusedInPlace || loss == CrossEntropy::FusedFp32 ? "te" : "native");
  graph_arguments(training.stack, out);
  if (!training.stack.gradient_fusion) put(out, "no-gradient-accumulation-fusion");
  if (training.stack.deterministic) put(out, "deterministic-mode");
  if (!training.stack.flash_attention) put(out, "attention-backend", "unfused");
  const bool fsdp = plan.best.layout.zero >= 2;
  const std::string folder = checkpoint_folder(plan, options);
  const Upkeep upkeep = upkeep_of(plan, options);
  if (!folder.empty()) {
    put(out, "save", folder);
    put(out, "load", folder);
    put(out, "save-interval", upkeep.every);
  }
  if (fsdp || !folder.empty()) put(out, "ckpt-format", fsdp ? "fsdp_dtensor" : "torch_dist");
  if (options.site) {
    if (!fsdp) put(out, "async-save");  // no other format is written behind the training's back
    put(out, "exit-signal-handler");
    if (const std::int64_t minutes = exit_minutes(upkeep); minutes > 0) put(out, "exit-duration-in-mins", minutes);
  }
  return {"TRAIN_ARGS", std::move(out)};
}

MegatronGroup data_arguments(const Plan& plan, const EmitOptions& options) {
  Settings out;
  if (options.data_path.empty())
    put(out, "mock-data");
  else
    put(out, "data-path", options.data_path), put(out, "split", "99,1,0");
  put(out, "tokenizer-type", options.tokenizer.empty() ? "NullTokenizer" : "HuggingFaceTokenizer");
  if (!options.tokenizer.empty()) put(out, "tokenizer-model", options.tokenizer);
  put(out, "vocab-size", plan.problem.model.vocab);
  return {"DATA_ARGS", std::move(out)};
}

}  // namespace

Result<std::vector<MegatronGroup>> megatron_settings(const Plan& plan, const EmitOptions& options) {
  if (Errors errors = megatron_cannot(plan, options); !errors.empty()) return fail(std::move(errors));
  std::vector<MegatronGroup> groups = {model_arguments(plan)};
  if (plan.problem.model.moe()) groups.push_back(expert_arguments(plan));
  groups.push_back(parallel_arguments(plan));
  groups.push_back(precision_arguments(plan));
  groups.push_back(recompute_arguments(plan));
  groups.push_back(offload_arguments(plan.problem.training.offload));
  groups.push_back(optimizer_arguments(plan));
  groups.push_back(run_arguments(plan, options));
  groups.push_back(data_arguments(plan, options));
  std::erase_if(groups, [](const MegatronGroup& group) { return group.settings.empty(); });
  return groups;
}

}  // namespace plan
