// What each rank holds of a model, tensor by tensor. Part of the count that tests/planner/traffic_test.cpp holds
// against the planner.
#include "oracle/traffic_holding.hpp"

#include <algorithm>
#include <set>

#include "tests/oracle/pipeline_sim.hpp"

namespace plan::oracle {

std::vector<std::pair<int, double>> chunks_of(const Layout& layout, int stage) {
  const auto ranks = orders({layout.schedule, layout.pp, layout.vp, 2 * layout.pp});
  std::set<int> chunks;  // those that its schedule has it work on
  for (const Op& op : ranks[static_cast<std::size_t>(stage)]) chunks.insert(op.stage);
  std::vector<std::pair<int, double>> out;  // under DualPipe twice as many, each for every second micro-batch
  for (const int chunk : chunks) out.emplace_back(chunk, layout.vp / static_cast<double>(chunks.size()));
  return out;
}

int chunks_in_all(const Layout& layout) { return layout.pp * layout.vp; }

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
  p.dense += mixer_count(layer.mixer).tensors(layer, h, tp);
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
