// The order of operations on each pipeline rank.
//
// 1F1B and interleaved as Megatron-LM runs them, ZB-H1 and ZB-H2 from arXiv:2401.10241, ZB-V in the closed
// form of torchtitan, V-half and V-min from the stable patterns of arXiv:2405.15362, DualPipe and DualPipeV
// in DeepSeek's eight steps. Tested by tests/planner/simulate_test.cpp.

#include "planner/estimate/pipeline_order.hpp"

#include <algorithm>
#include <array>

namespace plan {
namespace {

using Ops = std::vector<PipelineOp>;
using Work = PipelineWork;

/// The operations of one chunk of one rank: each call does the next micro-batch.
class Chunk {
 public:
  Chunk(Ops& ops, int chunk, int first = 0, int stride = 1)
      : ops_(&ops), chunk_(chunk), first_(first), stride_(stride) {}

  void forward() { put(Work::Forward, forwards_++); }
  void backward() { put(Work::Backward, backwards_++); }
  void input_gradient() { put(Work::InputGradient, backwards_++); }
  void weight_gradient() { put(Work::WeightGradient, weights_++); }
  void pair_with(Chunk& back) {
    PipelineOp op{Work::Pair, chunk_, at(forwards_++), back.chunk_, back.at(back.backwards_++)};
    ops_->push_back(op);
  }
  int forwards() const { return forwards_; }
  int weights() const { return weights_; }

 private:
  int at(int count) const { return first_ + stride_ * count; }
  void put(Work work, int count) { ops_->push_back({work, chunk_, at(count)}); }

  Ops* ops_;
  int chunk_, first_, stride_;
  int forwards_ = 0, backwards_ = 0, weights_ = 0;
};

/// GPipe (warm-up of all micro-batches) and 1F1B (one for each rank behind).
Ops one_chunk(const Pipeline& pipe, int rank) {
  const int m = static_cast<int>(pipe.micro_batches);
  const int warm_up = schedule_row(pipe.schedule).passes == Passes::Once ? m : std::min(m, pipe.pp - 1 - rank);
  Ops ops;
  Chunk chunk(ops, rank);
  for (int i = 0; i < warm_up; ++i) chunk.forward();
  for (int i = warm_up; i < m; ++i) chunk.forward(), chunk.backward();
  for (int i = m - warm_up; i < m; ++i) chunk.backward();
  return ops;
}

/// Interleaved and breadth-first: a group of micro-batches visits all chunks before the next group.
Ops many_chunks(const Pipeline& pipe, int rank) {
  const int m = static_cast<int>(pipe.micro_batches), vp = pipe.vp;
  const int group = schedule_row(pipe.schedule).passes == Passes::Once ? m : pipe.group > 0 ? pipe.group : pipe.pp;
  const int all = m * vp;
  const int warm_up = std::min(all, 2 * (pipe.pp - 1 - rank) + (vp - 1) * group);
  const auto nth = [&](int k, Work work) {
    const int first = k / (group * vp) * group, size = std::min(group, m - first);
    const int within = k - first * vp, step = within / size;
    const int chunk = work == Work::Forward ? step : vp - 1 - step;
    return PipelineOp{work, chunk * pipe.pp + rank, first + within % size};
  };
  Ops ops;
  for (int k = 0; k < warm_up; ++k) ops.push_back(nth(k, Work::Forward));
  for (int k = 0; k < all; ++k) {
    if (k + warm_up < all) ops.push_back(nth(k + warm_up, Work::Forward));
    ops.push_back(nth(k, Work::Backward));
  }
  return ops;
}

/// ZB-H1 and ZB-H2: weight gradients lag so far that every rank holds as much as the first.
template <int times>
Ops zero_bubble_h(const Pipeline& pipe, int rank) {
  const int m = static_cast<int>(pipe.micro_batches);
  Ops ops;
  Chunk chunk(ops, rank);
  for (int i = std::min(m, times * (pipe.pp - 1 - rank)); i > 0; --i) chunk.forward();
  for (int i = 0; i < m; ++i) {
    if (chunk.forwards() < m) chunk.forward();
    chunk.input_gradient();
    if (i >= times * rank) chunk.weight_gradient();
  }
  while (chunk.weights() < m) chunk.weight_gradient();
  return ops;
}

/// ZB-V: `down` is the rank's chunk on the way to the last rank, `up` the one on the way back. It is made
/// for 2 pp - 1 micro-batches or more; with fewer, those beyond the last are left out.
Ops zero_bubble_v(const Pipeline& pipe, int rank) {
  const int pp = pipe.pp, m = static_cast<int>(pipe.micro_batches), full = std::max(m, 2 * pp - 1);
  const int ahead = pp - rank;
  Ops ops;
  Chunk down(ops, rank), up(ops, 2 * pp - 1 - rank);
  for (int i = 0; i < 2 * ahead - 1; ++i) down.forward();
  for (int i = 0; i < rank; ++i) up.forward(), down.forward();
  for (int i = 0; i < ahead; ++i) up.forward(), up.input_gradient(), up.weight_gradient();
  while (up.forwards() < full) {
    if (down.forwards() < full) down.forward();
    down.input_gradient(), down.weight_gradient();
    up.forward(), up.input_gradient(), up.weight_gradient();
  }
  for (int i = 0; i < rank; ++i) down.input_gradient(), up.input_gradient();
  for (int i = 0; i < ahead; ++i) down.input_gradient(), down.weight_gradient();
  while (up.weights() < full) up.weight_gradient();
  while (down.weights() < full) down.weight_gradient();
  std::erase_if(ops, [&](const PipelineOp& op) { return op.micro_batch >= m; });
  return ops;
}

/// V-half and V-min: slots of forward down, forward up, backward up, backward down of micro-batch 0. Each
/// further micro-batch is six slots later, three operations of each of the two chunks.
constexpr int kPatternSlots = 6;

using Pattern = std::array<int, 4> (*)(int pp, int rank);

std::array<int, 4> v_half(int pp, int rank) {
  const int gap = pp % 2 == 0 ? 3 : 0;
  return {2 * rank, 3 * pp - rank - 2, 3 * pp + gap + 2 * rank - 1, 6 * pp + gap - rank - 2};
}

std::array<int, 4> v_min(int pp, int rank) {
  const int gap = pp % 3 == 0 ? 2 : 0;
  return {rank, 2 * pp - rank - 1, 2 * pp + gap + rank, 4 * pp + gap - rank - 1};
}

/// Runs all ranks of V-half or V-min slot by slot, every operation taking one slot, to find where the
/// weight gradients go: into slots where a rank waits, and before a forward that would hold too much.
class PatternRun {
 public:
  PatternRun(const Pipeline& pipe, Pattern pattern)
      : pipe_(pipe),
        m_(static_cast<int>(pipe.micro_batches)),
        limit_(static_cast<int>(2 * in_flight({pipe.schedule, pipe.pp, 2, 2 * pipe.pp}, 0))),
        forward_done_(static_cast<std::size_t>(2 * pipe.pp * m_), kNever),
        backward_done_(forward_done_) {
    for (int rank = 0; rank < pipe.pp; ++rank) ranks_.push_back(start(pattern(pipe.pp, rank), rank));
  }

