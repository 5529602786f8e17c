// Flags of Megatron-LM's own parser whose effect is not modelled: what is counted instead, and when they have a say.
// Listed from megatron/training/arguments.py, core/transformer/transformer_config.py,
// core/optimizer/optimizer_config.py and core/distributed/distributed_data_parallel_config.py of core 0.12 to 0.20.
// Tested by tests/launch/megatron_counted_test.cpp.
#include "cli/launch/megatron/counted.hpp"
#include "cli/launch/job/keys.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "cli/launch/job/counted_as.hpp"
#include "cli/launch/megatron/attention.hpp"
#include "cli/launch/megatron/flags.hpp"
#include "cli/launch/megatron/hybrid.hpp"
#include "formulas/parameters.hpp"
#include "presets/suggest.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

/// A name space of its own: the words for when would hide types that are called so.
namespace counted_flags {

/// When a flag has a say: Megatron-LM passes over what a layout without that axis or format states.
enum class When { Always, Tensor, Pipeline, Chunks, Experts, Moe, Narrow, Offload, Sharded, Replicas };

struct CountedFlag {
  CountedAs counted;  ///< `plain` empty: a switch, or every value changes something
  When when = When::Always;
};

using enum When;
constexpr CountedFlag kFlags[] = {
    // the model
    {{"spec", "", "layers of a specification of one's own are counted as the standard ones"}},
    {{"experimental-attention-variant", "gated_delta_net gdn dsa", "this attention is counted as the nearest known"}},
    {{"heterogeneous-layers-config-path", "", "layers that differ are counted as equal"}},
    {{"heterogeneous-layers-config-encoded-json", "", "layers that differ are counted as equal"}},
    {{"megatron-fsdp-version", "1", "the second Megatron-FSDP is counted as the first"}},
    {{"moe-paged-stash", "", "inputs of experts in a paged stash are counted as kept whole"}, Moe},
    {{"enable-mhc-connections", "", "several residual streams are counted as one"}},
    {{"dsa-indexer-loss-coeff", "0 0.0", "what the indexer's own loss takes is not counted"}},
    {{"freeze-all-layers", "", "frozen layers are counted as trained"}},
    {{"logits-load-dir", "", "a teacher's logits are not counted"}},
    {{"perform-rl-step", "", "the rollouts' memory is not counted"}},
    {{"mtp-standalone", "", "prediction layers on ranks of their own are counted beside the loss"}},
    {{"qk-clip", "", "what clipping queries and keys takes is not counted"}},
    // kernels
    {{"attention-backend", "auto flash fused unfused", "attention is counted as a fused kernel"}},
    {{"flash-attention-version", "", "attention is counted as the kernel that the GPU's newest release has"}},
    {{"use-kitchen-attention", "", "attention is counted as a fused kernel"}},
    {{"no-bias-swiglu-fusion", "", "biases and activations are counted as fused"}},
    {{"no-bias-gelu-fusion", "", "biases and activations are counted as fused"}},
    {{"no-bias-dropout-fusion", "", "biases and dropout are counted as fused"}},
    {{"no-rope-fusion", "", "rotary embeddings are counted as fused"}},
    {{"disable-jit-fuser", "", "pointwise operators are counted as fused"}},
    {{"use-transformer-engine-op-fuser", "", "operators that it fuses are counted apart"}},
    {{"fused-residual-rmsnorm", "", "norms are counted apart from the sums before them"}},
    {{"mla-down-proj-fusion", "", "down-projections are counted apart"}},
    {{"mlp-chunks-for-training", "1", "feed-forward layers in pieces are counted whole"}},
    {{"batch-invariant-mode", "", "kernels that do not depend on the batch are counted as quick as others"}},
    {{"deterministic-mode", "", "deterministic kernels are counted as quick as others"}},
    {{"reset-attention-mask", "", "attention within documents is counted over whole sequences"}},
    {{"sft", "", "attention within documents is counted over whole sequences"}},
    {{"hybrid-context-parallel", "", "sequences dealt to context-parallel ranks by length are counted evenly"}},
    {{"disable-mamba-mem-eff-path", "", "activations of Mamba layers are counted as computed again"}},
    {{"output-logit-dtype", "", "logits are counted in the format that the loss's kernel takes"}},
    {{"empty-unused-memory-level", "0", "emptying the allocator's cache is counted as taking no time"}},
    {{"optimizer-cuda-graph", "", "the optimizer's step is counted without a graph"}},
    // number formats
    {{"fp16-lm-cross-entropy", "", "logits of the loss are counted in fp32"}},
    {{"fp32-residual-connection", "", "a residual stream in fp32 is counted in bf16"}},
    {{"fp8-output-proj", "", "an output layer in fp8 is counted in bf16"}},
    {{"disable-fp8-wgrad", "", "gradients of weights are counted in fp8"}, Narrow},
    {{"keep-fp8-transpose-cache", "", "transposes of fp8 weights are counted as made again"}, Narrow},
    {{"reuse-grad-buf-for-mxfp8-param-ag", "", "gathered weights are counted in memory of their own"}, Narrow},
    {{"fp8-quantizer-factory", "", "quantization of one's own is counted as the recipe's"}, Narrow},
    {{"fp4-quantizer-factory", "", "quantization of one's own is counted as the recipe's"}, Narrow},
    {{"te-precision-config-file", "", "formats that differ from layer to layer are counted as one"}},
    {{"kitchen-config-file", "", "formats that differ from layer to layer are counted as one"}},
    {{"kitchen-recipe-number", "", "quantization of one's own is counted as the recipe's"}},
    // the optimizer and its messages
    {{"rampup-batch-size", "", "the batch grows to the stated one, which is counted"}},
    {{"ddp-bucket-size", "", "messages of gradients are counted in Megatron-LM's own buckets"}, Replicas},
    {{"ddp-num-buckets", "", "messages of gradients are counted in Megatron-LM's own buckets"}, Replicas},
    {{"ddp-reduce-scatter-with-fp32-accumulation", "", "gradients are counted as summed on their way"}, Replicas},
    {{"ddp-param-name-patterns-for-fp32-local-accumulation", "", "gradients are counted in one format"}},
    {{"disable-align-grad-reduce", "", "stages are counted as reducing at the same time"}, Pipeline},
    {{"disable-align-param-gather", "", "stages are counted as gathering at the same time"}, Pipeline},
    {{"overlap-param-gather-with-optimizer-step", "", "weights are counted as gathered behind the step"}, Chunks},
    {{"use-sharp", "", "sums inside the switches are not counted"}},
    {{"use-nccl-ub", "", "messages are counted without buffers that are registered"}},
    {{"use-torch-optimizer-for-cpu-offload", "", "the optimizer on the host is counted as a vectorized one"}, Offload},
    {{"no-pin-cpu-grads", "", "copies to the host are counted as those of pinned memory"}, Offload},
    {{"no-pin-cpu-params", "", "copies to the host are counted as those of pinned memory"}, Offload},
    {{"tensor-parallel-num-weight-shards", "1", "weights sharded beside tensor parallelism are counted whole"}},
    {{"expert-tensor-parallel-num-weight-shards", "1", "weights sharded beside tensor parallelism are counted whole"}},
    {{"fsdp-double-buffer", "", "gathered weights are counted in buffers that are freed"}, Sharded},
    {{"suggested-communication-unit-size", "", "weights are counted as gathered layer by layer"}, Sharded},
    {{"enable-full-sharding-in-hsdp", "", "shares between the outer groups are counted as copies"}, Sharded},
    {{"outer-dp-sharding-strategy", "no_shard", "shares between the outer groups are counted as copies"}, Sharded},
    {{"megatron-fsdp-grad-comm-dtype", "", "gradients are counted in the format that they are kept in"}, Sharded},
    {{"megatron-fsdp-main-grads-dtype", "", "gradients are counted in the format of `--grad-reduce-in-bf16`"}, Sharded},
    {{"megatron-fsdp-main-params-dtype", "", "the optimizer's copies of weights are counted in fp32"}, Sharded},
    {{"megatron-fsdp-enable-fine-grained-param-gather", "", "weights are counted as gathered layer by layer"}, Sharded},
    // tensor parallelism and pipelines
    {{"disable-tp-comm-overlap-ag", "", "overlapped messages are counted as all hidden"}, Tensor},
    {{"disable-tp-comm-overlap-rs", "", "overlapped messages are counted as all hidden"}, Tensor},
    {{"disable-tp-comm-split-ag", "", "overlapped messages are counted as all hidden"}, Tensor},
    {{"disable-tp-comm-split-rs", "", "overlapped messages are counted as all hidden"}, Tensor},
    {{"disable-tp-comm-bulk-dgrad", "", "overlapped messages are counted as all hidden"}, Tensor},
    {{"disable-tp-comm-bulk-wgrad", "", "overlapped messages are counted as all hidden"}, Tensor},
    {{"disable-scatter-gather-tensors-in-pipeline", "", "ranks of a tensor group are counted as sending a share each"},
     Pipeline},
    {{"overlap-p2p-communication-warmup-flush", "", "messages before and after the steady state count as exposed"},
     Chunks},
    {{"defer-embedding-wgrad-compute", "", "the output layer's weight gradient is counted in its place"}},
    {{"delay-wgrad-compute", "", "gradients of weights are counted beside those of inputs"}},
    {{"min-offloaded-tensor-size", "", "small tensors are counted as offloaded, too"}},
    // experts
    {{"moe-token-dispatcher-type", "alltoall alltoall_seq flex",
      "tokens are counted as sent where they are due, not to all"},
     Experts},
    {{"moe-expert-capacity-factor", "", "tokens beyond an expert's capacity are counted as computed"}, Moe},
    {{"moe-expert-rank-capacity-factor", "", "tokens beyond a rank's capacity are counted as computed"}, Moe},
    {{"moe-pad-expert-input-to-capacity", "", "padding to the experts' capacity is not counted"}},
    {{"moe-router-force-biased", "", "tokens are counted as dealt evenly"}, Moe},
    {{"moe-extended-tp", "", "experts over tensor-parallel ranks are counted as split"}, Moe},
    {{"moe-use-legacy-grouped-gemm", "", "products of experts are counted as TransformerEngine's"}, Moe},
    {{"moe-shared-expert-overlap", "", "shared experts are counted behind the exchange of tokens"}, Experts},
    {{"moe-dispatch-fwd-dtype", "bf16", "tokens are counted as sent in bf16"}, Experts},
    {{"moe-combine-bwd-dtype", "bf16", "tokens are counted as sent in bf16"}, Experts},
    {{"moe-paged-stash", "", "activations of experts are counted in buffers of the usual kind"}, Moe},
    {{"moe-deepep-num-sms", "20", "the exchange is counted as taking its usual share of the GPU"}, Experts},
    {{"moe-hybridep-num-sms", "16", "the exchange is counted as taking its usual share of the GPU"}, Experts},
    {{"moe-flex-dispatcher-num-sms", "", "the exchange is counted as taking its usual share of the GPU"}, Experts},
    {{"ep-overlap-early-attn-memory-release", "", "attention's activations are counted as kept"}, Experts},
    {{"overlap-dispatch-backward-with-experts-wgrad", "", "the exchange is counted as not hidden by it"}, Experts},
};

bool has_a_say(When when, const LaunchJob& job) {
  const Fixed& fixed = job.fixed;
  switch (when) {
    case Always: return true;
    case Tensor: return fixed.tp.value_or(1) > 1;
    case Pipeline: return fixed.pp.value_or(1) > 1;
    case Chunks: return fixed.vp.value_or(1) > 1;
    case Experts: return fixed.ep.value_or(1) > 1;
    case Moe: return !job.model || job.model->moe();
    case Narrow: return job.training->precision > Precision::Bf16;
    case Offload: return job.training->offload.optimizer > 0;
    case Sharded: return fixed.zero.value_or(0) >= 2;
    case Replicas: return fixed.dp.value_or(2) > 1;
  }
  return true;
}

/// `no-` and `disable-` are the same word, by release.
const CountedFlag* find(std::string_view name) {
  std::string other;
  if (name.starts_with("no-")) other = "disable-" + std::string(name.substr(3));
  const auto* row = std::find_if(std::begin(kFlags), std::end(kFlags), [&](const CountedFlag& flag) {
    return flag.counted.key == name || flag.counted.key == other;
  });
  return row == std::end(kFlags) ? nullptr : row;
}

}  // namespace counted_flags

