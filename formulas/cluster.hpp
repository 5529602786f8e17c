#pragma once

#include <array>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "formulas/calibration_data.hpp"
#include "formulas/learnt_steps.hpp"
#include "formulas/slice.hpp"
#include "formulas/training.hpp"
#include "formulas/units.hpp"

namespace plan {

/// Where a number about hardware comes from, best first.
enum class Provenance { Measured, Imported, Fitted, Datasheet, Inherited, Assumed };

/// The GEMM of a training step: forward y = x W (TN), data gradient (NN), weight gradient (NT).
enum class Orientation { Forward, DataGrad, WeightGrad };
inline constexpr int kOrientations = 3;

/// Fitted roofline t = t0 + ((2mnk / rate)^norm + (bytes / bandwidth)^norm)^(1/norm); plan-measuring(7) 1.3.
struct GemmFit {
  Seconds t0{};
  FlopsPerSecond rate{};  ///< 0: nothing fitted, take a share of the data sheet's peak
  BytesPerSecond bandwidth{};
  double norm = 4;
  Provenance provenance = Provenance::Assumed;
};

/// Measured GEMM rates on a full grid of m x n x k, m slowest. Logarithms, because both the axes and the
/// rates are interpolated in log space. Axes ascend; an axis of one value is allowed.
struct GemmGrid {
  std::vector<float> log_m{}, log_n{}, log_k{};
  std::vector<float> log_rate{};
  float log_best = 0;  ///< of log_rate: no prediction exceeds it
  bool empty() const { return log_rate.empty(); }
};

/// Measured GEMMs of one data type and orientation, and the fit used outside the grid.
struct GemmTable {
  GemmFit fit{};
  GemmGrid grid{};
};

/// t = experts * per_expert + sqrt((flops / rate)^2 + (bytes / bandwidth)^2), bytes with every expert's weights.
struct GroupedGemmFit {
  Seconds per_expert{};
  FlopsPerSecond rate{};  ///< 0: nothing measured, taken from the dense fit
  BytesPerSecond bandwidth{};
  Provenance provenance = Provenance::Assumed;
};

/// t = t0 + F/rate * (1 + s0/s) * (1 + 1024 b0 / (b h s)) * (1 + d0/d) / (1 + d0/128), F = causal FLOPs;
/// plan-measuring(7) 1.4. The last factor is the softmax, whose cost per score does not shrink with the head.
struct AttentionFit {
  Seconds t0{};
  FlopsPerSecond rate{};
  double s0 = 0;
  double b0 = 0;
  double d0 = 0;
  Provenance provenance = Provenance::Assumed;
};

enum class Collective { AllReduce, AllGather, ReduceScatter, AllToAll, SendRecv, Broadcast };
inline constexpr int kCollectives = 6;

/// t(S) = (alpha^p + (wire bytes / busbw)^p)^(1/p) for one operation on `ranks` GPUs of one scale-up domain.
struct CollectiveFit {
  Collective op = Collective::AllReduce;  ///< wire bytes: nccl-tests' factors, 2(n-1)/n for all-reduce
  int ranks = 2;
  Seconds alpha{};
  BytesPerSecond busbw{};
  double p = 0.62;
  Provenance provenance = Provenance::Assumed;
  /// Measured over predicted time, ascending in bytes: interpolated in log-log, the end values hold outside.
  std::vector<float> log_bytes{}, log_ratio{};
};

inline constexpr std::array<std::array<double, kOrientations>, kDTypes> kEqualOrientations{
    {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}}};

/// The design of a GPU, and the library that its collectives run on: facts that its preset states.
enum class Architecture {
  Unknown,
  Volta,
  Turing,
  Ampere,
  Ada,
  Hopper,
  Blackwell,
  RtxBlackwell,  ///< GeForce and RTX PRO, compute capability 12.0
  Cdna2,
  Cdna3,
  Cdna4,
  Gaudi2,
  Gaudi3,
  TpuV3,
  TpuV4,
  TpuV5e,
  TpuV5p,
  TpuV6e,
  TpuV7,
  NeuronV3
};
enum class CollectiveLibrary { Unknown, Nccl, Rccl, Hccl, Xla, Neuron };

