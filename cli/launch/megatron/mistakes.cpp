// Arguments that Megatron-LM rejects, when it parses them or at the first step, beyond the rules of a layout
// (plan-launch(7) 3.1.2; the numbers beside the rows are its rules). Tested by tests/launch/megatron_verdicts_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "cli/launch/megatron/megatron.hpp"
#include "cli/launch/megatron/mistakes.hpp"
#include "formulas/cluster.hpp"
#include "formulas/quantising.hpp"

namespace plan {
namespace {

using Job = LaunchJob;

bool fsdp(const MegatronArgs& a) { return is_megatron_fsdp(a); }
bool fp8(const MegatronArgs& a) { return a.has("fp8-format") || a.has("fp8-hybrid"); }
bool narrow(const MegatronArgs& a, const char* flag) { return a.has(flag) && a.text(flag) != "fp32"; }
int tp(const Job& j) { return j.fixed.tp.value_or(1); }
int pp(const Job& j) { return j.fixed.pp.value_or(1); }
int cp(const Job& j) { return j.fixed.cp.value_or(1); }

bool lists(const MegatronArgs& a, const char* flag, std::string_view word) {
  const auto found = a.given.find(flag);
  return found != a.given.end() &&
         std::find(found->second.values.begin(), found->second.values.end(), word) != found->second.values.end();
}

int ways_to_split(const MegatronArgs& a) {
  return int(a.has("num-layers-per-virtual-pipeline-stage")) + int(a.has("num-virtual-stages-per-pipeline-rank")) +
         int(a.has("pipeline-model-parallel-layout"));
}
bool accounts(const MegatronArgs& a) {
  return a.has("account-for-embedding-in-pipeline-split") || a.has("account-for-loss-in-pipeline-split");
}
bool ends(const MegatronArgs& a) {
  return a.has("decoder-first-pipeline-num-layers") || a.has("decoder-last-pipeline-num-layers");
}

/// Dialects name their model, whose attention no flag states.
bool has_latent(const Job& job) {
  return job.model && std::any_of(job.model->kinds.begin(), job.model->kinds.end(),
                                  [](const Layer& kind) { return kind.mixer == Mixer::Latent; });
}

bool selective(const MegatronArgs& a) {
  return a.text("recompute-granularity") == "selective" || a.has("recompute-activations");
}

bool bad_module(const MegatronArgs& a) {
  constexpr std::string_view kModules[] = {"core_attn",      "moe_act",      "layernorm",   "mla_up_proj", "mlp", "moe",
                                           "shared_experts", "gdn_norm_out", "gdp_in_proj", "gdp_qkv",     "mhc"};
  const auto found = a.given.find("recompute-modules");
  if (found == a.given.end() || !selective(a)) return false;
  return std::any_of(found->second.values.begin(), found->second.values.end(), [&](const std::string& word) {
    return std::find(std::begin(kModules), std::end(kModules), word) == std::end(kModules);
  });
}

/// More layers than a stage has are all of them, and a block of none recomputes nothing.
bool bad_recompute_layers(const MegatronArgs& a, const Job&) {
  const bool block = a.text("recompute-method") == "block";
  return a.text("recompute-granularity") == "full" && a.integer("recompute-num-layers", -1) < (block ? 0 : 1);
}

bool bad_hierarchy(const MegatronArgs& a, const Job& j) {
  const auto found = a.given.find("hierarchical-context-parallel-sizes");
  if (found == a.given.end()) return false;
  std::int64_t product = 1;
  for (const std::string& word : found->second.values) product *= std::clamp(std::atoi(word.c_str()), 0, 1 << 12);
  return product != cp(j);
}

constexpr MegatronMistake kMistakes[] = {
    {"batch_schedule", "step-batch-size-schedule",  // 5
     [](const MegatronArgs& a, const Job&) { return a.has("step-batch-size-schedule") && a.has("global-batch-size"); },
     "`--step-batch-size-schedule` and `--global-batch-size` exclude each other", "leave one out"},
    {"positions_too_few", "max-position-embeddings",  // 14
     [](const MegatronArgs& a, const Job& j) {
       return a.has("max-position-embeddings") && a.integer("max-position-embeddings", 0) < j.training->seq;
     },
     "`--max-position-embeddings` must be at least `--seq-length`", ""},
    {"positions_missing", "seq-length",
     [](const MegatronArgs& a, const Job&) { return !a.has("max-position-embeddings") && a.states_environment; },
     "`--max-position-embeddings` is missing", "write it beside `--seq-length`"},
    {"hierarchy_missing", "cp-comm-type",  // 15
     [](const MegatronArgs& a, const Job& j) {
       return cp(j) > 1 && j.fixed.cp_kind == CpKind::Hybrid && !a.has("hierarchical-context-parallel-sizes");
     },
     "`--cp-comm-type a2a+p2p` needs `--hierarchical-context-parallel-sizes`", ""},
    {"hierarchy_product", "hierarchical-context-parallel-sizes", bad_hierarchy,
     "the product of `--hierarchical-context-parallel-sizes` must be `--context-parallel-size`", ""},
    {"split_twice", "num-virtual-stages-per-pipeline-rank",  // 18
     [](const MegatronArgs& a, const Job&) { return ways_to_split(a) > 1; },
     "only one of `--num-layers-per-virtual-pipeline-stage`, `--num-virtual-stages-per-pipeline-rank` and "
     "`--pipeline-model-parallel-layout` may be given",
     ""},
    {"split_conflict", "num-layers-per-virtual-pipeline-stage",  // 19, 22, 23
     [](const MegatronArgs& a, const Job&) {
       return ends(a) && (a.has("num-layers-per-virtual-pipeline-stage") || accounts(a) ||
                          a.has("pipeline-model-parallel-layout"));
     },
     "layers of the first or last stage exclude other ways of splitting", ""},
    {"split_conflict", "pipeline-model-parallel-layout",
     [](const MegatronArgs& a, const Job&) { return accounts(a) && a.has("pipeline-model-parallel-layout"); },
     "a pipeline layout excludes counting embedding and loss as layers", ""},
    {"virtual_needs_pipeline", "num-virtual-stages-per-pipeline-rank",  // 21
     [](const MegatronArgs& a, const Job& j) {
       return (a.integer("num-virtual-stages-per-pipeline-rank", 1) > 1 ||
               a.has("num-layers-per-virtual-pipeline-stage")) &&
              pp(j) == 1;
     },
     "interleaved stages need a pipeline of more than one stage", ""},
    {"virtual_needs_overlap", "no-overlap-p2p-communication",
     [](const MegatronArgs& a, const Job& j) {
       return j.fixed.vp.value_or(1) > 1 && pp(j) == 2 && a.has("no-overlap-p2p-communication");
     },
     "interleaved stages on pp 2 need overlapped point-to-point communication",
     "drop `--no-overlap-p2p-communication`"},
    {"rank_order", "use-tp-pp-dp-mapping",  // 3
     [](const MegatronArgs& a, const Job& j) {
       // Without experts, too: their grid is as wide as tp then.
       const int etp = j.model->moe() ? j.fixed.etp.value_or(1) : tp(j), expert = etp * j.fixed.ep.value_or(1);
       return a.has("use-tp-pp-dp-mapping") && pp(j) > 1 && tp(j) * cp(j) != expert;
     },
     "with `--use-tp-pp-dp-mapping` on a pipeline, tp x cp must equal etp x ep", "drop the flag"},
    {"one_expert_softmax", "moe-router-topk",
     [](const MegatronArgs& a, const Job&) {
       const bool softmax =
           a.text("moe-router-score-function").empty() || a.text("moe-router-score-function") == "softmax";
       return a.states_environment && a.integer("moe-router-topk", 2) == 1 && softmax &&
              !a.has("moe-router-pre-softmax") && a.text("moe-router-load-balancing-type") != "sinkhorn";
     },
     "a softmax over the one chosen expert is 1: nothing would train the router", "add `--moe-router-pre-softmax`"},
    {"experts_missing", "expert-model-parallel-size",  // 26
     [](const MegatronArgs&, const Job& j) { return j.fixed.ep.value_or(1) > 1 && !j.model->moe(); },
     "expert parallelism needs experts", "drop `--expert-model-parallel-size`"},
    {"dispatcher", "moe-enable-deepep",  // 29; `--moe-flex-dispatcher-backend` alone has nothing to act on
     [](const MegatronArgs& a, const Job&) {
       return a.has("moe-enable-deepep") && a.text("moe-token-dispatcher-type") != "flex";
     },
     "DeepEP needs `--moe-token-dispatcher-type flex`", ""},
    {"expert_overlap_stages", "overlap-moe-expert-parallel-comm",  // 30
     [](const MegatronArgs& a, const Job& j) {
       return a.has("overlap-moe-expert-parallel-comm") && pp(j) > 1 && j.fixed.vp.value_or(1) == 1;
     },
     "overlapping expert communication needs interleaved stages on a pipeline", ""},
    {"expert_overlap_recompute", "overlap-moe-expert-parallel-comm",
     [](const MegatronArgs& a, const Job&) {
       return a.has("overlap-moe-expert-parallel-comm") &&
              (a.text("recompute-granularity") == "full" || lists(a, "recompute-modules", "moe"));
     },
     "overlapping expert communication excludes full recompute and recomputing `moe`", ""},
    {"expert_overlap_needs", "overlap-moe-expert-parallel-comm",
     [](const MegatronArgs& a, const Job& j) {
       const std::string dispatcher = a.text("moe-token-dispatcher-type");
       return a.has("overlap-moe-expert-parallel-comm") &&
              (j.fixed.ep.value_or(1) == 1 || (dispatcher != "alltoall" && dispatcher != "flex") ||
               !(a.has("bf16") || a.has("fp16")) || a.has("moe-shared-expert-overlap") ||
               a.integer("mtp-num-layers", 0) > 1);
     },
     "overlapping expert communication needs ep > 1, the alltoall or flex dispatcher, bf16 or fp16, no overlap of "
     "shared experts and at most one MTP layer",
     ""},
    {"recompute_method", "recompute-method",  // 32
     [](const MegatronArgs& a, const Job&) {
       return selective(a) && (a.has("recompute-method") || a.has("recompute-num-layers"));
     },
     "selective recompute takes no method and no number of layers", ""},
    {"recompute_method", "recompute-granularity",
     [](const MegatronArgs& a, const Job&) {
       const std::string method = a.text("recompute-method");
       return a.text("recompute-granularity") == "full" && method != "block" && method != "uniform";
     },
     "full recompute needs `--recompute-method block` or `uniform`", ""},
    {"recompute_layers", "recompute-granularity", bad_recompute_layers,
     "full recompute needs `--recompute-num-layers` of 1 or more", ""},
    {"recompute_module", "recompute-modules", [](const MegatronArgs& a, const Job&) { return bad_module(a); },  // 33
     "`--recompute-modules` names a module that Megatron-LM does not know", ""},
    {"recompute_grouped", "recompute-modules",
     [](const MegatronArgs& a, const Job&) {
       return selective(a) && lists(a, "recompute-modules", "moe_act") && !a.has("moe-grouped-gemm");
     },
     "recomputing `moe_act` needs `--moe-grouped-gemm`", ""},
    {"recompute_latent", "recompute-modules",
     [](const MegatronArgs& a, const Job& j) {
       return selective(a) && lists(a, "recompute-modules", "mla_up_proj") && !a.has("multi-latent-attention") &&
              !has_latent(j);
     },
     "recomputing `mla_up_proj` needs `--multi-latent-attention`", ""},
    {"recompute_shared", "recompute-modules",
     [](const MegatronArgs& a, const Job&) {
       return selective(a) && lists(a, "recompute-modules", "shared_experts") && a.has("moe-shared-expert-overlap");
     },
     "shared experts are either recomputed or overlapped", ""},
    {"distribute_activations", "distribute-saved-activations",  // 34
     [](const MegatronArgs& a, const Job& j) {
       return a.has("distribute-saved-activations") &&
              (tp(j) == 1 || a.text("recompute-granularity") != "full" || j.fixed.sequence_parallel.value_or(false));
     },
     "`--distribute-saved-activations` needs tp > 1 and full recompute, without sequence parallelism", ""},
    {"cpu_offloading", "cpu-offloading-num-layers",  // 35
     [](const MegatronArgs& a, const Job& j) {
       return a.integer("cpu-offloading-num-layers", 0) > 0 &&
              (pp(j) > 1 || a.has("recompute-granularity") ||
               a.integer("cpu-offloading-num-layers", 0) >= j.model->depth());
     },
     "offloading layers needs pp 1, no recompute, and a layer that stays", ""},
    {"two_precisions", "fp16", [](const MegatronArgs& a, const Job&) { return a.has("bf16") && a.has("fp16"); },  // 36
     "`--bf16` and `--fp16` exclude each other", ""},
    {"two_precisions", "fp4-format", [](const MegatronArgs& a, const Job&) { return fp8(a) && a.has("fp4-format"); },
     "`--fp8-format` and `--fp4-format` exclude each other", ""},
    {"param_gather_precision", "fp8-param-gather",
     [](const MegatronArgs& a, const Job&) { return a.has("fp8-param-gather") && !fp8(a); },
     "`--fp8-param-gather` needs `--fp8-format`", ""},
    {"param_gather_precision", "fp4-param-gather",
     [](const MegatronArgs& a, const Job&) { return a.has("fp4-param-gather") && !a.has("fp4-format"); },
     "`--fp4-param-gather` needs `--fp4-format`", ""},
    {"param_gather_optimizer", "fp8-param-gather",
     [](const MegatronArgs& a, const Job&) {
       return (a.has("fp8-param-gather") || a.has("fp4-param-gather")) && !a.has("use-distributed-optimizer") &&
              !fsdp(a) && !a.has("use-torch-fsdp2");
     },
     "gathering narrow parameters needs the distributed optimizer or FSDP", "add `--use-distributed-optimizer`"},
    {"bf16_ends", "first-last-layers-bf16",
     [](const MegatronArgs& a, const Job& j) {
       return a.has("first-last-layers-bf16") && j.training->precision == Precision::Fp8Delayed;
     },
     "bf16 first and last layers do not go with delayed scaling", ""},
    {"overlap_param_gather", "overlap-param-gather",  // 37
     [](const MegatronArgs& a, const Job&) {
       return a.has("overlap-param-gather") && !a.has("use-distributed-optimizer") && !fsdp(a) &&
              a.text("optimizer") != "dist_muon";
     },
     "`--overlap-param-gather` needs the distributed optimizer or Megatron-FSDP", "add `--use-distributed-optimizer`"},
    {"overlap_param_gather", "overlap-param-gather",
     [](const MegatronArgs& a, const Job&) { return a.has("overlap-param-gather") && !a.has("overlap-grad-reduce"); },
     "`--overlap-param-gather` needs `--overlap-grad-reduce`", "add it"},
    {"overlap_param_gather", "overlap-param-gather-with-optimizer-step",
     [](const MegatronArgs& a, const Job& j) {
       return a.has("overlap-param-gather-with-optimizer-step") &&
              (!a.has("use-distributed-optimizer") || !a.has("overlap-param-gather") || j.fixed.vp.value_or(1) == 1);
     },
     "gathering parameters beside the optimizer step needs the distributed optimizer, `--overlap-param-gather` and "
     "interleaved stages",
     ""},
    {"tp_overlap", "tp-comm-overlap",  // 38
     [](const MegatronArgs& a, const Job& j) {
       return a.has("tp-comm-overlap") && !j.fixed.sequence_parallel.value_or(false);
     },
     "`--tp-comm-overlap` needs sequence parallelism", "add `--sequence-parallel`"},
    {"tp_overlap", "tp-comm-overlap",
     [](const MegatronArgs& a, const Job& j) {
       return a.has("tp-comm-overlap") && j.fixed.tp.value_or(1) > 1 && !userbuffers_carry(j.training->precision);
     },
     "TransformerEngine's userbuffers carry bf16, fp8 with a scale for a tensor and mxfp8 alone",
     "leave out `--tp-comm-overlap`"},
    {"optimizer_dtypes", "exp-avg-dtype",  // 39
     [](const MegatronArgs& a, const Job&) {
       return !a.has("use-precision-aware-optimizer") &&
              (narrow(a, "main-grads-dtype") || narrow(a, "main-params-dtype") || narrow(a, "exp-avg-dtype") ||
               narrow(a, "exp-avg-sq-dtype"));
     },
     "optimizer states narrower than fp32 need `--use-precision-aware-optimizer`", ""},
    {"optimizer_offload", "optimizer-cpu-offload",
     [](const MegatronArgs& a, const Job&) {
       return a.has("optimizer-cpu-offload") && !a.has("use-precision-aware-optimizer");
     },
     "`--optimizer-cpu-offload` needs `--use-precision-aware-optimizer`", ""},
    {"optimizer_offload", "optimizer-cpu-offload",
     [](const MegatronArgs& a, const Job& j) {
       return a.has("optimizer-cpu-offload") && a.has("fp8-param-gather") &&
              j.training->precision != Precision::Fp8Delayed;
     },
     "`--optimizer-cpu-offload` with `--fp8-param-gather` needs delayed scaling", ""},
    {"offload_modules", "fine-grained-activation-offloading",
     [](const MegatronArgs& a, const Job&) {
       return a.has("fine-grained-activation-offloading") &&
              (!a.has("offload-modules") || a.has("cpu-offloading-num-layers") ||
               (lists(a, "offload-modules", "attn_proj") && !lists(a, "offload-modules", "core_attn")));
     },
     "offloading modules needs `--offload-modules`, `core_attn` beside `attn_proj`, and no whole layers", ""},
    {"precision_aware", "use-precision-aware-optimizer",
     [](const MegatronArgs& a, const Job&) {
       const std::string optimizer = a.text("optimizer");
       return a.has("use-precision-aware-optimizer") && !optimizer.empty() && optimizer != "adam";
     },
     "`--use-precision-aware-optimizer` needs adam", ""},
    {"precision_aware", "use-precision-aware-optimizer",
     [](const MegatronArgs& a, const Job&) {
       return a.has("use-precision-aware-optimizer") && !a.has("use-distributed-optimizer") &&
              !a.has("use-megatron-fsdp");
     },
     "`--use-precision-aware-optimizer` needs `--use-distributed-optimizer`", ""},
    {"fsdp_checkpoint", "use-megatron-fsdp",  // 40
     [](const MegatronArgs& a, const Job&) {
       return a.has("use-megatron-fsdp") && a.states_environment && a.text("ckpt-format") != "fsdp_dtensor";
     },
     "Megatron-FSDP needs `--ckpt-format fsdp_dtensor`", ""},
    {"fsdp_optimizer", "use-megatron-fsdp",
     [](const MegatronArgs& a, const Job&) {
       const std::string optimizer = a.text("optimizer");
       return fsdp(a) && !optimizer.empty() && optimizer != "adam" && optimizer != "sgd";
     },
     "Megatron-FSDP needs adam or sgd", ""},
    {"torch_fsdp", "use-torch-fsdp2",
     [](const MegatronArgs& a, const Job& j) {
       return a.has("use-torch-fsdp2") &&
              (pp(j) > 1 || j.fixed.ep.value_or(1) > 1 || a.has("use-distributed-optimizer") ||
               !a.has("no-gradient-accumulation-fusion") || !a.has("untie-embeddings-and-output-weights") ||
               a.has("fp16"));
     },
     "PyTorch's FSDP2 needs pp 1, ep 1, untied embeddings, no distributed optimizer, no fused gradient accumulation, "
     "no fp16",
     ""},
    {"cross_entropy", "cross-entropy-fusion-impl",  // 42
     [](const MegatronArgs& a, const Job&) {
       return a.has("cross-entropy-loss-fusion") && a.text("cross-entropy-fusion-impl") == "te";
     },
     "Megatron-LM has switched off TransformerEngine's fused cross entropy",
     "write `--cross-entropy-fusion-impl native`"},
    {"latent_grouped", "group-query-attention",  // 43
     [](const MegatronArgs& a, const Job&) {
       return a.has("multi-latent-attention") && a.has("group-query-attention");
     },
     "latent attention and grouped queries exclude each other", "drop `--group-query-attention`"},
    {"save_interval", "save",  // 44
     [](const MegatronArgs& a, const Job&) {
       return a.has("save") && !a.has("save-interval") && a.states_environment && !a.fork;
     },
     "`--save` needs `--save-interval`", ""},
    {"eval_interval", "train-iters",
     [](const MegatronArgs& a, const Job&) { return !a.has("eval-interval") && a.states_environment; },
     "`--eval-interval` is missing: Megatron-LM dies on it before the first step",
     "add `--eval-interval 1000`; up to Megatron core 0.15 that is the default: `--megatron-version 0.15`", 16},
};

bool before_blackwell(std::string_view gpu) {
  constexpr std::string_view kOld[] = {"h100", "h200", "h800", "h20", "gh200", "a100", "a800", "v100", "l40"};
  return std::any_of(std::begin(kOld), std::end(kOld), [&](std::string_view name) { return gpu.starts_with(name); });
}

/// 40, 41: the number of hardware queues, which the environment sets.
void judge_connections(const MegatronArgs& args, const Job& job, Errors& errors) {
  if (!args.states_environment) return;
  const auto found = args.environment.find("CUDA_DEVICE_MAX_CONNECTIONS");
  const bool one = found != args.environment.end() && found->second.values.front() == "1";
  const bool sharded = fsdp(args) || args.has("use-torch-fsdp2");
  if (sharded && one)
    errors.push_back({"connections",
                      fmt::format("{}: FSDP needs CUDA_DEVICE_MAX_CONNECTIONS above 1 or unset", found->second.where),
                      {},
                      {"drop the line"}});
  // Releases that recomputed by these names looked for no such variable, and later ones stop at the names.
  const bool early = args.has("checkpoint-activations") || args.has("activations-checkpoint-method");
  const bool needs =
      (tp(job) > 1 || cp(job) > 1) && !sharded && !early && !args.has("overlap-moe-expert-parallel-comm");
  if (needs && !one && before_blackwell(job.gpu))
    errors.push_back({"connections",
                      "tensor or context parallelism before Blackwell needs CUDA_DEVICE_MAX_CONNECTIONS=1",
                      {},
                      {"add `export CUDA_DEVICE_MAX_CONNECTIONS=1`"}});
}

}  // namespace

Errors megatron_mistakes(const MegatronArgs& args, const LaunchJob& job, int release) {
  Errors errors;
  if (!job.model) return errors;  // a recipe decides the rest
  for (const std::span<const MegatronMistake> rows :
       {std::span<const MegatronMistake>(kMistakes), parser_mistakes(args)})
    for (const MegatronMistake& row : rows) {
      if ((release > 0 && release < row.since) || !row.broken(args, job)) continue;
      const std::string where = args.where(row.flag);
      Error error{std::string(row.code),
                  where.empty() ? std::string(row.text) : fmt::format("{}: {}", where, row.text),
                  {},
                  {}};
      if (!row.help.empty()) error.help.emplace_back(row.help);
      errors.push_back(std::move(error));
    }
  judge_choices(args, errors);
  judge_connections(args, job, errors);
  return errors;
}

}  // namespace plan
