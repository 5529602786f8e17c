// From Megatron-LM's arguments to training and layout; what is not stated takes Megatron's default, and says so.
// Tested by tests/launch/files_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "cli/launch/megatron.hpp"
#include "formulas/names.hpp"
#include "formulas/partition.hpp"
#include "planner/layout_text.hpp"
#include "planner/rules/frameworks.hpp"

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

void training(Builder& builder) {
  const MegatronArgs& args = builder.args;
  LaunchJob& job = builder.job;
  Training training;
  training.stack = framework_row(Framework::Megatron).stack;
  stack(args, training.stack);
  training.seq = builder.count("seq-length", "seq", job.model ? static_cast<int>(job.model->default_seq) : 4096);
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
  training.offload = megatron_offload(args, job);
  training.dropout = job.model ? job.model->dropout : 0;
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

/// Chunks per rank: stated, or from the layers of a chunk.
int virtual_stages(Builder& builder, int pp, int depth) {
  const MegatronArgs& args = builder.args;
  if (args.has("num-virtual-stages-per-pipeline-rank"))
    return builder.count("num-virtual-stages-per-pipeline-rank", "vp", 1);
  const char* flag = "num-layers-per-virtual-pipeline-stage";
  if (!args.has(flag)) return 1;
  const int each = builder.count(flag, "layers_per_chunk", 1);
  if (depth % pp == 0 && depth / pp % each == 0) return depth / pp / each;
  builder.wrong(flag, fmt::format("{} does not divide the {} layers of a stage", each, depth / std::max(1, pp)));
  return 1;
}

/// `--pipeline-model-parallel-layout`; empty after a mistake.
std::vector<int> listed_chunks(Builder& builder, int pp, int depth, int mtp) {
  const char* flag = "pipeline-model-parallel-layout";
  const MegatronArgs& args = builder.args;
  Result<PipelineLayout> read = read_pipeline_layout(args.text(flag), depth, mtp, pp);
  if (!read) {
    read.error().front().message = args.where(flag) + ": " + read.error().front().message;
    builder.errors.insert(builder.errors.end(), read.error().begin(), read.error().end());
    return {};
  }
  const int last = static_cast<int>(read->chunks.size()) - 1;
  if (read->mtp >= 0 && read->mtp < last)
    builder.job.notes.push_back(
        {"mtp_stage", fmt::format("{}: the MTP layers of stage {} are counted on the last stage", args.where(flag),
                                  read->mtp % pp)});
  state(builder.job, "layers", stage_layers_text(read->chunks), args.where(flag));
  return read->chunks;
}

/// First and last stage as stated, the others alike.
std::vector<int> chunks_between_ends(Builder& builder, int pp, int vp, int depth) {
  const char *first_flag = "decoder-first-pipeline-num-layers", *last_flag = "decoder-last-pipeline-num-layers";
  const bool first = builder.args.has(first_flag), last = builder.args.has(last_flag);
  const int front = first ? builder.count(first_flag, "first_stage_layers", 1) : 0;
  const int back = last ? builder.count(last_flag, "last_stage_layers", 1) : 0;
  const int middle = pp - (first ? 1 : 0) - (last ? 1 : 0), left = depth - front - back;
  const bool fits = left >= 0 && (middle > 0 ? left % middle == 0 && left / middle % vp == 0 : left == 0) &&
                    front % vp == 0 && back % vp == 0;
  if (!fits) {
    builder.wrong(first ? first_flag : last_flag,
                  fmt::format("leaves {} layers for {} stages in the middle", left, middle));
    return {};
  }
  std::vector<int> chunks;
  for (int chunk = 0; chunk < pp * vp; ++chunk) {
    const int stage = chunk % pp;
    const int layers = first && stage == 0 ? front : last && stage == pp - 1 ? back : middle > 0 ? left / middle : 0;
    chunks.push_back(layers / vp);
  }
  return chunks;
}

/// Equal chunks, embedding and loss counted as layers where the flags say so.
std::vector<int> divided_chunks(Builder& builder, int pp, int vp, int depth) {
  const bool embedding = builder.args.has("account-for-embedding-in-pipeline-split"),
             loss = builder.args.has("account-for-loss-in-pipeline-split");
  std::vector<int> chunks = equal_chunks(depth, pp * vp, embedding, loss);
  if (chunks.empty())
    builder.errors.push_back({"uneven_stages",
                              fmt::format("{}: {} layers{} do not divide into {} chunks (pp {} x vp {})",
                                          builder.args.where("pipeline-model-parallel-size"), depth,
                                          embedding || loss ? ", embedding and loss counted," : "", pp * vp, pp, vp),
                              {},
                              {"state the stages with `--pipeline-model-parallel-layout`"}});
  return chunks;
}

/// The pipeline: stages, chunks and the layers that stand on them.
void stages(Builder& builder) {
  const MegatronArgs& args = builder.args;
  LaunchJob& job = builder.job;
  const int pp = builder.count("pipeline-model-parallel-size", "pp", 1), depth = job.model ? job.model->depth() : 0;
  int vp = virtual_stages(builder, pp, depth);
  std::vector<int> chunks;
  if (job.model && pp <= 1 << 16 && vp <= 1 << 12) {
    if (args.has("pipeline-model-parallel-layout")) {
      chunks = listed_chunks(builder, pp, depth, job.model->mtp.depth);
      if (!chunks.empty()) vp = static_cast<int>(chunks.size()) / pp;
    } else if (args.has("decoder-first-pipeline-num-layers") || args.has("decoder-last-pipeline-num-layers")) {
      chunks = chunks_between_ends(builder, pp, vp, depth);
    } else {
      chunks = divided_chunks(builder, pp, vp, depth);
    }
  }
  job.fixed.pp = pp, job.fixed.vp = vp;
  job.fixed.schedule = vp > 1 ? Schedule::Interleaved : Schedule::OneFOneB;
  if (pp > 1 && !chunks.empty()) job.fixed.chunk_layers = std::move(chunks);
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
        if (const auto module = parse(kRecomputeModuleNames, word); module && !(*module & (kRecomputeOps | kRecomputeMlpActivation)))
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

void experts(Builder& builder) {
  const bool moe = builder.job.model && builder.job.model->moe();
  Fixed& fixed = builder.job.fixed;
  fixed.ep =
      moe || builder.args.has("expert-model-parallel-size") ? builder.count("expert-model-parallel-size", "ep", 1) : 1;
  fixed.etp = moe || builder.args.has("expert-tensor-parallel-size")
                  ? builder.count("expert-tensor-parallel-size", "etp", *fixed.tp)
                  : 1;
}

}  // namespace

Result<LaunchJob> megatron_job(const MegatronArgs& args, const LaunchFacts& facts) {
  Builder builder{args};
  LaunchJob& job = builder.job;
  job.format = args.format;
  job.framework = Framework::Megatron;
  job.gpus = static_cast<int>(facts.gpus());
  job.gpu = facts.gpu;
  if (job.gpus > 0) state(job, "gpus", fmt::format("{}", job.gpus), facts.gpus_where);
  const bool names_model = args.states_environment || args.has("num-layers") || facts.model;
  if (names_model) {  // a dialect's overrides may leave the model to a recipe
    Result<Model> model = megatron_model(args, facts, job.notes);
    if (!model) return fail(model.error());
    job.model = std::move(*model);
    job.model_name = job.model->name;
    state(job, "model", job.model_name, args.has("num-layers") ? args.where("num-layers") : facts.model_where);
  }
  training(builder);
  job.fixed.tp = builder.count("tensor-model-parallel-size", "tp", 1);
  job.fixed.sequence_parallel = args.has("sequence-parallel") && *job.fixed.tp > 1;
  if (args.has("sequence-parallel"))
    state(job, "sp", *job.fixed.sequence_parallel ? "on" : "off", args.where("sequence-parallel"));
  else
    assume(job, "sp", "off", "Megatron-LM");
  stages(builder);
  context(builder);
  experts(builder);
  sharding(builder);
  recompute(builder);
  batch(builder);
  Errors mistakes = megatron_mistakes(args, job);
  builder.errors.insert(builder.errors.end(), mistakes.begin(), mistakes.end());
  if (!builder.errors.empty()) return fail(std::move(builder.errors));
  return std::move(job);
}

}  // namespace plan
