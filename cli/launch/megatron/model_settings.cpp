// A plan's model as Megatron-LM's arguments (plan-launch(7) 3.1). Tested by tests/launch/round_trip_test.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "cli/launch/job/model_facts.hpp"
#include "cli/launch/megatron/hybrid.hpp"
#include "cli/launch/megatron/put.hpp"
#include "formulas/layer_rows.hpp"
#include "planner/rules/megatron_models.hpp"

namespace plan::megatron {
namespace {

/// The layer kind that all arguments describe: MoE if the model has one.
const Layer& main_kind(const Model& model) {
  const auto moe =
      std::find_if(model.kinds.begin(), model.kinds.end(), [](const Layer& kind) { return kind.ffn == Ffn::Moe; });
  return moe != model.kinds.end() ? *moe : model.kinds.front();
}
/// The layer kind whose attention all arguments describe.
const Layer& attention_kind(const Model& model) {
  const auto attends = [](const Layer& kind) { return core_of(kind) == MixerCore::Attention; };
  auto found = std::find_if(model.kinds.begin(), model.kinds.end(),
                            [](const Layer& kind) { return kind.latent.index_heads > 0; });
  if (found == model.kinds.end()) found = std::find_if(model.kinds.begin(), model.kinds.end(), attends);
  return found != model.kinds.end() ? *found : model.kinds.front();
}
const Layer* dense_kind(const Model& model) {
  const auto dense =
      std::find_if(model.kinds.begin(), model.kinds.end(), [](const Layer& kind) { return kind.ffn == Ffn::Dense; });
  return dense != model.kinds.end() ? &*dense : nullptr;
}

void attention(FlagList& out, std::int64_t hidden, const Layer& kind) {
  if (kind.mixer == Mixer::Latent) {
    const LatentShape& shape = kind.latent;
    put(out, "num-attention-heads", shape.heads);
    // Nothing uses it here, but where it is left out the width of a head must come out even.
    if (hidden % shape.heads != 0) put(out, "kv-channels", shape.qk_dim());
    put(out, "multi-latent-attention");
    if (shape.q_rank > 0) put(out, "q-lora-rank", shape.q_rank);
    put(out, "kv-lora-rank", shape.kv_rank);
    put(out, "qk-head-dim", shape.nope_dim);
    put(out, "qk-pos-emb-head-dim", shape.rope_dim);
    put(out, "v-head-dim", shape.value_dim);
    put(out, "qk-layernorm");
    if (shape.index_heads == 0) return;
    put(out, "experimental-attention-variant", "dsa");
    put(out, "dsa-indexer-n-heads", shape.index_heads);
    put(out, "dsa-indexer-head-dim", shape.index_dim);
    put(out, "dsa-indexer-topk", shape.index_top_k);
    put(out, "dsa-kernel-backend", "tilelang");  // without, scores of whole sequences would lie in memory
    return;
  }
  const AttentionShape& shape = kind.attention;
  put(out, "num-attention-heads", shape.heads);
  if (shape.kv_heads != shape.heads) {
    put(out, "group-query-attention");
    put(out, "num-query-groups", shape.kv_heads);
  }
  put(out, "kv-channels", shape.head_dim);
  if (shape.qk_norm == QkNorm::PerHead) put(out, "qk-layernorm");
  if (shape.qkv_bias && !shape.out_bias) put(out, "add-qkv-bias");
  if (shape.sinks) put(out, "softmax-type", "learnable");
  if (shape.output_gate) put(out, "attention-output-gate");
}

/// `([0]*3+[1]*58)`, `([1]*3+[0]*1)*12`: which layers are of some kind.
template <class IsOne>
std::string frequency(const Model& model, IsOne is_one) {
  const std::size_t depth = model.layers.size();
  const auto marked = [&](std::size_t layer) {
    return is_one(model.kinds[static_cast<std::size_t>(model.layers[layer])]);
  };
  std::size_t period = 1;
  const auto repeats = [&] {
    for (std::size_t i = period; i < depth; ++i)
      if (marked(i) != marked(i - period)) return false;
    return depth % period == 0;
  };
  while (period < depth && !repeats()) ++period;
  std::string out;
  for (std::size_t i = 0; i < period;) {
    std::size_t end = i;
    while (end < period && marked(end) == marked(i)) ++end;
    out += fmt::format("{}[{}]*{}", out.empty() ? "" : "+", marked(i) ? 1 : 0, end - i);
    i = end;
  }
  return period < depth ? fmt::format("({})*{}", out, depth / period) : "(" + out + ")";
}

/// The number of layers of which the last is another, as most models have it: core 0.20 counts FLOPs by it for
/// prediction modules, too, for which a list of the model's layers is too short. Else the list.
template <class IsOne>
std::string period_of(const Model& model, IsOne is_one) {
  const auto marked = [&](int layer) {
    return is_one(model.kinds[static_cast<std::size_t>(model.layers[static_cast<std::size_t>(layer)])]);
  };
  int period = 1;
  while (period < model.depth() && marked(period - 1)) ++period;
  for (int layer = 0; layer < model.depth(); ++layer)
    if (marked(layer) == ((layer + 1) % period == 0)) return frequency(model, is_one);
  return fmt::format("{}", period);
}

void linear_attention(FlagList& out, const Model& model) {
  const auto scans = [](const Layer& kind) { return kind.mixer == Mixer::DeltaNet; };
  const auto found = std::find_if(model.kinds.begin(), model.kinds.end(), scans);
  if (found == model.kinds.end()) return;
  put(out, "experimental-attention-variant", "gated_delta_net");  // since core 0.19 another name of `gdn`
  put(out, "linear-attention-freq", period_of(model, scans));
  put(out, "linear-num-key-heads", found->delta.key_heads);
  put(out, "linear-num-value-heads", found->delta.value_heads);
  put(out, "linear-key-head-dim", found->delta.key_dim);
  put(out, "linear-value-head-dim", found->delta.value_dim);
  put(out, "linear-conv-kernel-dim", found->delta.conv);
}

/// Sliding windows: the same in all layers, or every n-th in full (`--window-attn-skip-freq n`).
void windows(FlagList& out, const Model& model) {
  std::int64_t window = 0;
  std::string pattern;
  for (const int kind : model.layers) {
    const std::int64_t own = model.kinds[static_cast<std::size_t>(kind)].attention.window;
    window = std::max(window, own);
    pattern += fmt::format("{}{}", pattern.empty() ? "" : ",", own > 0 ? 1 : 0);
  }
  if (window == 0) return;
  out.push_back({"window-size", {fmt::format("{},0", window - 1)}});
  if (pattern.find('0') != std::string::npos) put(out, "window-attn-skip-freq", fmt::format("[{}]", pattern));
}

}  // namespace

MegatronGroup model_arguments(const Plan& plan) {
  const Model& model = plan.problem.model;
  const Layer& kind = main_kind(model);
  const LaunchModelFacts facts = launch_model_facts(model.name, plan.problem.training.seq);
  const Layer* dense = dense_kind(model);
  FlagList out;
  const bool hybrid = is_hybrid(model);
  if (!hybrid) put(out, "num-layers", model.depth());
  put(out, "hidden-size", model.hidden);
  put(out, "ffn-hidden-size", dense != nullptr ? dense->dense.width : kind.moe.expert_width);
  attention(out, model.hidden, attention_kind(model));
  if (hybrid)
    put_hybrid_shapes(out, model);
  else
    linear_attention(out, model);
  if (const SharedIndex index = shared_index(model); index.period > 1) {
    put(out, "dsa-indexer-topk-freq", index.period);
    put(out, "dsa-indexer-skip-topk-offset", index.offset);
  }
  windows(out, model);
  put(out, "seq-length", plan.problem.training.seq);
  put(out, "max-position-embeddings", std::max(model.positions, plan.problem.training.seq));
  // Scans know the order of tokens: published hybrids give attention no positions of its own.
  put(out, "position-embedding-type", model.positions > 0 ? "learned_absolute" : hybrid ? "none" : "rope");
  if (facts.rotary_base > 0 && model.positions == 0) put(out, "rotary-base", facts.rotary_base);
  if (!facts.rotary_percent.empty() && attention_kind(model).mixer == Mixer::Attention)
    put(out, "rotary-percent", std::string(facts.rotary_percent));
  if (facts.rope_scaling > 0) {
    put(out, "use-rope-scaling");
    put(out, "rope-scaling-factor", facts.rope_scaling);
  }
  put(out, "normalization", model.norm == Norm::Rms ? "RMSNorm" : "LayerNorm");
  const bool gated = dense != nullptr ? dense->dense.gated : kind.moe.gated;
  if (gated)
    put(out, "swiglu");
  else if (facts.squared_relu)
    put(out, "squared-relu");
  const Layer& attends = attention_kind(model);
  const bool biases = attends.mixer == Mixer::Attention && attends.attention.out_bias;
  if (!biases) put(out, "disable-bias-linear");
  if (!model.tied) put(out, "untie-embeddings-and-output-weights");
  if (model.mtp.depth > 0 && !hybrid) put(out, "mtp-num-layers", model.mtp.runs());
  if (model.mtp.passes > 1) put(out, "mtp-use-repeated-layer");
  const std::string dropout =
      plan.problem.training.dropout > 0 ? fmt::format("{}", plan.problem.training.dropout) : "0.0";
  put(out, "attention-dropout", dropout);
  put(out, "hidden-dropout", dropout);
  return {"MODEL_ARGS", std::move(out)};
}

namespace {

/// Experts and their router, as the model was published.
void experts(FlagList& out, const Plan& plan) {
  const Model& model = plan.problem.model;
  const MoeShape& moe = main_kind(model).moe;
  put(out, "num-experts", moe.experts);
  put(out, "moe-router-topk", moe.top_k);
  put(out, "moe-ffn-hidden-size", moe.expert_width);
  if (dense_kind(model) != nullptr && !is_hybrid(model))
    put(out, "moe-layer-freq", frequency(model, [](const Layer& one) { return one.ffn == Ffn::Moe; }));
  if (moe.shared_width > 0) put(out, "moe-shared-expert-intermediate-size", moe.shared_width);
  if (moe.shared_gate) put(out, "moe-shared-expert-gate");
  if (moe.latent > 0) put(out, "moe-latent-size", moe.latent);
  const RouterFacts router = launch_model_facts(model.name, plan.problem.training.seq).router;
  const bool sigmoid = moe.score_bias || router.sigmoid;
  if (sigmoid) put(out, "moe-router-score-function", "sigmoid");
  if (moe.score_bias) put(out, "moe-router-enable-expert-bias");
  if (router.groups > 0) {
    put(out, "moe-router-num-groups", router.groups);
    put(out, "moe-router-group-topk", router.group_top_k);
  }
  if (!router.scaling.empty()) put(out, "moe-router-topk-scaling-factor", std::string(router.scaling));
  // Over the one chosen expert a softmax is 1 and trains nothing: Megatron refuses it.
  if (router.pre_softmax || (moe.top_k == 1 && !sigmoid)) put(out, "moe-router-pre-softmax");
  put(out, "moe-router-load-balancing-type", std::string(router.loss));
  put(out, "moe-aux-loss-coeff", std::string(router.coefficient));
}

}  // namespace

std::vector<std::string> flags_of_model(const Plan& plan) {
  constexpr std::array<std::string_view, 4> kOfJob = {"seq-length", "max-position-embeddings", "attention-dropout",
                                                      "hidden-dropout"};
  FlagList settings = model_arguments(plan).settings;
  if (plan.problem.model.moe()) experts(settings, plan);
  std::vector<std::string> flags;
  for (MegatronSetting& setting : settings)
    if (std::find(kOfJob.begin(), kOfJob.end(), setting.flag) == kOfJob.end()) flags.push_back(std::move(setting.flag));
  return flags;
}

MegatronGroup expert_arguments(const Plan& plan) {
  const Stack& stack = plan.problem.training.stack;
  FlagList out;
  experts(out, plan);
  if (stack.grouped_gemm) put(out, "moe-grouped-gemm");
  const Layout& layout = plan.best.layout;
  const bool once = stack.dedup_dispatch && layout.ep * layout.etp > 1;  // flex has nothing to send else, and says so
  put(out, "moe-token-dispatcher-type", once ? "flex" : "alltoall");
  // HybridEP knows NVLink domains of several nodes; before core 0.16 DeepEP is the only one.
  const Cluster& cluster = plan.problem.cluster;
  const bool domain = cluster.scale_up_size() > cluster.gpus_per_node;
  const bool hybrid = domain && (plan.problem.release == 0 || plan.problem.release >= 16);
  if (once) put(out, "moe-flex-dispatcher-backend", hybrid ? "hybridep" : "deepep");
  put(out, "moe-router-dtype", "fp32");
  if (stack.fused_router) put(out, "moe-router-fusion");
  if (stack.ep_overlap && layout.ep > 1) put(out, "overlap-moe-expert-parallel-comm");
  return {"MOE_ARGS", std::move(out)};
}

}  // namespace plan::megatron
