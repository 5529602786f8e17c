// What the software of published runs does, and what the runs say of their own. Tested by
// tests/planner/run_stack_test.cpp.
#include "planner/runs/run_stack.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "formulas/bf16_layers.hpp"
#include "formulas/flops.hpp"
#include "formulas/names.hpp"
#include "formulas/partition.hpp"
#include "planner/runs/run_dates.hpp"
#include "planner/runs/run_flags.hpp"

namespace plan {
namespace {

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

/// Parts of a layer that `cuda_graph_scope=` names, alone or as a list of quoted words, or that a text says.
std::uint16_t stated_scopes(std::string_view notes) {
  constexpr std::string_view kKey = "cuda_graph_scope=";
  // Megatron core's examples/moe_recipes have attention in graphs wherever they have both.
  if (contains(notes, "router/preprocess CUDA graphs")) return kGraphAttention | kGraphRouter | kGraphPreprocess;
  const std::size_t at = notes.find(kKey);
  if (at == std::string_view::npos) return 0;
  const std::string_view rest = notes.substr(at + kKey.size());
  const std::string_view words = rest.substr(0, rest.find_first_of(rest.starts_with('[') ? "]" : " ,.;"));
  std::uint16_t scopes = 0;
  for (const Named<GraphScope>& row : kGraphScopeNames)
    if (has_word(words, row.name)) scopes = static_cast<std::uint16_t>(scopes | row.value);
  return scopes;
}

/// Kernels and parts of a step that a row names for itself, whatever its software's habit.
void stated_kernels(const Run& run, Stack& stack) {
  if (const std::uint16_t scopes = stated_scopes(run.notes); scopes != 0) stack.graph_scopes = scopes;
  if (const std::string_view norm = run.fact("norm"); !norm.empty()) stack.fused_norms = norm == "fused";
  // Recipes that ask for either ask for the fused router, too: Megatron core's examples/moe_recipes,
  // Megatron-MoE-ModelZoo's.
  if (contains(run.notes, "DeepEP") || contains(run.notes, "HybridEP"))
    stack.dedup_dispatch = stack.fused_router = true;
  if (const std::string_view softmax = run.fact("softmax"); !softmax.empty()) stack.fused_softmax = softmax == "fused";
  if (contains(run.notes, "=full_iteration")) stack.cuda_graphs = true;
  if (contains(run.notes, "moe_a2a_overlap=True")) stack.ep_overlap = true;
}

/// A number behind "name=" in free text.
double number_behind(std::string_view text, std::string_view name) {
  const std::size_t at = name.empty() ? std::string_view::npos : text.find(std::string(name) + "=");
  double value = 0;
  if (at != std::string_view::npos) {
    const std::string_view digits = text.substr(at + name.size() + 1);
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
  }
  return value;
}

/// Layers of a stage, of which a share is meant.
int layers_of_stage(const Problem& problem, const Layout& layout, double share) {
  return static_cast<int>(std::lround(share * problem.model.depth() / layout.pp));
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

/// Layers that made room for the head: by FLOPs, in which an embedding costs nothing, the last stage gives up as many
/// as shorten the slowest stage, and the others share them, later ones first.
std::vector<int> split_beside_head(const Model& model, std::int64_t seq, int stages) {
  const int layers = model.depth();
  const ModelFlops flops = model_flops(model, static_cast<double>(seq), Mask::Full);
  const double head = (layers * flops.head) / (flops.total() - flops.head);
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

/// "Redistributes" is the word of arXiv:2411.05288; otherwise as BLOOM's 70 layers lie on 12 stages.
void split_layers(const Run& run, const Problem& problem, Layout& layout) {
  if (layout.pp == 1) return;
  layout.chunk_layers = contains(run.notes, "method=redis")
                            ? split_beside_head(problem.model, problem.training.seq, layout.pp * layout.vp)
                            : plain_chunks(problem.model.depth(), layout.pp * layout.vp);
}

/// Layers of a stage in host memory, by the words that the software has for them.
void stated_offload(const Run& run, const RunJob& job, const Problem& problem, const Layout& layout, Offload& offload) {
  if (!job.offloaded_layers.empty()) offload.layers = static_cast<int>(number_behind(run.notes, job.offloaded_layers));
  if (!job.offloaded_share.empty())
    offload.layers = layers_of_stage(problem, layout, number_behind(run.notes, job.offloaded_share));
  // MaxText: queries, keys and values wait in host memory, and what follows from them is rebuilt up to the FFN's norm.
  if (run.recompute == "custom:qkv_proj_offloaded")
    offload.modules = kOffloadCoreAttention | kOffloadAttentionProjection | kOffloadMlpNorm;
}

RunSigns signs_of(const Run& run, const Model& model, Precision precision, int version) {
  RunSigns signs;
  signs.month = software_month(run);
  signs.version = version;
  signs.precision = precision;
  signs.recomputes = !run.recompute.empty() && run.recompute != "none";
  signs.pipelined = run.pp.value_or(1) > 1;
  signs.shards = !run.shard.empty();
  signs.experts = model.moe();
  signs.latent = std::any_of(model.kinds.begin(), model.kinds.end(),
                             [](const Layer& layer) { return layer.mixer == Mixer::Latent; });
  signs.model = model.name;
  signs.task = run.task;
  signs.words = run.task + " " + run.notes;
  return signs;
}

Error unknown_framework(const std::string& cell) {
  const std::string near = names_like(cell);
  return {"unknown_framework",
          fmt::format("framework `{}` is none that plan knows{}", cell.substr(0, 60),
                      near.empty() ? "" : fmt::format("; it knows {}", near)),
          {},
          {"write one of the names in presets/stacks, or none where it does not matter"}};
}

}  // namespace

Result<RunDefaults> defaults_of(const Run& run, const Model& model, Precision precision) {
  const NamedSoftware named = named_software(run.framework);
  if (named.software == nullptr) return fail(unknown_framework(run.framework));
  const RunSigns signs = signs_of(run, model, precision, named.version);
  RunDefaults defaults = run_defaults(*named.software, signs);
  defaults.loosely = named.loosely;
  for (std::string_view rest = run.fact("stack"); !rest.empty();) {
    const std::string_view key = rest.substr(0, rest.find('+'));
    const RunSoftware* over = software_of_key(key);
    if (over == nullptr || !over->over)
      return fail(Error{"unknown_stack",
                        fmt::format("`stack={}`: no file of presets/stacks of that name can be laid over another", key),
                        {},
                        {"leave it out, or see plan-runs(5)"}});
    over->runs(signs, defaults);
    rest.remove_prefix(std::min(rest.size(), key.size() + 1));
  }
  return defaults;
}

void apply_defaults(const RunDefaults& defaults, const Run& run, Problem& problem) {
  const RunJob& job = defaults.job;
  Training& training = problem.training;
  training.stack = defaults.stack;
  training.stack.graph_scopes = job.graph_scopes;
  if (run.precision.empty() && job.precision) training.precision = *job.precision;
  if (run.precision == "fp8" && job.delayed_scaling) training.precision = Precision::Fp8Delayed;
  if (job.bf16_tail > 0 && is_narrow(training.precision)) {
    training.bf16_layers.last = static_cast<int>(std::ceil(job.bf16_tail * problem.model.depth()));
    problem.model = with_bf16_layers(std::move(problem.model), training.bf16_layers);
  }
  training.grad_bytes = training.precision == Precision::Fp16 ? 2 : job.grad_bytes;
  training.precision_aware = job.precision_aware;
  if (job.moment_bytes > 0) training.moment1_bytes = training.moment2_bytes = job.moment_bytes;
  training.dropout = job.dropout;
  training.packed_length = job.packed_length;
  if (job.lora_rank > 0) training.lora.rank = job.lora_rank;
  training.lora.ffn = job.lora_ffn;
  if (job.untied) problem.model.tied = false;
  problem.model.vocab += job.extra_vocab;
  problem.cluster.gpu.context = std::max(problem.cluster.gpu.context, job.context);
}

void apply_statements(const Run& run, const RunJob& job, Problem& problem, Layout& layout) {
  Training& training = problem.training;
  Stack& stack = training.stack;
  split_layers(run, problem, layout);
  if (training.adapters()) stated_adapters(run, training.lora);
  stated_offload(run, job, problem, layout, training.offload);
  if (job.megatron_flags && quotes_flags(run)) apply_flags(run, problem);
  stated_kernels(run, stack);
  // "ZeRO-2" of stacks with Megatron's layout of states is its distributed optimizer, which sums the gradients of all
  // micro-batches in place (megatron/core/distributed, Llama 3 section 3.3.2).
  if (stack.states == StateLayout::Megatron) stack.reduces_once = true;
  if (contains(run.notes, "bf16 gradient accumulation")) training.grad_bytes = 2;
}

}  // namespace plan
