#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formulas/layout.hpp"
#include "formulas/units.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// Memory of the worst rank of one pipeline stage at its peak; the categories add up to the total.
struct StageMemory {
  int stage = 0;
  int layers = 0;
  Bytes weights{}, grads{}, optimizer{}, activations{}, transient{}, communication{}, context{};
  Bytes reserve{};     ///< part of `transient`: what the allocator holds but cannot hand out (fragmentation)
  Bytes late_grads{};  ///< part of `grads`: not yet allocated when the stage peaks, but reserved later on
  /// Beside the total: what the allocator holds from other moments of the step and gives back before it runs out.
  Bytes cached{};
  Bytes host{};  ///< beside the total: what the rank keeps in host memory
  Bytes total() const;
  Bytes outside() const;  ///< what the allocator does not see
  bool operator==(const StageMemory&) const = default;
};

/// A category of a stage's memory: totals, JSON both ways, limits of budgets, comparisons, tables and explanations read
/// these rows. Those without a column of their own are together what tables call "other".
struct MemoryCategory {
  Bytes StageMemory::*bytes;
  std::string_view metric;  ///< in budgets; behind the dot its key, which JSON has before `_bytes`
  std::string_view word;    ///< in reports
  std::string_view help;    ///< of its limit in budgets
  std::string_view symbol;  ///< in equations
  std::string_view about;   ///< of the symbol
  std::string_view source;  ///< of the symbol; empty: `plan explain` has a term under the key
  bool column = false;
  bool outside = false;  ///< of the allocator
  [[nodiscard]] constexpr std::string_view key() const { return metric.substr(metric.find('.') + 1); }
};
inline constexpr MemoryCategory kMemoryCategories[] = {
    {&StageMemory::weights, "memory.weights", "weights", "weights, on the stage with the most", "W", "weights", "",
     true},
    {&StageMemory::grads, "memory.grads", "gradients", "gradients, on the stage with the most", "G", "gradients", "",
     true},
    {&StageMemory::optimizer, "memory.optimizer", "optimizer", "optimizer states, likewise", "O", "optimizer states",
     "", true},
    {&StageMemory::activations, "memory.activations", "activations", "activations kept, likewise", "A", "activations",
     "", true},
    {&StageMemory::transient, "memory.transient", "transient", "short-lived tensors, likewise", "t",
     "alive only at the peak", ""},
    {&StageMemory::communication, "memory.communication", "communication", "communication buffers, likewise", "n",
     "NCCL buffers", "", false, true},
    {&StageMemory::context, "memory.context", "context", "CUDA context and libraries", "c", "CUDA context and modules",
     "GPU preset", false, true},
};
inline constexpr std::size_t kMemoryColumns =
    static_cast<std::size_t>(std::ranges::count(kMemoryCategories, true, &MemoryCategory::column));

inline Bytes StageMemory::total() const {
  Bytes sum{};
  for (const MemoryCategory& row : kMemoryCategories) sum = sum + this->*row.bytes;
  return sum;
}
inline Bytes StageMemory::outside() const {
  Bytes sum{};
  for (const MemoryCategory& row : kMemoryCategories)
    if (row.outside) sum = sum + this->*row.bytes;
  return sum;
}

/// Where the step goes; the terms add up to the step. Communication terms are what stays exposed.
struct Terms {
  Seconds compute{}, recompute{}, tp{}, cp{}, ep{}, pp{}, dp{}, bubble{}, optimizer{}, straggler{};
  Seconds total() const { return compute + recompute + tp + cp + ep + pp + dp + bubble + optimizer + straggler; }
  bool operator==(const Terms&) const = default;
};

/// Every term with its name.
inline constexpr std::pair<const char*, Seconds Terms::*> kTimeTerms[] = {
    {"compute", &Terms::compute},
    {"recompute", &Terms::recompute},
    {"tp", &Terms::tp},
    {"cp", &Terms::cp},
    {"ep", &Terms::ep},
    {"pp", &Terms::pp},
    {"dp", &Terms::dp},
    {"bubble", &Terms::bubble},
    {"optimizer", &Terms::optimizer},
    {"straggler", &Terms::straggler},
};

enum class Axis { Tp, Cp, Ep, Pp, Dp };

/// One kind of message that a rank sends in a step, worst stage.
struct Communication {
  Axis axis = Axis::Tp;
  Collective op = Collective::AllReduce;
  Group group{};
  std::string tier{};  ///< innermost tier that holds the group
  Bytes per_step{};    ///< bytes a rank sends
  double count = 0;    ///< operations per step
  Seconds time{};      ///< on the wire
  Seconds exposed{};   ///< of it, not hidden under compute
};

/// Useful FLOPs over peak, under each convention (plan-formulas(7) B2).
struct Mfu {
  double model_causal = 0;  ///< attention counted as executed under the causal mask
  double model_full = 0;    ///< attention counted in full, as PaLM and Megatron papers do
  double hardware = 0;      ///< causal, recomputed work counted too
};

enum class Fits { Yes, AtRisk, No };

/// A run of neighbouring stages on one kind of GPU, of a job that has several.
struct PoolRun {
  int pool = 0;  ///< which of Problem::pools
  std::string gpu{};
  int gpus = 0;
  Layout layout{};           ///< of this run: `pp` its stages, `chunk_layers` their layers
  int first_stage = 0;       ///< in the whole pipeline
  Bytes capacity{}, peak{};  ///< of one of its GPUs
  Bytes peak_low{}, peak_high{};
  Bytes host{}, host_capacity{};  ///< as of an estimate
  int peak_stage = 0;             ///< in the whole pipeline
  Fits fits = Fits::No;
  Seconds busy{};         ///< of a step, on its busiest stage
  double idle_ratio = 0;  ///< of the step, in which a GPU of this run waits for others, on average
};

struct Estimate {
  Layout layout{};
  std::vector<std::string> switches{};  ///< that the search turned on, as they are typed
  std::int64_t micro_batches = 0;
  std::vector<int> stage_layers{};  ///< per stage, front to back
  Seconds step_time{}, step_time_low{}, step_time_high{};
  Terms terms{};
  Mfu mfu{};
  double tokens_per_s = 0;
  double tokens_per_s_per_gpu = 0;
  Bytes capacity{}, peak{}, peak_low{}, peak_high{};
  Bytes host{}, host_capacity{};  ///< what the ranks of one node keep in its memory at most; 0: it is not known
  int peak_stage = 0;
  std::string peak_instant{};  ///< what the worst stage is doing at its peak
  Fits fits = Fits::No;
  std::vector<StageMemory> stages{};
  std::vector<Communication> communication{};
  std::vector<PoolRun> runs{};  ///< front to back; none: all GPUs are of one kind, and `layout` says all
};

/// The rate that MFU counts against: the dense peak of the 16-bit type, also when training in fp8.
struct MfuPeak {
  DType dtype = DType::Bf16;
  FlopsPerSecond rate{};
};
[[nodiscard]] MfuPeak mfu_peak(const Gpu& gpu);

/// Memory, communication and time of one layout. The layout must be legal for the problem
/// (planner/rules/rules.hpp); the numbers of an illegal one mean nothing.
[[nodiscard]] Estimate estimate(const Problem& problem, const Layout& layout);

/// How much longer one step takes than another of the same job, as shares of the latter: as predicted, and the ends of
/// its 90 % interval.
struct Difference {
  double low = 0, middle = 0, high = 0;
};

}  // namespace plan
