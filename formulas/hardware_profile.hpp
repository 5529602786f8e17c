#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formulas/cluster.hpp"

/// What `plan probe` found out about a machine, as measured: the tables, the fits through them and how far to trust
/// both. presets/hardware.hpp reads and writes it as a file (`schema: plan.hardware/1`) and makes a Cluster of it.
namespace plan {

/// One entry of `provenance`: who measured, with what. The other parts name it by `id`.
struct ProfileSource {
  std::string id{};  ///< m1
  Provenance kind = Provenance::Measured;
  std::string tool{};      ///< plan 0.1.0, nccl-tests
  std::string source{};    ///< file or address that was imported
  std::string date_utc{};  ///< 2026-11-20T10:02:11Z
  std::string driver{};
  std::string cuda_runtime{};
  std::string nccl{};
  std::string launcher{};
  std::string nccl_env{};  ///< NCCL_* variables in effect
  int host_count = 0;
  int gpu_count = 0;
  double budget_s = 0;
  bool operator==(const ProfileSource&) const = default;
};

/// A median and the half width of the middle 90 % of its samples, as a share of it. 0: not measured.
struct Measured {
  double value = 0;
  double spread = 0;
  bool known() const { return value > 0; }
  bool operator==(const Measured&) const = default;
};

/// How far a fit lies from its points: |predicted / measured - 1|; plan-measuring(7) 2.2. Never R^2.
struct CurveQuality {
  int points = 0;
  double median_err = 0;
  double p90_err = 0;
  double held_out_err = 0;           ///< median, each point predicted from the others
  std::vector<std::string> flags{};  ///< non_monotonic, rank_skew, drift, noisy
  bool operator==(const CurveQuality&) const = default;
};
/// A below 5 %, B below 12 %, C below 25 %, else unfit, by the median.
[[nodiscard]] constexpr std::string_view grade(const CurveQuality& q) {
  return q.median_err < 0.05 ? "A" : q.median_err < 0.12 ? "B" : q.median_err < 0.25 ? "C" : "unfit";
}

struct ProfileGpu {
  std::string model{};   ///< the driver's name
  std::string preset{};  ///< data sheet it is compared with; empty: none known
  std::string pci_device_id{};
  std::string compute_capability{};
  int sm_count = 0;
  double l2_mib = 0;
  bool operator==(const ProfileGpu&) const = default;
};

struct ProfileMemory {
  double total_gib = 0;
  double usable_gib = 0;
  double context_gib = 0;
  double cublas_workspace_gib = 0;
  std::string prov{};
  bool operator==(const ProfileMemory&) const = default;
};

struct ProfileHbm {
  Measured copy{};   ///< GB/s, read and written
  Measured triad{};  ///< GB/s
  double fixed_us = 0;
  std::string prov{};
  bool operator==(const ProfileHbm&) const = default;
};

struct GemmPoint {
  double m = 0, n = 0, k = 0;
  double us = 0;
  double spread = 0;
  bool operator==(const GemmPoint&) const = default;
};

/// GEMMs of one format and orientation.
struct ProfileGemm {
  std::string format{};  ///< bf16, fp16, fp8, mxfp8, nvfp4, fp32
  Orientation orientation = Orientation::Forward;
  std::vector<GemmPoint> grid{};
  double t0_us = 0, f_tflops = 0, w_tb_s = 0;  ///< roofline; 0 = not fitted
  CurveQuality quality{};
  double sustained_tflops = 0;  ///< the largest shape, for seconds
  double burst_tflops = 0;      ///< the same shape, at once
  double sm_clock_mhz_p50 = 0;
  std::vector<std::string> throttle{};
  std::string prov{};
  bool operator==(const ProfileGemm&) const = default;
};

struct AttentionPoint {
  double batch = 0, heads = 0, kv_heads = 0, seq = 0;
  double us = 0;
  double spread = 0;
  bool operator==(const AttentionPoint&) const = default;
};

/// Causal attention of one head width and pass.
struct ProfileAttention {
  bool backward = false;
  int head_dim = 128;
  std::vector<AttentionPoint> grid{};
  double t0_us = 0, fmax_tflops = 0, s0 = 0, b0 = 0;
  CurveQuality quality{};
  std::string prov{};
  bool operator==(const ProfileAttention&) const = default;
};

/// A memory-bound kernel: bytes per time over the copy rate, and the least time of a small one.
struct ProfileKernel {
  std::string op{};  ///< rmsnorm, softmax, swiglu, adam, ...
  double efficiency = 0;
  double gb_s = 0;
  double fixed_us = 0;
  double spread = 0;
  std::string prov{};
  bool operator==(const ProfileKernel&) const = default;
};

struct ProfileHostLink {
  std::string kind{};  ///< pcie, c2c
  int gen = 0, width = 0;
  Measured h2d{}, d2h{}, bidir{}, all_gpus_h2d{};  ///< GB/s; bidir is the sum of both ways
  std::string prov{};
  bool operator==(const ProfileHostLink&) const = default;
};

/// One direction between two GPUs.
struct ProfilePair {
  int from = 0, to = 0;
  double gb_s = 0;
  double latency_us = 0;
  std::string prov{};
  bool operator==(const ProfilePair&) const = default;
};

struct ProfileTier {
  std::string id{};
  std::string kind{};        ///< scale_up or scale_out
  int size = 0;              ///< GPUs inside one instance
  double per_gpu_gb_s = 0;   ///< of the link, per direction; 0 = from the data sheet
  double measured_gb_s = 0;  ///< reached per GPU with all GPUs at once; 0 = not measured
  double oversubscription = 1;
  double latency_us = 0;
  std::string prov{};
  bool operator==(const ProfileTier&) const = default;
};

/// Which ranks talk: `n` ranks, `ranks_per_node` of them in each of `nodes` nodes; one such group or all at once.
struct GroupShape {
  int n = 2;
  int ranks_per_node = 2;
  int nodes = 1;
  bool all = true;
  bool operator==(const GroupShape&) const = default;
};

struct CurvePoint {
  double bytes = 0;  ///< nccl-tests' size
  double us = 0;
  double spread = 0;
  bool operator==(const CurvePoint&) const = default;
};

struct ProfileCurve {
  Collective op = Collective::AllReduce;
  std::string dtype{};
  GroupShape layout{};
  std::vector<CurvePoint> table{};
  double alpha_us = 0, busbw_gb_s = 0, p = 0.62;
  std::string algo{};  ///< what NCCL said it used: "RING/LL, from 2097152 bytes NVLS/SIMPLE"
  CurveQuality quality{};
  std::string prov{};
  bool operator==(const ProfileCurve&) const = default;
};

/// Two streams at once: time of each over its time alone.
struct ProfileOverlap {
  std::string compute{}, comm{};
  double compute_slowdown = 1, comm_slowdown = 1;
  std::string prov{};
  bool operator==(const ProfileOverlap&) const = default;
};

/// Device memory that a communicator or its first operation of a kind takes.
struct ProfileNcclMemory {
  std::string what{};  ///< init, all_reduce, all_to_all, ...
  int ranks = 0;
  double gib = 0;
  std::string prov{};
  bool operator==(const ProfileNcclMemory&) const = default;
};

/// Channels that NCCL's log states for the largest communicator.
struct ProfileNcclChannels {
  int collective = 0, nvls = 0, p2p = 0;
  std::string prov{};
  bool operator==(const ProfileNcclChannels&) const = default;
};

/// How the GPUs ran while one section was measured: NVML ten times a second, all ranks; and how far a fixed GEMM and
/// copy, repeated every few seconds, moved meanwhile.
struct ProfileConditions {
  std::string section{};
  int samples = 0;
  double sm_clock_mhz_p50 = 0, memory_clock_mhz_p50 = 0, power_w_p50 = 0, temperature_c_max = 0;
  double drift_pct = 0;
  int passes = 1;  ///< times that every point of it was measured, in different orders
  std::vector<std::string> throttle{};
  std::string prov{};
  bool operator==(const ProfileConditions&) const = default;
};

struct ProfileWarning {
  std::string code{}, where{}, text{};
  bool operator==(const ProfileWarning&) const = default;
};

/// Something that was asked for and not measured.
struct ProfileSkip {
  std::string what{}, reason{};
  bool operator==(const ProfileSkip&) const = default;
};

struct HardwareProfile {
  std::string name{};
  bool partial = false;    ///< ended before its end: a rank died, time ran out, interrupted
  std::string stopped{};   ///< why, if partial
  bool synthetic = false;  ///< several ranks shared a GPU: for tests of the probe, not for planning
  std::vector<ProfileSource> provenance{};
  ProfileGpu gpu{};
  int gpus_per_node = 0;  ///< that took part
  int nodes = 0;
  int host_gpus = 0;           ///< that the driver lists on a host, whether they took part or not; 0: not known
  double host_memory_gib = 0;  ///< of one host; 0: not known
  ProfileMemory memory{};
  ProfileHbm hbm{};
  std::vector<ProfileGemm> gemm{};
  std::vector<ProfileAttention> attention{};
  std::vector<ProfileKernel> memory_bound{};
  ProfileHostLink host_link{};
  std::vector<ProfilePair> pairs{};
  std::vector<ProfileTier> tiers{};
  std::vector<ProfileCurve> collectives{};
  std::vector<ProfileOverlap> overlap{};
  std::vector<ProfileNcclMemory> nccl_memory{};
  ProfileNcclChannels nccl_channels{};
  std::vector<ProfileConditions> conditions{};
  std::vector<ProfileWarning> warnings{};
  std::vector<ProfileSkip> skipped{};
  bool operator==(const HardwareProfile&) const = default;
};

}  // namespace plan
