// Terms of a stage's memory. Tested by tests/cli/explain_test.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/explain_terms.hpp"
#include "cli/report/format.hpp"
#include "formulas/activation.hpp"
#include "formulas/states.hpp"
#include "planner/cost.hpp"
#include "planner/evaluate.hpp"
#include "planner/memory.hpp"
#include "planner/stages.hpp"

namespace plan {
namespace {

constexpr const char* kLayout = "layout";
constexpr const char* kModel = "model and layout";

/// A stage as the memory model sees it.
struct Rank {
  MemoryModel model;
  StageContent content;
  int layers = 0;
};

Rank rank_of(const Plan& plan, int stage) {
  const Layout& layout = plan.best.layout;
  const CostModel costs(plan.problem, split_of(layout));
  const Stages stages = plan_stages(plan.problem, costs, layout);
  const auto content = static_cast<std::size_t>(stages.content_of[static_cast<std::size_t>(stage)]);
  return {MemoryModel(plan.problem, layout), stages.contents[content],
          stages.stage_layers[static_cast<std::size_t>(stage)]};
}

const StageMemory& memory_of(const Plan& plan, int stage) { return plan.best.stages[static_cast<std::size_t>(stage)]; }

/// Trained parameters of a stage on one rank: dense with the ends, and experts.
struct Counts {
  double dense = 0, expert = 0;
};

Counts trained(const Plan& plan, const Rank& rank) {
  Counts counts;
  for (std::size_t kind = 0; kind < plan.problem.model.kinds.size(); ++kind) {
    const LayerMemory& layer = rank.model.layer(static_cast<int>(kind));
    counts.dense += rank.content.layers_of_kind[kind] * layer.trained_dense;
    counts.expert += rank.content.layers_of_kind[kind] * layer.trained_expert;
  }
  if (plan.problem.training.adapters()) return counts;
  const EndMemory& ends = rank.model.ends();
  if (rank.content.embedding) counts.dense += ends.embedding_parameters;
  if (rank.content.head) counts.dense += ends.head_parameters;
  if (rank.content.embedding && rank.content.head) counts.dense -= ends.shared_parameters;
  return counts;
}

/// `bytes*(P/d + P_e/d_e)` for one state, and the rest that the plain form does not cover.
Explanation explain_state(const Plan& plan, int stage, const char* what, double bytes_per_parameter, bool sharded,
                          Bytes reported, const char* bytes_meaning) {
  const Layout& layout = plan.best.layout;
  const Rank rank = rank_of(plan, stage);
  const Counts counts = trained(plan, rank);
  const double d = sharded ? layout.shard_group() : 1;
  const double d_expert =
      sharded ? std::max(1.0, layout.expert_dp() * static_cast<double>(layout.shard_group()) / layout.dense_group())
              : 1;
  Explanation out{.name = {},
                  .title = fmt::format("{} of stage {}", what, stage),
                  .equation = "k*P/d",
                  .value = static_cast<double>(reported.value),
                  .unit = "bytes",
                  .source = "Rajbhandari et al. 2020, arXiv:1910.02054; Megatron-LM dist_optimizer"};
  out.symbols = {
      {"k", bytes_per_parameter, bytes_meaning, fmt::format("{} optimizer", layout.zero > 0 ? "sharded" : "whole")},
      {"P", counts.dense, "parameters on a rank", kModel},
      {"d", d, sharded ? "ranks that share them" : "ranks that share them (not sharded)", kLayout}};
  out.symbols[0].origin = "precision and optimizer";
  double covered = bytes_per_parameter * counts.dense / d;
  if (counts.expert > 0) {
    out.equation = "k*(P/d + P_e/d_e)";
    out.symbols[1].meaning = "parameters on a rank, experts not counted";
    out.symbols.push_back({"P_e", counts.expert, "expert parameters on a rank", kModel});
    out.symbols.push_back({"d_e", d_expert, "ranks that share the experts", kLayout});
    covered += bytes_per_parameter * counts.expert / d_expert;
  }
  const double rest = out.value - covered;
  if (std::fabs(rest) > 1) {
    out.equation += " + r";
    out.symbols.push_back({"r", rest, "prediction modules, frozen weights, quantised copies, offload", kModel});
  }
  return out;
}

/// What one layer keeps, largest first: "ffn 416 MiB, ...".
std::string ledger_text(const Plan& plan, const Layer& layer) {
  const LayerLedger ledger = layer_ledger(plan.problem.model, layer, plan.problem.training, plan.best.layout);
  struct Part {
    const char* name;
    double bytes;
  };
  std::vector<Part> parts = {{"mixer input", ledger.mixer_input},
                             {"its norm", ledger.mixer_norm},
                             {"mixer", ledger.mixer},
                             {"latent up-projections", ledger.latent_up},
                             {"attention core", ledger.core},
                             {"FFN input", ledger.ffn_input},
                             {"its norm", ledger.ffn_norm},
                             {"dense FFN", ledger.mlp},
                             {"router", ledger.router},
                             {"experts", ledger.routed + ledger.routed_activation},
                             {"expert outputs", ledger.routed_output},
                             {"shared experts", ledger.shared},
                             {"statistics", ledger.statistics},
                             {"dropout masks", ledger.masks}};
  std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.bytes > b.bytes; });
  std::string out;
  for (const Part& part : parts)
    if (part.bytes > 0)
      out += fmt::format("{}{} {}", out.empty() ? "" : ", ", part.name, memory_text(round_bytes(part.bytes)));
  return out;
}

