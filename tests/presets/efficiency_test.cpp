#include <doctest/doctest.h>

#include <algorithm>

#include "formulas/efficiency.hpp"
#include "formulas/scale_up.hpp"
#include "presets/efficiency_reader.hpp"
#include "presets/embedded.hpp"
#include "presets/store.hpp"

namespace {
using namespace plan;

constexpr auto kBf16 = static_cast<std::size_t>(DType::Bf16);

Gpu datasheet(const std::string& name, double bf16, double memory, double link) {
  Gpu gpu;
  gpu.name = gpu.efficiency = name;
  gpu.peak[kBf16] = FlopsPerSecond(bf16);
  gpu.memory_bandwidth = BytesPerSecond(memory);
  gpu.scale_up = BytesPerSecond(link);
  return gpu;
}

constexpr const char* kSmall = R"(gpu: box
reference: {bf16: 100 TFLOP/s, memory_bandwidth: 1000 GB/s, scale_up: 100 GB/s}
gemm:
  - dtype: bf16
    source: here
    fit: {floor: 3 us, rate: 80 TFLOP/s, bandwidth: 600 GB/s}
    m: 1024 2048
    n: 1024
    k: 1024
    tflops: |
      50 60
)";

std::string with(const std::string& from, const std::string& to) {
  std::string text = kSmall;
  text.replace(text.find(from), from.size(), to);
  return text;
}

}  // namespace

TEST_CASE("every shipped table is read, and every stand-in has one") {
  int tables = 0;
  for (const EmbeddedFile& file : embedded_files()) {
    if (file.folder != "efficiency" || file.name == "inherited") continue;
    CAPTURE(file.name);
    Gpu gpu = datasheet(std::string(file.name), 1e15, 1e12, 1e11);
    const Result<bool> applied = apply_efficiency(gpu);
    REQUIRE(applied);
    CHECK(*applied);
    CHECK(gpu.measured_as.empty());
    CHECK((gpu.gemm[kBf16][0].fit.rate.value > 0 || !gpu.collectives.empty()));
    ++tables;
  }
  CHECK(tables >= 15);
  for (const char* name : {"a100-sxm-40gb", "h800-sxm", "gh200", "h100-sxm-96gb-500w", "rtx-5090", "v100-sxm2-16gb"}) {
    CAPTURE(name);
    Gpu gpu = datasheet(name, 1e15, 1e12, 1e11);
    const Result<bool> applied = apply_efficiency(gpu);
    REQUIRE(applied);
    CHECK(*applied);
    const std::span<const EmbeddedFile> files = embedded_files();
    CHECK(std::any_of(files.begin(), files.end(), [&](const EmbeddedFile& file) {
      return file.folder == "efficiency" && file.name == gpu.measured_as && file.name != name;
    }));
  }
}

TEST_CASE("every GPU preset but a few has measured tables, its own or of its architecture") {
  const StoreOptions embedded_only;
  std::string without;
  for (const PresetEntry& entry : list_presets(PresetKind::Gpu, embedded_only)) {
    CAPTURE(entry.name);
    const auto gpu = load_gpu(entry.name, embedded_only);
    REQUIRE(gpu);
    const bool measured = gpu->value.gemm[kBf16][0].fit.rate.value > 0 || !gpu->value.collectives.empty();
    if (!measured) without += entry.name + " ";
    const double seconds = gemm_time(gpu->value, {8192, 8192, 8192}, DType::Bf16, Orientation::Forward).value;
    const double peak = std::max(gpu->value.peak[kBf16].value, gpu->value.peak[kBf16 - 1].value);
    const double share = 2. * 8192 * 8192 * 8192 / seconds / peak;
    CHECK(share > 0.3);
    CHECK(share < (entry.name.starts_with("tpu-") ? 1.0 : 0.95));  // a systolic array is fed at its peak
  }
  CHECK(without == "a10 a10g a30 a40 mi210 mi250-gcd mi250x-gcd rtx-3090 rtx-a5000 rtx-a6000 t4 tpu-v3 trainium2 ");
}

TEST_CASE("H100: published shapes and curves come back as published") {
  Gpu gpu = datasheet("h100-sxm", 989e12, 3350e9, 450e9);
  REQUIRE(apply_efficiency(gpu));
  const GemmShape shape{4096, 16384, 16384};
  const double burst = gemm_time(gpu, shape, DType::Bf16, Orientation::Forward).value * gpu.sustained[kBf16];
  CHECK(burst == doctest::Approx(2910.26e-6).epsilon(1e-3));
  CHECK(scale_up_time(gpu, Collective::AllReduce, RealBytes(536870912), 8).value ==
        doctest::Approx(2111e-6).epsilon(2e-3));
  CHECK(scale_up_time(gpu, Collective::AllGather, RealBytes(1048576), 8).value ==
        doctest::Approx(17.1e-6).epsilon(1e-2));
  CHECK(gpu.attention[0].rate.value > gpu.attention[1].rate.value);
}

