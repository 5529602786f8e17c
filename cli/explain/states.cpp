// Model states of a stage: weights, gradients and optimizer states, down to the shapes of the weights. Tested by
// tests/cli/explain_test.cpp and tests/cli/trail_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "cli/explain/parts.hpp"
#include "cli/explain/terms.hpp"
#include "formulas/layer_rows.hpp"
#include "formulas/parameters.hpp"
#include "formulas/states.hpp"

namespace plan {
namespace {

constexpr const char* kLayout = "layout";
constexpr const char* kFrom = "precision and optimizer";

/// Which parameters are asked for.
enum class Which { Dense, Experts, FrozenDense, FrozenExperts, Products, ExpertProducts };
bool of_experts(Which which) {
  return which == Which::Experts || which == Which::FrozenExperts || which == Which::ExpertProducts;
}
bool of_products(Which which) { return which == Which::Products || which == Which::ExpertProducts; }

/// `r_1*c_1` of one weight on the rank; of a vector its elements alone.
void add_weight(ExplainedSum& sum, const Weight& weight, const std::string& n, const Layout& layout) {
  const double rows = weight.rows_on_rank(layout.tp, layout.etp);
  const std::string what = fmt::format("{}{}", weight.what, weight.matrix() ? ": rows on the rank" : "");
  if (!weight.matrix()) return sum.add({"r_" + n, rows, what, kShapeOrigin});
  sum.give({"r_" + n, rows, what, kShapeOrigin});
  sum.add(fmt::format("r_{}*", n),
          {"c_" + n, weight.columns_on_rank(layout.tp, layout.etp), "its columns on the rank", "model"});
}

/// Of adapters: as many parameters as their weight has rows, and columns for each linear of it, `R` times over.
void add_adapter(ExplainedSum& sum, const Weight& weight, const std::string& n, std::int64_t linears) {
  const auto rows = static_cast<double>(weight.out + weight.kv_out);
  sum.give({"r_" + n, rows, fmt::format("{}: rows", weight.what), "model"});
  const std::string columns = linears == 1 ? "" : fmt::format("{}*", linears);
  sum.add(fmt::format("r_{} + {}", n, columns), {"c_" + n, static_cast<double>(weight.in), "its columns", "model"});
}

/// Parameters of one layer kind on a rank: its weights, one by one.
Explanation layer_parameters(const Plan& plan, int kind, Which which, double value) {
  const Layer& layer = plan.problem.model.kinds[static_cast<std::size_t>(kind)];
  const Layout& layout = plan.best.layout;
  const Training& training = plan.problem.training;
  const bool adapters = training.adapters() && (which == Which::Dense || which == Which::Experts);
  ExplainedSum sum;
  int number = 0;
  for (const Weight& weight : layer_weights(plan.problem.model, layer)) {
    if (weight.expert() != of_experts(which) || (of_products(which) && !(weight.matrix() && weight.linear))) continue;
    if (adapters && adapter_size(weight, training) == 0) continue;
    const std::string n = fmt::format("{}", ++number);
    if (adapters)
      add_adapter(sum, weight, n, linears_of(weight, training.stack));
    else
      add_weight(sum, weight, n, layout);
  }
  std::string equation = sum.equation;
  if (adapters) {
    const int split = of_experts(which) ? layout.etp : layout.tp;
    equation = fmt::format("R*({})/t", equation);
    sum.give({"R", static_cast<double>(training.lora.rank), "rank of the adapters", "model"});
    sum.give({"t", static_cast<double>(split), "ranks that share an adapter", kLayout});
  }
  if (of_experts(which)) {
    equation = fmt::format("n*({})", equation);
    sum.give({"n", static_cast<double>(layer.moe.experts) / layout.ep, "experts of the rank", kLayout});
  }
  return explained(of_experts(which) ? "expert parameters of one layer on a rank" : "parameters of one layer on a rank",
                   std::move(equation), value, "", std::move(sum.symbols), "shapes of the model's weights");
}

/// The planner's own count of them, for one layer kind.
double counted(const LayerMemory& layer, Which which) {
  switch (which) {
    case Which::Dense: return layer.trained_dense;
    case Which::Experts: return layer.trained_expert;
    case Which::FrozenDense: return layer.dense_parameters - layer.trained_dense;
    case Which::FrozenExperts: return layer.expert_parameters - layer.trained_expert;
    case Which::Products: return layer.quantised_parameters - layer.expert_quantised_parameters;
    case Which::ExpertProducts: return layer.expert_quantised_parameters;
  }
  return 0;
}

/// Embedding, head and what joins the inputs of prediction modules; tied weights once.
void add_ends(ExplainedSum& sum, const Plan& plan, const StageRank& rank) {
  const EndMemory& ends = rank.model.ends();
  const bool spread = plan.problem.training.stack.vocab_barriers > 0;
  const bool embedding = spread || rank.content.embedding, head = spread || rank.content.head;
  const bool second = head && rank.content.mtp > 0;
  if (rank.content.mtp > 0) {
    sum.give({"D", static_cast<double>(rank.content.mtp), "prediction modules of the stage", "model"});
    sum.add("D*", {"M", ends.mtp_parameters, "projection and norms of one", kShapeOrigin});
  }
  if (embedding || second) sum.add({"E", ends.embedding_parameters, "embedding on the rank", kShapeOrigin});
  if (head) sum.add({"H", ends.head_parameters, "output projection and last norm on the rank", kShapeOrigin});
  if (head && (embedding || second) && ends.shared_parameters > 0) {
    sum.equation += " - S";
    sum.give({"S", ends.shared_parameters, "of them, what the tied embedding holds already", kShapeOrigin});
  }
}

/// Parameters of the stage on one rank, layer kinds and, where `ends`, embedding and head.
Explanation stage_parameters(const Plan& plan, const StageRank& rank, const char* name, Which which, bool ends) {
  ExplainedSum sum;
  double value = ends ? rank.sums.ends : 0;
  for (std::size_t kind = 0; kind < plan.problem.model.kinds.size(); ++kind) {
    const double count = layers_held(plan.problem.model, rank.content, static_cast<int>(kind));
    const double each = counted(rank.model.layer(static_cast<int>(kind)), which);
    if (count == 0 || each == 0) continue;
    value += count * each;
    Explanation layer = layer_parameters(plan, static_cast<int>(kind), which, each);
    layer.name = fmt::format("p_{}", kind);
    const std::string factor = fmt::format("l_{}", kind);
    sum.give({factor, count, "layers of this kind on the stage", kLayout});
    const std::string title = layer.title;
    sum.add(factor + "*", title, std::move(layer));
  }
  if (ends) add_ends(sum, plan, rank);
  Explanation out = explained(
      of_experts(which) ? "expert parameters of the stage on one rank" : "parameters of the stage on one rank",
      sum.equation, value, "", std::move(sum.symbols), {}, std::move(sum.parts));
  out.name = name;
  return out;
}

/// One sum `k*(P/d + P_e/d_e)`: bytes a parameter, over the ranks that share dense and expert parameters.
class StateSum {
 public:
  StateSum(const Plan& plan, const StageRank& rank, bool sharded) : plan_(plan), rank_(rank), sharded_(sharded) {
    const Layout& layout = plan.best.layout;
    const double shard = layout.shard_group();
    d_ = sharded ? shard : 1;
    d_expert_ = sharded ? std::max(1.0, layout.expert_dp() * shard / layout.dense_group()) : 1;
  }

