// A unit that is a thousand times off is told, whichever number of whichever GPU has it; no real GPU is.
#include "planner/choice/unlikely.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "formulas/names.hpp"
#include "presets/entries.hpp"
#include "presets/store.hpp"

using namespace plan;

TEST_CASE("no cluster that ships is unlikely, nor is one of half or twice its numbers") {
  int clusters = 0;
  for (const PresetEntry& entry : list_presets(PresetKind::Cluster, {})) {
    const auto found = load_cluster(entry.name, {});
    if (!found) continue;  // of several kinds
    for (const double times : {0.5, 1.0, 2.0})
      for (const bool memory : {false, true}) {
        Cluster cluster = found->value;
        if (memory) cluster.gpu.memory_bandwidth = cluster.gpu.memory_bandwidth * times;
        if (!memory)
          for (FlopsPerSecond& peak : cluster.gpu.peak) peak = peak * times;
        CAPTURE(entry.name);
        CAPTURE(times);
        CHECK(unlikely_numbers(cluster).empty());
      }
    ++clusters;
  }
  CHECK(clusters > 10);
}

TEST_CASE("a number that is a thousand times too large or too small is told, on every GPU") {
  using Edit = std::function<void(Gpu&, double)>;
  const Edit peaks = [](Gpu& gpu, double times) {
    for (FlopsPerSecond& peak : gpu.peak) peak = peak * times;
  };
  const Edit rate = [](Gpu& gpu, double times) { gpu.memory_bandwidth = gpu.memory_bandwidth * times; };
  const Edit memory = [](Gpu& gpu, double times) {
    gpu.memory = round_bytes(static_cast<double>(gpu.memory.value) * times);
  };
  int gpus = 0;
  for (const PresetEntry& entry : list_presets(PresetKind::Gpu, {})) {
    const auto found = load_cluster_of_gpu(entry.name, {});
    REQUIRE(found);
    CAPTURE(entry.name);
    for (const Edit& edit : {peaks, rate, memory})
      for (const double times : {1e-3, 1e3}) {
        Cluster cluster = found->value;
        edit(cluster.gpu, times);
        CAPTURE(times);
        CHECK_FALSE(unlikely_numbers(cluster).empty());
      }
    Cluster fast = found->value;
    fast.gpu.nic = BytesPerSecond(50e12);
    CHECK_FALSE(unlikely_numbers(fast).empty());
    ++gpus;
  }
  CHECK(gpus > 40);
}

TEST_CASE("what is just within the bounds is likely, and each number just beyond is named, with what it is beside") {
  // The bounds that are said above unlikely.cpp: 1 to 20,000 FLOPs a byte, 2 ms to 1 s to read the memory, no link
  // faster.
  constexpr double kRate = 2e12, kLess = 1 - 1e-9, kMore = 1 + 1e-9;
  Cluster likely;
  likely.gpu.memory_bandwidth = BytesPerSecond(kRate);
  likely.gpu.memory = Bytes(80'000'000'000);
  likely.gpu.scale_up = likely.gpu.nic = BytesPerSecond(kRate);
  likely.tiers.push_back({});
  likely.tiers.back().name = "leaf", likely.tiers.back().bandwidth = BytesPerSecond(kRate);
  likely.gpu.peak[0] = FlopsPerSecond(kRate), likely.gpu.peak[1] = FlopsPerSecond(20e3 * kRate);
  CHECK(unlikely_numbers(likely).empty());
  const auto named = [&](const std::function<void(Cluster&)>& edit) {
    Cluster other = likely;
    edit(other);
    const std::vector<std::string> all = unlikely_numbers(other);
    if (all.size() != 1) return std::string();
    CHECK(all.front().ends_with(" beside memory_bandwidth 2 TB/s"));
    return all.front().substr(0, all.front().find(' '));
  };
  CHECK(named([&](Cluster& c) { c.gpu.scale_up = BytesPerSecond(kMore * kRate); }) == "scale_up");
  CHECK(named([&](Cluster& c) { c.gpu.nic = BytesPerSecond(kMore * kRate); }) == "nic");
  CHECK(named([&](Cluster& c) { c.tiers[0].bandwidth = BytesPerSecond(kMore * kRate); }) == "leaf");
  for (std::size_t format = 0; format < likely.gpu.peak.size(); ++format)
    for (const double peak : {kLess * kRate, kMore * 20e3 * kRate})
      CHECK(named([&](Cluster& c) { c.gpu.peak[format] = FlopsPerSecond(peak); }) == name(static_cast<DType>(format)));
  for (const double seconds : {2e-3, 1.0}) {
    const auto bytes = static_cast<std::int64_t>(seconds * kRate);
    CHECK(named([&](Cluster& c) { c.gpu.memory = Bytes(bytes + (seconds < 1 ? -1 : 1)); }) == "memory");
    CHECK(named([&](Cluster& c) { c.gpu.memory = Bytes(bytes); }).empty());
  }
}
