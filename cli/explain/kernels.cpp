// Times of kernels, each down to its shape and to what was measured of the GPU. Tested by tests/cli/explain_test.cpp.
#include <fmt/core.h>

#include <array>
#include <cmath>

#include "cli/explain/parts.hpp"
#include "cli/explain/terms.hpp"
#include "formulas/names.hpp"
#include "planner/kernels.hpp"

namespace plan {
namespace {

using Law = KernelTime::Law;
constexpr const char* kShape = "model and layout";
constexpr const char* kConstants = "cluster's constants";
constexpr std::array<const char*, 3> kPasses = {"forward", "input gradient", "weight gradient"};
constexpr std::array<const char*, 3> kPassNames = {"f", "b", "w"};

std::string tables_of(const Gpu& gpu) {
  return fmt::format("measured kernels of {}", gpu.measured_as.empty() ? gpu.name : gpu.measured_as);
}

bool same(double a, double b) { return std::fabs(a - b) <= 1e-9 * std::fabs(b); }

ExplainedSymbol share_of(const KernelTime& k) {
  return {"c", k.share, "share of the rate measured alone that training reaches", kConstants};
}

/// "2*m*n*k/(R*c)", whatever the law behind the rate: R is the measured rate, interpolated at this shape.
Explanation by_rate(const Gpu& gpu, const KernelTime& k) {
  const GemmShape& s = k.shape;
  const double flops = 2 * s.m * s.n * s.k * s.batch;
  std::string equation = "2*m*n*k/(R*c)";
  std::vector<ExplainedSymbol> symbols = {{"m", s.m, "rows of the result", kShape},
                                          {"n", s.n, "its columns", kShape},
                                          {"k", s.k, "length of the sums", kShape}};
  if (s.batch != 1) symbols.push_back({"b", s.batch, "products at once", kShape}), equation = "b*" + equation;
  if (k.runs != 1) symbols.push_back({"r", k.runs, "times", kShape}), equation = "r*" + equation;
  symbols.push_back({"R", k.runs * flops / (k.seconds * k.share), "FLOP/s of this shape alone", tables_of(gpu)});
  symbols.push_back(share_of(k));
  return explained({}, equation, k.seconds, "s", std::move(symbols),
                   "rates between measured shapes are interpolated in logarithms");
}

Explanation grouped(const Gpu& gpu, const KernelTime& k) {
  const GemmShape& s = k.shape;
  const GroupedGemmFit fit = grouped_fit(gpu, k.dtype, k.orientation);
  const double bytes = grouped_gemm_bytes(s.batch, s.m, s.n, s.k, k.dtype, k.orientation).value;
  if (!same(grouped_time(fit, s.batch, Flops(2 * s.m * s.n * s.k * s.batch), RealBytes(bytes)).value / k.share,
            k.seconds))
    return by_rate(gpu, k);  // runs in another type than asked for
  const std::string from = tables_of(gpu);
  return explained({}, "(E*t_e + sqrt((2*E*m*n*k/F)^2 + (B/W)^2))/c", k.seconds, "s",
                   {{"E", s.batch, "experts of the rank", kShape},
                    {"m", s.m, "rows of each", kShape},
                    {"n", s.n, "width out", kShape},
                    {"k", s.k, "width in", kShape},
                    {"t_e", fit.per_expert.value, "seconds an expert", from},
                    {"F", fit.rate.value, "FLOP/s of large products", from},
                    {"B", bytes, "bytes: tokens once, every expert's weight once", kShape},
                    {"W", fit.bandwidth.value, "bytes a second", from},
                    share_of(k)},
                   "plan formula grouped-gemm-time");
}

Explanation attention(const Gpu& gpu, const KernelTime& k) {
  const AttentionWork& w = k.work;
  const bool backward = k.pass == KernelTime::Pass::Backward;
  const double flops = attention_kernel_flops(w, backward).value, dim = std::max(w.qk_dim, w.v_dim);
  Explanation work =
      explained("FLOPs of the kernel under the causal mask", backward ? "2.5*4*b*h*s*x*d" : "4*b*h*s*x*d", flops, "",
                {{"b", w.batch, "sequences", kShape},
                 {"h", w.heads, "query heads on the rank", kShape},
                 {"s", w.seq, "queries of a sequence on the rank", kShape},
                 {"x", w.context, "keys that an average query sees", kShape},
                 {"d", dim, "width of a head", "model"}},
                backward ? "five products against two of the forward pass" : "two products");
  work.name = "F";
  const AttentionFit& fit = gpu.attention[backward ? 1 : 0];
  const std::string from = tables_of(gpu);
  std::vector<ExplainedSymbol> symbols = {
      {"r", k.runs, "kernels, one a hop of the ring", kShape}, {"F", flops, "FLOPs", {}}, share_of(k)};
  if (fit.rate.value <= 0 || !same(k.runs * attention_time(fit, w, backward).value / k.share, k.seconds)) {
    symbols.push_back({"A", k.runs * flops / (k.seconds * k.share), "FLOP/s of this shape alone", from});
    return explained({}, "r*F/(A*c)", k.seconds, "s", std::move(symbols), "plan formula attention-time",
                     {std::move(work)});
  }
  symbols.insert(symbols.end(), {{"t_0", fit.t0.value, "seconds of an empty kernel", from},
                                 {"A", fit.rate.value, "FLOP/s of large kernels", from},
                                 {"s_0", fit.s0, "length at which half the rate is left", from},
                                 {"y", 2 * w.context, "length that has as many keys a query", kShape},
                                 {"b_0", fit.b0, "1,024 rows at which half the rate is left", from},
                                 {"u", w.batch * w.heads * w.seq, "rows: sequences * heads * queries", kShape},
                                 {"d_0", fit.d0, "head width below which the softmax weighs more", from},
                                 {"d", dim, "width of a head", "model"}});
  return explained({}, "r*(t_0 + F/A*(1 + s_0/y)*(1 + 1024*b_0/u)*(1 + d_0/d)/(1 + d_0/128))/c", k.seconds, "s",
                   std::move(symbols), "plan formula attention-time", {std::move(work)});
}

Explanation memory_bound(const Gpu& gpu, const KernelTime& k) {
  const Traced bytes = symbol<Traced>("x", k.rows, "rows", kShape) *
                       symbol<Traced>("y", k.width, "elements of a row", kShape) *
                       symbol<Traced>("b", k.each, "bytes read and written of each", "stack");
  const Traced alone = memory_bound_law<Traced>(gpu, bytes, symbol<Traced>("n", k.kernels, "kernels", "stack"));
  return explained({}, alone / symbol<Traced>("c", k.share, "share of that rate that training reaches", kConstants),
                   "s", "plan formula memory-bound-time");
}

Explanation of(const Gpu& gpu, const KernelTime& k) {
  switch (k.law) {
    case Law::Gemm: return by_rate(gpu, k);
    case Law::GroupedGemm: return grouped(gpu, k);
    case Law::Attention: return attention(gpu, k);
    case Law::Memory: return memory_bound(gpu, k);
    case Law::Scan:
      return explained({}, "r*F/A", k.seconds, "s",
                       {{"r", k.runs, "times", "stack"},
                        {"F", k.flops, "FLOPs of the chunked scan", kShape},
                        {"A", k.rate, "FLOP/s of its small products", kConstants}});
    case Law::Launches:
      return explained({}, "n*g - w", k.seconds, "s",
                       {{"n", k.kernels, "kernels that the host launches", "stack"},
                        {"g", k.rate, "seconds of a launch", kConstants},
                        {"w", k.busy, "seconds of these kernels and messages", "plan explain compute"}});
  }
  return {};
}

std::string what(const KernelTime& k) {
  const char* pass = kPasses[static_cast<std::size_t>(k.pass)];
  switch (k.law) {
    case Law::Gemm:
      return fmt::format("GEMM {:.0f} x {:.0f} x {:.0f} in {}, {}", k.shape.m, k.shape.n, k.shape.k, name(k.dtype),
                         pass);
    case Law::GroupedGemm: return fmt::format("GEMMs of {:.0f} experts in {}, {}", k.shape.batch, name(k.dtype), pass);
    case Law::Attention: return fmt::format("attention over {:.0f} keys, {}", 2 * k.work.context, pass);
    case Law::Memory: return fmt::format("{}, {}", k.what, pass);
    case Law::Scan: return fmt::format("state scan, {}", pass);
    case Law::Launches: return fmt::format("waiting for the host's launches, {}", pass);
  }
  return {};
}

}  // namespace

Explanation explain_kernels(const Plan& plan, std::string name, std::string title,
                            const std::vector<KernelTime>& kernels, double value) {
  ExplainedSum sum;
  std::array<int, 3> count{};
  for (const KernelTime& kernel : kernels) {
    const auto pass = static_cast<std::size_t>(kernel.pass);
    Explanation part = of(plan.problem.cluster.gpu, kernel);
    part.name = fmt::format("{}_{}", kPassNames[pass], ++count[pass]);
    const std::string title = part.title = what(kernel);
    sum.add("", title, std::move(part));
  }
  Explanation out = explained(std::move(title), sum.equation, value, "s", std::move(sum.symbols),
                              "kernels one after another", std::move(sum.parts));
  out.name = std::move(name);
  return out;
}

Result<Explanation> explain_compute(const Plan& plan, int) {
  const Problem& problem = plan.problem;
  const Split split = split_of(plan.best.layout);
  const CostModel costs(problem, split);
  const SlowestStage slowest = slowest_stage(plan);
  const auto seconds = [](const LayerCost& cost) {
    return cost.forward.compute + cost.backward_input.compute + cost.backward_weight.compute;
  };
  ExplainedSum sum;
  const auto add = [&](const std::string& suffix, double layers, const char* layers_are, const std::string& title,
                       const std::vector<KernelTime>& kernels, const LayerCost& cost) {
    if (layers == 0 || seconds(cost) == 0) return;
    sum.give({"l_" + suffix, layers, layers_are, "layout"});
    sum.add("l_" + suffix + "*", title, explain_kernels(plan, "t_" + suffix, title, kernels, seconds(cost)));
  };
  for (int kind = 0; kind < costs.kinds(); ++kind)
    add(fmt::format("{}", kind), slowest.visits * slowest.content.layers_of_kind[static_cast<std::size_t>(kind)],
        "layers of this kind that a micro-batch meets", fmt::format("seconds of one layer of kind {}", kind),
        layer_kernels(problem, split, kind), costs.layer(kind));
  const bool spread = problem.training.stack.vocab_barriers > 0;
  add("e", spread || slowest.content.embedding ? slowest.ends : 0, "share of the embedding on the stage",
      "seconds of the embedding", embedding_kernels(problem, split), costs.embedding());
  add("h", spread || slowest.content.head ? slowest.ends : 0, "share of head and loss on the stage",
      "seconds of head, loss and prediction modules", head_kernels(problem, split), costs.head());
  sum.add({"o", slowest.host_wait, "waiting for activations on their way to host memory and back", "GPU preset"});
  sum.give({"n", slowest.times, "micro-batches that the stage works one after another", "layout and schedule"});
  Explanation out = explained("time that the slowest stage spends in kernels", "n*(" + sum.equation + ")",
                              plan.best.terms.compute.value, "s", std::move(sum.symbols),
                              "times of kernels measured alone, scaled to what training reaches", std::move(sum.parts));
  out.notes = {"plan explain mfu says what share of the peak they reach"};
  return out;
}

}  // namespace plan
