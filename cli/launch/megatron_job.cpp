// From Megatron-LM's arguments to training and layout; what is not stated takes Megatron's default, and says so.
// Tested by tests/launch/megatron_read_test.cpp.
#include <fmt/format.h>

#include <algorithm>

#include "cli/launch/megatron.hpp"
#include "cli/report/layout_text.hpp"
#include "formulas/names.hpp"
#include "planner/frameworks.hpp"

namespace plan {
namespace {

struct Builder {
  const MegatronArgs& args;
  LaunchJob job{};
  Errors errors{};

  /// A positive integer flag with Megatron's default.
  int count(const char* flag, const char* key, int otherwise, int least = 1) {
    if (!args.has(flag)) {
      assume(job, key, fmt::format("{}", otherwise), "Megatron-LM");
      return otherwise;
    }
    const std::optional<std::int64_t> value = args.integer(flag);
    if (!value || *value < least || *value > (1 << 24)) {
      wrong(flag, fmt::format("takes a number of at least {}, not `{}`", least, args.text(flag)));
      return otherwise;
    }
    state(job, key, fmt::format("{}", *value), args.where(flag));
    return static_cast<int>(*value);
  }

  void wrong(const char* flag, std::string why) {
    Error error{"bad_value", fmt::format("{}: `--{}` {}", args.where(flag), flag, why), {}, {}};
    if (args.text(flag).find('$') != std::string::npos)
      error.help.push_back("the script does not set it: write its value, or a default as ${NAME:-8}");
    errors.push_back(std::move(error));
  }
  /// A switch: stated where present, Megatron's `off` otherwise.
  bool on(const char* flag) const { return args.has(flag); }
};

Precision precision(const MegatronArgs& args) {
  if (args.has("fp4-format")) return Precision::Nvfp4;
  if (args.has("fp8-format") || args.has("fp8-hybrid")) {
    const std::string recipe = args.text("fp8-recipe");
    if (recipe == "tensorwise") return Precision::Fp8Tensorwise;
    if (recipe == "mxfp8") return Precision::Mxfp8;
    if (recipe == "blockwise") return Precision::Fp8Blockwise;
    return Precision::Fp8Delayed;
  }
  if (args.has("bf16")) return Precision::Bf16;
  return args.has("fp16") ? Precision::Fp16 : Precision::Fp32;
}

double width(const std::string& dtype, double otherwise) {
  if (dtype == "fp32" || dtype == "float32") return 4;
  if (dtype == "bf16" || dtype == "fp16" || dtype == "bfloat16" || dtype == "float16") return 2;
  return dtype == "fp8" || dtype == "uint8" ? 1 : otherwise;
}

void stack(const MegatronArgs& args, Stack& stack) {
  stack.overlap_grad_reduce = args.has("overlap-grad-reduce");
  stack.overlap_param_gather = args.has("overlap-param-gather");
  stack.tp_overlap = args.has("tp-comm-overlap");
  stack.ep_overlap = args.has("overlap-moe-expert-parallel-comm");
  stack.p2p_overlap = !args.has("no-overlap-p2p-communication");
  stack.gradient_fusion = !args.has("no-gradient-accumulation-fusion");
  stack.deterministic = args.has("deterministic-mode");
  stack.grouped_gemm = args.has("moe-grouped-gemm") || !args.has("num-experts");
  stack.fp8_param_gather = args.has("fp8-param-gather");
  stack.transformer_engine = args.text("transformer-impl") != "local";
  stack.flash_attention = stack.transformer_engine && args.text("attention-backend") != "unfused";
  // The native fused loss works on fp32 logits as the unfused one does; only TransformerEngine's keeps bf16.
  const bool fused = args.has("cross-entropy-loss-fusion") && args.text("cross-entropy-fusion-impl") == "te";
  stack.cross_entropy = fused ? CrossEntropy::FusedInPlace : CrossEntropy::Unfused;
  stack.dedup_dispatch = args.text("moe-token-dispatcher-type") == "flex" || args.has("moe-enable-deepep");
  if (args.states_environment) {
    stack.expandable_segments = false;
    for (const char* name : {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"})
      if (const auto found = args.environment.find(name); found != args.environment.end())
        stack.expandable_segments |= found->second.values.front().find("expandable_segments:True") != std::string::npos;
  }
  if (args.has("use-megatron-fsdp") || args.has("use-custom-fsdp")) stack.states = StateLayout::MegatronFsdp;
  if (args.has("use-torch-fsdp2")) stack.states = StateLayout::Fsdp2;
}

void training(Builder& builder, const Model& model) {
  const MegatronArgs& args = builder.args;
  LaunchJob& job = builder.job;
  Training training;
  training.stack = framework_row(Framework::Megatron).stack;
  stack(args, training.stack);
  training.seq = builder.count("seq-length", "seq", static_cast<int>(model.default_seq));
  job.states_seq = args.has("seq-length");
  training.precision = precision(args);
  state(job, "precision", std::string(name(training.precision)),
        args.where(args.has("fp4-format")   ? "fp4-format"
                   : args.has("fp8-format") ? "fp8-format"
                   : args.has("bf16")       ? "bf16"
                                            : "fp16"));
  const std::string optimizer = args.text("optimizer");
  if (optimizer == "sgd")
    training.optimizer = Optimizer::SgdMomentum;
  else if (optimizer.find("muon") != std::string::npos)
    training.optimizer = Optimizer::Muon;
  else if (!optimizer.empty() && optimizer != "adam")
    job.notes.push_back({"optimizer_not_modelled",
                         fmt::format("{}: optimizer `{}` is counted as adam", args.where("optimizer"), optimizer)});
  training.grad_bytes = args.has("grad-reduce-in-bf16") || (training.precision == Precision::Fp16 &&
                                                            !args.has("accumulate-allreduce-grads-in-fp32"))
                            ? 2
                            : 4;
  training.precision_aware = args.has("use-precision-aware-optimizer");
  if (training.precision_aware) {
    if (width(args.text("main-grads-dtype"), 4) == 2) training.grad_bytes = 2;
    training.master_bytes = width(args.text("main-params-dtype"), 4);
    training.moment1_bytes = width(args.text("exp-avg-dtype"), 4);
    training.moment2_bytes = width(args.text("exp-avg-sq-dtype"), 4);
  }
  if (args.has("optimizer-cpu-offload"))
    training.optimizer_offload =
        args.has("optimizer-offload-fraction") ? std::atof(args.text("optimizer-offload-fraction").c_str()) : 1.0;
  training.dropout = model.dropout;
  job.training = training;
}

void sharding(Builder& builder) {
  const MegatronArgs& args = builder.args;
  Fixed& fixed = builder.job.fixed;
  std::string flag = "use-distributed-optimizer";
  int zero = args.has(flag) ? 1 : 0;
  if (args.has("use-megatron-fsdp") || args.has("use-custom-fsdp")) {
    flag = args.has("data-parallel-sharding-strategy") ? "data-parallel-sharding-strategy"
           : args.has("use-megatron-fsdp")             ? "use-megatron-fsdp"
                                                       : "use-custom-fsdp";
    const std::string strategy = args.text("data-parallel-sharding-strategy");
    zero = strategy == "no_shard" ? 0 : strategy == "optim" ? 1 : strategy == "optim_grads" ? 2 : 3;
  } else if (args.has("use-torch-fsdp2")) {
    flag = "use-torch-fsdp2";
    zero = args.has("torch-fsdp2-no-reshard-after-forward") ? 2 : 3;
  }
  fixed.zero = zero;
  if (args.has(flag))
    state(builder.job, "zero", fmt::format("{}", zero), args.where(flag));
  else
    assume(builder.job, "zero", "0", "Megatron-LM");
  const int instances = args.has("num-distributed-optimizer-instances")
                            ? builder.count("num-distributed-optimizer-instances", "copies", 1)
                            : 1;
  if (instances <= 1) {
    fixed.shard = 0;
    return;
  }
  const int grid = fixed.tp.value_or(1) * fixed.pp.value_or(1);
  if (builder.job.gpus > 0 && builder.job.gpus % grid == 0 && builder.job.gpus / grid % instances == 0)
    fixed.shard = builder.job.gpus / grid / instances;
  else if (builder.job.gpus > 0)
    builder.wrong("num-distributed-optimizer-instances",
                  fmt::format("{} does not divide the {} data-parallel and context ranks", instances,
                              builder.job.gpus / std::max(1, grid)));
  else
    builder.job.notes.push_back({"shard_unknown",
                                 "how many ranks share one copy of the optimizer follows from the "
                                 "number of GPUs, which no file states"});
}

void context(Builder& builder) {
  const MegatronArgs& args = builder.args;
  Fixed& fixed = builder.job.fixed;
  fixed.cp = builder.count("context-parallel-size", "cp", 1);
  fixed.cp_kind = CpKind::Ring, fixed.cp_ulysses = 1;
  if (*fixed.cp == 1) return;
  const std::string kind = args.has("cp-comm-type") ? args.text("cp-comm-type") : "p2p";
  if (kind == "p2p")
    fixed.cp_kind = CpKind::Ring;
  else if (kind == "all_gather")
    fixed.cp_kind = CpKind::AllGather;
  else if (kind == "a2a")
    fixed.cp_kind = CpKind::Ulysses;
  else if (kind == "a2a+p2p")
    fixed.cp_kind = CpKind::Hybrid;
  else
    builder.wrong("cp-comm-type", fmt::format("takes p2p, all_gather, a2a or a2a+p2p, not `{}`", kind));
  if (args.has("cp-comm-type"))
    state(builder.job, "cp_kind", std::string(name(*fixed.cp_kind)), args.where("cp-comm-type"));
  else
    assume(builder.job, "cp_kind", "ring", "Megatron-LM");
  if (fixed.cp_kind != CpKind::Hybrid || !args.has("hierarchical-context-parallel-sizes")) return;
  const std::vector<std::string>& sizes = args.given.find("hierarchical-context-parallel-sizes")->second.values;
  fixed.cp_ulysses = std::max(1, sizes.empty() ? 1 : std::atoi(sizes.front().c_str()));
}

/// Chunks of the pipeline: from a layout string, the two ends, or equal.
void stages(Builder& builder, const Model& model) {
  const MegatronArgs& args = builder.args;
  Fixed& fixed = builder.job.fixed;
  const int pp = builder.count("pipeline-model-parallel-size", "pp", 1), depth = model.depth();
  fixed.pp = pp;
  int vp = 1;
  if (args.has("num-virtual-stages-per-pipeline-rank")) {
    vp = builder.count("num-virtual-stages-per-pipeline-rank", "vp", 1);
  } else if (args.has("num-layers-per-virtual-pipeline-stage")) {
    const int each = builder.count("num-layers-per-virtual-pipeline-stage", "layers_per_chunk", 1);
    if (depth % pp == 0 && depth / pp % each == 0)
      vp = depth / pp / each;
    else
      builder.wrong("num-layers-per-virtual-pipeline-stage",
                    fmt::format("{} does not divide the {} layers of a stage", each, depth / std::max(1, pp)));
  }
  std::vector<int> chunks;
  if (args.has("pipeline-model-parallel-layout")) {
    const char* flag = "pipeline-model-parallel-layout";
    Result<std::vector<int>> read = read_pipeline_layout(args.text(flag), depth, model.mtp.depth);
    if (!read) {
      read.error().front().message = args.where(flag) + ": " + read.error().front().message;
      builder.errors.insert(builder.errors.end(), read.error().begin(), read.error().end());
    } else if (static_cast<int>(read->size()) % pp != 0) {
      builder.wrong(flag, fmt::format("has {} stages, no multiple of pp {}", read->size(), pp));
    } else {
      chunks = *read;
      vp = static_cast<int>(chunks.size()) / pp;
      state(builder.job, "layers", stage_layers_text(chunks), args.where(flag));
    }
  } else if (args.has("decoder-first-pipeline-num-layers") || args.has("decoder-last-pipeline-num-layers")) {
    const bool first = args.has("decoder-first-pipeline-num-layers"),
               last = args.has("decoder-last-pipeline-num-layers");
    const int front = first ? builder.count("decoder-first-pipeline-num-layers", "first_stage_layers", 1) : 0;
    const int back = last ? builder.count("decoder-last-pipeline-num-layers", "last_stage_layers", 1) : 0;
    const int middle = pp - (first ? 1 : 0) - (last ? 1 : 0), left = depth - front - back;
    const bool fits = left >= 0 && (middle > 0 ? left % middle == 0 && left / middle % vp == 0 : left == 0) &&
                      front % vp == 0 && back % vp == 0;
    if (!fits)
      builder.wrong(first ? "decoder-first-pipeline-num-layers" : "decoder-last-pipeline-num-layers",
                    fmt::format("leaves {} layers for {} stages in the middle", left, middle));
    for (int chunk = 0; fits && chunk < pp * vp; ++chunk) {
      const int stage = chunk % pp;
      const int layers = first && stage == 0 ? front : last && stage == pp - 1 ? back : middle > 0 ? left / middle : 0;
      chunks.push_back(layers / vp);
    }
  } else {
    const bool embedding = args.has("account-for-embedding-in-pipeline-split"),
               loss = args.has("account-for-loss-in-pipeline-split");
    chunks = equal_chunks(depth, pp * vp, embedding, loss);
    if (chunks.empty())
      builder.errors.push_back({"uneven_stages",
                                fmt::format("{}: {} layers{} do not divide into {} chunks (pp {} x vp {})",
                                            args.where("pipeline-model-parallel-size"), depth,
                                            embedding || loss ? ", embedding and loss counted," : "", pp * vp, pp, vp),
                                {},
                                {"state the stages with `--pipeline-model-parallel-layout`"}});
  }
  fixed.vp = vp;
  fixed.schedule = vp > 1 ? Schedule::Interleaved : Schedule::OneFOneB;
  if (pp > 1 && !chunks.empty()) fixed.chunk_layers = std::move(chunks);
}

void recompute(Builder& builder) {
  const MegatronArgs& args = builder.args;
  Recompute out;
  std::string granularity = args.text("recompute-granularity");
  if (args.has("recompute-activations") && granularity.empty()) granularity = "selective";
  if (granularity == "full") {
    out.kind = RecomputeKind::Full;
    const int layers = static_cast<int>(args.integer("recompute-num-layers", 1));
    if (args.text("recompute-method") == "block")
      out.layers = layers;
    else
      out.uniform = layers > 1 ? layers : 0;
  } else if (granularity == "selective") {
    out.kind = RecomputeKind::Selective;
    const auto modules = args.given.find("recompute-modules");
    if (modules == args.given.end())
      out.modules = kRecomputeCoreAttention;
    else
      for (const std::string& word : modules->second.values) {
        if (const auto module = parse(kRecomputeModuleNames, word); module && *module != kRecomputeOps)
          out.modules = static_cast<std::uint16_t>(out.modules | *module);
        else
          builder.job.notes.push_back({"recompute_not_modelled", fmt::format("{}: recomputing `{}` is not modelled",
                                                                             modules->second.where, word)});
      }
  } else if (!granularity.empty()) {
    builder.wrong("recompute-granularity", fmt::format("takes full or selective, not `{}`", granularity));
  }
  builder.job.fixed.recompute = out;
  if (!granularity.empty()) {
    const char* flag = args.has("recompute-granularity") ? "recompute-granularity" : "recompute-activations";
    state(builder.job, "recompute", recompute_text(out), args.where(flag));
  } else {
    assume(builder.job, "recompute", "none", "Megatron-LM");
  }
}

void batch(Builder& builder) {
  const MegatronArgs& args = builder.args;
  LaunchJob& job = builder.job;
  if (!args.has("micro-batch-size")) {
    Error error{"missing_flag", "`--micro-batch-size` is missing; Megatron-LM has no default", {}, {}};
    builder.errors.push_back(std::move(error));
  }
  job.fixed.micro_batch = builder.count("micro-batch-size", "micro_batch", 1);
  if (args.has("global-batch-size")) {
    job.training->global_batch = builder.count("global-batch-size", "global_batch", 1);
    job.states_global_batch = true;
    return;
  }
  const std::int64_t grid = std::int64_t{*job.fixed.tp} * *job.fixed.pp * *job.fixed.cp;
  if (job.gpus > 0 && job.gpus % grid == 0) {
    job.training->global_batch = job.gpus / grid * *job.fixed.micro_batch;
    job.states_global_batch = true;
    assume(job, "global_batch", fmt::format("{}", job.training->global_batch), "Megatron-LM: micro_batch x dp");
  }
}

void experts(Builder& builder, const Model& model) {
  Fixed& fixed = builder.job.fixed;
  fixed.ep = model.moe() || builder.args.has("expert-model-parallel-size")
                 ? builder.count("expert-model-parallel-size", "ep", 1)
                 : 1;
  fixed.etp = model.moe() ? builder.count("expert-tensor-parallel-size", "etp", *fixed.tp) : 1;
}

}  // namespace

Result<LaunchJob> megatron_job(const MegatronArgs& args, const LaunchFacts& facts) {
  Builder builder{args};
  LaunchJob& job = builder.job;
  job.format = args.format;
  job.framework = Framework::Megatron;
  job.gpus = facts.gpus();
  job.gpu = facts.gpu;
  if (job.gpus > 0) state(job, "gpus", fmt::format("{}", job.gpus), facts.gpus_where);
  Result<Model> model = megatron_model(args, facts, job.notes);
  if (!model) return fail(model.error());
  job.model = *model;
  job.model_name = model->name;
  state(job, "model", model->name, args.has("num-layers") ? args.where("num-layers") : facts.model_where);
  training(builder, *model);
  job.fixed.tp = builder.count("tensor-model-parallel-size", "tp", 1);
  job.fixed.sequence_parallel = args.has("sequence-parallel") && *job.fixed.tp > 1;
  if (args.has("sequence-parallel"))
    state(job, "sp", *job.fixed.sequence_parallel ? "on" : "off", args.where("sequence-parallel"));
  else
    assume(job, "sp", "off", "Megatron-LM");
  stages(builder, *model);
  context(builder);
  experts(builder, *model);
  sharding(builder);
  recompute(builder);
  batch(builder);
  Errors mistakes = megatron_mistakes(args, job);
  builder.errors.insert(builder.errors.end(), mistakes.begin(), mistakes.end());
  if (!builder.errors.empty()) return fail(std::move(builder.errors));
  return std::move(job);
}

}  // namespace plan