/// Maker of an architecture, as presets name it; empty: not known.
[[nodiscard]] constexpr std::string_view vendor_of(Architecture architecture) {
  switch (architecture) {
    case Architecture::Unknown: return {};
    case Architecture::Volta:
    case Architecture::Turing:
    case Architecture::Ampere:
    case Architecture::Ada:
    case Architecture::Hopper:
    case Architecture::Blackwell:
    case Architecture::RtxBlackwell: return "nvidia";
    case Architecture::Cdna2:
    case Architecture::Cdna3:
    case Architecture::Cdna4: return "amd";
    case Architecture::Gaudi2:
    case Architecture::Gaudi3: return "intel";
    case Architecture::TpuV3:
    case Architecture::TpuV4:
    case Architecture::TpuV5e:
    case Architecture::TpuV5p:
    case Architecture::TpuV6e:
    case Architecture::TpuV7: return "google";
    case Architecture::NeuronV3: return "amazon";
  }
  return {};
}

struct Gpu {
  std::string name{};
  std::string vendor{};  ///< nvidia, amd, google, intel, amazon; empty: not stated
  Architecture architecture = Architecture::Unknown;
  CollectiveLibrary library = CollectiveLibrary::Unknown;
  bool nvlink_sharp = false;                   ///< switches that reduce and multicast: NCCL's NVLS
  Bytes memory{};                              ///< usable: what the driver reports
  std::array<FlopsPerSecond, kDTypes> peak{};  ///< dense, by DType; 0 = not supported
  BytesPerSecond memory_bandwidth{};
  int sm_count = 0;
  BytesPerSecond scale_up{};   ///< NVLink/xGMI/ICI per GPU and direction
  int scale_up_size = 8;       ///< GPUs of the scale-up domain it usually comes in
  int gpus_per_node = 8;       ///< GPUs of one host
  SliceRules slices{};         ///< of chips that are joined to their neighbours instead of to switches
  BytesPerSecond nic{};        ///< network per GPU and direction, typical
  BytesPerSecond host_link{};  ///< PCIe or C2C per direction
  double power_w = 0;          ///< TDP
  double price_per_hour = 0;   ///< USD, on-demand order of magnitude; 0 = unknown
  Bytes context{};             ///< CUDA context and modules, outside the allocator

  std::array<std::array<GemmTable, kOrientations>, kDTypes> gemm{};
  /// Rate of an orientation against forward, where it has no table of its own (Megatron's wgrad adds into fp32).
  std::array<std::array<double, kOrientations>, kDTypes> orientation_ratio = kEqualOrientations;
  /// Share of the tables' short-burst rate that hours of training keep: the power limit. Tables of sustained rates: 1.
  std::array<double, kDTypes> sustained{1, 1, 1, 1, 1};
  std::array<GroupedGemmFit, kOrientations> grouped_gemm{};  ///< bf16
  std::array<AttentionFit, 2> attention{};                   ///< forward, backward
  double memory_efficiency = 0.8;            ///< share of memory_bandwidth that memory-bound kernels reach
  Seconds kernel_floor{3e-6};                ///< least time of any kernel
  std::vector<CollectiveFit> collectives{};  ///< inside one scale-up domain
  std::string efficiency{};                  ///< key of the measured rates that it takes, presets/efficiency
  std::string measured_as{};                 ///< GPU whose measurements are used, if not its own
  std::vector<std::string> edited{};         ///< numbers that differ from the preset `efficiency`, in words
};

