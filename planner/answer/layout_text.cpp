// A layout in words. Tested by tests/cli/human_test.cpp and, both ways, tests/cli/layout_flag_test.cpp.
#include "planner/answer/layout_text.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "formulas/names.hpp"
#include "planner/problem/pipeline.hpp"
#include "planner/problem/spelled_out.hpp"

namespace plan {

namespace {

/// Recomputation in words for people: "recompute 4 layers a stage in full", or a chunk where stages have several.
std::string recompute_words(const Recompute& recompute, int vp) {
  const std::string text = recompute_text(recompute);
  if (text == "none") return "no recompute";
  if (recompute.kind != RecomputeKind::Full || text == "full") return fmt::format("recompute {}", text);
  if (recompute.layers > 0)
    return fmt::format("recompute {} layer{} a {} in full", recompute.layers, recompute.layers == 1 ? "" : "s",
                       vp > 1 ? "chunk" : "stage");
  return fmt::format("recompute full, {} layers at a time", recompute.uniform);
}

/// Are the groups of micro-batches others than interleaving takes by itself where pp divides them?
bool own_group(const Layout& layout) { return layout.group > 0 && layout.group != layout.pp; }

/// "interleaved", or "interleaved in groups of 6" where those are not of pp micro-batches.
std::string schedule_words(const Layout& layout, std::int64_t micro_batches) {
  std::string words(name(layout.schedule));
  const int group = pipeline_of(layout, micro_batches).group;
  return group == 0 || group == layout.pp ? words : words + fmt::format(" in groups of {}", group);
}

/// Do several ranks hold the same states, so that `zero` says something? Of experts too, where there are any.
bool shares_states(const Layout& layout, bool experts) {
  return layout.dense_group() > 1 || (experts && layout.expert_dp() > 1);
}
bool shares_states(const Layout& layout) { return shares_states(layout, layout.ep > 1 || layout.etp > 1); }

/// Does the value of an axis that differs change anything in `other`?
template <class T>
bool says_something(const LayoutAxis<T>& axis, const Layout& best, const Layout& other) {
  if (axis.is(&Layout::cp_kind) || axis.is(&Layout::cp_ulysses)) return means_something(axis.value, other);
  if (axis.is(&Layout::group)) return own_group(best) || own_group(other);
  if (axis.is(&Layout::schedule)) return other.pp > 1 || best.pp > 1;
  if (axis.is(&Layout::zero)) return shares_states(best) || shares_states(other);
  return !axis.is(&Layout::recompute) || other.stages.empty();
}

/// The words for an axis of a layout: what `--layout` takes, but where others read better.
template <class T>
std::string choice_text(const LayoutAxis<T>& axis, const Layout& layout) {
  if (axis.is(&Layout::cp_kind)) return std::string(name(layout.cp_kind));
  if (axis.is(&Layout::cp_ulysses)) return fmt::format("ulysses {}", layout.cp_ulysses);
  if (axis.is(&Layout::group)) return layout.group > 0 ? fmt::format("group {}", layout.group) : "smallest group";
  if (axis.is(&Layout::etp)) return fmt::format("etp {}", layout.etp);
  if (axis.is(&Layout::zero)) return fmt::format("zero {}", layout.zero);
  if (axis.is(&Layout::shard)) return layout.shard > 0 ? fmt::format("shard {}", layout.shard) : "shard all";
  if (axis.is(&Layout::micro_batch)) return fmt::format("mb {}", layout.micro_batch);
  if (axis.is(&Layout::schedule)) return std::string(name(layout.schedule));
  if (axis.is(&Layout::sequence_parallel)) return layout.sequence_parallel ? "sp" : "no sp";
  if (axis.is(&Layout::order)) return fmt::format("order {}", name(layout.order));
  if (axis.is(&Layout::stages) && layout.stages.empty()) return "equal stages";
  if (axis.is(&Layout::recompute))
    return layout.recompute.kind == RecomputeKind::None ? "no recompute"
                                                        : "recompute " + recompute_text(layout.recompute);
  return worded(axis, layout.*axis.value);
}

}  // namespace

std::string axes_text(const Estimate& estimate, bool moe) {
  if (!estimate.runs.empty()) {  // one after the other, in the order of the stages
    std::string text;
    for (const PoolRun& run : estimate.runs) {
      Estimate one;
      one.layout = run.layout, one.micro_batches = estimate.micro_batches;
      text += fmt::format("{}{} x {}: {}", text.empty() ? "" : "\n  ", run.gpus, run.gpu, axes_text(one, moe));
    }
    return text;
  }
  const Layout& layout = estimate.layout;
  std::string text = fmt::format("tp {}   cp {}", layout.tp, layout.cp);
  if (means_something(&Layout::cp_ulysses, layout))
    text += fmt::format(" ({}, ulysses {})", name(layout.cp_kind), layout.cp_ulysses);
  else if (layout.any_context())
    text += fmt::format(" ({})", name(layout.cp_kind));
  text += fmt::format("   pp {}", layout.pp);
  if (layout.vp > 1) text += fmt::format(" (vp {})", layout.vp);
  text += fmt::format("   dp {}", layout.dp);
  if (moe) text += fmt::format("   ep {}", layout.ep);
  if (moe && layout.etp > 1) text += fmt::format("   etp {}", layout.etp);
  return text + fmt::format("   micro_batch {} x {}", layout.micro_batch, estimate.micro_batches);
}

std::string precision_words(const Training& training) {
  std::string text(name(training.precision));
  const Bf16Layers& ends = training.bf16_layers;
  if (!ends.any() || !is_narrow(training.precision)) return text;
  std::string which;
  if (ends.first > 0) which = fmt::format("first {}", ends.first);
  if (ends.last > 0) which += fmt::format("{}last {}", which.empty() ? "" : " and ", ends.last);
  return fmt::format("{} (bf16 in the {} layers)", text, which);
}

std::vector<std::string> choices(const Problem& problem, const Estimate& estimate) {
  const Layout& layout = estimate.layout;
  const bool mixed = std::any_of(estimate.runs.begin(), estimate.runs.end(), [&](const PoolRun& run) {
    return run.layout.zero != layout.zero || run.layout.shard != layout.shard ||
           run.layout.sequence_parallel != layout.sequence_parallel || !(run.layout.recompute == layout.recompute);
  });
  if (mixed) {
    std::vector<std::string> out;
    for (const PoolRun& run : estimate.runs) out.push_back(fmt::format("{}: {}", run.gpu, layout_flag(run.layout)));
    return out;
  }
  std::string zero = fmt::format("zero {}", layout.zero);
  if (layout.shard > 0) zero += fmt::format(" over {}", layout.shard);
  std::vector<std::string> out;
  if (shares_states(layout, problem.model.moe())) out.push_back(zero);
  if (layout.pp > 1) out.push_back(schedule_words(layout, estimate.micro_batches));
  if (layout.sequence_parallel) out.emplace_back("sequence parallel");
  if (layout.order != Layout{}.order) out.push_back(fmt::format("order {}", name(layout.order)));
  out.push_back(layout.stages.empty() ? recompute_words(layout.recompute, layout.vp)
                                      : fmt::format("stages {}", stages_text(layout.stages)));
  out.push_back(precision_words(problem.training));
  out.emplace_back(problem.training.grad_bytes == 4 ? "fp32 gradients" : "bf16 gradients");
  if (layout.pp > 1) out.push_back(fmt::format("layers {}", stage_layers_text(estimate.stage_layers)));
  each_axis([&](const auto& axis) {
    if (!axis.is(kSettled) && !(layout.*axis.value == Layout{}.*axis.value))
      out.push_back(worded(axis, layout.*axis.value));
  });
  return out;
}

std::vector<std::string> other_choices(const Layout& best, const Layout& other) {
  std::vector<std::string> out;
  each_axis([&](const auto& axis) {
    if (!axis.is(kLayoutColumn) && !(best.*axis.value == other.*axis.value) && says_something(axis, best, other))
      out.push_back(choice_text(axis, other));
  });
  // How layers are split follows from the rest, unless it alone differs.
  const bool same_grid = other.pp == best.pp && other.vp == best.vp;
  if (out.empty() && same_grid && other.chunk_layers != best.chunk_layers)
    out.push_back("layers " + stage_layers_text(other.chunk_layers));
  if (out.empty() && other.zero != best.zero) out.push_back(fmt::format("zero {}", other.zero));  // its software's own
  return out;
}

std::string layout_flag(const Layout& layout) {
  std::string text;
  each_axis([&](const auto& axis) {
    const auto& value = layout.*axis.value;
    if (axis.is(&Layout::cp_ulysses) && layout.cp_kind != CpKind::Hybrid) return;
    if (axis.is(&Layout::chunk_layers) && layout.chunk_layers.empty()) return;
    if (layout.stages.empty() ? axis.is(&Layout::stages) : axis.is(&Layout::recompute)) return;
    if (axis.is(&Layout::order) && layout.order == Layout{}.order) return;
    if (axis.is(&Layout::group) && !own_group(layout)) return;
    text += (text.empty() ? "" : ",") + worded(axis, value);
  });
  return text;
}

}  // namespace plan