/// Is the flag there to say what is counted anyway?
bool is_usual(const CountedAs& row, const StatedValue& value) {
  if (value.values.empty()) return false;
  const std::string& last = value.values.back();
  // What stacks the layers of `--hybrid-layer-pattern`, and nothing of one's own.
  if (row.key == "spec") return last == "mamba_stack_spec" || last == "hybrid_stack_spec";
  const std::string word = lowered(last);
  return word == "none" || word == "null" || (!row.plain.empty() && is_plain(word, row.plain));
}

/// The vocabulary is padded to multiples of 128 for each tensor rank, which is Megatron-LM's default.
void tell_padding(const MegatronArgs& args, LaunchJob& job) {
  constexpr const char* kFlag = "make-vocab-size-divisible-by";
  constexpr std::int64_t kMost = 1 << 24;
  const std::int64_t multiple = args.integer(kFlag, 128);
  const int tp = job.fixed.tp.value_or(1);
  if (!job.model || multiple < 1 || multiple > kMost || tp < 1 || args.has("padded-vocab-size")) return;
  const std::int64_t counted = padded_vocab(job.model->vocab, tp),
                     stated = padded_vocab(job.model->vocab, tp, multiple);
  if (counted != stated)
    job.notes.push_back(
        {"vocabulary_padding", fmt::format("{}: `--{} {}` makes {} rows of the vocabulary: {} are counted",
                                           args.where(kFlag), kFlag, multiple, stated, counted)});
}

}  // namespace

