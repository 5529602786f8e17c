// The full estimate of one layout, from the same evaluator as the search. Tested by tests/planner/estimate_test.cpp.
#include "planner/estimate.hpp"

#include <algorithm>
#include <cmath>

#include "formulas/communication.hpp"
#include "formulas/efficiency.hpp"
#include "formulas/flops.hpp"
#include "planner/evaluate.hpp"
#include "planner/uncertainty.hpp"

namespace plan {
namespace {

/// FLOPs per token that recomputation repeats, averaged over the model's layers.
double recomputed_flops(const Problem& problem, const Layout& layout, const std::vector<int>& stage_layers) {
  if (layout.recompute.kind == RecomputeKind::None) return 0;
  double covered = 1;  // share of the layers
  if (layout.recompute.kind == RecomputeKind::Full && layout.recompute.layers > 0) {
    int layers = 0;
    for (const int stage : stage_layers) layers += std::min(stage, layout.recompute.layers);
    covered = static_cast<double>(layers) / problem.model.depth();
  }
  double sum = 0;
  for (const int kind : problem.model.layers) {
    const LayerFlops flops = layer_flops(problem.model, problem.model.kinds[static_cast<std::size_t>(kind)],
                                         static_cast<double>(problem.training.seq));
    sum += covered * recompute_flops(flops, layout.recompute.kind, layout.recompute.modules);
  }
  return sum;
}

Mfu utilisation(const Problem& problem, const Layout& layout, const std::vector<int>& stage_layers, double step_time) {
  const double seq = static_cast<double>(problem.training.seq);
  const FlopsOptions options{.tp = layout.tp, .packed_length = problem.training.packed_length};
  // Utilisation is quoted against the dense peak of the 16-bit type, also when training in fp8.
  const double peak =
      problem.cluster.gpu
          .peak[static_cast<std::size_t>(
              problem.cluster.gpu.peak[static_cast<std::size_t>(DType::Bf16)].value > 0 ? DType::Bf16 : DType::Fp16)]
          .value;
  const double per_flop = static_cast<double>(problem.training.tokens_per_step()) / (step_time * problem.gpus * peak);
  const double causal = model_flops_per_token(problem.model, seq, FlopsConvention::ModelCausal, options);
  const double full = model_flops_per_token(problem.model, seq, FlopsConvention::ModelFull, options);
  return {.model_causal = causal * per_flop,
          .model_full = full * per_flop,
          .hardware = (causal + recomputed_flops(problem, layout, stage_layers)) * per_flop};
}

void fill_memory(Estimate& estimate, const Problem& problem, const Stages& stages, const MemoryModel& memory) {
  const Layout& layout = estimate.layout;
  const Pipeline pipeline{
      .schedule = layout.schedule, .pp = layout.pp, .vp = layout.vp, .micro_batches = estimate.micro_batches};
  for (int rank = 0; rank < layout.pp; ++rank) {
    const StageContent& content =
        stages.contents[static_cast<std::size_t>(stages.content_of[static_cast<std::size_t>(rank)])];
    StageMemory stage = memory.stage(layout, rank, content, in_flight(pipeline, rank));
    stage.stage = rank;
    stage.layers = stages.stage_layers[static_cast<std::size_t>(rank)];
    if (estimate.stages.empty() || stage.total() > estimate.peak) {
      estimate.peak = stage.total();
      estimate.peak_stage = rank;
      estimate.peak_instant = memory.peak_instant(layout, rank, content, in_flight(pipeline, rank));
    }
    estimate.stages.push_back(stage);
  }
  const Interval interval = memory_interval(problem);
  estimate.capacity = problem.cluster.gpu.memory;
  estimate.peak_low = round_bytes(static_cast<double>(estimate.peak.value) * interval.low);
  estimate.peak_high = round_bytes(static_cast<double>(estimate.peak.value) * interval.high);
  estimate.fits = estimate.peak_high <= estimate.capacity  ? Fits::Yes
                  : estimate.peak_low <= estimate.capacity ? Fits::AtRisk
                                                           : Fits::No;
}

}  // namespace

void Evaluator::report_messages(Estimate& estimate, const Stages& stages, const Step& step,
                                const MemoryModel& memory) const {
  const Layout& layout = estimate.layout;
  const double m = static_cast<double>(estimate.micro_batches);
  const auto content_index = static_cast<std::size_t>(stages.content_of[static_cast<std::size_t>(step.bottleneck)]);
  const StageContent& content = stages.contents[content_index];
  const auto add = [&](Axis axis, Collective op, Group group, double wire, double count, double time, double exposed) {
    const std::string tier = group_tier(problem_.cluster, group).name;
    for (Communication& row : estimate.communication)
      if (row.axis == axis && row.op == op && row.group == group.size && row.tier == tier) {
        row.per_step += round_bytes(wire), row.count += count, row.time += Seconds(time),
            row.exposed += Seconds(exposed);
        return;
      }
    estimate.communication.push_back(
        {axis, op, group.size, tier, round_bytes(wire), count, Seconds(time), Seconds(exposed)});
  };
  const auto add_block = [&](const LayerCost& cost, double layers) {
    const double times = m * layers * (layout.schedule == Schedule::DualPipe ? 0.5 : 1);
    for (const Message& message : cost.messages)
      add(message.axis, message.op, message.group,
          times * message.count * message.size * wire_factor(message.op, message.group.size), times * message.count,
          times * message.count * message.time, times * message.exposed);
  };
  for (int kind = 0; kind < costs_.kinds(); ++kind)
    if (const int count = content.layers_of_kind[static_cast<std::size_t>(kind)]; count > 0)
      add_block(costs_.layer(kind), count);
  if (content.embedding) add_block(costs_.embedding(), 1);
  if (content.head) add_block(costs_.head(), 1);

  if (layout.pp > 1) {
    const double tokens = static_cast<double>(problem_.training.seq) * layout.micro_batch / layout.cp;
    const double bytes = hidden_bytes(tokens, problem_.model.hidden) / (layout.sequence_parallel ? layout.tp : 1);
    const double sends = 2 * m * chunk_count(layout) / layout.pp * (layout.schedule == Schedule::DualPipe ? 2 : 1);
    add(Axis::Pp, Collective::SendRecv, {layout.pp, layout.world() / layout.pp}, sends * bytes, sends, sends * step.hop,
        step.terms.pp.value);
  }
  const DataParallel& dp = data_parallel_[content_index];
  const Group group{layout.dense_group(), layout.tp};
  if (group.size == 1 && layout.expert_dp() == 1) return;
  const double passes = layout.zero >= 2 ? static_cast<double>(sharding_passes(problem_, layout)) : 1;
  double parameters = 0;
  for (int kind = 0; kind < costs_.kinds(); ++kind)
    parameters += content.layers_of_kind[static_cast<std::size_t>(kind)] *
                  (memory.layer(kind).trained_dense + memory.layer(kind).trained_expert);
  if (content.embedding) parameters += memory.ends().embedding_parameters;
  if (content.head) parameters += memory.ends().head_parameters;
  const Collective reduce = layout.zero == 0 ? Collective::AllReduce : Collective::ReduceScatter;
  add(Axis::Dp, reduce, group, passes * parameters * problem_.training.grad_bytes * wire_factor(reduce, group.size),
      passes, passes * dp.reduce, step.reduce_exposed);
  if (layout.zero == 0) return;
  const double gathers = layout.zero == 3 ? passes * (problem_.training.stack.reshard_after_forward ? 2 : 1) : 1;
  add(Axis::Dp, Collective::AllGather, group,
      gathers * parameters * problem_.training.weight_bytes() * wire_factor(Collective::AllGather, group.size), gathers,
      gathers * dp.gather, step.gather_exposed);
}

void Evaluator::fill(Estimate& estimate, const Stages& stages, const MemoryModel& memory) {
  const Layout& layout = estimate.layout;
  estimate.micro_batches = micro_batches(problem_.training.global_batch, layout.dp, layout.micro_batch);
  estimate.stage_layers = stages.stage_layers;
  const Step step = this->step(layout, stages, memory);
  estimate.terms = step.terms;
  estimate.step_time = step.terms.total();
  const Interval interval = time_interval(problem_);
  estimate.step_time_low = Seconds(estimate.step_time.value * interval.low);
  estimate.step_time_high = Seconds(estimate.step_time.value * interval.high);
  estimate.tokens_per_s = static_cast<double>(problem_.training.tokens_per_step()) / estimate.step_time.value;
  estimate.tokens_per_s_per_gpu = estimate.tokens_per_s / problem_.gpus;
  fill_memory(estimate, problem_, stages, memory);
  estimate.mfu = utilisation(problem_, layout, stages.stage_layers, estimate.step_time.value);
  report_messages(estimate, stages, step, memory);
  estimate.layout.chunk_layers = stages.chunk_layers;
}

Estimate estimate(const Problem& problem, const Layout& layout) {
  const CostModel costs(problem, split_of(layout));
  const MemoryModel memory(problem, layout);
  Estimate result;
  result.layout = layout;
  Evaluator(problem, costs).fill(result, plan_stages(problem, costs, layout), memory);
  return result;
}

}  // namespace plan
