// Stages of unequal work under every schedule: the closed form that prices them against the event simulator.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>

#include "formulas/names.hpp"
#include "formulas/schedule.hpp"
#include "oracle/random_problem.hpp"
#include "planner/estimate/simulate.hpp"

using namespace plan;

TEST_CASE("unequal stages: the law is the simulated step under 1f1b and gpipe, and within a sixth elsewhere") {
  std::mt19937 random(31);
  const auto pick = [&](std::initializer_list<int> from) { return *(from.begin() + random() % from.size()); };
  for (const Named<Schedule>& row : kScheduleNames) {
    double worst = 0, below = 0;
    for (int round = 0; round < oracle::rounds(200); ++round) {
      Pipeline pipeline{.schedule = row.value, .pp = pick({2, 4, 8}), .micro_batches = pick({8, 16, 32, 64})};
      pipeline.vp = takes_chunks(row.value, 1) ? 1 : pick({2, 4});
      if (!takes_chunks(row.value, pipeline.vp)) pipeline.vp = 2;
      if (!schedule_allows(pipeline)) continue;
      const double other = pick({5, 8, 12, 20}) / 10.0;
      const int cut = 1 + static_cast<int>(random() % static_cast<unsigned>(pipeline.pp - 1));
      std::vector<StageTime> stages;
      for (int stage = 0; stage < pipeline.pp; ++stage) {
        // Both directions of DualPipe pass every rank, so that ranks which mirror each other work alike.
        const int mirrored = row.value == Schedule::DualPipe ? std::min(stage, pipeline.pp - 1 - stage) : stage;
        const double scale = mirrored < cut ? 1 : other;
        stages.push_back({Seconds(scale), Seconds(scale), Seconds(scale), {}});
      }
      const Hops none;
      const double law = pipeline_time(pipeline, stages, none).total().value;
      const double run = simulate_makespan(pipeline, chunk_times(pipeline, stages), none).value;
      worst = std::max(worst, law / run - 1), below = std::min(below, law / run - 1);
    }
    CAPTURE(std::string(row.name));
    const bool exact = row.value == Schedule::OneFOneB || row.value == Schedule::GPipe;
    CHECK(worst <= (exact ? 1e-9 : 0.16));
    CHECK(below >= (exact ? -1e-9 : -0.11));
  }
}
