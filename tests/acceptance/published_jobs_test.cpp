// The jobs that everybody quotes, from shipped presets to the printed figure.
#include <doctest/doctest.h>

#include <string>

#include "planner/answer/plan.hpp"
#include "planner/rules/frameworks.hpp"
#include "planner/rules/rules.hpp"
#include "planner/rules/run_software.hpp"
#include "presets/store.hpp"

using namespace plan;

namespace {

Problem job(const char* model, const char* cluster, int gpus) {
  const StoreOptions embedded;
  Problem problem;
  const auto found_model = load_model(model, embedded);
  const auto found_cluster = load_cluster(cluster, embedded);
  REQUIRE(found_model.has_value());
  REQUIRE(found_cluster.has_value());
  problem.model = found_model->value;
  problem.cluster = found_cluster->value;
  problem.gpus = gpus;
  problem.training.stack = framework_row(Framework::Any).stack;
  problem.training.seq = problem.model.default_seq;
  problem.training.global_batch = problem.model.default_global_batch;
  return problem;
}

/// Llama 3, arXiv:2407.21783, table 4: optimizer and gradients sharded, no recomputation.
Layout llama3_layout(int dp, int cp = 1) {
  Layout layout;
  layout.tp = 8, layout.cp = cp, layout.pp = 16, layout.vp = 8, layout.dp = dp;
  layout.cp_kind = CpKind::AllGather;
  layout.schedule = Schedule::Interleaved, layout.zero = 2, layout.sequence_parallel = true;
  return layout;
}

}  // namespace

TEST_CASE("Llama 3 405B as Meta trained it") {
  Problem problem = job("405b", "dgx-h100", 16384);
  CHECK(broken_rule(problem, llama3_layout(128)) == -1);
  const Estimate wide = estimate(problem, llama3_layout(128));
  CHECK(wide.fits != Fits::No);
  CHECK(wide.peak <= wide.capacity);
  // The convention is not stated; attention as executed is what the report prints and what all three stages agree with.
  CHECK(wide.mfu.model_causal >= 0.38);  // published 41 %
  CHECK(wide.mfu.model_causal <= 0.43);

  problem.gpus = 8192;
  const Estimate narrow = estimate(problem, llama3_layout(64));
  CHECK(narrow.mfu.model_causal >= 0.40);  // published 43 %
  CHECK(narrow.mfu.model_causal <= 0.46);

  problem.gpus = 16384, problem.training.seq = 131072, problem.training.global_batch = 128;
  const Estimate context = estimate(problem, llama3_layout(8, 16));
  // 38 %, convention not stated; within a tenth, on a network that is not theirs.
  const auto published = [](double mfu) { return mfu >= 0.9 * 0.38 && mfu <= 1.1 * 0.38; };
  CAPTURE(context.mfu.model_causal);
  CAPTURE(context.mfu.model_full);
  CHECK((published(context.mfu.model_causal) || published(context.mfu.model_full)));
}

TEST_CASE("Llama 3 405B on Meta's own fabric, in the order of axes that Meta chose") {
  // Section 3.3.2: [TP, CP, PP, DP], so that a pipeline's hand-overs stay inside a pod and one copy of the gradients
  // crosses the 1:7 tier. TFLOP/s per GPU of table 4, attention as executed.
  const RunSoftware* meta = software_of_key("meta");
  REQUIRE(meta != nullptr);
  CHECK(run_defaults(*meta).job.data_outermost);
  struct Row {
    int gpus, dp, cp;
    std::int64_t seq, batch;
    double tflops, within;
  };
  // At 131,072 tokens attention skips what other documents hold, which the table's figure leaves open.
  for (const Row& row : {Row{8192, 64, 1, 8192, 2048, 430, 0.07}, Row{16384, 128, 1, 8192, 2048, 400, 0.07},
                         Row{16384, 8, 16, 131072, 128, 380, 0.12}}) {
    Problem problem = job("405b", "meta-24k", row.gpus);
    problem.training.seq = row.seq, problem.training.global_batch = row.batch;
    Layout layout = llama3_layout(row.dp, row.cp);
    const Estimate usual = estimate(problem, layout);
    layout.order = AxisOrder::DataOutermost;
    const Estimate metas = estimate(problem, layout);
    CAPTURE(row.gpus);
    CAPTURE(row.seq);
    const double peak = mfu_peak(problem.cluster.gpu).rate.value / 1e12;
    const double time = row.tflops / (metas.mfu.model_causal * peak);  // predicted over published step
    CAPTURE(time);
    CHECK(time == doctest::Approx(1).epsilon(row.within));
    CHECK(metas.fits != Fits::No);
    CHECK(metas.step_time < usual.step_time);
    problem.training.stack = run_defaults(*meta).stack;
    CHECK(estimate(problem, layout).fits != Fits::No);
  }
}

TEST_CASE("DeepSeek-V3 as DeepSeek trained it") {
  // arXiv:2505.09343 table 4: 15,360 sequences of 4,096 in 19.926 s on 2,048 H800.
  Problem problem = job("deepseek-v3", "h800", 2048);
  problem.training.seq = 4096, problem.training.global_batch = 15360;
  problem.training.precision = Precision::Fp8Blockwise;
  problem.training.moment1_bytes = problem.training.moment2_bytes = 2;
  Layout layout;
  layout.pp = 16, layout.dp = 128, layout.ep = 64, layout.schedule = Schedule::DualPipe;
  CHECK(broken_rule(problem, layout) == -1);
  const Estimate published = estimate(problem, layout);
  CAPTURE(published.step_time.value);
  CHECK(published.step_time.value >= 19.926 * 0.85);
  CHECK(published.step_time.value <= 19.926 * 1.15);
}
