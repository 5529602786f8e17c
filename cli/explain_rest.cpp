// What is left of the report's terms: recomputation, stragglers, the optimizer step, the smaller categories of memory,
// intervals, and what follows from the step time. Tested by tests/cli/explain_test.cpp.
#include <fmt/format.h>

#include <algorithm>

#include "cli/explain_terms.hpp"
#include "cli/report/csv.hpp"
#include "cli/report/format.hpp"
#include "formulas/names.hpp"
#include "planner/evaluate.hpp"

namespace plan {
namespace {

constexpr const char* kReport = "estimate";
constexpr double kTrillion = 1e12;

double value(Bytes bytes) { return static_cast<double>(bytes.value); }
const StageMemory& memory_of(const Plan& plan, int stage) { return plan.best.stages[static_cast<std::size_t>(stage)]; }

/// Seconds that one micro-batch of the slowest stage recomputes.
double recomputed(const Plan& plan) {
  const CostModel costs(plan.problem, split_of(plan.best.layout));
  Evaluator evaluator(plan.problem, costs);
  evaluator.place(plan.best.layout);
  evaluator.recompute(plan.best.layout.recompute);
  int slowest = 0;
  for (int rank = 1; rank < plan.best.layout.pp; ++rank)
    if (evaluator.cost(rank).total() > evaluator.cost(slowest).total()) slowest = rank;
  return evaluator.cost(slowest).recompute.total();
}

Explanation sum(std::string title, std::string equation, double result, std::string unit,
                std::vector<ExplainedSymbol> symbols, std::string source = {}, std::vector<std::string> notes = {}) {
  return {.name = {},
          .title = std::move(title),
          .equation = std::move(equation),
          .symbols = std::move(symbols),
          .value = result,
          .unit = std::move(unit),
          .source = std::move(source),
          .notes = std::move(notes)};
}

/// An end of an interval: the middle times a factor.
Explanation bound(const char* title, double whole, double end, const char* unit, const char* term) {
  return sum(
      title, "v*f", end, unit,
      {{"v", whole, "the value in the middle", std::string("plan explain ") + term},
       {"f", whole > 0 ? end / whole : 1, "end of the 90 % interval over the middle", "residuals of published runs"}},
      "conformal intervals, man plan-validation");
}

}  // namespace

Result<Explanation> explain_recompute(const Plan& plan, int) {
  const double time = plan.best.terms.recompute.value, each = recomputed(plan);
  if (time <= 0 || each <= 0) return fail(Error{"nothing_to_explain", "the layout recomputes nothing"});
  return sum("time that recomputation takes", "n*r", time, "s",
             {{"n", time / each, "micro-batches that the slowest stage runs one after another", "layout"},
              {"r", each, "seconds to repeat what one micro-batch did not keep", "kernels of the recomputed modules"}},
             "Korthikanti et al. 2022, arXiv:2205.05198; kernel times from the GPU's measured rates");
}

Result<Explanation> explain_straggler(const Plan& plan, int) {
  const Terms& terms = plan.best.terms;
  if (terms.straggler.value <= 0) return fail(Error{"nothing_to_explain", "one GPU waits for no other"});
  const int ranks = plan.best.layout.world();
  return sum(
      "waiting for the slowest rank", "sigma*z*t", terms.straggler.value, "s",
      {{"sigma", plan.problem.cluster.calibration.jitter, "deviation of one rank's step, share of the step",
        "cluster's constants"},
       {"z", slowest_of(ranks), fmt::format("expected maximum of {} standard normal variables", ranks), "layout"},
       {"t", (terms.total() - terms.straggler).value, "seconds of all other terms", "plan explain step_time"}},
      "order statistics of the normal distribution; sigma fitted to published runs");
}

Result<Explanation> explain_optimizer_step(const Plan& plan, int) {
  const double fixed = plan.problem.cluster.calibration.fixed_step_ms * 1e-3;
  return sum(
      "time of the optimizer step", "o + f", plan.best.terms.optimizer.value, "s",
      {{"o", plan.best.terms.optimizer.value - fixed,
        "seconds to read and write gradients and states: 4 + 34/d bytes a parameter at the memory's rate, d as in "
        "plan explain optimizer",
        "memory bandwidth of the GPU"},
       {"f", fixed, "seconds a step: data, logging, gradient norm", "cluster's constants"}},
      "bytes of Adam in fp32; f fitted to published runs");
}

Result<Explanation> explain_transient(const Plan& plan, int stage) {
  const StageMemory& memory = memory_of(plan, stage);
  return sum(fmt::format("memory of stage {} that lives for an instant", stage), "a + r", value(memory.transient),
             "bytes",
             {{"a", value(memory.transient - memory.reserve),
               stage == plan.best.peak_stage ? "alive at the peak: " + plan.best.peak_instant : "alive at the peak",
               "memory model"},
              {"r", value(memory.reserve), "what the allocator holds but cannot hand out", "memory model"}},
             "TransformerEngine and Megatron-LM sources; measured peaks");
}

Result<Explanation> explain_communication(const Plan& plan, int stage) {
  const double bytes = value(memory_of(plan, stage).communication);
  return sum(fmt::format("buffers of communicators on stage {}", stage), "n", bytes, "bytes",
             {{"n", bytes, "NCCL's buffers of every group that the rank is in", "layout"}},
             "NCCL sources; plan list formulas");
}

Result<Explanation> explain_context(const Plan& plan, int stage) {
  const double bytes = value(memory_of(plan, stage).context);
  return sum("CUDA context and loaded modules", "c", bytes, "bytes",
             {{"c", bytes, "outside the allocator", "GPU preset"}}, "measured");
}

Result<Explanation> explain_share(const Plan& plan, int) {
  return sum("peak memory over the GPU's", "p/c", plan.best.peak / plan.best.capacity, "ratio",
             {{"p", value(plan.best.peak), fmt::format("peak of stage {}, the highest", plan.best.peak_stage),
               "plan explain memory"},
              {"c", value(plan.best.capacity), "memory of the GPU that programs can use", "GPU preset"}});
}

Result<Explanation> explain_peak_low(const Plan& plan, int) {
  return bound("lower end of the peak memory", value(plan.best.peak), value(plan.best.peak_low), "bytes", "memory");
}
Result<Explanation> explain_peak_high(const Plan& plan, int) {
  return bound("upper end of the peak memory", value(plan.best.peak), value(plan.best.peak_high), "bytes", "memory");
}
Result<Explanation> explain_step_time_low(const Plan& plan, int) {
  return bound("lower end of the step time", plan.best.step_time.value, plan.best.step_time_low.value, "s",
               "step_time");
}
Result<Explanation> explain_step_time_high(const Plan& plan, int) {
  return bound("upper end of the step time", plan.best.step_time.value, plan.best.step_time_high.value, "s",
               "step_time");
}

Result<Explanation> explain_throughput_per_gpu(const Plan& plan, int) {
  return sum("tokens per second and GPU", "v/n", plan.best.tokens_per_s_per_gpu, "tokens/s",
             {{"v", plan.best.tokens_per_s, "tokens per second", "plan explain throughput"},
              {"n", static_cast<double>(plan.problem.gpus), "GPUs", input_origin(plan, "gpus")}});
}

Result<Explanation> explain_gpu_hours(const Plan& plan, int) {
  return sum("GPU-hours of a trillion tokens", "N*n/(v*3600)", gpu_hours(plan.best, plan.problem.gpus, kTrillion),
             "GPU-hours",
             {{"N", kTrillion, "tokens", "a trillion"},
              {"n", static_cast<double>(plan.problem.gpus), "GPUs", input_origin(plan, "gpus")},
              {"v", plan.best.tokens_per_s, "tokens per second, no failures counted", "plan explain throughput"}});
}

Result<Explanation> explain_pipeline_wait(const Plan& plan) {
  const Terms& t = plan.best.terms;
  const double busy = (t.compute + t.recompute + t.tp + t.cp + t.ep).value;
  const double whole = busy + t.bubble.value + t.pp.value;
  return sum("waiting for other pipeline stages", "t - w - h", t.bubble.value, "s",
             {{"t", whole,
               fmt::format("seconds of the pipeline under {}, first forward to last gradient",
                           name(plan.best.layout.schedule)),
               "schedule"},
              {"w", busy, "seconds that the slowest stage works", kReport},
              {"h", t.pp.value, "seconds of exposed hand-overs", "plan explain pp"}},
             "closed form of the schedule, checked by simulation; --timeline and --format trace draw it");
}

}  // namespace plan
