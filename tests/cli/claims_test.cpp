// A profile claims what it measured and nothing else.
#include <doctest/doctest.h>

#include <algorithm>

#include "planner/answer/plan.hpp"
#include "planner/estimate/claims.hpp"
#include "presets/hardware.hpp"
#include "presets/reader.hpp"
#include "presets/store.hpp"

namespace plan {
namespace {

/// A job on two nodes with the profile written in YAML.
Problem job_with(const std::string& profile) {
  Problem problem;
  problem.model = load_model("llama3-8b", StoreOptions{})->value;
  const Result<HardwareProfile> read = read_hardware("schema: plan.hardware/1\n" + profile, "node.yaml");
  REQUIRE(read);
  problem.cluster = cluster_of_profile(*read, load_gpu("h100-sxm", StoreOptions{})->value).value();
  problem.gpus = 16;
  problem.training.seq = 4096, problem.training.global_batch = 64;
  return problem;
}

Estimate estimated(const Problem& problem) {
  Layout layout;
  layout.tp = 2, layout.dp = 8, layout.zero = 1, layout.sequence_parallel = true;
  return estimate(problem, layout);
}

bool misses(const std::vector<std::string>& missing, const std::string& word) {
  return std::any_of(missing.begin(), missing.end(), [&](const std::string& m) { return m.find(word) == 0; });
}

double width(const Estimate& e) { return (e.step_time_high - e.step_time_low) / e.step_time; }

constexpr const char* kNothing = "gpu: {preset: h100-sxm}\ngpus_per_node: 8\n";

}  // namespace

TEST_CASE("a profile that measured nothing claims nothing") {
  const Problem problem = job_with(kNothing);
  CHECK(problem.cluster.measured_parts.empty());
  CHECK_FALSE(problem.cluster.measured);
  const ClaimCoverage coverage = time_coverage(problem, estimated(problem));
  CHECK(coverage.share == 0);
  for (const char* part : {"GEMM bf16", "attention", "memory bandwidth"}) CHECK(misses(coverage.missing, part));
  CHECK(misses(unmeasured_behind(Metric::MemoryFit, problem, estimated(problem)), "memory"));
  CHECK(unmeasured_behind(Metric::BytesDp, problem, estimated(problem)).empty());
}

TEST_CASE("memory that was measured is claimed, and the step's interval stays") {
  const Problem nothing = job_with(kNothing);
  const Problem memory = job_with(std::string(kNothing) + "memory: {usable_gib: 79.1, context_gib: 0.5}\n");
  CHECK_FALSE(misses(unmeasured_behind(Metric::MemoryFit, memory, estimated(memory)), "memory"));
  CHECK(width(estimated(memory)) == doctest::Approx(width(estimated(nothing))));
  CHECK(misses(time_coverage(memory, estimated(memory)).missing, "GEMM bf16"));
}

TEST_CASE("a cluster's file that says `measured` claims what it states, and no rate of a preset") {
  const GpuLookup lookup = [](std::string_view name) {
    return load_gpu(name, StoreOptions{}).map([](const Found<Gpu>& found) { return found.value; });
  };
  const std::string file =
      "preset: cluster/1\nname: mine\ngpu: h100-sxm\ngpus_per_node: 8\ntiers:\n  - name: nvlink\n    size: 8\n"
      "    bandwidth: 450 GB/s\n  - name: ib\n    size: all\n    bandwidth: 50 GB/s\n";
  Problem problem = job_with(kNothing);
  const double before = width(estimated(problem));
  problem.cluster = read_cluster(file + "measured: true\n", "mine.yaml", lookup).value();
  CHECK(time_coverage(problem, estimated(problem)).share == 0);
  CHECK(width(estimated(problem)) == doctest::Approx(before));
  CHECK(misses(unmeasured_behind(Metric::MemoryFit, problem, estimated(problem)), "memory"));
  CHECK(misses(unmeasured_behind(Metric::StepTime, problem, estimated(problem)), "GEMM bf16"));
}

TEST_CASE("intervals narrow by the quantities that were measured") {
  Problem problem = job_with(kNothing);
  const double before = width(estimated(problem));
  Gpu& gpu = problem.cluster.gpu;
  for (GemmTable& table : gpu.gemm[static_cast<std::size_t>(DType::Bf16)]) table.fit.provenance = Provenance::Measured;
  CHECK(width(estimated(problem)) == doctest::Approx(before));  // attention and bandwidth are not
  gpu.attention[0].provenance = Provenance::Measured;
  problem.cluster.probed.bandwidth = true;
  const double kernels = width(estimated(problem));
  CHECK(kernels < before);
  const ClaimCoverage half = time_coverage(problem, estimated(problem));
  CHECK(half.share > 0.5);
  CHECK(half.share < 1);
  for (const std::string& part : half.missing) CHECK(part.find(" over ") != std::string::npos);  // messages alone
  for (CollectiveFit& fit : gpu.collectives) fit.provenance = Provenance::Measured;
  const ClaimCoverage inside = time_coverage(problem, estimated(problem));
  CHECK(inside.share > half.share);
  CHECK(inside.missing.size() < half.missing.size());
  CHECK_FALSE(inside.missing.empty());  // nothing was measured between the nodes
  for (const Communication& row : estimated(problem).communication)
    if (row.tier != problem.cluster.tiers.front().name)
      problem.cluster.network.push_back(
          {row.group.inside(8),
           {row.op, row.group.size, Seconds(1e-5), BytesPerSecond(4e10), 0.8, Provenance::Measured, {}, {}}});
  CHECK(time_coverage(problem, estimated(problem)).missing.empty());
  CHECK(time_coverage(problem, estimated(problem)).share == doctest::Approx(1));
  CHECK(width(estimated(problem)) == doctest::Approx(0.16));
  problem.training.precision = Precision::Fp8Delayed;  // another quantity
  CHECK(misses(time_coverage(problem, estimated(problem)).missing, "GEMM fp8"));
}

}  // namespace plan
