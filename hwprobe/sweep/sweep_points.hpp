#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formulas/hardware_profile.hpp"
#include "formulas/model.hpp"
#include "hwprobe/plugin_abi.h"

namespace plan {

/// Parts of a probe, in the order in which they run.
/// Pairs come last: a process that reaches the other GPUs of its node takes memory on each of them until its end.
enum class Section { Memory, Bandwidth, Gemm, Attention, Kernels, HostLink, Collectives, Overlap, Pairs };
inline constexpr int kSections = 9;
[[nodiscard]] std::string_view name(Section section);

enum class Depth { Quick, Standard, Thorough };

/// What to measure, on what.
struct SweepRequest {
  Cluster expected{};  ///< data sheet: predicts how long each point takes
  int ranks = 1;       ///< one a GPU
  int ranks_per_node = 1;
  Depth depth = Depth::Quick;
  double budget_s = 45;
  std::vector<std::string> formats{"bf16"};
  bool attention = true;
  bool nccl = true;                 ///< the ranks share a communicator
  Model model{};                    ///< its shapes are measured exactly; no layers: none
  std::vector<int> tp{};            ///< tensor-parallel degrees of those shapes
  std::int64_t tokens = 0;          ///< of one micro-batch; 0: the model's sequence
  std::vector<std::string> done{};  ///< points that an earlier probe measured (--resume)
};

struct SweepPoint {
  Section section = Section::Memory;
  std::string id{};  ///< gemm bf16 tn 4096x4096x8192
  plan_probe_point point{};
  double operation_s = 0;  ///< predicted time of one operation
  double cost_s = 0;       ///< and of measuring it
  int priority = 0;        ///< the largest are dropped first when time is short
};

struct Sweep {
  std::vector<SweepPoint> points{};
  std::vector<ProfileSkip> skipped{};
  double seconds = 0;       ///< predicted
  double wanted_s = 0;      ///< with what was left out
  double memory_bytes = 0;  ///< largest working set of one point
};

/// "512 B", "32 MiB": sizes of messages and buffers.
[[nodiscard]] std::string size_text(double bytes);
[[nodiscard]] std::string_view format_name(int format);
[[nodiscard]] int format_of(std::string_view name);  ///< -1: no such format
[[nodiscard]] std::string_view kernel_name(int kernel);

/// Bytes that a kernel of `elements` elements reads and writes.
[[nodiscard]] double kernel_bytes(int kernel, double elements);

}  // namespace plan
