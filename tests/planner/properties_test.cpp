// What must hold for every problem: bounds bound, memory never hurts, order does not matter, parts add up, huge numbers
// stay numbers. PLAN_TEST_SCALE multiplies how many random cases are tried.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <span>

#include "formulas/parameters.hpp"
#include "oracle/random_problem.hpp"
#include "planner/rules/rules.hpp"
#include "planner/search/enumerate.hpp"
#include "planner/search/family_search.hpp"
#include "planner/search/search.hpp"
#include "planner/search/switches.hpp"

using namespace plan;

namespace {

template <class T>
const T& any_of(std::mt19937& random, const std::vector<T>& values) {
  return values[random() % values.size()];
}

/// Random choices of one family, bounds on the way compared with what comes after them.
struct PartialLayouts {
  const Problem& problem;
  std::mt19937& random;
  int checked = 0, schedules_seen = 0, sends = 0;

  void family(const Layout& family) {
    const CostModel costs(problem, split_of(family));
    const LeastTime bound = LeastTimes(problem).of(SplitWork(problem, costs, layers_of_kinds(problem.model)), family);
    Tally tally;
    const std::vector<Pipelining> runs = enumerate_runs(problem, family, tally);
    if (runs.empty()) return;
    std::optional<Evaluator> placed;
    for (int i = 0; i < 4; ++i) {
      Layout layout = family;
      const Pipelining& run = any_of(random, runs);
      layout.schedule = run.schedule, layout.vp = run.vp;
      schedules_seen |= 1 << static_cast<int>(run.schedule);
      if (!placed) placed.emplace(problem, costs, layout);
      Evaluator& evaluator = *placed;
      evaluator.place(layout);
      const std::vector<Recompute> recomputes = enumerate_recomputes(problem, least_deepest(problem, layout));
      const std::vector<Sharding> shardings = enumerate_shardings(problem, layout, tally);
      if (recomputes.empty() || shardings.empty()) continue;
      const Evaluator::Started started = evaluator.start_recompute({});
      started.finish();
      const Seconds busy = started.least();
      const Seconds of_run =
          bound.of_run(layout, micro_batches(problem.training.global_batch, layout.dp, layout.micro_batch));
      CHECK(of_run >= bound.any);
      run_of(layout, evaluator, std::max({of_run, busy, evaluator.least_time_of_any()}), bound.waits,
             any_of(random, recomputes), any_of(random, shardings));
    }
  }

  /// Some lower bound of the family holds for the time and the memory of the layout at once.
  void floors(const Layout& layout, const Evaluator& evaluator, const MemoryModel& memory, Seconds time) {
    const std::vector<Recompute> recomputes = enumerate_recomputes(problem, least_deepest(problem, layout));
    const CostModel costs(problem, split_of(layout));
    const SplitWork work(problem, costs, layers_of_kinds(problem.model));
    const LeastTime bound = LeastTimes(problem).of(work, layout);
    MemoryModel plain(problem, layout);
    const KeptLayers kept(problem.model, std::span(recomputes).first(module_choices(recomputes)), plain);
    const int fewest = fewest_layers(problem, &work, layout);
    for (const int layers : evaluator.stages().stage_layers) REQUIRE(layers >= fewest);
    const Pipeline pipeline = pipeline_of(problem, layout);
    const double steps = least_steps(layout, pipeline.micro_batches);
    const RealBytes peak = evaluator.peak_memory(layout, memory);
    Tally tally;
    const LeastStates states = least_states(problem, layout, enumerate_shardings(problem, layout, tally), fewest,
                                            both_ways(layout.schedule), plain);
    const LeastChunks chunks{layout.vp, held(pipeline, layout.pp - 1)};
    bool covered = false;
    for (const LeastActivity& under : least_activities(problem, layout, recomputes, fewest, kept, plain, &costs)) {
      const RealBytes least = least_peak(states, under, chunks, plain);
      covered = covered || (least <= peak && bound.of_run(layout, pipeline.micro_batches, steps, under.again) <= time);
      // Who holds more micro-batches, or larger chunks, needs no less.
      REQUIRE(least_peak(states, under, {chunks.vp, chunks.flights + 0.5}, plain) >= least);
      REQUIRE(least_peak(states, under, {chunks.vp + 1, chunks.flights}, plain) <= least);
    }
    REQUIRE(covered);
  }

