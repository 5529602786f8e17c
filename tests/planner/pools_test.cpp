// Jobs on several kinds of GPU: against the uniform job, against brute force, and what must not change.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>

#include "draw.hpp"
#include "formulas/names.hpp"
#include "oracle/random_problem.hpp"
#include "planner/estimate/simulate.hpp"
#include "planner/planner.hpp"
#include "planner/pools/pools.hpp"
#include "planner/rules/frameworks.hpp"
#include "planner/rules/rules.hpp"
#include "planner/search/search.hpp"

using namespace plan;

namespace {

/// A cluster of nodes of 8 whose GPUs are `factor` times as fast.
Cluster cluster_of(const char* name, double factor, double memory_gib) {
  Cluster cluster = oracle::plain_cluster(memory_gib);
  cluster.name = cluster.gpu.name = name;
  cluster.tiers = {{"nvlink", 8, BytesPerSecond(450e9)}, {"network", 1 << 20, BytesPerSecond(50e9)}};
  for (FlopsPerSecond& peak : cluster.gpu.peak) peak = FlopsPerSecond(peak.value * factor);
  cluster.gpu.memory_bandwidth = BytesPerSecond(cluster.gpu.memory_bandwidth.value * factor);
  return cluster;
}

Problem on(std::vector<Pool> pools, Problem problem) {
  problem.pools = std::move(pools);
  problem.gpus = 0;
  for (const Pool& pool : problem.pools) problem.gpus += pool.gpus;
  problem.cluster = joined(problem.pools, std::nullopt);
  return problem;
}

Problem random_job(std::mt19937& random) {
  Problem problem;
  problem.model = oracle::dense_model(pick(random, {4, 5, 6, 8}), 1024, 8, pick(random, {2, 8}), 4096, 32000);
  problem.model.tied = random() % 3 == 0;
  problem.training.seq = 2048;
  problem.training.global_batch = pick(random, {8, 16, 24});
  problem.framework = pick(random, {0, 1}) ? Framework::Any : Framework::None;
  problem.mesh_per_pool = random() % 3 == 0;
  problem.threads = 1;
  if (random() % 4 != 0) problem.fixed.zero = pick(random, {0, 1, 2, 3});
  return problem;
}

Problem random_mixed(std::mt19937& random) {
  const double fast = pick(random, {1, 2, 3}), slow = 1;
  return on({{cluster_of("slow", slow, pick(random, {4, 16, 79})), pick(random, {1, 2, 4})},
             {cluster_of("fast", fast, pick(random, {4, 16, 79})), pick(random, {1, 2, 4})}},
            random_job(random));
}

/// Every layout over the pools, spelt out: any degrees, any micro-batch, any split of the layers.
struct Brute {
  const Problem& problem;
  PoolModels models;
  std::optional<PooledCandidate> runs{}, paper{};
  explicit Brute(const Problem& of) : problem(of), models(of) {}

  void offer(PooledEvaluator& evaluator, const PooledLayout& layout, std::span<const RealBytes> capacity) {
    const std::optional<Score> score = evaluator.score(layout.layers(), capacity);
    if (!score) return;
    const PooledCandidate candidate{layout, *score};
    const auto take = [&](std::optional<PooledCandidate>& best) {
      if (!best || score->step_time < best->score.step_time) best = candidate;
    };
    take(paper);
    if (!frameworks_that_run(problem, layout).empty()) take(runs);
  }

  void splits(PooledEvaluator& evaluator, PooledLayout& layout, int stage, int left, std::vector<int>& counts,
              std::span<const RealBytes> capacity) {
    if (stage == layout.stages()) {
      if (left != 0) return;
      auto next = counts.begin();
      for (PooledRun& run : layout.runs) {
        run.layout.chunk_layers.assign(next, next + run.layout.pp);
        next += run.layout.pp;
      }
      return offer(evaluator, layout, capacity);
    }
    for (int here = 1; here <= left; ++here) {
      counts.push_back(here);
      splits(evaluator, layout, stage + 1, left - here, counts, capacity);
      counts.pop_back();
    }
  }

