// Terms that `plan explain` follows down to their symbols. Tested by tests/cli/explain_test.cpp: every equation,
// evaluated as text, gives the number that the report prints.
#include "cli/explain/explain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "cli/explain/terms.hpp"
#include "formulas/text.hpp"
#include "presets/suggest.hpp"

namespace plan {
namespace {

constexpr Term kTerms[] = {
    {"step_time", "time of one optimizer step, by what it goes to", explain_step_time},
    {"compute", "time in kernels, and the share of the peak that they reach", explain_compute},
    {"step_time_low", "lower end of the step time's interval", explain_step_time_low},
    {"step_time_high", "upper end of the step time's interval", explain_step_time_high},
    {"recompute", "time that recomputation takes", explain_recompute},
    {"bubble", "waiting for other pipeline stages", explain_bubble},
    {"tp", "tensor-parallel communication that stays exposed", explain_tp},
    {"cp", "context-parallel communication that stays exposed", explain_cp},
    {"ep", "expert-parallel communication that stays exposed", explain_ep},
    {"pp", "pipeline communication that stays exposed", explain_pp},
    {"dp", "data-parallel communication that stays exposed", explain_dp},
    {"placement", "which rank is where, and what each axis crosses", explain_placement},
    {"optimizer_step", "time of the optimizer step", explain_optimizer_step},
    {"straggler", "waiting for the slowest rank", explain_straggler},
    {"throughput", "tokens per second", explain_throughput},
    {"throughput_per_gpu", "tokens per second and GPU", explain_throughput_per_gpu},
    {"gpu_hours", "GPU-hours of a trillion tokens", explain_gpu_hours},
    {"mfu", "useful FLOP/s over the peak", explain_mfu},
    {"mfu_full", "the same with attention counted in full", explain_mfu_full},
    {"mfu_hardware", "the same with recomputed work counted too", explain_mfu_hardware},
    {"memory", "peak memory of a stage, by category", explain_memory},
    {"weights", "weights of a stage", explain_weights},
    {"grads", "gradients of a stage", explain_grads},
    {"optimizer", "optimizer states of a stage", explain_optimizer},
    {"activations", "activations that a stage holds at its peak", explain_activations},
    {"other", "transients, communication buffers and context of a stage", explain_other},
    {"transient", "memory that lives for an instant", explain_transient},
    {"communication", "buffers of communicators", explain_communication},
    {"context", "CUDA context and modules", explain_context},
    {"memory_share", "peak memory over the GPU's", explain_share},
    {"peak_low", "lower end of the peak memory's interval", explain_peak_low},
    {"peak_high", "upper end of the peak memory's interval", explain_peak_high},
};

/// What the tables of reports call a term, where that is not its name.
constexpr std::pair<std::string_view, std::string_view> kPrinted[] = {
    {"stragglers", "straggler"}, {"tokens/s", "throughput"}, {"acts", "activations"},
    {"optim", "optimizer"},      {"gradients", "grads"},     {"peak", "memory"},
};

/// A term as it is written, in any case and with blanks or hyphens between its words, or as reports print it: `MFU`,
/// `step time`, `tp exposed`.
const Term* term_of(std::string_view word) {
  std::string name = lowered(std::string(word));
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == ' ' || c == '-'; }, '_');
  constexpr std::string_view kExposed = "_exposed";
  if (name.ends_with(kExposed)) name.resize(name.size() - kExposed.size());
  for (const auto& [printed, own] : kPrinted)
    if (name == printed) name = own;
  const auto* const row =
      std::find_if(std::begin(kTerms), std::end(kTerms), [&](const Term& t) { return t.name == name; });
  return row == std::end(kTerms) ? nullptr : row;
}

/// Names an explanation and its parts, and says at each symbol that has one where it is explained.
void name_parts(Explanation& e, const std::string& name) {
  e.name = name;
  for (Explanation& part : e.parts) {
    const std::string symbol = part.name;
    name_parts(part, fmt::format("{}.{}", name, symbol));
    for (ExplainedSymbol& s : e.symbols)
      if (s.name == symbol) s.origin = "plan explain " + part.name;
  }
}

/// The explanation of that name: the whole term's, or one of its parts'.
Result<Explanation> part_of(const Explanation& whole, std::string_view name) {
  const Explanation* found = nullptr;
  std::string known;
  each_explanation(whole, [&](const Explanation& e) {
    if (e.name == name) found = &e;
    if (&e != &whole) known += (known.empty() ? "" : ", ") + e.name;
  });
  if (found != nullptr) return *found;
  Error error{"unknown_term", fmt::format("`{}` has no part `{}`", whole.name, name), {}, {}};
  error.help.push_back(known.empty() ? fmt::format("`plan explain {}` has no parts", whole.name)
                                     : fmt::format("its parts: {}", known));
  return fail(error);
}

}  // namespace

std::span<const Term> terms() { return kTerms; }

Result<Explanation> explain(const Plan& plan, std::string_view term, int stage) {
  const int stages = static_cast<int>(plan.best.stages.size());
  if (stage >= stages)
    return fail(
        {"out_of_range", fmt::format("there is no stage {}: the layout has stages 0 to {}", stage, stages - 1)});
  const std::size_t end = std::min(term.find('.'), term.size());
  if (const Term* row = term_of(term.substr(0, end))) {
    Result<Explanation> explanation = row->explain(plan, stage);
    if (!explanation) return explanation;
    name_parts(*explanation, std::string(row->name));
    return part_of(*explanation, std::string(row->name) + std::string(term.substr(end)));
  }
  std::vector<std::string_view> names;
  for (const Term& row : kTerms) names.push_back(row.name);
  Error error{"unknown_term", fmt::format("no equation is known for `{}`", term), {}, {}};
  const std::string near = nearest_name(term, names);
  if (!near.empty()) error.help.push_back(fmt::format("a term with a similar name exists: `{}`", near));
  error.help.push_back(fmt::format("what can be explained: {}", fmt::join(names, ", ")));
  return fail(error);
}

std::string input_origin(const Plan& plan, std::string_view key) {
  for (const Input& input : plan.problem.inputs) {
    if (input.key != key) continue;
    switch (input.origin) {
      case Origin::Flag: {
        std::string flag = fmt::format("--{}", key);
        for (char& c : flag) c = c == '_' ? '-' : c;
        return flag;
      }
      case Origin::Preset: return "model";
      case Origin::Profile: return "profile";
      case Origin::File: return "file";
      case Origin::Default: return "default";
    }
  }
  return "";
}

}  // namespace plan
