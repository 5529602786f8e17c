// What a layer keeps for its backward pass, tensor by tensor, as the laws of formulas/ report it (plan-formulas(7) D).
// Tested by tests/cli/trail_test.cpp, which adds the printed equations up to the layer's bytes.
#include <fmt/core.h>

#include "cli/explain/parts.hpp"
#include "cli/explain/terms.hpp"
#include "formulas/bf16_layers.hpp"
#include "formulas/flops.hpp"

namespace plan {
namespace {

constexpr const char* kSource =
    "Korthikanti et al. 2022, arXiv:2205.05198, and the tensors that TransformerEngine saves";

std::string listed(const std::vector<KeptTensor>& tensors) {
  std::string out;
  for (const KeptTensor& tensor : tensors) out += (out.empty() ? "" : "; ") + std::string(tensor.what);
  return out;
}

/// The sum of what is kept, and in notes what is not.
Explanation sum_of(const char* title, const LayerTensors& tensors, double value) {
  ExplainedSum sum;
  for (const KeptTensor& tensor : tensors.kept) {
    Explanation part = explained(tensor.what, tensor.bytes, "bytes");
    part.name = tensor.name;
    sum.add("", tensor.what, std::move(part));
  }
  Explanation out =
      explained(title, sum.equation, value, "bytes", std::move(sum.symbols), kSource, std::move(sum.parts));
  if (!tensors.rebuilt.empty())
    out.notes.push_back(fmt::format("not kept but computed again: {}", listed(tensors.rebuilt)));
  if (!tensors.offloaded.empty()) out.notes.push_back(fmt::format("in host memory: {}", listed(tensors.offloaded)));
  return out;
}

Traced sum_of_fate(const LayerTensors& tensors, Fate fate) {
  Traced sum = 0.0;
  for (const KeptTensor& tensor : tensors.kept)
    if (tensor.fate == fate) sum = sum + tensor.bytes;
  return sum;
}

/// Every second matrix product or none, of what the layer would keep at most.
Explanation ops_of(const Plan& plan, const MemoryModel& memory, int kind, const LayerTensors& tensors) {
  const Layer& layer = plan.problem.model.kinds[static_cast<std::size_t>(kind)];
  const LayerMemory& bytes = memory.layer(kind);
  const Traced core = sum_of_fate(tensors, Fate::Core);
  const Traced total(TracedSymbol{"A", bytes.saved.value, "kept without recomputation", ""});
  const Traced scores = core.value() == 0 ? core : Traced(TracedSymbol{"S", core.value(), "statistics or scores", ""});
  Explanation out = explained(
      ops_keep_products(precision_of(layer, memory.training()))
          ? "bytes that one layer keeps of a micro-batch where every second matrix product is recomputed"
          : "bytes that one layer keeps of a micro-batch where every matrix product is recomputed",
      traced_ops(plan.problem.model, layer, total, scores, memory.training(), plan.best.layout), "bytes", kSource);
  out.value = bytes.kept.value;
  out.parts.push_back(
      sum_of("bytes that one layer keeps of a micro-batch without recomputation", tensors, bytes.saved.value));
  out.parts.back().name = "A";
  if (core.value() == 0) return out;
  out.parts.push_back(explained("softmax statistics, or scores of every head", core, "bytes"));
  out.parts.back().name = "S";
  return out;
}

}  // namespace

Explanation explain_ledger(const Plan& plan, const MemoryModel& memory, std::string name, int kind, bool whole) {
  const Recompute& recompute = plan.best.layout.recompute;
  const LayerTensors tensors = memory.tensors(kind);
  const LayerMemory& bytes = memory.layer(kind);
  Explanation out;
  if (recompute.kind == RecomputeKind::Full && !whole)
    out = explained("bytes that one layer keeps of a micro-batch: its input, from which all is computed again",
                    traced_checkpoint(plan.problem.model, memory.training(), plan.best.layout), "bytes", kSource);
  else if (recompute.kind == RecomputeKind::Selective && (recompute.modules & kRecomputeOps) && !whole)
    out = ops_of(plan, memory, kind, tensors);
  else
    out = sum_of(tensors.rebuilt.empty() ? "bytes that one layer keeps of a micro-batch"
                                         : "bytes that one layer keeps of a micro-batch under recomputation",
                 tensors, (recompute.kind == RecomputeKind::Selective ? bytes.kept : bytes.saved).value);
  out.name = std::move(name);
  return out;
}

}  // namespace plan
