// What a torchtitan configuration says of the layout. Defaults: torchtitan v0.2.2 config/job_config.py, main b5bcd76c
// config/configs.py. Tested by tests/frameworks/framework_files_test.cpp.
#include <fmt/format.h>

#include <algorithm>

#include "cli/launch/torchtitan/keys.hpp"
#include "cli/launch/torchtitan/torchtitan.hpp"
#include "cli/settings/settings.hpp"
#include "formulas/names.hpp"
#include "planner/problem/pipeline.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace torchtitan {
namespace {

constexpr std::string_view kReplicate = "parallelism.data_parallel_replicate_degree";
constexpr std::string_view kShard = "parallelism.data_parallel_shard_degree";
constexpr std::string_view kReshard = "parallelism.fsdp_reshard_after_forward";
constexpr std::string_view kSchedule = "parallelism.pipeline_parallel_schedule";
constexpr std::string_view kPerStage = "parallelism.pipeline_parallel_layers_per_stage";
constexpr std::string_view kParts = "parallelism.module_fqns_per_model_part";

/// Layers of every part in module_fqns_per_model_part; empty if it is not given.
std::vector<int> named_parts(Settings& settings) {
  std::vector<int> counts;
  while (const Setting* part = settings.get(fmt::format("{}[{}]", kParts, counts.size())))
    counts.push_back(
        static_cast<int>(std::count_if(part->items.begin(), part->items.end(),
                                       [](const std::string& name) { return name.rfind("layers.", 0) == 0; })));
  settings.get(kParts);
  return counts;
}

int depth(const JobBuilder& builder) { return builder.job.model ? builder.job.model->depth() : 0; }

void read_shards(JobBuilder& builder, const Degrees& d) {
  Settings& settings = builder.settings;
  if (d.replicate == 1) {
    builder.fix(&Fixed::shard, 0, kReplicate);
  } else if (d.shard > 0 || d.dp) {
    const int shard = d.shard > 0 ? d.shard : *d.dp / d.replicate;
    const bool replicated_only = shard * d.cp == 1;
    builder.fix(&Fixed::shard, replicated_only ? 0 : shard * d.cp, kShard);
  } else {
    builder.note("shard_unknown",
                 fmt::format("{}: the shard group follows from the number of GPUs, which no file states",
                             settings.where(kReplicate)));
  }
  const std::string policy = settings.text(kReshard).value_or("default");
  const bool one_rank = d.dp && *d.dp * d.cp == 1;
  const bool only_replicas = d.shard == 1 && d.cp == 1;
  int zero = d.pp > 1 ? 2 : 3;
  if (policy == "always") zero = 3;
  if (policy == "never") zero = 2;
  if (policy == "default" && (one_rank || (only_replicas && d.replicate > 1)) && d.tp == 1 && d.pp == 1) zero = 0;
  if (policy != "default" && policy != "always" && policy != "never")
    settings.refuse(*settings.get(kReshard), "default, always or never");
  builder.fix(&Fixed::zero, zero, kReshard);
}

void fix_chunks(JobBuilder& builder, std::vector<int> chunks, std::string_view key) {
  const std::string text = fmt::format("{}", fmt::join(chunks, "+"));
  builder.fix(&Fixed::chunk_layers, std::move(chunks), text, key);
}

/// Stages as named, as counted by layers a stage, or as the schedule has by default.
void read_stages(JobBuilder& builder, const Degrees& d, bool several) {
  Settings& settings = builder.settings;
  const int first = builder.degree("parallelism.pipeline_parallel_first_stage_less_layers", 1, 0);
  const int last = builder.degree("parallelism.pipeline_parallel_last_stage_less_layers", 1, 0);
  const int per_stage = builder.degree(kPerStage, 0);
  std::vector<int> chunks = named_parts(settings);
  std::string_view key = kParts;
  if (chunks.empty()) {
    key = kPerStage;
    int stages = d.pp * (several ? 2 : 1);
    if (per_stage > 0 && depth(builder) == 0)
      return builder.note("stages_unknown", fmt::format("{}: the number of stages follows from the model's layers",
                                                        settings.where(kPerStage)));
    if (per_stage > 0) stages = (depth(builder) + first + last + per_stage - 1) / per_stage;
    if (depth(builder) == 0) return builder.fix(&Fixed::vp, stages / d.pp, "");
    chunks = deal(depth(builder), stages, first, last);
    if (chunks.empty() || stages % d.pp != 0)
      return builder.errors.push_back(
          {"does_not_divide",
           fmt::format("torchtitan cannot deal {} layers to {} stages on {} ranks", depth(builder), stages, d.pp)});
  }
  if (static_cast<int>(chunks.size()) % d.pp != 0)
    return builder.errors.push_back(
        {"does_not_divide",
         fmt::format("{}: {} model parts do not divide among {} ranks",
                     settings.where("parallelism.module_fqns_per_model_part[0]"), chunks.size(), d.pp)});
  builder.fix(&Fixed::vp, static_cast<int>(chunks.size()) / d.pp, settings.states(key) ? key : kParts);
  fix_chunks(builder, std::move(chunks), key);
}

/// The TOML file's ways to recompute.
void read_recompute(JobBuilder& builder) {
  Settings& settings = builder.settings;
  constexpr std::string_view kMode = "activation_checkpoint.mode",
                             kOption = "activation_checkpoint.selective_ac_option";
  const std::string mode = settings.text(kMode).value_or("selective");
  const std::string option = settings.text(kOption).value_or("2");
  const auto fix = [&](const Recompute& recompute, std::string_view word) {
    builder.fix(&Fixed::recompute, recompute, word, settings.states(kMode) ? kMode : kOption);
  };
  if (mode == "none") return fix({}, "none");
  if (mode == "full") return fix({.kind = RecomputeKind::Full}, "full");
  if (mode == "memory_budget") {
    settings.number("activation_checkpoint.memory_budget");
    return builder.unmodelled(
        "recompute_unknown",
        fmt::format("{}: what a memory budget recomputes is up to the compiler", settings.where(kMode)));
  }
  if (mode != "selective") return settings.refuse(*settings.get(kMode), "none, selective, full or memory_budget");
  if (option == "op") return fix({.kind = RecomputeKind::Selective, .modules = kRecomputeOps}, "op");
  const std::optional<std::int64_t> every = to_integer(option);
  if (!every || *every < 1) return settings.refuse(*settings.get(kOption), "op or a whole number");
  if (*every == 1) return fix({.kind = RecomputeKind::Full}, "full");
  int deepest = depth(builder);
  if (builder.job.fixed.chunk_layers)
    deepest = *std::max_element(builder.job.fixed.chunk_layers->begin(), builder.job.fixed.chunk_layers->end());
  if (deepest == 0)
    return builder.note("recompute_unknown", "how many layers are recomputed follows from the model's layers");
  const int layers = std::max<int>(1, static_cast<int>(deepest / *every));
  builder.note("recompute_counted",
               fmt::format("{}every {} layers are recomputed: counted as {} a chunk, one after the other",
                           settings.states(kOption) ? settings.where(kOption) + ": " : "", *every, layers));
  fix({.kind = RecomputeKind::Full, .layers = layers}, fmt::format("full-{}", layers));
}

void read_precision(JobBuilder& builder) {
  Settings& settings = builder.settings;
  constexpr std::string_view kParam = "training.mixed_precision_param", kConverters = "model.converters";
  const std::string dtype = settings.text(kParam).value_or("bfloat16");
  if (dtype != "bfloat16" && dtype != "float32") settings.refuse(*settings.get(kParam), "bfloat16 or float32");
  Precision precision = dtype == "float32" ? Precision::Fp32 : Precision::Bf16;
  std::string_view key = kParam;
  if (const Setting* converters = settings.get(kConverters))
    for (const std::string& name :
         converters->items.empty() ? std::vector<std::string>{converters->value} : converters->items) {
      if (name == "quantize.linear.float8" || name == "quantize.linear.mx") {
        precision = name == "quantize.linear.mx" ? Precision::Mxfp8 : Precision::Fp8Tensorwise;
        key = kConverters;
      } else if (name == "float8" || name == "mx") {
        precision = name == "mx" ? Precision::Mxfp8 : Precision::Fp8Tensorwise;
        key = kConverters;
        builder.note("unknown_converter", fmt::format("{}: torchtitan 0.2.2 calls this converter `quantize.linear.{}`",
                                                      settings.where(kConverters), name));
      } else if (!name.empty() && name != "[]" && !name.starts_with("quantize.grouped_mm.")) {
        builder.unmodelled("unknown_converter", fmt::format("{}: what the converter `{}` changes is not counted",
                                                            settings.where(kConverters), yaml::printable(name)));
      }
    }
  builder.precision(precision, key);
  constexpr std::string_view kType = "training.dtype";
  const std::string type = settings.text(kType).value_or("float32");
  if (type != "bfloat16" && type != "float32") settings.refuse(*settings.get(kType), "bfloat16 or float32");
  if (type == "bfloat16")
    builder.unmodelled("states_in_bf16", fmt::format("{}: parameters and optimizer states in bf16 are counted as fp32",
                                                     settings.where(kType)));
  builder.offload_switch("training.enable_cpu_offload");
}

/// A step may run the pipeline several times over: the schedule asks its own of the micro-batches of one pass.
void judge_pass(JobBuilder& builder, const Degrees& d, int local, int micro) {
  const Fixed& fixed = builder.job.fixed;
  if (d.pp == 1 || !fixed.schedule || local % micro != 0) return;
  Layout layout;
  layout.schedule = *fixed.schedule, layout.pp = d.pp, layout.vp = fixed.vp.value_or(1);
  // Of a schedule that no number suits, because the stages are not known or are none of its own, another rule tells.
  const std::int64_t plenty = std::int64_t{64} * layout.chunks();
  if (schedule_allows(pipeline_of(layout, local / micro)) || !schedule_allows(pipeline_of(layout, plenty))) return;
  builder.errors.push_back({"bad_pass",
                            fmt::format("{}: {} takes no pass of {} micro-batches through {} stages",
                                        builder.settings.where("training.local_batch_size"), name(layout.schedule),
                                        local / micro, layout.chunks()),
                            {std::string(schedule_row(layout.schedule).takes)},
                            {fmt::format("a larger `training.local_batch_size`, in sequences of {}", micro)}});
}

void read_batch(JobBuilder& builder, const Degrees& d) {
  const int local = builder.degree("training.local_batch_size", 8);
  const int micro = d.pp > 1 ? builder.degree("parallelism.pipeline_parallel_microbatch_size", 1) : local;
  builder.fix(&Fixed::micro_batch, micro,
              d.pp > 1 ? "parallelism.pipeline_parallel_microbatch_size" : "training.local_batch_size");
  builder.sequence(builder.degree("training.seq_len", 2048), "training.seq_len");
  const std::optional<std::int64_t> global = builder.settings.integer("training.global_batch_size");
  if (global && *global > 0)
    builder.global_batch(*global, "training.global_batch_size");
  else if (local % micro == 0)
    builder.rank_batch(micro, local / micro, "training.local_batch_size");
  else
    builder.errors.push_back(
        {"does_not_divide", fmt::format("{}: {} sequences of a rank are no whole micro-batches of {}",
                                        builder.settings.where("training.local_batch_size"), local, micro)});
  judge_pass(builder, d, local, micro);
  if (d.pp > 1 && global && *global > 0 && d.dp && *global != static_cast<std::int64_t>(local) * *d.dp)
    builder.unmodelled("pipeline_passes",
                       fmt::format("{}: a step runs the pipeline several times over; its bubble is counted once",
                                   builder.settings.where("training.local_batch_size")));
}

}  // namespace

