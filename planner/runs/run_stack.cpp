// Facts about the code behind published runs. Tested by tests/planner/runs_test.cpp.
#include "planner/runs/run_stack.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "formulas/flops.hpp"
#include "formulas/names.hpp"
#include "formulas/partition.hpp"
#include "planner/runs/run_dates.hpp"
#include "planner/runs/run_memory.hpp"

namespace plan {
namespace {

/// Launch flags quoted in a row's notes.
class Flags {
 public:
  explicit Flags(std::string_view notes) {
    const std::size_t at = notes.find("Flags: ");
    if (at != std::string_view::npos) text_ = notes.substr(at + 7);
  }
  bool any() const { return !text_.empty(); }
  std::string_view value(std::string_view name) const {
    for (std::size_t at = text_.find(name); at != std::string_view::npos; at = text_.find(name, at + 1)) {
      const bool starts = at == 0 || text_[at - 1] == ' ';
      const std::size_t end = at + name.size();
      if (!starts || end >= text_.size() || text_[end] != '=') continue;
      const std::size_t stop = text_.find(", ", end);
      return text_.substr(end + 1, stop == std::string_view::npos ? stop : stop - end - 1);
    }
    return {};
  }
  bool on(std::string_view name) const { return value(name) == "true"; }
  std::int64_t number(std::string_view name, std::int64_t otherwise) const {
    const std::string_view text = value(name);
    std::int64_t result = otherwise;
    std::from_chars(text.data(), text.data() + text.size(), result);
    return result;
  }

 private:
  std::string_view text_{};
};

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

/// Whether the text names a word by itself: "bridge recipe" has "recipe", "NeMo-Framework" no "Frame".
bool says(std::string_view text, std::string_view word) {
  const auto letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !letter(text[at - 1])) && (end == text.size() || !letter(text[end]))) return true;
  }
  return false;
}

/// Parts of a layer that `cuda_graph_scope=` names, alone or as a list of quoted words, or that a text says.
std::uint16_t stated_scopes(std::string_view notes) {
  constexpr std::string_view kKey = "cuda_graph_scope=";
  if (contains(notes, "router/preprocess CUDA graphs")) return kGraphRouter | kGraphPreprocess;
  const std::size_t at = notes.find(kKey);
  if (at == std::string_view::npos) return 0;
  const std::string_view rest = notes.substr(at + kKey.size());
  const std::string_view words = rest.substr(0, rest.find_first_of(rest.starts_with('[') ? "]" : " ,.;"));
  std::uint16_t scopes = 0;
  for (const Named<GraphScope>& row : kGraphScopeNames)
    if (says(words, row.name)) scopes = static_cast<std::uint16_t>(scopes | row.value);
  return scopes;
}

/// Kernels that a row names for itself, whatever its framework's habit.
void stated_kernels(const Run& run, Stack& stack) {
  if (const std::uint16_t scopes = stated_scopes(run.notes); scopes != 0) stack.graph_scopes = scopes;
  if (const std::string_view norm = run.fact("norm"); !norm.empty()) stack.fused_norms = norm == "fused";
  if (contains(run.notes, "DeepEP") || contains(run.notes, "HybridEP")) stack.dedup_dispatch = true;
  if (const std::string_view softmax = run.fact("softmax"); !softmax.empty()) stack.fused_softmax = softmax == "fused";
}

/// SimuMax's Megatron benchmarks: TransformerEngine's fused loss, all-to-all context parallelism, and a null
/// tokenizer that adds one to the vocabulary (its docs/b200 launch scripts).
void simumax(Problem& problem, Layout& layout) {
  problem.training.stack.cross_entropy = CrossEntropy::FusedInPlace;
  problem.training.dropout = 0;
  problem.model.vocab += 1;
  layout.cp_kind = CpKind::Ulysses;
}

/// NeMo Automodel names the kernels that replace PyTorch's: TransformerEngine's linears, norms and attention.
void automodel(const Run& run, Stack& stack) {
  if (says(run.notes, "TE"))
    stack.fused_pointwise = stack.fused_norms = stack.fused_activation = true,
    stack.attention_kernel = AttentionKernel::Vendor;
}

