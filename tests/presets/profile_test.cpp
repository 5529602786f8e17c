#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "embedded_only.hpp"
#include "formulas/efficiency.hpp"
#include "presets/default_cluster.hpp"
#include "presets/efficiency_reader.hpp"
#include "presets/reader.hpp"
#include "presets/store.hpp"

using plan::Cluster;
using plan::DType;
using plan::Gpu;
using plan::Orientation;

namespace {

Cluster read_back(const std::string& text) {
  const auto no_lookup = [](std::string_view) -> plan::Result<Gpu> { return plan::fail(plan::Error{"x", "x"}); };
  auto cluster = plan::read_cluster(text, "profile.yaml", no_lookup);
  if (!cluster)
    for (const plan::Error& e : cluster.error()) MESSAGE(e.place.line, ": ", e.message, " ", e.place.text);
  REQUIRE(cluster.has_value());
  return *cluster;
}

void check_same_times(const Gpu& a, const Gpu& b) {
  for (const DType dtype : {DType::Bf16, DType::Fp8})
    for (const Orientation o : {Orientation::Forward, Orientation::DataGrad, Orientation::WeightGrad})
      for (const double m : {512.0, 4096.0, 30000.0})
        CHECK(plan::gemm_time(a, {m, 4096, 5120}, dtype, o).value ==
              doctest::Approx(plan::gemm_time(b, {m, 4096, 5120}, dtype, o).value).epsilon(1e-4));
  CHECK(plan::grouped_gemm_time(a, 8, 512, 2048, 1024, DType::Bf16, Orientation::Forward).value ==
        doctest::Approx(plan::grouped_gemm_time(b, 8, 512, 2048, 1024, DType::Bf16, Orientation::Forward).value)
            .epsilon(1e-4));
  const plan::AttentionWork work{1, 4096, 2048, 32, 128, 128};
  CHECK(plan::attention_backward_time(a, work).value ==
        doctest::Approx(plan::attention_backward_time(b, work).value).epsilon(1e-4));
}

}  // namespace

TEST_CASE("a profile takes its measurements along") {
  for (const plan::PresetEntry& entry : plan::list_presets(plan::PresetKind::Gpu, plan::kEmbeddedOnly)) {
    CAPTURE(entry.name);
    const Gpu gpu = plan::load_gpu(entry.name, plan::kEmbeddedOnly)->value;
    Cluster cluster = plan::default_cluster(gpu);
    cluster.measured = true;
    const std::string text = plan::write_cluster(cluster, "a test");
    const Cluster again = read_back(text);
    CHECK(plan::has_efficiency(again.gpu) == plan::has_efficiency(gpu));
    check_same_times(gpu, again.gpu);
    for (const double bytes : {4096.0, 3e6, 1e9})
      for (const plan::Collective op : {plan::Collective::AllReduce, plan::Collective::AllToAll})
        CHECK(plan::collective_time(again, op, plan::RealBytes(bytes), {8, 1}).value ==
              doctest::Approx(plan::collective_time(cluster, op, plan::RealBytes(bytes), {8, 1}).value).epsilon(1e-3));
  }
}

TEST_CASE("what a profile did not measure comes from the program") {
  Gpu gpu = plan::load_gpu("h100-sxm", plan::kEmbeddedOnly)->value;
  const Gpu shipped = gpu;
  gpu.gemm = {};
  gpu.attention = {};
  gpu.grouped_gemm = {};
  gpu.collectives.resize(1);
  gpu.collectives[0].busbw = plan::BytesPerSecond(123e9);
  plan::fill_efficiency(gpu, shipped);
  CHECK(gpu.collectives.size() == 1);
  CHECK(gpu.collectives[0].busbw.value == 123e9);
  check_same_times(gpu, shipped);
}