  /// What states send comes on top of every bound: as a search finds it, before layers are placed.
  Seconds traffic(const Layout& layout, const Sharding& sharding) {
    LeastTraffic least(problem);
    least.turn_to(layout);
    return least.of(layout, {sharding}, ShardingPricer(problem), MemoryModel(problem, layout)).front();
  }

  void run_of(Layout layout, Evaluator& evaluator, Seconds bound, double waits, const Recompute& recompute,
              const Sharding& sharding) {
    const Evaluator::Started started = evaluator.start_recompute(recompute);
    started.finish();
    const Seconds busy = started.least();
    const Seconds least = evaluator.least_time();
    layout.recompute = recompute, layout.zero = sharding.zero, layout.shard = sharding.shard;
    const MemoryModel memory(problem, layout);
    const Seconds time = evaluator.step_terms(layout, memory).total();
    CAPTURE(static_cast<int>(layout.schedule));
    CAPTURE(layout.pp);
    CAPTURE(layout.vp);
    floors(layout, evaluator, memory, least);
    REQUIRE(bound <= least);
    REQUIRE(busy <= least);
    const Seconds sent = waits * traffic(layout, sharding);
    REQUIRE(std::max({bound, busy, least}) + sent <= time);
    sends += sent > Seconds();
    ++checked;
    if (recompute.kind != RecomputeKind::Full || recompute.layers == 0) return;
    Layout more = layout;
    ++more.recompute.layers;
    for (const Segment& holder : evaluator.placement().holders) {
      const StageContent& content = evaluator.stages().contents[static_cast<std::size_t>(holder.content)];
      const StageSums sums = memory.sums(content);
      const ShardedMemory sharded = memory.sharded(layout, holder.first, content, sums);
      const double held = evaluator.held_by(holder.first);
      const RealBytes floor = memory.least_total(sharded, memory.activity(layout, content, sums, held));
      REQUIRE(memory.least_total(sharded, memory.activity(more, content, sums, held)) <= floor);
      const StageMemory stage = memory.stage(layout, holder.first, content, held);
      REQUIRE(floor <= stage.total());
    }
  }
};

/// Some of what may lie in host memory: modules' inputs or whole layers', and optimizer states.
Offload random_offload(std::mt19937& random, const Problem& problem) {
  Offload offload;
  switch (random() % 4) {
    case 0: offload.modules = static_cast<std::uint16_t>(movable_modules(problem) & random()); break;
    case 1: offload.layers = 1 + static_cast<int>(random() % 4); break;
    default: return offload;
  }
  offload.optimizer = static_cast<double>(random() % 3) / 2;
  return offload;
}

bool finite(const Estimate& e) {
  for (const double value : {e.step_time.value, e.step_time_low.value, e.step_time_high.value, e.mfu.model_causal,
                             e.mfu.model_full, e.mfu.hardware, e.tokens_per_s, e.tokens_per_s_per_gpu})
    if (!std::isfinite(value) || value < 0) return false;
  for (const StageMemory& s : e.stages)
    for (const Bytes part : {s.weights, s.grads, s.optimizer, s.activations, s.transient, s.communication, s.context})
      if (part.value < 0 || part > s.total()) return false;
  return e.peak.value > 0 && e.peak_low <= e.peak && e.peak <= e.peak_high;
}

}  // namespace

