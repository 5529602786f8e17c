// Memory of a layer and of a stage's layers together, from ledgers and states of formulas (plan-formulas(7) C, D).
// Assumes that ranks of a stage hold the same; moments at which a stage peaks are in memory_stage.cpp. Tested by
// tests/planner/memory_test.cpp.
#include "planner/memory/memory.hpp"

#include <algorithm>
#include <cmath>

#include "formulas/activation.hpp"
#include "formulas/bf16_layers.hpp"
#include "formulas/layer_rows.hpp"
#include "formulas/parameters.hpp"
#include "formulas/transient.hpp"
#include "planner/rules/frameworks.hpp"

namespace plan {
namespace {

constexpr unsigned kHeadOwner = 1u << kMaxLayerKinds;

unsigned owner_of(std::size_t kind) { return 1u << kind; }

/// One bf16 tensor per weight shape represents gradients that the GEMMs have already added up.
bool caches_dummies(const Training& training) {
  const Stack& stack = training.stack;
  return stack.transformer_engine && stack.gradient_fusion && stack.states == StateLayout::Megatron &&
         !training.adapters();
}

/// Training as the stack runs it on this GPU: before Hopper, and where results must be the same twice from Blackwell
/// on, attention under Megatron is FlashAttention, whose layout is batch first (plan-formulas(7) D8).
Training training_on(const Problem& problem, GpuGeneration generation) {
  Training training = problem.training;
  const bool megatron = training.stack.states == StateLayout::Megatron;
  const bool repeatable = generation == GpuGeneration::Blackwell && training.stack.deterministic;
  if (megatron && training.stack.flash_attention && (generation == GpuGeneration::Ampere || repeatable))
    training.stack.batch_first_attention = true;
  return training;
}

/// Is the norm's output rebuilt with the GEMM behind it? Only in front of plain attention and dense FFN, where
/// TransformerEngine's linears hold the norm.
bool fused_norm(const Layer& layer, const Stack& stack) {
  return stack.fused_norms && stack.transformer_engine && layer.mixer == Mixer::Attention && layer.ffn == Ffn::Dense;
}

RealBytes kept_bytes(const Model& model, const Layer& layer, const LayerLedger& ledger, const Training& training,
                     const Layout& layout) {
  if (layout.recompute.kind != RecomputeKind::Selective) return ledger.total();
  if (layout.recompute.modules & kRecomputeOps) return kept_ops(model, layer, ledger, training, layout);
  return kept_selective(ledger, layout.recompute.modules, fused_norm(layer, training.stack));
}

/// Everything but what recomputation decides.
LayerMemory layer_memory(const Model& model, const Layer& layer, const Training& training, const Layout& layout) {
  LayerMemory out;
  const RankParameters base = rank_parameters(model, layer, layout.tp, layout.ep, layout.etp);
  out.trained_dense = out.dense_parameters = base.dense;
  out.trained_expert = out.expert_parameters = base.expert;
  if (training.adapters()) {
    const RankParameters adapter = adapter_parameters(model, layer, training, layout.tp, layout.ep, layout.etp);
    out.trained_dense = adapter.dense;
    out.trained_expert = adapter.expert;
    out.dense_parameters += adapter.dense;
    out.expert_parameters += adapter.expert;
  }
  out.checkpoint = layer_checkpoint(model, training, layout);
  return out;
}

EndMemory end_memory(const Model& model, const Training& training, const Layout& layout) {
  EndMemory out;
  const double hidden = static_cast<double>(model.hidden);
  const double vocab = vocab_rows(model, training, layout);
  const double norm = model.norm_vectors() * hidden;
  out.embedding_parameters =
      vocab * hidden + static_cast<double>(model.positions) * hidden + (model.embedding_norm ? norm : 0);
  out.shared_parameters = model.tied ? vocab * hidden : 0;
  out.head_parameters = vocab * hidden + norm + (model.head_bias ? vocab : 0);
  out.embedding_saved = embedding_saved(model, training, layout);
  const HeadMemory head = head_memory(model, training, layout);
  out.head_saved = head.saved;
  out.logits_saved = head.logits;
  out.loss_transient = head.loss;
  out.loss_hole = head.hole;
  out.head_backward = head.backward;
  out.head_resident = head.resident;
  // Without the cache a weight's gradient lives until it is added to the buffer.
  if (!training.adapters() && !caches_dummies(training)) out.head_backward += RealBytes(2 * vocab * hidden);
  if (model.mtp.depth > 0) {
    out.mtp_parameters = 2 * hidden * hidden / layout.tp + 3 * hidden;
    out.mtp_saved = 3 * layer_checkpoint(model, training, layout) + out.head_saved + out.logits_saved;
  }
  return out;
}

/// The share of a vocabulary that is split over all stages. Inputs of embedding and head come whole.
EndMemory spread(EndMemory ends, int stages) {
  for (double* part : {&ends.embedding_parameters, &ends.head_parameters, &ends.shared_parameters}) *part /= stages;
  for (RealBytes* part : {&ends.logits_saved, &ends.loss_transient, &ends.head_backward}) *part = *part / stages;
  return ends;
}

/// Bytes that the 16-bit gradients of a layer's weights add to the most that its backward pass needs without them.
/// fully_shard reduces them together once the layer is done; until then they pile up while activations are freed. The
/// most may be there when the FFN's last product has its gradient, at the FFN's end, in the mixer or at its end. At
/// either end a layer holds what came in, its gradient, and that of a product before they are summed; the FFN also what
/// its last gradient is made of.
RealBytes fresh_grads(const Model& model, const Layer& layer, const Training& training, const Layout& layout,
                      const LayerTransient& transient, const LayerLedger& ledger) {
  if (training.adapters()) {
    const RankParameters own = adapter_parameters(model, layer, training, layout.tp, layout.ep, layout.etp);
    return RealBytes(2 * own.total());
  }
  double ffn = 0, last = 0, mixer = 0, mixer_last = 0;
  for (const Weight& w : layer_weights(model, layer)) {
    if (!w.matrix()) continue;
    const double held = w.expert() ? static_cast<double>(layer.moe.experts) / layout.ep : 1;
    const double elements = held * w.rows_on_rank(layout.tp, layout.etp) * w.columns_on_rank(layout.tp, layout.etp);
    if (w.part == LayerPart::Mixer || w.part == LayerPart::LatentUp)
      mixer += elements, mixer_last = elements;
    else
      ffn += elements, last += w.second ? elements : 0;
  }
  const double token = activation_bytes(training.precision) * static_cast<double>(model.hidden);
  const RealBytes rows = RealBytes(3 * token * rank_tokens(training, layout));
  const RealBytes in_mixer = transient.attention_backward - ledger.ffn();
  const bool moe = layer.ffn == Ffn::Moe;
  const double copies = moe ? static_cast<double>(layer.moe.top_k) : 1;
  const double width = moe ? static_cast<double>(layer.moe.expert_width) / layout.etp
                           : static_cast<double>(layer.dense.width) / layout.tp;
  const RealBytes inner(activation_bytes(training.precision) * width * rank_tokens(training, layout));
  const RealBytes routed = copies * (rows + inner);
  const RealBytes with =
      std::max({transient.ffn_backward + RealBytes(2 * last), routed - ledger.ffn() + RealBytes(2 * ffn),
                in_mixer + RealBytes(2 * (ffn + mixer_last)), rows - ledger.total() + RealBytes(2 * (ffn + mixer))});
  return with - std::max(transient.ffn_backward, in_mixer);
}

/// Megatron shards gradients and weights by its own FSDP, whether the plan is searched or read from its flags.
StateLayout sharded_states(const Problem& problem) {
  const StateLayout states = problem.training.stack.states;
  const FrameworkRow& row = framework_row(problem.framework);
  return row.sharded && states == row.stack.states ? *row.sharded : states;
}

}  // namespace

NcclPlatform nccl_platform(const Cluster& cluster) {
  const CollectiveLibrary library = cluster.gpu.library;
  const bool nccl = library == CollectiveLibrary::Nccl;
  return {.gpus_per_node = cluster.gpus_per_node,
          .generation = generation(cluster.gpu.architecture),
          .multicast = nccl && cluster.gpu.nvlink_sharp,
          .known = nccl || library == CollectiveLibrary::Rccl || library == CollectiveLibrary::Unknown,
          .measured = cluster.nccl};
}

MemoryModel::MemoryModel(const Problem& problem, const Layout& layout)
    : problem_(&problem),
      training_(training_on(problem, generation(problem.cluster.gpu.architecture))),
      split_(layout),
      generation_(generation(problem.cluster.gpu.architecture)),
      sharded_(sharded_states(problem)),
      nccl_(nccl_platform(problem.cluster)) {
  const Model& model = problem.model;
  const Training& training = training_;
  layers_.reserve(model.kinds.size());
  for (std::size_t kind = 0; kind < model.kinds.size(); ++kind) {
    const Layer& layer = model.kinds[kind];
    const LinearShapes shapes = linear_shapes(model, layer, layout);
    for (int i = 0; i < shapes.size; ++i) {
      const LinearShape& shape = shapes.shapes[static_cast<std::size_t>(i)];
      add_shape(shape.rows, shape.columns, owner_of(kind));
    }
    layers_.push_back(layer_memory(model, layer, training, layout));
    const LayerLedger whole = layer_ledger(model, layer, training, layout);
    ledgers_.push_back(left_on_gpu(whole, layer, model, training, layout));
    layers_.back().offloaded = offloaded_bytes(whole, ledgers_.back(), training.offload);
    const LayerTransient transient = layer_transient(model, layer, training, layout);
    const Precision precision = precision_of(layer, training);
    if (is_narrow(precision)) {
      layers_.back().quantised_parameters = shapes.numel();
      layers_.back().expert_quantised_parameters = shapes.numel(true);
    }
    layers_.back().saved = ledgers_.back().total();
    // One layer's copies are on their way out, or back in for the layer at work and the one behind it.
    layers_.back().forward_transient = transient.forward + layers_.back().offloaded;
    backward_work_.push_back(std::max(transient.ffn_backward, transient.attention_backward - ledgers_.back().ffn()));
    layers_.back().fresh_grads = plan::fresh_grads(model, layer, training, layout, transient, ledgers_.back());
    graph_ = std::max(graph_, graph_pool(layer, transient, training.stack.graph_scopes));
  }
  recompute(layout.recompute);
  const double hidden = static_cast<double>(model.hidden);
  add_shape(vocab_rows(model, training, layout), hidden, kHeadOwner);
  ends_ = end_memory(model, training, layout);
  if (training.stack.vocab_barriers > 0) ends_ = spread(ends_, layout.pp);
  stale_ = stale_gradient(model, training, layout);
  loader_mask_ = loader_mask<double>(training, layout);
  for (const Shape& shape : shapes_) largest_ = std::max(largest_, shape.rows * shape.columns);
  for (int zero = 0; zero < 4; ++zero) state_bytes_[static_cast<std::size_t>(zero)] = state_bytes(training, zero);
  const Stack& stack = training.stack;
  workspaces_ = stack.transformer_engine ? gemm_workspace(generation_) : RealBytes();
  torch_workspaces_ = torch_workspaces(generation_, stack.deterministic);
  if (stack.grouped_gemm && stack.transformer_engine)
    grouped_workspaces_ = kGroupedGemmStreams * gemm_workspace(generation_);
  if (training.optimizer == Optimizer::Muon)
    for (const Shape& shape : shapes_)
      if (!(shape.owners >> kMaxLayerKinds)) muon_ = std::max(muon_, RealBytes(3 * 2 * shape.rows * shape.columns));
  caches_dummies_ = caches_dummies(training);
  frozen_bytes_ = frozen_weight_bytes(training);
  primary_ = primary_quantised(training) && training.task != Task::Qlora;
  if (primary_ || training.stack.states == StateLayout::Megatron)
    quantised_bytes_ = quantised_weight_bytes(training, generation_);
}

void MemoryModel::recompute(const Recompute& choice) {
  split_.recompute = choice;
  for (std::size_t kind = 0; kind < layers_.size(); ++kind) {
    LayerMemory& layer = layers_[kind];
    layer.kept = kept_bytes(problem_->model, problem_->model.kinds[kind], ledgers_[kind], training_, split_);
    layer.backward_transient = layer.saved - layer.kept + backward_work_[kind] + 2 * layer.offloaded;
  }
}

LayerTensors MemoryModel::tensors(int kind) const {
  const Layer& layer = problem_->model.kinds[static_cast<std::size_t>(kind)];
  const Recompute& recompute = split_.recompute;
  const bool modules = recompute.kind == RecomputeKind::Selective && !(recompute.modules & kRecomputeOps);
  const bool mlp = ledgers_[static_cast<std::size_t>(kind)][Fate::Mlp] > RealBytes();
  const Fates gone = modules ? dropped(recompute.modules, fused_norm(layer, training_.stack), mlp) : 0;
  const unsigned leaving = leaving_modules(layer, training_);
  LayerTensors out;
  for (KeptTensor& tensor : kept_tensors(problem_->model, layer, training_, split_)) {
    const bool away = (tensor.offload & leaving) != 0;
    const bool rebuilt = gone & bit_of(tensor.fate);
    (away ? out.offloaded : rebuilt ? out.rebuilt : out.kept).push_back(std::move(tensor));
  }
  return out;
}

void MemoryModel::add_shape(double rows, double columns, unsigned owner) {
  for (Shape& shape : shapes_)
    if (shape.rows == rows && shape.columns == columns) {
      shape.owners |= owner;
      return;
    }
  shapes_.push_back({rows, columns, owner});
}

int layers_held(const Model& model, const StageContent& content, int kind) {
  const int count = content.layers_of_kind[static_cast<std::size_t>(kind)];
  if (content.mtp == 0) return count;
  return count + content.mtp * static_cast<int>(std::count(model.mtp.kinds.begin(), model.mtp.kinds.end(), kind));
}

int layers_run(const Model& model, const StageContent& content, int kind) {
  const int own = content.layers_of_kind[static_cast<std::size_t>(kind)];
  return own + model.mtp.passes * (layers_held(model, content, kind) - own);
}

StageSums MemoryModel::sums(const StageContent& content) const {
  const Model& model = problem_->model;
  StageSums out;
  for (std::size_t kind = 0; kind < layers_.size(); ++kind) {
    const int count = layers_held(model, content, static_cast<int>(kind));
    const int passes = layers_run(model, content, static_cast<int>(kind));
    if (count == 0) continue;
    const LayerMemory& layer = layers_[kind];
    out.layers += count;
    out.kinds |= owner_of(kind);
    out.moe = out.moe || model.kinds[kind].ffn == Ffn::Moe;
    out.dense += count * layer.dense_parameters;
    out.expert += count * layer.expert_parameters;
    out.trained_dense += count * layer.trained_dense;
    out.trained_expert += count * layer.trained_expert;
    out.quantised += count * layer.quantised_parameters;
    out.expert_quantised += count * layer.expert_quantised_parameters;
    out.saved += passes * layer.saved;
    out.kept += passes * layer.kept;
    out.offloaded += passes * layer.offloaded;
    out.checkpoint += passes * layer.checkpoint;
    out.largest_saved = std::max(out.largest_saved, layer.saved);
    out.forward = std::max(out.forward, layer.forward_transient);
    out.backward = std::max(out.backward, layer.backward_transient);
    out.block = std::max(out.block, layer.dense_parameters + layer.expert_parameters);
    out.fresh_grads = std::max(out.fresh_grads, layer.fresh_grads);
  }
  if (content.mtp > 0) out.ends += content.mtp * ends_.mtp_parameters;
  const bool embedding = has_embedding(content), head = has_head(content), second_embedding = head && content.mtp > 0;
  if (embedding || second_embedding) out.ends += ends_.embedding_parameters;
  if (head) {
    out.ends += ends_.head_parameters;
    if (embedding || second_embedding) out.ends -= ends_.shared_parameters;
    out.kinds |= kHeadOwner;
  }
  return out;
}

}  // namespace plan
