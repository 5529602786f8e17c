// verl with FSDP actors, verl's supervised trainer and NeMo-RL with DTensor: keys of each as rows, one reading for all.
// Defaults: verl 0.7 trainer/config, NeMo-RL 0.7 examples/configs. Tested by tests/launch/reading_test.cpp.
#include "cli/launch/fsdp_dialects.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "cli/launch/job_builder.hpp"
#include "formulas/names.hpp"

namespace plan {
namespace {

struct FsdpDialect {
  std::string_view format;
  std::string_view model[2];
  std::string_view seq;  ///< tokens of a sequence; empty: prompt and response make one
  std::string_view prompt, response;
  int length = 0;          ///< default of each length
  std::string_view batch;  ///< samples, or prompts with `repeats` answers each
  int batch_otherwise = 0;
  std::string_view repeats;
  std::string_view micro[2];
  int micro_otherwise = 0;  ///< 0: must be stated
  std::string_view tp, cp, replicate, ep;
  std::string_view checkpointing;
  bool checkpointing_otherwise = true;
  std::string_view lora;
  std::string_view lora_switch;  ///< what turns adapters on; empty: a rank above 0
  std::string_view offload[2];   ///< between updates or during them, by `offload_kept`
  bool offload_kept = false;     ///< what is offloaded stays on the host through the update
  std::string_view dynamic[2];   ///< packs micro-batches by tokens
  std::string_view precision;
  std::string_view nodes, gpus;
};

constexpr FsdpDialect kVerlActor{.format = "verl",
                                 .model = {"actor_rollout_ref.model.path", ""},
                                 .seq = "",
                                 .prompt = "data.max_prompt_length",
                                 .response = "data.max_response_length",
                                 .length = 512,
                                 .batch = "actor_rollout_ref.actor.ppo_mini_batch_size",
                                 .batch_otherwise = 256,
                                 .repeats = "actor_rollout_ref.rollout.n",
                                 .micro = {"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu", ""},
                                 .tp = "",
                                 .cp = "actor_rollout_ref.actor.ulysses_sequence_parallel_size",
                                 .replicate = "",
                                 .ep = "",
                                 .checkpointing = "actor_rollout_ref.model.enable_gradient_checkpointing",
                                 .lora = "actor_rollout_ref.model.lora_rank",
                                 .lora_switch = "",
                                 .offload = {"actor_rollout_ref.actor.fsdp_config.offload_policy", ""},
                                 .offload_kept = true,
                                 .dynamic = {"actor_rollout_ref.actor.use_dynamic_bsz", ""},
                                 .precision = "",
                                 .nodes = "trainer.nnodes",
                                 .gpus = "trainer.n_gpus_per_node"};

constexpr FsdpDialect kVerlSft{.format = "verl-sft",
                               .model = {"model.partial_pretrain", "model.path"},
                               .seq = "data.max_length",
                               .prompt = "",
                               .response = "",
                               .length = 1024,
                               .batch = "data.train_batch_size",
                               .batch_otherwise = 256,
                               .repeats = "",
                               .micro = {"data.micro_batch_size_per_gpu", "data.micro_batch_size"},
                               .micro_otherwise = 4,
                               .tp = "",
                               .cp = "ulysses_sequence_parallel_size",
                               .replicate = "",
                               .ep = "",
                               .checkpointing = "model.enable_gradient_checkpointing",
                               .lora = "model.lora_rank",
                               .lora_switch = "",
                               .offload = {"model.fsdp_config.cpu_offload", "engine.offload_policy"},
                               .offload_kept = true,
                               .dynamic = {"data.use_dynamic_bsz", ""},
                               .precision = "",
                               .nodes = "trainer.nnodes",
                               .gpus = "trainer.n_gpus_per_node"};

constexpr FsdpDialect kNemoRl{.format = "nemo-rl",
                              .model = {"policy.model_name", ""},
                              .seq = "policy.max_total_sequence_length",
                              .prompt = "",
                              .response = "",
                              .length = 0,
                              .batch = "policy.train_global_batch_size",
                              .batch_otherwise = 0,
                              .repeats = "",
                              .micro = {"policy.train_micro_batch_size", ""},
                              .tp = "policy.dtensor_cfg.tensor_parallel_size",
                              .cp = "policy.dtensor_cfg.context_parallel_size",
                              .replicate = "policy.dtensor_cfg.dp_replicate_size",
                              .ep = "policy.dtensor_cfg.expert_parallel_size",
                              .checkpointing = "policy.dtensor_cfg.activation_checkpointing",
                              .checkpointing_otherwise = false,
                              .lora = "policy.dtensor_cfg.lora_cfg.dim",
                              .lora_switch = "policy.dtensor_cfg.lora_cfg.enabled",
                              .offload = {"policy.dtensor_cfg.cpu_offload", ""},
                              .offload_kept = true,
                              .dynamic = {"policy.dynamic_batching.enabled", "policy.sequence_packing.enabled"},
                              .precision = "policy.precision",
                              .nodes = "cluster.num_nodes",
                              .gpus = "cluster.gpus_per_node"};

bool on(Settings& settings, std::string_view key, bool otherwise = false) {
  return key.empty() ? otherwise : settings.boolean(key).value_or(otherwise);
}

void read_model(JobBuilder& builder, const FsdpDialect& dialect, const LaunchFacts& facts) {
  Settings& settings = builder.settings;
  for (const std::string_view key : dialect.model)
    if (const std::optional<std::string> word = key.empty() ? std::nullopt : settings.text(key);
        word && !facts.model && !builder.job.model)
      builder.model(*word, *word, key);
  builder.launcher(facts);
  if (facts.gpus() > 0) return;
  const int nodes = builder.degree(dialect.nodes, 1), gpus = builder.degree(dialect.gpus, 0, 0);
  if (gpus < 1 || !builder.plausible({nodes, gpus})) return;
  builder.gpus(std::int64_t{nodes} * gpus, dialect.gpus);
  builder.job.gpus_per_node = gpus;
}

void read_axes(JobBuilder& builder, const FsdpDialect& dialect) {
  const int tp = dialect.tp.empty() ? 1 : builder.degree(dialect.tp, 1);
  const int cp = builder.degree(dialect.cp, 1);
  const int replicate = dialect.replicate.empty() ? 1 : std::max(1, builder.degree(dialect.replicate, 1, -1));
  if (!builder.plausible({tp, cp, replicate})) return;
  builder.fix("tp", &Fixed::tp, tp, dialect.tp);
  builder.fix("cp", &Fixed::cp, cp, dialect.cp);
  const bool ulysses = dialect.tp.empty();
  if (cp > 1)
    builder.fix("cp_kind", &Fixed::cp_kind, ulysses ? CpKind::Ulysses : CpKind::Ring, ulysses ? "ulysses" : "ring",
                dialect.cp);
  builder.fix("pp", &Fixed::pp, 1, "");
  builder.fix("vp", &Fixed::vp, 1, "");
  const int ep = dialect.ep.empty() ? 1 : builder.degree(dialect.ep, 1);
  builder.fix("ep", &Fixed::ep, ep, dialect.ep);
  builder.fix("etp", &Fixed::etp, builder.job.model && builder.job.model->moe() && ep == 1 ? tp : 1, "");
  builder.fix("sp", &Fixed::sequence_parallel, false, "off", "");
  const bool alone = builder.job.gpus > 0 && builder.job.gpus <= tp * cp;  // nobody to share the weights with
  builder.fix("zero", &Fixed::zero, builder.job.gpus == 1 || alone ? 0 : 3, "");
  // accelerate's rules know neither such splits nor experts of a rank.
  if ((cp > 1 && ulysses) || ep > 1 || alone) builder.job.framework = Framework::Any;
  const std::int64_t ranks = builder.job.gpus / std::max(1, tp);
  const bool hybrid = replicate > 1 && ranks % replicate == 0;
  builder.fix("shard", &Fixed::shard, hybrid ? static_cast<int>(ranks / replicate) : 0, dialect.replicate);
}

void read_batch(JobBuilder& builder, const FsdpDialect& dialect) {
  Settings& settings = builder.settings;
  if (dialect.seq.empty()) {
    const std::int64_t prompt = builder.degree(dialect.prompt, dialect.length);
    const std::int64_t response = builder.degree(dialect.response, dialect.length);
    builder.sequence(prompt + response, settings.states(dialect.response) ? dialect.response : dialect.prompt);
  } else if (settings.states(dialect.seq) || dialect.length > 0) {
    builder.sequence(builder.degree(dialect.seq, dialect.length), dialect.seq);
  }
  const int repeats = dialect.repeats.empty() ? 1 : builder.degree(dialect.repeats, 1);
  if (const int batch = builder.degree(dialect.batch, dialect.batch_otherwise); batch > 0)
    builder.global_batch(builder.product({batch, repeats}), dialect.batch);
  std::string_view key = dialect.micro[0];
  if (!settings.states(key) && !dialect.micro[1].empty() && settings.states(dialect.micro[1])) key = dialect.micro[1];
  if (settings.states(key) || dialect.micro_otherwise > 0)
    builder.fix("micro_batch", &Fixed::micro_batch, builder.degree(key, dialect.micro_otherwise), key);
  else
    builder.guess("micro_batch", "1", "micro-batches are packed by tokens, or their size is not stated");
  for (const std::string_view dynamic : dialect.dynamic)
    if (!dynamic.empty() && on(settings, dynamic))
      builder.unused(dynamic, "micro-batches are packed by tokens: counted as sequences of full length");
}

void read_tuning(JobBuilder& builder, const FsdpDialect& dialect) {
  Settings& settings = builder.settings;
  const bool full = on(settings, dialect.checkpointing, dialect.checkpointing_otherwise);
  builder.fix("recompute", &Fixed::recompute, Recompute{.kind = full ? RecomputeKind::Full : RecomputeKind::None},
              full ? "full" : "none", dialect.checkpointing);
  const int rank = builder.degree(dialect.lora, 8, 0);
  constexpr std::string_view kAdapter = "actor_rollout_ref.model.lora_adapter_path";
  const bool ready = settings.states(kAdapter) && !settings.text(kAdapter).value_or("").empty();
  const bool adapters = ready || (dialect.lora_switch.empty() ? settings.states(dialect.lora) && rank > 0
                                                              : on(settings, dialect.lora_switch));
  builder.training.task = adapters ? Task::Lora : Task::FullFinetune;
  builder.origin("task", name(builder.training.task), dialect.lora_switch.empty() ? dialect.lora : dialect.lora_switch);
  if (adapters) {
    builder.training.lora.rank = std::max(1, rank);
    if (ready && !settings.states(dialect.lora))
      builder.guess("lora_rank", fmt::format("{}", builder.training.lora.rank),
                    "the adapter that is loaded decides it");
    else
      builder.origin("lora_rank", fmt::format("{}", builder.training.lora.rank), dialect.lora);
  }
  for (const std::string_view key : dialect.offload)
    if (!key.empty() && on(settings, key)) builder.offload_switch(key);
  const std::string precision = dialect.precision.empty() ? "" : settings.text(dialect.precision).value_or("");
  if (precision == "float16" || precision == "fp16") return builder.precision(Precision::Fp16, dialect.precision);
  if (precision == "float32") return builder.precision(Precision::Fp32, dialect.precision);
  builder.precision(Precision::Bf16, dialect.precision);
}

Result<LaunchJob> job_of(const FsdpDialect& dialect, const DialectKeys& keys, const LaunchFacts& facts) {
  Settings settings = settings_of_keys(keys);
  JobBuilder builder(settings, dialect.format, Framework::Accelerate);
  read_model(builder, dialect, facts);
  read_axes(builder, dialect);
  read_batch(builder, dialect);
  read_tuning(builder, dialect);
  return builder.finish();
}

bool has(const LaunchSource& source, std::string_view word) { return source.text.find(word) != std::string::npos; }

Result<DialectKeys> keys_of(std::span<const LaunchSource> files, std::string_view program) {
  DialectKeys keys;
  for (const LaunchSource& source : files) {
    Result<DialectKeys> own = is_shell(source) ? keys_of_overrides(source, program) : keys_of_yaml(source);
    if (!own) return own;
    keys.insert(own->begin(), own->end());
  }
  interpolate(keys);
  return keys;
}

}  // namespace

/// Overrides of a command, or a whole configuration as hydra prints it.
bool is_verl_fsdp(const LaunchSource& source) {
  if (!is_shell(source))
    return has(source, "actor_rollout_ref:") && has(source, "strategy: fsdp") && !has(source, "strategy: megatron");
  return has(source, "actor_rollout_ref.") && !has(source, "megatron") && has(source, "verl.");
}

Result<LaunchJob> read_verl_fsdp(std::span<const LaunchSource> files, const LaunchFacts& facts) {
  const Result<DialectKeys> keys = keys_of(files, "verl.");
  if (!keys) return fail(keys.error());
  return job_of(kVerlActor, *keys, facts);
}

bool is_verl_sft(const LaunchSource& source) {
  if (!is_shell(source)) return has(source, "partial_pretrain:") && has(source, "trainer:") && has(source, "data:");
  return is_shell(source) && has(source, "sft_trainer") && has(source, "verl.trainer") && !has(source, "megatron");
}

Result<LaunchJob> read_verl_sft(std::span<const LaunchSource> files, const LaunchFacts& facts) {
  const Result<DialectKeys> keys = keys_of(files, "verl.trainer");
  if (!keys) return fail(keys.error());
  return job_of(kVerlSft, *keys, facts);
}

Result<LaunchJob> read_nemo_rl_dtensor(const DialectKeys& keys, const LaunchFacts& facts) {
  return job_of(kNemoRl, keys, facts);
}

}  // namespace plan
