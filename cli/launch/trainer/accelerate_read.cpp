// What accelerate's YAML file, and the Trainer's arguments beside it, say of the layout. Defaults: accelerate 1.15.0
// commands/launch.py, parallelism_config.py. Tested by tests/frameworks/framework_files_test.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "cli/launch/job/counted_as.hpp"
#include "cli/launch/trainer/hugging_face.hpp"
#include "formulas/names.hpp"
#include "formulas/text.hpp"
#include "formulas/words.hpp"
#include "presets/suggest.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

constexpr std::string_view kReplicate = "acc.parallelism_config.parallelism_config_dp_replicate_size";
constexpr std::string_view kShard = "acc.parallelism_config.parallelism_config_dp_shard_size";
constexpr std::string_view kTp = "acc.parallelism_config.parallelism_config_tp_size";
constexpr std::string_view kCp = "acc.parallelism_config.parallelism_config_cp_size";
constexpr std::string_view kSp = "acc.parallelism_config.parallelism_config_sp_size";
constexpr std::string_view kCpStrategy = "acc.parallelism_config.parallelism_config_cp_comm_strategy";
constexpr std::string_view kReshard = "acc.fsdp_config.fsdp_reshard_after_forward";
constexpr std::string_view kStrategy = "acc.fsdp_config.fsdp_sharding_strategy";
constexpr std::string_view kProcesses = "acc.num_processes", kProcessesFlag = "args.num_processes";

/// Names that accelerate reads: the top of the file (an unknown one stops it) and its sections (an unknown one does
/// nothing).
constexpr auto kTop = word_list([] {
  return "compute_environment distributed_type mixed_precision use_cpu debug num_processes machine_rank "
         "num_machines gpu_ids main_process_ip main_process_port rdzv_backend same_network "
         "main_training_function enable_cpu_affinity fp8_config deepspeed_config fsdp_config "
         "parallelism_config megatron_lm_config mpirun_config downcast_bf16 tpu_name tpu_zone tpu_use_cluster "
         "tpu_use_sudo command_file commands tpu_vm tpu_env dynamo_config";
});
constexpr auto kNested = word_list([] {
  return "deepspeed_config.deepspeed_config_file deepspeed_config.zero_stage deepspeed_config.zero3_init_flag "
         "deepspeed_config.zero3_save_16bit_model deepspeed_config.offload_optimizer_device "
         "deepspeed_config.offload_param_device deepspeed_config.offload_optimizer_nvme_path "
         "deepspeed_config.offload_param_nvme_path deepspeed_config.gradient_accumulation_steps "
         "deepspeed_config.gradient_clipping deepspeed_config.deepspeed_hostfile "
         "deepspeed_config.deepspeed_exclusion_filter deepspeed_config.deepspeed_inclusion_filter "
         "deepspeed_config.deepspeed_multinode_launcher deepspeed_config.deepspeed_moe_layer_cls_names "
         "fsdp_config.fsdp_version fsdp_config.fsdp_offload_params fsdp_config.fsdp_min_num_params "
         "fsdp_config.fsdp_sharding_strategy fsdp_config.fsdp_reshard_after_forward "
         "fsdp_config.fsdp_auto_wrap_policy fsdp_config.fsdp_transformer_layer_cls_to_wrap "
         "fsdp_config.fsdp_backward_prefetch fsdp_config.fsdp_backward_prefetch_policy "
         "fsdp_config.fsdp_state_dict_type fsdp_config.fsdp_forward_prefetch fsdp_config.fsdp_use_orig_params "
         "fsdp_config.fsdp_cpu_ram_efficient_loading fsdp_config.fsdp_sync_module_states "
         "fsdp_config.fsdp_activation_checkpointing fsdp_config.fsdp_activation_checkpointing_offload "
         "fsdp_config.fsdp_ignored_modules parallelism_config.parallelism_config_dp_replicate_size "
         "parallelism_config.parallelism_config_dp_shard_size parallelism_config.parallelism_config_tp_size "
         "parallelism_config.parallelism_config_cp_size parallelism_config.parallelism_config_cp_backend "
         "parallelism_config.parallelism_config_cp_comm_strategy parallelism_config.parallelism_config_sp_size "
         "parallelism_config.parallelism_config_sp_backend parallelism_config.parallelism_config_sp_seq_length "
         "parallelism_config.parallelism_config_sp_seq_length_is_variable "
         "parallelism_config.parallelism_config_sp_attn_implementation";
});

struct Degrees {
  int tp = 1, cp = 1, replicate = 1, shard = 1;
  int nodes = 1;  ///< as the launcher has it
  std::optional<int> dp{};
};

