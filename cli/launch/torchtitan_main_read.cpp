// What a recipe for torchtitan's main branch says of the layout. Defaults: main b5bcd76c config/configs.py.
// Tested by tests/frameworks/framework_files_test.cpp.
#include <fmt/core.h>

#include "cli/launch/torchtitan.hpp"
#include "formulas/names.hpp"

namespace plan {
namespace {

/// Attributes that a recipe sets and the layout depends on, for the nearest name of a misspelt one.
constexpr std::string_view kKeys[] = {"parallelism.data_parallel_replicate_degree",
                                      "parallelism.data_parallel_shard_degree",
                                      "parallelism.fsdp_reshard_after_forward",
                                      "parallelism.enable_fsdp_symm_mem",
                                      "parallelism.tensor_parallel_degree",
                                      "parallelism.enable_sequence_parallel",
                                      "parallelism.spmd_backend",
                                      "parallelism.pipeline_parallel_degree",
                                      "parallelism.module_fqns_per_model_part",
                                      "parallelism.pipeline_parallel_first_stage_less_layers",
                                      "parallelism.pipeline_parallel_last_stage_less_layers",
                                      "parallelism.pipeline_parallel_layers_per_stage",
                                      "parallelism.pipeline_parallel_schedule",
                                      "parallelism.pipeline_parallel_schedule_csv",
                                      "parallelism.num_pp_microbatches",
                                      "parallelism.context_parallel_degree",
                                      "parallelism.context_parallel_load_balancer",
                                      "parallelism.context_parallel_ptrr_mask_key",
                                      "parallelism.expert_parallel_degree",
                                      "training.num_tokens_per_microbatch_per_dp_rank",
                                      "training.num_tokens_per_train_step",
                                      "training.max_context_length",
                                      "training.max_norm",
                                      "training.steps",
                                      "training.enable_cpu_offload",
                                      "training.disable_cuda_graphs",
                                      "training.dtype",
                                      "training.mixed_precision_param",
                                      "training.mixed_precision_reduce",
                                      "training.gc_freq",
                                      "training.gc_debug"};

void read_tokens(JobBuilder& builder, const torchtitan::Degrees& d) {
  Settings& settings = builder.settings;
  constexpr std::string_view kSeq = "training.max_context_length",
                             kMicro = "training.num_tokens_per_microbatch_per_dp_rank",
                             kStep = "training.num_tokens_per_train_step";
  const std::int64_t seq = settings.integer(kSeq).value_or(2048), micro = settings.integer(kMicro).value_or(16384);
  if (seq < 1 || micro < 1) return builder.errors.push_back({"wrong_value", "a batch of no tokens"});
  builder.sequence(seq, kSeq);
  if (micro % seq == 0 && micro / seq <= (1 << 24))
    builder.fix("micro_batch", &Fixed::micro_batch, static_cast<int>(micro / seq), kMicro);
  else
    builder.note("partial_sequences", fmt::format("{}: {} tokens are no whole number of sequences of {}",
                                                  settings.where(kMicro), micro, seq));
  const int passes = d.pp > 1 ? builder.degree("parallelism.num_pp_microbatches", 1) : 1;
  const std::optional<std::int64_t> step = settings.integer(kStep);
  if (step && *step > 0)
    builder.global_batch(*step / seq, kStep);
  else if (d.dp)
    builder.global_batch(builder.product({micro, passes, *d.dp}) / seq, kMicro);
}

void read_recompute(JobBuilder& builder) {
  constexpr std::string_view kKey = "activation_checkpoint";
  const std::string word = builder.settings.text(kKey).value_or("SelectiveAC.Config");
  const auto fix = [&](const Recompute& recompute, std::string_view text) {
    builder.fix("recompute", &Fixed::recompute, recompute, text, kKey);
  };
  if (word == "none") return fix({}, "none");
  if (word == "FullAC.Config") return fix({.kind = RecomputeKind::Full}, "full");
  if (word == "SelectiveAC.Config") return fix({.kind = RecomputeKind::Selective, .modules = kRecomputeOps}, "op");
  builder.note("recompute_unknown", fmt::format("{}: `{}` is not modelled", builder.settings.where(kKey), word));
}

void read_precision(JobBuilder& builder) {
  Settings& settings = builder.settings;
  Precision precision = settings.text("training.mixed_precision_param").value_or("bfloat16") == "float32"
                            ? Precision::Fp32
                            : Precision::Bf16;
  std::string_view key = "training.mixed_precision_param";
  if (const Setting* converters = settings.get("model_spec.converters"))
    for (const std::string& item : converters->items) {
      if (item.rfind("Float8LinearConverter", 0) == 0) precision = Precision::Fp8Tensorwise;
      if (item.rfind("MXFP8LinearConverter", 0) == 0) precision = Precision::Mxfp8;
      if (item.rfind("NVFP4LinearConverter", 0) == 0) precision = Precision::Nvfp4;
      key = "model_spec.converters";
    }
  builder.precision(precision, key);
  builder.offload_switch("training.enable_cpu_offload");
}

}  // namespace

Result<LaunchJob> read_torchtitan_main(std::span<const LaunchSource> files, const LaunchFacts& facts) {
  Settings settings;
  for (const LaunchSource& file : files) {
    Result<Settings> one = settings_of_python(file);
    if (!one) return tl::unexpected(one.error());
    settings.append(*one);
  }
  JobBuilder builder(settings, "torchtitan-main", Framework::Torchtitan);
  const std::string flavor = settings.text("model_spec.0").value_or("");
  if (flavor.empty())
    builder.note("unknown_model", "the recipe registers no model: name it with `--model`");
  else
    torchtitan::read_model(builder, settings.text("model.name").value_or(""), flavor, "model_spec.0");
  const torchtitan::Degrees degrees = torchtitan::read_degrees(builder, facts);
  const bool split = degrees.tp > 1 && settings.boolean("parallelism.enable_sequence_parallel").value_or(true);
  builder.fix("sp", &Fixed::sequence_parallel, split, split ? "on" : "off", "parallelism.enable_sequence_parallel");
  if (degrees.cp > 1) builder.fix("cp_kind", &Fixed::cp_kind, CpKind::AllGather, "all-gather", "");
  torchtitan::read_experts(builder, degrees);
  torchtitan::read_pipeline(builder, degrees);
  read_tokens(builder, degrees);
  read_precision(builder);
  read_recompute(builder);
  for (const Setting& setting : settings.all())
    if (setting.key.rfind("parallelism.", 0) != 0 && setting.key.rfind("training.", 0) != 0)
      settings.get(setting.key);  // loss, data, logging: not the layout's
  builder.unknown(kKeys, "is unknown to torchtitan main, which stops there");
  return builder.finish();
}

bool is_torchtitan_main(const LaunchSource& source) {
  return source.text.find("import") != std::string::npos && source.text.find("torchtitan") != std::string::npos &&
         source.text.find("def ") != std::string::npos && source.text.find("parallelism") != std::string::npos;
}

}  // namespace plan
