// Oracles: brute force over the micro-batch, recompute and zero axes says whether a single change is enough; every
// remedy, estimated again, keeps the limit, and is a possible layout.
#include "planner/choice/remedy.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "oracle/random_problem.hpp"
#include "planner/choice/cause.hpp"
#include "planner/problem/axes.hpp"
#include "planner/rules/rules.hpp"

using namespace plan;

namespace {

Problem problem_of(int gpus, std::int64_t seq, std::int64_t batch) {
  Problem problem;
  problem.model = oracle::dense_model(32, 4096, 32, 8, 14336, 128256);
  problem.cluster = oracle::plain_cluster();
  problem.gpus = gpus;
  problem.training.seq = seq, problem.training.global_batch = batch;
  return problem;
}

Accepts at_most(double gib) {
  return [gib](const Problem& problem, const Estimate& e) {
    return static_cast<double>(e.peak_high.value) <= gib * kGiB && e.fits == Fits::Yes && problem.gpus > 0;
  };
}

int differences(const Layout& a, const Layout& b) {
  return int(a.tp != b.tp) + int(a.cp != b.cp) + int(a.pp != b.pp || a.vp != b.vp) +
         int(a.zero != b.zero || a.shard != b.shard) + int(a.micro_batch != b.micro_batch) +
         int(!(a.recompute == b.recompute));
}

}  // namespace

TEST_CASE("every remedy is possible and keeps the limit; one change if one is enough") {
  const Problem problem = problem_of(64, 8192, 256);
  for (const int micro_batch : {1, 2, 4, 8})
    for (const double limit : {20.0, 30.0, 40.0, 60.0}) {
      CAPTURE(micro_batch);
      CAPTURE(limit);
      const Layout layout{.tp = 2, .pp = 2, .dp = 16, .micro_batch = micro_batch, .sequence_parallel = true};
      REQUIRE(broken_rule(problem, layout) < 0);
      const Accepts accepts = at_most(limit);
      bool one_is_enough = false;
      for (int b = 1; b <= 16; ++b)
        for (int zero = 0; zero <= 3; ++zero)
          for (const bool full : {false, true}) {
            Layout other = layout;
            other.micro_batch = b, other.zero = zero;
            if (full) other.recompute.kind = RecomputeKind::Full;
            if (differences(layout, other) != 1 || broken_rule(problem, other) >= 0) continue;
            one_is_enough = one_is_enough || accepts(problem, estimate(problem, other));
          }
      const std::vector<Remedy> remedies = find_remedies({problem, layout, accepts, {}});
      CHECK(remedies.size() <= 3);
      if (one_is_enough) REQUIRE(!remedies.empty());
      for (const Remedy& remedy : remedies) {
        CHECK(broken_rule(remedy.problem, remedy.layout) < 0);
        CHECK(accepts(remedy.problem, estimate(remedy.problem, remedy.layout)));
        if (one_is_enough) CHECK(differences(layout, remedy.layout) <= 1);
      }
    }
}

TEST_CASE("a switch of the training is offered where no layout is enough") {
  Problem problem = problem_of(1, 2048, 8);
  problem.cluster.gpu.host_link = BytesPerSecond{50e9};
  problem.framework = Framework::Megatron;
  Layout layout{};
  layout.zero = 1, layout.recompute.kind = RecomputeKind::Full;
  REQUIRE(broken_rule(problem, layout) < 0);
  // 8 billion parameters: what the optimizer keeps of each is four fifths of the states.
  const double states = static_cast<double>(estimate(problem, layout).peak_high.value) / kGiB;
  const std::vector<Remedy> remedies =
      find_remedies({problem,
                     layout,
                     [&](const Problem& other, const Estimate& e) {
                       return other.gpus == 1 && static_cast<double>(e.peak_high.value) <= 0.7 * states * kGiB;
                     },
                     {}});
  REQUIRE(!remedies.empty());
  for (const Remedy& remedy : remedies) {
    CHECK(remedy.layout == layout);
    CHECK_FALSE(remedy.problem.training == problem.training);
    CHECK(static_cast<double>(estimate(remedy.problem, layout).peak_high.value) <= 0.7 * states * kGiB);
  }
  CHECK(std::any_of(remedies.begin(), remedies.end(),
                    [](const Remedy& remedy) { return remedy.problem.training.offload.optimizer == 1; }));
}