/// A degree that the file states, for a mistake of them all.
std::string where_of_a_degree(Settings& settings, std::string_view sp) {
  for (const std::string_view key : {kShard, kTp, sp, kCp})
    if (settings.states(key)) return settings.where(key);
  return settings.where(kReplicate);
}

/// dp where there is no ParallelismConfig: all processes, sharded or not.
Degrees read_degrees(JobBuilder& builder, const LaunchFacts& facts) {
  Settings& settings = builder.settings;
  Degrees d;
  d.nodes = std::max(1, facts.nodes);
  d.tp = builder.degree(kTp, 1);
  std::string_view sp = kSp;
  for (const std::string_view key : hugging_face::kUlysses)
    if (!settings.states(sp) && settings.states(key)) sp = key;
  const int ulysses = builder.degree(sp, 1);
  d.cp = builder.degree(kCp, 1);
  if (!builder.plausible({d.cp, ulysses})) return {};
  d.cp *= ulysses;
  d.replicate = builder.degree(kReplicate, 1);
  d.shard = builder.degree(kShard, 1);
  if (!builder.plausible({d.tp, d.cp, d.replicate, d.shard})) return {};
  builder.launcher(facts);
  hugging_face::read_processes(builder, facts);
  const bool grid = settings.has_section("acc.parallelism_config.");
  const std::int64_t inner = static_cast<std::int64_t>(d.tp) * d.cp;
  const std::string tool = settings.text("tool").value_or("");  // these shard over what the other degrees leave
  if (!settings.states(kShard) && builder.job.gpus > 0 && builder.job.gpus % (inner * d.replicate) == 0 &&
      (tool == "axolotl" || tool == "torchtune" || tool == "llama-factory-v1" || tool.starts_with("openrlhf")))
    d.shard = static_cast<int>(builder.job.gpus / (inner * d.replicate));
  const std::int64_t product = inner * d.replicate * d.shard;
  if (grid && product > 1 && builder.job.gpus > 0 && product != builder.job.gpus)
    builder.errors.push_back(
        {"does_not_divide", fmt::format("{}: the degrees multiply to {}, but num_processes is {}",
                                        where_of_a_degree(settings, sp), product, builder.job.gpus)});
  if (grid && product > 1)
    d.dp = d.replicate * d.shard;
  else if (builder.job.gpus > 0 && builder.job.gpus % inner == 0 && d.replicate == 1)
    d.dp = d.shard = static_cast<int>(builder.job.gpus / inner);
  builder.fix(&Fixed::tp, d.tp, kTp);
  builder.fix(&Fixed::cp, d.cp, ulysses > 1 ? sp : kCp);
  if (d.cp > 1) {
    const bool rotate = settings.text(kCpStrategy).value_or("allgather") == "alltoall";
    const CpKind kind = ulysses > 1 ? CpKind::Ulysses : rotate ? CpKind::Ring : CpKind::AllGather;
    builder.fix(&Fixed::cp_kind, kind, name(kind), ulysses > 1 ? sp : kCpStrategy);
    // Attention of the tool's own: accelerate's rules know Ulysses under DeepSpeed alone.
    if (ulysses > 1 && (sp != kSp || tool == "llama-factory-v1")) builder.job.framework = Framework::Any;
  }
  if (d.dp) builder.fix(&Fixed::dp, *d.dp, grid ? kShard : kProcesses);
  for (const auto axis : {&Fixed::pp, &Fixed::vp}) builder.fix(axis, 1, "");
  builder.fix(&Fixed::ep, builder.degree("args.expert_parallel_size", 1), "args.expert_parallel_size");
  const bool moe = builder.job.model && builder.job.model->moe();
  builder.fix(&Fixed::etp, moe && builder.job.fixed.ep.value_or(1) == 1 ? d.tp : 1, "");
  builder.fix(&Fixed::sequence_parallel, false, "off", "");
  return d;
}

/// FSDP's first version names what it shards.
void read_first_version(JobBuilder& builder, const Degrees& d) {
  Settings& settings = builder.settings;
  const std::string_view key = settings.states(kStrategy) ? kStrategy : kReshard;  // newer files name it there
  std::string word = capitals(settings.text(key).value_or("FULL_SHARD"));
  constexpr std::pair<std::string_view, std::string_view> kNumbers[] = {{"1", "FULL_SHARD"},
                                                                        {"2", "SHARD_GRAD_OP"},
                                                                        {"3", "NO_SHARD"},
                                                                        {"4", "HYBRID_SHARD"},
                                                                        {"5", "HYBRID_SHARD_ZERO2"}};
  for (const auto& [number, strategy] : kNumbers)
    if (word == number) word = strategy;
  if (settings.states(key) && std::none_of(std::begin(kNumbers), std::end(kNumbers), [&](const auto& row) {
        return row.second == word || (key == kReshard && (word == "TRUE" || word == "FALSE"));
      }))
    settings.refuse(*settings.get(key), "FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD or HYBRID_SHARD_ZERO2");
  builder.note("fsdp_version_1",
               fmt::format("{}: FSDP's first version is counted as its second",
                           settings.states(key) ? settings.where(key) : settings.where("acc.distributed_type")));
  if (lowered(settings.text(kReshard).value_or("")) == "false")
    builder.unused(kReshard, "FSDP's first version takes the name of a strategy there");
  const int machines = builder.degree("acc.num_machines", d.nodes);
  if (word.rfind("HYBRID_SHARD", 0) == 0 && d.dp && *d.dp % machines == 0 && machines > 1)
    builder.fix(&Fixed::shard, *d.dp / machines, key);
  const bool half = word == "SHARD_GRAD_OP" || word == "HYBRID_SHARD_ZERO2";
  builder.fix(&Fixed::zero, word == "NO_SHARD" ? 0 : half ? 2 : 3, key);
}

