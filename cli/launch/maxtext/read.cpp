// What a MaxText configuration says of the layout. Defaults: MaxText e591f30c configs/base.yml.
// Tested by tests/frameworks/framework_files_test.cpp.
#include <fmt/core.h>
#include <cmath>

#include <algorithm>

#include "cli/launch/job/keys.hpp"
#include "cli/launch/job/unread.hpp"
#include "cli/launch/job/weighty_names.hpp"
#include "cli/launch/maxtext/maxtext.hpp"
#include "cli/shell/shell.hpp"
#include "cli/terminal/offload_flag.hpp"
#include "formulas/names.hpp"
#include "formulas/words.hpp"
#include "presets/suggest.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

/// The key under which a file is named that another lies over and that could not be opened.
constexpr std::string_view kMissing = "base_config that is not there";

std::string_view stated(const Settings& settings, std::string_view axis, std::string& buffer) {
  buffer = maxtext::key_of("ici", axis);
  if (!settings.states(buffer)) buffer = maxtext::key_of("dcn", axis);
  return buffer;
}

struct Degrees {
  int tp = 1, cp = 1, pp = 1, ep = 1;
  std::optional<int> dp{};
  std::optional<int> devices{};
};

void read_sharding(JobBuilder& builder, const maxtext::Mesh& mesh, const Degrees& d) {
  std::string key;
  const int fsdp = mesh.at("fsdp") * mesh.at("fsdp_transpose") * mesh.at("sequence"), data = mesh.at("data");
  const int shard = fsdp * d.ep * d.cp;
  if (mesh.open) {  // base.yml leaves what is left inside a slice to fsdp
    builder.fix(&Fixed::zero, 3, stated(builder.settings, "fsdp", key));
    return;
  }
  if (shard > 1) {
    builder.fix(&Fixed::zero, 3, stated(builder.settings, "fsdp", key));
    return builder.fix(&Fixed::shard, data > 1 ? shard : 0, stated(builder.settings, "data", key));
  }
  const bool optimizer = data > 1 && builder.settings.boolean("shard_optimizer_over_data").value_or(false);
  builder.fix(&Fixed::zero, optimizer ? 1 : 0, "shard_optimizer_over_data");
  builder.fix(&Fixed::shard, 0, "");
}

Degrees read_degrees(JobBuilder& builder, const LaunchFacts& facts) {
  const maxtext::Mesh mesh = maxtext::read_mesh(builder, facts);
  builder.launcher(facts);
  Degrees d;
  std::string key;
  d.tp = mesh.at("tensor") * mesh.at("tensor_sequence");
  d.cp = mesh.at("context") * mesh.at("context_usp_ulysses");
  d.pp = mesh.at("pipeline");
  d.ep = mesh.at("expert");
  if (!mesh.open) {
    d.dp = mesh.at("data") * mesh.at("fsdp") * mesh.at("fsdp_transpose") * mesh.at("sequence") * d.ep;
    d.devices = *d.dp * d.tp * d.cp * d.pp;
    if (builder.job.gpus == 0) builder.gpus(*d.devices, stated(builder.settings, "fsdp", key));
    builder.fix(&Fixed::dp, *d.dp, stated(builder.settings, "fsdp", key));
  } else {
    builder.note("gpus_unknown", "an axis takes the devices that are left, and no file says of how many");
  }
  const bool sequence = mesh.at("tensor_sequence") > 1;
  builder.fix(&Fixed::tp, d.tp, stated(builder.settings, sequence ? "tensor_sequence" : "tensor", key));
  builder.fix(&Fixed::sequence_parallel, sequence, sequence ? "on" : "off",
              stated(builder.settings, "tensor_sequence", key));
  builder.fix(&Fixed::cp, d.cp, stated(builder.settings, "context", key));
  builder.fix(&Fixed::pp, d.pp, stated(builder.settings, "pipeline", key));
  builder.fix(&Fixed::ep, d.ep, stated(builder.settings, "expert", key));
  builder.fix(&Fixed::etp, builder.job.model && builder.job.model->moe() ? d.tp : 1, "");
  read_sharding(builder, mesh, d);
  if (d.pp > 1 && !mesh.open) {  // its mesh: data, stage, fsdp
    const AxisOrder order = builder.job.fixed.zero == 3 ? AxisOrder::PipelineOutermost : AxisOrder::DataOutermost;
    builder.fix(&Fixed::order, order, name(order), "");
  }
  maxtext::tell_crossings(builder, mesh);
  return d;
}

