// Event simulation of a pipeline step, for traces, timelines and the final ranking.
// Tested by tests/planner/simulate_test.cpp, against the replay in tests/oracle/pipeline_sim.cpp.

#include "planner/estimate/simulate.hpp"

#include <algorithm>

namespace plan {
namespace {

using Work = PipelineWork;

double saved_by_pairing(const StageTime& chunk) {
  return chunk.pair.value > 0 ? chunk.work().value - chunk.pair.value : 0;
}

double duration(const PipelineOp& op, std::span<const StageTime> chunks) {
  const StageTime& chunk = chunks[op.chunk];
  switch (op.work) {
    case Work::Forward: return chunk.forward.value;
    case Work::Backward: return chunk.backward().value;
    case Work::InputGradient: return chunk.backward_input.value;
    case Work::WeightGradient: return chunk.backward_weight.value;
    case Work::Pair: break;
  }
  const StageTime& back = chunks[op.back_chunk];
  return chunk.forward.value + back.backward().value - (saved_by_pairing(chunk) + saved_by_pairing(back)) / 2;
}

/// The run in progress. A rank that lacks an input waits; the rank that makes the input wakes it, so that
/// every operation is looked at no more than three times.
class SimulatedRun {
 public:
  SimulatedRun(const Pipeline& pipeline, std::span<const StageTime> chunks, const Hops& hops)
      : pipeline_(pipeline),
        chunks_(chunks),
        hops_(hops),
        last_(model_chunks(pipeline) - 1),
        order_(pipeline_order(pipeline)),
        forward_end_(static_cast<std::size_t>(last_ + 1) * pipeline.micro_batches, kUnknown),
        backward_end_(forward_end_),
        next_(order_.size(), 0),
        now_(order_.size(), 0.0) {
    for (int rank = pipeline.pp - 1; rank >= 0; --rank) awake_.push_back(rank);
  }

  /// Calls `done(rank, op, start, end)` for every operation.
  template <class Done>
  void run(Done done) {
    while (!awake_.empty()) {
      const int rank = awake_.back();
      awake_.pop_back();
      const std::vector<PipelineOp>& todo = order_[rank];
      for (; next_[rank] < todo.size(); ++next_[rank]) {
        const PipelineOp& op = todo[next_[rank]];
        const double ready = inputs_ready(op);
        if (ready == kUnknown) break;
        const double start = std::max(now_[rank], ready), end = start + duration(op, chunks_);
        now_[rank] = end;
        done(rank, op, start, end);
        publish(op, end);
      }
    }
  }

  double makespan() const { return *std::max_element(now_.begin(), now_.end()); }
  const std::vector<std::vector<PipelineOp>>& order() const { return order_; }

 private:
  static constexpr double kUnknown = -1;

  std::size_t index(int chunk, int micro_batch) const {
    return static_cast<std::size_t>(chunk) * pipeline_.micro_batches + micro_batch;
  }
  int rank_of(int chunk, int micro_batch) const { return pipeline_rank(pipeline_, chunk, micro_batch); }

  /// When the result of a neighbouring chunk is here. A rank's own earlier operations need no look-up.
  double arrival(const std::vector<double>& ends, int from, int to, int micro_batch) const {
    const double end = ends[index(from, micro_batch)];
    if (end == kUnknown) return kUnknown;
    const int sender = rank_of(from, micro_batch), receiver = rank_of(to, micro_batch);
    return end + (sender == receiver ? 0 : hops_.between(sender, receiver).value);
  }

  double inputs_ready(const PipelineOp& op) const {
    double ready = 0;
    const bool forward = op.work == Work::Forward || op.work == Work::Pair;
    if (forward && op.chunk > 0) ready = arrival(forward_end_, op.chunk - 1, op.chunk, op.micro_batch);
    if (ready == kUnknown || op.work == Work::Forward || op.work == Work::WeightGradient) return ready;
    const bool pair = op.work == Work::Pair;
    const int chunk = pair ? op.back_chunk : op.chunk, micro_batch = pair ? op.back_micro_batch : op.micro_batch;
    if (chunk == last_) return ready;
    const double gradient = arrival(backward_end_, chunk + 1, chunk, micro_batch);
    return gradient == kUnknown ? kUnknown : std::max(ready, gradient);
  }