void read_sharding(JobBuilder& builder, const Degrees& d) {
  Settings& settings = builder.settings;
  const std::string type = settings.text("acc.distributed_type").value_or("NO");
  const bool hybrid = d.replicate > 1 && d.shard * d.cp > 1;
  builder.fix(&Fixed::shard, hybrid ? d.shard * d.cp : 0, kShard);
  if (type == "MULTI_GPU" || type == "NO") return builder.fix(&Fixed::zero, 0, "acc.distributed_type");
  if (type != "FSDP") {
    builder.errors.push_back(
        {"type_unknown",
         fmt::format("{}: `distributed_type: {}` is not read", settings.where("acc.distributed_type"), type),
         {},
         {"plan reads MULTI_GPU, FSDP and DEEPSPEED; state the job with `--layout`"}});
    return;
  }
  builder.offload_switch("acc.fsdp_config.fsdp_offload_params");
  if (builder.job.gpus == 1) return builder.fix(&Fixed::zero, 0, kProcesses);  // nobody to share the weights with
  if (builder.degree("acc.fsdp_config.fsdp_version", 1) == 1) return read_first_version(builder, d);
  builder.fix(&Fixed::zero, settings.boolean(kReshard).value_or(true) ? 3 : 2, kReshard);
}

void read_batch(JobBuilder& builder) {
  constexpr std::string_view kMicro = "args.per_device_train_batch_size", kSteps = "args.gradient_accumulation_steps";
  if (!builder.settings.has_section("args."))
    return builder.guess("micro_batch", "1", "the Trainer's arguments decide it");
  const hugging_face::TrainerTool& tool = hugging_face::tool_of(builder.settings);
  const int micro = builder.degree(kMicro, tool.micro_batch);
  const int steps = builder.degree(kSteps, 1);
  builder.fix(&Fixed::micro_batch, micro, kMicro);
  constexpr std::string_view kGlobal = "args.global_batch_size";
  if (tool.batch > 0 || (builder.settings.states(kGlobal) && tool.key == "llama-factory-v1"))
    return builder.global_batch(builder.degree(kGlobal, std::max(1, tool.batch)), kGlobal);
  builder.origin("micro_batches", fmt::format("{}", steps), kSteps);
  builder.rank_batch(micro, steps, builder.settings.states(kSteps) ? kSteps : kMicro);
}

/// Neither a file of accelerate's nor the Trainer's own `fsdp` says how the job is sharded.
void read_no_sharding(JobBuilder& builder) {
  builder.fix(&Fixed::shard, 0, "");
  const std::string tool = builder.settings.text("tool").value_or("");
  const std::string launched = builder.settings.text("args.launched").value_or("");
  if (launched == "true" || tool == "axolotl" || tool == "ms-swift") return builder.fix(&Fixed::zero, 0, "");
  builder.job.fixed.zero = 0;
  builder.guess("zero", "0",
                launched.empty() ? "no file says how it is launched: plain data parallelism"
                                 : "what DeepSpeed shards is decided in the program: plain data parallelism");
}