/// One level of the network, innermost first.
struct Tier {
  std::string name{};           ///< nvlink, rail, spine, ...
  int size = 8;                 ///< GPUs inside one instance of the tier
  BytesPerSecond bandwidth{};   ///< per GPU and direction
  Seconds latency{};            ///< one hop
  double oversubscription = 1;  ///< bandwidth shrinks by this above the tier below
  Provenance provenance = Provenance::Datasheet;
  Torus torus{};  ///< of a slice: `bandwidth` is that of all links of a GPU together
};

/// What training reaches of what micro-benchmarks reach: the few global constants that `plan calibrate`
/// fits to a cluster's own runs. The defaults are those of presets/calibration.yaml; man/plan-validation.7 says how far
/// they can be trusted.
struct Calibration {
  double gemm = calibrated::gemm;      ///< rate of GEMMs inside a training step / rate measured alone
  double hopper = calibrated::hopper;  ///< the same ratio on Hopper and its like, by architecture, against the others
  double hopper_fp8 = calibrated::hopper_fp8;        ///< in fp8 on those, against 16 bits on them
  double blackwell = calibrated::blackwell;          ///< the ratio on Blackwell and its like
  double blackwell_fp8 = calibrated::blackwell_fp8;  ///< in fp8 on those, against 16 bits on them
  double blackwell_fp4 = calibrated::blackwell_fp4;  ///< in fp4 on those, against 16 bits on them
  double grouped_gemm = calibrated::grouped_gemm;  ///< the same ratio for grouped GEMMs of experts, against dense ones
  double attention = calibrated::attention;        ///< the same for attention kernels
  double scan = calibrated::scan;                  ///< the same for chunked scans of Mamba-2 and DeltaNet
  double memory_bound = calibrated::memory_bound;  ///< the same for memory-bound kernels
  double scale_up = calibrated::scale_up;          ///< bandwidth of collectives inside the scale-up domain
  double scale_out = calibrated::scale_out;        ///< and across nodes
  double network_decay = calibrated::network_decay;  ///< share of it lost with every doubling of domains beyond four
  double tensor_parallel = calibrated::tensor_parallel;  ///< time of all-reduces between GEMMs / measured alone
  double eager_traffic = calibrated::eager_traffic;      ///< memory traffic of unfused pointwise kernels / fused ones
  double flash2_rate = calibrated::flash2_rate;          ///< FlashAttention 2 on Hopper and later / the vendor's kernel
  double flash1_rate = calibrated::flash1_rate;          ///< FlashAttention 1 / FlashAttention 2
  double triton_rate = calibrated::triton_rate;          ///< its Triton port / FlashAttention 2
  double overlap_tax = calibrated::overlap_tax;          ///< compute slowed by hidden communication, share of its time
  double jitter = calibrated::jitter;  ///< sigma of one rank's step, share of the step; stragglers are its maximum
  double kernel_gap_us = calibrated::kernel_gap_us;  ///< host time to launch one kernel without CUDA graphs
  double eager_gap_us = calibrated::eager_gap_us;    ///< the same for operations launched one by one from Python
  double fixed_step_ms = calibrated::fixed_step_ms;  ///< per step: data, logging, gradient norm, host synchronisation
  Seconds fixed_step() const { return Seconds(fixed_step_ms * 1e-3); }
  double allocator_reserve = 1;  ///< memory that the allocator cannot hand out again / what is usual
  bool operator==(const Calibration&) const = default;
};

/// A collective measured across scale-up domains, with `inside` members in each of them.
struct NetworkCurve {
  int inside = 1;
  CollectiveFit fit{};
};

/// Device memory that NCCL was seen to take on this machine; what is 0 follows from its sources instead.
struct NcclMemory {
  int ranks = 0;         ///< of the group that was measured, inside one node
  Bytes communicator{};  ///< making one
  Bytes all_reduce{};    ///< the first all-reduce on it
  Bytes all_to_all{};    ///< the first all-to-all on it
  int channels = 0;      ///< for collectives, as NCCL's log says
  int p2p_channels = 0;  ///< for send and receive
  bool operator==(const NcclMemory&) const = default;
};

