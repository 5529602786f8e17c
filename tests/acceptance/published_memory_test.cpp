// What published jobs held must be called possible: every run of tests/published/runs that ran and says what it
// recomputed, and the jobs that everybody quotes on the clusters that they ran on.
#include <doctest/doctest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "acceptance/published_runs.hpp"
#include "planner/answer/plan.hpp"
#include "planner/rules/rules.hpp"
#include "planner/rules/run_software.hpp"
#include "presets/store.hpp"

using namespace plan;
using namespace plan::acceptance;

namespace {

/// What runs of that software did, whenever.
RunDefaults usual(const char* software) {
  const RunSoftware* found = software_of_key(software);
  REQUIRE(found != nullptr);
  return run_defaults(*found);
}

Problem job(const char* model, const char* cluster, int gpus, const char* framework) {
  Problem problem;
  const auto found_model = load_model(model, {});
  const auto found_cluster = load_cluster(cluster, {});
  REQUIRE(found_model.has_value());
  REQUIRE(found_cluster.has_value());
  problem.model = found_model->value;
  problem.cluster = found_cluster->value;
  problem.gpus = gpus;
  problem.training.stack = usual(framework).stack;
  problem.training.seq = problem.model.default_seq;
  problem.training.global_batch = problem.model.default_global_batch;
  return problem;
}

/// In GiB, of a layout that is legal.
double peak_of(const Problem& problem, const Layout& layout) {
  REQUIRE(broken_rule(problem, layout) == -1);
  return static_cast<double>(estimate(problem, layout).peak.value) / kGiB;
}

}  // namespace

TEST_CASE("of runs that ran and say what they recomputed, at most one in twenty is said not to fit") {
  const Catalogue catalogue = presets();
  std::map<std::string, std::pair<int, int>> suites;  // said not to fit, all
  int wrong = 0, all = 0;
  for (const Run& run : published_runs()) {
    if (run.status != "ok" || run.quality == "C" || run.recompute.empty()) continue;
    const Result<RunProblem> built = problem_of(run, catalogue);
    if (!built) continue;
    const Estimate found = estimate(built->problem, built->layout);
    auto& [missed, runs] = suites[run.suite];
    ++runs, ++all;
    if (found.peak > found.capacity) ++missed, ++wrong;
  }
  CHECK(all > 1000);
  CHECK(wrong * 20 <= all);
  for (const auto& suite : suites) {
    CAPTURE(suite.first);
    if (suite.second.second >= 10) CHECK(suite.second.first * 10 <= suite.second.second);
  }
}

TEST_CASE("the 405B job fits on Meta's cluster as it ran") {
  Problem problem = job("405b", "meta-24k", 16384, "meta");
  Layout layout{.tp = 8, .pp = 16, .vp = 8, .dp = 128, .zero = 2};
  layout.schedule = Schedule::Interleaved, layout.cp_kind = CpKind::AllGather, layout.sequence_parallel = true;
  const double capacity = static_cast<double>(problem.cluster.gpu.memory.value) / kGiB;
  CHECK(peak_of(problem, layout) <= capacity);
  problem.gpus = 8192, layout.dp = 64;  // 32 micro-batches instead of 16 hold ten chunks more
  CHECK(estimate(problem, layout).fits != Fits::No);
  problem.gpus = 16384, layout.dp = 8, layout.cp = 16;
  problem.training.seq = 131072, problem.training.global_batch = 128;
  CHECK(estimate(problem, layout).fits != Fits::No);
}

TEST_CASE("DeepSeek-V3 fits on 2,048 H800 with DeepSeek's own formats and recomputation, and not without") {
  Problem problem = job("deepseek-v3", "h800", 2048, "hai-llm");
  Training& training = problem.training;
  training.seq = 4096, training.global_batch = 15360;
  training.precision = Precision::Fp8Blockwise;
  training.moment1_bytes = training.moment2_bytes = 2;
  Layout layout{.pp = 16, .dp = 128, .ep = 64, .zero = 1, .schedule = Schedule::DualPipe};
  layout.recompute = {.kind = RecomputeKind::Selective, .modules = usual("hai-llm").job.recomputes};
  const double capacity = static_cast<double>(problem.cluster.gpu.memory.value) / kGiB;
  CHECK(peak_of(problem, layout) <= capacity);
  CHECK(peak_of(problem, layout) >= 0.8 * capacity);  // nobody recomputes norms to leave a fifth of a GPU empty
  training.stack.fp8_activation_input = false;
  CHECK(peak_of(problem, layout) > capacity);
}

TEST_CASE("jobs of Megatron-LM on A100 fit with the recomputation that they ran") {
  // Korthikanti et al. 2022, table 3: 8 sequences a pipeline rank of 175B, one GPU of 80 GB.
  const Recompute scores{.kind = RecomputeKind::Selective, .modules = kRecomputeCoreAttention};
  struct Job {
    const char* model;
    int gpus, pp, vp;
    std::int64_t batch;
  };
  for (const Job& row : {Job{"korthikanti-175b", 64, 8, 3, 64}, Job{"korthikanti-530b", 280, 35, 3, 280},
                         Job{"korthikanti-1t", 512, 64, 1, 512}}) {
    CAPTURE(row.model);
    Problem problem = job(row.model, "selene", row.gpus, "megatron-lm");
    problem.training.precision = Precision::Fp16, problem.training.grad_bytes = 2;
    problem.training.stack.flash_attention = false;
    problem.training.seq = 2048, problem.training.global_batch = row.batch;
    Layout layout{.tp = 8, .pp = row.pp, .vp = row.vp};
    layout.schedule = row.vp > 1 ? Schedule::Interleaved : Schedule::OneFOneB;
    layout.sequence_parallel = true;
    const double capacity = static_cast<double>(problem.cluster.gpu.memory.value) / kGiB;
    layout.recompute = scores;
    CHECK(peak_of(problem, layout) <= capacity);
  }
}
