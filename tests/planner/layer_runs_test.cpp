// Stages whose layers differ: equal runs are one stage, recomputed layers are Megatron's block, and runs of another tp
// or ZeRO hold, compute and send what their layers do in jobs that are all alike.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "draw.hpp"
#include "formulas/efficiency.hpp"
#include "oracle/random_problem.hpp"
#include "planner/answer/plan.hpp"
#include "planner/estimate/stage_cells.hpp"
#include "planner/problem/axes.hpp"
#include "planner/rules/complete_layout.hpp"
#include "planner/rules/rules.hpp"

using namespace plan;

namespace {

constexpr double kDigits = 1e-9;

Problem job(int layers, int gpus, int batch) {
  Problem problem;
  problem.model = oracle::dense_model(layers, 2048, 16, 16, 8192, 32000);
  problem.cluster = oracle::plain_cluster();
  problem.gpus = gpus;
  problem.training.seq = 2048;
  problem.training.global_batch = batch;
  problem.framework = Framework::None;
  return problem;
}

/// The strategy for its first `layers` layers, the others behind.
StageStrategy stage_of(std::vector<std::pair<StageStrategy, int>> runs) {
  runs.back().second = 0;
  StageStrategy stage = runs.front().first;
  stage.layers = runs.front().second;
  for (std::size_t i = 1; i < runs.size(); ++i) {
    runs[i].first.layers = runs[i].second;
    stage.behind.push_back(runs[i].first);
  }
  return stage;
}

/// A pipeline with the layers of its stages.
Layout pipeline(std::mt19937& random, const Problem& problem) {
  Layout layout;
  layout.pp = pick(random, {1, 2, 4}), layout.tp = pick(random, {1, 2, 4});
  layout.dp = problem.gpus / layout.pp / layout.tp;
  layout.zero = pick(random, {0, 1, 2, 3});
  layout.sequence_parallel = layout.tp > 1;
  layout.schedule = layout.pp > 1 && random() % 3 == 0 ? Schedule::GPipe : Schedule::OneFOneB;
  layout.chunk_layers.assign(static_cast<std::size_t>(layout.pp), problem.model.depth() / layout.pp);
  return layout;
}

void check_same(const Estimate& one, const Estimate& other) {
  CHECK(one.step_time.value == doctest::Approx(other.step_time.value).epsilon(kDigits));
  CHECK(one.mfu.hardware == doctest::Approx(other.mfu.hardware).epsilon(kDigits));
  REQUIRE(one.stages.size() == other.stages.size());
  for (std::size_t i = 0; i < one.stages.size(); ++i) {
    CHECK(one.stages[i].layers == other.stages[i].layers);
    for (const auto part : {&StageMemory::weights, &StageMemory::grads, &StageMemory::optimizer,
                            &StageMemory::activations, &StageMemory::transient, &StageMemory::communication})
      CHECK(std::abs((one.stages[i].*part).value - (other.stages[i].*part).value) <= 2);
  }
  CHECK(one.peak_instant == other.peak_instant);
}

double bytes_among(const Estimate& estimate, Axis axis, int ranks) {
  double sum = 0;
  for (const Communication& row : estimate.communication)
    if (row.axis == axis && row.group.size == ranks) sum += static_cast<double>(row.per_step.value);
  return sum;
}

}  // namespace

TEST_CASE("layer runs: those that all do the same are one stage") {
  std::mt19937 random(11);
  int tried = 0;
  for (int round = 0; round < oracle::rounds(200); ++round) {
    const Problem problem = job(16, 16, pick(random, {32, 64}));
    Layout layout = pipeline(random, problem);
    const Recompute way = random() % 3 == 0   ? Recompute{}
                          : random() % 2 == 0 ? Recompute{.kind = RecomputeKind::Full}
                                              : Recompute{.kind = RecomputeKind::Selective, .modules = kRecomputeMlp};
    layout.recompute = way;
    if (broken_rule(problem, layout) >= 0) continue;
    ++tried;
    Layout list = layout;
    list.recompute = {};
    for (int stage = 0; stage < layout.pp; ++stage)
      list.stages.push_back(stage_of({{{way}, 1}, {{way}, pick(random, {1, 2})}, {{way}, 0}}));
    check_same(estimate(problem, list), estimate(problem, layout));
    settle_stages(problem, list);
    CHECK(list == layout);
  }
  CHECK(tried > oracle::at_least(100));
}

