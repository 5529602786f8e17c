// Memory that lives for an instant: what one layer, the head or the loss needs while it runs, workspaces, and what the
// allocator cannot hand out. Tested by tests/cli/explain_test.cpp and tests/cli/trail_test.cpp.
#include "formulas/transient.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "cli/explain/parts.hpp"
#include "cli/explain/terms.hpp"

namespace plan {
namespace {

constexpr const char* kSources = "TransformerEngine, Megatron-LM and PyTorch sources; measured peaks";

double value(Bytes bytes) { return static_cast<double>(bytes.value); }
const StageMemory& memory_of(const Plan& plan, int stage) { return plan.best.stages[static_cast<std::size_t>(stage)]; }

Explanation named(const char* name, Explanation e) {
  e.name = name;
  return e;
}

void add_part(ExplainedSum& sum, const std::string& factor, Explanation part) {
  const std::string title = part.title;
  sum.add(factor, title, std::move(part));
}

/// The layer kind of the stage, prediction modules included, that `bytes` is largest for; -1: the stage has no layers.
template <class Of>
int largest_kind(const Plan& plan, const StageRank& rank, const Of& bytes) {
  const Model& model = plan.problem.model;
  int largest = -1;
  for (int kind = 0; kind < static_cast<int>(model.kinds.size()); ++kind) {
    const std::vector<int>& module = model.mtp.kinds;
    const bool predicts = rank.content.mtp > 0 && std::count(module.begin(), module.end(), kind) > 0;
    if (rank.content.layers_of_kind[static_cast<std::size_t>(kind)] == 0 && !predicts) continue;
    if (largest < 0 || bytes(rank.model.layer(kind)) > bytes(rank.model.layer(largest))) largest = kind;
  }
  return largest;
}

/// Sum of the tensors that `which` picks, as one law.
template <class Which>
Traced sum_of(const std::vector<KeptTensor>& tensors, const Which& which) {
  Traced sum = 0.0;
  for (const KeptTensor& tensor : tensors)
    if (which(tensor)) sum = sum + tensor.bytes;
  return sum;
}
bool every(const KeptTensor&) { return true; }
bool of_ffn(const KeptTensor& tensor) { return tensor.fate >= Fate::FfnInput && tensor.fate <= Fate::Shared; }

const Layer& layer_of(const Plan& plan, int kind) { return plan.problem.model.kinds[static_cast<std::size_t>(kind)]; }

LayerTransientOf<Traced> transient_of(const Plan& plan, const StageRank& rank, int kind) {
  return traced_transient(plan.problem.model, layer_of(plan, kind), rank.model.training(), plan.best.layout);
}

/// Alive in a layer's forward pass; what is on its way to host memory with it.
Explanation forward_work(const Plan& plan, const StageRank& rank) {
  const int kind = largest_kind(plan, rank, [](const LayerMemory& layer) { return layer.forward_transient; });
  ExplainedSum sum;
  add_part(sum, "",
           named("f", explained("dispatched tokens, or keys and values of other ranks",
                                transient_of(plan, rank, kind).forward, "bytes", kSources)));
  add_part(sum, "",
           named("o", explained("one layer's tensors on their way to host memory",
                                sum_of(rank.model.tensors(kind).offloaded, every), "bytes")));
  return explained("alive while one layer's forward runs", sum.equation, rank.sums.forward.value, "bytes",
                   std::move(sum.symbols), kSources, std::move(sum.parts));
}

/// The larger of two moments: backward of the FFN, and that of the mixer, when all that the FFN kept is free again.
Explanation backward_gradients(const Plan& plan, const StageRank& rank, int kind, const LayerTensors& tensors) {
  const LayerTransientOf<Traced> law = transient_of(plan, rank, kind);
  const Traced freed = sum_of(tensors.kept, of_ffn) + sum_of(tensors.rebuilt, of_ffn);
  return explained("gradients of one layer, and what its backward kernels need",
                   larger(lettered<Traced>("f", law.ffn_backward, "backward of the FFN", "bytes"),
                          lettered<Traced>("g", law.attention_backward, "backward of the mixer", "bytes") -
                              lettered<Traced>("m", freed, "kept by the FFN, and free by then", "bytes")),
                   "bytes", kSources);
}

/// Alive in a layer's backward pass: gradients, what recomputation rebuilt, what came back from host memory.
Explanation backward_work(const Plan& plan, const StageRank& rank, RealBytes bytes) {
  const int kind = largest_kind(plan, rank, [](const LayerMemory& layer) { return layer.backward_transient; });
  const Recompute& recompute = plan.best.layout.recompute;
  const LayerTensors tensors = rank.model.tensors(kind);
  ExplainedSum sum;
  add_part(sum, "", named("w", backward_gradients(plan, rank, kind, tensors)));
  if (recompute.kind == RecomputeKind::Selective && (recompute.modules & kRecomputeOps)) {
    add_part(sum, "", explain_ledger(plan, rank.model, "A", kind, true));
    sum.equation += " - k";
    Explanation kept = explain_ledger(plan, rank.model, "k", kind);
    sum.give({"k", kept.value, kept.title, {}});
    sum.parts.push_back(std::move(kept));
  } else {
    add_part(sum, "",
             named("d", explained("tensors that are computed again", sum_of(tensors.rebuilt, every), "bytes")));
  }
  add_part(sum, "2*",
           named("o", explained("one layer's tensors that come back from host memory", sum_of(tensors.offloaded, every),
                                "bytes")));
  if (recompute.kind == RecomputeKind::Full) {
    const int whole = largest_kind(plan, rank, [](const LayerMemory& layer) { return layer.saved; });
    const int together = rebuilt_together(recompute, plan.best.layout.vp, rank.sums.layers);
    sum.give({"u", static_cast<double>(together), "layers rebuilt together", "recompute"});
    add_part(sum, "u*", explain_ledger(plan, rank.model, "A", whole, true));
    Explanation input = explain_ledger(plan, rank.model, "c", whole);
    sum.equation += " - c";
    sum.give({"c", input.value, "the input that they are rebuilt from, which is kept already", {}});
    sum.parts.push_back(std::move(input));
  }
  return explained("gradients and rebuilt tensors of one layer", sum.equation, bytes.value, "bytes",
                   std::move(sum.symbols), kSources, std::move(sum.parts));
}

/// What the loss needs of the logits, over the stages where the vocabulary is spread over them.
Explanation loss_work(const Plan& plan, const StageRank& rank) {
  Traced law = traced_head(plan.problem.model, rank.model.training(), plan.best.layout).loss;
  if (plan.problem.training.stack.vocab_barriers > 0)
    law = law / symbol<Traced>("p", plan.best.layout.pp, "stages, over which the vocabulary is spread", "layout");
  return explained("logits in all copies", law, "bytes", kSources);
}

/// Puts what the instant's own work needs into the sum: explained where it is a law of the layer or of the loss.
void add_work(ExplainedSum& sum, const Plan& plan, const StageRank& rank, const ActivityMemory& activity) {
  const EndMemory& ends = rank.model.ends();
  const bool chunks = plan.problem.training.offload.layers > 0;  // what is on its way is of the stage, not of a layer
  const char* backward = "gradients and rebuilt tensors of one layer";
  const char* forward = "alive while one layer's forward runs";
  if (rank.instant.ends_with("layer backward")) {
    if (chunks) return sum.add({"b", activity.backward.value, backward, kShapeOrigin});
    if (activity.backward > RealBytes()) add_part(sum, "", named("b", backward_work(plan, rank, activity.backward)));
  } else if (rank.instant == "loss") {
    add_part(sum, "", named("b", loss_work(plan, rank)));
  } else if (rank.instant == "head backward") {
    sum.add({"b", ends.head_backward.value, "gradients of logits and of the head's input", kShapeOrigin});
  } else if (rank.instant == "embedding backward") {
    sum.add({"b", activity.embedding_transient.value, "the embedding's gradient and what it came from", kShapeOrigin});
  } else {
    if (chunks) return sum.add({"b", activity.forward.value, forward, kShapeOrigin});
    if (activity.forward > RealBytes()) add_part(sum, "", named("b", forward_work(plan, rank)));
  }
}

/// Weights that are whole while it runs.
void add_gathered(ExplainedSum& sum, const std::string& instant, const ShardedMemory& sharded) {
  const char* whole = "weights and gradients gathered for it";
  if (instant == "layer backward")
    sum.add({"w", sharded.backward.value, whole, kShapeOrigin});
  else if (instant == "next layer backward" || instant == "second layer backward")
    sum.add({"w", sharded.next_backward.value, whole, kShapeOrigin});
  else if (instant == "first layer backward")
    sum.add({"w", sharded.last_backward.value, whole, kShapeOrigin});
  else if (instant == "loss" || instant == "head backward")
    sum.add({"w", sharded.head.value, "weights gathered for it", kShapeOrigin});
  else if (instant == "embedding backward")
    sum.add({"w", sharded.embedding.value, whole, kShapeOrigin});
  else
    sum.add({"w", sharded.forward.value, "weights gathered for it", kShapeOrigin});
}

/// What is alive at the instant at which the stage peaks.
Explanation alive_at_peak(const Plan& plan, int stage) {
  const Layout& layout = plan.best.layout;
  const StageRank rank = stage_rank(plan, stage);
  const ShardedMemory sharded = rank.model.sharded(layout, stage, rank.content, rank.sums);
  ExplainedSum sum;
  if (rank.instant == "optimizer step") {
    sum.add({"s", sharded.step.value, "added by the optimizer for its own duration", "optimizer"});
  } else if (rank.instant == "head reduction") {
    sum.add({"w", sharded.head_reduced.value, "the head's weights, gathered, and its gradient in what is reduced",
             kShapeOrigin});
  } else {
    add_work(sum, plan, rank, rank.model.activity(layout, rank.content, rank.sums, rank.held));
    add_gathered(sum, rank.instant, sharded);
  }
  sum.add("", "workspaces, cached gradients, gathered inputs",
          named("r", explained("there at every instant", rank.model.traced_resident(layout, stage, rank.content),
                               "bytes", "TransformerEngine and PyTorch sources")));
  const StageMemory& memory = memory_of(plan, stage);
  return named("a", explained(fmt::format("alive at the peak of the stage: {}", rank.instant), sum.equation,
                              value(memory.transient - memory.reserve), "bytes", std::move(sum.symbols), kSources,
                              std::move(sum.parts)));
}

/// What the allocator holds and cannot hand out.
Explanation allocator_holds(const Plan& plan, int stage) {
  const StageRank rank = stage_rank(plan, stage);
  Explanation out = explained("what the allocator holds but cannot hand out",
                              rank.model.traced_reserve(plan.best.layout, stage, rank.content, rank.held), "bytes",
                              "reserved against allocated peaks of published runs");
  out.value = value(memory_of(plan, stage).reserve);  // in whole bytes
  return named("r", std::move(out));
}

}  // namespace

Result<Explanation> explain_transient(const Plan& plan, int stage) {
  const StageMemory& memory = memory_of(plan, stage);
  return explained(fmt::format("memory of stage {} that lives for an instant", stage), "a + r", value(memory.transient),
                   "bytes",
                   {{"a", value(memory.transient - memory.reserve), "alive at the peak", {}},
                    {"r", value(memory.reserve), "what the allocator holds but cannot hand out", {}}},
                   {}, {alive_at_peak(plan, stage), allocator_holds(plan, stage)});
}

}  // namespace plan
