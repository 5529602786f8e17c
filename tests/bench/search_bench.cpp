// Speed of the search: full estimates on one thread, complete spaces, growth with GPUs and with depth. Whole commands
// are timed by tests/bench/commands.sh.
#include <benchmark/benchmark.h>

#include <string>

#include "planner/search/search.hpp"
#include "presets/store.hpp"

using namespace plan;

namespace {

/// Pre-training of a preset model on H100 nodes, as `plan --model NAME --gpus N` sets it up.
Problem problem_of(const std::string& model, int gpus) {
  Problem problem;
  const StoreOptions presets;
  problem.model = load_model(model, presets).value().value;
  problem.cluster = load_cluster_of_gpu("h100-sxm", presets).value().value;
  problem.training.seq = problem.model.default_seq;
  problem.training.global_batch = problem.model.default_global_batch;
  problem.gpus = gpus;
  return problem;
}

void report(benchmark::State& state, const SearchStats& stats) {
  state.counters["considered"] = static_cast<double>(stats.considered);
  state.counters["pruned"] = static_cast<double>(stats.pruned);
  state.counters["fit"] = static_cast<double>(stats.fit);
}

/// Every layout of one (tp, pp, micro_batch) scored in time and memory, no bounds, one thread.
void full_estimates(benchmark::State& state, const std::string& model, int gpus, int tp, int pp) {
  Problem problem = problem_of(model, gpus);
  problem.fixed.tp = tp, problem.fixed.pp = pp, problem.fixed.micro_batch = 1;
  problem.threads = 1;
  std::int64_t layouts = 0;
  for (auto _ : state) {
    const SearchResult found = find_layouts(problem, false);
    layouts += found.stats.legal;
    benchmark::DoNotOptimize(found.ranking.best().data());
  }
  state.SetItemsProcessed(layouts);  // items_per_second is estimates per second
}

void complete_space(benchmark::State& state, const std::string& model, int gpus, bool pareto) {
  Problem problem = problem_of(model, gpus);
  problem.pareto = pareto;
  problem.threads = static_cast<int>(state.range(0));
  SearchResult found;
  for (auto _ : state) found = find_layouts(problem);
  report(state, found.stats);
}

void more_gpus(benchmark::State& state) {
  Problem problem = problem_of("405b", static_cast<int>(state.range(0)));
  problem.threads = 1;
  SearchResult found;
  for (auto _ : state) found = find_layouts(problem);
  report(state, found.stats);
}

/// The same layers, more or fewer of them.
void more_layers(benchmark::State& state) {
  Problem problem = problem_of("405b", 4096);
  problem.model.layers.assign(static_cast<std::size_t>(state.range(0)), problem.model.layers.front());
  problem.threads = 1;
  SearchResult found;
  for (auto _ : state) found = find_layouts(problem);
  report(state, found.stats);
}

}  // namespace

BENCHMARK_CAPTURE(full_estimates, llama_405b_16384, "405b", 16384, 8, 16)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(full_estimates, llama_70b_64, "70b", 64, 2, 4)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(full_estimates, deepseek_v3_2048, "deepseek-v3", 2048, 2, 16)->Unit(benchmark::kMillisecond);

#define COMPLETE_SPACE(name, model, gpus)                     \
  BENCHMARK_CAPTURE(complete_space, name, model, gpus, false) \
      ->Arg(1)                                                \
      ->Arg(2)                                                \
      ->ArgName("threads")                                    \
      ->Unit(benchmark::kMillisecond)                         \
      ->UseRealTime()
COMPLETE_SPACE(llama_405b_16384, "405b", 16384);
COMPLETE_SPACE(llama_405b_65536, "405b", 65536);
COMPLETE_SPACE(deepseek_v3_2048, "deepseek-v3", 2048);
COMPLETE_SPACE(kimi_k2_4096, "kimi-k2", 4096);
COMPLETE_SPACE(llama_70b_64, "70b", 64);
BENCHMARK_CAPTURE(complete_space, pareto_405b_16384, "405b", 16384, true)
    ->Arg(2)
    ->ArgName("threads")
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

BENCHMARK(more_gpus)->RangeMultiplier(4)->Range(256, 65536)->ArgName("gpus")->Unit(benchmark::kMillisecond);
BENCHMARK(more_layers)->RangeMultiplier(2)->Range(16, 256)->ArgName("layers")->Unit(benchmark::kMillisecond);

BENCHMARK_MAIN();
