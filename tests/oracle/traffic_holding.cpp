// What each rank holds of a model, tensor by tensor. Part of the count that tests/planner/traffic_test.cpp holds
// against the planner.
#include "oracle/traffic_holding.hpp"

#include <algorithm>

namespace plan::oracle {

std::vector<std::pair<int, double>> chunks_of(const Layout& layout, int stage) {
  std::vector<std::pair<int, double>> chunks;
  if (layout.schedule == Schedule::DualPipe) {
    chunks = {{stage, 0.5}, {layout.pp - 1 - stage, 0.5}};
    return chunks;
  }
  const bool folded = layout.schedule == Schedule::ZbV || layout.schedule == Schedule::VHalf ||
                      layout.schedule == Schedule::VMin || layout.schedule == Schedule::DualPipeV;
  for (int pass = 0; pass < layout.vp; ++pass)
    chunks.emplace_back(pass * layout.pp + (folded && pass % 2 == 1 ? layout.pp - 1 - stage : stage), 1.0);
  return chunks;
}

int chunks_in_all(const Layout& layout) {
  return layout.schedule == Schedule::DualPipe ? layout.pp : layout.pp * layout.vp;
}

std::vector<int> layers_of(const TrafficCase& job, int chunk) {
  std::size_t first = 0;
  for (int before = 0; before < chunk; ++before)
    first += static_cast<std::size_t>(job.layout.chunk_layers[static_cast<std::size_t>(before)]);
  const auto begin = job.model.layers.begin() + static_cast<std::ptrdiff_t>(first);
  return {begin, begin + job.layout.chunk_layers[static_cast<std::size_t>(chunk)]};
}

double micro_batches_of(const TrafficCase& job) {
  return static_cast<double>(job.training.global_batch) / job.layout.dp / job.layout.micro_batch;
}

namespace {

void attention_tensors(const AttentionShape& a, double h, int tp, Parameters& p) {
  const double q = ints(a.heads) * ints(a.head_dim) / tp;
  // A rank has whole KV heads, at least one.
  const double kv = std::max(1.0, ints(a.kv_heads) / tp) * ints(a.head_dim);
  p.dense += q * h + (a.output_gate ? q * h : 0) + kv * h + kv * h + h * q;
  if (a.qkv_bias) p.dense += q + kv + kv;
  if (a.out_bias) p.dense += h;
  if (a.sinks) p.dense += ints(a.heads) / tp;
  if (a.qk_norm == QkNorm::PerHead) p.dense += ints(a.head_dim) + ints(a.head_dim);
  if (a.qk_norm == QkNorm::Full) p.dense += ints(a.heads + a.kv_heads) * ints(a.head_dim);
}

void latent_tensors(const LatentShape& a, double h, int tp, Parameters& p) {
  const double heads = ints(a.heads) / tp, nope = ints(a.nope_dim), rope = ints(a.rope_dim), v = ints(a.value_dim);
  const double q_rank = ints(a.q_rank), kv_rank = ints(a.kv_rank);
  if (a.q_rank > 0)
    p.dense += q_rank * h + q_rank + heads * (nope + rope) * q_rank;
  else
    p.dense += heads * (nope + rope) * h;
  p.dense += (kv_rank + rope) * h + kv_rank + heads * nope * kv_rank + heads * v * kv_rank + h * heads * v;
}

void mamba_tensors(const Mamba2Shape& a, double h, int tp, Parameters& p) {
  const double inner = ints(a.heads * a.head_dim) / tp, state = ints(a.groups * a.state) / tp,
               heads = ints(a.heads) / tp;
  p.dense += (inner + inner + state + state + heads) * h;             // z, x, B, C, dt
  p.dense += (inner + 2 * state) * ints(a.conv) + inner + 2 * state;  // convolution and its bias
  p.dense += heads + heads + heads + inner + h * inner;               // A, D, dt bias, norm, output
}

void delta_tensors(const DeltaNetShape& a, double h, int tp, Parameters& p) {
  const double key = ints(a.key_heads * a.key_dim) / tp, value = ints(a.value_heads * a.value_dim) / tp,
               heads = ints(a.value_heads) / tp;
  p.dense += (key + key + value + value + heads + heads) * h;  // q, k, v, gate, beta, decay
  p.dense += (key + key + value) * ints(a.conv) + heads + heads + ints(a.value_dim) + h * value;
}

void ffn_tensors(const Layer& layer, double h, const Layout& l, Parameters& p) {
  if (layer.ffn == Ffn::Dense) {
    const double f = ints(layer.dense.width) / l.tp;
    p.dense += (layer.dense.gated ? 3 : 2) * f * h;
    if (layer.dense.bias) p.dense += (layer.dense.gated ? 2 : 1) * f + h;
  }
  if (layer.ffn != Ffn::Moe) return;
  const MoeShape& m = layer.moe;
  const double f = ints(m.expert_width) / l.etp, width = m.latent > 0 ? ints(m.latent) : h;
  p.dense += ints(m.experts) * h + (m.router_bias ? ints(m.experts) : 0) + (m.shared_gate ? h : 0);
  if (m.latent > 0) p.dense += ints(m.latent) * h + h * ints(m.latent);
  p.dense += (m.gated ? 3 : 2) * ints(m.shared_width) / l.tp * h;
  double one = (m.gated ? 3 : 2) * f * width;
  if (m.expert_bias) one += (m.gated ? 2 : 1) * f + width;
  p.expert += ints(m.experts) / l.ep * one;
}

Parameters parameters_of(const TrafficCase& job, int kind) {
  const Layer& layer = job.model.kinds[static_cast<std::size_t>(kind)];
  const double h = ints(job.model.hidden);
  const int tp = job.layout.tp;
  Parameters p;
  switch (layer.mixer) {
    case Mixer::None: break;
    case Mixer::Attention: attention_tensors(layer.attention, h, tp, p); break;
    case Mixer::Latent: latent_tensors(layer.latent, h, tp, p); break;
    case Mixer::Mamba2: mamba_tensors(layer.mamba, h, tp, p); break;
    case Mixer::DeltaNet: delta_tensors(layer.delta, h, tp, p); break;
  }
  ffn_tensors(layer, h, job.layout, p);
  p.dense += layer.norms * h * (job.model.norm == Norm::Layer && job.model.norm_bias ? 2 : 1);
  return p;
}

}  // namespace

double table_of(const TrafficCase& job) {
  const double tp = job.layout.tp;
  double rows = ints(job.model.vocab) / tp;
  if (job.training.stack.states == StateLayout::Megatron || job.training.stack.states == StateLayout::MegatronFsdp)
    rows = static_cast<double>((job.model.vocab + 128 * job.layout.tp - 1) / (128 * job.layout.tp)) * 128;
  return rows * ints(job.model.hidden);
}

Holding holding_of(const TrafficCase& job, int stage) {
  const Model& model = job.model;
  Holding out;
  const auto meet = [&](int kind) {
    const Parameters p = parameters_of(job, kind);
    out.sum.dense += p.dense, out.sum.expert += p.expert;
    ++out.layers;
    out.routed += model.kinds[static_cast<std::size_t>(kind)].ffn == Ffn::Moe;
  };
  for (const auto& [chunk, share] : chunks_of(job.layout, stage)) {
    for (const int kind : layers_of(job, chunk)) meet(kind);
    out.first = out.first || chunk == 0, out.last = out.last || chunk == chunks_in_all(job.layout) - 1;
  }
  const double h = ints(model.hidden), norm = model.norm == Norm::Layer && model.norm_bias ? 2 * h : h;
  const double table = table_of(job);
  const bool predicts = out.last && model.mtp.depth > 0;
  if (predicts)
    for (int depth = 0; depth < model.mtp.depth; ++depth) {
      out.sum.dense += 2 * h * h / job.layout.tp + 3 * h;
      for (const int kind : model.mtp.kinds) meet(kind);
    }
  // Prediction modules read the embedding's table again, on their own rank.
  if (out.first || predicts) out.sum.dense += table + ints(model.positions) * h + (model.embedding_norm ? norm : 0);
  if (out.last) {
    out.sum.dense += norm + (model.head_bias ? table / h : 0);
    if (!model.tied || !(out.first || predicts)) out.sum.dense += table;
  }
  return out;
}

}  // namespace plan::oracle
