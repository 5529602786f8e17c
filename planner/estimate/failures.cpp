// What interruptions cost a job. It loses what was trained since its last checkpoint and the time to start again, and
// stands still for every checkpoint. Assumes that interruptions are independent and as likely at any moment, that one
// GPU's is the whole job's, that a replacement is at hand, and that every GPU writes its share of the checkpoint.
// Source: Daly 2006 (formulas/textbook/reliability.hpp). Tested by tests/planner/failures_test.cpp.
#include "planner/estimate/failures.hpp"

#include "formulas/parameters.hpp"
#include "formulas/states.hpp"
#include "formulas/textbook/reliability.hpp"
#include "planner/rules/rules.hpp"

namespace plan {
namespace {

constexpr double kHour = 3600;

double trained_parameters(const Problem& problem) {
  const Model& model = problem.model;
  if (!problem.training.adapters()) return static_cast<double>(model_parameters(model).with_mtp);
  return adapter_parameters(model, problem.training);
}

/// Daly's interval holds while a checkpoint takes less than twice the time between interruptions; beyond that one
/// checkpoint an interruption is the most that can be had.
Seconds interval_of(const IntervalInput& in) {
  return in.checkpoint < 2 * in.mtti ? daly_interval(in) : Seconds(in.mtti);
}

}  // namespace

RealBytes checkpoint_bytes(const Problem& problem) {
  const StateBytes bytes = state_bytes(problem.training, 1);
  return trained_parameters(problem) * (bytes.weights + bytes.master + bytes.moments);
}

std::optional<Goodput> goodput_of(const Problem& problem, const FailureFacts& facts) {
  Goodput out;
  out.gpu_mtbf_hours = facts.gpu_mtbf_hours.value_or(problem.cluster.gpu_mtbf_hours);
  if (!(out.gpu_mtbf_hours > 0) || problem.gpus <= 0) return std::nullopt;
  const double gpus = problem.gpus;
  out.interruption = time_to_interruption({out.gpu_mtbf_hours * kHour, gpus});
  out.storage = facts.storage_bytes_per_s.value_or(kStoragePerGpu * gpus);
  const RealBytes bytes = checkpoint_bytes(problem);
  out.checkpoint = round_bytes(bytes);
  out.checkpoint_time = bytes / BytesPerSecond(out.storage);
  out.restart = facts.restart.value_or(kRecovery + out.checkpoint_time);
  const double mtti = out.interruption.value, delta = out.checkpoint_time.value;
  out.interval = interval_of({delta, mtti});
  out.ratio = goodput({out.interval.value, delta, out.restart.value, mtti});
  return out;
}

std::optional<FewerReplicas> with_fewer_replicas(const Problem& problem, const Layout& layout, int gpus) {
  const int replica = layout.tp * layout.cp * layout.pp, left = gpus / replica;
  if (left <= 0 || layout.dp <= 0 || problem.training.global_batch % layout.dp != 0) return std::nullopt;
  FewerReplicas out{problem, layout};
  out.layout.dp = left;
  if (out.layout.shard > 0 && out.layout.dense_group() % out.layout.shard != 0) out.layout.shard = 0;
  out.problem.gpus = left * replica;
  out.problem.training.global_batch = problem.training.global_batch / layout.dp * left;
  if (broken_rule(out.problem, out.layout) >= 0) return std::nullopt;
  return out;
}

}  // namespace plan
