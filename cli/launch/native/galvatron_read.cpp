// Galvatron's strategy of a job (`galvatron_config_*.json`): lists with one value for each layer. Keys and meanings:
// Hetu-Galvatron, galvatron/utils/config_utils.py (config2strategy), core/runtime/hybrid_parallel_config.py and the
// manual's "JSON Config Mode". Tested by tests/launch/galvatron_test.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <numeric>

#include "cli/launch/job/job_builder.hpp"
#include "cli/launch/native/native_trainers.hpp"
#include "cli/terminal/words.hpp"
#include "formulas/names.hpp"
#include "planner/problem/axes.hpp"

namespace plan {
namespace {

using namespace native_trainers;

/// What one layer does.
struct LayerChoice {
  int tp = 1, cp = 1, ulysses = 1;  ///< of tp or Ulysses one is 1
  bool sharded = false;             ///< `dp_types_enc` 1: ZeRO-3
  int context() const { return cp * ulysses; }
  bool operator==(const LayerChoice&) const = default;
};

/// The lists, as long as the model is deep.
struct Lists {
  std::vector<LayerChoice> layers{};
  std::vector<int> checkpoint{};
  std::vector<int> division{};  ///< layers of each stage
};

/// A list of whole numbers with commas in between; `count` of them, if that is above 0.
std::vector<int> numbers(JobBuilder& builder, std::string_view key, std::size_t count, int most) {
  std::vector<int> out;
  const Setting* setting = builder.settings.get(key);
  if (setting == nullptr) return out;
  std::vector<std::string_view> words(setting->items.begin(), setting->items.end());
  if (!setting->list) words = split(setting->value, ",");
  for (std::string_view word : words) {
    while (word.starts_with(' ')) word.remove_prefix(1);
    const std::optional<std::int64_t> number = to_integer(word);
    if (!number || *number < 0 || *number > most) {
      builder.settings.refuse(*setting, fmt::format("whole numbers of 0 to {} with commas in between", most));
      return {};
    }
    out.push_back(static_cast<int>(*number));
  }
  if (count == 0 || out.size() == count) return out;
  builder.settings.refuse(*setting, fmt::format("one value for each of {} layers, not {}", count, out.size()));
  return {};
}

/// `..._2nodes_8gpus_per_node_...`, as Galvatron's search names its files.
int gpus_of_name(std::string_view path) {
  const auto before = [&](std::string_view word) {
    const std::size_t at = path.rfind(word);
    if (at == std::string_view::npos) return 0;
    std::size_t start = at;
    while (start > 0 && path[start - 1] >= '0' && path[start - 1] <= '9') --start;
    int number = 0;
    std::from_chars(path.data() + start, path.data() + at, number);
    return number > 0 && number <= (1 << 20) ? number : 0;
  };
  const std::int64_t gpus = static_cast<std::int64_t>(before("nodes_")) * before("gpus_per_node");
  return gpus <= kMostGpus ? static_cast<int>(gpus) : 0;
}

Lists read_lists(JobBuilder& builder, int pp) {
  Lists lists;
  constexpr int kMostDegree = 1 << 20;
  const std::vector<int> tp = numbers(builder, "tp_sizes_enc", 0, kMostDegree);
  const std::size_t depth = tp.size();
  const auto list = [&](std::string_view key, int most, int otherwise) {
    std::vector<int> out = numbers(builder, key, depth, most);
    if (out.empty()) out.assign(depth, otherwise);
    return out;
  };
  const std::vector<int> cp = list("cp_sizes_enc", kMostDegree, 1), ulysses = list("use_sp", 1, 0),
                         sharded = list("dp_types_enc", 1, 0), consecutive = list("tp_consecutive_flags", 1, 1);
  lists.checkpoint = list("checkpoint", 1, 0);
  if (std::find(cp.begin(), cp.end(), 0) != cp.end())
    builder.settings.refuse(*builder.settings.get("cp_sizes_enc"), "degrees of at least 1");
  for (std::size_t i = 0; i < depth; ++i)
    lists.layers.push_back(
        {ulysses[i] == 1 ? 1 : tp[i], std::max(1, cp[i]), ulysses[i] == 1 ? tp[i] : 1, sharded[i] == 1});
  for (std::size_t i = 0; i < depth; ++i)
    if (consecutive[i] == 0 && tp[i] > 1) {
      builder.unused("tp_consecutive_flags",
                     "`tp_consecutive_flags` 0: tensor ranks that are not neighbours are "
                     "priced as neighbours");
      break;
    }
  lists.division = numbers(builder, "pp_division", 0, kMostDegree);
  const int layers = static_cast<int>(depth);
  if (lists.division.empty() && pp > 0) {  // as many each, the last one the rest
    lists.division.assign(static_cast<std::size_t>(pp), layers / pp);
    lists.division.back() = layers - layers / pp * (pp - 1);
  }
  const bool whole = std::accumulate(lists.division.begin(), lists.division.end(), std::int64_t{0}) == layers;
  if (const Setting* setting = builder.settings.get("pp_division");
      setting != nullptr && (!whole || static_cast<int>(lists.division.size()) != pp))
    builder.settings.refuse(*setting, fmt::format("{} numbers that add up to {} layers", pp, layers));
  return lists;
}

/// Neighbouring layers of one stage that do the same, and how many of them are recomputed: all, or as many of the
/// first.
struct RunChoice {
  LayerChoice layer{};
  int layers = 0;
  Recompute recompute{};
};
using StageChoice = std::vector<RunChoice>;

/// `first` and the one after the last layer.
StageChoice read_stage(const Lists& lists, std::size_t first, std::size_t last) {
  StageChoice runs;
  for (std::size_t layer = first; layer < last;) {
    RunChoice run{lists.layers[layer]};
    int rebuilt = 0;
    for (; layer < last && lists.layers[layer] == run.layer; ++layer, ++run.layers) rebuilt += lists.checkpoint[layer];
    if (rebuilt > 0)
      run.recompute = {.kind = RecomputeKind::Full, .modules = 0, .layers = rebuilt == run.layers ? 0 : rebuilt};
    runs.push_back(run);
  }
  return runs;
}

std::vector<StageChoice> read_stages(JobBuilder& builder, const Lists& lists) {
  std::vector<StageChoice> stages;
  std::size_t first = 0;
  for (const int count : lists.division) {
    if (count == 0) {
      builder.settings.refuse(*builder.settings.get("pp_division"), "stages of at least one layer");
      return {};
    }
    stages.push_back(read_stage(lists, first, first + static_cast<std::size_t>(count)));
    first += static_cast<std::size_t>(count);
  }
  return stages;
}

/// ZeRO stage of layers that `dp_types_enc` leaves to the default.
int default_zero(JobBuilder& builder) {
  constexpr std::string_view kKey = "default_dp_type";
  const std::string word = builder.settings.text(kKey).value_or("");
  if (word == "ddp") return 0;
  if (word == "zero2") return 2;
  if (word == "zero3") return 3;
  if (word.empty())
    builder.guess("zero", "0", "the file leaves `default_dp_type` to the command, whose default is ddp");
  else
    builder.settings.refuse(*builder.settings.get(kKey), "ddp, zero2 or zero3");
  return 0;
}

/// `most`: replicas that the batch divides among, too.
void read_batch(JobBuilder& builder, int dp, int most) {
  const int batch = builder.degree("global_bsz", 1), chunks = builder.degree("chunks", 1);
  const std::int64_t share = static_cast<std::int64_t>(chunks) * dp;
  if (share <= 0) return;
  if (batch % share != 0) {
    builder.errors.push_back({"does_not_divide",
                              fmt::format("{}: {} sequences in {} micro-batches on {} replicas",
                                          builder.settings.where("global_bsz"), batch, chunks, dp),
                              {},
                              {"make `global_bsz` a multiple of both"}});
    return;
  }
  if (batch % most != 0)
    builder.errors.push_back(
        {"does_not_divide",
         fmt::format("{}: {} sequences on the {} replicas of the layer, or of the vocabulary, that is split least",
                     builder.settings.where("global_bsz"), batch, most),
         {},
         {"make `global_bsz` a multiple of them, or raise `vtp`"}});
  builder.fix(&Fixed::micro_batch, static_cast<int>(batch / share), "chunks");
  builder.global_batch(batch, "global_bsz");
}

/// Replicas of what is split least, by which Galvatron divides the batch (hybrid_parallel_config.py).
int most_replicas(JobBuilder& builder, const std::vector<LayerChoice>& layers, int ranks) {
  int width = builder.degree("vtp", 1), context = builder.degree("vcp", 1);
  for (const LayerChoice& layer : layers)
    width = std::min(width, layer.tp * layer.ulysses), context = std::min(context, layer.cp);
  return std::max(1, ranks / std::max(1, width) / std::max(1, context));
}

int zero_of(const LayerChoice& layer, int otherwise) { return layer.sharded ? 3 : otherwise; }

/// What the layers of each stage do otherwise than the first layer of all.
void read_stages(JobBuilder& builder, const std::vector<StageChoice>& stages, int otherwise) {
  const LayerChoice& front = stages.front().front().layer;
  const int zero = zero_of(front, otherwise);
  const auto strategy = [&](const RunChoice& run) {
    StageStrategy own{run.recompute};
    if (run.layer.tp != front.tp) own.tp = run.layer.tp;
    if (run.layer.context() != front.context()) own.cp = run.layer.context();
    if (const int other = zero_of(run.layer, otherwise); other != zero) own.zero = other;
    own.layers = run.layers;
    return own;
  };
  std::vector<StageStrategy> all;
  for (const StageChoice& stage : stages) {
    StageStrategy own = strategy(stage.front());
    std::transform(stage.begin() + 1, stage.end(), std::back_inserter(own.behind), strategy);
    (own.behind.empty() ? own : own.behind.back()).layers = 0;  // those that are left
    all.push_back(std::move(own));
  }
  if (all.front().behind.empty() && std::adjacent_find(all.begin(), all.end(), std::not_equal_to<>()) == all.end())
    builder.fix(&Fixed::recompute, all.front().recompute, recompute_text(all.front().recompute), "checkpoint");
  else
    builder.fix(&Fixed::stages, all, stages_text(all), "checkpoint");
}

/// How layers exchange keys and values: all that have context parallelism in one way. False: they do not.
bool read_context(JobBuilder& builder, const std::vector<LayerChoice>& layers) {
  const auto any = [&](bool (*is)(const LayerChoice&)) { return std::any_of(layers.begin(), layers.end(), is); };
  const bool ulysses = any([](const LayerChoice& layer) { return layer.ulysses > 1; });
  if (ulysses && any([](const LayerChoice& layer) { return layer.ulysses == 1 && layer.cp > 1; })) {
    builder.errors.push_back(
        {"not_expressible",
         fmt::format("{}: some layers have a context ring, others `use_sp`", builder.settings.where("cp_sizes_enc")),
         {},
         {"give all layers with context parallelism a ring, or all of them `use_sp`"}});
    return false;
  }
  if (any([](const LayerChoice& layer) { return layer.ulysses > 1 && layer.cp > 1; }))
    builder.unused("cp_sizes_enc", "`cp_sizes_enc` beside `use_sp`: all of it is priced as Ulysses");
  if (!any([](const LayerChoice& layer) { return layer.context() > 1; })) return true;
  const CpKind kind = ulysses ? CpKind::Ulysses : CpKind::Ring;
  builder.fix(&Fixed::cp_kind, kind, name(kind), ulysses ? "use_sp" : "cp_sizes_enc");
  return true;
}

void read_strategies(JobBuilder& builder, const std::vector<StageChoice>& stages, const Lists& lists, int gpus) {
  const int pp = static_cast<int>(stages.size()), otherwise = default_zero(builder);
  const LayerChoice& front = stages.front().front().layer;
  const std::int64_t model_ranks = static_cast<std::int64_t>(front.tp) * front.cp * front.ulysses * pp;
  if (model_ranks <= 0 || model_ranks > gpus || gpus % model_ranks != 0) {
    builder.errors.push_back(
        {"does_not_divide",
         fmt::format("{}: tp {} * cp {} * pp {} does not divide {} GPUs", builder.settings.where("pp_deg"), front.tp,
                     front.cp * front.ulysses, pp, gpus),
         {},
         {}});
    return;
  }
  const int dp = static_cast<int>(gpus / model_ranks);
  builder.fix(&Fixed::tp, front.tp, "tp_sizes_enc");
  builder.fix(&Fixed::cp, front.context(), front.ulysses > 1 ? "use_sp" : "cp_sizes_enc");
  if (!read_context(builder, lists.layers)) return;
  builder.fix(&Fixed::pp, pp, "pp_deg");
  builder.fix(&Fixed::vp, 1, "");
  builder.fix(&Fixed::dp, dp, "");
  builder.fix(&Fixed::zero, zero_of(front, otherwise), "dp_types_enc");
  builder.fix(&Fixed::shard, 0, "");
  if (pp > 1) builder.fix(&Fixed::chunk_layers, lists.division, stage_layers_text(lists.division), "pp_division");
  read_stages(builder, stages, otherwise);
  read_batch(builder, dp, most_replicas(builder, lists.layers, gpus / pp));
}

/// Embedding and head, which Galvatron splits by keys of their own; without them, not at all.
void read_vocabulary(JobBuilder& builder, const LayerChoice& front) {
  const bool ulysses = front.ulysses > 1;
  const int width = ulysses ? front.ulysses : front.tp, vtp = builder.degree("vtp", 1), vcp = builder.degree("vcp", 1);
  const bool vsp = builder.degree("vsp", 0, 0) > 0;
  const auto note_degree = [&](std::string_view key, int value) {
    builder.unused(builder.settings.states(key) ? key : "tp_sizes_enc",
                   fmt::format("`{}` {}{}: embedding and head are priced as the layers of their stages", key, value,
                               builder.settings.states(key) ? "" : ", Galvatron's default"));
  };
  if (vtp != width || (vtp > 1 && vsp != ulysses)) note_degree("vtp", vtp);
  if (vcp != front.cp) note_degree("vcp", vcp);
  for (const std::string_view key : {"embed_sdp", "vocab_sdp"})
    if (builder.degree(key, 0, 0) > 0)
      builder.unused(key, fmt::format("`{}`: embedding and head are priced with the ZeRO of their stages", key));
}

/// Keys without which Galvatron stops (config_utils.py, hybrid_parallel_config.py).
void tell_missing(JobBuilder& builder) {
  for (const std::string_view key : {"tp_consecutive_flags", "dp_types_enc", "global_bsz", "chunks"})
    if (!builder.settings.states(key))
      builder.unused("pp_deg", fmt::format("the file has no `{}`, without which Galvatron stops", key));
}

void read_rest(JobBuilder& builder, const LaunchSource& file, int pp, const LayerChoice& front) {
  Settings& settings = builder.settings;
  constexpr std::string_view kType = "pipeline_type";
  const std::string type = settings.text(kType).value_or("gpipe");
  if (type != "gpipe" && type != "pipedream_flush") settings.refuse(*settings.get(kType), "gpipe or pipedream_flush");
  const Schedule schedule = type == "gpipe" ? Schedule::GPipe : Schedule::OneFOneB;
  if (pp > 1) builder.fix(&Fixed::schedule, schedule, name(schedule), kType);
  if (pp > 1 && !settings.states(kType)) {
    std::erase_if(builder.job.inputs, [](const Input& input) { return input.key == "schedule"; });
    builder.guess("schedule", name(schedule), "the file leaves `pipeline_type` to the command, whose default is gpipe");
  }
  read_vocabulary(builder, front);
  const bool tensor = front.tp > 1;
  if (tensor) {
    builder.job.fixed.sequence_parallel = true;
    builder.guess("sequence_parallel", "on", "the file leaves it to the command's `--sequence-parallel`");
  } else {
    builder.fix(&Fixed::sequence_parallel, false, "off", "");
  }
  for (const auto& [word, precision] :
       {std::pair{"_fp32", Precision::Fp32}, std::pair{"_fp16", Precision::Fp16}, std::pair{"_bf16", Precision::Bf16}})
    if (file.path.find(word) != std::string::npos) return builder.precision(precision, "tp_sizes_enc");
  builder.training.precision = Precision::Bf16;
  builder.guess("precision", "bf16", "the file leaves it to the command's `--mixed_precision`");
}

}  // namespace

bool is_galvatron(const LaunchSource& source) {
  const std::size_t start = source.text.find_first_not_of(" \t\r\n");
  return start != std::string::npos && source.text[start] == '{' &&
         source.text.find("\"pp_deg\"") != std::string::npos &&
         source.text.find("\"tp_sizes_enc\"") != std::string::npos;
}

Result<LaunchJob> read_galvatron(std::span<const LaunchSource> files, const LaunchFacts& facts) {
  Result<Settings> settings = settings_of(files);
  if (!settings) return tl::unexpected(settings.error());
  JobBuilder builder(*settings, "galvatron", Framework::Any);
  builder.launcher(facts);
  if (builder.job.gpus == 0)
    if (const int gpus = gpus_of_name(files.front().path); gpus > 0) builder.gpus(gpus, "pp_deg");
  const int pp = builder.degree("pp_deg", 1);
  const Lists lists = read_lists(builder, pp);
  for (const std::string_view key : {"ep_sizes_enc", "tp_of_ep_sizes_enc"})
    if (const std::vector<int> degrees = numbers(builder, key, lists.layers.size(), 1 << 20);
        std::any_of(degrees.begin(), degrees.end(), [](int degree) { return degree > 1; }))
      builder.errors.push_back({"not_expressible",
                                fmt::format("{}: experts that are spread layer by layer", settings->where(key)),
                                {},
                                {"state ep with `--layout`, without this file"}});
  if (builder.job.gpus == 0)
    builder.errors.push_back({"missing_flag",
                              fmt::format("{}: the file does not say how many GPUs train", settings->where("pp_deg")),
                              {},
                              {"add `--gpus N`"}});
  const bool sound = builder.errors.empty() && settings->errors().empty() && !lists.layers.empty();
  if (sound)
    if (const std::vector<StageChoice> stages = read_stages(builder, lists); !stages.empty()) {
      read_strategies(builder, stages, lists, builder.job.gpus);
      read_rest(builder, files.front(), pp, stages.front().front().layer);
    }
  tell_missing(builder);
  tell_the_rest(builder, {}, "Galvatron");
  return builder.finish();
}

}  // namespace plan
