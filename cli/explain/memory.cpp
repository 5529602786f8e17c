// Terms of a stage's memory. Tested by tests/cli/explain_test.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "cli/explain/parts.hpp"
#include "cli/explain/terms.hpp"
#include "cli/terminal/format.hpp"
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

/// Trained parameters of one layer kind on a rank: its weights, shape by shape.
Explanation layer_parameters(const Plan& plan, const Rank& rank, int kind, bool experts) {
  const Model& model = plan.problem.model;
  const Layer& layer = model.kinds[static_cast<std::size_t>(kind)];
  Layer mixer = layer;
  mixer.ffn = Ffn::None;
  const LinearShapes shapes = linear_shapes(model, layer, plan.best.layout);
  const int first = layer.ffn == Ffn::Moe ? linear_shapes(model, mixer, plan.best.layout).size : shapes.size;
  const LayerMemory& memory = rank.model.layer(kind);
  const double value = experts ? memory.trained_expert : memory.trained_dense;
  ExplainedSum sum;
  double covered = 0;
  for (int i = 0; i < shapes.size && !plan.problem.training.adapters(); ++i) {
    const LinearShape& s = shapes.shapes[static_cast<std::size_t>(i)];
    if ((i >= first && i < first + 2) != experts) continue;
    const std::string n = fmt::format("{}", i + 1);
    sum.give({"r_" + n, s.rows, "rows of a weight on the rank", kModel});
    if (s.count != 1) sum.give({"n_" + n, s.count, "experts of the rank", kLayout});
    sum.add(fmt::format("{}r_{}*", s.count != 1 ? "n_" + n + "*" : "", n),
            {"c_" + n, s.columns, "its columns", "model"});
    covered += s.numel() * s.count;
  }
  const double rest = value - covered;
  if (std::fabs(rest) > 0.5)
    sum.add(
        {"o", rest, plan.problem.training.adapters() ? "weights of the adapters" : "norms, biases, router", "model"});
  Explanation out =
      explained(experts ? "expert parameters of one layer on a rank" : "parameters of one layer on a rank",
                sum.equation, value, "", std::move(sum.symbols), "shapes of the model's weights");
  out.name = fmt::format("p_{}", kind);
  return out;
}

/// Trained parameters of a stage on one rank, layer kinds and ends.
Explanation stage_parameters(const Plan& plan, const Rank& rank, bool experts, double value) {
  ExplainedSum sum;
  for (std::size_t kind = 0; kind < plan.problem.model.kinds.size(); ++kind) {
    const int count = rank.content.layers_of_kind[kind];
    Explanation layer = layer_parameters(plan, rank, static_cast<int>(kind), experts);
    if (count == 0 || layer.value == 0) continue;
    const std::string factor = fmt::format("l_{}", kind);
    sum.give({factor, static_cast<double>(count), "layers of this kind on the stage", kLayout});
    const std::string title = layer.title;
    sum.add(factor + "*", title, std::move(layer));
  }
  const EndMemory& ends = rank.model.ends();
  if (!experts && !plan.problem.training.adapters()) {
    if (rank.content.embedding) sum.add({"E", ends.embedding_parameters, "embedding on the rank", kModel});
    if (rank.content.head) sum.add({"H", ends.head_parameters, "output projection and last norm on the rank", kModel});
    if (rank.content.embedding && rank.content.head)
      sum.add({"x", -ends.shared_parameters, "what a tied head shares", "model"});
  }
  Explanation out =
      explained(experts ? "expert parameters of the stage on a rank" : "parameters of the stage on a rank",
                sum.equation, value, "", std::move(sum.symbols), {}, std::move(sum.parts));
  out.name = experts ? "P_e" : "P";
  return out;
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
  out.parts.push_back(stage_parameters(plan, rank, false, counts.dense));
  double covered = bytes_per_parameter * counts.dense / d;
  if (counts.expert > 0) {
    out.equation = "k*(P/d + P_e/d_e)";
    out.symbols[1].meaning = "parameters on a rank, experts not counted";
    out.symbols.push_back({"P_e", counts.expert, "expert parameters on a rank", kModel});
    out.symbols.push_back({"d_e", d_expert, "ranks that share the experts", kLayout});
    out.parts.push_back(stage_parameters(plan, rank, true, counts.expert));
    covered += bytes_per_parameter * counts.expert / d_expert;
  }
  const double rest = out.value - covered;
  if (std::fabs(rest) > 1) {
    out.equation += " + r";
    out.symbols.push_back({"r", rest, "prediction modules, frozen weights, quantised copies, offload", kModel});
  }
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

/// What selective recomputation drops of a layer kind, or all but its input under full recomputation.
Explanation kept_of_kind(const Plan& plan, const Rank& rank, int kind, const std::string& name) {
  const Recompute& recompute = plan.best.layout.recompute;
  const LayerMemory& layer = rank.model.layer(kind);
  if (recompute.kind == RecomputeKind::None) return explain_ledger(plan, name, kind);
  Explanation all = explain_ledger(plan, "a", kind);
  const bool full = recompute.kind == RecomputeKind::Full;
  const double kept = full ? layer.checkpoint : layer.kept;
  Explanation out =
      explained("bytes that one layer keeps of a micro-batch under recomputation", "a - d", kept, "bytes",
                {{"a", layer.saved, "kept without recomputation", {}},
                 {"d", layer.saved - kept,
                  full ? "dropped: everything but the layer's input" : "dropped: what the chosen modules compute again",
                  "recompute"}},
                {}, {std::move(all)});
  out.name = name;
  return out;
}

/// `kept` as the average of the stage's layer kinds.
Explanation kept_of_layer(const Plan& plan, const Rank& rank, double kept) {
  const Recompute& recompute = plan.best.layout.recompute;
  ExplainedSum sum;
  double covered = 0;
  for (std::size_t kind = 0; kind < plan.problem.model.kinds.size(); ++kind) {
    const int count = rank.content.layers_of_kind[kind];
    if (count == 0) continue;
    const std::string suffix = fmt::format("{}", kind);
    Explanation part = kept_of_kind(plan, rank, static_cast<int>(kind), "k_" + suffix);
    covered += count * part.value / std::max(1, rank.layers);
    sum.give({"l_" + suffix, static_cast<double>(count), "layers of this kind on the stage", kLayout});
    const std::string title = part.title;
    sum.add("l_" + suffix + "*", title, std::move(part));
  }
  std::string equation = fmt::format("({})/l", sum.equation);
  sum.give({"l", static_cast<double>(std::max(1, rank.layers)), "layers of the stage", kLayout});
  if (recompute.uniform > 1 && recompute.kind == RecomputeKind::Full && recompute.layers <= 0) {
    equation = fmt::format("({})/(l*u)", sum.equation);
    sum.give({"u", static_cast<double>(recompute.uniform), "layers from one kept input to the next", "recompute"});
    covered /= recompute.uniform;
  }
  if (std::fabs(kept - covered) > 0.5) {
    equation += " + x";
    sum.give({"x", kept - covered, "of layers that are not recomputed", "recompute"});
  }
  Explanation out = explained("bytes that a layer keeps per micro-batch, average of the stage", equation, kept, "bytes",
                              std::move(sum.symbols), {}, std::move(sum.parts));
  out.name = "k";
  return out;
}

}  // namespace

