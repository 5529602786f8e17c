// Activations that a stage holds when it peaks: layers, ends, and how many micro-batches of each. Tested by
// tests/cli/explain_test.cpp and tests/cli/trail_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "cli/explain/parts.hpp"
#include "cli/explain/terms.hpp"

namespace plan {
namespace {

constexpr const char* kLayout = "layout";

/// `l_0*k_0 + l_1*k_1`: bytes that all layers of the stage keep. `letter` names the layers' bytes.
ExplainedSum all_layers(const Plan& plan, const StageRank& rank, const char* letter, bool whole) {
  ExplainedSum sum;
  for (std::size_t kind = 0; kind < plan.problem.model.kinds.size(); ++kind) {
    const int count = layers_run(plan.problem.model, rank.content, static_cast<int>(kind));
    if (count == 0) continue;
    Explanation part =
        explain_ledger(plan, rank.model, fmt::format("{}_{}", letter, kind), static_cast<int>(kind), whole);
    sum.give({fmt::format("l_{}", kind), static_cast<double>(count), "layers of this kind on the stage", kLayout});
    const std::string title = part.title;
    sum.add(fmt::format("l_{}*", kind), title, std::move(part));
  }
  return sum;
}

void append(ExplainedSum& to, ExplainedSum from) {
  for (ExplainedSymbol& symbol : from.symbols) {
    const auto same = [&](const ExplainedSymbol& known) { return known.name == symbol.name; };
    if (std::none_of(to.symbols.begin(), to.symbols.end(), same)) to.symbols.push_back(std::move(symbol));
  }
  for (Explanation& part : from.parts) to.parts.push_back(std::move(part));
}

/// Bytes of a layer as the average of the stage. Recomputation of the first layers of a stage leaves the others whole.
Explanation kept_of_layer(const Plan& plan, const StageRank& rank) {
  const Recompute& recompute = plan.best.layout.recompute;
  const double layers = rank.sums.layers;
  const bool full = recompute.kind == RecomputeKind::Full;
  const double again = full ? recomputed_layers(recompute, plan.best.layout.vp, rank.sums.layers) : layers;
  ExplainedSum sum = all_layers(plan, rank, "k", false);
  sum.give({"l", layers, "layers of the stage", kLayout});
  std::string equation = fmt::format("({})/l", sum.equation);
  double value = (full ? rank.sums.checkpoint : rank.sums.kept).value / layers;
  if (full && recompute.uniform > 1) {
    const int inputs = inputs_kept(recompute, plan.best.layout.vp, rank.sums.layers);
    equation = fmt::format("({})/l*i/l", sum.equation);
    sum.give({"i", static_cast<double>(inputs),
              fmt::format("inputs kept: one for every {} layers of a chunk", recompute.uniform), "recompute"});
    value *= inputs / layers;
  }
  if (again < layers) {
    ExplainedSum whole = all_layers(plan, rank, "a", true);
    equation = fmt::format("w/l*{} + (1 - w/l)*({})/l", equation, whole.equation);
    append(sum, std::move(whole));
    sum.give({"w", again, "of them, those that are computed again", "recompute"});
    value = again / layers * value + (1 - again / layers) * rank.sums.saved.value / layers;
  }
  Explanation out = explained("bytes that a layer keeps per micro-batch, average of the stage", std::move(equation),
                              value, "bytes", std::move(sum.symbols), {}, std::move(sum.parts));
  out.name = "k";
  return out;
}

/// What one part of the pipeline's ends keeps; a vocabulary that is spread over the stages keeps its share.
Explanation end_part(const Plan& plan, const char* name, const char* title, Traced law, bool spread = false) {
  if (spread && plan.problem.training.stack.vocab_barriers > 0)
    law = law / symbol<Traced>("p", plan.best.layout.pp, "stages, over which the vocabulary is spread", kLayout);
  Explanation out = explained(title, law, "bytes", "plan-formulas(7) D6");
  out.name = name;
  return out;
}

/// The terms beside `held*l*k`, one by one.
class Ends {
 public:
  Ends(const Plan& plan, const StageRank& rank)
      : plan_(plan),
        rank_(rank),
        stack_(plan.problem.training.stack),
        head_(traced_head(plan.problem.model, rank.model.training(), plan.best.layout)) {}

  bool embedding() const { return stack_.vocab_barriers > 0 || rank_.content.embedding; }
  bool head() const { return stack_.vocab_barriers > 0 || rank_.content.head; }

  Explanation of_embedding() const {
    return end_part(plan_, "e", "what the embedding keeps: ids of tokens, dropout mask",
                    traced_embedding(plan_.problem.model, rank_.model.training(), plan_.best.layout));
  }
  Explanation of_head() const { return end_part(plan_, "s", "inputs of the last norm and of the head", head_.saved); }
  Explanation of_logits() const {
    return end_part(plan_, "x", "what the loss keeps of the logits", head_.logits, true);
  }
  Explanation of_outputs() const {
    return end_part(plan_, "g", "output of the stage, which is not freed when it is sent", checkpoint());
  }
  Explanation of_module() const {
    return end_part(plan_, "M", "inputs of a prediction module's projection, and of its head and loss",
                    3 * checkpoint() + head_.saved + head_.logits);
  }