TEST_CASE("an axis that a remedy changes is one that a search would choose, stated as the job may be") {
  Problem problem = problem_of(64, 8192, 256);
  problem.framework = Framework::Megatron;
  int changed = 0;
  for (const Layout& layout : {Layout{.tp = 4, .pp = 8, .dp = 2}, Layout{.tp = 2, .pp = 4, .dp = 8},
                               Layout{.tp = 8, .pp = 2, .dp = 4}, Layout{.tp = 1, .cp = 2, .pp = 4, .dp = 8}})
    for (const double limit : {10.0, 14.0, 20.0, 30.0}) {
      Problem stated = problem;  // as a launch file states every axis
      each_axis([&](const auto& axis) { stated.fixed.*axis.fixed = layout.*axis.value; });
      stated.fixed.chunk_layers.reset();
      for (const Remedy& remedy : find_remedies({stated, layout, at_most(limit), {}})) {
        Problem open = remedy.problem;
        each_axis([&](const auto& axis) {
          if (!(layout.*axis.value == remedy.layout.*axis.value)) (open.fixed.*axis.fixed).reset();
        });
        CAPTURE(limit);
        CAPTURE(remedy.layout.zero);
        CAPTURE(remedy.layout.pp);
        CHECK(broken_rule(open, remedy.layout) < 0);
        changed += remedy.layout == layout ? 0 : 1;
      }
    }
  CHECK(changed > 8);
}

TEST_CASE("remedies stand in the order of what a token costs") {
  int several = 0;
  for (const int micro_batch : {2, 4, 8})
    for (const double limit : {20.0, 30.0, 40.0, 60.0}) {
      const Problem problem = problem_of(64, 8192, 256);
      const Layout layout{.tp = 2, .pp = 2, .dp = 16, .micro_batch = micro_batch, .sequence_parallel = true};
      double before = 0;
      const std::vector<Remedy> remedies = find_remedies({problem, layout, at_most(limit), {}});
      for (const Remedy& remedy : remedies) {  // of GPUs of one kind: their seconds
        const double token = remedy.problem.gpus * estimate(remedy.problem, remedy.layout).step_time.value /
                             static_cast<double>(remedy.problem.training.tokens_per_step());
        CHECK(token >= before);
        before = token;
      }
      several += remedies.size() > 1;
    }
  CHECK(several >= 4);
}

TEST_CASE("where neither half nor twice the GPUs will do, as many replicas as divide the batch do, and no more GPUs") {
  const Layout layout{.tp = 2, .pp = 2, .dp = 12, .sequence_parallel = true};
  int found = 0;
  for (const std::int64_t batch : {36, 60, 180}) {
    const Problem problem = problem_of(48, 4096, batch);
    REQUIRE(broken_rule(problem, layout) < 0);
    const Accepts accepts = [](const Problem& changed, const Estimate& e) {
      return e.fits == Fits::Yes && changed.gpus % 48 != 0 && 48 % changed.gpus != 0;
    };
    for (const Remedy& remedy : find_remedies({problem, layout, accepts, {}}, 100)) {
      CAPTURE(remedy.problem.gpus);
      CHECK(remedy.problem.gpus < 48);
      CHECK(batch % remedy.layout.dp == 0);
      CHECK(remedy.problem.gpus == remedy.layout.dp * layout.tp * layout.pp);
      ++found;
    }
  }
  CHECK(found >= 2);
}

TEST_CASE("the cheapest recomputation is taken") {
  const Problem problem = problem_of(64, 8192, 256);
  const Layout layout{.tp = 1, .pp = 4, .dp = 16, .micro_batch = 2};
  const double before = static_cast<double>(estimate(problem, layout).peak_high.value) / kGiB;
  const Accepts accepts = at_most(before - 5);
  const std::vector<Remedy> remedies = find_remedies({problem, layout, accepts, {}}, 100);
  const auto rebuilding = std::find_if(remedies.begin(), remedies.end(), [](const Remedy& remedy) {
    return remedy.layout.recompute.kind != RecomputeKind::None;
  });
  REQUIRE(rebuilding != remedies.end());
  const Remedy& first = *rebuilding;
  for (int block = 0; block <= 8; ++block) {
    Layout other = layout;
    other.recompute = {.kind = RecomputeKind::Full, .layers = block};
    const Estimate e = estimate(problem, other);
    if (accepts(problem, e)) CHECK(first.estimate.step_time <= e.step_time);
  }
}

TEST_CASE("what the job was before is offered first; nothing is offered if nothing helps") {
  const Problem problem = problem_of(64, 8192, 256);
  const Layout before{.tp = 2, .pp = 2, .dp = 16, .micro_batch = 1, .sequence_parallel = true};
  Layout now = before;
  now.micro_batch = 4;
  const double peak = static_cast<double>(estimate(problem, before).peak_high.value) / kGiB;
  const std::vector<Restoration> back = restorations(problem, now, {.layout = before});
  REQUIRE(back.size() == 1);
  const std::vector<Remedy> remedies =
      find_remedies({problem, now, at_most(peak), {{back.front().problem, back.front().layout}}});
  REQUIRE(!remedies.empty());
  CHECK(remedies.front().layout == before);
  CHECK(find_remedies({problem, now, [](const Problem&, const Estimate&) { return false; }, {}}).empty());
}
