#pragma once

#include <optional>

#include "formulas/real_bytes.hpp"
#include "formulas/units.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// What somebody states about failures; the rest is the cluster's preset or what large jobs published.
struct FailureFacts {
  std::optional<double> gpu_mtbf_hours{};       ///< mean time between failures of one GPU
  std::optional<double> storage_bytes_per_s{};  ///< of the whole job, writing and reading checkpoints
  std::optional<Seconds> restart{};             ///< from an interruption to training again, the checkpoint read
};

/// Bandwidth to storage for each GPU of a job where nobody states one: Llama 3's 2 TB/s of sustained throughput for a
/// cluster of 24,576 GPUs (Grattafiori et al. 2024, arXiv:2407.21783, section 3.3.1).
inline constexpr double kStoragePerGpu = 2e12 / 24576;
/// From an interruption until the job loads its checkpoint: noticing, diagnosing and replacing what broke takes less
/// than ten minutes on average (Jiang et al. 2024, MegaScale, arXiv:2402.15627, section 6.3).
inline constexpr Seconds kRecovery{600};

/// What failures leave of a job's time, when checkpoints are taken as often as pays (plan-formulas(7) F7).
struct Goodput {
  double gpu_mtbf_hours = 0;
  Seconds interruption{};     ///< mean time between interruptions of the job
  Bytes checkpoint{};         ///< weights and optimizer states of what is trained
  double storage = 0;         ///< bytes/s of the job
  Seconds checkpoint_time{};  ///< training stands still for it
  Seconds interval{};         ///< between checkpoints
  Seconds restart{};          ///< from an interruption to training again, what was lost not counted
  double ratio = 1;           ///< share of the time that makes progress
};

/// Nothing where neither the cluster nor anybody says how often its GPUs fail.
[[nodiscard]] std::optional<Goodput> goodput_of(const Problem& problem, const FailureFacts& facts = {});

/// Bytes of a checkpoint to train on from: weights, the optimizer's copy of them and its moments, whole; of adapters
/// only theirs.
[[nodiscard]] RealBytes checkpoint_bytes(const Problem& problem);

/// What an operator starts after losing GPUs: the same layout with fewer replicas, each keeping its share of the batch.
struct FewerReplicas {
  Problem problem{};  ///< with its GPUs and its global batch
  Layout layout{};
};
/// Nothing where not one replica is left, or the layout of that many is not possible.
[[nodiscard]] std::optional<FewerReplicas> with_fewer_replicas(const Problem& problem, const Layout& layout, int gpus);

}  // namespace plan
