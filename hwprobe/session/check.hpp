#pragma once

#include <string>
#include <vector>

#include "hwprobe/node/discover.hpp"
#include "hwprobe/node/libraries.hpp"
#include "hwprobe/session/rank_work.hpp"

namespace plan {

/// Something that a probe would meet.
struct CheckFinding {
  std::string code{};
  std::string where{};  ///< "rank 3 (node01, GPU 3)"; "job" for all of them together
  std::string text{};
  std::string help{};
  bool stops = false;  ///< the probe would end without a figure; else something would be left out, or be wrong
  bool operator==(const CheckFinding&) const = default;
};

/// One rank before anything is measured, beside what its RankHello says.
struct RankCheck {
  Maker maker = Maker::Nvidia;  ///< of its GPUs
  std::string cuda{};           ///< newest that its driver runs, "13.0"; empty: unknown
  std::string toolkit{};        ///< CUDA or ROCm that the plugin was built with
  VendorLibraries libraries{};
  std::string visible{};  ///< CUDA_VISIBLE_DEVICES, or AMD's variables; "all" where none is set
  int numa = -1;          ///< of its GPU
  double free_gib = 0, total_gib = 0;
  std::string adapters{};  ///< nearest to its GPU: "mlx5_0 400"
  std::string rdma{};      ///< what lets adapters reach the GPU's memory; empty: nothing that was seen
  std::vector<CheckFinding> findings{};
};

/// Where a rank runs: all that check_rank looks at beside the environment.
struct Surroundings {
  Machine machine{};  ///< with the GPUs that this process sees
  int gpu = -1;       ///< of them; -1: none
  int world = 1;
  std::string plugin{};           ///< file; empty: there is none
  std::vector<int> processors{};  ///< that it would be bound to
  bool beside = true;             ///< they are attached beside the GPU
  VendorLibraries named{};        ///< `path`s that flags name
  bool allow_busy = false;
};

/// Looks, and measures nothing: no context on a GPU is made.
[[nodiscard]] RankCheck check_rank(const Surroundings& at, const Variables& variables);

[[nodiscard]] std::string pack_check(const RankCheck& check);
[[nodiscard]] Result<RankCheck> unpack_check(const std::string& payload);

/// A rank of a job, as it introduced itself.
struct CheckedRank {
  int number = 0;  ///< of the launcher
  RankHello hello{};
  RankCheck check{};
};

/// All findings of a job, those that stop it first: of its ranks, named by them, and of the ranks together.
/// `obstacles` are what keeps these ranks from measuring together.
[[nodiscard]] std::vector<CheckFinding> check_job(const std::vector<CheckedRank>& ranks, const Errors& obstacles);

}  // namespace plan