  void publish(const PipelineOp& op, double end) {
    if (op.work == Work::Forward || op.work == Work::Pair) {
      forward_end_[index(op.chunk, op.micro_batch)] = end;
      if (op.chunk < last_) awake_.push_back(rank_of(op.chunk + 1, op.micro_batch));
    }
    if (op.work == Work::Forward || op.work == Work::WeightGradient) return;
    const bool pair = op.work == Work::Pair;
    const int chunk = pair ? op.back_chunk : op.chunk, micro_batch = pair ? op.back_micro_batch : op.micro_batch;
    backward_end_[index(chunk, micro_batch)] = end;
    if (chunk > 0) awake_.push_back(rank_of(chunk - 1, micro_batch));
  }

  const Pipeline& pipeline_;
  std::span<const StageTime> chunks_;
  const Hops& hops_;
  int last_;
  std::vector<std::vector<PipelineOp>> order_;
  std::vector<double> forward_end_, backward_end_;  ///< by chunk and micro-batch
  std::vector<std::size_t> next_;                   ///< by rank: operation to do next
  std::vector<double> now_;                         ///< by rank
  std::vector<int> awake_;                          ///< ranks that may be able to go on
};

/// Fills in what each rank holds and when most.
void count_held(PipelineRun& run, std::span<const double> held) {
  std::vector<double> now(run.ranks.size(), 0.0);
  const auto weight = [&](int chunk) { return held.empty() ? 1.0 : held[chunk]; };
  for (const PipelineEvent& event : run.events) {
    const PipelineOp& op = event.op;
    double& holds = now[event.rank];
    if (op.work == Work::Forward || op.work == Work::Pair) holds += weight(op.chunk);
    RankRun& rank = run.ranks[event.rank];
    if (holds > rank.peak_held) rank.peak_held = holds, rank.peak_at = event.start;
    if (op.work == Work::Backward || op.work == Work::WeightGradient) holds -= weight(op.chunk);
    if (op.work == Work::Pair) holds -= weight(op.back_chunk);
    rank.busy += event.end - event.start;
  }
}

}  // namespace

PipelineRun simulate_pipeline(const Pipeline& pipeline, std::span<const StageTime> chunks, const Hops& hops,
                              std::span<const double> held) {
  SimulatedRun run(pipeline, chunks, hops);
  PipelineRun out;
  std::vector<std::size_t> at;  // where each rank's next event goes
  std::size_t events = 0;
  for (const std::vector<PipelineOp>& rank : run.order()) at.push_back(events), events += rank.size();
  out.events.resize(events);
  run.run([&](int rank, const PipelineOp& op, double start, double end) {
    out.events[at[rank]++] = {rank, op, Seconds(start), Seconds(end)};
  });
  out.makespan = Seconds(run.makespan());
  out.ranks.resize(pipeline.pp);
  count_held(out, held);
  return out;
}

Seconds simulate_makespan(const Pipeline& pipeline, std::span<const StageTime> chunks, const Hops& hops) {
  SimulatedRun run(pipeline, chunks, hops);
  run.run([](int, const PipelineOp&, double, double) {});
  return Seconds(run.makespan());
}

std::vector<StageTime> chunk_times(const Pipeline& pipeline, std::span<const StageTime> stages) {
  const int chunks = model_chunks(pipeline);
  const double parts = static_cast<double>(chunks / pipeline.pp);
  std::vector<StageTime> times;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const StageTime& stage = stages[pipeline_rank(pipeline, chunk, 0)];
    times.push_back(
        {stage.forward / parts, stage.backward_input / parts, stage.backward_weight / parts, stage.pair / parts});
  }
  return times;
}

}  // namespace plan