TEST_CASE("no bound lies above what it bounds") {
  std::mt19937 random(41);
  const int wanted = oracle::rounds(1'000'000);
  int checked = 0, schedules = 0, sends = 0;
  while (checked < wanted) {
    Problem problem = oracle::random_problem(random, 64);
    if (random() % 2 == 0) problem = oracle::widened(problem, random);
    problem.fixed = {};
    problem.training.offload = random_offload(random, problem);
    Tally tally;
    const std::vector<Family> families = enumerate_families(problem, tally);
    PartialLayouts partial{problem, random};
    for (int i = 0; i < 25 && !families.empty(); ++i) partial.family(any_of(random, families).layout);
    checked += partial.checked, schedules |= partial.schedules_seen, sends += partial.sends;
  }
  CHECK(sends >= checked / 2);
  CHECK(schedules == (1 << kSchedules) - 1);
}

TEST_CASE("what is remembered of a family's least traffic is what a fresh look finds") {
  std::mt19937 random(45);
  int looks = 0;
  for (int round = 0; round < oracle::rounds(200); ++round) {
    Problem problem = oracle::random_problem(random, 64);
    problem.fixed = {};
    Tally tally;
    const std::vector<Family> families = enumerate_families(problem, tally);
    LeastTraffic known(problem);
    for (int i = 0; i < 3 && !families.empty(); ++i) {
      const Layout family = any_of(random, families).layout;
      const std::vector<Pipelining> runs = enumerate_runs(problem, family, tally);
      const ShardingPricer pricer(problem);
      known.turn_to(family);
      for (int look = 0; look < 6 && !runs.empty(); ++look) {
        Layout layout = family;
        const Pipelining& run = any_of(random, runs);
        layout.schedule = run.schedule, layout.vp = run.vp, layout.order = run.order;
        std::vector<Sharding> some = enumerate_shardings(problem, layout, tally);
        std::shuffle(some.begin(), some.end(), random);
        some.resize(std::min<std::size_t>(some.size(), 1 + random() % 3));
        LeastTraffic fresh(problem);
        fresh.turn_to(family);
        const MemoryModel memory(problem, layout);
        REQUIRE(known.of(layout, some, pricer, memory) == fresh.of(layout, some, pricer, memory));
        ++looks;
      }
    }
  }
  CHECK(looks > oracle::at_least(500));
}

TEST_CASE("more memory never makes the best step slower") {
  std::mt19937 random(43);
  for (int i = 0; i < oracle::rounds(400); ++i) {
    Problem problem = oracle::random_problem(random, 32);
    problem.objective = Objective::StepTime;
    const SearchResult tight = find_layouts(problem);
    if (tight.ranking.best().empty() || tight.at_risk) continue;
    problem.cluster.gpu.memory = Bytes(problem.cluster.gpu.memory.value / 2 * 3);
    const SearchResult roomy = find_layouts(problem);
    REQUIRE(!roomy.ranking.best().empty());
    CHECK(roomy.ranking.best().front().score.step_time <= tight.ranking.best().front().score.step_time);
  }
}

TEST_CASE("the order in which a model names its kinds of layer changes nothing") {
  std::mt19937 random(47);
  int moe = 0;
  for (int i = 0; i < oracle::rounds(400); ++i) {
    const Problem problem = oracle::random_problem(random, 12);
    if (problem.model.kinds.size() < 2) continue;
    ++moe;
    Problem turned = problem;
    std::swap(turned.model.kinds[0], turned.model.kinds[1]);
    for (int& kind : turned.model.layers) kind = 1 - kind;
    const SearchResult a = find_layouts(problem), b = find_layouts(turned);
    REQUIRE(a.ranking.best().size() == b.ranking.best().size());
    CHECK(a.stats.considered == b.stats.considered);
    for (std::size_t k = 0; k < a.ranking.best().size(); ++k)
      CHECK(a.ranking.best()[k].score.step_time / b.ranking.best()[k].score.step_time ==
            doctest::Approx(1).epsilon(1e-9));
  }
  CHECK(moe >= oracle::at_least(100));
}

