#pragma once

#include <array>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace plan::oracle {

/// What can go wrong with a run that is made up here.
enum class Trouble {
  SlowNetwork,
  SlowLinks,
  LowClocks,
  SlowRank,
  Recomputation,
  NoOverlap,
  Imbalance,
  EagerKernels,
  DataLoading,
  Fragmentation,
  SpreadGroups,
  WrongOrder
};
inline constexpr int kTroubles = 12;
/// The code that the tool gives it.
[[nodiscard]] const char* code_of(Trouble trouble);

/// A job as planned: seconds of a step of one rank, by what they are spent on. They are what the plan says; everything
/// that faults do to them is worked out here, event by event.
struct PlannedStep {
  double compute = 0, recompute = 0, hop = 0, bubble = 0, optimizer = 0, straggler = 0;
  /// Messages of an axis: seconds on the wire and exposed, inside the node and between nodes.
  struct Wire {
    double inside = 0, between = 0, exposed = 0;
    [[nodiscard]] double all() const { return inside + between; }
  };
  Wire tp{}, cp{}, ep{}, dp{};
  int node = 8;  ///< GPUs of one host
  int tp_ranks = 1, cp_ranks = 1, ep_ranks = 1, pp_ranks = 1, dp_ranks = 1;
  int micro_batches = 1;
  double planned_step = 0;
  bool moe = false, recomputed = false;
};

/// One kernel, or what the host does.
struct Event {
  std::string name{};
  std::string axis{};  ///< of a message: "tp", "cp", "ep", "pp", "dp"
  double start = 0, length = 0;
  bool host = false;
};

/// Some steps of one rank, as a profiler saw them.
struct MadeRun {
  std::vector<std::vector<Event>> steps{};
  std::vector<double> lengths{};  ///< of these steps
  /// Seconds that each kind of work takes a step in the long run, before noise: "compute", "tp", ..., "idle".
  std::vector<std::pair<std::string, double>> parts{};
  [[nodiscard]] double part(const std::string& name) const;
};

/// Can the job have it, and by what factor is it picked?
[[nodiscard]] bool can_have(const PlannedStep& step, Trouble trouble);

/// Runs some steps of the job with the troubles, each of a size of its own: two queues, one of compute and one of
/// gradients' messages, whose pieces start when what they wait for is there. Every kind of work errs by 3 %, and so
/// does every kernel.
[[nodiscard]] MadeRun make_run(const PlannedStep& step, const std::vector<std::pair<Trouble, double>>& troubles,
                               int steps, std::mt19937& random);

}  // namespace plan::oracle
