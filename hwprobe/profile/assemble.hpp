#pragma once

#include <string>
#include <vector>

#include "hwprobe/fits/statistics.hpp"
#include "hwprobe/sweep/sweep_points.hpp"

namespace plan {

/// What the ranks made of one point of the sweep.
struct Observation {
  SweepPoint planned{};
  std::vector<double> samples{};  ///< seconds of each repetition, on its slowest rank
  Summary summary{};              ///< of them
  std::vector<double> medians{};  ///< of each rank that took part
  std::vector<int> ranks{};       ///< those ranks
  double value[8] = {};           ///< largest of the ranks
  double bytes = 0;               ///< that one operation moved
  std::string text{};
  bool two_modes = false;
};

/// What is known about the job beside the measurements.
struct JobFacts {
  std::string name{};
  ProfileGpu gpu{};
  ProfileMemory memory{};
  ProfileHostLink host_link{};  ///< kind, generation and width
  int ranks = 1, ranks_per_node = 1, nodes = 1;
  int host_gpus = 0;  ///< that the driver lists on this host
  double host_memory_gib = 0;
  ProfileSource source{};
  Cluster expected{};
  std::vector<ProfileConditions> conditions{};
  std::vector<std::string> where{};  ///< of each rank: host/GPU
};

/// Tables, fits, their quality, and what a user must know, from the observations.
[[nodiscard]] HardwareProfile assemble(const JobFacts& facts, const std::vector<Observation>& observations);

/// Points that a profile holds already, by the names that plan_sweep gives them.
[[nodiscard]] std::vector<std::string> measured_points(const HardwareProfile& profile);

/// Adds what a profile of the same machine holds and `profile` does not (--resume).
void merge_profile(HardwareProfile& profile, const HardwareProfile& earlier);

}  // namespace plan
