// Numbers of a GPU that cannot be of one machine: most often a unit that is a thousand times off, which every reader
// takes and every figure follows. Assumption: from V100 and T4 to Blackwell and TPU v7 a peak is 10 to 2,000 FLOPs for
// each byte that the memory gives in the same time, the memory is read once in 20 to 100 ms, and no link is faster than
// the memory (presets/gpus, data sheets). The bounds are a tenth and ten times of that, so that a sweep or a GPU to
// come stays within. Tested by tests/cli/unlikely_test.cpp.
#include "planner/choice/unlikely.hpp"

#include <fmt/core.h>

#include "formulas/names.hpp"

namespace plan {
namespace {

constexpr double kLeastFlopsPerByte = 1, kMostFlopsPerByte = 20e3;
constexpr double kLeastSeconds = 2e-3, kMostSeconds = 1;  // to read the memory once

}  // namespace

std::vector<std::string> unlikely_numbers(const Cluster& cluster) {
  const Gpu& gpu = cluster.gpu;
  const double bytes = gpu.memory_bandwidth.value;
  std::vector<std::string> out;
  if (!(bytes > 0)) return out;
  const std::string beside = fmt::format("beside memory_bandwidth {:.4g} TB/s", bytes / 1e12);
  for (std::size_t format = 0; format < gpu.peak.size(); ++format) {
    const double flops = gpu.peak[format].value;
    if (flops > 0 && (flops < kLeastFlopsPerByte * bytes || flops > kMostFlopsPerByte * bytes))
      out.push_back(fmt::format("{} peak {:.4g} TFLOP/s {}", name(static_cast<DType>(format)), flops / 1e12, beside));
  }
  const double seconds = static_cast<double>(gpu.memory.value) / bytes;
  if (seconds < kLeastSeconds || seconds > kMostSeconds)
    out.push_back(fmt::format("memory {:.4g} GiB {}", static_cast<double>(gpu.memory.value) / kGiB, beside));
  const auto link = [&](std::string_view what, BytesPerSecond rate) {
    if (rate.value > bytes) out.push_back(fmt::format("{} {:.4g} TB/s {}", what, rate.value / 1e12, beside));
  };
  link("scale_up", gpu.scale_up), link("nic", gpu.nic);
  for (const Tier& tier : cluster.tiers) link(tier.name, tier.bandwidth);
  return out;
}

}  // namespace plan
