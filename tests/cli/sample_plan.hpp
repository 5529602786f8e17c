#pragma once

#include "planner/answer/plan.hpp"

namespace plan::sample {

/// A small dense decoder.
inline Model model() {
  Layer layer;
  layer.attention = {.heads = 32, .kv_heads = 8, .head_dim = 128};
  layer.dense = {.width = 14336};
  Model model{.name = "tiny-8b", .hidden = 4096, .vocab = 128256, .kinds = {layer}};
  model.layers.assign(32, 0);
  model.default_seq = 8192;
  return model;
}

inline constexpr std::int64_t kGibi = std::int64_t{1} << 30;

/// Stage of a 1F1B pipeline: activations fall from stage to stage.
inline StageMemory stage(int index, int stages) {
  StageMemory memory{.stage = index, .layers = 4};
  memory.weights = Bytes(5 * kGibi + index);
  memory.grads = Bytes(10 * kGibi);
  memory.optimizer = Bytes(kGibi / 3);
  memory.activations = Bytes((stages - index) * 2 * kGibi);
  memory.transient = Bytes(kGibi / 7);
  memory.communication = Bytes(kGibi / 11);
  memory.context = Bytes(kGibi / 2);
  return memory;
}

inline Estimate estimate(int pp, double step) {
  Estimate e;
  e.layout = {.tp = 8, .pp = pp, .vp = 4, .dp = 16, .schedule = Schedule::Interleaved, .sequence_parallel = true};
  e.micro_batches = 16;
  e.stage_layers.assign(static_cast<std::size_t>(pp), 4);
  e.terms.compute = Seconds(step * 0.713);
  e.terms.tp = Seconds(step * 0.127);
  e.terms.bubble = Seconds(step * 0.1004);
  e.terms.dp = Seconds(step * 0.0296);
  e.terms.pp = Seconds(step * 0.0173);
  e.terms.optimizer = Seconds(step - step * (0.713 + 0.127 + 0.1004 + 0.0296 + 0.0173));
  e.step_time = e.terms.total();
  e.step_time_low = e.step_time * 0.88;
  e.step_time_high = e.step_time * 1.12;
  e.mfu = {.model_causal = 0.414, .model_full = 0.431, .hardware = 0.42};
  e.tokens_per_s = 2.66e6;
  e.tokens_per_s_per_gpu = 162;
  e.capacity = Bytes(80 * kGibi);
  for (int i = 0; i < pp; ++i) e.stages.push_back(stage(i, pp));
  e.peak = e.stages.front().total();
  e.peak_low = Bytes(e.peak.value - kGibi);
  e.peak_high = Bytes(e.peak.value + kGibi);
  e.peak_instant = "layer backward";
  e.fits = Fits::Yes;
  e.communication = {
      {Axis::Tp, Collective::AllGather, {8}, "nvlink", Bytes(123456789), 504, Seconds(1.5), Seconds(0.8)}};
  return e;
}

inline Plan plan() {
  Plan p;
  p.problem.model = model();
  p.problem.cluster.name = "dgx-h100";
  p.problem.cluster.gpu.name = "h100-sxm";
  p.problem.gpus = 1024;
  p.problem.training.seq = 8192;
  p.problem.training.global_batch = 256;
  p.problem.inputs = {{"model", "tiny-8b", Origin::Flag, ""},
                      {"gpus", "1024", Origin::Flag, ""},
                      {"seq", "8192", Origin::Preset, "presets/models/tiny.yaml:3"}};
  p.best = estimate(8, 6.314159);
  RunnerUp second{estimate(8, 6.62), {}, {{"cp", Seconds(0.62)}, {"bubble", Seconds(-0.31)}, {"tp", Seconds(0.001)}}};
  second.estimate.layout.cp = 2;
  second.estimate.layout.dp = 8;
  RunnerUp third{estimate(4, 8.05), {}, {{"recompute", Seconds(1.5)}}};
  third.estimate.layout.recompute.kind = RecomputeKind::Full;
  p.runners_up = {second, third};
  p.search = {.considered = 2816, .legal = 1612, .fit = 235, .pruned = 0, .rejected = {{"does_not_divide", 1204}}};
  p.why = {"tp 8 stays inside the NVLink node", "vp 4 halves the bubble"};
  p.notes = {{"hardware_not_measured", "dgx-h100 is a preset, not measured here"}};
  return p;
}

}  // namespace plan::sample
