// What a profile measured of what an answer rests on. Tested by tests/cli/claims_test.cpp.
#include "planner/estimate/claims.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "formulas/layer_rows.hpp"
#include "formulas/names.hpp"

namespace plan {
namespace {

/// A broadcast goes round the ring of an all-gather.
Collective measured_like(Collective op) { return op == Collective::Broadcast ? Collective::AllGather : op; }

bool gemm_measured(const Gpu& gpu, DType dtype) {
  return gpu.gemm[static_cast<std::size_t>(dtype)][0].fit.provenance == Provenance::Measured;
}

bool has_attention(const Model& model) {
  return std::any_of(model.kinds.begin(), model.kinds.end(),
                     [](const Layer& layer) { return core_of(layer) == MixerCore::Attention; });
}

/// Measured on a group of as many members, or on a smaller and a larger one.
template <class Ranks>
bool spanned(int ranks, const Ranks& measured) {
  bool below = false, above = false;
  for (const int known : measured) below = below || known <= ranks, above = above || known >= ranks;
  return below && above;
}

bool collective_measured(const Cluster& cluster, const Communication& row) {
  std::vector<int> ranks;
  const int inside = row.group.inside(cluster.scale_up_size());
  if (inside == row.group.size) {
    for (const CollectiveFit& fit : cluster.gpu.collectives)
      if (fit.op == measured_like(row.op) && fit.provenance == Provenance::Measured) ranks.push_back(fit.ranks);
    return spanned(row.op == Collective::SendRecv ? 2 : row.group.size, ranks);
  }
  for (const NetworkCurve& curve : cluster.network)
    if (curve.fit.op == measured_like(row.op) && (curve.inside == inside || row.op == Collective::SendRecv))
      ranks.push_back(curve.fit.ranks);
  return row.op == Collective::SendRecv ? !ranks.empty() : spanned(row.group.size, ranks);
}

Seconds term_of(const Terms& terms, Axis axis) {
  switch (axis) {
    case Axis::Tp: return terms.tp;
    case Axis::Cp: return terms.cp;
    case Axis::Ep: return terms.ep;
    case Axis::Pp: return terms.pp;
    case Axis::Dp: return terms.dp;
  }
  return {};
}

bool memory_metric(Metric metric) {
  const MemoryCategory* category = category_of(metric);
  return metric == Metric::MemoryFit || metric == Metric::MemoryPeak || (category != nullptr && category->outside);
}

}  // namespace

bool rests_on_time(Metric metric) {
  switch (metric) {
    case Metric::StepTime:
    case Metric::Mfu:
    case Metric::TokensPerSecond:
    case Metric::GpuHours:
    case Metric::Cost: return true;
    case Metric::MemoryFit:
    case Metric::MemoryPeak:
    case Metric::MemoryCategory:
    case Metric::MemoryHost:
    case Metric::Gpus:
    case Metric::BytesTp:
    case Metric::BytesCp:
    case Metric::BytesEp:
    case Metric::BytesPp:
    case Metric::BytesDp: break;
  }
  return false;  // of memory there is one value a category, and no word for each
}

ClaimCoverage time_coverage(const Problem& problem, const Estimate& estimate) {
  const Cluster& cluster = problem.cluster;
  const Terms& terms = estimate.terms;
  ClaimCoverage out;
  const auto need = [&](bool measured, std::string what) {
    if (!measured && std::find(out.missing.begin(), out.missing.end(), what) == out.missing.end())
      out.missing.push_back(std::move(what));
    return measured;
  };
  const DType dtype = gemm_dtype(problem.training.precision);
  bool kernels = need(gemm_measured(cluster.gpu, dtype), fmt::format("GEMM {}", name(dtype)));
  if (has_attention(problem.model))
    kernels &= need(cluster.gpu.attention[0].provenance == Provenance::Measured, "attention");
  const bool bandwidth = need(cluster.probed.bandwidth, "memory bandwidth");
  if (problem.training.offload.any()) kernels &= need(cluster.probed.host_link, "host link");
  double covered = kernels && bandwidth ? (terms.compute + terms.recompute + terms.bubble).value : 0;
  double whole = (terms.compute + terms.recompute + terms.bubble + terms.optimizer).value;
  if (bandwidth) covered += terms.optimizer.value;
  for (const Axis axis : {Axis::Tp, Axis::Cp, Axis::Ep, Axis::Pp, Axis::Dp}) {
    double exposed = 0, known = 0;
    for (const Communication& row : estimate.communication) {
      if (row.axis != axis || row.exposed.value <= 0) continue;
      exposed += row.exposed.value;
      if (need(collective_measured(cluster, row),
               fmt::format("{} over {} GPUs on {}", name(row.op), row.group.size, row.tier)))
        known += row.exposed.value;
    }
    const double term = term_of(terms, axis).value;
    whole += term;
    if (exposed > 0) covered += term * known / exposed;
  }
  out.share = whole > 0 ? covered / whole : 0;
  return out;
}

std::vector<std::string> unmeasured_behind(Metric metric, const Problem& problem, const Estimate& estimate) {
  const Cluster& cluster = problem.cluster;
  if (rests_on_time(metric)) return time_coverage(problem, estimate).missing;
  if (!memory_metric(metric)) return {};
  std::vector<std::string> missing;
  if (!cluster.probed.memory) missing.emplace_back("memory");
  const bool sends = estimate.layout.world() > 1;
  if (sends && cluster.nccl.all_reduce.value <= 0) missing.emplace_back("NCCL's memory");
  return missing;
}

}  // namespace plan
