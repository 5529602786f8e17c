#include "formulas/activation.hpp"

#include <algorithm>

namespace plan {
namespace {

/// What every line of a ledger is made of.
struct Units {
  double tokens;     ///< N
  double replica;    ///< 1/t under sequence parallelism, else 1: what tensor parallelism leaves whole
  double slice;      ///< 1/t: what tensor parallelism always splits
  double element;    ///< bytes of an activation
  double input;      ///< bytes of a tensor kept only as a GEMM's input
  double quantised;  ///< extra bytes when a tensor is kept both as itself and as a quantised GEMM input
};

double activation_bytes(Precision precision) { return precision == Precision::Fp32 ? 4.0 : 2.0; }

Units units(const Training& training, const Layout& layout) {
  const double t = layout.tp;
  const double input = gemm_input_bytes(training.precision);
  return {rank_tokens(training, layout),
          layout.sequence_parallel ? 1 / t : 1.0,
          1 / t,
          activation_bytes(training.precision),
          input,
          is_fp8(training.precision) || training.precision == Precision::Nvfp4 ? input : 0.0};
}

double statistics_bytes(const Model& model) { return model.norm == Norm::Layer ? 8.0 : 4.0; }

/// KV width on one rank: heads are copied when there are fewer than tensor-parallel ranks.
double kv_on_rank(const AttentionShape& shape, int tp) {
  return static_cast<double>(std::max<std::int64_t>(shape.kv_heads, tp)) * static_cast<double>(shape.head_dim) / tp;
}

/// All-to-all and all-gather context parallelism keep the kernel's output beside its reordered copy [TE].
bool keeps_output_twice(const Training& training, const Layout& layout) {
  const bool reordered = layout.cp > 1 && layout.cp_kind != CpKind::Ring;
  return reordered || (training.stack.batch_first_attention && layout.micro_batch > 1);
}

/// Without a fused kernel: softmax output, in fp32 besides where its operations are not fused, and its dropout's mask
/// and output.
double core_per_token(const Training& training, double heads_on_rank, double element) {
  if (training.stack.flash_attention) return 4 * heads_on_rank;
  const double masks = training.dropout > 0 ? 1 + element : 0;
  const double wide = training.stack.fused_softmax ? 0 : 4;
  return heads_on_rank * static_cast<double>(training.seq) * (element + wide + masks);
}

void add_attention(LayerLedger& out, const Layer& layer, const Training& training, const Layout& layout, Units u) {
  const AttentionShape& shape = layer.attention;
  const double q = static_cast<double>(shape.q()) * u.slice;
  const double kv = kv_on_rank(shape, layout.tp);
  const double kept_kv = training.stack.expands_kv ? q : kv;
  out.mixer = u.element * (2 * q + 2 * kept_kv) + u.quantised * q;
  if (keeps_output_twice(training, layout)) out.mixer += u.element * q;
  if (shape.qk_norm != QkNorm::None) {  // inputs of the two norms, one rsigma a head or a row
    const double rows = shape.qk_norm == QkNorm::Full ? 2 : static_cast<double>(shape.heads + shape.kv_heads) * u.slice;
    out.mixer += u.element * (q + kv) + 4 * rows;
  }
  if (shape.output_gate) out.mixer += u.element * 2 * q;  // gate logits, gated output
  out.core = core_per_token(training, static_cast<double>(shape.heads) * u.slice, u.element);
}

void add_latent(LayerLedger& out, const Layer& layer, const Training& training, const Layout& layout, Units u) {
  const LatentShape& shape = layer.latent;
  const double heads = static_cast<double>(shape.heads) * u.slice;
  const double ranks = static_cast<double>(shape.q_rank + shape.kv_rank);
  const double values = heads * static_cast<double>(shape.value_dim);
  out.mixer = (u.element + u.input) * ranks * u.replica + u.element * values + u.quantised * values;
  if (keeps_output_twice(training, layout)) out.mixer += u.element * values;
  if (shape.index_heads > 0)  // queries, key with its norm's input, head weights, chosen positions
    out.mixer += (u.element * static_cast<double>((shape.index_heads + 2) * shape.index_dim) +
                  4 * static_cast<double>(shape.index_heads) + 8 * static_cast<double>(shape.index_top_k)) *
                 u.replica;
  out.latent_up = u.element * (2 * heads * static_cast<double>(shape.qk_dim()) + values);
  out.core = core_per_token(training, heads, u.element);
  out.statistics += (shape.q_rank > 0 ? 8.0 : 4.0) * u.replica;
}

/// mamba_split_conv1d_scan_combined keeps the projected input and the scan's output; the output
/// projection its input; the gated norm one rsigma a group [own].
void add_mamba(LayerLedger& out, const Layer& layer, Units u) {
  const Mamba2Shape& shape = layer.mamba;
  const double inner = static_cast<double>(shape.heads * shape.head_dim);
  const double projected =
      2 * inner + 2 * static_cast<double>(shape.groups * shape.state) + static_cast<double>(shape.heads);
  out.mixer = (u.element * (projected + inner) + u.input * inner + 4 * static_cast<double>(shape.groups)) * u.slice;
}

/// Inputs and outputs of the short convolutions, keys repeated to the value heads, decay and write
/// gates in fp32, the 64-wide triangular blocks of the chunked rule, output gate and output [own].
void add_delta(LayerLedger& out, const Layer& layer, Units u) {
  const DeltaNetShape& shape = layer.delta;
  constexpr double kChunk = 64;
  const double heads = static_cast<double>(shape.value_heads);
  const double keys = static_cast<double>(shape.key_heads * shape.key_dim);
  const double values = heads * static_cast<double>(shape.value_dim);
  const double repeated = 2 * heads * static_cast<double>(shape.key_dim);
  out.mixer =
      (u.element * (2 * (2 * keys + values) + repeated + heads * kChunk + 2 * values) + u.input * values + 12 * heads) *
      u.slice;
}

/// Activation input (gate and up) of one FFN of `width`, per token.
double activation_input(bool gated, double width, const Stack& stack, Units u) {
  const double input = stack.fp8_activation_input ? std::min(1.0, u.element) : u.element;
  return input * (gated ? 2 : 1) * width;
}

/// SiLU's output, which an unfused gate multiplies and keeps.
double activation_factor(bool gated, double width, const Stack& stack, Units u) {
  return gated && !stack.fused_activation ? u.element * width : 0;
}

/// Copies of a token among the experts of a rank.
double routed_copies(const MoeShape& shape, const Training& training, Units u) {
  return static_cast<double>(shape.top_k) * training.stack.routing_imbalance * u.replica;
}

/// Width that the experts see of a token.
double routed_hidden(const Model& model, const MoeShape& shape) {
  return static_cast<double>(shape.latent > 0 ? shape.latent : model.hidden);
}

void add_moe(LayerLedger& out, const Model& model, const MoeShape& shape, const Training& training,
             const Layout& layout, Units u) {
  const double latent = static_cast<double>(shape.latent);
  const double width = static_cast<double>(shape.expert_width);
  const double expert_hidden = routed_hidden(model, shape);
  const double copies = routed_copies(shape, training, u);
  out.router = 8 * static_cast<double>(shape.experts) * u.replica + 2 * u.element * latent * u.replica;
  out.routed =
      copies * (u.input * expert_hidden * layout.etp + activation_input(shape.gated, width, training.stack, u) + 4);
  // SwiGLU is fused with its weighting by the probabilities; GELU and relu^2 keep their unweighted output too.
  if (!shape.gated) out.routed += copies * u.element * width;
  out.routed_activation = copies * (u.input * width + activation_factor(shape.gated, width, training.stack, u));
  if (training.stack.legacy_moe_probs) out.routed_output = copies * u.element * expert_hidden;
  if (training.stack.weighs_outputs) out.routed_output = copies * 4 * expert_hidden;
  const double shared = static_cast<double>(shape.shared_width);
  out.shared = (activation_input(shape.gated, shared, training.stack, u) + u.input * shared +
                activation_factor(shape.gated, shared, training.stack, u)) *
               u.slice;
}

void add_mixer(LayerLedger& out, const Layer& layer, const Training& training, const Layout& layout, Units u) {
  switch (layer.mixer) {
    case Mixer::None: return;
    case Mixer::Attention: return add_attention(out, layer, training, layout, u);
    case Mixer::Latent: return add_latent(out, layer, training, layout, u);
    case Mixer::Mamba2: return add_mamba(out, layer, u);
    case Mixer::DeltaNet: return add_delta(out, layer, u);
  }
}

/// Inputs of frozen linears need no keeping: only an adapter on them makes a weight gradient.
void drop_frozen_inputs(LayerLedger& out, const Layer& layer, const Training& training, double norm_output, Units u) {
  if (!training.lora.attention) out.mixer_norm = 0;
  if (training.lora.ffn || layer.ffn != Ffn::Dense) return;
  out.ffn_norm -= norm_output;
  out.mlp_activation -= u.input * static_cast<double>(layer.dense.width) * u.slice;
}

void scale(LayerLedger& ledger, double tokens) {
  for (double* field :
       {&ledger.mixer_input, &ledger.mixer_norm, &ledger.mixer, &ledger.latent_up, &ledger.core, &ledger.ffn_input,
        &ledger.ffn_norm, &ledger.mlp, &ledger.mlp_activation, &ledger.router, &ledger.routed,
        &ledger.routed_activation, &ledger.routed_output, &ledger.shared, &ledger.statistics, &ledger.masks})
    *field *= tokens;
}

}  // namespace

double rank_tokens(const Training& training, const Layout& layout) {
  return static_cast<double>(training.seq) * layout.micro_batch / layout.cp;
}

double gemm_input_bytes(Precision precision) {
  switch (precision) {
    case Precision::Fp32: return 4;
    case Precision::Fp16:
    case Precision::Bf16: return 2;
    case Precision::Fp8Delayed:
    case Precision::Fp8Tensorwise: return 1;
    case Precision::Fp8Blockwise: return 1 + 4.0 / 128;  // one fp32 scale for 1 x 128
    case Precision::Mxfp8: return 33.0 / 32;             // one byte of scale for 32
    case Precision::Nvfp4: return 0.5 + 1.0 / 16;        // one byte of scale for 16
  }
  return 2;
}

LayerLedger layer_ledger(const Model& model, const Layer& layer, const Training& training, const Layout& layout) {
  const Units u = units(training, layout);
  const double hidden = static_cast<double>(model.hidden) * u.replica;
  const double gathered = training.stack.keeps_gathered ? static_cast<double>(model.hidden) : hidden;
  const bool mixer = layer.mixer != Mixer::None, ffn = layer.ffn != Ffn::None;
  const bool parallel = mixer && ffn && layer.norms == 1;  // Falcon: one norm feeds both
  const bool eager = !training.stack.fused_norms && model.norm == Norm::Rms;
  const double normalised = eager ? 4 * hidden : 0;  // the fp32 copy's other two bytes, the normalised input
  const double post = layer.norms == 4 ? u.element * hidden : 0;  // Gemma: inputs of the norms behind
  LayerLedger out;
  if (mixer) {
    out.mixer_input = u.element * hidden + post + normalised;
    out.mixer_norm = u.input * gathered;
    add_mixer(out, layer, training, layout, u);
  }
  if (ffn && !parallel) {
    out.ffn_input = u.element * hidden + post + normalised;
    out.ffn_norm = u.input * gathered;
  }
  if (layer.ffn == Ffn::Dense) {
    const double width = static_cast<double>(layer.dense.width) * u.slice;
    out.mlp = activation_input(layer.dense.gated, width, training.stack, u);
    out.mlp_activation = u.input * width + activation_factor(layer.dense.gated, width, training.stack, u);
  }
  if (layer.ffn == Ffn::Moe) add_moe(out, model, layer.moe, training, layout, u);
  out.statistics += layer.norms * statistics_bytes(model) * u.replica;
  if (training.dropout > 0) out.masks = (mixer && ffn ? 2 : 1) * hidden;
  if (training.adapters()) drop_frozen_inputs(out, layer, training, parallel ? 0 : u.input * gathered, u);
  scale(out, u.tokens);
  return out;
}

LayerLedger left_on_gpu(LayerLedger ledger, const Layer& layer, const Model& model, const Training& training,
                        const Layout& layout) {
  const std::uint16_t modules = training.offload.modules;
  if (modules == 0) return ledger;
  const Units u = units(training, layout);
  if (modules & kOffloadAttentionNorm) ledger.mixer_input = 0;
  if (modules & kOffloadQkvLinear) ledger.mixer_norm = 0;
  if (modules & kOffloadMlpNorm) ledger.ffn_input = 0;
  double output = 0;  // of the attention, on this rank, elements a token
  if (layer.mixer == Mixer::Attention) {
    output = static_cast<double>(layer.attention.q()) * u.slice;
    if (modules & kOffloadCoreAttention)
      ledger.mixer -= u.tokens * u.element * (output + 2 * kv_on_rank(layer.attention, layout.tp));
  }
  if (layer.mixer == Mixer::Latent) {
    output = static_cast<double>(layer.latent.heads * layer.latent.value_dim) * u.slice;
    if (modules & kOffloadCoreAttention) ledger.latent_up = 0;
  }
  if (modules & kOffloadAttentionProjection) ledger.mixer -= u.tokens * u.element * output;
  if (layer.ffn != Ffn::Moe) return ledger;
  const double copies = u.tokens * routed_copies(layer.moe, training, u);
  if (modules & kOffloadExpertFc1) ledger.routed -= copies * u.input * routed_hidden(model, layer.moe) * layout.etp;
  if (modules & kOffloadMoeActivation)
    ledger.routed -=
        copies * activation_input(layer.moe.gated, static_cast<double>(layer.moe.expert_width), training.stack, u);
  return ledger;
}

double kept_ops(const Model& model, const Layer& layer, const LayerLedger& ledger, const Training& training,
                const Layout& layout) {
  const Units u = units(training, layout);
  double elements = 0;  // outputs of the first, third, ... GEMM
  if (layer.mixer == Mixer::Attention)
    elements += static_cast<double>(layer.attention.q()) * u.slice + kv_on_rank(layer.attention, layout.tp);
  if (layer.ffn == Ffn::Dense) elements += static_cast<double>(layer.dense.width) * u.slice;
  if (layer.ffn == Ffn::Moe)
    elements += static_cast<double>(layer.moe.expert_width * layer.moe.top_k) * u.replica +
                static_cast<double>(layer.moe.shared_width) * u.slice;
  elements += static_cast<double>(model.hidden) * u.replica;
  const double output = layer.mixer == Mixer::Attention ? static_cast<double>(layer.attention.q()) * u.slice : 0;
  const double kept = u.tokens * u.element * (static_cast<double>(model.hidden) * u.replica + output + elements);
  return std::min(ledger.total(), kept + ledger.core);
}

double kept_selective(const LayerLedger& ledger, unsigned modules, bool fused_norms) {
  double kept = ledger.total();
  if (modules & kRecomputeCoreAttention) kept -= ledger.core;
  if (modules & kRecomputeLatentUp) kept -= ledger.latent_up;
  const bool mlp = modules & kRecomputeMlp;
  if (mlp) kept -= ledger.mlp;
  if (mlp || (modules & kRecomputeMlpActivation)) kept -= ledger.mlp_activation;
  if (mlp && fused_norms && ledger.mlp > 0) kept -= ledger.ffn_norm;
  if (modules & kRecomputeMoe)
    kept -= ledger.router + ledger.routed + ledger.routed_activation + ledger.routed_output + ledger.shared;
  else {
    if (modules & kRecomputeMoeActivation) kept -= ledger.routed_activation;
    if (modules & kRecomputeSharedExperts) kept -= ledger.shared;
  }
  if ((modules & kRecomputeNorm) && !fused_norms) {
    kept -= ledger.mixer_norm;
    if (!mlp) kept -= ledger.ffn_norm;
  }
  return kept;
}

double layer_checkpoint(const Model& model, const Training& training, const Layout& layout) {
  const Units u = units(training, layout);
  return u.tokens * u.element * static_cast<double>(model.hidden) * u.replica;
}

}  // namespace plan