Degrees read_degrees(JobBuilder& builder, const LaunchFacts& facts) {
  Degrees d;
  d.tp = builder.degree("parallelism.tensor_parallel_degree", 1);
  d.cp = builder.degree("parallelism.context_parallel_degree", 1);
  d.pp = builder.degree("parallelism.pipeline_parallel_degree", 1);
  d.ep = builder.degree("parallelism.expert_parallel_degree", 1);
  d.replicate = builder.degree(kReplicate, 1);
  d.shard = builder.degree(kShard, -1, -1);
  if (d.shard == 0) builder.settings.refuse(*builder.settings.get(kShard), "-1 or at least 1");
  if (!builder.plausible({d.tp, d.cp, d.pp, d.replicate, std::max(1, d.shard)})) return {};
  builder.launcher(facts);
  const std::int64_t inner = static_cast<std::int64_t>(d.tp) * d.cp * d.pp;
  const std::int64_t stated = static_cast<std::int64_t>(d.replicate) * d.shard;
  if (d.shard > 0 && stated * inner <= kMostGpus) {
    d.dp = static_cast<int>(stated);
    builder.fix(&Fixed::dp, *d.dp, kShard);
    if (builder.job.gpus == 0) builder.gpus(stated * inner, kShard);
  } else if (builder.job.gpus > 0 && builder.job.gpus % inner == 0) {
    d.dp = static_cast<int>(builder.job.gpus / inner);
    builder.fix(&Fixed::dp, *d.dp, "");  // -1: what the other axes leave
  }
  builder.fix(&Fixed::tp, d.tp, "parallelism.tensor_parallel_degree");
  builder.fix(&Fixed::cp, d.cp, "parallelism.context_parallel_degree");
  builder.fix(&Fixed::pp, d.pp, "parallelism.pipeline_parallel_degree");
  read_shards(builder, d);
  return d;
}

