// Limits on what a job needs, and whether an estimate keeps them. Tested by tests/planner/budget_test.cpp.
#include "planner/estimate/budget.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "planner/memory/host_memory.hpp"

namespace plan {
namespace {

/// The table, one row for all categories of memory.
constexpr MetricRow kMetrics[] = {
    {Metric::MemoryFit, "memory.fit", MetricUnit::Memory, false, "the peak against the GPU's memory, always checked"},
    {Metric::MemoryPeak, "memory.peak", MetricUnit::Memory, false, "peak of the worst GPU"},
    {Metric::MemoryCategory, "", MetricUnit::Memory, false, ""},  // a row for each category
    {Metric::MemoryHost, "memory.host", MetricUnit::Memory, false, "what ranks keep in a node's memory, where known"},
    {Metric::StepTime, "step_time", MetricUnit::Time, false, "one optimizer step"},
    {Metric::Mfu, "mfu", MetricUnit::Ratio, true, "model FLOPs utilisation, causal attention"},
    {Metric::TokensPerSecond, "tokens_per_s", MetricUnit::Rate, true, "throughput of the whole job"},
    {Metric::Gpus, "gpus", MetricUnit::Count, false, "number of GPUs"},
    {Metric::GpuHours, "gpu_hours", MetricUnit::Hours, false, "of the whole run; needs `tokens`"},
    {Metric::Cost, "cost", MetricUnit::Money, false, "of the whole run; needs `tokens` and a price"},
    {Metric::BytesTp, "communication.tp.bytes", MetricUnit::Traffic, false,
     "tensor parallelism, sent by a GPU in a step"},
    {Metric::BytesCp, "communication.cp.bytes", MetricUnit::Traffic, false, "context parallelism, likewise"},
    {Metric::BytesEp, "communication.ep.bytes", MetricUnit::Traffic, false, "expert parallelism, likewise"},
    {Metric::BytesPp, "communication.pp.bytes", MetricUnit::Traffic, false, "between pipeline stages, likewise"},
    {Metric::BytesDp, "communication.dp.bytes", MetricUnit::Traffic, false, "data parallelism, likewise"},
};

/// Bytes of the stage that holds the most of one category.
double most(const Estimate& e, Bytes StageMemory::*category) {
  std::int64_t most = 0;
  for (const StageMemory& stage : e.stages) most = std::max(most, (stage.*category).value);
  return static_cast<double>(most);
}

double sent(const Estimate& e, Axis axis) {
  double bytes = 0;
  for (const Communication& row : e.communication)
    if (row.axis == axis) bytes += static_cast<double>(row.per_step.value);
  return bytes;
}

double gpu_hours(const Estimate& e, int gpus, const RunLength& run) {
  return e.tokens_per_s > 0 ? run.tokens / e.tokens_per_s / 3600 * gpus : 0;
}

double value_of(Metric metric, const Estimate& e, JobGpus gpus, const RunLength& run) {
  if (const MemoryCategory* category = category_of(metric)) return most(e, category->bytes);
  switch (metric) {
    case Metric::MemoryFit:
    case Metric::MemoryPeak: return static_cast<double>(e.peak.value);
    case Metric::MemoryCategory: break;
    case Metric::StepTime: return e.step_time.value;
    case Metric::Mfu: return e.mfu.model_causal;
    case Metric::TokensPerSecond: return e.tokens_per_s;
    case Metric::Gpus: return gpus.given;
    case Metric::GpuHours: return gpu_hours(e, gpus.used, run);
    case Metric::Cost: return gpu_hours(e, gpus.used, run) * run.price;
    case Metric::BytesTp: return sent(e, Axis::Tp);
    case Metric::BytesCp: return sent(e, Axis::Cp);
    case Metric::BytesEp: return sent(e, Axis::Ep);
    case Metric::BytesPp: return sent(e, Axis::Pp);
    case Metric::BytesDp: return sent(e, Axis::Dp);
    case Metric::MemoryHost: return static_cast<double>(e.host.value);
  }
  return 0;
}

/// Room that `value` leaves under a bound; negative: broken.
double room(const Bound& bound, double value) {
  return bound.sense == Sense::AtMost ? bound.value - value : value - bound.value;
}

/// What a bound on the change compares: the change, or its share of the baseline.
double change(double now, double before, bool relative) {
  if (!relative) return now - before;
  if (now == before) return 0;
  return before != 0 ? (now - before) / before : (now > before ? 1e300 : -1e300);
}

/// The values that count against a bound: the end of the interval that is worse for it, and the better one.
struct Ends {
  double worse, better;
};
Ends ends(const Bound& bound, const Limit& limit, const Figure& now, std::optional<double> before) {
  if (limit.since_baseline) {
    const double moved = change(now.value, before.value_or(now.value), bound.relative);
    return {moved, moved};
  }
  return bound.sense == Sense::AtMost ? Ends{now.high, now.low} : Ends{now.low, now.high};
}

}  // namespace

std::span<const MetricRow> metrics() {
  static const std::vector<MetricRow> rows = [] {
    std::vector<MetricRow> all;
    for (const MetricRow& row : kMetrics) {
      if (row.metric != Metric::MemoryCategory) {
        all.push_back(row);
        continue;
      }
      int metric = static_cast<int>(row.metric);
      for (const MemoryCategory& category : kMemoryCategories)
        all.push_back({static_cast<Metric>(metric++), category.metric, row.unit, row.more_is_better, category.help});
    }
    return all;
  }();
  return rows;
}

const MemoryCategory* category_of(Metric metric) {
  const int index = static_cast<int>(metric) - static_cast<int>(Metric::MemoryCategory);
  return index >= 0 && metric < Metric::StepTime ? &kMemoryCategories[index] : nullptr;
}

const MetricRow& metric_row(Metric metric) {
  for (const MetricRow& row : metrics())
    if (row.metric == metric) return row;
  return metrics().front();
}

const MetricRow* find_metric(std::string_view name) {
  for (const MetricRow& row : metrics())
    if (row.name == name && row.metric != Metric::MemoryFit) return &row;
  return nullptr;
}

Figure measure(Metric metric, const Estimate& estimate, JobGpus gpus, const RunLength& run) {
  const double value = value_of(metric, estimate, gpus, run);
  if (metric != Metric::MemoryPeak && metric != Metric::MemoryFit) return {value, value, value};
  return {value, static_cast<double>(estimate.peak_low.value), static_cast<double>(estimate.peak_high.value)};
}

Verdict judge(const Limit& limit, const Figure& now, std::optional<double> before, Risk risk) {
  Verdict verdict{.limit = limit, .now = now, .before = before};
  const auto settle = [&](const Bound& bound, State broken) {
    const Ends at = ends(bound, limit, now, before);
    verdict.counted = at.worse, verdict.margin = room(bound, at.worse), verdict.bound = bound;
    if (room(bound, at.worse) >= 0) return false;
    verdict.at_risk = room(bound, at.better) >= 0;
    verdict.state = verdict.at_risk && risk == Risk::AtRisk ? State::Warn : broken;
    return true;
  };
  if (limit.fail && settle(*limit.fail, State::Fail) && verdict.state == State::Fail) return verdict;
  const Verdict of_fail = verdict;
  if (limit.warn && settle(*limit.warn, State::Warn)) return verdict;
  return limit.fail ? of_fail : verdict;
}

namespace {

/// Held against the node's own memory, of which some is not for the job: what fits for certain leaves that free.
Verdict judge_host(const Limit& fit, const Estimate& now, Risk risk) {
  const double need = static_cast<double>(now.host.value), capacity = static_cast<double>(now.host_capacity.value);
  Limit limit{.metric = Metric::MemoryHost, .place = fit.place};
  limit.fail = Bound{.value = capacity, .text = fmt::format("{} {:.0f} GiB", kNodeHas, capacity / kGiB)};
  return judge(limit, {need, need, need / kHostShare}, std::nullopt, risk);
}

}  // namespace

std::vector<Verdict> judge_all(const Budget& budget, const Estimate& now, JobGpus gpus, const Baseline* baseline) {
  std::vector<Verdict> verdicts;
  for (const Limit& limit : budget.limits) {
    const Figure figure = measure(limit.metric, now, gpus, budget.run);
    std::optional<double> before;
    if (baseline != nullptr) before = measure(limit.metric, baseline->estimate, baseline->gpus, budget.run).value;
    Limit resolved = limit;  // the GPU's own memory is known only now
    if (limit.metric == Metric::MemoryFit && resolved.fail)
      resolved.fail->value = static_cast<double>(now.capacity.value);
    verdicts.push_back(judge(resolved, figure, before, budget.risk));
    if (limit.metric == Metric::MemoryFit && now.host_capacity.value > 0)
      verdicts.push_back(judge_host(limit, now, budget.risk));
  }
  return verdicts;
}

bool passes(const std::vector<Verdict>& verdicts) {
  return std::none_of(verdicts.begin(), verdicts.end(), [](const Verdict& v) { return v.state == State::Fail; });
}

}  // namespace plan