/// Average bytes that a layer of the stage keeps per micro-batch.
double kept_per_layer(const Plan& plan, const Rank& rank) {
  const Recompute& recompute = plan.best.layout.recompute;
  double kept = 0, checkpoint = 0, saved = 0;
  for (std::size_t kind = 0; kind < plan.problem.model.kinds.size(); ++kind) {
    const LayerMemory& layer = rank.model.layer(static_cast<int>(kind));
    const int count = rank.content.layers_of_kind[kind];
    kept += count * layer.kept, checkpoint += count * layer.checkpoint, saved += count * layer.saved;
  }
  const double layers = std::max(1, rank.layers);
  if (recompute.kind != RecomputeKind::Full) return kept / layers;
  if (recompute.layers > 0) {  // the first of every chunk
    const double share = recomputed_layers(recompute, plan.best.layout.vp, rank.layers) / layers;
    return (share * checkpoint + (1 - share) * saved) / layers;
  }
  return checkpoint / std::max(1, recompute.uniform) / layers;
}

}  // namespace

Result<Explanation> explain_weights(const Plan& plan, int stage) {
  const StateBytes bytes = state_bytes(plan.problem.training, plan.best.layout.zero);
  return explain_state(plan, stage, "weights", bytes.weights, plan.best.layout.zero >= 3,
                       memory_of(plan, stage).weights, "bytes per parameter that the GEMMs read");
}

Result<Explanation> explain_grads(const Plan& plan, int stage) {
  const StateBytes bytes = state_bytes(plan.problem.training, plan.best.layout.zero);
  return explain_state(plan, stage, "gradients", bytes.grads, plan.best.layout.zero >= 2, memory_of(plan, stage).grads,
                       "bytes of gradient per parameter");
}

Result<Explanation> explain_optimizer(const Plan& plan, int stage) {
  const StateBytes bytes = state_bytes(plan.problem.training, plan.best.layout.zero);
  return explain_state(plan, stage, "optimizer states", bytes.master + bytes.moments + bytes.optimizer_grads,
                       plan.best.layout.zero >= 1, memory_of(plan, stage).optimizer,
                       "bytes per parameter: fp32 weights and moments");
}