  std::vector<Ops> run() {
    std::size_t left = static_cast<std::size_t>(pipe_.pp) * m_ * kPatternSlots;
    for (int slot = 0; left > 0; ++slot)
      for (Rank& rank : ranks_) left -= step(rank, slot) ? 1 : 0;
    std::vector<Ops> orders;
    for (Rank& rank : ranks_) orders.push_back(std::move(rank.done));
    return orders;
  }

 private:
  static constexpr int kNever = 1 << 30;
  struct Rank {
    Ops queue, done;  ///< forwards and input gradients to do; everything done
    std::size_t next = 0;
    std::vector<PipelineOp> weights;
    std::size_t next_weight = 0;
    int held = 0;
  };

  Rank start(const std::array<int, 4>& slots, int rank) const {
    const int up = 2 * pipe_.pp - 1 - rank;
    std::vector<std::pair<int, PipelineOp>> timed;
    for (int i = 0; i < m_; ++i) {
      const int later = kPatternSlots * i;
      timed.push_back({slots[0] + later, {Work::Forward, rank, i}});
      timed.push_back({slots[1] + later, {Work::Forward, up, i}});
      timed.push_back({slots[2] + later, {Work::InputGradient, up, i}});
      timed.push_back({slots[3] + later, {Work::InputGradient, rank, i}});
    }
    std::stable_sort(timed.begin(), timed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    Rank out;
    for (const auto& [slot, op] : timed) out.queue.push_back(op);
    return out;
  }

  std::size_t index(int chunk, int micro_batch) const { return static_cast<std::size_t>(chunk) * m_ + micro_batch; }

  bool may_start(const Rank& rank, const PipelineOp& op, int slot) const {
    if (op.work == Work::Forward)
      return rank.held < limit_ && (op.chunk == 0 || forward_done_[index(op.chunk - 1, op.micro_batch)] <= slot);
    if (forward_done_[index(op.chunk, op.micro_batch)] > slot) return false;
    return op.chunk + 1 == 2 * pipe_.pp || backward_done_[index(op.chunk + 1, op.micro_batch)] <= slot;
  }

  bool step(Rank& rank, int slot) {
    if (rank.next < rank.queue.size() && may_start(rank, rank.queue[rank.next], slot)) {
      const PipelineOp op = rank.queue[rank.next++];
      const bool forward = op.work == Work::Forward;
      (forward ? forward_done_ : backward_done_)[index(op.chunk, op.micro_batch)] = slot + 1;
      if (forward) ++rank.held;
      if (!forward) rank.weights.push_back({Work::WeightGradient, op.chunk, op.micro_batch});
      rank.done.push_back(op);
      return true;
    }
    if (rank.next_weight == rank.weights.size()) return false;
    rank.done.push_back(rank.weights[rank.next_weight++]);
    --rank.held;
    return true;
  }

  Pipeline pipe_;
  int m_, limit_;
  std::vector<int> forward_done_, backward_done_;  ///< slot from which the result is there
  std::vector<Rank> ranks_;
};

/// DualPipe and DualPipeV. A DualPipeV rank's `near` and `far` are its chunks r and 2 pp - 1 - r. A DualPipe
/// rank's are its two directions; it is in the first half of `near`.
Ops dual(const Pipeline& pipe, int rank) {
  const bool v = v_shaped(pipe.schedule);
  const int pp = pipe.pp, half = v ? pp : pp / 2, m = static_cast<int>(pipe.micro_batches);
  const int side = !v && rank >= half ? 1 : 0, place = v || side == 0 ? rank : pp - 1 - rank;
  const int each = v ? m : m / 2, outside = half - 1 - place;
  Ops ops;
  Chunk near = v ? Chunk(ops, rank) : Chunk(ops, place, side, 2);
  Chunk far = v ? Chunk(ops, 2 * pp - 1 - rank) : Chunk(ops, pp - 1 - place, 1 - side, 2);
  Ops weights;  // input gradients whose weight gradient is still to do
  const auto split = [&](Chunk& chunk) {
    chunk.input_gradient();
    weights.push_back({Work::WeightGradient, ops.back().chunk, ops.back().micro_batch});
  };
  std::size_t next_weight = 0;
  const auto weight = [&] { ops.push_back(weights[next_weight++]); };

  for (int i = 0; i < 2 * outside; ++i) near.forward();
  for (int i = 0; i <= place; ++i) near.forward(), far.forward();
  for (int i = 0; i < outside; ++i) split(far), weight(), far.forward();
  for (int i = 0; i < each - 2 * half + place + 1; ++i) {
    if (i == 0 && outside == 0)
      near.forward(), far.backward();  // the middle ranks would wait for each other
    else
      near.pair_with(far);
    far.pair_with(near);
  }
  for (int i = 0; i < outside; ++i) far.backward(), far.pair_with(near);
  // The second half of the remaining 2 (place + 1) backwards keeps its weight gradients for the end.
  for (int k = 0; k < 2 * (place + 1); ++k) {
    Chunk& chunk = k % 2 == 0 ? far : near;
    if (k > place)
      split(chunk);
    else
      chunk.backward();
  }
  for (int i = 0; i < outside; ++i) weight(), split(near);
  for (int i = 0; i <= place; ++i) weight();
  return ops;
}

/// The order of each rank, or where the orders of ranks depend on each other, the pattern that all follow.
struct Order {
  Ops (*of_rank)(const Pipeline&, int rank) = nullptr;
  Pattern pattern = nullptr;
};
/// One row a schedule, in the order of Schedule.
constexpr Order kOrders[] = {
    {.of_rank = one_chunk},         // GPipe
    {.of_rank = one_chunk},         // 1F1B
    {.of_rank = many_chunks},       // interleaved
    {.of_rank = many_chunks},       // breadth-first
    {.of_rank = zero_bubble_h<1>},  // ZB-H1
    {.of_rank = zero_bubble_h<2>},  // ZB-H2
    {.of_rank = zero_bubble_v},     // ZB-V
    {.pattern = v_half},            // V-half
    {.pattern = v_min},             // V-min
    {.of_rank = dual},              // DualPipe
    {.of_rank = dual},              // DualPipeV
};
static_assert(std::size(kOrders) == kSchedules);

}  // namespace

std::vector<std::vector<PipelineOp>> pipeline_order(const Pipeline& pipeline) {
  const Order& order = kOrders[static_cast<std::size_t>(pipeline.schedule)];
  if (order.pattern != nullptr) return PatternRun(pipeline, order.pattern).run();
  std::vector<Ops> orders;
  for (int rank = 0; rank < pipeline.pp; ++rank) orders.push_back(order.of_rank(pipeline, rank));
  return orders;
}

}  // namespace plan
