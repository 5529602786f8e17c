// Clocks, power and throttle reasons beside the measurements; plan-measuring(7) 1.0. Tested by
// tests/hwprobe/statistics_test.cpp and tests/hwprobe/probe_ranks_test.cpp.
#include "hwprobe/session/pulse.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "hwprobe/fits/fit.hpp"
#include "hwprobe/node/load_driver.hpp"

namespace plan {
namespace {

constexpr auto kBetweenLooks = std::chrono::milliseconds(100);
constexpr std::size_t kMostPulses = 100;  // that one answer of a rank carries

}  // namespace

PulseSampler::PulseSampler(const std::string& uuid, const std::string& library) {
  Result<std::unique_ptr<GpuDriver>> driver = load_driver(library);
  if (!driver) return;
  int gpu = -1;
  for (const GpuFacts& facts : (*driver)->gpus())
    if (facts.uuid == uuid) gpu = facts.index;
  if (gpu < 0) return;
  thread_ = std::thread([this, gpu, loaded = std::shared_ptr<GpuDriver>(*std::move(driver))] {
    while (!over_) {
      const GpuPulse now = loaded->pulse(gpu);
      {
        const std::lock_guard lock(mutex_);
        if (pulses_.size() < kMostPulses) pulses_.push_back(now);
      }
      std::this_thread::sleep_for(kBetweenLooks);
    }
  });
}

PulseSampler::~PulseSampler() {
  over_ = true;
  if (thread_.joinable()) thread_.join();
}

std::vector<GpuPulse> PulseSampler::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(pulses_, {});
}

PulseSummary summarise(const std::vector<GpuPulse>& pulses) {
  PulseSummary out{.samples = static_cast<int>(pulses.size())};
  const auto middle = [&](double GpuPulse::*value) {
    std::vector<double> all;
    for (const GpuPulse& pulse : pulses)
      if (pulse.*value > 0) all.push_back(pulse.*value);
    return all.empty() ? 0 : median(all);
  };
  out.sm_mhz = middle(&GpuPulse::sm_mhz);
  out.memory_mhz = middle(&GpuPulse::memory_mhz);
  out.watts = middle(&GpuPulse::watts);
  for (const GpuPulse& pulse : pulses) out.celsius = std::max(out.celsius, pulse.celsius), out.reasons |= pulse.reasons;
  return out;
}

}  // namespace plan
