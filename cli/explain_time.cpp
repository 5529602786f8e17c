// Terms of the step time and what follows from it. Tested by tests/cli/explain_test.cpp.
#include <fmt/format.h>

#include <cmath>

#include "cli/explain_terms.hpp"
#include "cli/report/format.hpp"
#include "cli/report/tables.hpp"
#include "cli/words.hpp"
#include "formulas/flops.hpp"

namespace plan {
namespace {

constexpr const char* kBest = "layout";
constexpr const char* kReport = "estimate";

/// Peak against which utilisation is quoted: the 16-bit one.
DType quoted_dtype(const Gpu& gpu) {
  return gpu.peak[static_cast<std::size_t>(DType::Bf16)].value > 0 ? DType::Bf16 : DType::Fp16;
}
double quoted_peak(const Gpu& gpu) { return gpu.peak[static_cast<std::size_t>(quoted_dtype(gpu))].value; }

/// Useful FLOPs of a token, attention as the causal mask leaves it.
double flops_per_token(const Plan& plan) {
  const Training& training = plan.problem.training;
  return model_flops_per_token(plan.problem.model, static_cast<double>(training.seq), FlopsConvention::ModelCausal,
                               {.tp = plan.best.layout.tp, .packed_length = training.packed_length});
}

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
ExplainedSymbol work(const Plan& plan) {
  return {"F", flops_per_token(plan), "FLOPs of a token, forward and backward, causal", "model"};
}
ExplainedSymbol gpus(const Plan& plan) {
  return {"n", static_cast<double>(plan.problem.gpus), "GPUs", input_origin(plan, "gpus")};
}
ExplainedSymbol peak(const Plan& plan) {
  const Gpu& gpu = plan.problem.cluster.gpu;
  return {"C", quoted_peak(gpu), fmt::format("peak FLOP/s of {}, {} dense", gpu.name, name(quoted_dtype(gpu))),
          "cluster"};
}

/// "all_gather" -> "ag": the initials, numbered when taken.
std::string short_name(std::string_view op, const std::vector<ExplainedSymbol>& taken) {
  std::string out;
  for (std::size_t i = 0; i < op.size(); ++i)
    if (i == 0 || op[i - 1] == '_') out += op[i];
  const auto used = [&](const std::string& word) {
    for (const ExplainedSymbol& symbol : taken)
      if (symbol.name == word) return true;
    return false;
  };
  if (!used(out)) return out;
  for (int i = 2;; ++i) {
    std::string word = fmt::format("{}_{}", out, i);
    if (!used(word)) return word;
  }
}

Result<Explanation> explain_axis(const Plan& plan, Axis axis, Seconds exposed, std::string_view what) {
  Explanation out{.name = {},
                  .title = fmt::format("{} communication that stays exposed", what),
                  .equation = {},
                  .value = exposed.value,
                  .unit = "s",
                  .source = "volumes: formulas of `plan list formulas`, group traffic; rates: the cluster's fits",
                  .notes = {"messages of the slowest stage; what computation hides is not counted"}};
  double sum = 0;
  for (const Communication& c : plan.best.communication) {
    if (c.axis != axis) continue;
    const std::string symbol = short_name(name(c.op), out.symbols);
    out.symbols.push_back(
        {symbol, c.exposed.value,
         fmt::format("{} over {} on {}, {} times, {} sent, {} on the wire", name(c.op), c.group, c.tier,
                     count_text(std::round(c.count)), traffic_text(c.per_step), seconds_text(c.time)),
         kReport});
    out.equation += (out.equation.empty() ? "" : " + ") + symbol;
    sum += c.exposed.value;
  }
  if (out.symbols.empty())
    return fail(Error{"nothing_to_explain", fmt::format("the layout has no {} communication", what)});
  const double rest = exposed.value - sum;
  if (std::fabs(rest) > 1e-9 * std::max(1e-9, std::fabs(exposed.value))) {
    out.symbols.push_back({"x", rest, "waiting that the overlap of several messages adds or saves", kReport});
    out.equation += " + x";
  }
  return out;
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
    out.symbols.push_back({symbol, term.time.value, term.name, kReport});
  }
  return out;
}

Result<Explanation> explain_compute(const Plan& plan, int) {
  const double time = plan.best.terms.compute.value;
  Explanation out{.name = {},
                  .title = "time that the slowest stage spends in kernels",
                  .equation = "B*s*F/(n*C*e)",
                  .value = time,
                  .unit = "s",
                  .source = "e: each kernel's time from the GPU's measured rates by shape",
                  .notes = {"e is an average over all kernels, memory-bound ones included"}};
  out.symbols = {sequences(plan), tokens(plan), work(plan), gpus(plan), peak(plan)};
  const double ideal = static_cast<double>(plan.problem.training.tokens_per_step()) * flops_per_token(plan) /
                       (plan.problem.gpus * quoted_peak(plan.problem.cluster.gpu));
  out.symbols.push_back({"e", ideal / time, "share of the peak that the kernels reach", "efficiency tables"});
  return out;
}

Result<Explanation> explain_bubble(const Plan& plan, int) {
  const Layout& layout = plan.best.layout;
  if (layout.pp == 1) return fail(Error{"nothing_to_explain", "the layout has one pipeline stage: no bubble"});
  const bool classic = layout.schedule == Schedule::GPipe || layout.schedule == Schedule::OneFOneB ||
                       layout.schedule == Schedule::Interleaved || layout.schedule == Schedule::BreadthFirst;
  if (!classic) return explain_pipeline_wait(plan);
  const Terms& terms = plan.best.terms;
  const double busy = (terms.compute + terms.recompute + terms.tp + terms.cp + terms.ep).value;
  const double equal = (layout.pp - 1.0) / (static_cast<double>(plan.best.micro_batches) * layout.vp) * busy;
  Explanation out{.name = {},
                  .title = "waiting for other pipeline stages",
                  .equation = "(p - 1)/(m*v)*w + u",
                  .value = terms.bubble.value,
                  .unit = "s",
                  .source = "Narayanan et al. 2021, arXiv:2104.04473"};
  out.symbols = {{"p", static_cast<double>(layout.pp), "pipeline stages", kBest},
                 {"m", static_cast<double>(plan.best.micro_batches), "micro-batches per step", kBest},
                 {"v", static_cast<double>(layout.vp), "model chunks per stage", kBest},
                 {"w", busy, "seconds that the slowest stage works", kReport},
                 {"u", terms.bubble.value - equal, "difference that unequal stages make", kReport}};
  return out;
}

Result<Explanation> explain_tp(const Plan& plan, int) {
  return explain_axis(plan, Axis::Tp, plan.best.terms.tp, "tensor-parallel");
}
Result<Explanation> explain_cp(const Plan& plan, int) {
  return explain_axis(plan, Axis::Cp, plan.best.terms.cp, "context-parallel");
}
Result<Explanation> explain_ep(const Plan& plan, int) {
  return explain_axis(plan, Axis::Ep, plan.best.terms.ep, "expert-parallel");
}
Result<Explanation> explain_pp(const Plan& plan, int) {
  return explain_axis(plan, Axis::Pp, plan.best.terms.pp, "pipeline");
}
Result<Explanation> explain_dp(const Plan& plan, int) {
  return explain_axis(plan, Axis::Dp, plan.best.terms.dp, "data-parallel");
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

Explanation utilisation(const Plan& plan, double value, const char* title, const char* meaning) {
  Explanation out{.name = {},
                  .title = title,
                  .equation = "B*s*F/(T*n*C)",
                  .value = value,
                  .unit = "",
                  .source = "Chowdhery et al. 2022, arXiv:2204.02311"};
  const double per_flop = static_cast<double>(plan.problem.training.tokens_per_step()) /
                          (plan.best.step_time.value * plan.problem.gpus * quoted_peak(plan.problem.cluster.gpu));
  out.symbols = {sequences(plan), tokens(plan), {"F", value / per_flop, meaning, "model"},
                 step(plan),      gpus(plan),   peak(plan)};
  return out;
}

}  // namespace

Result<Explanation> explain_mfu(const Plan& plan, int) {
  const Mfu& mfu = plan.best.mfu;
  Explanation out = utilisation(plan, mfu.model_causal, "model FLOPs utilisation", "");
  out.source += ", with attention under the causal mask";
  out.symbols[2] = work(plan);
  out.notes = {fmt::format("attention counted in full: {}; recomputed work counted too: {}", percent(mfu.model_full),
                           percent(mfu.hardware))};
  return out;
}

Result<Explanation> explain_mfu_full(const Plan& plan, int) {
  return utilisation(plan, plan.best.mfu.model_full, "model FLOPs utilisation, attention counted in full",
                     "FLOPs of a token, forward and backward, no mask");
}

Result<Explanation> explain_mfu_hardware(const Plan& plan, int) {
  return utilisation(plan, plan.best.mfu.hardware, "hardware FLOPs utilisation",
                     "FLOPs of a token, forward, backward and recomputed, causal");
}

}  // namespace plan
