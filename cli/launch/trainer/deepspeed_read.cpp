// What a DeepSpeed JSON file, and the Trainer's arguments beside it, say of the layout. Defaults: DeepSpeed 0.19.8
// runtime/constants.py, runtime/zero/config.py. Tested by tests/frameworks/framework_files_test.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <set>

#include "cli/launch/trainer/deepspeed_keys.hpp"
#include "cli/launch/trainer/hugging_face.hpp"
#include "cli/terminal/offload_flag.hpp"
#include "formulas/names.hpp"
#include "presets/suggest.hpp"

namespace plan {
namespace {

using deepspeed::kTop;

/// The value of a key, unless the Trainer is to fill it in (`auto`): then the Trainer's.
std::optional<std::int64_t> number(Settings& settings, std::string_view key, std::string_view argument) {
  const Setting* setting = settings.get(key);
  if (setting == nullptr || setting->value == "auto") return settings.integer(argument);
  return settings.integer(key);
}
std::string_view stated(Settings& settings, std::string_view key, std::string_view argument) {
  const Setting* setting = settings.get(key);
  return setting != nullptr && setting->value != "auto" ? key : argument;
}

/// transformers does not start where DeepSpeed's number and the Trainer's differ.
void must_agree(JobBuilder& builder, std::string_view key, std::string_view argument) {
  Settings& settings = builder.settings;
  const Setting* setting = settings.get(key);
  if (setting == nullptr || setting->value == "auto") return;
  const std::optional<std::int64_t> own = settings.integer(key), trainer = settings.integer(argument);
  if (!own || !trainer || *own == *trainer) return;
  builder.errors.push_back({"conflicting_keys",
                            fmt::format("{}: `{}` is {}, but {}: `{}` is {}", settings.where(key), shown_key(key), *own,
                                        settings.where(argument), shown_key(argument), *trainer),
                            {"transformers refuses to start when they differ"},
                            {"write `\"auto\"` into DeepSpeed's file, and the number into the Trainer's alone"}});
}

/// Under ZeRO-3 weights may leave the GPU as well.
void read_offload(JobBuilder& builder, int stage) {
  Settings& settings = builder.settings;
  constexpr std::string_view kStates = "ds.zero_optimization.offload_optimizer.device",
                             kWeights = "ds.zero_optimization.offload_param.device";
  Offload& offload = builder.training.offload;
  // Its names of 2021 are switches, which DeepSpeed still takes.
  constexpr std::string_view kOldStates = "ds.zero_optimization.cpu_offload",
                             kOldWeights = "ds.zero_optimization.cpu_offload_param";
  const bool old_states = settings.boolean(kOldStates).value_or(false);
  const bool old_weights = settings.boolean(kOldWeights).value_or(false);
  // DeepSpeed drops a key that is still "auto" when it starts, and offloads to no device by default.
  const auto away = [&](std::string_view key) {
    const std::string device = settings.text(key).value_or("none");
    return device != "none" && device != "auto";
  };
  constexpr std::string_view kRatio = "ds.zero_optimization.offload_optimizer.ratio";
  const bool states = old_states || away(kStates);
  if (states) offload.optimizer = settings.number(kRatio).value_or(1);
  offload.parameters = stage == 3 && (old_weights || away(kWeights));
  for (const std::string_view key : {kStates, kWeights})
    if (const Setting* device = settings.get(key); device != nullptr)
      if (away(key) && device->value != "cpu" && device->value != "nvme") settings.refuse(*device, "none, cpu or nvme");
  if (stage < 3 && settings.number(kRatio).value_or(1) != 1)
    builder.errors.push_back({"unsupported_word",
                              fmt::format("{}: `{}`: DeepSpeed offloads a part of the optimizer at stage 3 alone",
                                          settings.where(kRatio), shown_key(kRatio)),
                              {},
                              {"leave it out, or write `\"stage\": 3`"}});
  const std::string_view key = old_states ? kOldStates : states ? kStates : old_weights ? kOldWeights : kWeights;
  if (offload.any()) builder.origin("offload", offload_text(offload), key);
}

void read_zero(JobBuilder& builder) {
  Settings& settings = builder.settings;
  constexpr std::string_view kStage = "ds.zero_optimization.stage", kMics = "ds.zero_optimization.mics_shard_size";
  // accelerate puts its own stage there, of which a DeepSpeed file leaves the default alone (dataclasses.py).
  const bool open = settings.states(kStage) && settings.text(kStage) == "auto";
  // A switch in the section's place is of its first version, which had one stage (runtime/zero/config.py).
  constexpr std::string_view kSwitch = "ds.zero_optimization";
  const bool first = settings.states(kSwitch) && settings.boolean(kSwitch).value_or(false);
  const int stage = open ? 2 : builder.degree(kStage, first ? 1 : 0, 0);
  if (stage > 3) settings.refuse(*settings.get(kStage), "0, 1, 2 or 3");
  if (open) {
    builder.job.fixed.zero = stage;
    builder.guess("zero", "2", fmt::format("{}: `auto`, accelerate's default", settings.where(kStage)));
  } else {
    builder.fix(&Fixed::zero, std::min(stage, 3), first ? kSwitch : kStage);
  }
  const int mics = builder.degree(kMics, -1, -1);
  builder.fix(&Fixed::shard, std::max(0, mics), kMics);
  if (mics > 0)
    builder.note("mics_removed", fmt::format("{}: DeepSpeed 0.19.7 and later have no MiCS", settings.where(kMics)));
  read_offload(builder, stage);
  hugging_face::read_deepspeed_switches(builder, stage);
}

void read_optimizer(JobBuilder& builder) {
  constexpr std::string_view kType = "ds.optimizer.type";
  const std::optional<std::string> type = builder.settings.text(kType);
  if (!type) return;
  const std::string word = lowered(*type);
  if (word.find("adam") != std::string::npos) {
    builder.training.optimizer = Optimizer::Adam;
    return builder.origin("optimizer", "adam", kType);
  }
  if (word == "muon" || word == "sgd") {
    builder.training.optimizer = word == "muon" ? Optimizer::Muon : Optimizer::Sgd;
    return builder.origin("optimizer", word, kType);
  }
  builder.unmodelled("optimizer_unknown", fmt::format("{}: the optimizer `{}` is not modelled: counted as adam",
                                                      builder.settings.where(kType), *type));
}

struct Degrees {
  int tp = 1, cp = 1, ep = 1;
  std::optional<int> dp{};
};

Degrees read_degrees(JobBuilder& builder) {
  Degrees d;
  d.tp = std::max(1, builder.degree("ds.tensor_parallel.autotp_size", 1, 0));
  std::string_view ulysses = "ds.sequence_parallel_size";
  const auto otherwise = [&](std::string_view key) {
    if (!builder.settings.states(ulysses) && builder.settings.states(key)) ulysses = key;
  };
  otherwise("acc.parallelism_config.parallelism_config_sp_size");
  otherwise("acc.parallelism_config.parallelism_config_cp_size");
  for (const std::string_view key : hugging_face::kUlysses) otherwise(key);
  constexpr std::string_view kRing = "args.ring_attn_size";  // OpenRLHF's, of keys and values that are gathered
  const bool ring = hugging_face::tool_of(builder.settings).batch > 0 && builder.settings.states(kRing);
  if (ring) ulysses = kRing;
  d.cp = builder.degree(ulysses, 1);
  if (builder.settings.boolean("ds.expert_parallel.enabled").value_or(false))
    d.ep = builder.degree("ds.expert_parallel.autoep_size", 1);
  if (!builder.plausible({d.tp, d.cp})) return {};
  builder.fix(&Fixed::tp, d.tp, "ds.tensor_parallel.autotp_size");
  builder.fix(&Fixed::sequence_parallel, false, "off", "");
  builder.fix(&Fixed::cp, d.cp, ulysses);
  if (d.cp > 1 && ring) {
    builder.fix(&Fixed::cp_kind, CpKind::AllGather, "all-gather", ulysses);
    builder.job.framework = Framework::Any;  // DeepSpeed's own rules know Ulysses alone
  } else if (d.cp > 1) {
    builder.fix(&Fixed::cp_kind, CpKind::Ulysses, "ulysses", ulysses);
  }
  builder.fix(&Fixed::pp, 1, "");
  builder.fix(&Fixed::vp, 1, "");
  builder.fix(&Fixed::ep, d.ep, "ds.expert_parallel.autoep_size");
  const bool moe = !builder.job.model || builder.job.model->moe();
  const int etp = builder.degree("ds.expert_parallel.expert_tensor_parallel_size", d.ep > 1 || !moe ? 1 : d.tp);
  builder.fix(&Fixed::etp, etp, "ds.expert_parallel.expert_tensor_parallel_size");
  return d;
}

/// The world that batch = micro-batch * steps * world means, where nothing else tells.
int world_of(std::int64_t batch, std::int64_t micro, std::int64_t steps) {
  if (micro > batch || steps > batch / micro || batch % (micro * steps) != 0) return 0;
  const std::int64_t world = batch / (micro * steps);
  return world <= kMostGpus ? static_cast<int>(world) : 0;
}

constexpr std::string_view kBatch = "ds.train_batch_size", kMicro = "ds.train_micro_batch_size_per_gpu",
                           kSteps = "ds.gradient_accumulation_steps";

void note_counted(JobBuilder& builder, const char* whose, std::int64_t batch, std::int64_t sequences) {
  builder.note("batch_counts_tp",
               fmt::format("{}: DeepSpeed counts {} ranks into {}; {} sequences are trained on a step",
                           builder.settings.where(kBatch), whose, batch, sequences));
}

/// DeepSpeed does not start unless its batch is the micro-batch times the steps times the ranks: all of them, those of
/// AutoTP as well, or as newer releases and the tools around them count, without those that share a sequence. Where
/// only flags say how many GPUs there are, the job on that many is asked about, and what the file would have to say is
/// a note.
void check_batch(JobBuilder& builder, const Degrees& d, std::int64_t batch, std::int64_t rank_batch, bool other_gpus) {
  const std::int64_t gpus = builder.job.gpus, sequences = rank_batch * *d.dp;
  if (batch == sequences) return;
  for (const auto& [ranks, whose] : {std::pair{gpus / d.cp, "AutoTP's"}, std::pair{gpus, "all"}})
    if (batch % rank_batch == 0 && batch / rank_batch == ranks) return note_counted(builder, whose, batch, sequences);
  const std::string reason = fmt::format("{}: `train_batch_size` is {}, but {} sequences a rank on {} GPUs make {}",
                                         builder.settings.where(kBatch), batch, rank_batch, gpus, sequences);
  if (other_gpus)
    return builder.note("batch_of_other_gpus",
                        fmt::format("{}, which are counted; DeepSpeed does not start with {}", reason, batch));
  builder.errors.push_back({"conflicting_keys",
                            reason,
                            {"DeepSpeed refuses to start when they differ"},
                            {fmt::format("write {}, or leave it out", sequences)}});
}

/// A batch of sequences, whatever ranks share one, from which the tool makes DeepSpeed's.
void read_sequences(JobBuilder& builder, const Degrees& d, const hugging_face::TrainerTool& tool) {
  if (const int inner = d.tp * d.cp; builder.job.gpus > 0 && builder.job.gpus % inner == 0)
    builder.fix(&Fixed::dp, builder.job.gpus / inner, "");
  builder.fix(&Fixed::micro_batch, builder.degree(kMicro, tool.micro_batch), kMicro);
  builder.global_batch(builder.degree(kBatch, tool.batch), kBatch);
}

constexpr std::string_view kMicroArgument = "args.per_device_train_batch_size",
                           kStepsArgument = "args.gradient_accumulation_steps";

/// DeepSpeed's three numbers of a batch, of which any two give the third with the ranks.
struct Batch {
  std::optional<std::int64_t> whole, micro, steps;
  bool open = false;  ///< what steps a rank takes is stated, and only their size is not
};

/// As stated by DeepSpeed's file or the Trainer; what neither states is the Trainer's default. None: an error was
/// reported.
std::optional<Batch> stated_batch(JobBuilder& builder) {
  Settings& settings = builder.settings;
  Batch batch{number(settings, kBatch, "none"), number(settings, kMicro, kMicroArgument),
              number(settings, kSteps, kStepsArgument)};
  if (!batch.micro && !batch.whole && settings.has_section("args.")) {
    batch.micro = hugging_face::tool_of(settings).micro_batch;
    builder.origin("micro_batch", fmt::format("{}", *batch.micro), "");
  }
  batch.open = !batch.micro && batch.steps && !batch.whole;
  if (batch.open) {
    batch.micro = 1;
    builder.guess("micro_batch", "1", "the Trainer's arguments or the script decide it");
  }
  if (batch.micro && !batch.steps && !batch.whole) batch.steps = 1;
  for (const auto& [value, key] :
       {std::pair{batch.whole, kBatch}, std::pair{batch.micro, kMicro}, std::pair{batch.steps, kSteps}})
    if (value && *value < 1) {
      builder.errors.push_back(
          {"wrong_value", fmt::format("`{}` is {}, but must be at least 1", key.substr(3), *value)});
      return std::nullopt;
    }
  must_agree(builder, kMicro, kMicroArgument);
  must_agree(builder, kSteps, kStepsArgument);
  return batch;
}

/// The GPUs that all three numbers together imply, where nothing else states them, and the data ranks of the GPUs.
void read_ranks(JobBuilder& builder, const Batch& batch, Degrees& d) {
  if (builder.job.gpus == 0 && batch.whole && batch.micro && batch.steps) {
    // DeepSpeed's own equation counts every rank, those of AutoTP as well.
    const int ranks = world_of(*batch.whole, *batch.micro, *batch.steps);
    if (ranks > 0 && builder.plausible({ranks, d.cp})) builder.gpus(std::int64_t{ranks} * d.cp, kBatch);
    if (*batch.whole % *batch.micro != 0 || *batch.whole / *batch.micro % *batch.steps != 0)
      builder.errors.push_back({"conflicting_keys",
                                fmt::format("{}: `train_batch_size` is {}, which no number of ranks makes of {} x {}",
                                            builder.settings.where(kBatch), *batch.whole, *batch.micro, *batch.steps),
                                {"it is the micro-batch times the steps times the ranks"},
                                {}});
  }
  const int inner = d.tp * d.cp;
  if (builder.job.gpus > 0 && builder.job.gpus % inner == 0) {
    d.dp = builder.job.gpus / inner;
    builder.fix(&Fixed::dp, *d.dp, "");
  }
}

void read_batch(JobBuilder& builder, Degrees d, bool other_gpus) {
  Settings& settings = builder.settings;
  if (const hugging_face::TrainerTool& tool = hugging_face::tool_of(settings); tool.batch > 0)
    return read_sequences(builder, d, tool);
  const std::optional<Batch> known = stated_batch(builder);
  if (!known) return;
  read_ranks(builder, *known, d);
  const std::optional<std::int64_t> batch = known->whole, steps = known->steps;
  std::optional<std::int64_t> micro = known->micro;
  if (!micro && batch && d.dp && steps.value_or(1) <= *batch) micro = *batch / *d.dp / steps.value_or(1);
  if (micro == 0)
    return builder.errors.push_back(
        {"does_not_divide",
         fmt::format("{}: `train_batch_size` is {}, which leaves {} data ranks less than a sequence each",
                     settings.where(kBatch), *batch, *d.dp),
         {"it is the micro-batch times the steps times the ranks"},
         {}});
  if (micro && *micro > 0 && *micro <= kMostRanks) builder.job.fixed.micro_batch = static_cast<int>(*micro);
  if (micro && !known->open && (settings.states(kMicro) || settings.states(kMicroArgument) || batch))
    builder.origin("micro_batch", fmt::format("{}", *micro), stated(settings, kMicro, kMicroArgument));
  if (steps && *steps <= kMostRanks)
    builder.origin("micro_batches", fmt::format("{}", *steps), stated(settings, kSteps, kStepsArgument));
  if (micro && steps && !batch && *micro <= kMostRanks)
    return builder.rank_batch(
        static_cast<int>(*micro), *steps,
        known->open ? stated(settings, kSteps, kStepsArgument) : stated(settings, kMicro, kMicroArgument));
  if (!micro) builder.guess("micro_batch", "1", "the Trainer's arguments or the script decide it");
  std::int64_t real = 0;
  if (d.dp && micro && steps)
    real = builder.product({*micro, *steps, *d.dp});
  else if (batch)
    real = *batch / d.tp;
  else if (d.dp && micro)
    real = builder.product({*micro, *d.dp});
  if (real < 1) return;
  builder.global_batch(real, batch && d.tp == 1 ? kBatch : stated(settings, kMicro, kMicroArgument));
  if (batch && d.dp && micro && steps)
    check_batch(builder, d, *batch, builder.product({*micro, *steps}), other_gpus);
  else if (batch && *batch != real)
    note_counted(builder, "AutoTP's", *batch, real);
}

/// Names that DeepSpeed does not know, once each.
void read_unknown(JobBuilder& builder) {
  std::set<std::string> seen;
  const auto tell = [&](const Setting& setting, std::string_view word, std::string_view section,
                        std::span<const std::string_view> known, std::string_view verdict) {
    if (seen.insert(fmt::format("{}.{}", section, word)).second) builder.unknown_key(setting, word, known, verdict);
  };
  for (const Setting& setting : builder.settings.all()) {
    const std::string_view key = setting.key;
    if (key.substr(0, 3) != "ds." || key == "ds.missing_file") continue;
    const std::string_view path = key.substr(3, key.find('[') - 3);
    tell(setting, path.substr(0, path.find('.')), "", kTop, "is unknown to DeepSpeed, which passes over it in silence");
    for (const deepspeed::Section& section : deepspeed::kSections) {
      if (!path.starts_with(section.path) || path.size() <= section.path.size() || path[section.path.size()] != '.')
        continue;
      const std::string_view field = path.substr(section.path.size() + 1);
      tell(setting, field.substr(0, field.find('.')), section.path, section.names,
           section.strict ? "is unknown to DeepSpeed, which stops there"
                          : "is unknown to DeepSpeed, which passes over it in silence");
    }
  }
}

}  // namespace

Result<LaunchJob> read_deepspeed(std::span<const LaunchSource> files, const LaunchFacts& facts) {
  Result<Settings> settings = hugging_face::settings_of(files);
  if (!settings) return tl::unexpected(settings.error());
  JobBuilder builder(*settings, "deepspeed", Framework::DeepSpeed);
  hugging_face::read_trainer(builder);
  builder.launcher(facts);
  hugging_face::refuse_missing_file(builder, "ds.missing_file", "DeepSpeed file", "ZeRO's stage");
  // OpenRLHF's actors are started by Ray on the nodes that its flags ask for, whatever starts the command.
  const bool ray = settings->text("tool").value_or("").starts_with("openrlhf-ppo");
  if (builder.job.gpus == 0 || ray) hugging_face::read_processes(builder, facts);
  hugging_face::read_machines(builder, facts);
  hugging_face::read_accelerate_switches(builder);
  hugging_face::refuse_other_mesh(builder);
  const Degrees degrees = read_degrees(builder);
  read_zero(builder);
  hugging_face::read_precision(builder, true);
  read_optimizer(builder);
  read_batch(builder, degrees, facts.total > 0);
  hugging_face::read_checkpointing(builder, "", false);
  read_unknown(builder);
  hugging_face::read_unknown_to_accelerate(builder);
  hugging_face::name_unread(builder);
  return builder.finish();
}

namespace hugging_face {

bool starts_deepspeed(const LaunchSource& source) {
  const std::string& text = source.text;
  const auto names = [&](std::string_view key) {  // a key with a value behind it
    for (std::size_t at = text.find(key); at != std::string::npos; at = text.find(key, at + 1)) {
      const std::size_t value = text.find_first_not_of(" \t\"", at + key.size());
      if ((at == 0 || text[at - 1] == '\n') && value != std::string::npos && text[value] != '\n' && text[value] != '#')
        return true;
    }
    return false;
  };
  const auto taken = [&] {  // whatever its program calls DeepSpeed's file
    const Result<Settings> settings = settings_of(std::span(&source, 1));
    return settings && settings->has_section("ds.");
  };
  switch (kind_of(source)) {
    case Kind::DeepSpeed: return true;
    case Kind::Trainer: return text.find("\"deepspeed\"") != std::string::npos || names("deepspeed:") || taken();
    case Kind::Axolotl: return names("deepspeed:");
    case Kind::Factory: return text.find("name: deepspeed") != std::string::npos;
    case Kind::Accelerate: return text.find("distributed_type: DEEPSPEED") != std::string::npos;
    case Kind::Script: return taken();
    case Kind::Torchtune:
    case Kind::None: return false;
  }
  return false;
}

}  // namespace hugging_face

bool is_deepspeed(const LaunchSource& source) { return hugging_face::starts_deepspeed(source); }

}  // namespace plan
