// Steps that Alpa's own logs print, beside what plan predicts: the rows of plan-strategies(7). XLA runs them, which no
// fit saw, on 16 GPUs of 32 GB in one host, taken for the V100s of a DGX-2. The page has the figures of today.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <string>

#include "contents.hpp"
#include "planner/answer/plan.hpp"
#include "planner/pools/pools.hpp"
#include "planner/rules/frameworks.hpp"
#include "presets/store.hpp"

using namespace plan;

namespace {

Cluster dgx2() {
  Cluster cluster = load_cluster_of_gpu("v100-sxm2-32gb", {})->value;
  cluster.gpus_per_node = 16;
  cluster.tiers = {{"nvswitch", 16, BytesPerSecond(150e9)}, {"network", 1 << 20, BytesPerSecond(12.5e9)}};
  cluster.gpu.gpus_per_node = cluster.gpu.scale_up_size = 16;
  cluster.gpu.scale_up = BytesPerSecond(150e9);
  return cluster;
}

/// 1,024 sequences of 1,024 tokens in fp16, all layers recomputed.
Problem job(const char* model, int gpus) {
  Problem problem;
  problem.model = load_model(model, {})->value;
  problem.cluster = dgx2();
  problem.gpus = gpus;
  problem.framework = Framework::None;
  problem.training.stack = framework_row(Framework::None).stack;
  problem.training.precision = Precision::Fp16;
  problem.training.seq = 1024, problem.training.global_batch = 1024;
  return problem;
}

/// `heads` as Alpa counts them.
Problem with_heads(Problem problem, int heads) {
  for (Layer& kind : problem.model.kinds) {
    kind.attention.heads = kind.attention.kv_heads = heads;
    kind.attention.head_dim = problem.model.hidden / heads;
  }
  return problem;
}

Layout alike(int tp, int pp, int dp, int micro_batch) {
  Layout layout;
  layout.tp = tp, layout.pp = pp, layout.dp = dp, layout.micro_batch = micro_batch;
  layout.zero = 0, layout.sequence_parallel = false;
  layout.recompute = {.kind = RecomputeKind::Full};
  return layout;
}

struct Row {
  const char* model;
  int heads, tp, pp, dp, micro_batch;
  double printed;
};

/// Stages of their own numbers of GPUs, all in one node: dp copies of `layers` each.
struct Stage {
  int dp, layers;
};

double pipeline(const char* model, const std::vector<Stage>& stages, int sequences) {
  Problem problem = job(model, 0);
  PooledLayout layout;
  for (const Stage& stage : stages) {
    problem.pools.push_back({problem.cluster, stage.dp});
    problem.gpus += stage.dp;
    Layout own = alike(1, 1, stage.dp, sequences / stage.dp);
    own.chunk_layers = {stage.layers};
    layout.runs.push_back({static_cast<int>(problem.pools.size()) - 1, own});
  }
  Tier inside{.name = "nvswitch", .bandwidth = BytesPerSecond(150e9)};
  problem.cluster = joined(problem.pools, inside);
  PoolModels models(problem);
  return estimate(models, layout).step_time.value;
}

/// The figure beside the printed one, in the table of the page, is the one that is predicted.
void page_says(double printed, double predicted, int decimals = 1) {
  const std::string page = contents_of(PLAN_SOURCE_DIR "/man/plan-strategies.7");
  const std::string row =
      fmt::format("Ta {:.{}f} s Ta {:.{}f} s\n", printed, printed < 10 ? 3 : 1, predicted, decimals);
  CHECK_MESSAGE(page.find(row) != std::string::npos, "not in plan-strategies(7): ", row);
}

}  // namespace

TEST_CASE("Alpa's uniform runs, printed and predicted") {
  // alpa-projects/alpa, benchmark/alpa: 11-10.txt and grid_2d_.txt (b719786), grid_16_2d.txt (637a71a).
  const Row rows[] = {{"gpt3-760m", 16, 1, 2, 1, 16, 59.2},  {"gpt3-760m", 16, 2, 1, 1, 32, 73.3},
                      {"gpt3-760m", 16, 2, 1, 1, 16, 73.6},  {"gpt3-760m", 16, 2, 1, 1, 8, 77.2},
                      {"gpt3-760m", 16, 2, 1, 1, 4, 79.0},   {"gpt3-1.3b", 32, 1, 1, 4, 8, 49.2},
                      {"gpt3-1.3b", 32, 4, 1, 1, 32, 62.3},  {"gpt3-2.7b", 32, 8, 1, 1, 32, 67.5},
                      {"gpt3-6.7b", 32, 16, 1, 1, 32, 84.2}, {"gpt3-6.7b", 32, 16, 1, 1, 16, 86.1},
                      {"gpt3-6.7b", 32, 16, 1, 1, 8, 90.0},  {"gpt3-6.7b", 32, 16, 1, 1, 2, 109.6}};
  for (const Row& row : rows) {
    const Problem problem = with_heads(job(row.model, row.tp * row.pp * row.dp), row.heads);
    const double step = estimate(problem, alike(row.tp, row.pp, row.dp, row.micro_batch)).step_time.value;
    CAPTURE(std::string(row.model));
    CAPTURE(row.tp);
    CAPTURE(row.micro_batch);
    CHECK(step == doctest::Approx(row.printed).epsilon(0.2));
    page_says(row.printed, step);
  }
  // One GPU alone is where XLA's kernels are furthest from those assumed: said on the page, not held to.
  page_says(75.3, estimate(job("gpt3-350m", 1), alike(1, 1, 1, 32)).step_time.value);
}

TEST_CASE("the expected output of Alpa's benchmark, printed and predicted") {
  Problem problem = job("gpt3-2.7b", 8);
  problem.cluster = load_cluster_of_gpu("v100-sxm2-16gb", {})->value;
  problem.training.global_batch = 32;
  const double step = estimate(problem, alike(2, 2, 2, 4)).step_time.value;
  CHECK(step == doctest::Approx(2.425).epsilon(0.2));
  page_says(2.425, step, 2);
}

TEST_CASE("Alpa's stages of different numbers of GPUs, printed and predicted") {
  // Its searches' results: grid_16.txt (637a71a), grid_log/grid_8.txt (e27112e). Layers come in blocks of four and two.
  const double sixteen = pipeline("gpt3-6.7b", {{4, 8}, {2, 4}, {4, 8}, {4, 8}, {2, 4}}, 4);
  CHECK(sixteen == doctest::Approx(77.1).epsilon(0.3));
  page_says(77.1, sixteen);
  const double eight = pipeline("gpt3-2.7b", {{1, 4}, {1, 4}, {1, 4}, {4, 16}, {1, 4}}, 8);
  CHECK(eight == doctest::Approx(50.6).epsilon(0.2));
  page_says(50.6, eight);
}