void read_pipeline(JobBuilder& builder, const Degrees& d) {
  Settings& settings = builder.settings;
  const std::string word = settings.text(kSchedule).value_or("1F1B");
  if (const std::optional<std::string> csv = settings.text("parallelism.pipeline_parallel_schedule_csv");
      csv && !csv->empty())
    builder.unmodelled("schedule_unknown", fmt::format("{}: a schedule in a CSV file is not read",
                                                       settings.where("parallelism.pipeline_parallel_schedule_csv")));
  if (d.pp == 1) {
    builder.fix(&Fixed::vp, 1, "");
    return;
  }
  const ScheduleRow* known = find_schedule(word);
  if (known != nullptr)
    builder.fix(&Fixed::schedule, known->schedule, known->name, kSchedule);
  else
    builder.unmodelled("schedule_unknown",
                       fmt::format("{}: the schedule `{}` is not modelled", settings.where(kSchedule), word));
  read_stages(builder, d, known == nullptr || known->chunks != Chunks::One);
}

/// Flavors that releases before 0.1 had, which no later one is written for.
constexpr std::pair<std::string_view, std::string_view> kFormer[] = {
    {"llama2 7B", "llama2-7b"}, {"llama2 13B", "llama2-13b"}, {"llama2 70B", "llama2-70b"}};