  /// `letters` name the dense and the expert parameters; a term of no bytes or no parameters is left out.
  void add(ExplainedSymbol bytes, const char* letter, Which dense, const char* expert_letter, Which expert, bool ends) {
    if (bytes.value == 0) return;
    Explanation whole = stage_parameters(plan_, rank_, letter, dense, ends);
    Explanation experts = stage_parameters(plan_, rank_, expert_letter, expert, false);
    std::string inside;
    share(inside, std::move(whole), {"d", d_, meaning("ranks that share them"), kLayout});
    share(inside, std::move(experts), {"d_e", d_expert_, meaning("ranks that share the experts"), kLayout});
    if (inside.empty()) return;
    if (inside.find('+') != std::string::npos) inside = "(" + inside + ")";
    equation_ += fmt::format("{}{}*{}", equation_.empty() ? "" : " + ", bytes.name, inside);
    give(std::move(bytes));
  }
  /// Of embedding and head alone.
  void add_ends(ExplainedSymbol bytes) {
    if (bytes.value == 0 || rank_.sums.ends == 0) return;
    ExplainedSum sum;
    plan::add_ends(sum, plan_, rank_);
    Explanation part = explained("parameters of embedding and head on one rank", sum.equation, rank_.sums.ends, "",
                                 std::move(sum.symbols), {}, std::move(sum.parts));
    part.name = "X";
    std::string inside;
    share(inside, std::move(part), {"d", d_, meaning("ranks that share them"), kLayout});
    equation_ += fmt::format("{}{}*{}", equation_.empty() ? "" : " + ", bytes.name, inside);
    give(std::move(bytes));
  }
  void times(const std::string& factor, ExplainedSymbol symbol) {
    equation_ = fmt::format("{}*({})", factor, equation_);
    give(std::move(symbol));
  }
  Explanation finished(const char* what, int stage, Bytes reported) {
    return explained(fmt::format("{} of stage {}", what, stage), equation_.empty() ? "0" : equation_,
                     static_cast<double>(reported.value), "bytes", std::move(symbols_),
                     "Rajbhandari et al. 2020, arXiv:1910.02054; Megatron-LM dist_optimizer", std::move(parts_));
  }
  void part(Explanation e) { parts_.push_back(std::move(e)); }

