// NeMo Automodel's recipes: a model of the Hub, batches by `step_scheduler`, a mesh under `distributed`. Keys and
// defaults: NeMo Automodel nemo_automodel/{recipes/_dist_utils.py,recipes/llm/train_ft.py,components/distributed/
// {config,mesh_utils}.py,components/distributed/pipelining/,components/_peft/lora.py}, 2026. Tested by
// tests/launch/automodel_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "cli/launch/job/lora_targets.hpp"
#include "cli/launch/native/automodel.hpp"
#include "cli/launch/native/native_trainers.hpp"
#include "formulas/names.hpp"
#include "formulas/words.hpp"
#include "presets/suggest.hpp"

namespace plan {
namespace {

using namespace native_trainers;
using namespace automodel;

constexpr std::string_view kBatch = "step_scheduler.global_batch_size", kLocal = "step_scheduler.local_batch_size";
constexpr std::string_view kOldPipeline = "autopipeline.", kPipeline = "distributed.pipeline.";
constexpr std::string_view kRank = "peft.dim", kFp8 = "fp8.enabled";
constexpr std::string_view kOptimizer = "optimizer._target_", kSlurmNodes = "slurm.nodes";
constexpr std::string_view kSkyGpus = "skypilot.accelerators", kSkyNodes = "skypilot.num_nodes";
/// Where a file states the type that weights are kept in, and the lengths of sequences, the first of which counts.
constexpr std::string_view kTypes[] = {"model.torch_dtype", "model.dtype", "model.config.torch_dtype"};
constexpr std::string_view kLengths[] = {
    "packed_sequence.packed_sequence_size", "packed_sequence.pack_size", "dataset.seq_len",       "dataset.seq_length",
    "dataloader.collate_fn.max_length",     "dataset.max_length",        "dataset.max_seq_length"};
/// Keys that make another model of the one that is named.
constexpr auto kSizes = word_list([] {
  return "num_hidden_layers hidden_size intermediate_size moe_intermediate_size num_attention_heads "
         "num_key_value_heads head_dim vocab_size num_experts n_routed_experts num_experts_per_tok";
});
/// What shapes memory or time and is counted in one way only.
constexpr CountedAs kCounted[] = {
    {"distributed.pipeline.pp_schedule_csv", "", "a schedule of a table of its own is not read"},
    {"distributed.pipeline.module_fqns_per_model_part", "", "the stages are counted as even"},
    {"distributed.enable_async_tensor_parallel", "false", "messages behind products are counted one by one"},
    {"distributed.activation_checkpointing_scope", "all", "all layers are counted as rebuilt"},
    {"distributed.multimodal.frozen_sharding", "root per_layer", "towers are not counted"},
    {"freeze_config.freeze_language_model", "false", "frozen weights are counted as trained"},
    {"freeze_config.freeze_embeddings", "false", "frozen embeddings are counted as trained"},
    {"model.backend.experts", "gmm torch_mm te", "products of experts are counted as grouped"},
    {"model.use_liger_kernel", "false", "Liger's kernels are not modelled"},
    {"quantization.load_in_8bit", "false", "a base in 8 bits is counted in 16"},
    {"peft.use_dora", "false", "DoRA's norms are counted as LoRA"},
    {"qat.enabled", "false", "what training for quantization adds is not counted"},
};
constexpr auto kIrrelevant = word_list([] {
  return "recipe dist_env. rng. seed checkpoint. validation_dataset. validation_dataloader. dataset. dataset[ "
         "dataloader. tokenizer. processor. lr_scheduler. optimizer. loss_fn. wandb. mlflow. ci. benchmark. nvtx "
         "step_scheduler. packed_sequence. freeze_config. clip_grad_norm. compile. peft. quantization. fp8. slurm. "
         "skypilot. nemo_run. model.backend.enable_fsdp_optimizations model.backend. model._target_ model.config. "
         "model.trust_remote_code "
         "model.use_sdpa_patching model.force_hf model.load_base_model model.text_config. model.output_hidden_states "
         "model.is_meta_device model.quantization_config. distributed._target_ distributed.pipeline. distributed.moe. "
         "distributed.mp_policy. distributed.offload_policy. distributed.defer_fsdp_grad_sync "
         "distributed.enable_fsdp2_prefetch distributed.fsdp2_ distributed.patch_is_packed_sequence "
         "distributed.autocast_dtype distributed.tp_plan parallelizer. autopipeline. teacher_model. "
         "teacher_distributed. kd_loss_fn. "
         "kd_ratio neftune. logging. profiling. comet.";
});

/// `none` and an empty value are Python's None, which is as if the key were not there.
bool is_none(const std::string& word) {
  const std::string low = lowered(word);
  return low.empty() || low == "none" || low == "null" || low == "~";
}

/// The files' settings without what is None; what older recipes say of a pipeline in a section of its own, too.
Result<Settings> stated_settings(std::span<const LaunchSource> files) {
  Settings all;
  for (const LaunchSource& file : files) {
    const Result<Settings> one = settings_of_yaml(file);
    if (!one) return tl::unexpected(one.error());
    Settings stated;
    stated.remember(file);
    for (Setting setting : one->all()) {
      if (!setting.list && setting.items.empty() && is_none(setting.value)) continue;
      if (setting.key.starts_with(kOldPipeline)) setting.key.replace(0, kOldPipeline.size(), kPipeline);
      stated.add(std::move(setting));
    }
    all.append(stated);
  }
  return all;
}

/// The first of the keys that is stated with a number above 0; else an empty key.
std::string_view first_stated(JobBuilder& builder, std::span<const std::string_view> keys) {
  std::string_view found;
  for (const std::string_view key : keys)
    if (const Setting* const setting = builder.settings.get(key); setting != nullptr && setting->value != "0")
      if (found.empty()) found = key;
  return found;
}

void read_model(JobBuilder& builder) {
  Settings& settings = builder.settings;
  for (const std::string& section :
       {std::string("model."), std::string("model.config."), std::string("model.text_config.")})
    for (const std::string_view size : kSizes)
      if (const std::string key = section + std::string(size); settings.states(key))
        return builder.note("unknown_model",
                            fmt::format("{}: `{}` makes another model of the one that is named: name it "
                                        "with `--model`, or give its config.json with `--from`",
                                        settings.where(key), key));
  for (const std::string_view key :
       {"model.pretrained_model_name_or_path", "model.config.pretrained_model_name_or_path", "model.config",
        "model.config.name_or_path"})
    if (const std::optional<std::string> word = settings.text(key); word && !builder.job.model)
      builder.model(*word, *word, key);
  if (!builder.job.model) return;
  for (const char* key : {"model.num_nextn_predict_layers", "model.config.num_nextn_predict_layers"})
    if (settings.states(key)) {
      const int depth = builder.degree(key, 0, 0);
      if (depth == 0) builder.job.model->mtp = {};
      if (depth > 0 && depth != builder.job.model->mtp.depth)
        builder.unused(
            key, fmt::format("prediction modules are counted as the model has them: {}", builder.job.model->mtp.depth));
    }
}

/// GPUs of the file's own launcher, where nothing around it states them.
LaunchFacts own_launcher(JobBuilder& builder, LaunchFacts facts) {
  Settings& settings = builder.settings;
  if (settings.states(kSkyGpus)) builder.unused(kSkyGpus, "the kind of GPU is not read here: name it with `--gpu`");
  if (facts.gpus() > 0) return facts;
  if (settings.states(kSlurmNodes)) {
    facts.nodes = builder.degree(kSlurmNodes, 1), facts.gpus_per_node = builder.degree("slurm.ntasks_per_node", 8);
    facts.gpus_where = settings.where(kSlurmNodes);
  } else if (const std::string word = settings.text(kSkyGpus).value_or(""); !word.empty()) {
    const std::size_t colon = word.rfind(':');
    const std::optional<std::int64_t> each = colon == word.npos ? 1 : to_integer(word.substr(colon + 1));
    if (!each || *each < 1 || *each > 1024) return settings.refuse(*settings.get(kSkyGpus), "GPU:COUNT"), facts;
    facts.nodes = builder.degree(kSkyNodes, 1), facts.gpus_per_node = static_cast<int>(*each);
    facts.gpus_where = settings.where(kSkyGpus);
  }
  return facts;
}

void read_batch(JobBuilder& builder, const Mesh& d) {
  Settings& settings = builder.settings;
  for (const std::string_view key : {kBatch, kLocal})
    if (!settings.states(key))
      return builder.errors.push_back(
          {"missing_key", fmt::format("`{}` is missing: NeMo Automodel takes no default", key)});
  const int batch = builder.degree(kBatch, 1), local = builder.degree(kLocal, 1);
  const int micro = d.pp > 1 ? builder.degree(kPipeMicro, 1) : local;
  builder.fix(&Fixed::micro_batch, micro, d.pp > 1 ? kPipeMicro : kLocal);
  builder.global_batch(batch, kBatch);
  if (d.pp > 1 && local / micro < d.pp)
    builder.errors.push_back(
        {"bad_pass",
         fmt::format("{}: a pass of {} micro-batches is too short for {} stages, and NeMo Automodel "
                     "stops",
                     settings.where(kLocal), local / micro, d.pp),
         {},
         {fmt::format("raise `local_batch_size` to {} or more", micro * d.pp)}});
  if (!d.dp) return;
  if (batch % (std::int64_t{local} * *d.dp) != 0)
    builder.errors.push_back(
        {"does_not_divide",
         fmt::format("{}: `global_batch_size` {} is no multiple of {} sequences on each of {} ranks",
                     settings.where(kBatch), batch, local, *d.dp),
         {"NeMo Automodel refuses to start"},
         {}});
  else if (d.pp > 1 && batch != std::int64_t{local} * *d.dp)
    builder.unmodelled("pipeline_passes",
                       fmt::format("{}: a step runs the pipeline several times over; its bubble is counted once",
                                   settings.where(kLocal)));
}

/// Weights are kept, and updated, in the type that the model is loaded in: that of its checkpoint where none is stated.
void read_precision(JobBuilder& builder) {
  Settings& settings = builder.settings;
  const std::string_view from = first_stated(builder, kTypes);
  std::string word = from.empty() ? "auto" : lowered(settings.text(from).value_or("auto"));
  if (word.starts_with("torch.")) word.erase(0, 6);
  const bool bf16 = word == "auto" || word == "bf16" || word == "bfloat16", fp32 = word == "float32" || word == "fp32";
  if (!bf16 && !fp32) return settings.refuse(*settings.get(from), "bfloat16, float32 or auto");
  constexpr std::string_view kParam = "distributed.mp_policy.param_dtype", kRecipe = "model.backend.te_fp8.recipe";
  std::string compute = lowered(settings.text(kParam).value_or("bfloat16"));
  if (strategy_of(settings) == "ddp" && fp32 && !settings.states("distributed.autocast_dtype")) compute = "float32";
  if (bf16) pure_bf16(builder.training);
  const std::string recipe = lowered(settings.text(kRecipe).value_or(""));
  if (settings.boolean(kFp8).value_or(false))
    builder.precision(Precision::Fp8Tensorwise, kFp8);
  else if (!recipe.empty())
    builder.precision(recipe == "mxfp8"   ? Precision::Mxfp8
                      : recipe == "block" ? Precision::Fp8Blockwise
                                          : Precision::Fp8Tensorwise,
                      kRecipe);
  else
    builder.precision(compute.find("float32") != compute.npos ? Precision::Fp32 : Precision::Bf16,
                      settings.states(kParam) ? kParam : from);
  const std::string scaled = lowered(settings.text("fp8.recipe_name").value_or("tensorwise"));
  if (scaled != "tensorwise")
    builder.unused("fp8.recipe_name", fmt::format("scales `{}` are counted as one a tensor", scaled));
}

void read_optimizer(JobBuilder& builder) {
  Settings& settings = builder.settings;
  const std::string word = lowered(settings.text(kOptimizer).value_or("torch.optim.adamw"));
  if (word.find("muon") != word.npos) builder.training.optimizer = Optimizer::Muon;
  for (const char* other : {"dion", "flash", "lion", "sgd", "8bit", "adafactor"})
    if (word.find(other) != word.npos) builder.unused(kOptimizer, "this optimizer's states are counted as adam's");
  builder.origin("optimizer", name(builder.training.optimizer), kOptimizer);
  if (!settings.boolean("optimizer.master_weights").value_or(false)) return;
  builder.training.master_bytes = 4;
  const auto bytes = [&](const char* key) {
    const std::string type = lowered(settings.text(key).value_or("float32"));
    return type.find("bf") != type.npos || type.find("16") != type.npos ? 2 : 4;
  };
  builder.training.moment1_bytes = bytes("optimizer.exp_avg_dtype");
  builder.training.moment2_bytes = bytes("optimizer.exp_avg_sq_dtype");
}

void read_task(JobBuilder& builder) {
  Settings& settings = builder.settings;
  Training& training = builder.training;
  const bool adapters = settings.has_section("peft."),
             narrow = settings.boolean("quantization.load_in_4bit").value_or(false);
  const bool fresh = settings.text("model._target_").value_or("").ends_with("from_config");
  training.task = adapters ? (narrow ? Task::Qlora : Task::Lora) : fresh ? Task::Pretrain : Task::FullFinetune;
  builder.origin("task", name(training.task), adapters ? kRank : "model._target_");
  if (narrow && !adapters)
    builder.unused("quantization.load_in_4bit", "a base in 4 bits is counted in 16 where no adapters are trained");
  if (settings.text("recipe").value_or("").find("KnowledgeDistillation") != std::string::npos)
    builder.unused("recipe", "the teacher beside the trained model is not counted");
  if (!adapters) return;
  training.lora.rank = builder.degree(kRank, 8);
  builder.origin("lora_rank", fmt::format("{}", training.lora.rank), kRank);
  const Setting* const named = settings.get("peft.target_modules");
  if (named == nullptr || settings.boolean("peft.match_all_linear").value_or(false)) return;
  std::vector<std::string> words = words_of(*named);
  for (std::string& word : words)
    if (word.find_last_not_of('*') == std::string::npos || word == "*_proj")
      return;  // all linears of the layers
    else
      std::erase(word, '*');
  const std::optional<LoraTargets> targets = lora_targets(words);
  if (!targets) return;
  training.lora.attention = targets->attention, training.lora.ffn = targets->ffn;
  if (!targets->counted_as.empty()) builder.unused(named->key, targets->counted_as);
}

void read_software(JobBuilder& builder) {
  Settings& settings = builder.settings;
  Stack& stack = builder.training.stack;
  for (const char* key : {"model.attn_implementation", "model.backend.attn"})
    if (settings.text(key).value_or("") == "eager") stack.flash_attention = false;
  const bool whole = settings.boolean("compile.enabled").value_or(false);
  const std::string_view from = whole ? "compile.enabled" : "distributed.enable_compile";
  read_compile(builder, whole || settings.boolean(from).value_or(false), from);
  const std::string loss = lowered(settings.text("loss_fn._target_").value_or(""));
  if (loss.find("linear") != loss.npos || loss.find("chunked") != loss.npos)
    stack.cross_entropy = CrossEntropy::Chunked;
  tell_counted(builder, kCounted);
}

}  // namespace

bool is_automodel(const LaunchSource& source) {
  if (!may_be_yaml(source) || !has_lines(source, {"step_scheduler:", "model:"}) || !mentions(source, "nemo_automodel"))
    return false;
  const bool named = has_lines(source, {"recipe:"});
  for (const char* recipe : {"TrainFinetuneRecipeForNextTokenPrediction", "FinetuneRecipeForVLM",
                             "BenchmarkingRecipeForNextTokenPrediction", "KnowledgeDistillationRecipeFor"})
    if (mentions(source, recipe)) return true;
  return !named &&
         (mentions(source, "NeMoAutoModelForCausalLM") || mentions(source, "NeMoAutoModelForImageTextToText"));
}

Result<LaunchJob> read_automodel(std::span<const LaunchSource> files, const LaunchFacts& given) {
  Result<Settings> settings = stated_settings(files);
  if (!settings) return tl::unexpected(settings.error());
  JobBuilder builder(*settings, "nemo-automodel", Framework::Any);
  const LaunchFacts facts = own_launcher(builder, given);
  if (std::optional<Error> error = too_many_gpus(facts)) return fail(std::move(*error));
  builder.launcher(facts);
  read_own_model(builder, facts, read_model);
  const Mesh mesh = read_mesh(builder);
  read_sharding(builder, mesh);
  read_pipeline(builder, mesh);
  read_recompute(builder);
  read_precision(builder);
  read_batch(builder, mesh);
  if (const std::string_view key = first_stated(builder, kLengths); !key.empty())
    builder.sequence(builder.degree(key, 1), key);
  read_optimizer(builder);
  read_task(builder);
  read_software(builder);
  tell_the_rest(builder, kIrrelevant, "NeMo Automodel");
  return builder.finish();
}

}  // namespace plan