TEST_CASE("from some size on a larger collective never takes less time, on any shipped table") {
  int measured = 0;
  const StoreOptions embedded_only;
  for (const PresetEntry& entry : list_presets(PresetKind::Gpu, embedded_only)) {
    CAPTURE(entry.name);
    const auto gpu = load_gpu(entry.name, embedded_only);
    REQUIRE(gpu);
    Cluster cluster;
    cluster.gpu = gpu->value;
    const double from = grows_from(cluster).value;
    CHECK(from <= 16 << 20);
    measured += from > 0;
    for (const Collective op : {Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter})
      for (const int ranks : {2, 3, 4, 6, 8}) {
        double last = 0;
        for (double bytes = std::max(1.0, from); bytes < 1e12; bytes *= 1.1) {
          const double time = scale_up_time(cluster.gpu, op, RealBytes(bytes), ranks).value;
          REQUIRE(time >= (1 - 1e-6) * last);
          last = time;
        }
      }
  }
  CHECK(measured > 5);
}

TEST_CASE("H800 runs H100's tables on 200 GB/s links") {
  Gpu h100 = datasheet("h100-sxm", 989e12, 3350e9, 450e9), h800 = datasheet("h800-sxm", 989e12, 3350e9, 200e9);
  REQUIRE(apply_efficiency(h100));
  REQUIRE(apply_efficiency(h800));
  CHECK(h800.measured_as == "h100-sxm");
  CHECK(h800.attention[0].provenance == Provenance::Inherited);
  const GemmShape shape{8192, 8192, 8192};
  CHECK(gemm_time(h800, shape, DType::Bf16, Orientation::Forward) ==
        gemm_time(h100, shape, DType::Bf16, Orientation::Forward));
  const double slow = scale_up_time(h800, Collective::AllGather, RealBytes(1e9), 8).value;
  CHECK(slow / scale_up_time(h100, Collective::AllGather, RealBytes(1e9), 8).value ==
        doctest::Approx(450. / 200).epsilon(0.1));
}

TEST_CASE("a lower power limit holds attention back as it does GEMMs") {
  Gpu full = datasheet("h100-sxm", 989e12, 3350e9, 450e9);
  Gpu capped = datasheet("h100-sxm-96gb-500w", 989e12, 3350e9, 450e9);
  REQUIRE(apply_efficiency(full));
  REQUIRE(apply_efficiency(capped));
  const double share = capped.sustained[kBf16] / full.sustained[kBf16];
  CHECK(share < 1);
  for (const std::size_t pass : {0, 1})
    CHECK(capped.attention[pass].rate.value == doctest::Approx(share * full.attention[pass].rate.value));
}

TEST_CASE("a GPU with a seventh of the rate under most of the power is not held back as the measured one is") {
  Gpu full = datasheet("h100-sxm", 989e12, 3350e9, 450e9);
  Gpu narrow = datasheet("h20-sxm", 148e12, 4000e9, 450e9);
  REQUIRE(apply_efficiency(full));
  REQUIRE(apply_efficiency(narrow));
  const auto share = [](const Gpu& gpu, double peak) {
    const GemmShape shape{8192, 8192, 8192};
    return 2 * shape.m * shape.n * shape.k / gemm_time(gpu, shape, DType::Bf16, Orientation::Forward).value / peak;
  };
  CHECK(share(narrow, 148e12) > 0.8);  // FlashMLA reaches 130 TFLOP/s on it (its issue 30)
  CHECK(share(narrow, 148e12) < 1);
  CHECK(share(narrow, 148e12) > 1.2 * share(full, 989e12));
  for (const std::size_t pass : {0, 1}) CHECK(narrow.attention[pass].rate.value < 148e12);
}

TEST_CASE("a GPU without a key keeps the data sheet's shares, and a key that names nothing is refused") {
  Gpu gpu = datasheet("nobody-has-it", 500e12, 2e12, 100e9);
  CHECK(apply_efficiency(gpu).error().front().code == "unknown_efficiency");
  gpu.efficiency.clear();
  const Result<bool> applied = apply_efficiency(gpu);
  REQUIRE(applied);
  CHECK_FALSE(*applied);
  CHECK(gpu.gemm[kBf16][0].grid.empty());
}

TEST_CASE("scaling by data sheets") {
  Gpu gpu = datasheet("other", 200e12, 1000e9, 100e9);
  REQUIRE(read_efficiency(kSmall, "box.yaml", gpu));
  CHECK(gpu.measured_as == "box");
  const double seconds = gemm_time(gpu, {2048, 1024, 1024}, DType::Bf16, Orientation::Forward).value;
  CHECK(2. * 2048 * 1024 * 1024 / seconds == doctest::Approx(120e12).epsilon(1e-5));
}

TEST_CASE("mistakes in a table are refused") {
  Gpu gpu = datasheet("box", 100e12, 1000e9, 100e9);
  CHECK(read_efficiency(kSmall, "box.yaml", gpu));
  for (const std::string& text :
       {with("50 60", "50"), with("50 60", "50 -60"), with("50 60", "50 fast"), with("1024 2048", "2048 1024"),
        with("bf16\n", "bf17\n"), with("80 TFLOP/s", "80"), with("source: here", "sauce: here"),
        with("gpu: box", "cpu: box"), with("reference:", "preference:"), std::string(kSmall) + "speling: 1\n",
        with("source: here", "source: here\n    speling: 1"), std::string("- 1"), std::string()})
    CHECK_FALSE(read_efficiency(text, "box.yaml", gpu));
}