/// aleph-alpha/scaling: PyTorch's loss on logits gathered over tensor ranks, SwiGLU of three kernels, inputs
/// gathered once and kept, or their gradients summed by every column linear, 16-bit gradients beside a sharded fp32
/// optimizer (arXiv:2311.05610, section 4). Where a row does not say which norm it ran, that of FlashAttention's
/// repository ran with all activations kept: activation checkpointing rules it out.
void aleph_alpha(const Run& run, Problem& problem, const Layout& layout) {
  Stack& stack = problem.training.stack;
  stack.cross_entropy = CrossEntropy::Eager;
  stack.vocab_parallel_loss = stack.fused_activation = stack.frees_stage_outputs = stack.transformer_engine = false;
  stack.fused_norms = layout.recompute.kind == RecomputeKind::None;
  if (run.attention.empty() || run.attention == "flash")
    stack.attention_kernel = stack.fused_norms ? AttentionKernel::Flash2 : AttentionKernel::Flash1;
  stack.keeps_gathered = stack.reduces_per_linear = true;
  problem.training.grad_bytes = 2;
}

/// Megatron-DeepSpeed: DeepSpeed's optimizer and pipeline around Megatron's layers. Its bf16 optimizer keeps
/// whole fp32 gradients. Microsoft's fork has Megatron-LM's asynchronous all-reduce since May 2023, BigScience's never.
void megatron_deepspeed(const Run& run, Problem& problem) {
  constexpr int kAsynchronous = month_of(2023, 5);
  problem.training.grad_bytes = problem.training.precision == Precision::Bf16 ? 4 : 2;
  const bool big_science = contains(run.source, "BigScience") || contains(run.source, "bigscience");
  problem.training.stack.tp_async_reduce = !big_science && software_month(run) >= kAsynchronous;
}

/// DeepSpeed's stage 3 gathered and reduced lists of the ranks' shares (0.4.5, runtime/zero/partition_parameters.py)
/// until it could gather into one tensor (its pull request 1188, of autumn 2021).
void deepspeed_lists(const Run& run, Stack& stack) {
  constexpr int kOneTensor = month_of(2021, 10);
  stack.shards_in_lists = stack.states == StateLayout::DeepSpeed && software_month(run) < kOneTensor;
}

/// torchtitan: expandable segments, which its launch script sets. Its loss was eager, compiled from April 2025 on
/// (commit bbb1b616e) and taken in chunks from May 2026 on (786e26f8e); keys and values were repeated for every query
/// head until January 2026 (ff0829c10). Under pipelines weights stay gathered from forward to backward.
void torchtitan(const Run& run, Problem& problem, const Layout& layout) {
  Stack& stack = problem.training.stack;
  const int month = software_month(run);
  stack.cross_entropy = month >= month_of(2026, 5)   ? CrossEntropy::Chunked
                        : month >= month_of(2025, 4) ? CrossEntropy::Compiled
                                                     : CrossEntropy::Eager;
  stack.expands_kv = month < month_of(2026, 2);
  stack.expandable_segments = true;
  stack.reshard_after_forward = layout.pp == 1;
  stack.fp8_param_gather = true;  // enable_fsdp_float8_all_gather, as its fp8 benchmarks run (docs/float8.md)
}

/// Forks of Megatron-LM for pipeline research (zero-bubble, vocabulary parallelism): local layers, fp16 with
/// fp16 gradients, Megatron's default dropout, untied embeddings.
void megatron_fork(const Run& run, Problem& problem) {
  problem.training.stack.transformer_engine = false;
  problem.training.stack.cross_entropy = CrossEntropy::Unfused;
  problem.training.dropout = 0.1;
  problem.model.tied = false;
  if (run.precision.empty()) problem.training.precision = Precision::Fp16;
  if (problem.training.precision == Precision::Fp16) problem.training.grad_bytes = 2;
}

/// Latent attention with Megatron's default widths, unless a flag narrows them.
void latent(const Flags& flags, Layer& layer) {
  layer.mixer = Mixer::Latent;
  layer.latent = {.heads = layer.attention.heads,
                  .q_rank = flags.number("q-lora-rank", 0),
                  .kv_rank = flags.number("kv-lora-rank", 512),
                  .nope_dim = flags.number("qk-head-dim", 128),
                  .rope_dim = flags.number("qk-pos-emb-head-dim", 64),
                  .value_dim = flags.number("v-head-dim", 128)};
}