void tell_counted_flags(const MegatronArgs& args, LaunchJob& job) {
  tell_padding(args, job);
  if (megatron::is_sparse(args) && lowered(args.text("dsa-kernel-backend") + "none").starts_with("none"))
    unused(job, "not_used",
           fmt::format("{}: `--experimental-attention-variant dsa`: without a fused kernel (`--dsa-kernel-backend`) "
                       "scores of whole sequences lie in memory: not counted",
                       args.where("experimental-attention-variant")));
  if (megatron::hybrid_flag(args) != nullptr && args.integer("mtp-num-layers", 0) > 0 && job.model &&
      job.model->mtp.depth == 0)
    unused(job, "not_used",
           fmt::format("{}: `--mtp-num-layers {}`: a hybrid's pattern has no `/` with prediction layers: none is built",
                       args.where("mtp-num-layers"), args.text("mtp-num-layers")));
  const std::int64_t heads = args.integer("num-attention-heads", 0), groups = args.integer("num-query-groups", heads);
  if (groups != heads && !args.has("group-query-attention") && !args.has("multi-latent-attention"))
    unused(job, "not_used",
           fmt::format("{}: `--num-query-groups {}`: without `--group-query-attention` every head has keys of its own",
                       args.where("num-query-groups"), groups));
  for (const auto& [name, value] : args.given) {
    const counted_flags::CountedFlag* flag = counted_flags::find(name);
    if (flag == nullptr || is_usual(flag->counted, value) || !counted_flags::has_a_say(flag->when, job)) continue;
    if (name == "spec" && has_note(job, kSpecOfCheckpoint)) continue;
    const std::string word = value.values.empty() ? "" : " " + yaml::printable(value.values.front());
    unused(job, "not_used", fmt::format("{}: `--{}{}`: {}", value.where, name, word, flag->counted.what));
  }
}