void read_context(JobBuilder& builder, const Degrees& d) {
  constexpr std::string_view kKey = "context_parallel_strategy";
  if (d.cp == 1) return;
  constexpr std::pair<std::string_view, CpKind> kKinds[] = {
      {"all_gather", CpKind::AllGather}, {"ring", CpKind::Ring}, {"ulysses", CpKind::Ulysses}, {"usp", CpKind::Hybrid}};
  const std::string word = builder.settings.text(kKey).value_or("all_gather");
  for (const auto& [name_here, kind] : kKinds)
    if (word == name_here) return builder.fix(&Fixed::cp_kind, kind, name(kind), kKey);
  builder.settings.refuse(*builder.settings.get(kKey), "all_gather, ring, ulysses or usp");
}

void read_pipeline(JobBuilder& builder, const Degrees& d) {
  Settings& settings = builder.settings;
  if (d.pp == 1) return builder.fix(&Fixed::vp, 1, "");
  constexpr std::string_view kRepeats = "num_pipeline_repeats", kEach = "num_layers_per_pipeline_stage";
  const int depth = builder.job.model ? builder.job.model->depth() : 0;
  const int each = builder.degree(kEach, 1);
  int repeats = builder.degree(kRepeats, -1, -1);
  if (repeats < 1 && depth > 0 && static_cast<std::int64_t>(d.pp) * each <= depth && depth % (d.pp * each) == 0)
    repeats = depth / (d.pp * each);
  if (depth > 0 && repeats > 0 && static_cast<std::int64_t>(d.pp) * repeats * each != depth)
    builder.errors.push_back(
        {"does_not_divide",
         fmt::format("{} stages * {} repeats * {} layers are not the model's {}", d.pp, repeats, each, depth)});
  if (repeats < 1) return builder.note("stages_unknown", "the repeats follow from the model's layers");
  builder.fix(&Fixed::vp, repeats, settings.states(kRepeats) ? kRepeats : kEach);
  const Schedule schedule = repeats > 1 ? Schedule::BreadthFirst : Schedule::GPipe;
  builder.fix(&Fixed::schedule, schedule, name(schedule), "");
}

void read_batch(JobBuilder& builder, const Degrees& d) {
  Settings& settings = builder.settings;
  constexpr std::string_view kBatch = "per_device_batch_size", kSteps = "gradient_accumulation_steps";
  builder.sequence(builder.degree("max_target_length", 2048), "max_target_length");
  const double each = settings.number(kBatch).value_or(12);
  const int steps = builder.degree(kSteps, 1);
  if (!(each > 0) || each > 1e6) return settings.refuse(*settings.get(kBatch), "above 0");
  if (!d.devices) return;
  const double batch = each * *d.devices;
  const std::int64_t whole = std::llround(batch);
  if (whole < 1 || std::abs(batch - static_cast<double>(whole)) > 1e-6 * batch)
    return settings.refuse(*settings.get(kBatch), "a whole number of sequences over all devices");
  builder.global_batch(builder.product({whole, steps}), kBatch);
  builder.job.rank_batch = RankBatch{.steps = 0, .sequences = each * steps, .where = settings.where(kBatch)};
  const bool delayed = settings.boolean("pipeline_delay_activation_forwarding").value_or(false);
  int passes = d.pp > 1 ? builder.degree("num_pipeline_microbatches", -1, -1) : 1;
  if (passes < 1) passes = d.pp * (delayed ? 2 : 1);
  const std::int64_t ranks = static_cast<std::int64_t>(passes) * *d.dp;
  if (whole % ranks != 0)
    return builder.errors.push_back(
        {"does_not_divide", fmt::format("{} sequences do not divide among {} micro-batches of "
                                        "{} ranks",
                                        whole, passes, *d.dp)});
  builder.fix(&Fixed::micro_batch, static_cast<int>(whole / ranks), kBatch);
}

void read_recompute(JobBuilder& builder) {
  constexpr std::string_view kKey = "remat_policy";
  const std::string word = builder.settings.text(kKey).value_or("full");
  const auto fix = [&](const Recompute& recompute, std::string_view text) {
    builder.fix(&Fixed::recompute, recompute, text, kKey);
  };
  if (word == "minimal_with_context")
    return fix({.kind = RecomputeKind::Selective, .modules = kRecomputeNorm}, "layernorm");
  if (word.ends_with("_offloaded"))
    builder.unmodelled(
        "offload_not_modelled",
        fmt::format("{}: `{}` leaves on the GPU what `full` does and fetches the rest from the host; it is "
                    "counted as full recomputation",
                    builder.settings.where(kKey), word));
  else if (word != "full")
    builder.unmodelled("recompute_unknown", fmt::format("{}: `remat_policy: {}` is counted as full recomputation",
                                                        builder.settings.where(kKey), word));
  fix({.kind = RecomputeKind::Full}, "full");
}

