// OLMo-core's configuration as a run saves it (config.json, every object with the class that it is of): a model in its
// own words, batches in tokens, a mesh of data, tensor, context, pipeline and expert parallelism. Keys and defaults:
// OLMo-core 2 src/olmo_core/{internal/experiment.py,train/train_module/transformer/config.py,nn/transformer/config.py,
// distributed/parallel}. Tested by tests/launch/native_test.cpp and
// tests/launch/native_switches_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "cli/launch/native/native_trainers.hpp"
#include "formulas/names.hpp"
#include "formulas/words.hpp"
#include "presets/suggest.hpp"

namespace plan {
namespace {

using namespace native_trainers;

constexpr std::string_view kModule = "train_module.", kSeq = "train_module.max_sequence_length";
constexpr std::string_view kRank = "train_module.rank_microbatch_size", kBatch = "data_loader.global_batch_size";
constexpr std::string_view kSharding = "train_module.dp_config.name", kMode = "train_module.ac_config.mode";
constexpr std::string_view kPipeline = "train_module.pp_config.schedule", kOptimizer = "train_module.optim._CLASS_";
/// What shapes memory or time and is counted in one way only.
constexpr CountedAs kCounted[] = {
    {"train_module.dp_config.wrapping_strategy", "blocks full fine_grained",
     "weights are counted as gathered by block"},
    {"train_module.pp_config.split_points", "", "the stages are counted as even"},
    {"train_module.optim.dtype", "float32 torch.float32", "the optimizer's moments are counted in fp32"},
    {"model.dtype", "float32 torch.float32", "weights are counted in fp32 where the optimizer has them"},
    {"model.lm_head.loss_implementation", "default fused_linear", "the loss is counted as fused kernels of their own"},
};
constexpr auto kIrrelevant = word_list([] {
  return "dataset. dataset[ trainer. launch. run_name init_seed backend data_loader. train_module.optim. "
         "train_module.scheduler. train_module.max_grad_norm train_module.z_loss_multiplier "
         "train_module.label_ignore_index train_module.state_dict_save_opts. "
         "train_module.state_dict_load_opts. train_module.dp_config. train_module.tp_config. "
         "train_module.cp_config. train_module.ep_config. train_module.pp_config. train_module.ac_config. "
         "train_module.float8_config. model.init_ model.embedding_init_std model.lm_head. model.block. "
         "work_dir save_folder";
});

/// Whether the file gives `section` at all: a configuration that is null is left out or has no keys.
bool has_section(const Settings& settings, std::string_view section) {
  return settings.has_section(std::string(kModule) + std::string(section) + ".");
}

/// The model's block, whose mixer older releases call `attention`.
std::string mixer_of(const Settings& settings) {
  return settings.has_section("model.block.sequence_mixer.") ? "model.block.sequence_mixer." : "model.block.attention.";
}

/// What of the block is no plain decoder layer that a family here has; empty: nothing.
std::string odd_block(Settings& settings, const std::string& mixer) {
  const auto word = [&](const std::string& key) { return lowered(settings.text(key).value_or("")); };
  if (settings.has_section("model.block_overrides.")) return "blocks that differ";
  if (settings.states("model.block_pattern")) return "a pattern of blocks";
  if (word("model.name") == "normalized" || word("model.block.name") == "normalized") return "a normalized transformer";
  if (word("model.block.name") == "peri_norm") return "norms around both parts of a layer";
  if (settings.has_section(mixer + "gate.")) return "gated attention";
  if (const std::string name = word(mixer + "name"); !name.empty() && name != "default" && name != "fused")
    return fmt::format("a mixer `{}`", name);
  if (settings.boolean(mixer + "bias").value_or(false)) return "biases";
  if (settings.boolean("model.tie_word_embeddings").value_or(false)) return "tied embeddings";
  return settings.states(mixer + "n_heads") ? "" : "a mixer without heads";
}

void read_model(JobBuilder& builder) {
  Settings& settings = builder.settings;
  const std::string mixer = mixer_of(settings), moe = "model.block.feed_forward_moe.";
  const std::string odd = odd_block(settings, mixer);
  const bool experts = settings.has_section(moe), windows = settings.has_section(mixer + "sliding_window.");
  if (!odd.empty() || (experts && settings.has_section(moe + "shared_mlp.")))
    return builder.note("unknown_model",
                        fmt::format("{}: {}: name the model with `--model`", settings.where("model.d_model"),
                                    odd.empty() ? "shared experts" : odd));
  const auto size = [&](const std::string& key, int otherwise) { return builder.degree(key, otherwise); };
  const int hidden = size("model.d_model", 1), heads = size(mixer + "n_heads", 16);
  const bool norms = settings.has_section(mixer + "qk_norm.");
  const bool per_head = settings.boolean(mixer + "use_head_qk_norm").value_or(false);
  const std::string_view dense = !norms ? "llama" : per_head ? "qwen3" : windows ? "olmo3" : "olmo2";
  const int width = size(experts ? moe + "hidden_size" : std::string("model.block.feed_forward.hidden_size"), 1);
  describe_model(builder, experts ? (norms ? "qwen3_moe" : "mixtral") : dense, "model.d_model",
                 {{"hidden_size", hidden},
                  {"intermediate_size", width},
                  {"moe_intermediate_size", width},
                  {"num_hidden_layers", size("model.n_layers", 1)},
                  {"num_attention_heads", heads},
                  {"num_key_value_heads", size(mixer + "n_kv_heads", heads)},
                  {"head_dim", size(mixer + "head_dim", std::max(1, hidden / std::max(1, heads)))},
                  {"num_local_experts", experts ? size(moe + "num_experts", 1) : 0},
                  {"num_experts", experts ? size(moe + "num_experts", 1) : 0},
                  {"num_experts_per_tok", experts ? size(moe + "router.top_k", 1) : 0},
                  {"vocab_size", size("model.vocab_size", 1)}},
                 {{"tie_word_embeddings", false}});
  if (windows)
    builder.unused(mixer + "sliding_window.pattern", "windows of attention are counted as the whole sequence");
}

/// Degree of one axis of the mesh: 1 where its configuration is null.
int degree_of(JobBuilder& builder, const std::string& section) {
  return has_section(builder.settings, section) ? builder.degree(std::string(kModule) + section + ".degree", 1) : 1;
}

void read_olmo_mesh(JobBuilder& builder, const LaunchFacts& facts) {
  Settings& settings = builder.settings;
  const auto key = [](const char* section) { return std::string(kModule) + section + ".degree"; };
  const int tp = degree_of(builder, "tp_config"), cp = degree_of(builder, "cp_config");
  const int pp = degree_of(builder, "pp_config"), ep = degree_of(builder, "ep_config");
  builder.fix(&Fixed::tp, tp, key("tp_config"));
  builder.fix(&Fixed::cp, cp, key("cp_config"));
  builder.fix(&Fixed::pp, pp, key("pp_config"));
  builder.fix(&Fixed::ep, ep, key("ep_config"));
  builder.fix(&Fixed::etp, 1, "");
  builder.fix(&Fixed::sequence_parallel, tp > 1, tp > 1 ? "on" : "off", key("tp_config"));
  const bool ulysses = settings.has_section("train_module.cp_config.uly.");
  if (cp > 1)
    builder.fix(&Fixed::cp_kind, ulysses ? CpKind::Ulysses : CpKind::Ring,
                name(ulysses ? CpKind::Ulysses : CpKind::Ring), key("cp_config"));
  const std::string word = lowered(settings.text(kSharding).value_or("ddp"));
  const bool sharded = word == "fsdp" || word == "hsdp";
  if (!sharded && word != "ddp") settings.refuse(*settings.get(kSharding), "fsdp, hsdp or ddp");
  // Beside a pipeline weights stay gathered between forward and backward pass.
  builder.fix(&Fixed::zero, !sharded || builder.job.gpus == 1 ? 0 : pp > 1 ? 2 : 3, kSharding);
  int shard = 0;
  if (word == "hsdp" && builder.job.gpus > 0 && builder.plausible({tp, cp, pp})) {
    const int ranks = builder.job.gpus / std::max(1, tp * cp * pp) * cp;
    const int replicas = builder.degree("train_module.dp_config.num_replicas", std::max(1, facts.nodes));
    shard = builder.degree("train_module.dp_config.shard_degree", std::max(1, ranks / std::max(1, replicas)));
    if (shard >= ranks) shard = 0;
  }
  builder.fix(&Fixed::shard, shard, "train_module.dp_config.shard_degree");
}

void read_pipeline(JobBuilder& builder) {
  constexpr std::pair<std::string_view, Schedule> kSchedules[] = {
      {"1F1B", Schedule::OneFOneB},          {"Interleaved1F1B", Schedule::Interleaved}, {"GPipe", Schedule::GPipe},
      {"LoopedBFS", Schedule::BreadthFirst}, {"ZBVZeroBubble", Schedule::ZbV},
  };
  if (builder.job.fixed.pp.value_or(1) <= 1) return builder.fix(&Fixed::vp, 1, "");
  Settings& settings = builder.settings;
  const std::string word = settings.text(kPipeline).value_or("Interleaved1F1B");
  for (const auto& [text, schedule] : kSchedules)
    if (word == text) {
      const bool single = schedule == Schedule::OneFOneB || schedule == Schedule::GPipe;
      builder.fix(&Fixed::schedule, schedule, name(schedule), kPipeline);
      return builder.fix(&Fixed::vp, single ? 1 : 2, kPipeline);
    }
  builder.unused(kPipeline, fmt::format("the schedule `{}` is left open", word));
}

void read_recompute(JobBuilder& builder) {
  Settings& settings = builder.settings;
  Recompute recompute{};
  const std::string mode = settings.text(kMode).value_or(has_section(settings, "ac_config") ? "full" : "");
  if (mode == "full" || mode == "selected_blocks") recompute.kind = RecomputeKind::Full;
  if (mode == "selected_blocks") {
    const int every = builder.degree("train_module.ac_config.block_interval", 1);
    const int depth = builder.job.model ? builder.job.model->depth() : 0;
    if (every > 1) recompute.layers = std::max(1, depth / every);
  } else if (!mode.empty() && mode != "full") {
    builder.unused(kMode, fmt::format("`{}`: what is rebuilt is not known: counted as nothing rebuilt", mode));
  }
  const bool full = recompute.kind == RecomputeKind::Full;
  builder.fix(&Fixed::recompute, recompute, full ? "full" : "none", kMode);
}

void read_precision(JobBuilder& builder) {
  Settings& settings = builder.settings;
  const std::string_view kParam = "train_module.dp_config.param_dtype", kCast = "train_module.autocast_precision";
  const std::string_view from = settings.states(kParam) ? kParam : kCast;
  const std::string word = lowered(settings.text(from).value_or("float32"));
  const bool low = settings.has_section("train_module.float8_config.") &&
                   settings.boolean("train_module.float8_config.enabled").value_or(true);
  const bool mx = settings.has_section("train_module.float8_config.ao_mx.");
  if (low)
    builder.precision(mx ? Precision::Mxfp8 : Precision::Fp8Tensorwise, "train_module.float8_config.enabled");
  else
    builder.precision(word == "bfloat16"  ? Precision::Bf16
                      : word == "float16" ? Precision::Fp16
                                          : Precision::Fp32,
                      from);
  if (lowered(settings.text("train_module.dp_config.reduce_dtype").value_or("float32")) == "bfloat16")
    builder.training.grad_bytes = 2;
}

/// Batches count tokens: whole sequences of them, or the file is refused as OLMo-core refuses it.
void read_batch(JobBuilder& builder) {
  Settings& settings = builder.settings;
  const int seq = builder.degree(kSeq, 0, 0);
  const auto sequences = [&](std::string_view key) {
    const int tokens = builder.degree(key, seq);
    if (seq <= 0 || tokens % seq == 0) return seq <= 0 ? 0 : tokens / seq;
    settings.refuse(*settings.get(key), fmt::format("a multiple of the {} tokens of a sequence", seq));
    return 0;
  };
  if (seq > 0) builder.sequence(seq, kSeq);
  const int micro = sequences(kRank), global = sequences(kBatch);
  if (micro > 0) builder.fix(&Fixed::micro_batch, micro, kRank);
  if (global > 0) builder.global_batch(global, kBatch);
}

void read_software(JobBuilder& builder) {
  constexpr std::string_view kCompile = "train_module.compile_model", kLoss = "model.lm_head.loss_implementation";
  read_compile(builder, builder.settings.boolean(kCompile).value_or(false), kCompile);
  const std::string loss = lowered(builder.settings.text(kLoss).value_or("default"));
  if (loss == "fused_linear") builder.training.stack.cross_entropy = CrossEntropy::Chunked;
  tell_counted(builder, kCounted);
}

void read_optimizer(JobBuilder& builder) {
  const std::string word = lowered(builder.settings.text(kOptimizer).value_or("adamw"));
  if (word.find("muon") != word.npos) builder.training.optimizer = Optimizer::Muon;
  if (word.find("lion") != word.npos) builder.training.optimizer = Optimizer::SgdMomentum;  // one moment
  for (const char* other : {"dion", "noop", "adafactor"})
    if (word.find(other) != word.npos) builder.unused(kOptimizer, "this optimizer's states are counted as adam's");
  builder.origin("optimizer", name(builder.training.optimizer), kOptimizer);
}

}  // namespace

bool is_olmo_core(const LaunchSource& source) {
  return !is_shell(source) && !source.path.ends_with(".py") && mentions(source, "_CLASS_") &&
         mentions(source, "olmo_core.") && mentions(source, "train_module") && mentions(source, "rank_microbatch_size");
}

Result<LaunchJob> read_olmo_core(std::span<const LaunchSource> files, const LaunchFacts& given) {
  Result<Settings> settings = settings_of(files);
  if (!settings) return tl::unexpected(settings.error());
  JobBuilder builder(*settings, "olmo-core", Framework::Any);
  LaunchFacts facts = given;
  if (facts.gpus() == 0 && settings->states("launch.num_nodes")) {
    facts.nodes = builder.degree("launch.num_nodes", 1), facts.gpus_per_node = builder.degree("launch.num_gpus", 8);
    facts.gpus_where = settings->where("launch.num_nodes");
    if (std::optional<Error> error = too_many_gpus(facts)) return fail(std::move(*error));
  }
  builder.launcher(facts);
  read_own_model(builder, facts, read_model);
  read_olmo_mesh(builder, facts);
  read_pipeline(builder);
  read_recompute(builder);
  read_precision(builder);
  read_batch(builder);
  read_optimizer(builder);
  read_software(builder);
  tell_the_rest(builder, kIrrelevant, "OLMo-core");
  return builder.finish();
}

}  // namespace plan