 private:
  Traced checkpoint() const {
    return traced_checkpoint(plan_.problem.model, rank_.model.training(), plan_.best.layout);
  }
  const Plan& plan_;
  const StageRank& rank_;
  const Stack& stack_;
  HeadMemoryOf<Traced> head_;
};

/// Puts a part of the ends into the equation, with what comes before it.
void add_end(ExplainedSum& sum, const std::string& factor, Explanation part) {
  const std::string title = part.title;
  sum.add(factor, title, std::move(part));
}

/// What lies there beside the layers' activations at the instant of the peak.
void add_ends(ExplainedSum& sum, const Plan& plan, const StageRank& rank, const Ends& ends) {
  if (rank.content.mtp > 0) {
    const int passes = rank.content.mtp * plan.problem.model.mtp.passes;
    sum.give({"D", static_cast<double>(passes), "passes of the stage's prediction modules", "model"});
    add_end(sum, "D*", ends.of_module());
  }
  if (!plan.problem.training.stack.frees_stage_outputs && !ends.head()) add_end(sum, "held*", ends.of_outputs());
  if (ends.head() && loss_waits(plan.best.layout.schedule)) {
    add_end(sum, "(held - 1)*", ends.of_head());
    add_end(sum, "(held - 1)*", ends.of_logits());
  }
  if (rank.instant == "loss" || rank.instant == "head backward") {
    Explanation saved = ends.of_head();
    saved.name = "s_1";
    saved.title += ", of the micro-batch at work";
    add_end(sum, "", std::move(saved));
  }
}

/// Micro-batches held at once: the schedule's, and one more each time that the stages meet for the loss.
void give_held(ExplainedSum& sum, const Plan& plan, const StageRank& rank) {
  const int barriers = plan.problem.training.stack.vocab_barriers;
  const double held = rank.held + barriers;
  sum.give({"held", held, "micro-batches held at once", "schedule"});
  if (barriers == 0) return;
  Explanation part = explained(
      "micro-batches held at once", "m + w", held, "",
      {{"m", rank.held, "under the schedule", "schedule"},
       {"w", static_cast<double>(barriers), "times that the stages meet for the loss, one more waits each", "stack"}},
      "Yeung et al. 2024, arXiv:2411.05288");
  part.name = "held";
  sum.parts.push_back(std::move(part));
}

}  // namespace

Result<Explanation> explain_activations(const Plan& plan, int stage) {
  const auto value = static_cast<double>(plan.best.stages[static_cast<std::size_t>(stage)].activations.value);
  if (value == 0)
    return fail({"nothing_to_explain", fmt::format("stage {} peaks at a moment when it holds no activations", stage)});
  const StageRank rank = stage_rank(plan, stage);
  const Ends ends(plan, rank);
  ExplainedSum sum;
  give_held(sum, plan, rank);
  std::string each;
  if (rank.sums.layers > 0) {
    Explanation kept = kept_of_layer(plan, rank);
    sum.give({"l", static_cast<double>(rank.sums.layers), "layers of the stage", kLayout});
    sum.give({"k", kept.value, "bytes that a layer keeps per micro-batch", {}});
    sum.parts.push_back(std::move(kept));
    each = "l*k";
    if (const int away = plan.problem.training.offload.layers; away > 0) {
      sum.give({"o", static_cast<double>(away), "layers whose activations wait in host memory", kLayout});
      each += "*(1 - min(1, o/l))";
    }
  }
  if (rank.instant == "embedding backward") {
    sum.equation = fmt::format("(held - 1)*{}", each);
  } else if (rank.instant == "first layer backward" || rank.instant == "second layer backward") {
    const int behind = rank.instant == "first layer backward" ? 1 : std::min(2, rank.sums.layers);
    sum.give({"n", static_cast<double>(behind), "layers whose backward pass is still to come", "the moment"});
    sum.equation = fmt::format("(held - 1)*{} + n*{}/l", each, each);
  } else {
    const std::string done = rank.instant == "next layer backward" ? " - " + each + "/l" : "";
    if (ends.embedding()) {
      Explanation part = ends.of_embedding();
      sum.give({"e", part.value, part.title, {}});
      sum.parts.push_back(std::move(part));
      each += each.empty() ? "e" : " + e";
    }
    if (!each.empty()) sum.equation = "held*" + (ends.embedding() ? "(" + each + ")" : each) + done;
    add_ends(sum, plan, rank, ends);
  }
  return explained(fmt::format("activations that stage {} holds at its peak", stage), std::move(sum.equation), value,
                   "bytes", std::move(sum.symbols),
                   "k: Korthikanti et al. 2022, arXiv:2205.05198, and the tensors that TransformerEngine saves; "
                   "held: the pipeline schedule",
                   std::move(sum.parts));
}

}  // namespace plan
