// Steps that follow each other without a barrier, in closed form against a replay of several of them.

#include <doctest/doctest.h>

#include <vector>

#include "formulas/schedule.hpp"
#include "tests/oracle/pipeline_sim.hpp"

namespace plan {
namespace {

using doctest::Approx;

struct Mix {
  double f, i, w;
};
const Mix kMixes[] = {{1, 1, 1},     {1, 1.2, 0.8}, {1, 1.5, 0.5}, {1, 2, 1},
                      {1, 0.8, 1.2}, {1.2, 1, 1},   {0.8, 1, 1},   {0.5, 1, 1.5}};

/// What a third step adds to two, each rank beginning it as soon as it is done with its own part of the second.
double next_step(const Pipeline& pipe, const Mix& mix, double hop) {
  const int chunks = pipe.schedule == Schedule::DualPipe ? 1 : pipe.vp;
  const std::vector<oracle::Cost> costs(static_cast<std::size_t>(pipe.pp * chunks),
                                        {mix.f / chunks, mix.i / chunks, mix.w / chunks, 0});
  const auto makespan = [&](int steps) {
    return oracle::replay({pipe.schedule, pipe.pp, pipe.vp, static_cast<int>(pipe.micro_batches), pipe.group, steps},
                          costs, hop)
        .makespan;
  };
  return makespan(3) - makespan(2);
}

PipelineTime predict(const Pipeline& pipe, const Mix& mix, double hop) {
  const StageTime stage{Seconds(mix.f), Seconds(mix.i), Seconds(mix.w), {}};
  return pipeline_time(pipe, std::vector<StageTime>(static_cast<std::size_t>(pipe.pp), stage), Seconds(hop));
}

/// Calls `check` for every legal pipeline of up to 8 ranks, 24 micro-batches and 4 chunks.
template <class Check>
void for_each_pipeline(Schedule schedule, Check check) {
  for (int pp = 2; pp <= 8; ++pp)
    for (int m = 1; m <= 24; ++m)
      for (int vp = 1; vp <= 4; ++vp)
        if (const Pipeline pipe{schedule, pp, vp, m}; schedule_allows(pipe)) {
          CAPTURE(schedule_row(schedule).name);
          CAPTURE(pp);
          CAPTURE(vp);
          CAPTURE(m);
          check(pipe);
        }
}

bool horizontal(Schedule schedule) { return schedule == Schedule::ZbH1 || schedule == Schedule::ZbH2; }
/// Enough micro-batches to fill a schedule that warms up with 2 pp - 1.
bool filled(const Pipeline& pipe) { return pipe.micro_batches >= 2 * pipe.pp - 1; }
Pipeline rolling(Pipeline pipe) { return pipe.rolls_on = true, pipe; }

TEST_CASE("equal stages: ZB-H1 and ZB-H2 that roll on follow each other as the replay of several steps does") {
  for (const Schedule schedule : {Schedule::ZbH1, Schedule::ZbH2})
    for_each_pipeline(schedule, [&](const Pipeline& pipe) {
      if (!filled(pipe)) return;
      for (const Mix& mix : kMixes) {
        CAPTURE(mix.f);
        CAPTURE(mix.i);
        CHECK(predict(rolling(pipe), mix, 0).total().value == Approx(next_step(pipe, mix, 0)).epsilon(1e-9));
      }
    });
}

TEST_CASE("equal stages: hops that show between steps that roll on") {
  for (const Schedule schedule : {Schedule::ZbH1, Schedule::ZbH2})
    for_each_pipeline(schedule, [&](const Pipeline& pipe) {
      if (!filled(pipe)) return;
      const Mix unit{1, 1, 1};
      const double hop = 1e-4, exposed = next_step(pipe, unit, hop) - next_step(pipe, unit, 0);
      CHECK(predict(rolling(pipe), unit, hop).hop.value == Approx(exposed).epsilon(1e-6));
    });
}

TEST_CASE("no step that rolls on is slower than one alone, nor its least time more than itself") {
  for (const ScheduleRow& row : kScheduleRows)
    for_each_pipeline(row.schedule, [&](const Pipeline& pipe) {
      for (const Mix& mix : kMixes) {
        CAPTURE(mix.f);
        CAPTURE(mix.i);
        const double alone = predict(pipe, mix, 0).total().value, rolls = predict(rolling(pipe), mix, 0).total().value;
        CHECK(rolls <= alone);
        if (!horizontal(row.schedule)) CHECK(rolls == alone);
        const double p = pipe.pp;
        const StageTime whole{Seconds(p * mix.f), Seconds(p * mix.i), Seconds(p * mix.w), {}};
        CHECK(least_span(rolling(pipe), whole).value <= rolls * (1 + 1e-12));
      }
    });
}

TEST_CASE("schedules whose first stage begins a step and ends it gain nothing by rolling on") {
  for (const Schedule schedule : {Schedule::GPipe, Schedule::OneFOneB, Schedule::Interleaved, Schedule::BreadthFirst})
    for_each_pipeline(schedule, [&](const Pipeline& pipe) {
      for (const Mix& mix : kMixes)
        CHECK(predict(pipe, mix, 0).total().value == Approx(next_step(pipe, mix, 0)).epsilon(1e-9));
    });
}

}  // namespace
}  // namespace plan
