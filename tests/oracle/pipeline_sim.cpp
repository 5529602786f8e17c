#include "tests/oracle/pipeline_sim.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace plan::oracle {
namespace {

using Order = std::vector<Op>;

Op op(char kind, int micro_batch, int stage) { return {kind, micro_batch, stage, -1, -1, 0, 0}; }

Order gpipe(const Shape& s, int rank) {
  Order out;
  for (int i = 0; i < s.micro_batches; ++i) out.push_back(op('F', i, rank));
  for (int i = 0; i < s.micro_batches; ++i) out.push_back(op('B', i, rank));
  return out;
}

/// Warm up with as many forwards as there are ranks behind, then one forward, one backward.
Order one_f_one_b(const Shape& s, int rank) {
  Order out;
  int f = 0, b = 0;
  while (f < std::min(s.micro_batches, s.pp - 1 - rank)) out.push_back(op('F', f++, rank));
  while (b < s.micro_batches) {
    if (f < s.micro_batches) out.push_back(op('F', f++, rank));
    out.push_back(op('B', b++, rank));
  }
  return out;
}

/// Groups of G micro-batches go through all chunks before the next group starts.
Order interleaved(const Shape& s, int rank, int group) {
  Order forwards, backwards;
  for (int first = 0; first < s.micro_batches; first += group)
    for (int chunk = 0; chunk < s.vp; ++chunk)
      for (int i = first; i < std::min(first + group, s.micro_batches); ++i) {
        forwards.push_back(op('F', i, chunk * s.pp + rank));
        backwards.push_back(op('B', i, (s.vp - 1 - chunk) * s.pp + rank));
      }
  Order out;
  std::size_t f = 0, b = 0;
  const std::size_t warm_up = 2 * (s.pp - 1 - rank) + (s.vp - 1) * group;
  while (f < std::min(forwards.size(), warm_up)) out.push_back(forwards[f++]);
  while (b < backwards.size()) {
    if (f < forwards.size()) out.push_back(forwards[f++]);
    out.push_back(backwards[b++]);
  }
  return out;
}

/// ZB-H1 (times = 1) and ZB-H2 (times = 2): 1F1B with `times` the warm-up, weight gradients held back so
/// long that every rank holds as much as rank 0.
Order zero_bubble(const Shape& s, int rank, int times) {
  Order out;
  int f = 0, b = 0, w = 0;
  while (f < std::min(s.micro_batches, times * (s.pp - 1 - rank))) out.push_back(op('F', f++, rank));
  while (b < s.micro_batches) {
    if (f < s.micro_batches) out.push_back(op('F', f++, rank));
    out.push_back(op('I', b++, rank));
    if (b - w > times * rank) out.push_back(op('W', w++, rank));
  }
  while (w < s.micro_batches) out.push_back(op('W', w++, rank));
  return out;
}

/// ZB-V with hand-made phases. Runs at least 2 pp - 1 micro-batches; missing ones are left out.
Order zb_v(const Shape& s, int rank) {
  const int p = s.pp, down = rank, up = 2 * p - 1 - rank, m = std::max(s.micro_batches, 2 * p - 1);
  Order out;
  int f0 = 0, f1 = 0, b0 = 0, b1 = 0, w0 = 0, w1 = 0;
  for (int i = 0; i < 2 * (p - rank) - 1; ++i) out.push_back(op('F', f0++, down));
  for (int i = 0; i < rank; ++i) {
    out.push_back(op('F', f1++, up));
    out.push_back(op('F', f0++, down));
  }
  for (int i = 0; i < p - rank; ++i) {
    out.push_back(op('F', f1++, up));
    out.push_back(op('I', b1++, up));
    out.push_back(op('W', w1++, up));
  }
  while (f0 < m || f1 < f0) {
    if (f0 < m) out.push_back(op('F', f0++, down));
    out.push_back(op('I', b0++, down));
    out.push_back(op('W', w0++, down));
    out.push_back(op('F', f1++, up));
    out.push_back(op('I', b1++, up));
    out.push_back(op('W', w1++, up));
  }
  for (int i = 0; i < rank; ++i) {
    out.push_back(op('I', b0++, down));
    out.push_back(op('I', b1++, up));
  }
  for (int i = 0; i < p - rank; ++i) {
    out.push_back(op('I', b0++, down));
    out.push_back(op('W', w0++, down));
  }
  while (w1 < b1) out.push_back(op('W', w1++, up));
  while (w0 < b0) out.push_back(op('W', w0++, down));
  std::erase_if(out, [&](const Op& o) { return o.micro_batch >= s.micro_batches; });
  return out;
}

/// When the stable patterns of V-half and V-min run (forward down, forward up, backward up, backward down)
/// for the first micro-batch; each further one is six slots later.
std::vector<int> v_pattern(Schedule schedule, int p, int rank) {
  if (schedule == Schedule::VHalf) {
    const int gap = p % 2 == 0 ? 3 : 0;
    return {2 * rank, 3 * p - rank - 2, 3 * p + gap + 2 * rank - 1, 6 * p + gap - rank - 2};
  }
  const int gap = p % 3 == 0 ? 2 : 0;
  return {rank, 2 * p - rank - 1, 2 * p + gap + rank, 4 * p + gap - rank - 1};
}

/// Chunks that a rank may hold from forward to weight gradient: about p for V-half, 2p/3 for V-min.
int v_limit(Schedule schedule, int p) {
  if (schedule == Schedule::VHalf) return 2 * (p / 2) + 2;
  return 2 * (p / 3) + (p % 3 == 2 ? 4 : 2);
}

/// V-half and V-min: forwards and input gradients in the order of the pattern, one slot each, as soon as
/// their inputs are there and the limit on held chunks lets a forward in; a rank that would idle does a
/// weight gradient instead.
std::vector<Order> v_schedule(const Shape& s) {
  const int p = s.pp, m = s.micro_batches;
  std::vector<std::vector<std::pair<int, Op>>> queue(p);
  for (int rank = 0; rank < p; ++rank) {
    const std::vector<int> at = v_pattern(s.schedule, p, rank);
    const int stages[4] = {rank, 2 * p - 1 - rank, 2 * p - 1 - rank, rank};
    for (int i = 0; i < m; ++i)
      for (int k = 0; k < 4; ++k) queue[rank].push_back({at[k] + 6 * i, op(k < 2 ? 'F' : 'I', i, stages[k])});
    std::stable_sort(queue[rank].begin(), queue[rank].end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
  }
  std::vector<Order> out(p), weights(p);
  std::map<std::tuple<char, int, int>, int> done;  // slot after which the result is there
  std::vector<std::size_t> next(p, 0);
  std::vector<int> held(p, 0);
  const auto ready = [&](const Op& o, int slot) {
    const auto has = [&](char kind, int stage) {
      const auto it = done.find({kind, o.micro_batch, stage});
      return it != done.end() && it->second <= slot;
    };
    if (o.kind == 'F') return o.stage == 0 || has('F', o.stage - 1);
    return has('F', o.stage) && (o.stage == 2 * p - 1 || has('I', o.stage + 1));
  };
  for (int slot = 0, left = 6 * m * p; left > 0; ++slot) {
    for (int rank = 0; rank < p; ++rank) {
      const bool left_to_do = next[rank] < queue[rank].size();
      const bool full =
          left_to_do && queue[rank][next[rank]].second.kind == 'F' && held[rank] >= v_limit(s.schedule, p);
      if (left_to_do && !full && ready(queue[rank][next[rank]].second, slot)) {
        const Op o = queue[rank][next[rank]++].second;
        if (o.kind == 'F') ++held[rank];
        done[{o.kind, o.micro_batch, o.stage}] = slot + 1;
        if (o.kind == 'I') weights[rank].push_back(op('W', o.micro_batch, o.stage));
        out[rank].push_back(o), --left;
      } else if (!weights[rank].empty()) {
        out[rank].push_back(weights[rank].front()), --left;
        weights[rank].erase(weights[rank].begin());
        --held[rank];
      }
    }
  }
  return out;
}

/// DualPipe and DualPipeV in the eight steps of DeepSeek's description. Phase 0 of a DualPipe rank is the
/// direction in which it is in the first half; a DualPipeV rank's phases are its two chunks.
class Dual {
 public:
  Dual(const Shape& shape, int rank) : s_(shape), rank_(rank), v_(shape.schedule == Schedule::DualPipeV) {}

  Order run() {
    const int half_ranks = v_ ? s_.pp : s_.pp / 2;
    const int r = v_ ? rank_ : std::min(rank_, s_.pp - 1 - rank_);
    const int each = v_ ? s_.micro_batches : s_.micro_batches / 2;
    const int outside = half_ranks - r - 1;
    for (int i = 0; i < 2 * outside; ++i) forward(0);
    for (int i = 0; i < r + 1; ++i) forward(0), forward(1);
    for (int i = 0; i < outside; ++i) backward(1, true), weight(), forward(1);
    for (int i = 0; i < each - 2 * half_ranks + r + 1; ++i) {
      if (i == 0 && outside == 0)
        forward(0), backward(1, false);
      else
        pair(0, 1);
      pair(1, 0);
    }
    for (int i = 0; i < outside; ++i) backward(1, false), pair(1, 0);
    bool split = false;
    for (int i = 0; i < r + 1; ++i) {
      if (i == (r + 1) / 2 && r % 2 == 1) split = true;
      backward(1, split);
      if (i == (r + 1) / 2 && r % 2 == 0) split = true;
      backward(0, split);
    }
    for (int i = 0; i < outside; ++i) weight(), backward(0, true);
    for (int i = 0; i < r + 1; ++i) weight();
    return out_;
  }

 private:
  int direction(int phase) const { return v_ ? 0 : phase ^ (rank_ >= s_.pp / 2 ? 1 : 0); }
  int stage(int phase) const {
    if (v_) return phase == 0 ? rank_ : 2 * s_.pp - 1 - rank_;
    return direction(phase) == 0 ? rank_ : s_.pp - 1 - rank_;
  }
  int micro_batch(int phase, int count) const { return v_ ? count : 2 * count + direction(phase); }
  Op make(char kind, int phase, int count) const {
    Op o = op(kind, micro_batch(phase, count), stage(phase));
    o.direction = direction(phase);
    return o;
  }
  void forward(int phase) { out_.push_back(make('F', phase, f_[phase]++)); }
  void backward(int phase, bool split) {
    out_.push_back(make(split ? 'I' : 'B', phase, b_[phase]++));
    if (split) weights_.push_back(out_.back());
  }
  void weight() {
    Op o = weights_.front();
    weights_.erase(weights_.begin());
    o.kind = 'W';
    out_.push_back(o);
  }
  void pair(int forward_phase, int backward_phase) {
    Op o = make('P', forward_phase, f_[forward_phase]++);
    const Op back = make('B', backward_phase, b_[backward_phase]++);
    o.back_micro_batch = back.micro_batch;
    o.back_stage = back.stage;
    o.back_direction = back.direction;
    out_.push_back(o);
  }

  Shape s_;
  int rank_;
  bool v_;
  int f_[2] = {0, 0}, b_[2] = {0, 0};
  Order out_, weights_;
};

Order order_of(const Shape& s, int rank) {
  switch (s.schedule) {
    case Schedule::GPipe: return gpipe(s, rank);
    case Schedule::OneFOneB: return one_f_one_b(s, rank);
    case Schedule::Interleaved: return interleaved(s, rank, s.group > 0 ? s.group : s.pp);
    case Schedule::BreadthFirst: return interleaved(s, rank, s.micro_batches);
    case Schedule::ZbH1: return zero_bubble(s, rank, 1);
    case Schedule::ZbH2: return zero_bubble(s, rank, 2);
    case Schedule::ZbV: return zb_v(s, rank);
    case Schedule::DualPipe:
    case Schedule::DualPipeV: return Dual(s, rank).run();
    case Schedule::VHalf:
    case Schedule::VMin: break;
  }
  return {};
}

/// When something was finished, and where.
struct Finish {
  double time;
  int rank;
};
using Board = std::map<std::tuple<char, int, int, int>, Finish>;  // kind, micro-batch, stage, direction

/// Earliest time at which `o` may start on `rank`; negative if an input is not there yet.
double earliest(const Op& o, int rank, int stages, const Board& board, const Link& link) {
  double time = 0;
  const auto need = [&](char kind, int micro_batch, int stage, int direction) {
    const auto it = board.find({kind, micro_batch, stage, direction});
    if (it == board.end()) return time = -1, void();
    if (time >= 0) time = std::max(time, it->second.time + (it->second.rank == rank ? 0 : link(it->second.rank, rank)));
  };
  const auto back_needs = [&](int micro_batch, int stage, int direction) {
    need('F', micro_batch, stage, direction);
    if (stage + 1 < stages) need('I', micro_batch, stage + 1, direction);
  };
  if ((o.kind == 'F' || o.kind == 'P') && o.stage > 0) need('F', o.micro_batch, o.stage - 1, o.direction);
  if (o.kind == 'P') back_needs(o.back_micro_batch, o.back_stage, o.back_direction);
  if (o.kind == 'I' || o.kind == 'B') back_needs(o.micro_batch, o.stage, o.direction);
  if (o.kind == 'W') need('I', o.micro_batch, o.stage, o.direction);
  return time;
}

double duration(const Op& o, const std::vector<Cost>& costs) {
  const Cost& c = costs[o.stage];
  switch (o.kind) {
    case 'F': return c.forward;
    case 'I': return c.input;
    case 'W': return c.weight;
    case 'B': return c.input + c.weight;
    default: break;
  }
  const Cost& back = costs[o.back_stage];
  return c.forward + back.input + back.weight - (c.saved + back.saved) / 2;
}

void post(const Op& o, int rank, double time, Board& board) {
  const Finish finish{time, rank};
  if (o.kind == 'P') board[{'I', o.back_micro_batch, o.back_stage, o.back_direction}] = finish;
  const char kind = o.kind == 'P' ? 'F' : o.kind == 'B' ? 'I' : o.kind;
  board[{kind, o.micro_batch, o.stage, o.direction}] = finish;
}

void count_held(const Order& order, int& to_input, int& to_weight) {
  int input = 0, weight = 0;
  to_input = to_weight = 0;
  for (const Op& o : order) {
    if (o.kind == 'F' || o.kind == 'P') ++input, ++weight;
    to_input = std::max(to_input, input);
    to_weight = std::max(to_weight, weight);
    if (o.kind == 'B' || o.kind == 'P') --input, --weight;
    if (o.kind == 'I') --input;
    if (o.kind == 'W') --weight;
  }
}

}  // namespace

std::vector<std::vector<Op>> orders(const Shape& s) {
  std::vector<Order> out;
  if (s.schedule == Schedule::VHalf || s.schedule == Schedule::VMin)
    out = v_schedule(s);
  else
    for (int rank = 0; rank < s.pp; ++rank) out.push_back(order_of(s, rank));
  for (Order& order : out) {
    const Order one = order;
    for (int step = 1; step < s.steps; ++step)
      for (Op o : one) {
        o.micro_batch += step * s.micro_batches;
        if (o.back_micro_batch >= 0) o.back_micro_batch += step * s.micro_batches;
        order.push_back(o);
      }
  }
  return out;
}

Run replay(const Shape& s, const std::vector<Cost>& costs, double hop) {
  return replay(s, costs, [hop](int, int) { return hop; });
}

Run replay(const Shape& s, const std::vector<Cost>& costs, const Link& link) {
  const std::vector<Order> todo = orders(s);
  const int stages = static_cast<int>(costs.size());
  Run run;
  run.held_to_input.resize(s.pp);
  run.held_to_weight.resize(s.pp);
  std::vector<double> now(s.pp, 0.0), busy(s.pp, 0.0);
  std::vector<std::size_t> at(s.pp, 0);
  Board board;
  for (bool moved = true; moved;) {
    moved = false;
    for (int rank = 0; rank < s.pp; ++rank)
      while (at[rank] < todo[rank].size()) {
        const Op& o = todo[rank][at[rank]];
        const double start = earliest(o, rank, stages, board, link);
        if (start < 0) break;
        const double took = duration(o, costs);
        now[rank] = std::max(now[rank], start) + took;
        busy[rank] += took;
        post(o, rank, now[rank], board);
        ++at[rank];
        moved = true;
      }
  }
  for (int rank = 0; rank < s.pp; ++rank) {
    run.deadlock = run.deadlock || at[rank] < todo[rank].size();
    run.makespan = std::max(run.makespan, now[rank]);
    count_held(todo[rank], run.held_to_input[rank], run.held_to_weight[rank]);
  }
  for (int rank = 0; rank < s.pp; ++rank) run.idle.push_back(run.makespan - busy[rank]);
  return run;
}

}  // namespace plan::oracle
