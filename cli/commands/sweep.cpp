// `plan sweep`: the best layout at every value of a flag. Tested by tests/cli/sweep_test.cpp.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>

#include "cli/commands/commands.hpp"
#include "cli/commands/sweep_points.hpp"
#include "cli/report/sweep/sweep.hpp"
#include "cli/request/resolve.hpp"
#include "cli/terminal/diagnostic.hpp"
#include "cli/terminal/output.hpp"

namespace plan {

int run_sweep(const Args& args, Streams& streams) {
  const bool progress = streams.err_terminal.tty && !streams.quiet;
  const Result<PlanSweep> sweep = run_sweep_points(args, [&](int done, int all) {
    if (progress) static_cast<void>(write_all(STDERR_FILENO, progress_line(fmt::format("sweep {}/{}", done + 1, all))));
  });
  if (progress) static_cast<void>(write_all(STDERR_FILENO, progress_line("")));
  if (!sweep) return report_errors(sweep.error(), streams);
  if (wants_json(args))
    streams.out = sweep_json(*sweep);
  else if (args.format == "csv")
    streams.out = sweep_csv(*sweep);
  else if (args.format == "html")
    streams.out = sweep_html(*sweep);
  else if (args.format == "markdown")
    streams.out = sweep_markdown(*sweep);
  else
    streams.out = sweep_text(*sweep, streams.out_terminal);
  const bool any =
      std::any_of(sweep->points.begin(), sweep->points.end(), [](const SweptPlan& p) { return p.plan.has_value(); });
  const bool late = sweep->deadline && !sweep->deadline->fewest;
  return any && !late ? kYes : kNo;
}

}  // namespace plan