Result<Explanation> explain_activations(const Plan& plan, int stage) {
  const StageMemory& memory = memory_of(plan, stage);
  if (memory.activations.value == 0)
    return fail({"nothing_to_explain", fmt::format("stage {} peaks at a moment when it holds no activations", stage)});
  const Layout& layout = plan.best.layout;
  const Rank rank = rank_of(plan, stage);
  const double in_flight = held(
      {.schedule = layout.schedule, .pp = layout.pp, .vp = layout.vp, .micro_batches = plan.best.micro_batches}, stage);
  const double kept = kept_per_layer(plan, rank);
  const double embedding = rank.content.embedding ? rank.model.ends().embedding_saved : 0;
  const double covered = in_flight * (rank.layers * kept + embedding);
  Explanation out{.name = {},
                  .title = fmt::format("activations that stage {} holds at its peak", stage),
                  .equation = embedding > 0 ? "held*(l*k + e)" : "held*l*k",
                  .value = static_cast<double>(memory.activations.value),
                  .unit = "bytes",
                  .source =
                      "k: Korthikanti et al. 2022, arXiv:2205.05198, and the tensors that TransformerEngine saves; "
                      "held: the pipeline schedule"};
  out.symbols = {{"held", in_flight, "micro-batches held at once", "schedule"},
                 {"l", static_cast<double>(rank.layers), "layers of the stage", kLayout},
                 {"k", kept, "bytes that a layer keeps per micro-batch", kModel}};
  if (embedding > 0) out.symbols.push_back({"e", embedding, "bytes that the embedding keeps", kModel});
  const double rest = out.value - covered;
  if (std::fabs(rest) > 1) {
    out.equation += " + z";
    out.symbols.push_back({"z", rest, "head, loss and prediction modules", kModel});
  }
  std::size_t most = 0;
  for (std::size_t kind = 0; kind < plan.problem.model.kinds.size(); ++kind)
    if (rank.content.layers_of_kind[kind] > rank.content.layers_of_kind[most]) most = kind;
  out.notes.push_back(
      fmt::format("a layer without recompute keeps: {}", ledger_text(plan, plan.problem.model.kinds[most])));
  return out;
}

Result<Explanation> explain_other(const Plan& plan, int stage) {
  const StageMemory& memory = memory_of(plan, stage);
  Explanation out{.name = {},
                  .title = fmt::format("transients, buffers and context of stage {}", stage),
                  .equation = "t + r + n + c",
                  .value = static_cast<double>((memory.transient + memory.communication + memory.context).value),
                  .unit = "bytes",
                  .source = "TransformerEngine, Megatron-LM and NCCL sources; measured peaks"};
  out.symbols = {
      {"t", static_cast<double>((memory.transient - memory.reserve).value), "alive only at the peak", "memory model"},
      {"r", static_cast<double>(memory.reserve.value), "what the allocator cannot hand out", "memory model"},
      {"n", static_cast<double>(memory.communication.value), "NCCL buffers", "layout"},
      {"c", static_cast<double>(memory.context.value), "CUDA context and modules", "cluster"}};
  return out;
}

Result<Explanation> explain_memory(const Plan& plan, int stage) {
  const StageMemory& memory = memory_of(plan, stage);
  const auto value = [](Bytes bytes) { return static_cast<double>(bytes.value); };
  Explanation out{.name = {},
                  .title = fmt::format("peak memory of stage {}", stage),
                  .equation = "W + G + O + A + x",
                  .value = value(memory.total()),
                  .unit = "bytes",
                  .source = {}};
  out.symbols = {
      {"W", value(memory.weights), "weights", "plan explain weights"},
      {"G", value(memory.grads), "gradients", "plan explain grads"},
      {"O", value(memory.optimizer), "optimizer states", "plan explain optimizer"},
      {"A", value(memory.activations), "activations", "plan explain activations"},
      {"x", value(memory.transient + memory.communication + memory.context), "all other", "plan explain other"}};
  if (stage == plan.best.peak_stage && !plan.best.peak_instant.empty())
    out.notes.push_back(fmt::format("the peak is reached at: {}", plan.best.peak_instant));
  return out;
}

}  // namespace plan
