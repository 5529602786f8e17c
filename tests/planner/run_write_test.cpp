// Jobs written as rows of runs and read back: every layout comes back as it was, or is refused by name.
#include "planner/runs/run_write.hpp"

#include <doctest/doctest.h>

#include <random>

#include "planner/answer/layout_text.hpp"
#include "planner/problem/spelled_out.hpp"
#include "planner/rules/rules.hpp"
#include "planner/runs/run_problem.hpp"
#include "tests/oracle/random_layout.hpp"
#include "tests/oracle/random_problem.hpp"

using namespace plan;

namespace {

/// The catalogue of one model and one cluster.
Catalogue only(const Problem& problem) {
  return {.model = [model = problem.model](std::string_view name) -> std::optional<Model> {
            return name == model.name ? std::optional(model) : std::nullopt;
          },
          .cluster = [cluster = problem.cluster](std::string_view, int, int) { return std::optional(cluster); }};
}

/// A layout of 64 GPUs, any values of its axes.
Layout any_layout(std::mt19937& random) {
  const auto pick = [&](std::initializer_list<int> of) { return *(of.begin() + random() % of.size()); };
  Layout layout = oracle::any_values(random);
  layout.tp = pick({1, 2, 4}), layout.cp = pick({1, 2}), layout.pp = pick({1, 2, 4}), layout.ep = layout.etp = 1;
  layout.dp = 64 / layout.tp / layout.cp / layout.pp;
  layout.zero = pick({0, 1}), layout.shard = pick({0, 0, layout.dense_group() / 2});
  layout.schedule = pick({0, 1}) == 0 ? Schedule::OneFOneB : Schedule::Interleaved;
  layout.vp = layout.schedule == Schedule::Interleaved ? 2 : 1, layout.group = pick({0, 0, 8});
  layout.sequence_parallel = layout.tp > 1 && layout.sequence_parallel;
  layout.chunk_layers.assign(static_cast<std::size_t>(layout.chunks()), 32 / static_cast<int>(layout.chunks()));
  if (pick({0, 1}) == 0)
    layout.chunk_layers.clear();
  else if (layout.pp > 1 && pick({0, 1}) == 0)
    --layout.chunk_layers.front(), ++layout.chunk_layers.back();
  if (static_cast<int>(layout.stages.size()) != layout.pp) layout.stages.clear();
  return layout;
}

}  // namespace

TEST_CASE("a run that was written reads back as the same job, or is refused") {
  std::mt19937 random(8);
  const auto pick = [&](std::initializer_list<int> of) {
    return *(of.begin() + std::uniform_int_distribution<std::size_t>(0, of.size() - 1)(random));
  };
  int written = 0, refused = 0;
  for (int i = 0; i < 400; ++i) {
    Problem problem;
    problem.model = oracle::dense_model(32, 4096, 32, 8, 14336, 128256);
    problem.model.name = "a, \"model\"";
    problem.cluster = oracle::plain_cluster();
    problem.gpus = pick({8, 64});
    problem.training.seq = 4096;
    problem.framework = i % 2 == 0 ? Framework::Megatron : Framework::Torchtitan;
    Layout layout;
    layout.tp = pick({1, 2, 4}), layout.pp = pick({1, 2}), layout.dp = problem.gpus / layout.tp / layout.pp;
    layout.zero = pick({0, 1, 2, 3}), layout.micro_batch = pick({1, 2});
    layout.sequence_parallel = layout.tp > 1 && pick({0, 1}) == 1;
    layout.recompute.kind = static_cast<RecomputeKind>(pick({0, 1, 2}));
    if (layout.recompute.kind == RecomputeKind::Selective) layout.recompute.modules = kRecomputeCoreAttention;
    problem.training.global_batch = static_cast<std::int64_t>(layout.dp) * layout.micro_batch * 4;
    if (broken_rule(problem, layout) >= 0) continue;
    const Result<Run> run =
        run_of(problem, layout, {.id = "r", .step_time_s = 1.5, .peak_memory_gib = 60.25, .memory_kind = "allocated"},
               only(problem));
    if (!run) {
      ++refused;
      continue;
    }
    ++written;
    const Result<std::string> text = with_run("", "own.csv", *run);
    REQUIRE(text);
    const Result<std::string> twice = with_run(*text, "own.csv", *run);
    REQUIRE(twice);
    const auto read = read_runs(*twice, "own.csv");
    REQUIRE(read);
    REQUIRE(read->size() == 2);
    const Run& back = read->back();
    CHECK(cells_of(back) == cells_of(*run));
    CHECK(back.step_time_s == 1.5);
    CHECK(back.peak_memory_gib == 60.25);
    const Result<RunProblem> again = problem_of(back, only(problem));
    REQUIRE(again);
    CHECK(again->layout.tp == layout.tp);
    CHECK(again->layout.zero == layout.zero);
    CHECK(again->layout.micro_batch == layout.micro_batch);
    CHECK(again->layout.recompute == layout.recompute);
    CHECK(again->problem.training.global_batch == problem.training.global_batch);
  }
  CHECK(written > 100);
  CHECK(written > 4 * refused);
}

TEST_CASE("no axis of a job is lost in a row: it trains as before, or is refused by the name of one that differs") {
  std::mt19937 random(9);
  int written = 0, refused = 0;
  for (int i = 0; i < oracle::rounds(4000); ++i) {
    Problem problem;
    problem.model = oracle::dense_model(32, 4096, 32, 8, 14336, 128256);
    problem.model.name = "model";
    problem.cluster = oracle::plain_cluster();
    problem.gpus = 64, problem.training.seq = 4096;
    problem.framework = i % 2 == 0 ? Framework::Megatron : Framework::Torchtitan;
    const Layout layout = any_layout(random);
    constexpr std::int64_t kMicroBatches = 16;
    problem.training.global_batch = static_cast<std::int64_t>(layout.dp) * layout.micro_batch * kMicroBatches;
    if (!layout.chunk_layers.empty()) problem.fixed.chunk_layers = layout.chunk_layers;
    if (broken_rule(problem, layout) >= 0) continue;
    const Result<Run> run = run_of(problem, layout, {.id = "r", .step_time_s = 1e4}, only(problem));
    CAPTURE(layout_flag(layout));
    const Result<RunProblem> again = run ? problem_of(*run, only(problem)) : fail(run.error());
    if (!run) {
      ++refused;
      CHECK(run.error().front().code == "run_not_sayable");
      continue;
    }
    ++written;
    REQUIRE(again);
    const Layout own = spelled_out(layout, kMicroBatches), read = spelled_out(again->layout, kMicroBatches);
    CAPTURE(layout_flag(again->layout));
    each_axis([&](const auto& axis) {
      CAPTURE(axis.key);
      if (axis.key != "layers") CHECK(own.*axis.value == read.*axis.value);
    });
    if (!layout.chunk_layers.empty())
      CHECK(estimate(problem, layout).stage_layers == estimate(problem, again->layout).stage_layers);
  }
  CHECK(written >= oracle::at_least(100));
  CHECK(refused >= oracle::at_least(100));
}

TEST_CASE("a file keeps its own columns, and lacks none that the run needs") {
  Run run;
  run.id = "x", run.gpus = 8;
  CHECK(*with_run("gpus,id\n4,a", "f.csv", run) == "gpus,id\n4,a\n8,x\n");
  const auto lacks = with_run("id\na\n", "f.csv", run);
  REQUIRE_FALSE(lacks);
  CHECK(lacks.error().front().message.find("no column `gpus`") != std::string::npos);
  CHECK_FALSE(with_run("nonsense\n1\n", "f.csv", run).has_value());
}