/// Megatron-LM's arguments default to the GPT of 2019: LayerNorm, biases, tied embeddings, learned positions,
/// dropout 0.1, GPT-2's vocabulary; flags take each back.
void megatron_model(const Run& run, const Flags& flags, Problem& problem) {
  Model& model = problem.model;
  const bool rotary = !flags.value("rotary-percent").empty() || flags.on("multi-latent-attention") ||
                      flags.value("normalization") == "RMSNorm";
  const bool bias = !flags.on("disable-bias-linear");
  model.norm = flags.value("normalization") == "RMSNorm" ? Norm::Rms : Norm::Layer;
  model.tied = !flags.on("untie-embeddings-and-output-weights");
  model.positions = rotary ? 0 : problem.training.seq;
  problem.training.dropout = rotary ? 0 : 0.1;
  if (!run.vocab) model.vocab = 50257;
  for (Layer& layer : model.kinds) {
    layer.attention.qkv_bias = layer.attention.out_bias = layer.dense.bias = bias;
    if (flags.on("qk-layernorm")) layer.attention.qk_norm = QkNorm::PerHead;
    if (flags.on("swiglu")) layer.dense.gated = layer.moe.gated = true;
    if (flags.on("swiglu") && !run.ffn) layer.dense.width = 4 * model.hidden * 2 / 3 / 64 * 64;
    if (flags.on("swiglu") && !run.ffn && !run.expert_ffn) layer.moe.expert_width = layer.dense.width;
    if (flags.on("multi-latent-attention")) latent(flags, layer);
  }
}

/// Its functional tests run deterministic modes, small kernels and the loader's attention mask.
void megatron_tests(const Run& run, Problem& problem) {
  const Flags flags(run.notes);
  megatron_model(run, flags, problem);
  Stack& stack = problem.training.stack;
  stack.cross_entropy = CrossEntropy::Unfused;  // the native fused loss works on fp32 logits as well
  stack.gradient_fusion = !flags.on("no-gradient-accumulation-fusion");
  stack.deterministic = flags.on("deterministic-mode");
  stack.grouped_gemm = flags.on("moe-grouped-gemm");
  stack.transformer_engine = flags.value("transformer-impl") != "local";
  stack.flash_attention = stack.transformer_engine && flags.value("attention-backend") != "unfused";
  stack.loader_attention_mask = !contains(run.model, "no_create_attention_mask");
  if (flags.value("ckpt-format") == "fsdp_dtensor") stack.states = StateLayout::MegatronFsdp;
}

/// A number behind "name=" in free text.
double number_behind(std::string_view text, std::string_view name) {
  const std::size_t at = text.find(name);
  double value = 0;
  if (at != std::string_view::npos) {
    const std::string_view digits = text.substr(at + name.size());
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
  }
  return value;
}

/// Layers of a stage, of which a share is meant.
int layers_of_stage(const Problem& problem, const Layout& layout, double share) {
  return static_cast<int>(std::lround(share * problem.model.depth() / layout.pp));
}

/// Since 26.06 performance recipes of experts in MXFP8 run whole iterations in one CUDA graph and all-to-alls beside
/// another micro-batch (DEEPSEEK_V3_ and GPT_OSS_120B_PRETRAIN_CONFIG_GB200_FP8_MX_V2, of which releases quote it).
bool quoted_expert_recipe(const Run& run, const Problem& problem) {
  return contains(run.source, "pretrain_performance") && problem.model.moe() &&
         problem.training.precision == Precision::Mxfp8 && software_month(run) >= month_of(2026, 6);
}

/// Performance recipes of experts in bf16 have router and preprocessing in graphs, where those in fp8 with scales of
/// whole tensors may not (QWEN3_30B_A3B_PRETRAIN_CONFIG_H100_BF16_V1 beside _FP8_CS_V1).
std::uint16_t scopes_of_recipe(const Run& run, const Problem& problem) {
  const bool quoted = contains(run.notes, "Recipe ") || contains(run.notes, "graph");
  const bool recipe = contains(run.source, "pretrain_performance") && !quoted && problem.model.moe() &&
                      problem.training.precision == Precision::Bf16;
  return recipe ? kGraphRouter | kGraphPreprocess : 0;
}

