#pragma once

#include <functional>
#include <vector>

#include "formulas/layout.hpp"

/// Slow and obvious: writes down what each rank does, then replays it. Shares nothing with the product
/// but the names of the schedules.
namespace plan::oracle {

/// One operation. Stages count through the whole model: pp * vp of them (pp for DualPipe).
struct Op {
  char kind = 'F';  ///< F forward, B whole backward, I input gradient, W weight gradient, P pair
  int micro_batch = 0;
  int stage = 0;
  int back_micro_batch = -1;  ///< P: the backward that runs beside the forward
  int back_stage = -1;
  int direction = 0;  ///< DualPipe: 1 if the micro-batch enters at the last rank
  int back_direction = 0;
};

struct Shape {
  Schedule schedule = Schedule::OneFOneB;
  int pp = 1;
  int vp = 1;
  int micro_batches = 1;
  int group = 0;  ///< interleaved; 0 = pp
  int steps = 1;  ///< one after the other; a rank begins the next as soon as it has ended its own part of the last
};

/// What each rank does, in order.
std::vector<std::vector<Op>> orders(const Shape& shape);

/// Times of one stage (one chunk) for one micro-batch.
struct Cost {
  double forward = 1, input = 1, weight = 1;
  double saved = 0;  ///< what a pair saves over forward + backward; pairs of two stages save the mean
};

struct Run {
  bool deadlock = false;
  double makespan = 0;
  std::vector<double> idle;         ///< per rank, over the whole makespan
  std::vector<int> held_to_input;   ///< per rank, most chunks between forward and input gradient
  std::vector<int> held_to_weight;  ///< per rank, most chunks between forward and weight gradient
};

/// `costs` has one entry a stage of the model; handing over to another rank takes `hop` and no rank waits
/// for it but the one that needs the data.
Run replay(const Shape& shape, const std::vector<Cost>& costs, double hop);
/// The same with a time for each pair of ranks.
using Link = std::function<double(int from, int to)>;
Run replay(const Shape& shape, const std::vector<Cost>& costs, const Link& link);

}  // namespace plan::oracle
