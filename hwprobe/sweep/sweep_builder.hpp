#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>

#include "hwprobe/sweep/sweep_points.hpp"

namespace plan {

inline constexpr double kPerPoint = 0.012;  ///< seconds of a point's buffers, heuristics and checks
inline constexpr double kRepetitions = 36;  ///< warm-up and samples of one point

/// Collects points of one request.
struct SweepBuilder {
  const SweepRequest& request;
  Sweep sweep{};

  bool done(const std::string& id) const {
    return std::find(request.done.begin(), request.done.end(), id) != request.done.end();
  }

  void add(Section section, int priority, std::string id, plan_probe_point point, double operation_s, double bytes,
           double setup = kPerPoint) {
    if (done(id)) return;
    point.least_samples = 9;
    point.most_samples = request.depth == Depth::Thorough ? 100 : 40;
    point.max_seconds = std::max(0.05, 60 * operation_s);
    const double repeated = kRepetitions * operation_s;
    sweep.points.push_back({section, std::move(id), point, operation_s, setup + repeated, priority});
    sweep.memory_bytes = std::max(sweep.memory_bytes, bytes);
  }

  bool at_least(Depth depth) const { return request.depth >= depth; }
};

[[nodiscard]] inline plan_probe_point make_point(plan_probe_kind kind, std::initializer_list<double> numbers,
                                                 int format = PLAN_PROBE_BF16, int orientation = 0) {
  plan_probe_point point{};
  point.kind = kind;
  point.format = format;
  point.orientation = orientation;
  std::size_t i = 0;
  for (const double number : numbers) point.number[i++] = static_cast<std::int64_t>(number);
  return point;
}

/// Bytes a second that memory is expected to move.
[[nodiscard]] inline double memory_rate(const SweepBuilder& b) {
  const double rate = b.request.expected.gpu.memory_bandwidth.value;
  return rate > 0 ? 0.9 * rate : 5e11;
}

// Sections of a sweep.
void add_memory(SweepBuilder& b);
void add_bandwidth(SweepBuilder& b);
void add_gemms(SweepBuilder& b);
void add_attention(SweepBuilder& b);
void add_kernels(SweepBuilder& b);
void add_host_link(SweepBuilder& b);
void add_pairs(SweepBuilder& b);
void add_collectives(SweepBuilder& b);
void add_overlap(SweepBuilder& b);

}  // namespace plan