/// Megatron-Bridge and NeMo: what their recipes switch on beyond defaults. Weights of fp8 GEMMs are stored in fp8 but
/// with scales of blocks (training/mixed_precision.py); in bf16 the optimizer reads its gradients in place
/// (scripts/performance/utils/overrides.py); DeepSeek's recipes keep moments in bf16 (recipes/deepseek).
void megatron_bridge(const Run& run, Problem& problem) {
  Training& training = problem.training;
  Stack& stack = training.stack;
  const bool newest = quoted_expert_recipe(run, problem);
  if (contains(run.notes, "=full_iteration") || newest) stack.cuda_graphs = true;
  if (contains(run.notes, "moe_a2a_overlap=True") || newest) stack.ep_overlap = true;
  stack.graph_scopes = scopes_of_recipe(run, problem);
  stack.fp8_param_gather = is_fp8(training.precision) && training.precision != Precision::Fp8Blockwise;
  training.offload.layers = static_cast<int>(number_behind(run.notes, "cpu_offloading_num_layers="));
  if (!contains(run.framework, "Bridge")) return;
  const bool latent = std::any_of(problem.model.kinds.begin(), problem.model.kinds.end(),
                                  [](const Layer& layer) { return layer.mixer == Mixer::Latent; });
  training.precision_aware = training.precision == Precision::Bf16 || latent;
  if (latent) training.moment1_bytes = training.moment2_bytes = 2;
}

/// Kwai's fork: norms are modules of their own, whose outputs its recomputation drops with those of the activations;
/// `alpha` of the activations of a stage go to host memory (kwai/Megatron-Kwai, examples/atc24).
void kwai(const Run& run, Problem& problem, const Layout& layout) {
  problem.training.stack.transformer_engine = false;
  problem.training.offload.layers = layers_of_stage(problem, layout, number_behind(run.notes, "alpha="));
}

/// The performance recipes for fine-tuning that NeMo and Megatron-Bridge publish: SQuAD packed into full sequences,
/// adapters of rank 8 beside the attention's input projection alone (finetune_performance_optimizations in
/// nemo/collections/llm/recipes). Other jobs of the same frameworks attend over their whole sequences.
void squad_recipe(const Run& run, Problem& problem) {
  constexpr double kSquad = 200;  // tokens of a sample: 120 words of context, a question of 10, the template
  const bool benchmark =
      contains(run.source, "performance") || contains(run.source, "benchmark") || contains(run.source, "dgxc");
  const std::string words = run.task + " " + run.notes;
  if (benchmark || says(words, "packed") || contains(words, "SQuAD")) problem.training.packed_length = kSquad;
  if (benchmark) problem.training.lora = {.rank = 8, .attention = true, .ffn = false};
}

/// Rank and targets of adapters where a run states them: "LoRA rank 16", "all linears", "attention only".
void stated_adapters(const Run& run, Lora& lora) {
  const std::string words = run.task + " " + run.notes;
  for (const std::string_view key : {"lora rank ", "LoRA rank ", "lora_rank=", "lora_dim=", "rank="})
    if (const std::size_t at = words.find(key); at != std::string::npos) {
      std::int64_t rank = 0;
      std::from_chars(words.data() + at + key.size(), words.data() + words.size(), rank);
      if (rank > 0 && rank <= 4096) {
        lora.rank = rank;
        break;
      }
    }
  if (contains(words, "all linear") || contains(words, "all-linear")) lora.attention = lora.ffn = true;
  if (contains(words, "linear_qkv only") || contains(words, "attention only")) lora.attention = true, lora.ffn = false;
}

/// Pythia's published configurations (EleutherAI/pythia, models/*.yml): `attention-config` flash, in its first version,
/// and `checkpoint-activations`.
void pythia(const Run& run, Problem& problem, Layout& layout) {
  problem.training.stack.flash_attention = true;
  problem.training.stack.attention_kernel = AttentionKernel::Flash1;
  if (run.recompute.empty()) layout.recompute.kind = RecomputeKind::Full;
}