/// Numbers of a cluster that a probe measured; those of tables and curves say so themselves.
struct ProbedNumbers {
  bool memory = false;     ///< what the driver leaves
  bool bandwidth = false;  ///< of the device memory
  bool host_link = false;
};

struct Cluster {
  std::string name{};
  Gpu gpu{};
  int gpus_per_node = 8;
  int nics_per_node = 8;
  Bytes host_memory{};        ///< of one node, which its ranks share; 0 = not stated
  std::vector<Tier> tiers{};  ///< front is the scale-up domain, back holds the whole cluster
  double host_power_w = 0;    ///< per GPU: CPUs, NICs, fans
  double pue = 1.2;
  double gpu_mtbf_hours = 0;  ///< mean time between failures of one GPU; 0 = not modelled
  Calibration calibration{};
  LearntSteps learnt{};   ///< with that calibration
  bool measured = false;  ///< probed here rather than taken from a data sheet
  std::vector<NetworkCurve> network{};
  NcclMemory nccl{};
  ProbedNumbers probed{};
  std::vector<std::string> measured_parts{};    ///< of a profile: what was measured
  std::vector<std::string> unmeasured_parts{};  ///< and what the data sheet or a default replaces

  int scale_up_size() const { return tiers.empty() ? gpus_per_node : tiers.front().size; }
};

/// A process group of `size` ranks, `stride` apart in rank order; formulas/rank_grid.hpp says which ranks those are.
struct Group {
  int size = 1;
  int stride = 1;
  /// 0: all members are `stride` apart. Otherwise the group is several rows of `row` members that each are, spread
  /// evenly over a block of this many ranks, which holds the sibling groups' rows, too. Two rows of the first and the
  /// last pipeline stage count as spread: what holds both is the whole block.
  int span = 0;
  int row = 0;
  /// Ranks of the job, which fill the instances of a tier one after the other: groups that do not divide them lie
  /// across two or more. 0: not known, and each lies where it fits.
  int world = 0;
  /// Ranks of the block in which the group and its siblings lie.
  constexpr int reach() const { return span > 0 ? span : size * stride; }
  /// Do some of the groups lie across instances of a tier of `tier_size` GPUs in unequal parts? Where the job does not
  /// fill the instances, its scheduler cuts no block that fits into one.
  constexpr bool straddles(int tier_size) const {
    return span == 0 && stride < tier_size && world > tier_size && world % tier_size == 0 && tier_size % reach() != 0 &&
           reach() % tier_size != 0;
  }
  /// Members that share one instance of a tier of `tier_size` GPUs; of groups that straddle, the fewest that any has in
  /// one: they are who the others wait for.
  constexpr int inside(int tier_size) const {
    if (straddles(tier_size)) {
      const int least = std::gcd(reach(), tier_size) / stride;
      return least > 1 ? least : 1;
    }
    const int room = tier_size / stride;
    const bool rows = span > tier_size;
    const int near = rows ? row : size;
    const int held = room < 1 ? 1 : (room < near ? room : near);
    if (!rows || held < row) return held;
    const int whole = static_cast<int>(static_cast<long long>(tier_size) * (size / row) / span);
    return whole > 1 ? whole * row : held;
  }
  /// Instances of such a tier that a group has members in; of those that straddle, the most that any has.
  constexpr int instances(int tier_size) const {
    const int held = inside(tier_size);
    if (!straddles(tier_size)) return (size + held - 1) / held;
    const int apart = std::gcd(reach(), tier_size) - stride;
    const int first = tier_size - 1 - (apart > 0 ? apart : 0);  // where the worst of them begins in its instance
    const int touched = (first + (size - 1) * stride) / tier_size + 1;
    return touched < size ? touched : size;
  }
  bool operator==(const Group&) const = default;
};

}  // namespace plan
