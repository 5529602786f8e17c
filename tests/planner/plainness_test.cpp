// Which of two layouts an operator would rather launch, where they are equally fast: each thing that makes a layout
// less plain does so alone, and the order is one.
#include "planner/search/plainness.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <numbers>
#include <random>
#include <vector>

#include "formulas/partition.hpp"
#include "oracle/random_problem.hpp"
#include "planner/cost/cost.hpp"
#include "planner/estimate/uncertainty.hpp"
#include "planner/planner.hpp"
#include "planner/search/plain_layers.hpp"

using namespace plan;

namespace {

Problem job() {
  Problem problem;
  problem.model = oracle::dense_model(32, 4096, 32, 8, 14336, 128256);
  problem.cluster = oracle::plain_cluster();
  problem.gpus = 256;
  problem.training.seq = 4096, problem.training.global_batch = 512;
  return problem;
}

Candidate candidate(const Layout& layout) { return {.layout = layout, .score = {}}; }

Candidate any_candidate(std::mt19937& random) {
  Layout l{.tp = 1 << (random() % 4), .cp = 1 << (random() % 3), .pp = 1 + static_cast<int>(random() % 8)};
  l.dp = 1 << (random() % 6), l.ep = 1 << (random() % 4), l.zero = static_cast<int>(random() % 4);
  l.vp = 1 + static_cast<int>(random() % 3), l.micro_batch = 1 + static_cast<int>(random() % 4);
  l.schedule = static_cast<Schedule>(random() % kSchedules);
  l.recompute.kind = static_cast<RecomputeKind>(random() % 3);
  l.sequence_parallel = random() % 2 == 0;
  l.order = random() % 2 == 0 ? AxisOrder::DataOutermost : AxisOrder::PipelineOutermost;
  Candidate out = candidate(l);
  out.by_hand = random() % 4 == 0;
  out.switched = static_cast<SwitchMask>(random() % 4);
  return out;
}

}  // namespace

TEST_CASE("each thing that an operator would rather not have makes a layout less plain") {
  const Problem problem = job();
  const Layout base{.tp = 4,
                    .cp = 2,
                    .pp = 4,
                    .vp = 2,
                    .dp = 8,
                    .micro_batch = 2,
                    .schedule = Schedule::Interleaved,
                    .sequence_parallel = true};
  const Candidate plain = candidate(base);
  const std::function<void(Candidate&)> changes[] = {
      [](Candidate& c) { c.switched = 1; },
      [](Candidate& c) { c.layout.order = AxisOrder::DataOutermost; },
      [](Candidate& c) { c.layout.pp = 5; },                   // 32 layers on 5 stages, nor 34
      [](Candidate& c) { c.layout.pp = 3, c.layout.vp = 1; },  // although fewer of them
      [](Candidate& c) { c.layout.vp = 3; },                   // chunks of 2 and of 3 layers
      [](Candidate& c) { c.by_hand = true; },
      [](Candidate& c) { c.layout.recompute.kind = RecomputeKind::Full; },
      [](Candidate& c) { c.layout.recompute.kind = RecomputeKind::Selective; },
      [](Candidate& c) { c.layout.pp = 8, c.layout.dp = 4; },
      [](Candidate& c) { c.layout.cp = 4, c.layout.dp = 4; },  // 16 ranks reach beyond a node of 8
      [](Candidate& c) { c.layout.tp = 8, c.layout.dp = 4; },
      [](Candidate& c) { c.layout.ep = 2; },
      [](Candidate& c) { c.layout.ep = 16; },
      [](Candidate& c) { c.layout.schedule = Schedule::BreadthFirst; },
      [](Candidate& c) { c.layout.group = 8; },
      [](Candidate& c) { c.layout.sequence_parallel = false; },
      [](Candidate& c) { c.layout.micro_batch = 3; },
      [](Candidate& c) { c.layout.cp_kind = CpKind::Hybrid; },
      [](Candidate& c) { c.layout.zero = 2; },
      [](Candidate& c) { c.layout.zero = 3; },
      [](Candidate& c) { c.layout.shard = 4; },
      [](Candidate& c) { c.layout.vp = 4; }};
  for (std::size_t i = 0; i < std::size(changes); ++i) {
    CAPTURE(i);
    Candidate other = plain;
    changes[i](other);
    other.score.step_time = Seconds(-1), other.score.peak = Bytes(-1);  // whatever it saves
    CHECK(plainer(problem, plain, other));
    CHECK_FALSE(plainer(problem, other, plain));
  }
  const std::function<void(Candidate&)> as_plain[] = {[](Candidate& c) { c.layout.micro_batch = 4; },
                                                      [](Candidate& c) { c.layout.zero = 1; },
                                                      [](Candidate& c) { c.layout.dp = 16; }};
  for (const auto& change : as_plain) {  // which of two that are as plain is taken, memory says
    Candidate other = plain;
    change(other);
    CHECK(plainness(problem, plain).counts == plainness(problem, other).counts);
    other.score.peak = Bytes(1);
    CHECK(plainer(problem, plain, other));
    other.score.peak = Bytes(-1);
    CHECK(plainer(problem, other, plain));
  }
}