void read_precision(JobBuilder& builder) {
  Settings& settings = builder.settings;
  const std::string quantization = settings.text("quantization").value_or("");
  Precision precision = settings.text("dtype").value_or("bfloat16") == "float32" ? Precision::Fp32 : Precision::Bf16;
  bool known = quantization.empty();
  for (const maxtext::Quantization& row : maxtext::quantizations())
    if (row.name == quantization) precision = row.precision, known = true;
  if (!known && quantization.find("fp8") != std::string::npos) {
    precision = Precision::Fp8Tensorwise;
    builder.unmodelled("precision_counted", fmt::format("{}: `{}` is counted as fp8 with a scale a tensor",
                                                        settings.where("quantization"), quantization));
  } else if (!known) {
    builder.unmodelled("precision_unknown", fmt::format("{}: the quantization `{}` is not modelled",
                                                        settings.where("quantization"), quantization));
  }
  builder.precision(precision, quantization.empty() ? "dtype" : "quantization");
  const std::string optimizer = settings.text("opt_type").value_or("adamw");
  builder.training.optimizer = optimizer == "muon"  ? Optimizer::Muon
                               : optimizer == "sgd" ? Optimizer::Sgd
                                                    : Optimizer::Adam;
  builder.origin("optimizer", name(builder.training.optimizer), "opt_type");
  Offload& offload = builder.training.offload;
  const bool states = settings.boolean("optimizer_memory_host_offload").value_or(false);
  if (states) offload.optimizer = 1;
  offload.parameters = settings.boolean("parameter_memory_host_offload").value_or(false);
  if (offload.any())
    builder.origin("offload", offload_text(offload),
                   states ? "optimizer_memory_host_offload" : "parameter_memory_host_offload");
}

/// base.yml has some 1,400 names: near misses of those read here are reported, and names that sound as if they weighed.
void read_unknown(JobBuilder& builder) {
  std::vector<std::string> known{"remat_policy",
                                 "per_device_batch_size",
                                 "gradient_accumulation_steps",
                                 "max_target_length",
                                 "num_pipeline_microbatches",
                                 "num_pipeline_repeats",
                                 "num_layers_per_pipeline_stage",
                                 "context_parallel_strategy",
                                 "quantization",
                                 "shard_optimizer_over_data",
                                 "optimizer_memory_host_offload",
                                 "parameter_memory_host_offload",
                                 "model_name"};
  for (const std::string_view axis : maxtext::mesh_axes())
    for (const char* network : {"ici", "dcn"}) known.push_back(maxtext::key_of(network, axis));
  Unread unread;
  for (const Setting& setting : builder.settings.all()) {
    if (builder.settings.asked(setting) || std::find(known.begin(), known.end(), setting.key) != known.end()) continue;
    const std::string near = nearest_name(setting.key, known);
    if (!near.empty() && edit_distance(setting.key, near) <= 2)
      builder.unmodelled("unknown_key",
                         fmt::format("{}: `{}` is unknown to MaxText, which stops there; the nearest name is `{}`",
                                     setting.where(), yaml::printable(setting.key), near));
    else if (sounds_weighty(setting.key) && !switched_off(setting.value))
      unread.add(setting.key, setting.where());
  }
  unread.tell(builder.job.unused);
}

bool is_training(const ShellCommand& command) {
  return std::any_of(command.words.begin(), command.words.end(), [](const ShellWord& word) {
    const std::string text = lowered(word.text);
    return text.find("maxtext") != std::string::npos && (text.ends_with(".train") || text.ends_with("/train.py"));
  });
}

bool is_of_maxtext(const LaunchSource& source) {
  const auto starts = [&](std::string_view key) {  // at the start of a line, so that no other tool's section has it
    for (std::size_t at = source.text.find(key); at != std::string::npos; at = source.text.find(key, at + 1))
      if (at == 0 || source.text[at - 1] == '\n') return true;
    return false;
  };
  if (is_shell(source)) {
    const std::vector<ShellCommand>& commands = follow_script(source).commands;
    return std::any_of(commands.begin(), commands.end(), is_training);
  }
  // The Trainer's word in a file of the same key: some program's own around it.
  const bool trainers = starts("gradient_checkpointing:");
  return starts("base_config:") || starts("ici_fsdp_parallelism:") || starts("dcn_data_parallelism:") ||
         (starts("per_device_batch_size:") && !trainers);
}

/// The job is in a file that is not there, or in a variable that nothing sets.
Error elsewhere(const LaunchSource& source, const ShellWord& word) {
  return {"missing_file",
          fmt::format("{}:{}: what `{}` holds is not known, and the job is described there", source.path, word.line,
                      yaml::printable(word.text)),
          {},
          {"give it with a `--from` of its own, or record the script with `plan capture -o job.json -- bash SCRIPT`"}};
}

