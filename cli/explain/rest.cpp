// What is left of the report's terms: recomputation, stragglers, the optimizer step, the smaller categories of memory,
// intervals, and what follows from the step time. Tested by tests/cli/explain_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "cli/explain/parts.hpp"
#include "cli/explain/term_names.hpp"
#include "cli/explain/terms.hpp"
#include "cli/request/run_cost.hpp"
#include "cli/terminal/format.hpp"
#include "formulas/efficiency.hpp"
#include "formulas/names.hpp"
#include "formulas/nccl_buffers.hpp"
#include "planner/estimate/evaluate.hpp"
#include "planner/estimate/learnt.hpp"
#include "planner/estimate/uncertainty.hpp"

namespace plan {
namespace {

constexpr const char* kReport = "estimate";
constexpr double kTrillion = 1e12;

double value(Bytes bytes) { return static_cast<double>(bytes.value); }
const StageMemory& memory_of(const Plan& plan, int stage) { return plan.best.stages[static_cast<std::size_t>(stage)]; }

/// An end of an interval: the middle times a factor.
Explanation bound(const char* title, double whole, double end, double factor, const char* unit, const char* term) {
  return explained(title, "v*f", end, unit,
                   {{"v", whole, "the value in the middle", std::string("plan explain ") + term},
                    {"f", factor, "end of the 90 % interval over the middle", "residuals of published runs"}},
                   "conformal intervals, man plan-validation");
}

}  // namespace

namespace {

/// Seconds that one layer kind repeats: its whole forward pass, or the chosen modules'.
Explanation repeated_of_kind(const Plan& plan, const CostModel& costs, int kind, const std::string& name) {
  const Recompute& recompute = plan.best.layout.recompute;
  const bool full = recompute.kind == RecomputeKind::Full;
  const Phase phase = full ? costs.full_recompute(kind) : costs.selective_recompute(kind, recompute.modules);
  ExplainedSum sum;
  if (full) {
    std::vector<KernelTime> forward = layer_kernels(plan.problem, split_of(plan.best.layout), kind);
    std::erase_if(forward, [](const KernelTime& k) { return k.pass != KernelTime::Pass::Forward; });
    const LayerCost& cost = costs.layer(kind);
    sum.add("", "kernels of the forward pass",
            explain_kernels(plan, "f", "kernels of the forward pass", forward, cost.forward.compute));
    if (plan.problem.training.stack.prunes_recompute && cost.last.compute > Seconds()) {
      sum.equation += " - q";
      sum.give({"q", cost.last.compute.value, "of them, the last product, which no backward pass reads", "stack"});
    }
  } else {
    sum.add({"f", phase.compute.value, "kernels of the recomputed modules, as in plan explain compute", "recompute"});
  }
  sum.add({"tp", phase.tp.value, "tensor-parallel messages of it", "layout"});
  sum.add({"cp", phase.cp.value, "context-parallel messages of it", "layout"});
  sum.add({"ep", phase.ep.value, "expert-parallel messages of it", "layout"});
  Explanation out = explained("seconds that recomputing one layer takes", sum.equation, phase.total().value, "s",
                              std::move(sum.symbols), {}, std::move(sum.parts));
  out.name = name;
  return out;
}

/// Seconds to repeat what one micro-batch did not keep.
Explanation repeated(const Plan& plan, const SlowestStage& slowest) {
  const CostModel costs(plan.problem, split_of(plan.best.layout));
  ExplainedSum sum;
  int held = 0;
  for (int kind = 0; kind < costs.kinds(); ++kind) {
    const double layers = slowest.visits * slowest.content.layers_of_kind[static_cast<std::size_t>(kind)];
    if (layers == 0) continue;
    Explanation part = repeated_of_kind(plan, costs, kind, fmt::format("r_{}", kind));
    held += slowest.content.layers_of_kind[static_cast<std::size_t>(kind)];
    sum.give({fmt::format("l_{}", kind), layers, "layers of this kind that a micro-batch meets", "layout"});
    const std::string title = part.title;
    sum.add(fmt::format("l_{}*", kind), title, std::move(part));
  }
  const Layout& layout = plan.best.layout;
  const bool full = layout.recompute.kind == RecomputeKind::Full;
  const double share =
      full ? static_cast<double>(recomputed_layers(layout.recompute, layout.vp, held)) / std::max(1, held) : 1;
  const double each = slowest.cost.recompute.total().value;
  sum.give({"s", share, "share of the layers that are recomputed", "recompute"});
  Explanation out = explained("seconds to repeat what one micro-batch did not keep", "s*(" + sum.equation + ")", each,
                              "s", std::move(sum.symbols), {}, std::move(sum.parts));
  out.name = "r";
  return out;
}

}  // namespace

Result<Explanation> explain_recompute(const Plan& plan, int) {
  const double time = plan.best.terms.recompute.value;
  if (time <= 0) return fail(Error{"nothing_to_explain", "the layout recomputes nothing"});
  const SlowestStage slowest = slowest_stage(plan);
  Explanation each = repeated(plan, slowest);
  const double seconds = each.value;
  return explained("time that recomputation takes", "n*r", time, "s",
                   {{"n", slowest.times, "micro-batches that the slowest stage runs one after another", "layout"},
                    {"r", seconds, "seconds to repeat what one micro-batch did not keep", {}}},
                   "Korthikanti et al. 2022, arXiv:2205.05198; kernel times from the GPU's measured rates",
                   {std::move(each)});
}

namespace {

Explanation other_terms(const Plan& plan) {
  ExplainedSum sum;
  for (const NamedTerm& term : named_terms(plan.best.terms)) {
    if (std::string_view(term.word) == "straggler") continue;
    std::string symbol(term.name);
    symbol = symbol.substr(0, symbol.find(' '));
    sum.add({symbol, term.time.value, term.name, std::string("plan explain ") + term.word});
  }
  Explanation out = explained("seconds of all terms but the straggler's", sum.equation,
                              (plan.best.terms.total() - plan.best.terms.straggler).value, "s", std::move(sum.symbols));
  out.name = "t";
  return out;
}

}  // namespace

Result<Explanation> explain_straggler(const Plan& plan, int) {
  const Terms& terms = plan.best.terms;
  if (terms.straggler.value <= 0) return fail(Error{"nothing_to_explain", "one GPU waits for no other"});
  const int ranks = plan.best.layout.world();
  return explained(
      "waiting for the slowest rank", "sigma*z*t", terms.straggler.value, "s",
      {{"sigma", plan.problem.cluster.calibration.jitter, "deviation of one rank's step, share of the step",
        kConstantsOrigin},
       {"z", slowest_of(ranks), fmt::format("expected maximum of {} standard normal variables", ranks), "layout"},
       {"t", (terms.total() - terms.straggler).value, "seconds of all other terms", {}}},
      "order statistics of the normal distribution; sigma fitted to published runs", {other_terms(plan)});
}

namespace {

/// Of the stage whose step takes longest.
Explanation longest_step(const Plan& plan) {
  const Layout& layout = plan.best.layout;
  const CostModel costs(plan.problem, split_of(layout));
  Evaluator evaluator(plan.problem, costs, layout);
  evaluator.recompute(layout.recompute);
  const Evaluator::TracedSharding sharding = evaluator.traced_sharding(layout, MemoryModel(plan.problem, layout));
  const std::vector<int>& content_of = evaluator.stages().content_of;
  const auto first = std::find(content_of.begin(), content_of.end(), sharding.stepped) - content_of.begin();
  const bool host = plan.problem.training.offload.optimizer > 0;
  Explanation out = explained(
      fmt::format("seconds to read and write gradients and states{}", host ? ", those of the host with its step" : ""),
      sharding.exposed.optimizer, "s",
      fmt::format("bytes of Adam in fp32; plan formula memory-bound-time{}",
                  host ? ", host-step-time and offload-time" : ""));
  const StageRank rank = stage_rank(plan, static_cast<int>(first));
  for (const char* name : {"P", "P_e"})
    if (Explanation part = explain_trained(plan, rank, name, name[1] != 0); part.value > 0)
      out.parts.push_back(std::move(part));
  out.name = "o";
  return out;
}

}  // namespace

Result<Explanation> explain_optimizer_step(const Plan& plan, int) {
  ExplainedSum sum;
  sum.add("", "seconds to read and write gradients and states", longest_step(plan));
  sum.add({"f", plan.problem.cluster.calibration.fixed_step().value, "seconds a step: data, logging, gradient norm",
           kConstantsOrigin});
  return explained("time of the optimizer step", sum.equation, plan.best.terms.optimizer.value, "s",
                   std::move(sum.symbols), "f fitted to published runs", std::move(sum.parts));
}

namespace {

/// One group's share of NCCL's buffers.
Explanation nccl_group(const NcclGroup& group, const NcclMemory& measured, const std::string& name) {
  constexpr const char* kSource = "NCCL sources";
  const ExplainedSymbol channels{"c", group.channels, "channels", measured.channels > 0 ? "profile" : kSource};
  const ExplainedSymbol link{"q", kNcclConnection, "bytes of a connection: 10 MiB in, 2 MiB out", kSource};
  const ExplainedSymbol pools{"o", group.pools, "pools for peers outside the node, one a direction", "layout"};
  const ExplainedSymbol pool{"y", kNcclPool, "bytes of a pool", kSource};
  const ExplainedSymbol rings{"r", group.rings, "ring, and tree of all-reduces", kSource};
  const ExplainedSymbol peers{"k", group.peers, "peers in the node", "layout"};
  const auto made = [&]() -> std::pair<std::string, std::vector<ExplainedSymbol>> {
    switch (group.share) {
      case NcclShare::Ring: return {"c*r*q", {channels, rings, link}};
      case NcclShare::Multicast:
        return {"c*(r*q + m)", {channels, rings, link, {"m", kNcclMulticast, "NVLS buffers of a channel", kSource}}};
      case NcclShare::Exchange: return {"k*c*q + o*y", {peers, channels, link, pools, pool}};
      case NcclShare::Pool: return {"o*y", {pools, pool}};
      case NcclShare::Measured:
        return {"i + f",
                {{"i", value(measured.communicator), "bytes of a communicator", "profile"},
                 {"f", value(measured.all_reduce), "bytes of its first all-reduce", "profile"}}};
      case NcclShare::MeasuredPeers:
        return {"f*k/z + o*y",
                {{"f", value(measured.all_to_all), "bytes of the first all-to-all", "profile"},
                 peers,
                 {"z", measured.ranks - 1.0, "peers when it was measured", "profile"},
                 pools,
                 pool}};
    }
    return {};
  };
  auto [equation, symbols] = made();
  Explanation out = explained(fmt::format("NCCL's buffers of the {} group, {} ranks", group.what, group.ranks),
                              equation, group.bytes, "bytes", std::move(symbols), "NCCL 2.30.7, src/transport");
  out.name = name;
  return out;
}

/// Every group that a rank is in.
ExplainedSum nccl_sum(const Plan& plan) {
  const Cluster& cluster = plan.problem.cluster;
  ExplainedSum sum;
  for (const NcclGroup& group : nccl_groups(plan.best.layout, nccl_platform(cluster))) {
    std::string symbol(group.what);
    std::replace(symbol.begin(), symbol.end(), ' ', '_');
    Explanation part = nccl_group(group, cluster.nccl, symbol);
    const std::string title = part.title;
    sum.add("", title, std::move(part));
  }
  return sum;
}

}  // namespace

Result<Explanation> explain_communication(const Plan& plan, int stage) {
  ExplainedSum sum = nccl_sum(plan);
  if (sum.symbols.empty()) return fail(Error{"nothing_to_explain", "no communicator whose buffers are known"});
  return explained(fmt::format("buffers of communicators on stage {}", stage), sum.equation,
                   value(memory_of(plan, stage).communication), "bytes", std::move(sum.symbols), "NCCL sources",
                   std::move(sum.parts));
}

Result<Explanation> explain_context(const Plan& plan, int stage) {
  return explained("CUDA context and loaded modules", "c", value(memory_of(plan, stage).context), "bytes",
                   {{"c", value(plan.problem.cluster.gpu.context), "outside the allocator", "GPU preset"}}, "measured");
}

Result<Explanation> explain_share(const Plan& plan, int) {
  return explained("peak memory over the GPU's", "p/c", plan.best.peak / plan.best.capacity, "ratio",
                   {{"p", value(plan.best.peak), fmt::format("peak of stage {}, the highest", plan.best.peak_stage),
                     "plan explain memory"},
                    {"c", value(plan.best.capacity), "memory of the GPU that programs can use", "GPU preset"}});
}

Result<Explanation> explain_peak_low(const Plan& plan, int) {
  return bound("lower end of the peak memory", value(plan.best.peak), value(plan.best.peak_low),
               std::min(1.0, memory_interval(plan.problem).low), "bytes", "memory");
}
Result<Explanation> explain_peak_high(const Plan& plan, int) {
  return bound("upper end of the peak memory", value(plan.best.peak), value(plan.best.peak_high),
               std::max(1.0, memory_interval(plan.problem).high), "bytes", "memory");
}
Result<Explanation> explain_step_time_low(const Plan& plan, int) {
  return bound("lower end of the step time", plan.best.step_time.value, plan.best.step_time_low.value,
               step_interval(plan.problem, plan.best).low, "s", "step_time");
}
Result<Explanation> explain_step_time_high(const Plan& plan, int) {
  return bound("upper end of the step time", plan.best.step_time.value, plan.best.step_time_high.value,
               step_interval(plan.problem, plan.best).high, "s", "step_time");
}

Result<Explanation> explain_throughput_per_gpu(const Plan& plan, int) {
  return explained("tokens per second and GPU", "v/n", plan.best.tokens_per_s_per_gpu, "tokens/s",
                   {{"v", plan.best.tokens_per_s, "tokens per second", "plan explain throughput"},
                    {"n", static_cast<double>(plan.problem.gpus), "GPUs", input_origin(plan, "gpus")}});
}

Result<Explanation> explain_gpu_hours(const Plan& plan, int) {
  return explained(
      "GPU-hours of a trillion tokens", "N*n/(v*3600)", gpu_hours(plan.best, plan.problem.gpus, kTrillion), "GPU-hours",
      {{"N", kTrillion, "tokens", "a trillion"},
       {"n", static_cast<double>(plan.problem.gpus), "GPUs", input_origin(plan, "gpus")},
       {"v", plan.best.tokens_per_s, "tokens per second, no failures counted", "plan explain throughput"}});
}

Result<Explanation> explain_pipeline_wait(const Plan& plan) {
  const PipelineTime pipeline = slowest_stage(plan).pipeline;
  return explained("waiting for other pipeline stages", "t - w - h", plan.best.terms.bubble.value, "s",
                   {{"t", pipeline.total().value,
                     fmt::format("seconds of the pipeline under {}, first forward to last gradient",
                                 name(plan.best.layout.schedule)),
                     "schedule"},
                    {"w", pipeline.busy.value, "seconds that the slowest stage works", kReport},
                    {"h", pipeline.hop.value, "seconds of exposed hand-overs", "plan explain pp"}},
                   "closed form of the schedule, checked by simulation; --timeline and --format trace draw it");
}

}  // namespace plan
