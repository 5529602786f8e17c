// Steps of published jobs under `plan diagnose`: nobody knows which of those runs had a fault, and most had none.
#include <doctest/doctest.h>

#include <map>
#include <tuple>
#include <vector>

#include "acceptance/published_runs.hpp"
#include "planner/estimate/uncertainty.hpp"
#include "planner/runs/diagnosis.hpp"
#include "planner/runs/run_rates.hpp"
#include "planner/search/ranking.hpp"

using namespace plan;
using namespace plan::acceptance;

namespace {

/// Calls `use` with every published run that was timed and whose job is stated whole: the run, its problem, its
/// seconds.
template <class Use>
void each_timed_run(Use use) {
  const Catalogue catalogue = presets();
  for (const Run& run : published_runs()) {
    if (run.status != "ok" || run.quality == "C" || run.task.starts_with("functional-test")) continue;
    const Result<RunProblem> built = problem_of(run, catalogue);
    if (!built || built->guessed) continue;
    const std::optional<double> seconds = measured_step_time(run, *built);
    if (seconds && *seconds > 0) use(run, *built, *seconds);
  }
}

}  // namespace

TEST_CASE("of published runs at most one in twelve stands out by its step alone") {
  int blamed = 0, all = 0;
  each_timed_run([&](const Run&, const RunProblem& built, double seconds) {
    MeasuredStep measured;
    measured.seconds[0] = seconds;
    ++all;
    blamed += diagnose(built.problem, estimate(built.problem, built.layout), measured, {}).worst ? 1 : 0;
  });
  MESSAGE(blamed, " of ", all, " stand out");
  CHECK(all > 1000);
  CHECK(blamed * 12 <= all);
}

TEST_CASE("nine of ten differences between published layouts of one job lie in the printed interval") {
  struct Timed {
    Estimate estimated;
    double measured = 0;
    Problem problem;
  };
  std::map<std::tuple<std::string, std::string, int, std::int64_t, std::int64_t, std::string>, std::vector<Timed>> jobs;
  each_timed_run([&](const Run& run, const RunProblem& built, double seconds) {
    const Training& training = built.problem.training;
    jobs[{run.suite, built.problem.model.name, built.problem.gpus, training.seq, training.global_batch,
          built.problem.cluster.name}]
        .push_back({estimate(built.problem, built.layout), seconds, built.problem});
  });
  struct Count {
    double inside = 0, all = 0;
  };
  std::map<std::string, Count> suites;
  for (const auto& [job, timed] : jobs)
    for (std::size_t a = 0; a < timed.size(); ++a)
      for (std::size_t b = a + 1; b < timed.size(); ++b) {
        if (same_degrees(timed[a].estimated.layout, timed[b].estimated.layout)) continue;
        const Difference predicted = paired_difference(timed[a].problem, timed[a].estimated, timed[b].estimated);
        const double measured = timed[a].measured / timed[b].measured - 1;
        Count& count = suites[std::get<0>(job)];
        ++count.all, count.inside += predicted.low <= measured && measured <= predicted.high;
      }
  double share = 0;
  int scored = 0;
  for (const auto& [suite, count] : suites) {
    if (count.all < 10) continue;
    MESSAGE(suite, ": ", count.inside, " of ", count.all);
    share += count.inside / count.all, ++scored;
  }
  share /= scored;
  MESSAGE("mean over suites: ", share);
  CHECK(scored >= 8);
  CHECK(share >= 0.85);
  CHECK(share <= 0.97);
}
