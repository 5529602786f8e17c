// A unit that is a thousand times off is told, whichever number of whichever GPU has it; no real GPU is.
#include "planner/choice/unlikely.hpp"

#include <doctest/doctest.h>

#include <functional>

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
