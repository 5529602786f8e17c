// Terms of a stage's memory. Tested by tests/cli/explain_test.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "cli/explain/parts.hpp"
#include "cli/explain/terms.hpp"
#include "cli/terminal/format.hpp"
#include "formulas/states.hpp"
#include "planner/cost.hpp"

namespace plan {
namespace {

constexpr const char* kLayout = "layout";
constexpr const char* kModel = "model and layout";

const StageMemory& memory_of(const Plan& plan, int stage) { return plan.best.stages[static_cast<std::size_t>(stage)]; }

/// Trained parameters of a stage on one rank: dense with the ends, and experts.
struct Counts {
  double dense = 0, expert = 0;
};

Counts trained(const Plan& plan, const StageRank& rank) {
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
Explanation layer_parameters(const Plan& plan, const StageRank& rank, int kind, bool experts) {
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
Explanation stage_parameters(const Plan& plan, const StageRank& rank, bool experts, double value) {
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
  const StageRank rank = stage_rank(plan, stage);
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