 private:
  std::string meaning(const char* what) const { return fmt::format("{}{}", what, sharded_ ? "" : " (not sharded)"); }
  void give(ExplainedSymbol symbol) {
    const auto same = [&](const ExplainedSymbol& known) { return known.name == symbol.name; };
    if (std::none_of(symbols_.begin(), symbols_.end(), same)) symbols_.push_back(std::move(symbol));
  }
  void share(std::string& inside, Explanation parameters, ExplainedSymbol ranks) {
    if (parameters.value == 0) return;
    inside += fmt::format("{}{}/{}", inside.empty() ? "" : " + ", parameters.name, ranks.name);
    give({parameters.name, parameters.value, parameters.title, {}});
    give(std::move(ranks));
    parts_.push_back(std::move(parameters));
  }

  const Plan& plan_;
  const StageRank& rank_;
  bool sharded_;
  double d_ = 1, d_expert_ = 1;
  std::string equation_{};
  std::vector<ExplainedSymbol> symbols_{};
  std::vector<Explanation> parts_{};
};

/// Weights and gradients that wait in host memory leave nothing on the GPU.
bool away(const Plan& plan) { return plan.problem.training.offload.parameters && plan.best.layout.zero >= 2; }

Error nothing(const char* what, int stage) {
  return {"nothing_to_explain", fmt::format("stage {} holds no {}", stage, what)};
}

/// Frozen weights lie beside the adapters that are trained.
void add_frozen(StateSum& sum, const Plan& plan) {
  const Training& training = plan.problem.training;
  sum.add({"b", frozen_weight_bytes(training).value, "bytes of a frozen weight", "precision"}, "B", Which::FrozenDense,
          "B_e", Which::FrozenExperts, false);
  sum.add_ends({"x", 2, "bytes of a parameter of embedding and head", "precision"});
}

}  // namespace

Explanation explain_trained(const Plan& plan, const StageRank& rank, const char* name, bool experts) {
  return stage_parameters(plan, rank, name, experts ? Which::Experts : Which::Dense,
                          !experts && !plan.problem.training.adapters());
}

Result<Explanation> explain_weights(const Plan& plan, int stage) {
  const Bytes reported = plan.best.stages[static_cast<std::size_t>(stage)].weights;
  if (reported.value == 0) return fail(nothing("weights", stage));
  const Training& training = plan.problem.training;
  const StageRank rank = stage_rank(plan, stage);
  const StateShares shares = state_shares(plan.best.layout.zero, 2, training.stack.states);
  StateSum sum(plan, rank, shares.weights < 1);
  const double bytes = state_bytes(training, plan.best.layout.zero).weights.value;
  if (!away(plan)) {
    sum.add({"k", bytes, "bytes per parameter that the GEMMs read", kFrom}, "P", Which::Dense, "P_e", Which::Experts,
            !training.adapters());
    if (training.adapters()) add_frozen(sum, plan);
  }
  sum.add({"q", rank.model.quantised_bytes(plan.best.layout).value,
           "bytes of quantised copies of a GEMM's weight, beyond the 16-bit weight that they replace", "precision"},
          "Q", Which::Products, "Q_e", Which::ExpertProducts, false);
  return sum.finished("weights", stage, reported);
}

Result<Explanation> explain_grads(const Plan& plan, int stage) {
  const Bytes reported = plan.best.stages[static_cast<std::size_t>(stage)].grads;
  if (reported.value == 0) return fail(nothing("gradients", stage));
  const StageRank rank = stage_rank(plan, stage);
  StateSum sum(plan, rank, plan.best.layout.zero >= 2);
  sum.add({"k", state_bytes(plan.problem.training, plan.best.layout.zero).grads.value,
           "bytes of gradient per parameter", kFrom},
          "P", Which::Dense, "P_e", Which::Experts, !plan.problem.training.adapters());
  return sum.finished("gradients", stage, reported);
}

Result<Explanation> explain_optimizer(const Plan& plan, int stage) {
  const Bytes reported = plan.best.stages[static_cast<std::size_t>(stage)].optimizer;
  if (reported.value == 0) return fail(nothing("optimizer states", stage));
  const Training& training = plan.problem.training;
  const Layout& layout = plan.best.layout;
  const StateBytes bytes = state_bytes(training, layout.zero);
  const bool same_bytes = bytes.ends == bytes.moments || training.adapters();
  const StageRank rank = stage_rank(plan, stage);
  StateSum sum(plan, rank, layout.zero >= 1);
  ExplainedSum each;
  each.add({"m", bytes.master.value, "of the fp32 weights, or the low 16 bits of them", kFrom});
  each.add({"v", bytes.moments.value, "of the moments", kFrom});
  each.add({"g", bytes.optimizer_grads.value, "of gradients that the optimizer keeps", kFrom});
  Explanation k = explained("bytes of optimizer state per parameter", each.equation,
                            (bytes.master + bytes.moments + bytes.optimizer_grads).value, "", std::move(each.symbols));
  k.name = "k";
  sum.add({"k", k.value, k.title, kFrom}, "P", Which::Dense, "P_e", Which::Experts, same_bytes && !training.adapters());
  if (k.value > 0) sum.part(std::move(k));
  if (!same_bytes)
    sum.add_ends({"k_x", (bytes.master + bytes.ends + bytes.optimizer_grads).value,
                  "bytes of optimizer state per parameter of embedding and head", kFrom});
  if (training.offload.optimizer > 0)
    sum.times("(1 - o)", {"o", training.offload.optimizer, "share of the states in host memory", kFrom});
  if (both_ways(layout.schedule) && layout.zero > 0)
    sum.times("y", {"y", stages_met(layout.schedule), "a stage's states are sharded over the ranks of both directions",
                    "schedule"});
  return sum.finished("optimizer states", stage, reported);
}

}  // namespace plan
