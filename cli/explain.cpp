// Terms that `plan explain` follows down to their symbols. Tested by tests/cli/explain_test.cpp: every equation,
// evaluated as text, gives the number that the report prints.
#include "cli/explain.hpp"

#include <fmt/format.h>

#include <vector>

#include "cli/explain_terms.hpp"
#include "presets/suggest.hpp"

namespace plan {
namespace {

constexpr Term kTerms[] = {
    {"step_time", "time of one optimizer step, by what it goes to", explain_step_time},
    {"compute", "time in kernels, and the share of the peak that they reach", explain_compute},
    {"bubble", "waiting for other pipeline stages", explain_bubble},
    {"tp", "tensor-parallel communication that stays exposed", explain_tp},
    {"cp", "context-parallel communication that stays exposed", explain_cp},
    {"ep", "expert-parallel communication that stays exposed", explain_ep},
    {"pp", "pipeline communication that stays exposed", explain_pp},
    {"dp", "data-parallel communication that stays exposed", explain_dp},
    {"throughput", "tokens per second", explain_throughput},
    {"mfu", "useful FLOP/s over the peak", explain_mfu},
    {"memory", "peak memory of a stage, by category", explain_memory},
    {"weights", "weights of a stage", explain_weights},
    {"grads", "gradients of a stage", explain_grads},
    {"optimizer", "optimizer states of a stage", explain_optimizer},
    {"activations", "activations that a stage holds at its peak", explain_activations},
    {"other", "transients, communication buffers and context of a stage", explain_other},
};

}  // namespace

std::span<const Term> terms() { return kTerms; }

Result<Explanation> explain(const Plan& plan, std::string_view term, int stage) {
  const int stages = static_cast<int>(plan.best.stages.size());
  if (stage >= stages)
    return fail(
        {"out_of_range", fmt::format("there is no stage {}: the layout has stages 0 to {}", stage, stages - 1)});
  for (const Term& row : kTerms) {
    if (row.name != term) continue;
    Result<Explanation> explanation = row.explain(plan, stage);
    if (explanation) explanation->name = std::string(term);
    return explanation;
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