  /// All that a pool may run.
  std::vector<Layout> strategies(int pool) {
    std::vector<Layout> all;
    Problem alone = pool_alone(problem, pool);
    Layout l;
    for (l.tp = 1; l.tp <= alone.gpus; ++l.tp)
      for (l.cp = 1; l.tp * l.cp <= alone.gpus; ++l.cp)
        for (l.pp = 1; l.tp * l.cp * l.pp <= alone.gpus; ++l.pp)
          for (l.dp = 1; l.world() <= alone.gpus; ++l.dp)
            for (l.micro_batch = 1; l.micro_batch <= problem.training.global_batch; ++l.micro_batch)
              for (const CpKind kind : {CpKind::Ring, CpKind::AllGather, CpKind::Ulysses}) {
                const bool tried = l.pp == 1 || (l.micro_batch & (l.micro_batch - 1)) == 0;
                if ((l.cp == 1 && kind != CpKind::Ring) || !tried || l.micro_batch * problem.training.seq > 131072)
                  continue;
                l.cp_kind = kind;
                l.sequence_parallel = l.tp > 1 && problem.training.seq % (l.tp * l.cp) == 0;
                if (l.pp > 1 || problem.training.global_batch % (l.dp * l.micro_batch) == 0)
                  if (problem.training.global_batch % (l.dp * l.micro_batch) == 0 && legal(alone, l)) all.push_back(l);
              }
    return all;
  }
  static bool legal(const Problem& alone, const Layout& l) {
    return broken_rule(alone, l, Level::Grid) < 0 && broken_rule(alone, l, Level::MicroBatch) < 0 &&
           broken_rule(alone, l, Level::Context) < 0 && broken_rule(alone, l, Level::Experts) < 0;
  }

  void run() {
    const std::vector<Layout> first = strategies(0), second = strategies(1);
    for (const int front : {0, 1})
      for (const Layout& a : front == 0 ? first : second)
        for (const Layout& b : front == 0 ? second : first) {
          if (a.dp * a.micro_batch != b.dp * b.micro_batch || a.pp + b.pp > problem.model.depth()) continue;
          for (int zero = problem.fixed.zero.value_or(0); zero <= problem.fixed.zero.value_or(3); ++zero)
            for (const Recompute& ra : pooled_recomputes(problem, front))
              for (const Recompute& rb : pooled_recomputes(problem, 1 - front)) {
                PooledLayout layout{{{front, a}, {1 - front, b}}};
                layout.runs[0].layout.zero = layout.runs[1].layout.zero = zero;
                layout.runs[0].layout.recompute = ra, layout.runs[1].layout.recompute = rb;
                const std::vector<RealBytes> capacity{usable_memory(models.problem(front), false),
                                                      usable_memory(models.problem(1 - front), false)};
                const auto sharded = [&](const PooledRun& r) {
                  return broken_rule(pool_alone(problem, r.pool), r.layout, Level::Sharding) < 0;
                };
                if (!sharded(layout.runs[0]) || !sharded(layout.runs[1])) continue;
                std::vector<int> counts;
                PooledEvaluator evaluator(models, layout);
                splits(evaluator, layout, 0, problem.model.depth(), counts, capacity);
              }
        }
  }
};

}  // namespace

