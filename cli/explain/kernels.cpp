// Times of kernels, each down to its shape and to what was measured of the GPU. Tested by tests/cli/explain_test.cpp.
#include <fmt/core.h>

#include <array>

#include "cli/explain/parts.hpp"
#include "cli/explain/terms.hpp"
#include "formulas/kernel_laws.hpp"
#include "formulas/names.hpp"
#include "planner/cost/kernels.hpp"

namespace plan {
namespace {

using Law = KernelTime::Law;
constexpr std::array<const char*, 3> kPasses = {"forward", "input gradient", "weight gradient"};
constexpr std::array<const char*, 3> kPassNames = {"f", "b", "w"};

std::string tables_of(const Gpu& gpu) {
  return fmt::format("measured kernels of {}", gpu.measured_as.empty() ? gpu.name : gpu.measured_as);
}

Traced reached(const KernelTime& k) {
  return symbol<Traced>("eta", k.share, "share of the rate measured alone that training reaches", kConstantsOrigin);
}

Traced traffic(const KernelTime& k) {
  return symbol<Traced>("x", k.rows, "rows", kShapeOrigin) *
         symbol<Traced>("y", k.width, "elements of a row", kShapeOrigin) *
         symbol<Traced>("b", k.each.value, "bytes read and written of each", "stack");
}

/// The law that gave a kernel its time, with its equation.
Traced law_of(const Gpu& gpu, const KernelTime& k) {
  const bool backward = k.pass == KernelTime::Pass::Backward;
  const Traced runs = k.runs == 1 ? Traced(1.0) : symbol<Traced>("r", k.runs, "times", kShapeOrigin);
  const auto kernels = [&](const char* whose) { return symbol<Traced>("n", k.kernels, whose, "stack"); };
  switch (k.law) {
    case Law::Gemm: return runs * gemm_law<Traced>(gpu, k.shape, k.dtype, k.orientation) / reached(k);
    case Law::GroupedGemm: return grouped_gemm_law<Traced>(gpu, k.shape, k.dtype, k.orientation) / reached(k);
    case Law::Attention:
      return runs * attention_law<Traced>(attention_fit(gpu, backward), k.work, backward) / reached(k);
    case Law::Memory: return memory_bound_law<Traced>(gpu, traffic(k), kernels("kernels")) / reached(k);
    case Law::Scan: return scan_law<Traced>(runs, k.flops, k.rate);
    case Law::Launches:
      return launch_wait_law<Traced>(kernels("kernels that the host launches") *
                                         symbol<Traced>("g", k.launch, "seconds of a launch", kConstantsOrigin),
                                     k.busy);
  }
  return 0.0;
}

const char* source_of(Law law) {
  switch (law) {
    case Law::Gemm:
      return "rates between measured shapes are interpolated in logarithms; elsewhere plan formula gemm-time";
    case Law::GroupedGemm: return "plan formula grouped-gemm-time";
    case Law::Attention: return "plan formula attention-time";
    case Law::Memory: return "plan formula memory-bound-time";
    case Law::Scan:
    case Law::Launches: break;
  }
  return "";
}

Explanation of(const Gpu& gpu, const KernelTime& k) {
  Explanation out = explained({}, law_of(gpu, k), "s", source_of(k.law));
  for (ExplainedSymbol& symbol : out.symbols)
    if (symbol.origin == kMeasuredKernels) symbol.origin = tables_of(gpu);
  return out;
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
                            const std::vector<KernelTime>& kernels, Seconds whole) {
  ExplainedSum sum;
  std::array<int, 3> count{};
  for (const KernelTime& kernel : kernels) {
    const auto pass = static_cast<std::size_t>(kernel.pass);
    Explanation part = of(plan.problem.cluster.gpu, kernel);
    part.name = fmt::format("{}_{}", kPassNames[pass], ++count[pass]);
    const std::string title = part.title = what(kernel);
    sum.add("", title, std::move(part));
  }
  Explanation out = explained(std::move(title), sum.equation, whole.value, "s", std::move(sum.symbols),
                              "kernels one after another", std::move(sum.parts));
  out.name = std::move(name);
  return out;
}

Result<Explanation> explain_compute(const Plan& plan, int) {
  const Problem& problem = plan.problem;
  const Split split = split_of(plan.best.layout);
  const CostModel costs(problem, split);
  const SlowestStage slowest = slowest_stage(plan);
  ExplainedSum sum;
  const auto add = [&](const std::string& suffix, double layers, const char* layers_are, const std::string& title,
                       const std::vector<KernelTime>& kernels, const LayerCost& cost) {
    const Seconds compute = cost.work().compute;
    if (layers == 0 || compute == Seconds()) return;
    sum.give({"l_" + suffix, layers, layers_are, "layout"});
    sum.add("l_" + suffix + "*", title, explain_kernels(plan, "t_" + suffix, title, kernels, compute));
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
  sum.add({"o", slowest.host_wait.value, "waiting for activations on their way to host memory and back", "GPU preset"});
  sum.give({"n", slowest.times, "micro-batches that the stage works one after another", "layout and schedule"});
  Explanation out = explained("time that the slowest stage spends in kernels", "n*(" + sum.equation + ")",
                              plan.best.terms.compute.value, "s", std::move(sum.symbols),
                              "times of kernels measured alone, scaled to what training reaches", std::move(sum.parts));
  out.notes = {"plan explain mfu says what share of the peak they reach"};
  return out;
}

}  // namespace plan
