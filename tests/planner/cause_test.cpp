// Oracles: a job with one choice changed is set back to exactly the job before; several changes are found one by one.
#include "planner/cause.hpp"

#include <doctest/doctest.h>

#include <set>

#include "oracle/random_problem.hpp"

using namespace plan;

namespace {

Problem base() {
  Problem problem;
  problem.model = oracle::dense_model(32, 4096, 32, 8, 14336, 128256);
  problem.cluster = oracle::plain_cluster();
  problem.gpus = 64;
  problem.training.seq = 4096, problem.training.global_batch = 256;
  return problem;
}

EarlierJob earlier_of(const Problem& p, const Layout& l) {
  return {l, p.training.seq, p.training.global_batch, p.gpus, p.training.precision, p.training.optimizer};
}

}  // namespace

TEST_CASE("one change is set back to what was") {
  const Problem problem = base();
  const Layout before{.tp = 4,
                      .pp = 2,
                      .vp = 2,
                      .dp = 8,
                      .micro_batch = 2,
                      .schedule = Schedule::Interleaved,
                      .sequence_parallel = true};
  struct Case {
    const char* key;
    void (*change)(Problem&, Layout&);
  };
  const Case cases[] = {
      {"tp", [](Problem&, Layout& l) { l.tp = 2, l.dp = 16; }},
      {"cp", [](Problem&, Layout& l) { l.cp = 2, l.dp = 4; }},
      {"pp", [](Problem&, Layout& l) { l.pp = 4, l.dp = 4; }},
      {"vp", [](Problem&, Layout& l) { l.vp = 4; }},
      {"zero", [](Problem&, Layout& l) { l.zero = 0; }},
      {"micro_batch", [](Problem&, Layout& l) { l.micro_batch = 4; }},
      {"recompute", [](Problem&, Layout& l) { l.recompute.kind = RecomputeKind::Full; }},
      {"sequence_parallel", [](Problem&, Layout& l) { l.sequence_parallel = false; }},
      {"seq", [](Problem& p, Layout&) { p.training.seq = 8192; }},
      {"global_batch", [](Problem& p, Layout&) { p.training.global_batch = 512; }},
      {"precision", [](Problem& p, Layout&) { p.training.precision = Precision::Fp8Tensorwise; }},
      {"optimizer", [](Problem& p, Layout&) { p.training.optimizer = Optimizer::Sgd; }},
      {"gpus", [](Problem& p, Layout& l) { p.gpus = 128, l.dp = 16; }},
  };
  const Estimate expected = estimate(problem, before);
  for (const Case& one : cases) {
    CAPTURE(one.key);
    Problem now = problem;
    Layout layout = before;
    one.change(now, layout);
    const std::vector<Restoration> found = restorations(now, layout, earlier_of(problem, before));
    REQUIRE(found.size() == 1);
    CHECK(found[0].key == one.key);
    REQUIRE(found[0].estimate);
    CHECK(found[0].layout == before);
    CHECK(found[0].estimate->peak == expected.peak);
    CHECK(found[0].estimate->step_time == expected.step_time);
  }
  CHECK(restorations(problem, before, earlier_of(problem, before)).empty());
}

TEST_CASE("several changes are told apart, also where one alone cannot be set back") {
  const Problem problem = base();
  const Layout before{.tp = 8, .pp = 1, .dp = 8, .micro_batch = 1, .sequence_parallel = true};
  Problem now = problem;
  now.gpus = 24,
  now.training.global_batch = 240;  // 8 GPUs of tensor parallelism alone would leave no whole dp for pp 4
  const Layout layout{.tp = 2, .pp = 4, .dp = 3, .micro_batch = 2, .sequence_parallel = true};
  std::set<std::string> keys;
  for (const Restoration& one : restorations(now, layout, earlier_of(problem, before))) {
    keys.insert(one.key);
    if (one.key == "tp") CHECK(!one.estimate);
  }
  CHECK(keys == std::set<std::string>{"tp", "pp", "micro_batch", "global_batch", "gpus"});
}
