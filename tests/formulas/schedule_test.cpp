#include "formulas/schedule.hpp"

#include <doctest/doctest.h>

#include <vector>

namespace plan {
namespace {

using doctest::Approx;

StageTime stage(double f, double i, double w, double pair = 0) {
  return {Seconds(f), Seconds(i), Seconds(w), Seconds(pair)};
}

double span_of(const Pipeline& pipe, const StageTime& each, double hop = 0) {
  const std::vector<StageTime> stages(static_cast<std::size_t>(pipe.pp), each);
  return pipeline_time(pipe, stages, Seconds(hop)).total().value;
}

TEST_CASE("activations in flight, worked numbers") {
  // plan-formulas(7) D5: chunks (stages times vp) of the first three ranks
  struct Row {
    Pipeline pipe;
    double chunks[3];
  };
  const Row rows[] = {
      {{Schedule::OneFOneB, 16, 1, 16}, {16, 15, 14}},
      {{Schedule::Interleaved, 16, 8, 32}, {143, 141, 139}},
      {{Schedule::Interleaved, 16, 8, 16}, {128, 128, 128}},
      {{Schedule::Interleaved, 8, 4, 64}, {39, 37, 35}},
      {{Schedule::GPipe, 8, 1, 20}, {20, 20, 20}},
      {{Schedule::OneFOneB, 8, 1, 2}, {2, 2, 2}},
      {{Schedule::BreadthFirst, 4, 2, 8}, {15, 13, 11}},
      {{Schedule::ZbH1, 4, 1, 8}, {4, 4, 4}},
      {{Schedule::ZbH2, 4, 1, 8}, {7, 7, 7}},
      {{Schedule::ZbV, 8, 2, 32}, {16, 16, 16}},
      {{Schedule::VHalf, 8, 2, 32}, {10, 10, 10}},
      {{Schedule::VMin, 12, 2, 32}, {10, 10, 10}},
      {{Schedule::DualPipe, 8, 1, 20}, {9, 9, 9}},
      {{Schedule::DualPipe, 16, 1, 40}, {17, 17, 17}},
      {{Schedule::DualPipeV, 4, 2, 10}, {9, 9, 9}},
      {{Schedule::DualPipeV, 8, 2, 20}, {17, 17, 17}},
  };
  for (const Row& row : rows)
    for (int rank = 0; rank < 3; ++rank) {
      CAPTURE(static_cast<int>(row.pipe.schedule));
      CAPTURE(rank);
      CHECK(in_flight(row.pipe, rank) * row.pipe.vp == Approx(row.chunks[rank]));
    }
}

TEST_CASE("step times, worked numbers") {
  // plan-formulas(7) F6
  struct Row {
    Pipeline pipe;
    StageTime each;
    double total;
  };
  const Row rows[] = {
      {{Schedule::OneFOneB, 4, 1, 8}, stage(1, 1, 1), 33},
      {{Schedule::GPipe, 4, 1, 8}, stage(1, 1, 1), 33},
      {{Schedule::OneFOneB, 8, 1, 32}, stage(1, 1, 1), 117},
      {{Schedule::Interleaved, 4, 2, 8}, stage(1, 1, 1), 28.5},
      {{Schedule::Interleaved, 8, 4, 16}, stage(1, 1, 1), 53.25},
      {{Schedule::Interleaved, 16, 2, 64}, stage(1, 1, 1), 214.5},
      {{Schedule::BreadthFirst, 8, 4, 16}, stage(1, 1, 1), 53.25},
      {{Schedule::ZbH1, 8, 1, 16}, stage(1, 1.2, 0.8), 16 * 3 + 9.8},
      {{Schedule::DualPipe, 8, 1, 20}, stage(1, 1, 1, 3), 66},
      {{Schedule::DualPipe, 8, 1, 20}, stage(1, 1, 1, 2.5), 59},
      {{Schedule::DualPipe, 16, 1, 120}, stage(1, 1, 1, 2.5), 319},
  };
  for (const Row& row : rows) {
    CAPTURE(static_cast<int>(row.pipe.schedule));
    CHECK(span_of(row.pipe, row.each) == Approx(row.total));
  }
  const std::vector<StageTime> dual(8, stage(1, 1, 1, 2.5));
  CHECK(pipeline_time({Schedule::DualPipe, 8, 1, 20}, dual, Seconds(0)).bubble.value == Approx(4.5));
}

TEST_CASE("bubble as a share of the step and over the ideal") {
  struct Row {
    int p, v;
    std::int64_t m;
    double over_ideal, of_step;
  };
  const Row rows[] = {{16, 1, 16, 0.9375, 0.4839}, {16, 1, 128, 0.1172, 0.1049}, {16, 8, 16, 0.1172, 0.1049}};
  for (const Row& row : rows) {
    const Pipeline pipe{row.v > 1 ? Schedule::Interleaved : Schedule::OneFOneB, row.p, row.v, row.m};
    const std::vector<StageTime> stages(static_cast<std::size_t>(row.p), stage(1, 1, 1));
    const PipelineTime time = pipeline_time(pipe, stages, Seconds(0));
    CHECK(time.bubble / time.busy == Approx(row.over_ideal).epsilon(1e-4));
    CHECK(time.bubble / time.total() == Approx(row.of_step).epsilon(1e-3));
  }
}

TEST_CASE("published bubbles at F = B_i = W = 1") {
  // Zero Bubble (arXiv:2401.10241) and DualPipe (github.com/deepseek-ai/DualPipe) tables, pair time 3
  struct Row {
    int p;
    std::int64_t m;
    double one_f_one_b, zb_h1, v2, v4, dual, held_h2, held_dual;
  };
  const Row rows[] = {{4, 8, 9, 3, 4.5, 2.25, 2, 7, 5},           {8, 24, 21, 7, 10.5, 5.25, 6, 15, 9},
                      {8, 32, 21, 7, 10.5, 5.25, 6, 15, 9},       {16, 48, 45, 15, 22.5, 11.25, 14, 31, 17},
                      {16, 128, 45, 15, 22.5, 11.25, 14, 31, 17}, {32, 96, 93, 31, 46.5, 23.25, 30, 63, 33}};
  for (const Row& row : rows) {
    const auto bubble = [&](Schedule schedule, int vp) {
      const std::vector<StageTime> stages(static_cast<std::size_t>(row.p), stage(1, 1, 1, 3));
      return pipeline_time({schedule, row.p, vp, row.m}, stages, Seconds(0)).bubble.value;
    };
    CAPTURE(row.p);
    CHECK(bubble(Schedule::OneFOneB, 1) == Approx(row.one_f_one_b));
    CHECK(bubble(Schedule::ZbH1, 1) == Approx(row.zb_h1));
    CHECK(bubble(Schedule::Interleaved, 2) == Approx(row.v2));
    CHECK(bubble(Schedule::Interleaved, 4) == Approx(row.v4));
    CHECK(bubble(Schedule::DualPipe, 1) == Approx(row.dual));
    CHECK(in_flight({Schedule::OneFOneB, row.p, 1, row.m}, 0) == row.p);
    CHECK(in_flight({Schedule::ZbH1, row.p, 1, row.m}, 0) == row.p);
    CHECK(in_flight({Schedule::ZbH2, row.p, 1, row.m}, 0) == row.held_h2);
    CHECK(in_flight({Schedule::DualPipe, row.p, 1, row.m}, 0) == row.held_dual);
  }
  CHECK(parameter_copies(Schedule::DualPipe) == 2);
  CHECK(parameter_copies(Schedule::OneFOneB) == 1);
}

TEST_CASE("exposed hops, worked numbers") {
  struct Row {
    Pipeline pipe;
    double hops;
  };
  const Row rows[] = {{{Schedule::OneFOneB, 8, 1, 16}, 40},   {{Schedule::OneFOneB, 8, 1, 64}, 124},
                      {{Schedule::OneFOneB, 4, 1, 8}, 16},    {{Schedule::OneFOneB, 2, 1, 16}, 16},
                      {{Schedule::Interleaved, 4, 2, 8}, 14}, {{Schedule::Interleaved, 8, 4, 16}, 62},
                      {{Schedule::GPipe, 8, 1, 16}, 14}};
  for (const Row& row : rows) {
    const double hop = 1e-3;
    CHECK((span_of(row.pipe, stage(1, 1, 1), hop) - span_of(row.pipe, stage(1, 1, 1))) / hop == Approx(row.hops));
  }
}

TEST_CASE("a slow end stage") {
  // plan-formulas(7) F6: the bound sum + (m-1) max = 81 is met when the last stage is slow, not when the first is
  std::vector<StageTime> last(8, stage(1, 1, 1)), first = last;
  last[7] = first[0] = stage(1.25, 1.25, 1.25);
  const Pipeline pipe{Schedule::OneFOneB, 8, 1, 16};
  CHECK(pipeline_time(pipe, last, Seconds(0)).total().value == Approx(81.0));
  CHECK(pipeline_time(pipe, first, Seconds(0)).total().value == Approx(75.75));
}

TEST_CASE("what a schedule needs") {
  CHECK(schedule_allows({Schedule::Interleaved, 16, 8, 32}));
  CHECK(schedule_allows({Schedule::Interleaved, 4, 2, 14, 5}));        // remainder 4 >= pp
  CHECK_FALSE(schedule_allows({Schedule::Interleaved, 4, 2, 13, 5}));  // remainder 3 < pp
  CHECK_FALSE(schedule_allows({Schedule::Interleaved, 4, 2, 8, 3}));   // group < pp
  CHECK_FALSE(schedule_allows({Schedule::Interleaved, 4, 2, 3}));      // m < pp
  CHECK_FALSE(schedule_allows({Schedule::Interleaved, 4, 2, 6}));      // m mod pp
  CHECK_FALSE(schedule_allows({Schedule::Interleaved, 4, 1, 8}));
  CHECK(schedule_allows({Schedule::OneFOneB, 4, 1, 1}));
  CHECK_FALSE(schedule_allows({Schedule::OneFOneB, 4, 2, 8}));
  CHECK(schedule_allows({Schedule::DualPipe, 8, 1, 20}));
  CHECK_FALSE(schedule_allows({Schedule::DualPipe, 7, 1, 20}));
  CHECK_FALSE(schedule_allows({Schedule::DualPipe, 8, 1, 21}));
  CHECK_FALSE(schedule_allows({Schedule::DualPipe, 8, 1, 14}));
  CHECK(schedule_allows({Schedule::DualPipeV, 8, 2, 17}));
  CHECK_FALSE(schedule_allows({Schedule::DualPipeV, 8, 2, 15}));
  CHECK_FALSE(schedule_allows({Schedule::ZbV, 8, 1, 32}));
}

TEST_CASE("the fewest micro-batches of a group are the first that interleaving takes") {
  for (int pp = 2; pp <= 12; ++pp)
    for (int m = 1; m <= 70; ++m) {
      int first = pp;
      while (first <= m && m % first > 0 && m % first < pp) ++first;
      CAPTURE(pp);
      CAPTURE(m);
      CHECK(fewest_in_group(pp, m) == first);
      CHECK(schedule_allows({Schedule::Interleaved, pp, 2, m, first}) == (m >= pp));
      if (m % pp == 0) CHECK(first == pp);
    }
}

}  // namespace
}  // namespace plan