void read_model(JobBuilder& builder, std::string_view family, std::string_view flavor, std::string_view key) {
  // experiments/transformers_modeling_backend: any model of transformers, by its name.
  constexpr std::string_view kTransformers = "hf_transformers.model";
  if (const std::optional<std::string> word = builder.settings.text(kTransformers); word && !word->empty())
    return builder.model(*word, *word, kTransformers);
  for (const auto& [named, preset] : kFormer)
    if (named == fmt::format("{} {}", family, flavor)) return builder.model(preset, std::string(named), key);
  for (const Flavor& row : flavors())
    if (row.family == family && row.flavor == flavor) {
      builder.model(row.preset, fmt::format("{} {}", family, flavor), key);
      // v0.2.2 trains no multi-token prediction, main only if asked to.
      if (builder.job.model) builder.job.model->mtp = {};
      return;
    }
  builder.job.model_name = fmt::format("{} {}", family, flavor);
  builder.note("unknown_model", fmt::format("{}: the flavor `{}` of {} has no preset: name the model with `--model`",
                                            builder.settings.where(key), flavor, family));
}

void read_experts(JobBuilder& builder, const Degrees& d) {
  const int etp = builder.degree("parallelism.expert_tensor_parallel_degree", 1);
  const bool moe = !builder.job.model || builder.job.model->moe();
  constexpr std::string_view kDegree = "parallelism.expert_parallel_degree";
  builder.fix(&Fixed::ep, moe ? d.ep : 1, kDegree);
  if (!moe && d.ep > 1) builder.unused(kDegree, "the model has no experts, whose ranks it would be");
  // Without expert parallelism the tensor-parallel ranks split each expert.
  if (moe && d.ep == 1)
    builder.fix(&Fixed::etp, d.tp, "");
  else
    builder.fix(&Fixed::etp, moe ? etp : 1, "parallelism.expert_tensor_parallel_degree");
}

}  // namespace torchtitan

