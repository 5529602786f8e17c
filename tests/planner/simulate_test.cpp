// The product's simulator against the replay in tests/oracle, which writes its own orders.

#include "planner/estimate/simulate.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "formulas/names.hpp"
#include "tests/oracle/pipeline_sim.hpp"

namespace plan {
namespace {

using doctest::Approx;

/// A legal pipeline of each schedule, sizes drawn at random.
template <class Check>
void for_random_pipelines(int rounds, Check check) {
  std::mt19937 random(23);
  for (int k = 0; k < kSchedules; ++k)
    for (int round = 0; round < rounds;) {
      Pipeline pipe{static_cast<Schedule>(k), 1 + static_cast<int>(random() % 9), 1 + static_cast<int>(random() % 4),
                    1 + static_cast<int>(random() % 40)};
      if (pipe.schedule == Schedule::Interleaved && random() % 2) pipe.group = pipe.pp + static_cast<int>(random() % 3);
      if (!schedule_allows(pipe)) continue;
      ++round;
      check(pipe, random);
    }
}

struct Random {
  std::vector<StageTime> chunks;
  std::vector<oracle::Cost> costs;
  double hop = 0;
};

Random random_times(const Pipeline& pipe, std::mt19937& random) {
  std::uniform_real_distribution<double> unit(0.5, 1.5);
  Random out;
  for (int chunk = 0; chunk < model_chunks(pipe); ++chunk) {
    const oracle::Cost cost{unit(random), unit(random), unit(random), random() % 2 ? unit(random) - 0.5 : 0};
    out.costs.push_back(cost);
    const double pair = cost.saved > 0 ? cost.forward + cost.input + cost.weight - cost.saved : 0;
    out.chunks.push_back({Seconds(cost.forward), Seconds(cost.input), Seconds(cost.weight), Seconds(pair)});
  }
  out.hop = random() % 2 ? unit(random) * 0.1 : 0;
  return out;
}

TEST_CASE("makespan, waiting and chunks held equal the replay's") {
  for_random_pipelines(60, [](const Pipeline& pipe, std::mt19937& random) {
    CAPTURE(name(pipe.schedule));
    CAPTURE(pipe.pp);
    CAPTURE(pipe.vp);
    CAPTURE(pipe.micro_batches);
    CAPTURE(pipe.group);
    const Random times = random_times(pipe, random);
    const oracle::Run expected = oracle::replay(
        {pipe.schedule, pipe.pp, pipe.vp, static_cast<int>(pipe.micro_batches), pipe.group}, times.costs, times.hop);
    const PipelineRun run = simulate_pipeline(pipe, times.chunks, Seconds(times.hop));
    REQUIRE_FALSE(expected.deadlock);
    CHECK(run.makespan.value == Approx(expected.makespan).epsilon(1e-12));
    CHECK(simulate_makespan(pipe, times.chunks, Seconds(times.hop)) == run.makespan);
    for (int rank = 0; rank < pipe.pp; ++rank) {
      CHECK((run.makespan - run.ranks[rank].busy).value == Approx(expected.idle[rank]).epsilon(1e-9));
      CHECK(run.ranks[rank].peak_held == expected.held_to_weight[rank]);
    }
  });
}

TEST_CASE("every micro-batch passes every chunk once, in order") {
  for_random_pipelines(20, [](const Pipeline& pipe, std::mt19937& random) {
    CAPTURE(name(pipe.schedule));
    CAPTURE(pipe.pp);
    CAPTURE(pipe.micro_batches);
    const Random times = random_times(pipe, random);
    const PipelineRun run = simulate_pipeline(pipe, times.chunks, Seconds(times.hop));
    std::map<std::pair<int, int>, double> forward, input, weight;  // by chunk and micro-batch: end
    for (const PipelineEvent& event : run.events) {
      const PipelineOp& op = event.op;
      const bool pair = op.work == PipelineWork::Pair;
      const std::pair<int, int> at{op.chunk, op.micro_batch},
          back{pair ? op.back_chunk : op.chunk, pair ? op.back_micro_batch : op.micro_batch};
      CHECK(pipeline_rank(pipe, op.chunk, op.micro_batch) == event.rank);
      if (op.work == PipelineWork::Forward || pair) CHECK(forward.emplace(at, event.end.value).second);
      if (op.work == PipelineWork::Backward || pair || op.work == PipelineWork::InputGradient)
        CHECK(input.emplace(back, event.end.value).second);
      if (op.work == PipelineWork::Backward || pair || op.work == PipelineWork::WeightGradient)
        CHECK(weight.emplace(back, event.end.value).second);
    }
    CHECK(static_cast<std::int64_t>(run.events.size()) <= pipeline_operations(pipe));
    const std::size_t all = static_cast<std::size_t>(model_chunks(pipe)) * static_cast<std::size_t>(pipe.micro_batches);
    CHECK(forward.size() == all);
    CHECK(input.size() == all);
    CHECK(weight.size() == all);
    for (const auto& [at, end] : forward) {
      if (at.first > 0) CHECK(forward[{at.first - 1, at.second}] < end);
      CHECK(end < input[at]);
      CHECK(input[at] <= weight[at]);
      if (at.first > 0) CHECK(input[at] < input[{at.first - 1, at.second}]);
    }
  });
}

TEST_CASE("a rank does one thing at a time, and its peak is an event's start") {
  for_random_pipelines(20, [](const Pipeline& pipe, std::mt19937& random) {
    CAPTURE(name(pipe.schedule));
    const Random times = random_times(pipe, random);
    std::vector<double> held(times.chunks.size());
    for (std::size_t chunk = 0; chunk < held.size(); ++chunk) held[chunk] = 10.0 + static_cast<double>(chunk);
    const PipelineRun run = simulate_pipeline(pipe, times.chunks, Seconds(times.hop), held);
    for (std::size_t i = 1; i < run.events.size(); ++i)
      if (run.events[i].rank == run.events[i - 1].rank) CHECK(run.events[i - 1].end <= run.events[i].start);
    for (int rank = 0; rank < pipe.pp; ++rank)
      CHECK(std::any_of(run.events.begin(), run.events.end(), [&](const PipelineEvent& event) {
        return event.rank == rank && event.start == run.ranks[rank].peak_at;
      }));
  });
}

TEST_CASE("the timeline of four ranks and eight micro-batches") {
  // style: 27.3 % of the step is bubble, backward twice as long as forward
  const Pipeline pipe{Schedule::OneFOneB, 4, 1, 8};
  const std::vector<StageTime> stages(4, {Seconds(1), Seconds(1), Seconds(1), {}});
  const PipelineRun run = simulate_pipeline(pipe, chunk_times(pipe, stages), Seconds(0));
  CHECK(run.makespan.value == 33);
  CHECK((run.makespan - run.ranks[0].busy) / run.makespan == Approx(0.2727).epsilon(1e-3));
  CHECK(run.ranks[0].peak_held == 4);
  CHECK(run.ranks[0].peak_at.value == 3);
}

TEST_CASE("splitting equal stages into chunks keeps the closed form") {
  const Pipeline pipe{Schedule::Interleaved, 16, 2, 64};
  const std::vector<StageTime> stages(16, {Seconds(1), Seconds(1), Seconds(1), {}});
  CHECK(simulate_makespan(pipe, chunk_times(pipe, stages), Seconds(0)).value == Approx(214.5));
}

}  // namespace
}  // namespace plan