TEST_CASE("what the messages of an axis leave exposed is the axis's term of the step") {
  std::mt19937 random(59);
  int axes = 0;
  for (int i = 0; i < oracle::rounds(400); ++i) {
    Problem problem = oracle::random_problem(random, i % 2 == 0 ? 8 : 64);
    problem.cluster.gpu.memory = Bytes(std::int64_t{1} << 50);
    const SearchResult found = find_layouts(problem);
    for (const Candidate& candidate : found.ranking.best()) {
      const Estimate e = estimate(problem, candidate.layout);
      const auto compare = [&](Axis axis, Seconds term) {
        Seconds sum{};
        for (const Communication& row : e.communication)
          if (row.axis == axis) sum += row.exposed;
        if (term.value > 0) ++axes;
        CHECK(term.value >= 0);
        CHECK(sum.value == doctest::Approx(term.value).epsilon(1e-9));
      };
      compare(Axis::Tp, e.terms.tp), compare(Axis::Cp, e.terms.cp), compare(Axis::Ep, e.terms.ep);
      compare(Axis::Pp, e.terms.pp), compare(Axis::Dp, e.terms.dp);
    }
  }
  CHECK(axes >= oracle::at_least(400));
}

TEST_CASE("without tensor parallelism nothing is sent for it, and stages add up to the model") {
  std::mt19937 random(53);
  for (int i = 0; i < oracle::rounds(250); ++i) {
    Problem problem = oracle::random_problem(random, 8);
    problem.fixed = {};
    problem.fixed.tp = 1, problem.fixed.zero = 0;
    problem.cluster.gpu.memory = Bytes(std::int64_t{1} << 50);
    const SearchResult found = find_layouts(problem);
    for (const Candidate& candidate : found.ranking.best()) {
      const Estimate e = estimate(problem, candidate.layout);
      CHECK(e.terms.tp.value == 0);
      for (const Communication& row : e.communication) CHECK(row.axis != Axis::Tp);
      const int copies = candidate.layout.schedule == Schedule::DualPipe ? 2 : 1;
      int layers = 0;
      double grads = 0;
      for (const StageMemory& stage : e.stages) {
        layers += stage.layers;
        grads += static_cast<double>(stage.grads.value);
      }
      CHECK(layers == copies * problem.model.depth());
      if (candidate.layout.ep > 1) continue;
      const double parameters = static_cast<double>(model_parameters(problem.model).total);
      CHECK(grads == doctest::Approx(copies * parameters * problem.training.grad_bytes).epsilon(1e-6));
    }
  }
}

TEST_CASE("10^15 parameters on 10^7 GPUs are numbers") {
  Problem problem;
  problem.model = oracle::dense_model(1100, 262144, 2048, 128, 1048576, 1 << 20);
  problem.cluster = oracle::plain_cluster(192);
  problem.gpus = 10'000'000;
  problem.training.seq = 8192, problem.training.global_batch = 5'000'000;
  problem.framework = Framework::Megatron;
  problem.fixed.tp = 8, problem.fixed.micro_batch = 1, problem.fixed.zero = 1;  // what keeps the search short
  CHECK(model_parameters(problem.model).total > 1'000'000'000'000'000);
  const SearchResult found = find_layouts(problem);
  CHECK(found.stats.legal > 0);
  for (const Candidate& candidate : found.ranking.best()) CHECK(finite(estimate(problem, candidate.layout)));
  // All of it on one GPU after another: nothing wraps, and nothing fits.
  problem.gpus = 1;
  problem.training.global_batch = 1'000'000'000, problem.training.seq = 1 << 30;
  for (const int zero : {0, 1, 3}) {
    Layout layout;
    layout.zero = zero, layout.micro_batch = 1 << 20;
    const Estimate e = estimate(problem, layout);
    CHECK(finite(e));
    CHECK(e.fits == Fits::No);
  }
}