TEST_CASE("whole layers that are recomputed weigh more than another stage, some of them more than all") {
  const Problem problem = job();
  const auto recomputing = [](RecomputeKind kind, int layers, int uniform) {
    Layout l{.tp = 4, .pp = 4, .dp = 16, .sequence_parallel = true};
    l.recompute = {.kind = kind, .layers = layers, .uniform = uniform};
    return candidate(l);
  };
  const Candidate order[] = {recomputing(RecomputeKind::None, 0, 0), recomputing(RecomputeKind::Selective, 0, 0),
                             recomputing(RecomputeKind::Full, 0, 0), recomputing(RecomputeKind::Full, 3, 0)};
  for (std::size_t i = 0; i + 1 < std::size(order); ++i) CHECK(plainer(problem, order[i], order[i + 1]));
  CHECK(plainness(problem, order[3]).counts == plainness(problem, recomputing(RecomputeKind::Full, 0, 4)).counts);
  CHECK(plainness(problem, order[2]).counts == plainness(problem, recomputing(RecomputeKind::Full, 0, 1)).counts);
}

TEST_CASE("plainness is an order: of two different layouts one is plainer, and of three the first stays first") {
  const Problem problem = job();
  std::mt19937 random(31);
  for (int round = 0; round < oracle::rounds(3000); ++round) {
    const Candidate a = any_candidate(random), b = any_candidate(random), c = any_candidate(random);
    CHECK_FALSE(plainer(problem, a, a));
    CHECK_FALSE((plainer(problem, a, b) && plainer(problem, b, a)));
    if (!(a.layout == b.layout) && a.switched == b.switched) CHECK((plainer(problem, a, b) || plainer(problem, b, a)));
    if (plainer(problem, a, b) && plainer(problem, b, c)) CHECK(plainer(problem, a, c));
  }
}

TEST_CASE("draws say how often one of two steps is as fast as the other: what the law of their errors says") {
  // One spends its time on one thing and the other on another: the logarithm of their ratio is normal.
  const double error = std::numbers::sqrt2 * std::numbers::sqrt2 * paired_parts(0).different;
  for (const double ratio : {0.8, 0.95, 1.0, 1.02, 1.1, 1.3})
    for (const double share : {0.0, 0.02, 0.2}) {
      Terms a, b;
      a.compute = Seconds(1), b.tp = Seconds(ratio);
      const double within = Draws({a, b}).within(b, share);
      const double known = 0.5 * std::erfc(std::log(ratio / (1 + share)) / error / std::numbers::sqrt2);
      CAPTURE(ratio);
      CAPTURE(share);
      CHECK(std::abs(within - known) < 0.1);            // of 400 draws
      CHECK(Draws({a, b}).within(b, share) == within);  // the same each time
      Terms longer = a;
      longer.compute = Seconds(ratio);  // errs as the other does, so that nothing is left to chance
      CHECK(Draws({a, longer}).within(longer, share) == (ratio <= (1 + share) * std::min(1.0, ratio) ? 1 : 0));
    }
}

TEST_CASE("layers are laid as a framework leaves them where that costs little, fits, and some framework runs it") {
  Problem problem = job();
  problem.model = oracle::dense_model(16, 4096, 32, 8, 14336, 256000);  // the head weighs as much as layers do
  Layout layout{.tp = 4, .pp = 4, .dp = 16};
  layout.sequence_parallel = true;
  const CostModel costs(problem, split_of(layout));
  const Candidate by_balance = {.layout = layout, .score = {}};
  const Allowance any(Seconds(1e9), Draws({}));
  const RealBytes all = RealBytes::infinity();
  const auto same = [](const Candidate& a, const Candidate& b) {
    return a.layout == b.layout && a.by_hand == b.by_hand;
  };
  const Candidate plain = plainly_laid(problem, costs, by_balance, any, all, all);
  CHECK(plain.layout.chunk_layers == plain_chunks(16, 4));
  CHECK_FALSE(plain.by_hand);
  CHECK(plain.runs_on != 0);
  const Estimate estimated = estimate(problem, plain.layout);
  CHECK(plain.score.step_time.value == doctest::Approx(estimated.step_time.value).epsilon(1e-9));
  CHECK(plain.score.step_time > estimate(problem, layout).step_time);
  Candidate kept = by_balance;
  kept.by_hand = true;
  CHECK(same(plainly_laid(problem, costs, by_balance, any, 0.99 * plain.score.peak, all), kept));
  CHECK(plainly_laid(problem, costs, by_balance, any, plain.score.peak, all).layout == plain.layout);
  const Allowance little(0.9 * plain.score.step_time, Draws({}));
  CHECK(same(plainly_laid(problem, costs, by_balance, little, all, all), kept));
  Candidate unrun = by_balance;
  unrun.runs_on = 0;
  CHECK(same(plainly_laid(problem, costs, unrun, any, all, all), kept));
  Candidate spelt = by_balance;
  spelt.layout.chunk_layers = {3, 5, 5, 3};
  CHECK(same(plainly_laid(problem, costs, spelt, any, all, all), spelt));
  Candidate single = by_balance;
  single.layout.pp = 1, single.layout.dp = 64;
  CHECK(same(plainly_laid(problem, costs, single, any, all, all), single));
}