TEST_CASE("layer runs: the first layers recomputed, the others not, are Megatron's block") {
  std::mt19937 random(12);
  int tried = 0;
  for (int round = 0; round < oracle::rounds(200); ++round) {
    const Problem problem = job(16, 16, 64);
    Layout layout = pipeline(random, problem);
    if (broken_rule(problem, layout) >= 0) continue;
    ++tried;
    Layout block = layout, runs = layout;
    for (int stage = 0; stage < layout.pp; ++stage) {
      const int rebuilt = pick(random, {1, 2, 3});
      block.stages.push_back({{.kind = RecomputeKind::Full, .modules = 0, .layers = rebuilt}});
      runs.stages.push_back(stage_of({{{{.kind = RecomputeKind::Full}}, rebuilt}, {{}, 0}}));
    }
    REQUIRE(stages_fault(problem, runs).empty());
    check_same(estimate(problem, runs), estimate(problem, block));
  }
  CHECK(tried > oracle::at_least(100));
}

TEST_CASE("layer runs: a stage holds of each run what its layers hold where all do the same") {
  std::mt19937 random(13);
  int tried = 0;
  for (int round = 0; round < oracle::rounds(200); ++round) {
    const Problem problem = job(24, 24, 48);
    Layout layout;
    layout.pp = 3, layout.tp = pick(random, {1, 2, 4}), layout.dp = 8 / layout.tp, layout.micro_batch = 4;
    layout.zero = pick(random, {0, 1}), layout.sequence_parallel = layout.tp > 1;
    layout.chunk_layers = {8, 8, 8};
    const auto any = [&] {
      StageStrategy run;
      if (random() % 2 == 0) run.recompute = {.kind = RecomputeKind::Full};
      if (random() % 2 == 0) run.tp = pick(random, {1, 2, 4});
      if (random() % 2 == 0) run.zero = pick(random, {0, 1});
      if (random() % 2 == 0) run.cp = pick(random, {1, 2});
      return run;
    };
    const StageStrategy first = any(), second = any();
    const int layers = pick(random, {1, 3, 7});
    layout.stages = {first, stage_of({{first, layers}, {second, 0}}), second};
    if (broken_rule(problem, layout) >= 0) continue;
    const auto alike = [&](const StageStrategy& run) {
      Layout one = layout;
      one.stages = {run, run, run};
      return estimate(problem, one).stages[1];
    };
    ++tried;
    const StageMemory mixed = estimate(problem, layout).stages[1], a = alike(first), b = alike(second);
    const double share = layers / 8.0;
    for (const auto part : {&StageMemory::weights, &StageMemory::grads, &StageMemory::optimizer})
      CHECK(static_cast<double>((mixed.*part).value) ==
            doctest::Approx(share * static_cast<double>((a.*part).value) +
                            (1 - share) * static_cast<double>((b.*part).value))
                .epsilon(1e-7));
    // The same instant of both, at which no layer but one has anything for itself.
    const auto kept = [](const StageMemory& stage) { return static_cast<double>(stage.activations.value); };
    if (kept(a) > 0 && kept(b) > 0 && kept(mixed) > 0)
      CHECK(kept(mixed) == doctest::Approx(share * kept(a) + (1 - share) * kept(b)).epsilon(1e-7));
    CHECK(mixed.communication >= std::max(a.communication, b.communication));
  }
  CHECK(tried > oracle::at_least(100));
}

