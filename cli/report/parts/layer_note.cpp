// What `--per-layer` adds to a report. Tested by tests/cli/per_layer_test.cpp.
#include "cli/report/parts/layer_note.hpp"

#include <fmt/format.h>

#include "cli/report/parts/choice_text.hpp"
#include "cli/report/parts/tables.hpp"
#include "cli/terminal/format.hpp"
#include "planner/answer/layout_text.hpp"

namespace plan {

Note per_layer_note(const Plan& plan, const PerLayer& found) {
  const char* left = found.exact ? "" : "; not every mix of layers was weighed";
  if (named(plan.problem.framework))
    return {"per_layer",
            "strategies of single layers were not looked for: the figures are of a framework whose layers "
            "all do the same"};
  if (!found.best)
    return {
        "per_layer",
        fmt::format("no strategies of single layers that Galvatron runs are faster than layers that are all the same{}",
                    left)};
  const Estimate& best = *found.best;
  return {"per_layer",
          fmt::format("strategies of single layers take {} beside {}, {} ({}), and {} GiB: `plan emit galvatron "
                      "--layout {}` with the job's words writes them{}",
                      step_text(plan, best.step_time), step_text(plan, plan.best.step_time),
                      signed_percent(best.step_time / plan.best.step_time - 1), difference_text(found.difference),
                      gib(best.peak), layout_flag(best.layout), left)};
}

}  // namespace plan
