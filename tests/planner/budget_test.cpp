// Oracles: verdicts against the definition of a limit on a grid of values; figures against sums over the estimate.
#include "planner/estimate/budget.hpp"

#include <doctest/doctest.h>

#include "oracle/random_problem.hpp"
#include "planner/answer/plan.hpp"

using namespace plan;

namespace {

Limit limit(Metric metric, Sense sense, double value, bool since = false, bool relative = false) {
  return {.metric = metric, .since_baseline = since, .fail = Bound{sense, value, relative, "x"}};
}

Estimate small_estimate() {
  Estimate e;
  e.peak = Bytes(60), e.peak_low = Bytes(58), e.peak_high = Bytes(63), e.capacity = Bytes(80);
  for (int i = 0; i < 3; ++i) {
    StageMemory stage{.stage = i};
    stage.weights = Bytes(10 + i), stage.activations = Bytes(40 - 10 * i), stage.grads = Bytes(i == 1 ? 9 : 3);
    e.stages.push_back(stage);
  }
  e.communication = {{Axis::Tp, Collective::AllGather, {8}, "a", Bytes(100)},
                     {Axis::Tp, Collective::ReduceScatter, {8}, "a", Bytes(20)},
                     {Axis::Dp, Collective::AllReduce, {8}, "a", Bytes(7)}};
  e.step_time = Seconds(2), e.tokens_per_s = 1000, e.mfu.model_causal = 0.4;
  return e;
}

}  // namespace

TEST_CASE("every metric has one row and is found by its name") {
  for (const MetricRow& row : metrics()) {
    CHECK(&metric_row(row.metric) == &row);
    CHECK((find_metric(row.name) == &row) == (row.metric != Metric::MemoryFit));
  }
  CHECK(find_metric("memory") == nullptr);
}

TEST_CASE("figures are what the estimate says") {
  const Estimate e = small_estimate();
  const RunLength run{.tokens = 3.6e6, .price = 2};
  const auto value = [&](Metric metric) { return measure(metric, e, {16, 16}, run).value; };
  CHECK(value(Metric::MemoryPeak) == 60);
  CHECK(measure(Metric::MemoryPeak, e, {16, 16}, run).high == 63);
  CHECK(measure(Metric::MemoryPeak, e, {16, 16}, run).low == 58);
  CHECK(value(find_metric("memory.weights")->metric) == 12);
  CHECK(value(find_metric("memory.grads")->metric) == 9);
  CHECK(value(find_metric("memory.activations")->metric) == 40);
  CHECK(value(Metric::BytesTp) == 120);
  CHECK(value(Metric::BytesDp) == 7);
  CHECK(value(Metric::BytesEp) == 0);
  CHECK(value(Metric::StepTime) == 2);
  CHECK(value(Metric::Mfu) == 0.4);
  CHECK(value(Metric::Gpus) == 16);
  CHECK(value(Metric::GpuHours) == doctest::Approx(16));  // 3600 s on 16 GPUs
  CHECK(value(Metric::Cost) == doctest::Approx(32));
  for (const MetricRow& row : metrics()) {
    if (row.metric == Metric::MemoryPeak || row.metric == Metric::MemoryFit) continue;
    const Figure figure = measure(row.metric, e, {16, 16}, run);
    CHECK(figure.low == figure.value);
    CHECK(figure.high == figure.value);
  }
}

TEST_CASE("a limit holds exactly where its definition says") {
  for (int low = 0; low <= 4; ++low)
    for (int value = low; value <= 4; ++value)
      for (int high = value; high <= 4; ++high)
        for (int bound = 0; bound <= 4; ++bound) {
          const Figure now{double(value), double(low), double(high)};
          for (const Sense sense : {Sense::AtMost, Sense::AtLeast}) {
            const bool most = sense == Sense::AtMost;
            const bool certain = most ? high <= bound : low >= bound;
            const bool possible = most ? low <= bound : high >= bound;
            const Verdict yes = judge(limit(Metric::MemoryPeak, sense, bound), now, {}, Risk::Yes);
            CHECK((yes.state == State::Fail) == !certain);
            CHECK(yes.state != State::Warn);
            CHECK(yes.at_risk == (!certain && possible));
            CHECK((yes.margin < 0) == !certain);
            const Verdict risk = judge(limit(Metric::MemoryPeak, sense, bound), now, {}, Risk::AtRisk);
            CHECK((risk.state == State::Fail) == !possible);
            CHECK((risk.state == State::Warn) == (!certain && possible));
          }
        }
}