Result<Explanation> explain_weights(const Plan& plan, int stage) {
  const StateBytes bytes = state_bytes(plan.problem.training, plan.best.layout.zero);
  const bool sharded = state_shares(plan.best.layout.zero, 2, plan.problem.training.stack.states).weights < 1;
  return explain_state(plan, stage, "weights", bytes.weights, sharded, memory_of(plan, stage).weights,
                       "bytes per parameter that the GEMMs read");
}

Result<Explanation> explain_grads(const Plan& plan, int stage) {
  const StateBytes bytes = state_bytes(plan.problem.training, plan.best.layout.zero);
  return explain_state(plan, stage, "gradients", bytes.grads, plan.best.layout.zero >= 2, memory_of(plan, stage).grads,
                       "bytes of gradient per parameter");
}

Result<Explanation> explain_optimizer(const Plan& plan, int stage) {
  const StateBytes bytes = state_bytes(plan.problem.training, plan.best.layout.zero);
  const double each = bytes.master + bytes.moments + bytes.optimizer_grads;
  Explanation out = explain_state(plan, stage, "optimizer states", each, plan.best.layout.zero >= 1,
                                  memory_of(plan, stage).optimizer, "bytes per parameter: fp32 weights and moments");
  constexpr const char* kFrom = "precision and optimizer";
  ExplainedSum sum;
  sum.add({"m", bytes.master, "of the fp32 weights, or the low 16 bits of them", kFrom});
  sum.add({"v", bytes.moments, "of the moments", kFrom});
  sum.add({"g", bytes.optimizer_grads, "of gradients that the optimizer keeps", kFrom});
  if (sum.symbols.empty()) return out;
  out.parts.push_back(
      explained("bytes of optimizer state per parameter", sum.equation, each, "", std::move(sum.symbols)));
  out.parts.back().name = "k";
  return out;
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
  out.parts.push_back(kept_of_layer(plan, rank, kept));
  if (embedding > 0) out.symbols.push_back({"e", embedding, "bytes that the embedding keeps: 8 a token", kModel});
  const double rest = out.value - covered;
  if (std::fabs(rest) > 1) {
    out.equation += " + z";
    out.symbols.push_back({"z", rest, "inputs of head and loss, prediction modules", kModel});
  }
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
  out.symbols = {{"t", static_cast<double>((memory.transient - memory.reserve).value), "alive only at the peak",
                  "plan explain transient.a"},
                 {"r", static_cast<double>(memory.reserve.value), "what the allocator cannot hand out",
                  "plan explain transient.r"},
                 {"n", static_cast<double>(memory.communication.value), "NCCL buffers", "plan explain communication"},
                 {"c", static_cast<double>(memory.context.value), "CUDA context and modules", "GPU preset"}};
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