/// Words that accelerate stops at (1.15.0: utils/dataclasses.py, parallelism_config.py).
void check_words(JobBuilder& builder) {
  struct Choice {
    std::string_view key, words, wanted;
  };
  constexpr std::string_view kVersion = "acc.fsdp_config.fsdp_version";
  constexpr Choice kChoices[] = {{kVersion, "1 2", "1 or 2"},
                                 {kCpStrategy, "allgather alltoall", "allgather or alltoall"},
                                 {"acc.mixed_precision", "no false fp16 bf16 fp8", "no, fp16, bf16 or fp8"}};
  Settings& settings = builder.settings;
  const std::string tool = settings.text("tool").value_or("");
  for (const Choice& choice : kChoices)
    if (const Setting* setting = settings.get(choice.key);
        setting != nullptr && !is_plain(setting->value, choice.words) && (tool.empty() || choice.key == kVersion))
      settings.refuse(*setting, choice.wanted);
  // axolotl's schema (utils/schemas/peft.py, validate_qlora).
  if (tool == "axolotl" && lowered(settings.text("args.adapter").value_or("")) == "qlora" &&
      !settings.boolean("args.load_in_4bit").value_or(false))
    builder.errors.push_back({"conflicting_keys",
                              fmt::format("{}: `adapter: qlora` wants `load_in_4bit: true`, where axolotl stops",
                                          settings.where("args.adapter")),
                              {},
                              {"add it, or write `adapter: lora`"}});
  if (!tool.empty()) return;  // which hands on words of its own
  const Setting* saved = settings.get("acc.fsdp_config.fsdp_state_dict_type");
  if (saved != nullptr && saved->value == "LOCAL_STATE_DICT" && settings.text(kVersion).value_or("1") == "2")
    settings.refuse(*saved, "SHARDED_STATE_DICT or FULL_STATE_DICT under FSDP2");
}

}  // namespace

void hugging_face::read_processes(JobBuilder& builder, const LaunchFacts& facts) {
  Settings& settings = builder.settings;
  const std::string_view key = settings.states(kProcessesFlag) ? kProcessesFlag : kProcesses;  // the flag wins
  const std::string word = settings.text(key).value_or("");
  if (facts.total > 0) return;
  // OpenRLHF's actor has GPUs of its own, whatever the nodes have that its launcher asks for.
  for (const char* actor :
       {"args.actor_num_nodes", "args.actor_num_gpus_per_node", "args.actor.num_nodes", "args.actor.num_gpus_per_node"})
    if (const std::string own = settings.text(actor).value_or(""); own.find_first_of("$`") != std::string::npos)
      builder.unused(actor,
                     fmt::format("`{}` is not known, and it goes over what a launcher says", yaml::printable(own)));
  if (word.find_first_of("$`") != std::string::npos) {
    if (builder.job.gpus == 0)
      builder.unused(key, fmt::format("`{}` is not known, and it goes over what a file says", word));
    return;
  }
  if (const int processes = builder.degree(key, 0); processes > 0) builder.gpus(processes, key);
}

void hugging_face::read_unknown_to_accelerate(JobBuilder& builder) {
  std::set<std::string, std::less<>> noted;
  for (const Setting& setting : builder.settings.all()) {
    if (!setting.key.starts_with("acc.") || setting.key == "acc.missing_file") continue;
    std::string_view key = shown_key(setting.key).substr(0, setting.key.find('[') - 4);
    const std::string_view section = key.substr(0, key.find('.'));
    const bool nested = section == "fsdp_config" || section == "parallelism_config" || section == "deepspeed_config";
    const bool known = std::find(std::begin(kTop), std::end(kTop), section) != std::end(kTop);
    if (known && (!nested || key == section)) continue;
    if (known) key = key.substr(0, key.find('.', section.size() + 1));  // what is below it is one word of it
    if (noted.emplace(known ? key : section).second)
      builder.unknown_key(setting, known ? key : section, known ? std::span<const std::string_view>(kNested) : kTop,
                          known ? "is unknown to accelerate, which passes over it in silence"
                                : "is unknown to accelerate, which stops there");
  }
}

Result<LaunchJob> read_accelerate(std::span<const LaunchSource> files, const LaunchFacts& facts) {
  Result<Settings> settings = hugging_face::settings_of(files);
  if (!settings) return tl::unexpected(settings.error());
  JobBuilder builder(*settings, "accelerate", Framework::Accelerate);
  hugging_face::refuse_missing_file(builder, "acc.missing_file", "file of accelerate's", "the sharding");
  hugging_face::read_trainer(builder);
  const Degrees degrees = read_degrees(builder, facts);
  if (settings->has_section("acc."))
    read_sharding(builder, degrees);
  else
    read_no_sharding(builder);
  check_words(builder);
  hugging_face::read_machines(builder, facts);
  hugging_face::read_accelerate_switches(builder);
  hugging_face::read_precision(builder, false);
  read_batch(builder);
  constexpr std::string_view kCheckpointing = "acc.fsdp_config.fsdp_activation_checkpointing";
  const bool own = settings->boolean(kCheckpointing).value_or(false);
  hugging_face::read_checkpointing(builder, settings->has_section("acc.fsdp_config.") ? kCheckpointing : "", own);
  hugging_face::read_unknown_to_accelerate(builder);
  hugging_face::name_unread(builder);
  return builder.finish();
}

bool is_accelerate(const LaunchSource& source) {
  return hugging_face::kind_of(source) != hugging_face::Kind::None && !hugging_face::starts_deepspeed(source);
}

}  // namespace plan