TEST_CASE("warn levels") {
  Limit both = limit(Metric::StepTime, Sense::AtMost, 6);
  both.warn = Bound{Sense::AtMost, 5, false, "x"};
  const auto state = [&](double v) { return judge(both, {v, v, v}, {}, Risk::Yes).state; };
  CHECK(state(4.9) == State::Pass);
  CHECK(state(5) == State::Pass);
  CHECK(state(5.5) == State::Warn);
  CHECK(state(6) == State::Warn);
  CHECK(state(6.1) == State::Fail);
  CHECK(judge(both, {5.5, 5.5, 5.5}, {}, Risk::Yes).bound.value == 5);
  CHECK(judge(both, {4, 4, 4}, {}, Risk::Yes).bound.value == 6);
  Limit only = both;
  only.fail.reset();
  CHECK(judge(only, {9, 9, 9}, {}, Risk::Yes).state == State::Warn);
}

TEST_CASE("changes since a baseline compare predicted values, exactly") {
  const Figure now{102, 90, 120};
  CHECK(judge(limit(Metric::MemoryPeak, Sense::AtMost, 0.02, true, true), now, 100.0, Risk::Yes).state == State::Pass);
  CHECK(judge(limit(Metric::MemoryPeak, Sense::AtMost, 0.0199, true, true), now, 100.0, Risk::Yes).state ==
        State::Fail);
  CHECK(judge(limit(Metric::MemoryPeak, Sense::AtMost, 2, true), now, 100.0, Risk::Yes).state == State::Pass);
  CHECK(judge(limit(Metric::MemoryPeak, Sense::AtMost, 1.9, true), now, 100.0, Risk::Yes).state == State::Fail);
  CHECK(judge(limit(Metric::Mfu, Sense::AtLeast, -0.01, true), {0.39, 0.39, 0.39}, 0.4, Risk::Yes).state ==
        State::Fail);
  CHECK(judge(limit(Metric::BytesEp, Sense::AtMost, 0.5, true, true), {1, 1, 1}, 0.0, Risk::Yes).state == State::Fail);
  CHECK(judge(limit(Metric::BytesEp, Sense::AtMost, 0, true, true), {0, 0, 0}, 0.0, Risk::Yes).state == State::Pass);
}

TEST_CASE("the GPU's memory is a limit of every job") {
  Budget budget{.limits = {{.metric = Metric::MemoryFit, .fail = Bound{}}}};
  Estimate e = small_estimate();
  CHECK(passes(judge_all(budget, e, {8, 8}, nullptr)));
  e.capacity = Bytes(62);
  CHECK(!passes(judge_all(budget, e, {8, 8}, nullptr)));
  budget.risk = Risk::AtRisk;
  CHECK(passes(judge_all(budget, e, {8, 8}, nullptr)));
  e.capacity = Bytes(57);
  CHECK(!passes(judge_all(budget, e, {8, 8}, nullptr)));
}

TEST_CASE("memory.fit agrees with what a plan says of fitting") {
  Problem problem;
  problem.model = oracle::dense_model(32, 4096, 32, 8, 14336, 128256);
  problem.cluster = oracle::plain_cluster();
  problem.gpus = 8;
  problem.training.seq = 4096, problem.training.global_batch = 64;
  for (const int micro_batch : {1, 2, 4, 8})
    for (const int zero : {0, 1, 2, 3}) {
      const Estimate e = estimate(problem, {.tp = 1, .dp = 8, .zero = zero, .micro_batch = micro_batch});
      const Budget budget{.limits = {{.metric = Metric::MemoryFit, .fail = Bound{}}}};
      const Verdict verdict = judge_all(budget, e, {8, 8}, nullptr).front();
      CHECK((verdict.state == State::Pass) == (e.fits == Fits::Yes));
      CHECK(verdict.at_risk == (e.fits == Fits::AtRisk));
    }
}