TEST_CASE("layer runs: time and messages are those of the layers, and of what lies between them") {
  std::mt19937 random(14);
  for (int round = 0; round < oracle::rounds(60); ++round) {
    const int gpus = 8, batch = 32, wide = pick(random, {2, 4, 8}), inner = pick(random, {1, 2, 5});
    const bool narrow = random() % 2 == 0;  // inside: of tp 1 between layers of the wide tp, or the other way around
    const int outer_tp = narrow ? wide : 1, inner_tp = narrow ? 1 : wide, outer_batch = narrow ? 8 : 8 / wide;
    const auto all = [&](int layers, int tp) {
      Layout layout;
      layout.tp = tp, layout.dp = gpus / tp, layout.zero = 0, layout.sequence_parallel = tp > 1;
      layout.micro_batch = outer_batch * tp / outer_tp;
      return estimate(job(layers, gpus, batch), layout);
    };
    if (outer_batch * inner_tp % outer_tp != 0) continue;
    Layout layout;
    layout.tp = outer_tp, layout.dp = gpus / outer_tp, layout.zero = 0, layout.sequence_parallel = outer_tp > 1;
    layout.micro_batch = outer_batch;
    StageStrategy middle;
    middle.tp = inner_tp;
    layout.stages = {stage_of({{{}, 2}, {middle, inner}, {{}, 0}})};
    const Problem problem = job(2 + inner + 3, gpus, batch);
    REQUIRE(stages_fault(problem, layout).empty());
    const Estimate mixed = estimate(problem, layout), outside = all(5, outer_tp);
    const Estimate few = all(4, inner_tp), more = all(8, inner_tp);
    const auto layer = [&](Seconds Terms::*term) { return ((more.terms.*term).value - (few.terms.*term).value) / 4; };
    CHECK(mixed.terms.compute.value ==
          doctest::Approx(outside.terms.compute.value + inner * layer(&Terms::compute)).epsilon(kDigits));
    // Into the wide layers and out of them, forward and back: each time the sequences of the one replica are gathered
    // on all of it, once by its tensor ranks and once by what were replicas.
    const double m = static_cast<double>(mixed.micro_batches);
    const double whole = 2.0 * 2048 * 2048 * std::max(outer_batch, outer_batch * inner_tp / outer_tp);
    const double one = collective_time(problem.cluster, Collective::AllGather, RealBytes(whole), Group{wide, 1}).value /
                       problem.cluster.calibration.scale_up;
    const double there = 4 * m * one;
    CHECK(mixed.terms.tp.value ==
          doctest::Approx(outside.terms.tp.value + inner * layer(&Terms::tp) + there).epsilon(kDigits));
    // Gradients of each run are summed by the ranks that hold it.
    const double each =
        (bytes_among(more, Axis::Dp, gpus / inner_tp) - bytes_among(few, Axis::Dp, gpus / inner_tp)) / 4;
    CHECK(bytes_among(mixed, Axis::Dp, gpus / inner_tp) == doctest::Approx(inner * each).epsilon(1e-6));
    CHECK(bytes_among(mixed, Axis::Dp, gpus / outer_tp) ==
          doctest::Approx(bytes_among(outside, Axis::Dp, gpus / outer_tp)).epsilon(1e-6));
  }
}

TEST_CASE("layer runs: between layers of unequal cp the sequence is gathered, unless both split it alike") {
  std::mt19937 random(15);
  int moved = 0, alike = 0;
  for (int round = 0; round < oracle::rounds(200); ++round) {
    const int gpus = 8, layers = 8, ranks = pick(random, {2, 4, 8}), tp = pick(random, {1, 2, 4, 8});
    const int inner_cp = std::min(pick(random, {1, 2, 4}), 8 / tp);
    Problem problem = job(layers, gpus, 64);
    Layout layout;
    layout.cp = ranks, layout.dp = gpus / ranks, layout.zero = 0, layout.micro_batch = pick(random, {1, 2}) * ranks;
    layout.cp_kind = random() % 2 == 0 ? CpKind::Ring : CpKind::Ulysses;
    StageStrategy inner;
    inner.tp = tp, inner.cp = inner_cp;
    layout.stages = {stage_of({{{}, 3}, {inner, 2}, {{}, 0}})};
    if (!stages_fault(problem, layout).empty() || (tp == 1 && inner_cp == ranks)) continue;
    CAPTURE(layout.micro_batch);
    StageModels models(problem);
    const std::vector<Cell> cells = models.cells(layout);
    REQUIRE(cells.size() == 3);
    // A rank ends up with the whole sequences of its replica, of the wider one, and cuts its part out of them.
    const int replica = tp * inner_cp;
    const double sequence = 2.0 * 2048 * 2048, outer_b = layout.micro_batch, inner_b = outer_b * replica / ranks;
    const auto sum = [](const std::vector<ReshardingGather>& gathers) { return total_of(gathers).bytes.value; };
    const bool same = layout.cp_kind == CpKind::Ulysses && replica == ranks;
    const double into = same ? 0 : outer_b * sequence + (inner_b > outer_b ? inner_b * sequence : 0);
    const double out = same ? 0 : (replica > 1 ? inner_b * sequence : 0) + (outer_b > inner_b ? outer_b * sequence : 0);
    CHECK(sum(cells[1].input.forward) == doctest::Approx(into).epsilon(kDigits));
    CHECK(sum(cells[1].input.backward) == doctest::Approx(out).epsilon(kDigits));
    CHECK(sum(cells[2].input.forward) == doctest::Approx(out).epsilon(kDigits));
    CHECK(sum(cells[2].input.backward) == doctest::Approx(into).epsilon(kDigits));
    ++(same ? alike : moved);
  }
  CHECK(moved > oracle::at_least(60));
  CHECK(alike > oracle::at_least(10));
}