std::string_view flag_of_false(std::string_view key) {
  // Keys that Megatron-LM's configurations call otherwise than its parser does.
  constexpr std::pair<std::string_view, std::string_view> kOtherwise[] = {
      {"add_bias_linear", "disable-bias-linear"},          {"overlap_p2p_comm", "no-overlap-p2p-communication"},
      {"add_position_embedding", "no-position-embedding"}, {"apply_rope_fusion", "no-rope-fusion"},
      {"perform_initialization", "no-initialization"},     {"barrier_with_L1_time", "no-barrier-with-level-1-timing"},
  };
  for (const auto& [name, flag] : kOtherwise)
    if (name == key) return flag;
  for (const char* start : {"no-", "disable-"})
    if (const MegatronFlag* flag = find_megatron_flag(start + with_dashes(key)); flag != nullptr && flag->values == 0)
      return flag->name;
  return {};
}

std::optional<CountedAs> counted_key(std::string_view key) {
  if (const counted_flags::CountedFlag* flag = counted_flags::find(with_dashes(key))) {
    CountedAs row = flag->counted;
    if (row.plain.empty()) row.plain = "false none null";
    return row;
  }
  if (const counted_flags::CountedFlag* off = counted_flags::find(flag_of_false(key)))
    return CountedAs{off->counted.key, "true", off->counted.what};
  return std::nullopt;
}

}  // namespace plan