TEST_CASE("pools: two of the same GPU are the uniform job in time and memory") {
  std::mt19937 random(7);
  int tried = 0;
  for (int round = 0; round < oracle::rounds(200); ++round) {
    const Cluster cluster = cluster_of("same", 1, 79);
    const int stages = pick(random, {2, 4}), dp = pick(random, {4, 8}), tp = pick(random, {2, 4});
    Problem job = random_job(random);
    job.training.global_batch = dp * pick(random, {2, 4, 8});
    Problem mixed = on({{cluster, stages / 2 * dp * tp}, {cluster, stages / 2 * dp * tp}}, job);
    if (mixed.pools[0].gpus % 8 != 0) continue;
    Problem uniform = job;
    uniform.cluster = cluster, uniform.gpus = mixed.gpus;
    Layout l;
    l.tp = tp, l.dp = dp, l.pp = stages, l.sequence_parallel = true, l.zero = pick(random, {0, 1, 2});
    l.schedule = pick(random, {0, 1}) ? Schedule::OneFOneB : Schedule::GPipe;
    if (random() % 2 == 0) l.recompute.kind = RecomputeKind::Full;
    Layout half = l;
    half.pp = stages / 2;
    const Estimate one = estimate(uniform, l);
    l.chunk_layers = one.stage_layers;
    PooledLayout pooled{{{0, half}, {1, half}}};
    pooled.runs[0].layout.chunk_layers.assign(one.stage_layers.begin(), one.stage_layers.begin() + half.pp);
    pooled.runs[1].layout.chunk_layers.assign(one.stage_layers.begin() + half.pp, one.stage_layers.end());
    PoolModels models(mixed);
    const Estimate both = estimate(models, pooled);
    ++tried;
    CHECK(both.step_time.value == doctest::Approx(one.step_time.value).epsilon(1e-12));
    CHECK(both.step_time_low.value <= one.step_time_low.value * (1 + 1e-12));
    CHECK(both.stages == one.stages);
    CHECK(both.peak == one.peak);
    CHECK(both.fits == one.fits);
    CHECK(both.mfu.model_causal == doctest::Approx(one.mfu.model_causal).epsilon(1e-12));
    CHECK(both.mfu.hardware == doctest::Approx(one.mfu.hardware).epsilon(1e-12));
    REQUIRE(both.runs.size() == 2);
    const auto total = [](const StageMemory& a, const StageMemory& b) { return a.total() < b.total(); };
    const auto middle = both.stages.begin() + half.pp;
    CHECK(both.runs[0].peak == std::max_element(both.stages.begin(), middle, total)->total());
    CHECK(both.runs[1].peak == std::max_element(middle, both.stages.end(), total)->total());
    CHECK(as_one(pooled)->chunk_layers == one.stage_layers);
  }
  CHECK(tried > oracle::at_least(50));
}

TEST_CASE("pools: the search finds what brute force finds") {
  std::mt19937 random(11);
  int found_some = 0;
  for (int round = 0; round < oracle::rounds(100); ++round) {
    Problem problem = random_mixed(random);
    problem.model.layers.resize(static_cast<std::size_t>(pick(random, {3, 4})));
    for (Pool& pool : problem.pools) pool.gpus = std::min(pool.gpus, 2);
    problem = on(problem.pools, problem);
    problem.training.global_batch = pick(random, {4, 6});
    if (round % 8 != 0) problem.fixed.zero = pick(random, {0, 1, 2, 3});
    if (round % 4 != 0)
      problem.fixed.recompute = Recompute{.kind = pick(random, {0, 1}) ? RecomputeKind::Full : RecomputeKind::None};
    Brute brute(problem);
    brute.run();
    PoolModels models(problem);
    const PooledSearch found = find_pooled(models);
    if (found.at_risk || !found.paper) {
      CHECK_FALSE(brute.paper);
      continue;
    }
    REQUIRE(brute.paper);
    ++found_some;
    CHECK(found.paper->score.step_time / brute.paper->score.step_time == doctest::Approx(1).epsilon(1e-12));
    REQUIRE(found.runs.has_value() == brute.runs.has_value());
    if (found.runs)
      CHECK(found.runs->score.step_time / brute.runs->score.step_time == doctest::Approx(1).epsilon(1e-12));
  }
  CHECK(found_some > oracle::at_least(25));
}

