// Steps of published jobs under `plan diagnose`: nobody knows which of those runs had a fault, and most had none.
#include <doctest/doctest.h>

#include "acceptance/published_runs.hpp"
#include "planner/runs/diagnosis.hpp"

using namespace plan;
using namespace plan::acceptance;

TEST_CASE("of published runs at most one in twelve stands out by its step alone") {
  const Catalogue catalogue = presets();
  int blamed = 0, all = 0;
  for (const Run& run : published_runs()) {
    if (run.status != "ok" || run.quality == "C" || run.task.starts_with("functional-test")) continue;
    const Result<RunProblem> built = problem_of(run, catalogue);
    if (!built || built->guessed) continue;
    const std::optional<double> seconds = measured_step_time(run, *built);
    if (!seconds || !(*seconds > 0)) continue;
    MeasuredStep measured;
    measured.seconds[0] = *seconds;
    ++all;
    blamed += diagnose(built->problem, estimate(built->problem, built->layout), measured, {}).worst ? 1 : 0;
  }
  MESSAGE(blamed, " of ", all, " stand out");
  CHECK(all > 1000);
  CHECK(blamed * 12 <= all);
}
