// Costs shared by all layouts that split layers the same way. Tested by tests/planner/estimate_test.cpp.
#include "planner/cost/cost.hpp"

#include "formulas/activation.hpp"
#include "formulas/bf16_layers.hpp"
#include "formulas/flops.hpp"
#include "planner/cost/layer_cost.hpp"

namespace plan {

namespace {

/// Work of a builder that no degree of the experts changes: done, or taken from a split that differs in them alone.
template <class Work>
void until_experts(LayerBuilder& builder, CommonCosts* known, const Work& work) {
  if (known != nullptr && known->resumes(builder)) return;
  work();
  if (known != nullptr) known->keep(builder);
}

/// The output projection and its loss, once more with the layers of every prediction module.
void build_head(const Model& model, LayerBuilder& builder, CommonCosts* known = nullptr) {
  const auto layer_of = [&](int kind) -> const Layer& { return model.kinds[static_cast<std::size_t>(kind)]; };
  const bool experts = model.mtp.runs() > 0 && !model.mtp.kinds.empty();
  until_experts(builder, known, [&] {
    builder.head();
    if (!experts) return;
    builder.mtp_projection();
    builder.mixer(layer_of(model.mtp.kinds.front()));
  });
  bool mixed = experts;  // the layer at hand has its mixer already
  for (int run = 0; run < model.mtp.runs(); ++run) {
    if (!mixed) builder.mtp_projection();
    for (const int kind : model.mtp.kinds) {
      if (!mixed) builder.mixer(layer_of(kind));
      builder.feed_forward(layer_of(kind));
      mixed = false;
    }
    builder.head();
  }
}

}  // namespace

namespace {

/// The members that splits and layouts have in common.
template <class To, class From>
To split_like(const From& from) {
  To to;
  to.tp = from.tp, to.cp = from.cp, to.cp_kind = from.cp_kind, to.cp_ulysses = from.cp_ulysses;
  to.ep = from.ep, to.etp = from.etp, to.micro_batch = from.micro_batch;
  to.sequence_parallel = from.sequence_parallel;
  return to;
}

}  // namespace

Split split_of(const Layout& layout) {
  Split split = split_like<Split>(layout);
  if (layout.cp_kind != CpKind::Hybrid) split.cp_ulysses = 1;
  if (layout.cp == 1) split.cp_kind = CpKind::Ring;
  if (layout.tp == 1) split.sequence_parallel = false;
  return split;
}

Layout layout_of(const Split& split) { return split_like<Layout>(split); }

std::vector<KernelTime> layer_kernels(const Problem& problem, const Split& split, int kind) {
  std::vector<KernelTime> kernels;
  LayerBuilder(problem, split, &kernels).layer(problem.model.kinds[static_cast<std::size_t>(kind)]);
  return kernels;
}

std::vector<KernelTime> embedding_kernels(const Problem& problem, const Split& split) {
  std::vector<KernelTime> kernels;
  LayerBuilder(problem, split, &kernels).embedding();
  return kernels;
}

std::vector<KernelTime> head_kernels(const Problem& problem, const Split& split) {
  std::vector<KernelTime> kernels;
  LayerBuilder builder(problem, split, &kernels);
  build_head(problem.model, builder);
  return kernels;
}

namespace {

/// One layer's activations that go to host memory, for one micro-batch.
RealBytes offloaded_bytes(const Problem& problem, const Split& split, const Layer& layer) {
  const Training& training = problem.training;
  const Layout layout = layout_of(split);
  const LayerLedger ledger = layer_ledger(problem.model, layer, training, layout);
  const LayerLedger left = left_on_gpu(ledger, layer, problem.model, training, layout);
  return plan::offloaded_bytes(ledger, left, training.offload);
}

}  // namespace

CostModel::CostModel(const Problem& problem, const Split& split, CommonCosts* known)
    : prunes_(problem.training.stack.prunes_recompute) {
  if (known != nullptr) known->turn_to(split);
  for (const Layer& kind : problem.model.kinds) {
    LayerBuilder builder(problem, split, nullptr, known);
    const bool experts = kind.ffn == Ffn::Moe;
    until_experts(builder, known, [&] { experts ? builder.mixer(kind) : builder.layer(kind); });
    if (experts) builder.feed_forward(kind);
    layers_.push_back(builder.cost());
    if (problem.training.offload.activations()) layers_.back().offloaded = offloaded_bytes(problem, split, kind);
    module_forward_.push_back(builder.modules());
    keeps_products_.push_back(ops_keep_products(precision_of(kind, problem.training)));
  }
  LayerBuilder embedding(problem, split, nullptr, known);
  until_experts(embedding, known, [&] { embedding.embedding(); });
  embedding_ = embedding.cost();

  LayerBuilder head(problem, split, nullptr, known);
  build_head(problem.model, head, known);
  head_ = head.cost();
}

Phase CostModel::selective_recompute(int kind, std::uint16_t modules) const {
  if (modules & kRecomputeOps) {  // the results of collectives are kept
    const LayerCost& layer = layers_[static_cast<std::size_t>(kind)];
    if (keeps_products_[static_cast<std::size_t>(kind)]) return {.compute = kOpsRebuilt * layer.forward.compute};
    return {.compute = layer.forward.compute - selective_recompute(kind, kRecomputeCoreAttention).compute -
                       (prunes_ ? layer.last.compute : Seconds())};
  }
  // The whole MoE block includes its activations and shared experts.
  if (modules & kRecomputeMoe)
    modules = static_cast<std::uint16_t>(modules | kRecomputeMoeActivation | kRecomputeSharedExperts);
  if (modules & kRecomputeMlp) modules = static_cast<std::uint16_t>(modules | kRecomputeMlpActivation);
  Phase sum;
  for (int bit = 0; bit < kRecomputeModules; ++bit)
    if (modules >> bit & 1) sum += module_forward_[static_cast<std::size_t>(kind)][static_cast<std::size_t>(bit)];
  if (prunes_ && (modules & kRecomputeMlp)) sum.compute -= layers_[static_cast<std::size_t>(kind)].last.compute;
  return sum;
}

}  // namespace plan