TEST_CASE("pools: the order in which they are named changes nothing") {
  std::mt19937 random(13);
  for (int round = 0; round < oracle::rounds(20); ++round) {
    const Problem problem = random_mixed(random);
    const Problem other = on({problem.pools[1], problem.pools[0]}, problem);
    PoolModels models(problem), swapped(other);
    const PooledSearch a = find_pooled(models), b = find_pooled(swapped);
    REQUIRE(a.paper.has_value() == b.paper.has_value());
    if (!a.paper) continue;
    CHECK(a.paper->score.step_time == b.paper->score.step_time);
    for (std::size_t i = 0; i < a.paper->layout.runs.size(); ++i) {
      CHECK(a.paper->layout.runs[i].layout == b.paper->layout.runs[i].layout);
      CHECK(a.paper->layout.runs[i].pool == 1 - b.paper->layout.runs[i].pool);
    }
  }
}

TEST_CASE("pools: a faster pool is never slower") {
  std::mt19937 random(17);
  for (int round = 0; round < oracle::rounds(20); ++round) {
    Problem slow = random_mixed(random);
    slow.framework = Framework::None;
    Problem fast = slow;
    fast.pools[random() % 2].cluster.gpu = cluster_of("faster", 4, 1).gpu;
    for (int pool = 0; pool < 2; ++pool)  // speed alone
      fast.pools[pool].cluster.gpu.memory = slow.pools[pool].cluster.gpu.memory;
    fast = on(fast.pools, fast);
    PoolModels before(slow), after(fast);
    const PooledSearch a = find_pooled(before), b = find_pooled(after);
    REQUIRE(a.paper.has_value() == b.paper.has_value());
    if (a.paper) CHECK(b.paper->score.step_time <= a.paper->score.step_time * (1 + 1e-3));
  }
}

TEST_CASE("pools: what is printed of each pool adds up") {
  std::mt19937 random(19);
  for (int round = 0; round < oracle::rounds(20); ++round) {
    const Problem problem = random_mixed(random);
    const Result<Plan> plan = search(problem);
    if (!plan) continue;
    const Estimate& best = plan->best;
    int stages = 0, gpus = 0, layers = 0;
    Seconds busy{};
    for (const PoolRun& run : best.runs) {
      CHECK(run.first_stage == stages);
      stages += run.layout.pp, gpus += run.layout.world();
      layers += std::accumulate(run.layout.chunk_layers.begin(), run.layout.chunk_layers.end(), 0);
      busy = std::max(busy, run.busy);
      CHECK(run.capacity == problem.pools[static_cast<std::size_t>(run.pool)].cluster.gpu.memory);
      CHECK(run.idle_ratio >= 0);
      CHECK(run.fits != Fits::No);
    }
    CHECK(stages == best.layout.pp);
    CHECK(gpus == problem.gpus);
    CHECK(layers == problem.model.depth());
    CHECK(busy.value <= best.step_time.value);
    CHECK(plan->runs_on.empty() == frameworks_that_run(problem, PooledLayout{[&] {
                                                         std::vector<PooledRun> runs;
                                                         for (const PoolRun& run : best.runs)
                                                           runs.push_back({run.pool, run.layout});
                                                         return runs;
                                                       }()})
                                       .empty());
    REQUIRE(plan->alone.size() == 2);
  }
}

TEST_CASE("pools: the law of unequal stages is near the simulated step") {
  std::mt19937 random(23);
  for (int round = 0; round < oracle::rounds(300); ++round) {
    const int pp = pick(random, {2, 3, 4, 6, 8}), cut = 1 + static_cast<int>(random() % (pp - 1));
    const Pipeline pipeline{.schedule = Schedule::OneFOneB, .pp = pp, .micro_batches = pick(random, {2, 4, 8, 16, 64})};
    std::vector<StageTime> stages;
    std::vector<Seconds> hops;
    const double other = pick(random, {5, 8, 12, 30}) / 10.0;
    for (int stage = 0; stage < pp; ++stage) {
      const double scale = stage < cut ? 1 : other;
      stages.push_back({Seconds(scale), Seconds(scale), Seconds(scale), {}});
      hops.emplace_back(stage + 1 == cut ? 0.3 : 0.02);
    }
    const Hops each(hops);
    const double law = pipeline_time(pipeline, stages, each).total().value;
    const double run = simulate_makespan(pipeline, chunk_times(pipeline, stages), each).value;
    CHECK(law == doctest::Approx(run).epsilon(0.06));
  }
}