Result<LaunchJob> torchtitan::job_of(Settings& settings, std::string_view format, const LaunchFacts& facts) {
  JobBuilder builder(settings, format, Framework::Torchtitan);
  read_model(builder, settings.text("model.name").value_or("llama3"),
             settings.text("model.flavor").value_or("debugmodel"), "model.flavor");
  const Degrees degrees = read_degrees(builder, facts);
  builder.fix(&Fixed::sequence_parallel, degrees.tp > 1, degrees.tp > 1 ? "on" : "off", "");
  const std::string rotate = settings.text("parallelism.context_parallel_rotate_method").value_or("allgather");
  if (degrees.cp > 1)
    builder.fix(&Fixed::cp_kind, rotate == "alltoall" ? CpKind::Ring : CpKind::AllGather,
                rotate == "alltoall" ? "ring" : "all-gather", "parallelism.context_parallel_rotate_method");
  read_experts(builder, degrees);
  read_pipeline(builder, degrees);
  read_batch(builder, degrees);
  read_precision(builder);
  read_recompute(builder);
  read_switches(builder, degrees, format == "torchtitan");
  if (format == "torchtitan") builder.unknown(kKeys, "is unknown to torchtitan 0.2.2, which stops there");
  return builder.finish();
}

namespace {

/// Keys of 2024 and early 2025 under the names of v0.2.2: torchtitan moved them between its tables.
constexpr std::pair<std::string_view, std::string_view> kMoved[] = {
    {"training.data_parallel_degree", "parallelism.data_parallel_shard_degree"},
    {"training.data_parallel_shard_degree", "parallelism.data_parallel_shard_degree"},
    {"training.data_parallel_replicate_degree", "parallelism.data_parallel_replicate_degree"},
    {"training.tensor_parallel_degree", "parallelism.tensor_parallel_degree"},
    {"training.fsdp_reshard_after_forward", "parallelism.fsdp_reshard_after_forward"},
    {"experimental.context_parallel_degree", "parallelism.context_parallel_degree"},
    {"experimental.context_parallel_rotate_method", "parallelism.context_parallel_rotate_method"},
    {"experimental.pipeline_parallel_degree", "parallelism.pipeline_parallel_degree"},
    {"experimental.pipeline_parallel_schedule", "parallelism.pipeline_parallel_schedule"},
    {"experimental.pipeline_parallel_schedule_csv", "parallelism.pipeline_parallel_schedule_csv"},
    {"experimental.enable_async_tensor_parallel", "parallelism.enable_async_tensor_parallel"},
    {"training.batch_size", "training.local_batch_size"},
    {"training.compile", "compile.enable"},
};

/// Lays each moved key under its name of today.
std::vector<std::string> modernised(Settings& settings) {
  std::vector<std::string> notes;
  for (const auto& [then, now] : kMoved) {
    const Setting* old = settings.states(now) ? nullptr : settings.get(then);
    if (old == nullptr) continue;
    notes.push_back(fmt::format("{}: torchtitan 0.2.2 calls `{}` `{}`", old->where(), then, now));
    Setting moved = *old;
    moved.key = now;
    settings.add(std::move(moved));
  }
  constexpr std::string_view kFloat8 = "float8.enable_float8_linear", kConverters = "model.converters";
  if (const Setting* old = settings.get(kFloat8);
      old != nullptr && truth_of(old->value).value_or(false) && !settings.states(kConverters)) {
    Setting converters = *old;
    converters.key = kConverters, converters.value = "quantize.linear.float8";
    notes.push_back(fmt::format("{}: torchtitan 0.2.2 asks for it with `{}`", old->where(), kConverters));
    settings.add(std::move(converters));
  }
  return notes;
}

}  // namespace

Result<LaunchJob> read_torchtitan(std::span<const LaunchSource> files, const LaunchFacts& facts) {
  Settings settings;
  for (const LaunchSource& file : files) {
    Result<Settings> one = settings_of_toml(file);
    if (!one) return tl::unexpected(one.error());
    settings.append(*one);
  }
  const std::vector<std::string> moved = modernised(settings);
  Result<LaunchJob> job = torchtitan::job_of(settings, "torchtitan", facts);
  for (const std::string& note : moved)
    if (job) job->notes.push_back({"moved_key", note});
  return job;
}

/// Other trainers write `[model]` and `[training]`, too: one of torchtitan's own tables or words must be there.
bool is_torchtitan(const LaunchSource& source) {
  if (!source.path.ends_with(".toml")) return false;
  for (const std::string_view table : {"[parallelism]", "[activation_checkpoint]", "[job]", "[parallelism."})
    if (mentions(source, table)) return true;
  return (mentions(source, "[model]") && mentions(source, "flavor")) ||
         (mentions(source, "[training]") && (mentions(source, "local_batch_size") || mentions(source, "seq_len")));
}

}  // namespace plan
