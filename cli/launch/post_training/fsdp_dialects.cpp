// verl with FSDP actors, verl's supervised trainer, NeMo-RL with DTensor and SkyRL with FSDP policies: keys of each as
// rows, one reading for all. Defaults: verl 0.7 trainer/config, NeMo-RL 0.7 examples/configs, SkyRL 0.4. Tested by
// tests/launch/reading_test.cpp and dialect_switches_test.cpp.
#include "cli/launch/post_training/fsdp_dialects.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <span>

#include "cli/launch/job/counted_as.hpp"
#include "cli/launch/job/job_builder.hpp"
#include "cli/launch/job/lora_targets.hpp"
#include "cli/launch/job/unread.hpp"
#include "cli/launch/job/weighty_names.hpp"
#include "cli/launch/native/native_trainers.hpp"
#include "cli/launch/post_training/fsdp_tables.hpp"
#include "cli/launch/post_training/verl_commands.hpp"
#include "formulas/names.hpp"
#include "presets/suggest.hpp"
#include "presets/yaml.hpp"

namespace plan {

using namespace fsdp;

namespace {

bool on(Settings& settings, std::string_view key, bool otherwise = false) {
  return key.empty() ? otherwise : settings.boolean(key).value_or(otherwise);
}

/// The key of two names that is stated; else the first.
std::string_view stated(const Settings& settings, const std::string_view (&names)[2]) {
  return !names[1].empty() && settings.states(names[1]) ? names[1] : names[0];
}

void read_model(JobBuilder& builder, const FsdpDialect& dialect, const LaunchFacts& facts) {
  Settings& settings = builder.settings;
  for (const std::string_view key : dialect.model)
    if (const std::optional<std::string> word = key.empty() ? std::nullopt : settings.text(key);
        word && !facts.model && !builder.job.model)
      builder.model(*word, *word, key);
}

/// The nodes and GPUs that the file states. What a launcher beside it says is the ranks only where it starts them: Ray
/// starts its own on the nodes that it is asked for, and a launcher then starts Ray, or the one command that asks.
void count_gpus(JobBuilder& builder, const FsdpDialect& dialect, const LaunchFacts& facts) {
  Settings& settings = builder.settings;
  builder.launcher(facts);
  const auto open = [&](std::string_view key) {
    return settings.text(key).value_or("").find_first_of("$`") != std::string::npos;
  };
  const bool launched = !dialect.ray || open(dialect.nodes) || open(dialect.gpus);
  // A launcher that says the ranks of a node leaves the nodes to itself, too, whatever a configuration has for them.
  if (facts.total > 0 || (launched && (facts.gpus() > 0 || (!dialect.ray && facts.gpus_per_node > 0)))) return;
  // Ray is asked for the one node that the tool's own configuration has, whatever a scheduler gives.
  const int nodes = builder.degree(dialect.nodes, dialect.ray ? 1 : std::max(1, facts.nodes));
  const int gpus = builder.degree(dialect.gpus, 0, 0);
  if (gpus < 1 || !builder.plausible({nodes, gpus})) return;
  builder.gpus(std::int64_t{nodes} * gpus, dialect.gpus);
  builder.job.gpus_per_node = gpus;
}

void read_axes(JobBuilder& builder, const FsdpDialect& dialect) {
  const int tp = dialect.tp.empty() ? 1 : builder.degree(dialect.tp, 1);
  const bool outer = dialect.engine_cp.empty() || builder.degree(dialect.cp, 1) > 1;
  const std::string_view cp_key = outer ? dialect.cp : stated(builder.settings, {dialect.cp, dialect.engine_cp});
  const int cp = builder.degree(cp_key, 1);
  const int replicate = dialect.replicate.empty() ? 1 : std::max(1, builder.degree(dialect.replicate, 1, -1));
  if (!builder.plausible({tp, cp, replicate})) return;
  builder.fix(&Fixed::tp, tp, dialect.tp);
  builder.fix(&Fixed::cp, cp, cp_key);
  const bool ulysses = dialect.tp.empty();
  if (cp > 1)
    builder.fix(&Fixed::cp_kind, ulysses ? CpKind::Ulysses : CpKind::Ring, ulysses ? "ulysses" : "ring", cp_key);
  builder.fix(&Fixed::pp, 1, "");
  builder.fix(&Fixed::vp, 1, "");
  const int ep = dialect.ep.empty() ? 1 : builder.degree(dialect.ep, 1);
  builder.fix(&Fixed::ep, ep, dialect.ep);
  builder.fix(&Fixed::etp, builder.job.model && builder.job.model->moe() && ep == 1 ? tp : 1, "");
  const bool sp = tp > 1 && on(builder.settings, dialect.sp);
  builder.fix(&Fixed::sequence_parallel, sp, sp ? "on" : "off", dialect.sp);
  const bool alone = builder.job.gpus > 0 && builder.job.gpus <= tp;  // ranks of a sequence share weights, too
  const std::string_view reshard = stated(builder.settings, dialect.reshard);
  builder.fix(&Fixed::zero, builder.job.gpus == 1 || alone ? 0 : on(builder.settings, reshard, true) ? 3 : 2, reshard);
  // accelerate's rules know neither such splits nor experts of a rank.
  if ((cp > 1 && ulysses) || ep > 1 || alone || sp) builder.job.framework = Framework::Any;
  const std::int64_t ranks = builder.job.gpus / std::max(1, tp);
  const std::string_view group = stated(builder.settings, dialect.group);
  const std::int64_t size = group.empty() ? -1 : builder.degree(group, -1, -1);
  const bool grouped = size > 1 && size < ranks && ranks % size == 0;
  if (size > 1 && size < ranks && !grouped)
    builder.settings.refuse(*builder.settings.get(group), fmt::format("a divisor of the {} ranks", ranks));
  const bool hybrid = replicate > 1 && ranks % replicate == 0;
  builder.fix(&Fixed::shard,
              static_cast<int>(grouped  ? size
                               : hybrid ? ranks / replicate
                                        : 0),
              grouped ? group : dialect.replicate);
}

/// verl's workers divide the number by the data ranks, without a rest.
void micro_of_all(JobBuilder& builder, std::string_view key, std::int64_t ranks) {
  const int all = builder.degree(key, 1);
  if (all >= ranks) return builder.fix(&Fixed::micro_batch, static_cast<int>(all / ranks), key);
  builder.settings.refuse(*builder.settings.get(key), fmt::format("a sequence for each of the {} data ranks", ranks));
}

/// The micro-batch that is stated, unless micro-batches are packed by tokens: the tools pass over its size then.
void read_micro_batch(JobBuilder& builder, const FsdpDialect& dialect) {
  Settings& settings = builder.settings;
  std::string_view key = dialect.micro[0];
  if (!settings.states(key) && !dialect.micro[1].empty() && settings.states(dialect.micro[1])) key = dialect.micro[1];
  const std::int64_t ranks = builder.job.gpus / builder.job.fixed.tp.value_or(1) / builder.job.fixed.cp.value_or(1);
  const bool of_all = !dialect.micro_of_all.empty() && settings.states(dialect.micro_of_all) && ranks > 0;
  for (std::size_t i = 0; i < std::size(dialect.dynamic); ++i) {
    const std::string_view dynamic = dialect.dynamic[i], tokens = dialect.tokens[i];
    if (dynamic.empty() || !on(settings, dynamic, i == 0 && dialect.dynamic_otherwise)) continue;
    const bool chosen = settings.states(dynamic);
    if (chosen) builder.unused(dynamic, "micro-batches are packed by tokens: counted as sequences of full length");
    const bool number = !tokens.empty() && settings.states(tokens) && to_integer(settings.text(tokens).value_or(""));
    const int most = number || dialect.tokens_otherwise > 0 ? builder.degree(tokens, dialect.tokens_otherwise) : 0;
    if (most < 1) continue;
    for (const std::string_view passed : {key, dialect.micro_of_all})
      if (settings.get(passed) != nullptr && !chosen)
        builder.unused(passed,
                       "the program packs micro-batches by tokens where nothing says otherwise, and passes over "
                       "their size");
    return builder.fix(&Fixed::micro_batch,
                       verl::packed(std::int64_t{most} * builder.job.fixed.cp.value_or(1), builder.training.seq,
                                    ranks > 0 ? builder.training.global_batch / ranks : 0),
                       tokens);
  }
  if (settings.states(key) || dialect.micro_otherwise > 0)
    builder.fix(&Fixed::micro_batch, builder.degree(key, dialect.micro_otherwise), key);
  else if (of_all)
    micro_of_all(builder, dialect.micro_of_all, ranks);
  else
    builder.guess("micro_batch", "1", "the size of micro-batches is not stated");
}

/// The sequences of an update that are trained on: all, or of verl's what its data ranks divide.
std::int64_t shared_out(JobBuilder& builder, const FsdpDialect& dialect, std::int64_t samples, int repeats) {
  const std::int64_t split = std::int64_t{builder.job.fixed.tp.value_or(1)} * builder.job.fixed.cp.value_or(1);
  if (dialect.step.empty() || builder.job.gpus % split != 0) return samples;
  const std::int64_t ranks = builder.job.gpus / split;
  const std::int64_t step = builder.settings.integer(dialect.step).value_or(0) * repeats;
  const std::string over = verl::left_over(samples, step, ranks);
  if (over.empty()) return samples;
  std::string_view key = dialect.model[0];  // the size may be a default
  for (const std::string_view stated : {dialect.gpus, dialect.step, dialect.batch})
    if (builder.settings.states(stated)) key = stated;
  builder.unused(key, over);
  return samples / ranks * ranks;
}

void read_batch(JobBuilder& builder, const FsdpDialect& dialect) {
  Settings& settings = builder.settings;
  if (dialect.seq.empty()) {
    const std::int64_t prompt = builder.degree(dialect.prompt, dialect.length);
    const std::int64_t response =
        builder.degree(dialect.response, dialect.answer > 0 ? dialect.answer : dialect.length);
    const std::string_view key = settings.states(dialect.response) ? dialect.response : dialect.prompt;
    // Ranks that share a sequence divide it, so that these tools fill up what is left of one.
    const std::int64_t cp = builder.job.fixed.cp.value_or(1), parts = cp > 1 ? 2 * cp : 1;
    const std::int64_t whole = (prompt + response + parts - 1) / parts * parts;
    if (whole != prompt + response)
      builder.note("sequence_filled", fmt::format("{}: sequences of {} tokens are filled up to {}, which {} ranks "
                                                  "divide",
                                                  settings.where(key), prompt + response, whole, cp));
    builder.sequence(whole, key);
  } else if (settings.states(dialect.seq) || dialect.length > 0) {
    builder.sequence(builder.degree(dialect.seq, dialect.length), dialect.seq);
  }
  const int repeats = dialect.repeats.empty() ? 1 : builder.degree(dialect.repeats, dialect.repeats_otherwise);
  if (const int batch = builder.degree(dialect.batch, dialect.batch_otherwise); batch > 0)
    builder.global_batch(shared_out(builder, dialect, builder.product({batch, repeats}), repeats), dialect.batch);
  read_micro_batch(builder, dialect);
}

/// `bf16`, `fp16` or `fp32` of a key, under any of the names that PyTorch and the tools have for them; empty: it is not
/// stated, is not known here, or is none of them, which is a mistake.
std::string_view format_of(Settings& settings, std::string_view key) {
  const std::string word = lowered(settings.text(key).value_or(""));
  const std::string_view format = number_format(word);
  if (format.empty() && !word.empty() && word != "null" && word != "none" && word.find('$') == word.npos)
    settings.refuse(*settings.get(key), "fp32, bf16 or fp16");
  return format;
}

void read_tuning(JobBuilder& builder, const FsdpDialect& dialect) {
  Settings& settings = builder.settings;
  const bool full = on(settings, dialect.checkpointing, dialect.checkpointing_otherwise);
  builder.fix(&Fixed::recompute, Recompute{.kind = full ? RecomputeKind::Full : RecomputeKind::None},
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
  if (!adapters && !dialect.other_lora.empty())
    tell_counted_as(builder,
                    {dialect.other_lora, "0 null",
                     "only an engine of Megatron's trains adapters by it: all weights are counted as trained"});
  const std::string_view precision = dialect.precision.empty() ? "" : format_of(settings, dialect.precision);
  builder.precision(precision == "fp16"   ? Precision::Fp16
                    : precision == "fp32" ? Precision::Fp32
                                          : Precision::Bf16,
                    dialect.precision);
}

/// The optimizer by its class, and the weights that it steps on: FSDP's are fp32 unless they are said to be narrow.
void read_states(JobBuilder& builder, const FsdpDialect& dialect) {
  Settings& settings = builder.settings;
  const std::string name_of = lowered(settings.text(dialect.optimizer).value_or("adamw"));
  if (name_of.find("8bit") != std::string::npos) builder.training.optimizer = Optimizer::Adam8bit;
  if (name_of.find("sgd") != std::string::npos) builder.training.optimizer = Optimizer::Sgd;
  if (name_of.find("adam") == std::string::npos && name_of.find("sgd") == std::string::npos)
    builder.unused(dialect.optimizer, fmt::format("the optimizer `{}` is counted as adam", name_of));
  builder.origin("optimizer", name(builder.training.optimizer), dialect.optimizer);
  const std::string_view weights = stated(settings, dialect.weights);
  const std::string_view format = weights.empty() ? "" : format_of(settings, weights);
  if (format == "bf16" || format == "fp16") native_trainers::pure_bf16(builder.training);
}

/// Which linears get adapters, what attention and the output layer run, and what is counted in one way only.
void read_switches(JobBuilder& builder, const FsdpDialect& dialect) {
  Settings& settings = builder.settings;
  const Setting* targets = dialect.targets.empty() ? nullptr : settings.get(dialect.targets);
  if (targets != nullptr && builder.training.adapters())
    if (const std::optional<LoraTargets> named = lora_targets(words_of(*targets))) {
      builder.training.lora.attention = named->attention, builder.training.lora.ffn = named->ffn;
      if (!named->counted_as.empty()) builder.unused(dialect.targets, named->counted_as);
    }
  if (!dialect.attention.empty() && lowered(settings.text(dialect.attention).value_or("")) == "eager")
    builder.training.stack.flash_attention = false;
  if (on(settings, dialect.chunked)) builder.training.stack.cross_entropy = CrossEntropy::Chunked;
  for (const std::string_view key : dialect.engine)
    if (!key.empty()) tell_counted_as(builder, {key, dialect.engines, "the actor is counted as trained with FSDP"});
  for (const CountedAs& row : dialect.counted) tell_counted_as(builder, row);
}

/// Is a key in the section of an engine that does not train the model? verl's files state all of them.
bool of_another_engine(JobBuilder& builder, const FsdpDialect& dialect, std::string_view key) {
  for (const std::string_view engine : {"megatron", "mindspeed", "torchtitan", "automodel", "veomni"}) {
    const std::size_t at = key.find(engine);
    const bool section =
        at != std::string_view::npos && at > 0 && key[at - 1] == '.' && key.substr(at + engine.size()).starts_with('.');
    const auto trains = [&](std::string_view stated) {
      return !stated.empty() && lowered(builder.settings.text(stated).value_or("")) == engine;
    };
    if (section) return std::none_of(std::begin(dialect.engine), std::end(dialect.engine), trains);
  }
  return false;
}

/// Keys that nobody asked for: those of the trained model's sections that sound as if they weighed, and slips of keys
/// that are read, whose defaults stand in their place.
void name_unread(JobBuilder& builder, const FsdpDialect& dialect) {
  const std::vector<std::string_view> known = builder.settings.asked_keys();
  Unread unread;
  for (const Setting& setting : builder.settings.all()) {
    const std::string_view key = setting.key;
    const auto starts = [&](std::string_view section) { return key.starts_with(section); };
    const auto ends = [&](std::string_view ending) { return key.ends_with(ending); };
    const std::string word = lowered(setting.value);
    const bool half = ends("dtype") && number_format(word) == "fp16";
    if (builder.settings.asked(setting)) continue;
    const bool sections = std::any_of(dialect.own.begin(), dialect.own.end(), starts) ||
                          (!dialect.theirs.empty() && key.find('.') != std::string_view::npos &&
                           std::none_of(dialect.theirs.begin(), dialect.theirs.end(), starts));
    const bool weighs = (setting.list || !switched_off(setting.value)) && sections &&
                        std::none_of(std::begin(kPlainEndings), std::end(kPlainEndings), ends) &&
                        (half || sounds_weighty(key));
    if (!weighs && !is_slip(key, known)) continue;
    // The engine's own name for the ranks of a sequence means nothing beside the actor's.
    if (key == dialect.engine_cp || of_another_engine(builder, dialect, key) || !builder.refuses_degree(setting, key))
      unread.add(key, setting.where());
  }
  unread.tell(builder.job.unused);
}

Result<LaunchJob> job_of(const FsdpDialect& dialect, const StatedKeys& keys, const LaunchFacts& facts) {
  Settings settings = settings_of_keys(keys);
  JobBuilder builder(settings, dialect.format, Framework::Accelerate);
  read_model(builder, dialect, facts);
  count_gpus(builder, dialect, facts);
  read_axes(builder, dialect);
  read_batch(builder, dialect);
  read_tuning(builder, dialect);
  read_states(builder, dialect);
  read_switches(builder, dialect);
  name_unread(builder, dialect);
  return builder.finish();
}

Result<StatedKeys> fsdp_keys(std::span<const LaunchSource> files, std::string_view program) {
  StatedKeys keys;
  for (const LaunchSource& source : files) {
    Result<StatedKeys> own = is_shell(source) ? verl::keys_of_command(source, program) : keys_of_yaml(source);
    if (!own) return own;
    keys.insert(own->begin(), own->end());
  }
  verl::unwrap(keys);
  verl::take_lengths_of_rollout(keys);
  interpolate(keys);
  return keys;
}

}  // namespace

/// Overrides of a command, or a whole configuration as hydra prints it.
bool is_verl_fsdp(const LaunchSource& source) {
  if (!is_shell(source))
    return mentions(source, "actor_rollout_ref:") && mentions(source, "strategy: fsdp") &&
           !mentions(source, "strategy: megatron");
  return verl::engine_of(source) == verl::Engine::Fsdp;
}

Result<LaunchJob> read_verl_fsdp(std::span<const LaunchSource> files, const LaunchFacts& facts) {
  const Result<StatedKeys> keys = fsdp_keys(files, verl::kActor);
  if (!keys) return fail(keys.error());
  const auto veomni = keys->lower_bound("actor_rollout_ref.actor.veomni.");
  const bool on_veomni = veomni != keys->end() && veomni->first.starts_with("actor_rollout_ref.actor.veomni.");
  StatedKeys counted = *keys;
  if (const std::string_view key = verl::prompts_of_update(*keys); key != verl::kMiniBatch)
    counted[std::string(verl::kMiniBatch)] = counted.at(std::string(key));
  Result<LaunchJob> job = job_of(on_veomni ? kVerlVeOmni : kVerlActor, counted, facts);
  if (job) verl::tell_programs(files, *job), tell_missing_base(*keys, *job);
  if (job)
    for (const auto& [key, text] : verl::models_beside(*keys))
      unused(*job, "not_counted", fmt::format("{}: `{}`: {}", where_of(*keys, key), yaml::printable(key), text));
  if (const std::string fewer = verl::beyond_a_step(*keys); job && !fewer.empty())
    unused(*job, "not_used", fmt::format("{}: `{}`: {}", where_of(*keys, verl::kStep), verl::kStep, fewer));
  if (const std::string_view critic = verl::critic_by_default(*keys); job && !critic.empty())
    unused(*job, "not_counted",
           fmt::format("{}: `{}`: {}", where_of(*keys, critic), yaml::printable(critic), verl::kDefaultCritic));
  return job;
}

bool is_verl_sft(const LaunchSource& source) {
  if (!is_shell(source))
    return mentions(source, "partial_pretrain:") && mentions(source, "trainer:") && mentions(source, "data:");
  return verl::sft_of(source) != verl::Sft::None;
}

Result<LaunchJob> read_verl_sft(std::span<const LaunchSource> files, const LaunchFacts& facts) {
  const Result<StatedKeys> keys = fsdp_keys(files, verl::kSftProgram);
  if (!keys) return fail(keys.error());
  const bool engine = std::any_of(files.begin(), files.end(), [](const LaunchSource& source) {
    return is_shell(source) && verl::sft_of(source) == verl::Sft::Later;
  });
  Result<LaunchJob> job = job_of(engine ? kVerlSftEngine : kVerlSft, *keys, facts);
  if (job) verl::tell_programs(files, *job), tell_missing_base(*keys, *job);
  return job;
}

Result<LaunchJob> read_nemo_rl_dtensor(const StatedKeys& keys, const LaunchFacts& facts) {
  return job_of(kNemoRl, keys, facts);
}

Result<LaunchJob> read_skyrl_fsdp(const StatedKeys& keys, const LaunchFacts& facts) {
  return job_of(kSkyRl, keys, facts);
}

Result<LaunchJob> read_easyr1_actor(const StatedKeys& keys, const LaunchFacts& facts) {
  return job_of(kEasyR1, keys, facts);
}

}  // namespace plan
