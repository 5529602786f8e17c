// A plan as Megatron-LM's arguments (plan-launch(7) 3.1). Tested by tests/launch/round_trip_test.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "cli/launch/job/model_facts.hpp"
#include "cli/launch/megatron/hybrid.hpp"
#include "cli/launch/megatron/megatron.hpp"
#include "cli/launch/megatron/put.hpp"
#include "cli/launch/start/upkeep.hpp"
#include "cli/terminal/cuda_graphs.hpp"
#include "formulas/names.hpp"
#include "formulas/partition.hpp"
#include "planner/problem/pipeline.hpp"
#include "planner/rules/megatron_models.hpp"
#include "planner/rules/rules.hpp"

namespace plan {
namespace {

using megatron::put, megatron::FlagList, megatron::text;

void context(FlagList& out, const Layout& layout) {
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

void micro_batch_group(FlagList& out, const Plan& plan) {
  const Layout& layout = plan.best.layout;
  if (const int group = pipeline_of(layout, plan.best.micro_batches).group; group > 0 && group != layout.pp)
    put(out, "microbatch-group-size-per-virtual-pipeline-stage", group);
}

/// Equal chunks need no word; uneven ends have flags of their own; anything else is a layout string.
void stages(FlagList& out, const Plan& plan) {
  const Layout& layout = plan.best.layout;
  const std::vector<int>& chunks = layout.chunk_layers;
  const int mtp = plan.problem.model.mtp.depth;
  if (is_hybrid(plan.problem.model)) return micro_batch_group(out, plan);  // its letters say where it is cut
  SplitShape shape = split_shape(chunks, plan.problem.model.depth(), layout.vp);
  if (shape == SplitShape::OwnEnds && mtp > 0) shape = SplitShape::Uneven;
  const bool regular = shape == SplitShape::Equal || shape == SplitShape::EndsCounted;
  if (layout.vp > 1 && regular) put(out, "num-virtual-stages-per-pipeline-rank", layout.vp);
  micro_batch_group(out, plan);
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

void sharding(FlagList& out, const Plan& plan) {
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
  FlagList out;
  put(out, "tensor-model-parallel-size", layout.tp);
  if (layout.sequence_parallel) put(out, "sequence-parallel");
  put(out, "pipeline-model-parallel-size", layout.pp);
  if (layout.pp > 1) stages(out, plan);
  if (is_hybrid(plan.problem.model))
    put(out, "hybrid-layer-pattern", megatron::hybrid_text(plan.problem.model, layout.chunk_layers));
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
  FlagList out;
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
  FlagList out;
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
  FlagList out;
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
  FlagList out;
  put(out, "optimizer",
      training.optimizer == Optimizer::Muon   ? "muon"
      : training.optimizer == Optimizer::Adam ? "adam"
                                              : "sgd");
  if (training.optimizer == Optimizer::Sgd) put(out, "sgd-momentum", "0.0");  // 0.9 where nobody says
  if (precision_aware(training)) {
    put(out, "use-precision-aware-optimizer");
    if (training.grad_bytes == 2) put(out, "main-grads-dtype", "bf16");
    if (training.master_bytes < 4) put(out, "main-params-dtype", "fp16");
    if (training.moment1_bytes < 4) put(out, "exp-avg-dtype", moment(training.moment1_bytes));
    if (training.moment2_bytes < 4) put(out, "exp-avg-sq-dtype", moment(training.moment2_bytes));
  }
  const bool half = training.precision == Precision::Fp16;  // which alone keeps its gradients narrow by itself
  if (training.grad_bytes == 2 && !half) put(out, "grad-reduce-in-bf16");
  if (training.grad_bytes == 4 && half) put(out, "accumulate-allreduce-grads-in-fp32");
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
void graph_arguments(const Stack& stack, FlagList& out) {
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
  FlagList out;
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
  FlagList out;
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

Result<std::vector<MegatronGroup>> megatron_settings(const Plan& plan, const EmitOptions& options, bool by_bridge) {
  if (Errors errors = megatron_cannot(plan, by_bridge); !errors.empty()) return fail(std::move(errors));
  std::vector<MegatronGroup> groups = {megatron::model_arguments(plan)};
  if (plan.problem.model.moe()) groups.push_back(megatron::expert_arguments(plan));
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
