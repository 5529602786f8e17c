// Strategies of single layers on models whose layers differ (mixers in turn, dense layers before those with experts):
// no worse than layers that do alike, under every limit of memory; and where a stretch of the model has equal layers,
// they do alike.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <vector>

#include "oracle/random_problem.hpp"
#include "planner/problem/stage_layout.hpp"
#include "planner/rules/rules.hpp"
#include "planner/stages/layer_search.hpp"
#include "presets/store.hpp"

using namespace plan;

namespace {

constexpr Seconds kNever = Seconds::infinity();
constexpr const char* kModels[] = {"nemotron-h-8b", "qwen3-next-80b-a3b", "deepseek-v3", "glm-4.5"};

/// Some neighbouring layers of a model as a model of their own.
Problem stretch_of(const char* model, std::size_t first, std::size_t layers) {
  Problem problem;
  problem.model = load_model(model, {.files = false})->value;
  const std::vector<int>& all = problem.model.layers;
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
  problem.model.layers = std::vector<int>(begin, begin + static_cast<std::ptrdiff_t>(layers));
  problem.model.mtp = {};
  problem.cluster = oracle::plain_cluster();
  problem.gpus = 8, problem.training.seq = 2048, problem.training.global_batch = 32;
  problem.framework = Framework::None;
  return problem;
}

/// The first stretch of so many layers that are all equal, or that are not; the model's depth if it has none.
std::size_t first_stretch(const char* model, std::size_t layers, bool equal) {
  const std::vector<int> all = load_model(model, {.files = false})->value.layers;
  for (std::size_t first = 0; first + layers <= all.size(); ++first) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
    if (equal ==
        std::all_of(begin, begin + static_cast<std::ptrdiff_t>(layers), [&](int kind) { return kind == *begin; }))
      return first;
  }
  return all.size();
}

std::vector<StageStrategy> ways_of(bool sharded) {
  std::vector<StageStrategy> ways;
  for (const int zero : sharded ? std::vector<int>{-1, 3} : std::vector<int>{-1})
    for (const bool rebuilt : {false, true})
      ways.push_back({rebuilt ? Recompute{.kind = RecomputeKind::Full} : Recompute{}, 0, 0, zero});
  return ways;
}

Layout alike(const Layout& base, const StageStrategy& way) {
  Layout layout = base;
  layout.stages.assign(static_cast<std::size_t>(base.pp), way);
  return layout;
}

}  // namespace

TEST_CASE("hybrid layers: strategies of single layers are never worse than those of all layers") {
  int unequal = 0, better = 0;
  for (const char* model : kModels)
    for (const int pp : {1, 2}) {
      CAPTURE(model);
      CAPTURE(pp);
      Problem problem = stretch_of(model, first_stretch(model, 6, false), 6);
      const std::vector<int>& kinds = problem.model.layers;
      if (std::any_of(kinds.begin(), kinds.end(), [&](int kind) { return kind != kinds.front(); })) ++unequal;
      Layout base;
      base.pp = pp, base.dp = problem.gpus / pp, base.zero = 0;
      if (pp > 1) base.chunk_layers = {3, 3};
      const std::vector<StageStrategy> ways = ways_of(true);
      REQUIRE(stages_fault(problem, alike(base, ways.front())).empty());
      StageModels models(problem);
      std::vector<Score> scores;
      for (const StageStrategy& way : ways) scores.push_back(score_stages(models, problem, alike(base, way)));
      for (const Score& limit : scores)
        for (const RealBytes capacity : {limit.peak * 1.0000001, limit.peak * 1.05}) {
          Seconds best = kNever;
          for (const Score& score : scores)
            if (score.peak <= capacity) best = std::min(best, score.step_time);
          const StageSearch found = best_runs(models, problem, base, ways, capacity, kNever);
          REQUIRE(found.best);
          CHECK(found.best->score.step_time <= best * (1 + 1e-9));
          CHECK(found.best->score.peak <= capacity);
          if (found.best->score.step_time < 0.999 * best) ++better;
        }
    }
  CHECK(unequal == 2 * static_cast<int>(std::size(kModels)));
  CHECK(better > 5);
}

TEST_CASE("hybrid layers: equal layers of such a model with memory to spare do alike") {
  int tried = 0;
  for (const char* model : kModels) {
    constexpr std::size_t kLayers = 3;
    CAPTURE(model);
    const std::size_t first = first_stretch(model, kLayers, true);
    Problem problem = stretch_of(model, 0, kLayers);
    if (first == load_model(model, {.files = false})->value.layers.size()) continue;  // its layers take turns
    problem = stretch_of(model, first, kLayers);
    ++tried;
    Layout base;
    base.dp = problem.gpus, base.zero = 0;
    const std::vector<StageStrategy> ways = ways_of(false);
    StageModels models(problem);
    Seconds best = kNever;
    for (const StageStrategy& way : ways)
      best = std::min(best, score_stages(models, problem, alike(base, way)).step_time);
    const StageSearch found = best_runs(models, problem, base, ways, RealBytes::infinity(), kNever);
    REQUIRE(found.best);
    CHECK(found.best->score.step_time / best == doctest::Approx(1).epsilon(1e-9));
    CHECK(found.best->layout.stages.empty());
  }
  CHECK(tried >= 3);
}