/// Whether a file that a script names was given by itself.
bool is_given(std::string_view name, std::span<const LaunchSource> given) {
  const std::string_view base = base_name(name);
  return std::any_of(given.begin(), given.end(), [&](const LaunchSource& file) { return file.path.ends_with(base); });
}

/// A file over the one that its `base_config` names, and that over its own (pyconfig.py: beside it, else in configs/).
/// base.yml's values are MaxText's defaults where there is none; what another states is not known then.
// Files are no deeper than kDeepest.
Result<Settings> settings_of_file(const LaunchSource& file, int depth = 0) {  // NOLINT(misc-no-recursion)
  constexpr int kDeepest = 8;
  constexpr std::string_view kBase = "base_config";
  Result<Settings> own = settings_of_yaml(file);
  const std::string name = own ? own->text(kBase).value_or("") : "";
  if (name.empty() || name == "none") return own;
  const std::optional<LaunchSource> below = beside(file, name);
  if (depth < kDeepest && below && below->path != file.path && is_of_maxtext(*below)) {
    Result<Settings> out = settings_of_file(*below, depth + 1);
    if (out) out->append(*own);
    return out;
  }
  if (!name.ends_with("base.yml"))
    own->add(
        {.key = std::string(kMissing), .value = name, .items = {}, .list = false, .place = own->get(kBase)->place});
  return own;
}

/// `python3 -m maxtext.trainers.pre_train.train base.yml key=value ...`: the words over the file that it names.
Result<Settings> settings_of_script(const LaunchSource& source, std::span<const LaunchSource> given) {
  Settings all;
  std::string before;
  for (const ShellCommand& command : follow_script(source).commands) {
    if (!is_training(command)) continue;
    Settings own;
    std::string job;
    for (const ShellWord& word : command.words) {
      const bool named = word.text.ends_with(".yml") || word.text.ends_with(".yaml");
      if (!named && (!word.text.starts_with('$') || word.text == "$@")) continue;
      const std::optional<LaunchSource> file = named ? beside(source, word.text) : std::nullopt;
      if (file) {
        const Result<Settings> base = settings_of_file(*file);
        if (!base) return fail(base.error());
        own.append(*base);
      } else if (!named || !(word.text.ends_with("base.yml") || is_given(word.text, given))) {
        return fail(elsewhere(source, word));  // base.yml's values are known: MaxText's defaults
      }
    }
    for (const ShellWord& word : command.words) {  // behind the file's: they count
      const std::size_t equals = word.text.find('=');
      if (equals == std::string::npos || equals == 0 || word.text.starts_with('-')) continue;
      const std::string key = word.text.substr(0, equals), value = word.text.substr(equals + 1);
      own.add({.key = key, .value = value, .items = {}, .list = false, .place = {source.path, word.line, 1, 1, {}}});
      for (const std::string_view part : {"parallelism", "batch", "length", "model_name", "remat", "base_"})
        if (key.find(part) != std::string::npos) job += word.text + " ";
    }
    if (!before.empty() && before != job)
      return fail(several_trainings(source.path, fmt::format("{}:{}", source.path, command.words.front().line)));
    before = job;
    all = std::move(own);
  }
  all.remember(source);
  return all;
}

}  // namespace

Result<LaunchJob> read_maxtext(std::span<const LaunchSource> files, const LaunchFacts& facts) {
  Settings settings;
  for (const LaunchSource& file : files) {
    Result<Settings> one = is_shell(file) ? settings_of_script(file, files) : settings_of_file(file);
    if (!one) return tl::unexpected(one.error());
    settings.append(*one);
  }
  return maxtext::job_of(settings, "maxtext", facts);
}

Result<LaunchJob> maxtext::job_of(Settings& settings, std::string_view format, const LaunchFacts& facts) {
  JobBuilder builder(settings, format, Framework::Maxtext);
  maxtext::read_model(builder);
  const Degrees degrees = read_degrees(builder, facts);
  read_context(builder, degrees);
  read_pipeline(builder, degrees);
  read_batch(builder, degrees);
  read_recompute(builder);
  read_precision(builder);
  const std::string hardware = lowered(settings.text("hardware").value_or(""));
  if (hardware == "cpu") builder.unused("hardware", "`hardware: cpu`: it is counted as GPUs");
  if (hardware == "tpu") builder.job.hardware = "TPUs of a kind that no key names";
  maxtext::read_switches(builder);
  if (const Setting* missing = settings.get(kMissing); missing != nullptr)
    builder.unmodelled("not_used", fmt::format("{}: `base_config: {}` is not where the file has it: what it states is "
                                               "not known, and MaxText's defaults stand in",
                                               missing->where(), yaml::printable(missing->value)));
  read_unknown(builder);
  return builder.finish();
}

bool is_maxtext(const LaunchSource& source) { return is_of_maxtext(source); }

}  // namespace plan
