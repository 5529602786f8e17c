#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "hwprobe/ranks/star.hpp"
#include "hwprobe/session/plugin.hpp"
#include "hwprobe/session/pulse.hpp"

namespace plan {

inline constexpr int kFewProcessors = 4;  ///< of a rank: its own thread, the driver's, and NCCL's proxies

/// What a rank says of itself when it joins; rank 0 checks that all of them fit together.
struct RankHello {
  std::string version{};  ///< of plan
  std::string host{};
  int gpu = -1;
  int local_rank = 0;
  int processors = 0;  ///< that it may use beside its GPU
  std::string gpu_name{}, gpu_uuid{}, driver{};
  std::string clique{};       ///< of the NVLink fabric, where the driver names one
  std::string busy{};         ///< who else uses the GPU; empty: nobody
  std::string environment{};  ///< NCCL_*, FI_* and UCX_* variables
  std::string look{};         ///< a packed RankCheck (check.hpp) where one was asked for
  std::string where() const;  ///< "rank 13 (node02, GPU 5)" without the rank
};
/// A text of another rank, fit for a screen: plain characters, at most `longest`.
[[nodiscard]] std::string printable(std::string text, std::size_t longest = 200);

[[nodiscard]] std::string pack_hello(const RankHello& hello);
[[nodiscard]] Result<RankHello> unpack_hello(const std::string& payload);

/// Why these ranks cannot measure together: two on one GPU, different versions or drivers, and GPUs unless
/// `different_gpus` are wanted. All at once.
[[nodiscard]] Errors inconsistencies(const std::vector<RankHello>& ranks, bool different_gpus = false);

/// What is worth knowing and no obstacle: different variables of the network, different GPUs.
[[nodiscard]] std::vector<std::string> differences(const std::vector<RankHello>& ranks);

/// NCCL_*, FI_* and UCX_* of this process, sorted; without those that name this rank alone.
[[nodiscard]] std::string network_environment();

// Tasks as they travel.
/// `place` is the rank's number among the collectives' ranks.
[[nodiscard]] std::string open_task(const std::vector<int>& place);
[[nodiscard]] std::string join_task(const std::string& nccl_id);
[[nodiscard]] std::string measure_task(const plan_probe_point& point);
/// Host buffers: every rank answers with its numbers, and checks the sum of the round before.
[[nodiscard]] std::string transport_task(int count, const std::vector<double>& expected_sum);

[[nodiscard]] std::string pack_result(const RankResult& result);
/// A result of a rank; malformed ones fail.
[[nodiscard]] Result<RankResult> unpack_result(const std::string& payload);
/// The numbers of a transport answer; empty if it found its sum wrong or is malformed.
[[nodiscard]] std::vector<double> unpack_numbers(const std::string& payload);
/// The device that an open task opened.
[[nodiscard]] Result<plan_probe_device> unpack_device(const std::string& payload);

/// The part of a rank that works: opens its device when asked and measures what it is given.
class RankWork {
 public:
  RankWork(std::string plugin, DeviceSetup setup);
  [[nodiscard]] std::string run(const std::string& task);
  void abort();
  [[nodiscard]] std::shared_ptr<Device> device();

 private:
  std::shared_ptr<PulseSampler> sampler();

  std::string plugin_;
  DeviceSetup setup_;
  int rank_ = 0;  ///< of the launcher; the collectives' is setup_.rank
  std::mutex mutex_;
  std::shared_ptr<Device> device_{};
  std::shared_ptr<PulseSampler> pulses_{};
};

/// The same as callbacks that keep it alive.
[[nodiscard]] OwnWork own_work(const std::shared_ptr<RankWork>& work);

}  // namespace plan
