#pragma once

#include <algorithm>
#include <span>

#include "formulas/hops.hpp"
#include "formulas/pipeline.hpp"

/// Paths through pipelines whose backward stays in one piece; formulas/schedule.cpp asks for them.
namespace plan::pipeline {

using Stages = std::span<const StageTime>;

/// Seconds as plain numbers: every quantity here is a time.
struct Stage {
  double f, i, w;
  explicit Stage(const StageTime& t) : f(t.forward.value), i(t.backward_input.value), w(t.backward_weight.value) {}
  double b() const { return i + w; }
  double work() const { return f + i + w; }
};

inline double positive(double x) { return x > 0 ? x : 0; }

/// Micro-batches that pass a chunk before the next chunk's turn.
double group_size(const Pipeline& pipe);

/// Over all stages.
struct Totals {
  double f = 0, b = 0;
  double f_max = 0, b_max = 0, work_max = 0;
  std::size_t slowest = 0;
};

Totals totals(Stages stages);

/// Makespan with free hand-overs and with the given ones.
struct Span {
  double still = 0, moving = 0;
  void at_least(double still_path, double moving_path) {
    still = std::max(still, still_path), moving = std::max(moving, moving_path);
  }
};

Span one_f_one_b(const Pipeline& pipe, Stages stages, const Totals& sum, const Hops& hops);
/// Interleaved and breadth-first.
Span interleaved(const Pipeline& pipe, Stages stages, const Totals& sum, const Hops& hops);

}  // namespace plan::pipeline