TEST_CASE("pools: every schedule with one chunk a stage and one copy of the weights is taken, and no other") {
  std::mt19937 random(29);
  for (const Named<Schedule>& row : kScheduleNames) {
    CAPTURE(row.name);
    Problem problem = on({{cluster_of("slow", 1, 79), 2}, {cluster_of("fast", 2, 79), 2}}, random_job(random));
    problem.training.global_batch = 24;
    problem.fixed = {};
    problem.fixed.schedule = row.value;
    bool one_chunk = true;
    for (const char* word : {"interleaved", "breadth-first", "v-", "zb-v", "dualpipe"})
      if (row.name.starts_with(word)) one_chunk = false;
    const Result<Plan> found = search(problem);
    REQUIRE(found.has_value() == one_chunk);
    if (found)
      CHECK(found->best.layout.schedule == row.value);
    else
      CHECK(found.error()[0].message.find("1f1b, gpipe, zb-h1 or zb-h2") != std::string::npos);
  }
}

TEST_CASE("pools: the note on ranks gives each rank once, to the pool whose stages it computes") {
  std::mt19937 random(31);
  int ordered = 0, meshes = 0, alone_as_fast = 0, faster_together = 0;
  for (int round = 0; round < oracle::rounds(60); ++round) {
    const Result<Plan> plan = search(random_mixed(random));
    if (!plan) continue;
    const auto text_of = [&](const std::string& code) -> std::string {
      for (const Note& note : plan->notes)
        if (note.code == code) return note.text;
      return "";
    };
    const bool runs = !plan->runs_on.empty();
    const std::string order = text_of("pool_order");
    CAPTURE(order);
    CHECK(order.empty() == !(runs && !plan->problem.mesh_per_pool));
    CHECK(text_of("flagscale").empty() == !(runs && plan->problem.mesh_per_pool));
    CHECK(text_of("no_framework").empty() == runs);
    std::string expected;
    std::size_t at = order.find("start ranks ");
    int next = 0;
    for (const PoolRun& run : plan->best.runs) {
      expected +=
          (next > 0 ? ", " : "") + std::to_string(next) + "-" + std::to_string(next + run.gpus - 1) + " on " + run.gpu;
      next += run.gpus;
    }
    if (!order.empty()) CHECK(order.substr(at + 12) == expected);
    order.empty() ? meshes++ : ordered++;
    // Which is faster: all, or the faster of those that do it alone?
    double alone = 0;
    for (const PoolAlone& one : plan->alone)
      if (one.best) alone = alone > 0 ? std::min(alone, one.best->step_time.value) : one.best->step_time.value;
    const double ratio = alone / plan->best.step_time.value;
    if (alone > 0 && std::abs(ratio - 1.02) < 0.001) continue;
    CHECK(text_of("pool_alone").empty() == !(alone > 0 && ratio < 1.02));
    CHECK(text_of("pools_gain").empty() == !(ratio > 1.02));
    if (!text_of("pools_gain").empty()) {
      const std::string gain = text_of("pools_gain");
      CHECK(std::abs(std::stod(gain.substr(gain.find(" are ") + 5)) - 100 * (ratio - 1)) <= 0.51);
      ++faster_together;
    }
    if (!text_of("pool_alone").empty()) {
      CHECK(plan->notes.front().code == "pool_alone");
      ++alone_as_fast;
    }
  }
  CHECK(ordered > oracle::at_least(5));
  CHECK(meshes > oracle::at_least(3));
  CHECK(alone_as_fast + faster_together > oracle::at_least(10));
}
