// Runs that are proposed, made under a truth that is known here, and taken in: what is believed then holds the truth as
// often as it says, and is as narrow as was said. The truth errs by factors on whole terms, not by the linear law that
// the beliefs follow.
#include "planner/choice/next_runs.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <random>

#include "planner/rules/rules.hpp"
#include "tests/oracle/random_problem.hpp"

using namespace plan;

namespace {

Problem job() {
  Problem problem;
  problem.model = oracle::dense_model(32, 4096, 32, 8, 14336, 128256);
  problem.cluster = oracle::plain_cluster();
  problem.gpus = 256;
  problem.training.seq = 8192;
  problem.training.global_batch = 512;
  return problem;
}

std::vector<Estimate> layouts_of(const Problem& problem) {
  std::vector<Estimate> out;
  for (const auto& [tp, pp] : {std::pair{2, 1}, {4, 1}, {2, 2}, {8, 1}}) {
    Layout layout;
    layout.tp = tp, layout.pp = pp, layout.dp = problem.gpus / tp / pp;
    layout.sequence_parallel = true, layout.zero = 1;
    REQUIRE(broken_rule(problem, layout) < 0);
    out.push_back(estimate(problem, layout));
  }
  return out;
}

/// How the world differs from the model: a factor on each term, one on all, and one of each layout's own.
struct Truth {
  std::array<double, 10> terms{};
  double all = 0, own = 0;
  double step(const Terms& t, double of_layout) const {
    const double values[] = {t.compute.value, t.recompute.value, t.tp.value,     t.cp.value,        t.ep.value,
                             t.pp.value,      t.dp.value,        t.bubble.value, t.optimizer.value, t.straggler.value};
    double sum = 0;
    for (std::size_t i = 0; i < terms.size(); ++i) sum += values[i] * std::exp(terms[i]);
    return sum * std::exp(all + of_layout);
  }
};

}  // namespace

TEST_CASE("each run narrows what is left, costs less than the whole job, and is one that runs") {
  const Problem problem = job();
  const std::vector<Estimate> layouts = layouts_of(problem);
  const Beliefs beliefs(problem, layouts);
  CHECK(beliefs.open() == doctest::Approx(1));
  const Interval before = beliefs.of(0).interval();
  CHECK(before.low == doctest::Approx(layouts[0].step_time_low / layouts[0].step_time).epsilon(1e-6));
  CHECK(before.high == doctest::Approx(layouts[0].step_time_high / layouts[0].step_time).epsilon(1e-6));
  const std::vector<NextRun> runs = next_runs(problem, layouts, beliefs);
  REQUIRE(!runs.empty());
  CHECK(runs.size() <= 3);
  double open = 1, sd = beliefs.of(0).sd;
  for (const NextRun& run : runs) {
    CHECK(run.open < 0.9 * open);
    CHECK(run.reference.sd < sd);
    CHECK(run.problem.gpus <= problem.gpus);
    CHECK(broken_rule(run.problem, run.estimate.layout) < 0);
    CHECK(run.estimate.fits == Fits::Yes);
    CHECK(run.problem.training.global_batch * problem.gpus == problem.training.global_batch * run.problem.gpus);
    open = run.open, sd = run.reference.sd;
  }
}

TEST_CASE("after the runs the interval is as narrow as was said, and holds a truth of another shape") {
  const Problem problem = job();
  const std::vector<Estimate> layouts = layouts_of(problem);
  const Beliefs prior(problem, layouts);
  const std::vector<NextRun> runs = next_runs(problem, layouts, prior);
  const Estimate& best = layouts[0];
  const double whole = best.terms.total().value;
  const PairedSpread paired = paired_parts(0);
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  int held = 0;
  constexpr int kWorlds = 400;
  for (int world = 0; world < kWorlds; ++world) {
    Truth truth;
    for (double& term : truth.terms) term = paired.different * std::sqrt(2.0) * normal(random);
    // What the reference errs by in all is drawn from its interval; terms only tell layouts apart.
    const double drift = std::log(truth.step(best.terms, 0) / whole);
    truth.all = prior.of(0).mean +
                std::sqrt(prior.of(0).sd * prior.of(0).sd - paired.same * paired.same / 2) * normal(random) - drift;
    const double own = paired.same / std::sqrt(2.0) * normal(random);
    Beliefs beliefs = prior;
    for (const NextRun& run : runs) {
      const double of_layout = run.whole && run.of_layout == 0 ? own : paired.same / std::sqrt(2.0) * normal(random);
      const double measured = truth.step(run.estimate.terms, of_layout) * std::exp(kRunNoise * normal(random));
      beliefs.observe(run.estimate.terms, std::log(measured / run.estimate.step_time.value), kRunNoise,
                      run.whole ? run.of_layout : -1);
    }
    CHECK(beliefs.of(0).sd == doctest::Approx(runs.back().reference.sd).epsilon(1e-6));
    const double real = truth.step(best.terms, own) / best.step_time.value;
    const Interval interval = beliefs.of(0).interval();
    held += real >= interval.low && real <= interval.high;
  }
  CHECK(held >= 0.85 * kWorlds);
  CHECK(held <= 0.97 * kWorlds);
}

