// Terms of the step time and what follows from it. Tested by tests/cli/explain_test.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "cli/explain/parts.hpp"
#include "cli/explain/term_names.hpp"
#include "cli/explain/terms.hpp"
#include "cli/terminal/format.hpp"
#include "cli/terminal/words.hpp"
#include "formulas/efficiency.hpp"
#include "formulas/flops.hpp"

namespace plan {
namespace {

constexpr const char* kBest = "layout";

ExplainedSymbol sequences(const Plan& plan) {
  return {"B", static_cast<double>(plan.problem.training.global_batch), "sequences per step",
          input_origin(plan, "global_batch")};
}
ExplainedSymbol tokens(const Plan& plan) {
  return {"s", static_cast<double>(plan.problem.training.seq), "tokens per sequence", input_origin(plan, "seq")};
}
ExplainedSymbol step(const Plan& plan) {
  return {"T", plan.best.step_time.value, "seconds per step", "plan explain step_time"};
}
ExplainedSymbol gpus(const Plan& plan) {
  return {"n", static_cast<double>(plan.problem.gpus), "GPUs", input_origin(plan, "gpus")};
}
ExplainedSymbol peak(const Plan& plan) {
  const Gpu& gpu = plan.problem.cluster.gpu;
  return {"C", peak_of_16_bits(gpu).value,
          fmt::format("peak FLOP/s of {}, {} dense", gpu.name, name(type_of_16_bits(gpu))), "cluster"};
}

}  // namespace

Result<Explanation> explain_step_time(const Plan& plan, int) {
  Explanation out{.name = {},
                  .title = "time of one step",
                  .equation = {},
                  .value = plan.best.step_time.value,
                  .unit = "s",
                  .source = {},
                  .notes = {"communication terms are what no computation hides"}};
  for (const NamedTerm& term : named_terms(plan.best.terms)) {
    if (term.time.value == 0) continue;
    std::string symbol(term.name);
    symbol = symbol.substr(0, symbol.find(' '));
    out.equation += (out.equation.empty() ? "" : " + ") + symbol;
    out.symbols.push_back({symbol, term.time.value, term.name, std::string("plan explain ") + term.word});
  }
  return out;
}

namespace {

/// Seconds that the slowest stage works, by what they go to.
Explanation work_of_stage(const Plan& plan, Seconds busy) {
  const Terms& t = plan.best.terms;
  ExplainedSum sum;
  for (const auto& [word, seconds] : {std::pair("compute", t.compute), std::pair("recompute", t.recompute),
                                      std::pair("tp", t.tp), std::pair("cp", t.cp), std::pair("ep", t.ep)})
    sum.add({word, seconds.value, "of it", std::string("plan explain ") + word});
  Explanation out =
      explained("seconds that the slowest stage works", sum.equation, busy.value, "s", std::move(sum.symbols));
  out.name = "w";
  return out;
}

std::vector<ExplainedSymbol> stages_and_chunks(const Plan& plan) {
  return {{"p", static_cast<double>(plan.best.layout.pp), "pipeline stages", kBest},
          {"m", static_cast<double>(plan.best.micro_batches), "micro-batches per step", kBest},
          {"v", static_cast<double>(plan.best.layout.vp), "model chunks per stage", kBest}};
}

/// What the schedule waits beyond `equal`, the law of equal stages.
Explanation unequal_stages(const Plan& plan, const PipelineTime& pipeline, double equal) {
  std::vector<ExplainedSymbol> symbols = {
      {"T", pipeline.total().value, "seconds from the first forward to the last gradient, all stages", "schedule"},
      {"h", pipeline.hop.value, "seconds of exposed hand-overs", "plan explain pp"},
      {"w", pipeline.busy.value, "seconds that the slowest stage works", "plan explain bubble.w"}};
  for (ExplainedSymbol& symbol : stages_and_chunks(plan)) symbols.push_back(std::move(symbol));
  Explanation out = explained("waiting beyond what equal stages have", "T - h - w*(1 + (p - 1)/(m*v))",
                              pipeline.bubble.value - equal, "s", std::move(symbols),
                              "T: closed form of the schedule over every stage's time, checked by simulation; "
                              "--timeline draws it");
  out.name = "u";
  return out;
}

}  // namespace

Result<Explanation> explain_bubble(const Plan& plan, int) {
  const Layout& layout = plan.best.layout;
  if (layout.pp == 1) return fail(Error{"nothing_to_explain", "the layout has one pipeline stage: no bubble"});
  if (splits_backward(layout.schedule)) return explain_pipeline_wait(plan);
  const PipelineTime pipeline = slowest_stage(plan).pipeline;
  const double chunks = static_cast<double>(plan.best.micro_batches) * layout.vp;
  Explanation unequal = unequal_stages(plan, pipeline, (layout.pp - 1.0) / chunks * pipeline.busy.value);
  std::vector<ExplainedSymbol> symbols = stages_and_chunks(plan);
  symbols.push_back({"w", pipeline.busy.value, "seconds that the slowest stage works", {}});
  symbols.push_back({"u", unequal.value, "difference that unequal stages make", {}});
  return explained("waiting for other pipeline stages", "(p - 1)/(m*v)*w + u", plan.best.terms.bubble.value, "s",
                   std::move(symbols), "Narayanan et al. 2021, arXiv:2104.04473",
                   {work_of_stage(plan, pipeline.busy), std::move(unequal)});
}

Result<Explanation> explain_throughput(const Plan& plan, int) {
  Explanation out{.name = {},
                  .title = "tokens per second",
                  .equation = "B*s/T",
                  .value = plan.best.tokens_per_s,
                  .unit = "tokens/s",
                  .source = {}};
  out.symbols = {sequences(plan), tokens(plan), step(plan)};
  return out;
}

namespace {

/// Of FLOPs of a token, which come explained.
Explanation utilisation(const Plan& plan, double value, const char* title, const char* meaning, Explanation flops) {
  Explanation out{.name = {},
                  .title = title,
                  .equation = "B*s*F/(T*n*C)",
                  .value = value,
                  .unit = "",
                  .source = "Chowdhery et al. 2022, arXiv:2204.02311"};
  out.symbols = {sequences(plan), tokens(plan), {"F", flops.value, meaning, {}}, step(plan), gpus(plan), peak(plan)};
  out.parts.push_back(std::move(flops));
  return out;
}

}  // namespace

Result<Explanation> explain_mfu(const Plan& plan, int) {
  const Mfu& mfu = plan.best.mfu;
  Explanation out = utilisation(plan, mfu.model_causal, "model FLOPs utilisation",
                                "FLOPs of a token, forward and backward, causal", explain_flops(plan, Mask::Causal));
  out.source += ", with attention under the causal mask";
  out.notes = {fmt::format("attention counted in full: {}; recomputed work counted too: {}", percent(mfu.model_full),
                           percent(mfu.hardware))};
  return out;
}

Result<Explanation> explain_mfu_full(const Plan& plan, int) {
  return utilisation(plan, plan.best.mfu.model_full, "model FLOPs utilisation, attention counted in full",
                     "FLOPs of a token, forward and backward, no mask", explain_flops(plan, Mask::Full));
}

Result<Explanation> explain_mfu_hardware(const Plan& plan, int) {
  return utilisation(plan, plan.best.mfu.hardware, "hardware FLOPs utilisation",
                     "FLOPs of a token, forward, backward and recomputed, causal", explain_hardware_flops(plan));
}

}  // namespace plan
