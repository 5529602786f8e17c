// Oracles: a job with one choice changed is set back to exactly the job before; several changes are found one by one.
#include "planner/choice/cause.hpp"

#include <doctest/doctest.h>

#include <random>
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

/// Any values, whether they go together or not.
Layout any_layout(std::mt19937& random) {
  const auto pick = [&](std::initializer_list<int> from) { return *(from.begin() + random() % from.size()); };
  Layout l{.tp = pick({1, 2}), .cp = pick({1, 2}), .pp = pick({1, 2}), .vp = pick({1, 2}), .dp = pick({4, 8})};
  l.cp_kind = pick({0, 1}) == 0 ? CpKind::Ring : CpKind::AllGather;
  l.ep = pick({1, 2}), l.etp = pick({1, 2}), l.zero = pick({1, 2}), l.shard = pick({0, 2});
  l.micro_batch = pick({1, 2}), l.group = pick({0, 4});
  l.schedule = pick({0, 1}) == 0 ? Schedule::OneFOneB : Schedule::Interleaved;
  l.recompute.kind = pick({0, 1}) == 0 ? RecomputeKind::None : RecomputeKind::Full;
  l.sequence_parallel = pick({0, 1}) == 0;
  l.order = pick({0, 1}) == 0 ? AxisOrder::PipelineOutermost : AxisOrder::DataOutermost;
  l.chunk_layers = pick({0, 1}) == 0 ? std::vector<int>{15, 17} : std::vector<int>{16, 16};
  return l;
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

TEST_CASE("what differs is set back one by one, in any order, until the job is the earlier one") {
  std::mt19937 random(21);
  int steps = 0;
  for (int round = 0; round < oracle::rounds(300); ++round) {
    Problem was = base(), now = base();
    for (Problem* problem : {&was, &now}) {
      if (random() % 2 == 0) problem->training.seq = 8192;
      if (random() % 2 == 0) problem->training.global_batch = 512;
      if (random() % 2 == 0) problem->training.precision = Precision::Fp8Tensorwise;
      if (random() % 2 == 0) problem->training.optimizer = Optimizer::Sgd;
      if (random() % 2 == 0) problem->gpus = 128;
    }
    const Layout before = any_layout(random);
    Layout layout = random() % 4 == 0 ? before : any_layout(random);
    if (random() % 2 == 0) layout.pp = before.pp, layout.vp = before.vp;
    const bool same_chunks = layout.pp == before.pp && layout.vp == before.vp;
    const EarlierJob earlier = earlier_of(was, before);
    std::vector<Restoration> found = restorations(now, layout, earlier);
    for (; !found.empty(); found = restorations(now, layout, earlier), ++steps) {
      const Restoration one = found[random() % found.size()];
      const std::size_t left = restorations(one.problem, one.layout, earlier).size();
      CAPTURE(one.key);
      // Where pp moves, so do the axes that go with it; else one at a time.
      CHECK(left + 1 <= found.size() + (one.key == "pp" || one.key == "tp" || one.key == "vp" ? 1 : 0));
      now = one.problem, layout = one.layout;
      REQUIRE(steps < 20 * (round + 1));
    }
    CHECK(now.training.seq == was.training.seq);
    CHECK(now.training.global_batch == was.training.global_batch);
    CHECK(now.training.precision == was.training.precision);
    CHECK(now.training.optimizer == was.training.optimizer);
    CHECK(now.gpus == was.gpus);
    layout.dp = before.dp;  // it follows, and the ranks of a shard with it
    if (layout.shard == 0) layout.shard = before.shard;
    if (before.cp == 1) layout.cp_kind = before.cp_kind;
    if (before.pp == 1) layout.schedule = before.schedule, layout.group = before.group;
    if (!same_chunks) layout.chunk_layers = before.chunk_layers;
    CHECK(layout == before);
  }
  CHECK(steps > oracle::at_least(500));
}