TEST_CASE("a layout that was measured itself is known, and one that equals it nearly so") {
  const Problem problem = job();
  const std::vector<Estimate> layouts = layouts_of(problem);
  Beliefs beliefs(problem, layouts);
  beliefs.observe(layouts[0].terms, std::log(1.2), kRunNoise, 0);
  CHECK(beliefs.of(0).mean == doctest::Approx(std::log(1.2)).epsilon(0.05));
  CHECK(beliefs.of(0).sd <= kRunNoise);
  // The others move with it, and by how much apart they may be is what pairs of published layouts differ by.
  for (int i = 1; i < 4; ++i) {
    CHECK(beliefs.of(i).mean > 0);
    CHECK(beliefs.between(0, i).sd >= 0.9 * paired_parts(0).same / std::sqrt(2.0));
  }
  // What is believed of two layouts is what is believed of each, and apart from the predictions nothing else: the ratio
  // one way is the other's inverse, and goes through any third.
  for (int one = 0; one < 4; ++one)
    for (int other = 0; other < 4; ++other) {
      const auto step = [&](int i) { return std::log(layouts[static_cast<std::size_t>(i)].step_time.value); };
      const double apart = step(other) + beliefs.of(other).mean - step(one) - beliefs.of(one).mean;
      CHECK(beliefs.between(one, other).mean == doctest::Approx(apart).epsilon(1e-9));
    }
  Beliefs expected(problem, layouts);
  expected.expect(layouts[0].terms, kRunNoise, 0);
  CHECK(expected.of(0).sd == doctest::Approx(beliefs.of(0).sd));
  CHECK(expected.of(0).mean == doctest::Approx(Beliefs(problem, layouts).of(0).mean));
}

TEST_CASE(
    "what is left to know is the mean share of the doubts that were open: of the first layout, and against others") {
  const Problem problem = job();
  const std::vector<Estimate> layouts = layouts_of(problem);
  const Beliefs prior(problem, layouts);
  const auto square = [](double sd) { return sd * sd; };
  const auto left = [&](const Beliefs& beliefs) {
    double sum = square(beliefs.of(0).sd / prior.of(0).sd);
    int counted = 1;
    for (int i = 1; i < static_cast<int>(layouts.size()); ++i) {
      const Doubt before = prior.between(0, i);
      if (std::fabs(before.mean) >= std::log(before.interval().high / before.interval().low) / 2) continue;  // decided
      sum += square(beliefs.between(0, i).sd / before.sd), ++counted;
    }
    return sum / counted;
  };
  int open = 0;
  for (int i = 1; i < static_cast<int>(layouts.size()); ++i)
    open += std::fabs(prior.between(0, i).mean) < 1.64 * prior.between(0, i).sd;
  CHECK(open >= 1);
  for (int measured = 0; measured < static_cast<int>(layouts.size()); ++measured)
    for (const double noise : {kRunNoise, 0.1}) {
      CAPTURE(measured);
      Beliefs beliefs = prior;
      beliefs.expect(layouts[static_cast<std::size_t>(measured)].terms, noise, measured);
      CHECK(beliefs.open() == doctest::Approx(left(beliefs)).epsilon(1e-6));
      CHECK(beliefs.open() < 1);
    }
}