/// Layers that made room for the head: by FLOPs, in which an embedding costs nothing, the last stage gives up as many
/// as shorten the slowest stage, and the others share them, later ones first.
std::vector<int> split_beside_head(const Model& model, std::int64_t seq, int stages) {
  const int layers = model.depth();
  const ModelFlops flops = model_flops(model, static_cast<double>(seq), Mask::Full);
  const double head = layers * flops.head / (flops.total() - flops.head);
  const auto slowest = [&](int last) {
    return std::max(last + head, std::ceil(static_cast<double>(layers - last) / (stages - 1)));
  };
  int last = layers / stages;
  while (last > 0 && slowest(last - 1) < slowest(last)) --last;
  std::vector<int> split(static_cast<std::size_t>(stages), last);
  for (int stage = 0, left = layers - last; stage < stages - 1; ++stage) {
    split[static_cast<std::size_t>(stage)] = left / (stages - 1 - stage);
    left -= split[static_cast<std::size_t>(stage)];
  }
  return split;
}

void framework_facts(const Run& run, Problem& problem, Layout& layout) {
  if (layout.pp > 1)
    layout.chunk_layers =
        contains(run.notes, "method=redis")  // "redistributes" its layers (arXiv:2411.05288)
            ? split_beside_head(problem.model, problem.training.seq, layout.pp * layout.vp)
            : plain_chunks(problem.model.depth(), layout.pp * layout.vp);  // BLOOM's 70 layers on 12 stages
  const bool nemo = contains(run.framework, "Bridge") || contains(run.framework, "NeMo/");
  if (nemo && (run.task == "sft" || run.task == "lora")) squad_recipe(run, problem);
  if (problem.training.adapters()) stated_adapters(run, problem.training.lora);
  if (contains(run.framework, "NeoX") && contains(run.model, "Pythia")) return pythia(run, problem, layout);
  if (contains(run.source, "SimuMax")) return simumax(problem, layout);
  if (contains(run.framework, "utomodel") || contains(run.framework, "utoModel"))
    return automodel(run, problem.training.stack);
  if (contains(run.framework, "Aleph Alpha")) return aleph_alpha(run, problem, layout);
  if (contains(run.framework, "Megatron-DeepSpeed")) return megatron_deepspeed(run, problem);
  if (contains(run.framework, "torchtitan")) return torchtitan(run, problem, layout);
  if (contains(run.framework, "Kwai")) return kwai(run, problem, layout);
  if (contains(run.framework, "Bridge") || contains(run.framework, "NeMo/")) return megatron_bridge(run, problem);
  // Its column-parallel linears reduce their input gradient asynchronously since September 2021, and its weight
  // gradients are summed inside their GEMMs since 2022.
  if (run.framework == "Megatron-LM" && contains(run.source, "2021"))
    problem.training.stack.tp_async_reduce = problem.training.stack.gradient_fusion = false;
  // Megatron-MoE-ModelZoo's sbatch_benchmarking.sh asks for --tp-comm-overlap in bf16 alone.
  if (contains(run.source, "Megatron-MoE-ModelZoo") && problem.training.precision == Precision::Bf16)
    problem.training.stack.tp_overlap = true;
  if (contains(run.framework, "Megatron-LM fork")) return megatron_fork(run, problem);
  if (run.task.starts_with("functional-test") && Flags(run.notes).any()) return megatron_tests(run, problem);
}

}  // namespace

void apply_run_facts(const Run& run, Problem& problem, Layout& layout) {
  framework_facts(run, problem, layout);
  stated_kernels(run, problem.training.stack);
  Stack& stack = problem.training.stack;
  // Whatever drives Megatron Core, it shards weights by its own FSDP (use_megatron_fsdp).
  const bool core = contains(run.framework, "Megatron") || contains(run.framework, "NeMo/");
  if (core && stack.states == StateLayout::Megatron && !run.shard.empty()) stack.states = StateLayout::MegatronFsdp;
  // "ZeRO-2" of stacks with Megatron's layout of states is its distributed optimizer, which sums the gradients of all
  // micro-batches in place (megatron/core/distributed, Llama 3 section 3.3.2).
  if (stack.states == StateLayout::Megatron) stack.reduces_once = true;
  deepspeed_lists(run, stack);
  apply_memory_facts(run, problem);
}

}  // namespace plan
