// The mesh of NeMo Automodel's recipes. Keys and defaults: nemo_automodel/recipes/_dist_utils.py and
// components/distributed/{config,mesh_utils}.py, pipelining/{config,functional}.py, 2026. Tested by
// tests/launch/automodel_test.cpp.
#include "cli/launch/native/automodel.hpp"
#include "cli/settings/settings.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "formulas/names.hpp"
#include "formulas/words.hpp"
#include "presets/suggest.hpp"

namespace plan::automodel {
namespace {

constexpr std::string_view kDp = "distributed.dp_size", kReplicate = "distributed.dp_replicate_size";
constexpr std::string_view kSchedule = "distributed.pipeline.pp_schedule";
constexpr std::string_view kPerStage = "distributed.pipeline.layers_per_stage";
constexpr std::string_view kRound = "distributed.pipeline.round_virtual_stages_to_pp_multiple";

/// Stages a rank has: as many as the layers of one make, rounded as the file says.
void read_stages(JobBuilder& builder, const Mesh& d, bool single) {
  Settings& settings = builder.settings;
  const int each = builder.degree(kPerStage, 0, 0), depth = builder.job.model ? builder.job.model->depth() : 0;
  const std::string round = lowered(settings.text(kRound).value_or(""));
  if (each == 0) return builder.fix(&Fixed::vp, single ? 1 : 2, kPerStage);
  if (depth == 0) return;  // of a model that is not known
  int stages = (depth + each - 1) / each;
  const int left = stages % d.pp;
  if (left != 0 && round == "up") stages += d.pp - left;
  if (left != 0 && round == "down") stages -= left;
  const int vp = stages / d.pp;
  if (stages % d.pp != 0 || (single ? vp != 1 : vp < 2))
    return settings.refuse(*settings.get(kPerStage),
                           fmt::format("what makes {} a rank of {} layers on {} ranks, which stops otherwise",
                                       single ? "one stage" : "two stages or more", depth, d.pp));
  builder.fix(&Fixed::vp, vp, kPerStage);
}

}  // namespace

std::string strategy_of(Settings& settings) {
  std::string word = lowered(settings.text("distributed.strategy").value_or(""));
  const std::string manager = lowered(settings.text("distributed._target_").value_or(""));
  const auto named = [&](std::string_view part) { return manager.find(part) != manager.npos; };
  if (word.empty() && !manager.empty() && !named("fsdp") && !named("ddp"))
    settings.refuse(*settings.get("distributed._target_"), "FSDP2Manager, MegatronFSDPManager or DDPManager");
  if (word.empty())  // nvFSDP is what Megatron-FSDP was called before
    word = named("megatron") || named("nvfsdp") ? "megatron_fsdp" : named("ddp") ? "ddp" : "fsdp2";
  if (word == "megatron-fsdp" || word == "mfsdp") word = "megatron_fsdp";
  if (word != "fsdp2" && word != "megatron_fsdp" && word != "ddp")
    settings.refuse(*settings.get("distributed.strategy"), "fsdp2, megatron_fsdp or ddp");
  return word;
}

Mesh read_mesh(JobBuilder& builder) {
  const auto degree = [&](const char* axis) { return builder.degree(fmt::format("distributed.{}_size", axis), 1, 0); };
  Mesh d{.tp = std::max(1, degree("tp")), .cp = std::max(1, degree("cp")), .pp = std::max(1, degree("pp"))};
  d.ep = std::max(1, degree("ep")), d.replicate = std::max(1, builder.degree(kReplicate, 1, 0));
  if (const int dp = builder.degree(kDp, 0, -1); dp > 0) d.dp = dp;
  if (!builder.plausible({d.tp, d.cp, d.pp, d.dp.value_or(1)})) return {};
  const int inner = d.tp * d.cp * d.pp, gpus = builder.job.gpus;
  if (d.dp && gpus == 0) builder.gpus(std::int64_t{inner} * *d.dp, kDp);
  if (!d.dp && gpus > 0 && gpus % inner == 0) d.dp = gpus / inner;
  builder.fix(&Fixed::tp, d.tp, "distributed.tp_size");
  builder.fix(&Fixed::cp, d.cp, "distributed.cp_size");
  builder.fix(&Fixed::pp, d.pp, "distributed.pp_size");
  builder.fix(&Fixed::ep, d.ep, "distributed.ep_size");
  builder.fix(&Fixed::etp, 1, "");
  if (d.dp) builder.fix(&Fixed::dp, *d.dp, kDp);
  constexpr std::string_view kSequence = "distributed.sequence_parallel";
  const bool sequence = d.tp > 1 && builder.settings.boolean(kSequence).value_or(false);
  builder.fix(&Fixed::sequence_parallel, sequence, sequence ? "on" : "off", kSequence);
  const bool ring = builder.settings.text("model.backend.attn").value_or("") == "te";
  if (d.cp > 1)
    builder.fix(&Fixed::cp_kind, ring ? CpKind::Ring : CpKind::AllGather, name(ring ? CpKind::Ring : CpKind::AllGather),
                "model.backend.attn");
  return d;
}

/// FSDP2 rebuilds the weights of layers but behind a pipeline; of experts that ranks share among themselves it keeps
/// them unless `distributed.moe` says otherwise.
void read_sharding(JobBuilder& builder, const Mesh& d) {
  Settings& settings = builder.settings;
  const std::string strategy = strategy_of(settings);
  constexpr std::string_view kReshard = "distributed.reshard_after_forward";
  constexpr std::string_view kExperts = "distributed.moe.reshard_after_forward",
                             kStage = "distributed.zero_dp_strategy";
  int zero = strategy == "ddp" ? 0 : 3;
  std::string_view from = "distributed.strategy";
  if (strategy == "fsdp2") {
    const bool rebuilt =
        d.ep > 1 ? settings.boolean(kExperts).value_or(false) : settings.boolean(kReshard).value_or(d.pp == 1);
    zero = rebuilt ? 3 : 2, from = d.ep > 1 ? kExperts : kReshard;
  } else if (strategy == "megatron_fsdp") {
    zero = std::clamp(builder.degree(kStage, 3, 0), 0, 3), from = kStage;
  }
  (void)settings.get("distributed.strategy");
  builder.fix(&Fixed::zero, builder.job.gpus == 1 ? 0 : zero, from);
  const bool groups = d.replicate > 1 && d.dp && *d.dp % d.replicate == 0 && strategy == "fsdp2";
  if (d.replicate > 1 && !groups)
    builder.settings.refuse(*settings.get(kReplicate), "a number that divides dp_size, under fsdp2");
  builder.fix(&Fixed::shard, groups ? *d.dp / d.replicate * d.cp : 0, kReplicate);
  if (!settings.has_section("distributed.offload_policy.")) return;
  builder.training.offload = {.optimizer = 1, .parameters = true};
  builder.origin("offload", "optimizer,parameters", "distributed.offload_policy._target_");
}

void read_pipeline(JobBuilder& builder, const Mesh& d) {
  for (const std::string_view key : {kSchedule, kPerStage, kRound, kPipeMicro}) (void)builder.settings.get(key);
  if (d.pp == 1) return builder.fix(&Fixed::vp, 1, "");
  std::string word = lowered(builder.settings.text(kSchedule).value_or("1f1b"));
  std::erase(word, '_');
  const bool single = word == "1f1b" || word == "gpipe";
  if (word == "1f1b")
    builder.fix(&Fixed::schedule, Schedule::OneFOneB, name(Schedule::OneFOneB), kSchedule);
  else if (word == "gpipe")
    builder.fix(&Fixed::schedule, Schedule::GPipe, name(Schedule::GPipe), kSchedule);
  else if (word == "interleaved1f1b")
    builder.fix(&Fixed::schedule, Schedule::Interleaved, name(Schedule::Interleaved), kSchedule);
  else if (word == "loopedbfs")
    builder.fix(&Fixed::schedule, Schedule::BreadthFirst, name(Schedule::BreadthFirst), kSchedule);
  else
    return builder.settings.refuse(*builder.settings.get(kSchedule), "1f1b, interleaved1f1b, gpipe or looped_bfs");
  read_stages(builder, d, single);
}

void read_recompute(JobBuilder& builder) {
  for (const std::string_view key : {"distributed.activation_checkpointing", "parallelizer.activation_checkpointing"}) {
    const std::string word = lowered(builder.settings.text(key).value_or(""));
    if (word.empty()) continue;
    const bool off = word == "false" || word == "off" || word == "disabled" || word == "no";
    const bool full = truth_of(word).value_or(false) || word == "full" || word == "enabled";
    if (word == "selective")
      return builder.fix(&Fixed::recompute, Recompute{.kind = RecomputeKind::Selective, .modules = kRecomputeOps}, "op",
                         key);
    if (!off && !full) return builder.settings.refuse(*builder.settings.get(key), "true, false or selective");
    return builder.fix(&Fixed::recompute, Recompute{.kind = full ? RecomputeKind::Full : RecomputeKind::None},
                       full ? "full" : "none", key);
  }
  builder.fix(&Fixed::recompute, Recompute{}, "none", "");
}

}  // namespace plan::automodel
