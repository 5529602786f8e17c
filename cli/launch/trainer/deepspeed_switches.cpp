// What a DeepSpeed file says beside ZeRO's stage, batch and format: switches of its software, and values that nothing
// here prices, which are reported. Defaults: DeepSpeed 0.19.8 runtime/config.py, runtime/zero/config.py. Tested by
// tests/launch/deepspeed_switches_test.cpp.
#include <fmt/format.h>

#include <utility>

#include "cli/launch/job/counted_as.hpp"
#include "cli/launch/trainer/hugging_face.hpp"

namespace plan::hugging_face {
namespace {

/// A key, and the least stage of ZeRO at which it has a say.
struct Weighing {
  CountedAs counted;
  int stage;
};
constexpr std::string_view kBuckets = "buckets are counted at DeepSpeed's own sizes";
constexpr std::string_view kMasters = "master weights, their gradients and moments are counted in fp32";
constexpr std::string_view kPinned = "copies are counted as from pinned memory";
constexpr Weighing kWeighing[] = {
    {{"ds.amp.enabled", "false", "Apex's mixed precision is not counted"}, 0},
    {{"ds.torch_autocast.enabled", "false", "weights are counted as kept in the format that they are cast to"}, 0},
    {{"ds.data_types.grad_accum_dtype", "auto", "gradients are counted in DeepSpeed's own format"}, 0},
    {{"ds.communication_data_type", "auto", "messages are counted in the format of what they carry"}, 0},
    {{"ds.seq_parallel_communication_data_type", "fp32", "messages are counted in the format of what they carry"}, 0},
    {{"ds.sparse_gradients", "false", "gradients of embeddings are counted whole"}, 0},
    {{"ds.sparse_attention.mode", "dense", "attention to chosen blocks is counted as attention to all"}, 0},
    {{"ds.compile.enabled", "false", "kernels are counted as eager ones"}, 0},
    {{"ds.compile.deepcompile", "false", "kernels are counted as eager ones"}, 0},
    {{"ds.graph_harvesting", "false", "kernels are counted as launched one by one"}, 0},
    {{"ds.curriculum_learning.enabled", "false", "sequences are counted at their full length"}, 0},
    {{"ds.data_efficiency.enabled", "false", "sequences and layers are counted whole"}, 0},
    {{"ds.progressive_layer_drop.enabled", "false", "layers that are dropped are counted"}, 0},
    {{"ds.quantize_training.enabled", "false", "what quantization adds is not counted"}, 0},
    {{"ds.weight_quantization", "", "what quantization adds is not counted"}, 0},
    {{"ds.eigenvalue.enabled", "false", "what the search for eigenvalues adds is not counted"}, 0},
    {{"ds.elasticity.enabled", "false", "the batch is counted as stated, not as elasticity chooses it"}, 0},
    {{"ds.autotuning.enabled", "false", "values that autotuning looks for are counted as stated"}, 0},
    {{"ds.hybrid_engine.enabled", "false", "generation between steps is not counted"}, 0},
    {{"ds.use_data_before_expert_parallelism", "false", "experts' ranks are counted as neighbours"}, 0},
    {{"ds.tensor_parallel.tp_overlap_comm", "false", "messages are counted between the products"}, 0},
    {{"ds.tensor_parallel.vocab_parallel_lm_head", "null", "the head is counted as AutoTP has it by default"}, 0},
    {{"ds.tensor_parallel.keep_module_on_host", "false", "weights are counted on the GPU"}, 0},
    {{"ds.tensor_parallel.kernel_inject", "false", "kernels are counted as PyTorch's own"}, 0},
    {{"ds.tensor_parallel.replace_with_kernel_inject", "false", "kernels are counted as PyTorch's own"}, 0},
    {{"ds.bf16.bf16_master_weights_and_grads", "false", kMasters}, 1},
    {{"ds.bfloat16.bf16_master_weights_and_grads", "false", kMasters}, 1},
    {{"ds.fp16.fp16_master_weights_and_grads", "false", kMasters}, 1},
    {{"ds.zero_optimization.reduce_scatter", "true", "gradients are counted as reduced by scattering"}, 1},
    {{"ds.zero_optimization.contiguous_gradients", "true", "gradients are counted as copied to buckets"}, 1},
    {{"ds.zero_optimization.reduce_bucket_size", "5e8", kBuckets}, 1},
    {{"ds.zero_optimization.allgather_bucket_size", "5e8", kBuckets}, 1},
    {{"ds.zero_optimization.stage3_max_live_parameters", "1e9", kBuckets}, 3},
    {{"ds.zero_optimization.max_live_parameters", "1e9", kBuckets}, 3},
    {{"ds.zero_optimization.sub_group_size", "1e9", "parameters of a rank are counted as stepped 1e9 at once"}, 3},
    {{"ds.zero_optimization.stage3_use_all_reduce_for_fetch_params", "false", "weights are counted as gathered"}, 3},
    {{"ds.zero_optimization.use_all_reduce_for_fetch_params", "false", "weights are counted as gathered"}, 3},
    {{"ds.zero_optimization.stage3_allgather_sequential", "false", "weights are counted as gathered together"}, 3},
    {{"ds.zero_optimization.stage3_module_granularity_threshold", "0", "weights are counted as gathered one by one"},
     3},
    {{"ds.zero_optimization.module_granularity_threshold", "0", "weights are counted as gathered one by one"}, 3},
    {{"ds.zero_optimization.zero_hpz_partition_size", "1", "second shards (ZeRO++) are not counted"}, 3},
    {{"ds.zero_optimization.zero_quantized_weights", "false", "weights are counted as gathered in 16 bits"}, 3},
    {{"ds.zero_optimization.zero_quantized_nontrainable_weights", "false",
      "weights are counted as gathered in 16 bits"},
     3},
    {{"ds.zero_optimization.zero_quantized_gradients", "false", "gradients are counted as reduced whole"}, 1},
    {{"ds.zero_optimization.mics_hierarchical_params_gather", "false", "weights are counted as gathered in one go"}, 3},
    {{"ds.zero_optimization.offload_optimizer.device", "none auto cpu", "it is counted as the host's memory"}, 1},
    {{"ds.zero_optimization.offload_param.device", "none auto cpu", "it is counted as the host's memory"}, 3},
    {{"ds.zero_optimization.offload_optimizer.pin_memory", "true", kPinned}, 1},
    {{"ds.zero_optimization.offload_param.pin_memory", "true", kPinned}, 3},
    {{"ds.zero_optimization.offload_optimizer.super_offload", "false",
      "SuperOffload is counted as an optimizer on the host"},
     3},
    {{"ds.zero_optimization.save_muon_momentum_buffer_in_memory", "false", "momenta are counted once"}, 3},
};

/// Sections that weigh by being there: what is in them is more than one number.
constexpr std::pair<std::string_view, std::string_view> kSections[] = {
    {"ds.compression_training.", "what compression changes is not counted"},
    {"ds.zero_optimization.zenflow.", "ZenFlow is counted as an optimizer on the host"},
    {"ds.zero_optimization.leaf_module.", "modules of a leaf are counted as gathered one by one"},
};

void tell_section(JobBuilder& builder, std::string_view section, std::string_view what) {
  for (const Setting& setting : builder.settings.all())
    if (setting.key.starts_with(section) && (!setting.key.ends_with("enabled") || setting.value != "false"))
      return builder.unmodelled("not_counted",
                                fmt::format("{}: `{}`: {}", setting.where(), shown_key(setting.key), what));
}

/// DeepSpeed overlaps reductions at stage 3, and at the others where a key asks for it.
void read_overlap(JobBuilder& builder, int stage) {
  constexpr std::string_view kOverlap = "ds.zero_optimization.overlap_comm";
  Settings& settings = builder.settings;
  const bool automatic = settings.text(kOverlap).value_or("") == "auto";
  const bool stated = settings.states(kOverlap) && !automatic;
  const bool overlap = stated ? settings.boolean(kOverlap).value_or(stage == 3) : stage == 3;
  builder.origin("overlap_comm", overlap ? "on" : "off", stated ? kOverlap : "");
  builder.training.stack.overlap_grad_reduce = overlap;
}

/// DeepSpeed stops at narrow master weights without ZeRO, and at states in bf16 beside any other masters.
void check_masters(JobBuilder& builder, int stage) {
  const auto on = [&](const std::string& key) { return builder.settings.boolean(key).value_or(false); };
  const auto refuse = [&](const std::string& key, std::string_view why, std::string help) {
    builder.errors.push_back({"unsupported_word",
                              fmt::format("{}: `{}`: {}", builder.settings.where(key), shown_key(key), why),
                              {},
                              {std::move(help)}});
  };
  for (const std::string format : {"bf16", "bfloat16", "fp16"}) {
    const std::string masters =
        fmt::format("ds.{}.{}_master_weights_and_grads", format, format == "fp16" ? "fp16" : "bf16");
    const std::string states = fmt::format("ds.{}.bf16_optimizer_states", format);
    if (stage == 0 && on(masters)) refuse(masters, "DeepSpeed has it under ZeRO alone", "write `\"stage\": 1` or more");
    if (on(states) && !on(masters))
      refuse(states, "DeepSpeed keeps states in bf16 only beside bf16 master weights",
             "add `\"bf16_master_weights_and_grads\": true`");
  }
}

/// Keys of its own checkpointing do nothing for a model that does not call it.
void note_checkpointing(JobBuilder& builder) {
  for (const std::string_view key : {"partition_activations", "cpu_checkpointing", "contiguous_memory_optimization"}) {
    const std::string full = fmt::format("ds.activation_checkpointing.{}", key);
    if (builder.settings.text(full).value_or("false") != "false")
      builder.note("own_checkpointing",
                   fmt::format("{}: `{}` is for models that call DeepSpeed's own checkpointing: not counted",
                               builder.settings.where(full), shown_key(full)));
  }
}

}  // namespace

void read_deepspeed_switches(JobBuilder& builder, int stage) {
  check_masters(builder, stage);
  if (stage > 0) read_overlap(builder, stage);
  bool buckets = false;  // one line for all of them
  for (const Weighing& row : kWeighing) {
    const bool bucket = row.counted.what == kBuckets;
    if (stage < row.stage || (bucket && buckets)) continue;
    if (tell_counted_as(builder, row.counted) && bucket) buckets = true;
  }
  for (const auto& [section, what] : kSections) tell_section(builder, section, what);
  note_checkpointing(builder);
}

}  // namespace plan::hugging_face
