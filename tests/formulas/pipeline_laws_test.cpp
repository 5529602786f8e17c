// The closed forms of formulas/schedule.hpp against a replay of the schedule's operations.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "formulas/names.hpp"
#include "formulas/schedule.hpp"
#include "formulas/textbook/textbook_pipeline.hpp"
#include "tests/oracle/pipeline_sim.hpp"

namespace plan {
namespace {

using doctest::Approx;

struct Mix {
  double f, i, w;
  double work() const { return f + i + w; }
};

bool dual(Schedule s) { return s == Schedule::DualPipe || s == Schedule::DualPipeV; }

/// Replays `pipe` where rank r takes mix * scale[r] for its whole stage and a pair saves `saved` of it.
oracle::Run replay(const Pipeline& pipe, const Mix& mix, const std::vector<double>& scale, double saved, double hop) {
  const int chunks = pipe.schedule == Schedule::DualPipe ? 1 : pipe.vp;
  std::vector<oracle::Cost> costs;
  for (int stage = 0; stage < pipe.pp * chunks; ++stage) {
    const bool back = v_shaped(pipe.schedule) && stage >= pipe.pp;
    const double k = scale[back ? 2 * pipe.pp - 1 - stage : stage % pipe.pp] / chunks;
    costs.push_back({mix.f * k, mix.i * k, mix.w * k, saved * k});
  }
  return oracle::replay({pipe.schedule, pipe.pp, pipe.vp, static_cast<int>(pipe.micro_batches), pipe.group}, costs,
                        hop);
}

PipelineTime predict(const Pipeline& pipe, const Mix& mix, const std::vector<double>& scale, double saved, double hop) {
  std::vector<StageTime> stages;
  for (int r = 0; r < pipe.pp; ++r) {
    const double k = pipe.schedule == Schedule::DualPipe ? (scale[r] + scale[pipe.pp - 1 - r]) / 2 : scale[r];
    stages.push_back({Seconds(mix.f * k), Seconds(mix.i * k), Seconds(mix.w * k), Seconds((mix.work() - saved) * k)});
  }
  return pipeline_time(pipe, stages, Seconds(hop));
}

/// Calls `check` for every legal pipeline of up to 8 ranks, 24 micro-batches and 4 chunks.
template <class Check>
void for_each_pipeline(Schedule schedule, Check check) {
  for (int pp = 2; pp <= 8; ++pp)
    for (int m = 1; m <= 24; ++m)
      for (int vp = 1; vp <= 4; ++vp)
        if (const Pipeline pipe{schedule, pp, vp, m}; schedule_allows(pipe)) check(pipe);
}

const Mix kMixes[] = {{1, 1, 1}, {1, 1.2, 0.8}, {1, 1.5, 0.5}, {1, 2, 1}, {1, 0.8, 1.2}, {1.2, 1, 1}, {0.8, 1, 1}};
std::vector<Schedule> schedules(bool split) {
  std::vector<Schedule> out;
  for (const ScheduleRow& row : kScheduleRows)
    if (row.splits_backward == split) out.push_back(row.schedule);
  return out;
}

/// Enough micro-batches to fill a schedule that warms up with 2 pp - 1.
bool filled(const Pipeline& pipe) { return pipe.micro_batches >= 2 * pipe.pp - 1; }

TEST_CASE("equal stages: step time and exposed hops are exact") {
  for (const Schedule schedule : schedules(false))
    for_each_pipeline(schedule, [&](const Pipeline& pipe) {
      const std::vector<double> equal(pipe.pp, 1.0);
      for (const Mix& mix : kMixes)
        for (const double hop : {0.0, 1e-3}) {
          CAPTURE(name(schedule));
          CAPTURE(pipe.pp);
          CAPTURE(pipe.vp);
          CAPTURE(pipe.micro_batches);
          CAPTURE(hop);
          const oracle::Run run = replay(pipe, mix, equal, 0, hop);
          REQUIRE_FALSE(run.deadlock);
          CHECK(predict(pipe, mix, equal, 0, hop).total().value == Approx(run.makespan).epsilon(1e-9));
        }
    });
}

TEST_CASE("equal stages: schedules with split backward") {
  // Where the law is exact, and how far it may be off elsewhere (share of the step).
  const auto tolerance = [](const Pipeline& pipe, const Mix& mix) {
    const bool plain = mix.f == 1 && mix.i >= mix.f && mix.i >= mix.w;
    const bool unit = mix.f == mix.i && mix.i == mix.w;
    switch (pipe.schedule) {
      case Schedule::ZbH1: return pipe.micro_batches >= pipe.pp || plain ? 1e-9 : 0.08;
      case Schedule::ZbH2: return filled(pipe) ? 1e-9 : 0.14;
      case Schedule::ZbV: return filled(pipe) && (plain || mix.f < mix.i) ? 1e-9 : filled(pipe) ? 0.013 : 0.11;
      case Schedule::DualPipe:
      case Schedule::DualPipeV: return mix.i == mix.w && mix.f == mix.i ? 1e-9 : 0.045;
      default: return unit ? 0.07 : 0.20;  // V-half and V-min: a rank's order fits only equal operations
    }
  };
  for (const Schedule schedule : schedules(true))
    for_each_pipeline(schedule, [&](const Pipeline& pipe) {
      const std::vector<double> equal(pipe.pp, 1.0);
      for (const Mix& mix : kMixes)
        for (const double saved : {0.0, dual(schedule) ? 0.5 : 0.0}) {
          CAPTURE(name(schedule));
          CAPTURE(pipe.pp);
          CAPTURE(pipe.micro_batches);
          CAPTURE(mix.i);
          CAPTURE(mix.f);
          const oracle::Run run = replay(pipe, mix, equal, saved, 0);
          REQUIRE_FALSE(run.deadlock);
          const double off = predict(pipe, mix, equal, saved, 0).total().value / run.makespan - 1;
          CHECK(std::abs(off) <= tolerance(pipe, mix));
        }
    });
}

TEST_CASE("equal stages: exposed hops of schedules with split backward") {
  struct Row {
    Schedule schedule;
    double off;  ///< hops
  };
  const Row rows[] = {{Schedule::ZbH1, 1e-4},    {Schedule::ZbH2, 1e-4},     {Schedule::ZbV, 1e-4},
                      {Schedule::DualPipe, 0.6}, {Schedule::DualPipeV, 1.6}, {Schedule::VMin, 27}};
  for (const Row& row : rows)
    for_each_pipeline(row.schedule, [&](const Pipeline& pipe) {
      if (!filled(pipe)) return;
      const std::vector<double> equal(pipe.pp, 1.0);
      const double hop = 1e-4;
      CAPTURE(name(row.schedule));
      CAPTURE(pipe.pp);
      CAPTURE(pipe.micro_batches);
      const double exposed =
          replay(pipe, {1, 1, 1}, equal, 0, hop).makespan - replay(pipe, {1, 1, 1}, equal, 0, 0).makespan;
      CHECK(std::abs(predict(pipe, {1, 1, 1}, equal, 0, hop).hop.value - exposed) / hop <= row.off);
    });
}

TEST_CASE("activations in flight, every rank") {
  for (int k = 0; k < kSchedules; ++k) {
    const Schedule schedule = static_cast<Schedule>(k);
    for_each_pipeline(schedule, [&](const Pipeline& pipe) {
      const oracle::Run run = replay(pipe, {1, 1, 1}, std::vector<double>(pipe.pp, 1.0), 0, 0);
      const bool exact = schedule != Schedule::VMin && (!v_shaped(schedule) || filled(pipe));
      for (int rank = 0; rank < pipe.pp; ++rank) {
        CAPTURE(name(schedule));
        CAPTURE(pipe.pp);
        CAPTURE(pipe.vp);
        CAPTURE(pipe.micro_batches);
        CAPTURE(rank);
        const double held = in_flight(pipe, rank) * pipe.vp;
        if (exact) CHECK(held == Approx(run.held_to_weight[rank]));
        if (schedule == Schedule::ZbH2)  // the textbook counts micro-batches until the gradient of their input
          CHECK(textbook::in_flight_zb_h2({static_cast<double>(pipe.pp), static_cast<double>(pipe.micro_batches),
                                           static_cast<double>(rank)}) == run.held_to_input[rank]);
        CHECK(held >= run.held_to_weight[rank] - 1e-9);
      }
      if (schedule == Schedule::VMin)
        CHECK(*std::max_element(run.held_to_weight.begin(), run.held_to_weight.end()) ==
              doctest::Approx(in_flight(pipe, 0) * 2).epsilon(pipe.pp == 2 ? 0.5 : 1e-9));
    });
  }
}

TEST_CASE("hops longer than a chunk's work") {
  // Beyond about 0.4 of F the interleaved schedule's slack is used up and every chunk waits.
  for (const double hop : {0.1, 0.2, 0.4, 0.8})
    for (const int pp : {4, 8})
      for (const int m : {16, 64}) {
        const std::vector<double> equal(pp, 1.0);
        const Mix mix{1, 1, 1};
        const Pipeline plain{Schedule::OneFOneB, pp, 1, m}, chunked{Schedule::Interleaved, pp, 4, m};
        CAPTURE(hop);
        CAPTURE(pp);
        CAPTURE(m);
        CHECK(predict(plain, mix, equal, 0, hop).total().value == Approx(replay(plain, mix, equal, 0, hop).makespan));
        CHECK(predict(chunked, mix, equal, 0, hop).total().value == Approx(replay(chunked, mix, equal, 0, hop).makespan)
                                                                        .epsilon(hop < 0.3   ? 1e-9
                                                                                 : hop < 0.5 ? 0.01
                                                                                             : 0.07));
      }
}

struct Spread {
  double mean = 0, low = 0, high = 0;
};

/// Error of the closed form over random unequal stages.
Spread spread(Schedule schedule, double uneven, double hop) {
  std::mt19937 random(17);
  std::uniform_real_distribution<double> unit(0, 1);
  Spread out;
  int runs = 0;
  for_each_pipeline(schedule, [&](const Pipeline& pipe) {
    std::vector<double> scale(pipe.pp);
    for (double& s : scale) s = 1 + uneven * unit(random);
    const double x = hop * unit(random);
    const double ratio =
        predict(pipe, {1, 1.2, 0.8}, scale, 0, x).total().value / replay(pipe, {1, 1.2, 0.8}, scale, 0, x).makespan - 1;
    out.mean += ratio, ++runs;
    out.low = std::min(out.low, ratio), out.high = std::max(out.high, ratio);
  });
  out.mean /= runs;
  return out;
}

TEST_CASE("unequal stages: between the bounds and close") {
  struct Row {
    Schedule schedule;
    double uneven, hop, mean, low, high;
  };
  const Row rows[] = {
      {Schedule::GPipe, 0.3, 0.03, 1e-9, -1e-9, 1e-9},
      {Schedule::OneFOneB, 0.1, 0, 1e-9, -1e-9, 1e-9},
      {Schedule::OneFOneB, 0.3, 0, 1e-9, -1e-9, 1e-9},
      {Schedule::OneFOneB, 0.3, 0.03, 0.001, -0.005, 0.01},
      {Schedule::OneFOneB, 0.3, 10, 0.002, -0.02, 0.03},
      {Schedule::Interleaved, 0.1, 0, 0.001, -0.02, 1e-9},
      {Schedule::Interleaved, 0.3, 0, 0.002, -0.04, 1e-9},
      {Schedule::Interleaved, 0.3, 0.03, 0.002, -0.04, 1e-9},
      {Schedule::BreadthFirst, 0.3, 0.03, 0.003, -0.04, 1e-9},
      {Schedule::ZbH1, 0.1, 0, 0.01, -0.07, 0.05},
      {Schedule::ZbV, 0.1, 0, 0.015, -0.06, 0.13},
      {Schedule::DualPipe, 0.1, 0, 0.015, -0.04, 0.05},
      {Schedule::DualPipeV, 0.1, 0, 0.02, -0.04, 0.06},
  };
  for (const Row& row : rows) {
    CAPTURE(name(row.schedule));
    CAPTURE(row.uneven);
    CAPTURE(row.hop);
    const Spread off = spread(row.schedule, row.uneven, row.hop);
    CHECK(std::abs(off.mean) <= row.mean);
    CHECK(off.low >= row.low);
    CHECK(off.high <= row.high);
  }
}

TEST_CASE("no division of the work takes less than the least span") {
  std::mt19937 random(29);
  std::uniform_real_distribution<double> unit(0, 1);
  int tried = 0;
  while (tried < 200'000) {
    const auto schedule = static_cast<Schedule>(random() % kSchedules);
    const ScheduleRow& row = schedule_row(schedule);
    const Pipeline pipe{schedule, 1 + static_cast<int>(random() % 24),
                        row.chunks == Chunks::One   ? 1
                        : row.chunks == Chunks::Two ? 2
                                                    : 2 + static_cast<int>(random() % 6),
                        1 + static_cast<int>(random() % 60)};
    if (!schedule_allows(pipe)) continue;
    // Some kinds of work missing everywhere, some stages without any.
    const double parts[3] = {unit(random), 2 * unit(random), random() % 4 == 0 ? 0 : unit(random)};
    const double uneven = random() % 3 == 0 ? 0 : unit(random);
    std::vector<StageTime> stages(static_cast<std::size_t>(pipe.pp));
    StageTime whole;
    for (StageTime& stage : stages) {
      const auto some = [&](double part) { return Seconds(part * (1 - uneven * unit(random)) + 1e-6); };
      stage = {some(parts[0]), some(parts[1]), some(parts[2])};
      if (random() % 16 == 0) stage.forward = Seconds(0);
      whole.forward += stage.forward, whole.backward_input += stage.backward_input;
      whole.backward_weight += stage.backward_weight;
    }
    const PipelineTime time = pipeline_time(pipe, stages, {});
    CAPTURE(row.name);
    CAPTURE(pipe.pp);
    CAPTURE(pipe.vp);
    CAPTURE(pipe.micro_batches);
    REQUIRE(least_span(pipe, whole) <= (1 + 1e-9) * (time.busy + time.bubble));
    ++tried;
  }
}

TEST_CASE("unequal ends around equal stages") {
  // The usual case: embedding in front, head at the back, the rest equal.
  struct Row {
    Schedule schedule;
    double low, high;
  };
  const Row rows[] = {{Schedule::OneFOneB, -0.03, 0.01}, {Schedule::Interleaved, -0.07, 1e-9}};
  std::mt19937 random(5);
  std::uniform_real_distribution<double> end(0.6, 1.3), unit(0, 1);
  for (const Row& row : rows) {
    double mean = 0;
    int runs = 0;
    for_each_pipeline(row.schedule, [&](const Pipeline& pipe) {
      std::vector<double> scale(pipe.pp, 1.0);
      scale.front() = end(random), scale.back() = end(random);
      const double hop = 0.03 * unit(random);
      CAPTURE(name(row.schedule));
      CAPTURE(pipe.pp);
      CAPTURE(pipe.micro_batches);
      const double off = predict(pipe, {1, 1.2, 0.8}, scale, 0, hop).total().value /
                             replay(pipe, {1, 1.2, 0.8}, scale, 0, hop).makespan -
                         1;
      CHECK(off >= row.low);
      CHECK(off <= row.high);
      mean += off, ++runs;
    });
    CHECK(std::abs(mean / runs) < 0.002);
  }
}

TEST_CASE("1F1B with unequal stages keeps the published bounds") {
  // plan-formulas(7) F6: max_r [ sum of the stages before r + m (F_r + B_r) ] <= T <= sum + (m - 1) max
  std::mt19937 random(3);
  std::uniform_real_distribution<double> unit(1, 1.5);
  double over = 0;
  const int rounds = 200;
  for (int round = 0; round < rounds; ++round) {
    const Pipeline pipe{Schedule::OneFOneB, 2 + static_cast<int>(random() % 7), 1, 8 + static_cast<int>(random() % 40)};
    std::vector<double> scale(pipe.pp);
    for (double& s : scale) s = unit(random);
    double sum = 0, lower = 0;
    for (const double s : scale)
      lower = std::max(lower, 3 * (sum + static_cast<double>(pipe.micro_batches) * s)), sum += s;
    const double most = *std::max_element(scale.begin(), scale.end());
    const double upper = 3 * (sum + static_cast<double>(pipe.micro_batches - 1) * most);
    const double simulated = replay(pipe, {1, 1, 1}, scale, 0, 0).makespan;
    const double predicted = predict(pipe, {1, 1, 1}, scale, 0, 0).total().value;
    CHECK(lower <= simulated * (1 + 1e-12));
    CHECK(simulated <= upper * (1 + 1e-12));
    CHECK(predicted <= upper * (1 + 1e-12));
    over += upper / simulated - 1;
    CHECK(predicted == Approx(simulated).epsilon(0.005));
  }
  CHECK(over / rounds < 0.025);
}

TEST_CASE("interleaved groups that leave a remainder") {
  // Megatron-LM takes any group of at least pp micro-batches whose remainder is 0 or at least pp.
  for (const int group : {4, 5, 6, 8})
    for (int m = group; m <= 24; ++m) {
      const Pipeline pipe{Schedule::Interleaved, 4, 2, m, group};
      if (!schedule_allows(pipe)) continue;
      CAPTURE(group);
      CAPTURE(m);
      const std::vector<double> equal(4, 1.0);
      const oracle::Run run = replay(pipe, {1, 1, 1}, equal, 0, 0);
      REQUIRE_FALSE(run.deadlock);
      CHECK(predict(pipe, {1, 1, 1}, equal, 0, 0).total().value == Approx(run.makespan));
      CHECK(in_flight(pipe, 0) * 2 == Approx(run.held_to_weight[0]));
    }
}

}  // namespace
}  // namespace plan
