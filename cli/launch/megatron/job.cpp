// From Megatron-LM's arguments to training and layout; what is not stated takes Megatron's default, and says so.
// Tested by tests/launch/files_test.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>

#include "cli/launch/job/lora_targets.hpp"
#include "cli/launch/megatron/builder.hpp"
#include "cli/launch/megatron/counted.hpp"
#include "cli/launch/megatron/hybrid.hpp"
#include "cli/launch/megatron/megatron.hpp"
#include "cli/terminal/cuda_graphs.hpp"
#include "cli/terminal/words.hpp"
#include "formulas/names.hpp"
#include "formulas/partition.hpp"
#include "planner/rules/frameworks.hpp"
#include "presets/quantity.hpp"

namespace plan {
namespace {

using megatron::Builder;

double width(const std::string& dtype, double otherwise) {
  if (dtype == "fp32" || dtype == "float32") return 4;
  if (dtype == "bf16" || dtype == "fp16" || dtype == "bfloat16" || dtype == "float16") return 2;
  return dtype == "fp8" || dtype == "uint8" ? 1 : otherwise;
}

constexpr std::string_view kInferenceGraph = "full_iteration_inference";  // nothing of a training

/// Graphs by any of the flags that releases had for them. No module named means the whole layer.
CudaGraphs cuda_graphs(const MegatronArgs& args) {
  const std::string impl = args.text("cuda-graph-impl");
  const bool on = (!impl.empty() && impl != "none") || args.has("enable-cuda-graph") || args.has("external-cuda-graph");
  bool inference = false;
  CudaGraphs graphs{.iteration = impl == "full_iteration"};
  if (!on || graphs.iteration) return graphs;
  for (const char* flag : {"cuda-graph-modules", "cuda-graph-scope"}) {
    const auto given = args.given.find(flag);
    if (given == args.given.end()) continue;
    for (const std::string& value : given->second.values)
      for (const std::string_view word : split(value, ",")) {
        if (word == "full_iteration") return {.iteration = true};
        inference = inference || word == kInferenceGraph;
        if (const std::optional<GraphScope> scope = parse(kGraphScopeNames, word))
          graphs.scopes = static_cast<std::uint16_t>(graphs.scopes | *scope);
      }
  }
  if (graphs.scopes == 0 && !inference)
    for (const Named<GraphScope>& row : kGraphScopeNames)
      graphs.scopes = static_cast<std::uint16_t>(graphs.scopes | row.value);
  return graphs;
}

/// Names words that are no part of a layer: without them, what is captured would be another thing in silence.
void graph_words(Builder& builder) {
  constexpr std::string_view kWhole[] = {"full", "full_iteration", kInferenceGraph};
  for (const char* flag : {"cuda-graph-modules", "cuda-graph-scope"})
    if (const auto given = builder.args.given.find(flag); given != builder.args.given.end())
      for (const std::string& value : given->second.values)
        for (const std::string_view word : split(value, ","))
          if (!parse(kGraphScopeNames, word) &&
              std::find(std::begin(kWhole), std::end(kWhole), word) == std::end(kWhole))
            unused(builder.job, "not_used",
                   fmt::format("{}: `--{} {}`: no part of a layer is called so", given->second.where, flag, word));
}

void stack(const MegatronArgs& args, Stack& stack) {
  const CudaGraphs graphs = cuda_graphs(args);
  stack.cuda_graphs = graphs.iteration, stack.graph_scopes = graphs.scopes;
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
  // MindSpeed and other forks put a fused kernel into Megatron's own layers; Megatron core leaves those unfused.
  const bool forks_kernel = args.fork && args.has("use-flash-attn");
  stack.flash_attention = (stack.transformer_engine || forks_kernel) && args.text("attention-backend") != "unfused";
  // The native fused loss works on fp32 logits as the unfused one does; only TransformerEngine's keeps bf16.
  const bool fused = args.has("cross-entropy-loss-fusion") && args.text("cross-entropy-fusion-impl") == "te";
  stack.cross_entropy = fused ? CrossEntropy::FusedInPlace : CrossEntropy::Unfused;
  stack.dedup_dispatch = args.text("moe-token-dispatcher-type") == "flex" || args.has("moe-enable-deepep");
  stack.fused_router = args.has("moe-router-fusion");
  if (args.states_environment) {
    stack.expandable_segments = false;
    for (const char* name : {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"})
      if (const auto found = args.environment.find(name); found != args.environment.end())
        stack.expandable_segments |= found->second.values.front().find("expandable_segments:True") != std::string::npos;
  }
  // Experts work on as many rows as they may hold, filled up with nothing.
  if (args.has("moe-pad-expert-input-to-capacity"))
    stack.routing_imbalance =
        std::clamp(std::strtod(args.text("moe-expert-capacity-factor").c_str(), nullptr), 1.0, 1000.0);
  if (args.has("use-torch-fsdp2")) stack.states = StateLayout::Fsdp2;
}

void read_optimizer(Builder& builder, Training& training) {
  const std::string word = builder.args.text("optimizer"), where = builder.args.where("optimizer");
  if (word.empty()) return;
  if (word == "sgd")
    training.optimizer =
        parse_number(builder.args.text("sgd-momentum")) == 0.0 ? Optimizer::Sgd : Optimizer::SgdMomentum;
  else if (word.find("muon") != std::string::npos)
    training.optimizer = Optimizer::Muon;
  else if (word != "adam")
    return unused(builder.job, "optimizer_not_modelled",
                  fmt::format("{}: optimizer `{}` is counted as adam", where, word));
  state(builder.job, "optimizer", std::string(name(training.optimizer)), where);
}

void training(Builder& builder) {
  const MegatronArgs& args = builder.args;
  LaunchJob& job = builder.job;
  Training training;
  training.stack = framework_row(Framework::Megatron).stack;
  graph_words(builder);
  stack(args, training.stack);
  training.seq = builder.count("seq-length", "seq", job.model ? static_cast<int>(job.model->default_seq) : 4096);
  job.states_seq = args.has("seq-length");
  megatron::formats(builder, training);
  read_optimizer(builder, training);
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
  std::string flag = args.has("zero-stage") ? "zero-stage" : "use-distributed-optimizer";
  int zero = args.has("zero-stage") ? builder.count("zero-stage", "zero", 0, 0) : args.has(flag) ? 1 : 0;
  if (zero > 3) builder.wrong("zero-stage", "takes 0, 1, 2 or 3");
  if (zero == 0 && args.has("deepspeed") && args.has("bf16")) {  // DeepSpeed runtime/bf16_optimizer.py
    zero = 1;
    builder.job.notes.push_back(
        {"bf16_shards", fmt::format("{}: DeepSpeed's optimizer for bf16 shards its states at stage 0, too: zero 1",
                                    args.where(args.has("zero-stage") ? "zero-stage" : "deepspeed"))});
  }
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
  fixed.zero = std::min(zero, 3);
  if (flag == "zero-stage")
    ;  // stated as it was read
  else if (args.has(flag))
    state(builder.job, "zero", fmt::format("{}", zero), args.where(flag));
  else
    assume(builder.job, "zero", fmt::format("{}", zero), zero > 0 ? "DeepSpeed's bf16 optimizer" : "Megatron-LM");
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

/// Without stages the flag orders nothing.
void order(Builder& builder) {
  LaunchJob& job = builder.job;
  constexpr const char* kFlag = "use-tp-pp-dp-mapping";
  const bool data = builder.args.has(kFlag) && job.fixed.pp.value_or(1) > 1;
  job.fixed.order = data ? AxisOrder::DataOutermost : AxisOrder::PipelineOutermost;
  if (data) state(job, "order", std::string(name(*job.fixed.order)), builder.args.where(kFlag));
}

constexpr Named<CpKind> kCpWords[] = {
    {CpKind::Ring, "p2p"}, {CpKind::AllGather, "all_gather"}, {CpKind::Ulysses, "a2a"}, {CpKind::Hybrid, "a2a+p2p"}};

/// One word for all layers, or one for each.
void context_kind(Builder& builder) {
  constexpr const char* kFlag = "cp-comm-type";
  const MegatronArgs& args = builder.args;
  LaunchJob& job = builder.job;
  if (!args.has(kFlag)) return assume(job, "cp_kind", "ring", "Megatron-LM");
  const std::vector<std::string>& words = args.given.find(kFlag)->second.values;
  for (const std::string& word : words)
    if (!parse(kCpWords, word))
      return builder.wrong(kFlag, fmt::format("takes p2p, all_gather, a2a or a2a+p2p, not `{}`", word));
  if (words.empty()) return;
  job.fixed.cp_kind = parse(kCpWords, words.front());
  state(job, "cp_kind", std::string(name(*job.fixed.cp_kind)), args.where(kFlag));
  if (std::any_of(words.begin(), words.end(), [&](const std::string& word) { return word != words.front(); }))
    unused(job, "not_used",
           fmt::format("{}: `--{}`: every layer is counted with the first one's {}", args.where(kFlag), kFlag,
                       words.front()));
}

void context(Builder& builder) {
  const MegatronArgs& args = builder.args;
  Fixed& fixed = builder.job.fixed;
  fixed.cp = builder.count("context-parallel-size", "cp", 1);
  fixed.cp_kind = CpKind::Ring, fixed.cp_ulysses = 1;
  if (*fixed.cp == 1) return;
  context_kind(builder);
  if (fixed.cp_kind != CpKind::Hybrid || !args.has("hierarchical-context-parallel-sizes")) return;
  const std::vector<std::string>& sizes = args.given.find("hierarchical-context-parallel-sizes")->second.values;
  fixed.cp_ulysses = std::max(1, sizes.empty() ? 1 : std::atoi(sizes.front().c_str()));
}

void batch(Builder& builder) {
  const MegatronArgs& args = builder.args;
  LaunchJob& job = builder.job;
  const bool packed = args.has("max-tokens-per-gpu") || args.fork;
  if (!args.has("micro-batch-size") && !packed) {
    Error error{"missing_flag", "`--micro-batch-size` is missing; Megatron-LM has no default", {}, {}};
    builder.errors.push_back(std::move(error));
  }
  job.fixed.micro_batch = builder.count("micro-batch-size", "micro_batch", 1);
  if (args.has("global-batch-size")) {
    job.training->global_batch = builder.count("global-batch-size", "global_batch", 1);
    job.states_global_batch = true;
    return;
  }
  // DeepSpeed's first Megatron-LM counts micro-batches of a rank (DeepSpeedExamples,
  // Megatron-LM-v1.1.5-3D_parallelism).
  const std::int64_t steps = args.integer("gas", 1);
  if (args.has("gas") && (steps < 1 || steps > kMostRanks))
    return builder.wrong("gas", fmt::format("takes a number of at least 1, not `{}`", args.text("gas")));
  job.rank_batch = RankBatch{.steps = steps, .sequences = 0, .where = args.where("micro-batch-size")};
  const std::int64_t grid = std::int64_t{*job.fixed.tp} * *job.fixed.pp * *job.fixed.cp;
  if (job.gpus > 0 && job.gpus % grid == 0) {
    job.training->global_batch = job.gpus / grid * *job.fixed.micro_batch * steps;
    job.states_global_batch = true;
    assume(job, "global_batch", fmt::format("{}", job.training->global_batch),
           steps > 1 ? "micro_batch x dp x gas" : "Megatron-LM: micro_batch x dp");
  }
}

/// Adapters, where flags or a dialect state them.
void task(Builder& builder) {
  const MegatronArgs& args = builder.args;
  LaunchJob& job = builder.job;
  if (!args.task) return;
  job.training->task = *args.task;
  state(job, "task", std::string(name(*args.task)), args.task_where);
  if (!job.training->adapters()) return;
  constexpr const char* kTargets = "lora-target-modules";
  if (const auto given = args.given.find(kTargets); given != args.given.end())
    if (const std::optional<LoraTargets> targets = lora_targets(given->second.values)) {
      job.training->lora.attention = targets->attention, job.training->lora.ffn = targets->ffn;
      if (!targets->counted_as.empty())
        unused(job, "not_used", fmt::format("{}: `--{}`: {}", given->second.where, kTargets, targets->counted_as));
    }
  if (args.lora_rank > 0 && args.lora_rank <= 1 << 20) {
    job.training->lora.rank = args.lora_rank;
    if (args.lora_where.empty())
      assume(job, "lora_rank", fmt::format("{}", args.lora_rank), "default of the tool");
    else
      state(job, "lora_rank", fmt::format("{}", args.lora_rank), args.lora_where);
  } else {
    assume(job, "lora_rank", fmt::format("{}", job.training->lora.rank), job.format);
    job.inputs.back().guessed = true;
  }
}

/// Flags that count something: a word, zero or less is Megatron-LM's mistake as well.
void numbers(Builder& builder) {
  constexpr const char* kCounts[] = {"num-layers",
                                     "hidden-size",
                                     "ffn-hidden-size",
                                     "num-attention-heads",
                                     "num-query-groups",
                                     "kv-channels",
                                     "kv-lora-rank",
                                     "qk-head-dim",
                                     "qk-pos-emb-head-dim",
                                     "v-head-dim",
                                     "num-experts",
                                     "moe-router-topk",
                                     "moe-ffn-hidden-size",
                                     "vocab-size",
                                     "padded-vocab-size",
                                     "make-vocab-size-divisible-by",
                                     "max-position-embeddings"};
  for (const char* flag : kCounts) {
    if (!builder.args.has(flag)) continue;
    const std::optional<std::int64_t> value = builder.args.integer(flag);
    const bool none = builder.args.text(flag) == "None";
    if (none || (value && *value >= 1 && *value <= 1'000'000'000)) continue;
    builder.wrong(flag, fmt::format("takes a number of at least 1, not `{}`", builder.args.text(flag)));
  }
  for (const char* flag : {"q-lora-rank", "mtp-num-layers", "recompute-num-layers", "cpu-offloading-num-layers",
                           "moe-shared-expert-intermediate-size"})
    if (builder.args.has(flag) && builder.args.text(flag) != "None" && builder.args.integer(flag).value_or(-1) < 0)
      builder.wrong(flag, fmt::format("takes a number of at least 0, not `{}`", builder.args.text(flag)));
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
  state_gpus(job, facts);
  job.unused = args.unused;
  numbers(builder);
  if (!builder.errors.empty()) return fail(std::move(builder.errors));
  if (std::optional<Error> other = not_a_decoder(args)) return fail(*std::move(other));
  const char* hybrid = megatron::hybrid_flag(args);
  const char* depth = args.has("num-layers") ? "num-layers" : hybrid;
  const bool names_model = args.states_environment || depth != nullptr || facts.model;
  if (names_model) {  // a dialect's overrides may leave the model to a recipe
    Result<Model> model = megatron_model(args, facts, job.notes);
    if (!model) return fail(model.error());
    job.model = std::move(*model);
    job.model_name = job.model->name;
    state(job, "model", job.model_name, depth != nullptr ? args.where(depth) : facts.model_where);
    tell_words(args, job);
  }
  training(builder);
  job.fixed.tp = builder.count("tensor-model-parallel-size", "tp", 1);
  job.fixed.sequence_parallel = args.has("sequence-parallel") && *job.fixed.tp > 1;
  if (args.has("sequence-parallel"))
    state(job, "sequence_parallel", *job.fixed.sequence_parallel ? "on" : "off", args.where("sequence-parallel"));
  else
    assume(job, "sequence_parallel", "off", "Megatron-LM");
  megatron::stages(builder);
  order(builder);
  context(builder);
  experts(builder);
  sharding(builder);
  megatron::recompute(builder);
  batch(builder);
  task(builder);
  tell_counted_flags(args, job);
  if (args.fork && args.has("bf16") && args.has("fp16")) builder.wrong("fp16", "excludes `--bf16`");
  Errors mistakes = args.fork ? Errors{} : megatron_mistakes(args, job, facts.megatron);
  // A word that is no number is one mistake, though the parser would stop at it as well.
  const auto subject = [](const Error& error) { return error.message.substr(0, error.message.find("` ")); };
  std::erase_if(mistakes, [&](const Error& mistake) {
    return mistake.code == "unknown_word" &&
           std::any_of(builder.errors.begin(), builder.errors.end(), [&](const Error& error) {
             return error.code == "bad_value" && subject(error) == subject(mistake);
           });
  });
  builder.errors.insert(builder.errors.end(), mistakes.begin(), mistakes.end());
  if (!builder.errors.empty()) return fail(std::move(builder.errors));
  return std::move(job);
}

}  // namespace plan