TEST_CASE("layer runs: groups that gather between runs hold buffers of their own, each once") {
  const Problem problem = job(8, 8, 64);
  Layout layout;
  layout.dp = 8, layout.zero = 0;
  StageStrategy wide;
  wide.tp = 4;
  const auto buffers = [&](std::vector<std::pair<StageStrategy, int>> runs) {
    Layout one = layout;
    one.stages = {stage_of(std::move(runs))};
    REQUIRE(stages_fault(problem, one).empty());
    return static_cast<double>(estimate(problem, one).stages.front().communication.value);
  };
  // 16 channels of 12 MiB: the replica of four that is left, and the four replicas that become one, there and back.
  constexpr double ring = 16.0 * 12 * (1 << 20);
  const double there = buffers({{{}, 4}, {wide, 0}}), back = buffers({{{}, 2}, {wide, 2}, {{}, 0}});
  Layout plain = layout, four = layout;
  four.tp = 4, four.dp = 2, four.micro_batch = 4, four.sequence_parallel = true;
  const auto alone = [&](const Layout& one) {
    return static_cast<double>(estimate(problem, one).stages.front().communication.value);
  };
  const double shared = 2 * ring;  // what both have: the ring and the tree of all ranks
  CHECK(there == doctest::Approx(alone(plain) + alone(four) - shared + 2 * ring).epsilon(1e-9));
  CHECK(back == doctest::Approx(there + ring).epsilon(1e-9));
}

TEST_CASE("layer runs: what cannot be is refused with its place") {
  const Problem problem = job(8, 8, 32);
  Layout layout;
  layout.pp = 2, layout.dp = 4;
  layout.stages = {stage_of({{{{.kind = RecomputeKind::Full}}, 2}, {{}, 0}}), {}};
  CHECK(stages_fault(problem, layout).find("layers=") != std::string::npos);
  layout.chunk_layers = {4, 4};
  CHECK(stages_fault(problem, layout) == "");
  layout.chunk_layers = {2, 6};
  CHECK(stages_fault(problem, layout).find("stage 0 has 2 layers") == 0);
  layout.chunk_layers = {4, 4};
  layout.stages[0].behind[0].tp = 3;  // the refusal names what was stated: three ranks of four
  CHECK(stages_fault(problem, layout).find("has no tp 3:") != std::string::npos);
  layout.stages[0].behind[0] = {};
  layout.stages[0].behind[0].cp = 3;
  CHECK(stages_fault(problem, layout).find("has no tp * cp 3:") != std::string::npos);
  layout.cp_kind = CpKind::Hybrid, layout.stages[0].behind[0].cp = 2;
  CHECK(stages_fault(problem, layout).find("hybrid") != std::string::npos);
  layout.cp_kind = CpKind::Ring;
  Layout thirds = layout;  // replicas of 2 and 3 GPUs, of stages of 6
  thirds.dp = 6, thirds.micro_batch = 1;
  thirds.stages[0].cp = 2, thirds.stages[0].behind[0].cp = 3;
  Problem six = job(8, 12, 96);
  six.training.seq = 2048 * 3;
  CHECK(stages_fault(six, thirds).find("none divides the other") != std::string::npos);
  layout.stages[0].behind[0] = {{.kind = RecomputeKind::Full}, 1};
  CHECK(stages_fault(problem, layout).find("run 1 of stage 0") == 0);
  layout.stages[0].behind[0] = {};
  layout.schedule = Schedule::Interleaved, layout.vp = 2, layout.chunk_layers = {2, 2, 2, 2};
  CHECK(stages_fault(problem, layout) != "");
}

TEST_CASE("neighbouring runs that do the same are one, of as many layers, or of all that are left") {
  const Problem problem = job(8, 4, 8);
  for (const bool last : {false, true})
    for (const int first : {1, 2, 3}) {
      StageStrategy full, none;
      full.tp = none.tp = 2;
      full.recompute.kind = RecomputeKind::Full;
      Layout layout;
      layout.tp = 2, layout.pp = 2;
      StageStrategy stage = full;
      stage.layers = first;
      full.layers = last ? 0 : 2, none.layers = 0;
      stage.behind = {full};
      if (!last) stage.behind.push_back(none);
      layout.stages = {stage, none};  // two that differ stay a list
      settle_stages(problem, layout);
      REQUIRE(layout.stages.size() == 2);
      CHECK(layout.stages[0].layers == (last ? 0 : first + 2));
      CHECK(layout.stages[0].behind.size() == (last ? 0 : 1));
    }
}
