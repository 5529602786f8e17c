// Chrome trace JSON of a step. Every operation is cut into what computes and what each axis' messages leave exposed,
// drawn one after another on their own tracks: in a real step the parts alternate layer by layer, with the same sums.
// Tested by tests/cli/trace_test.cpp.
#include "cli/report/plan/trace.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "cli/report/plan/json.hpp"
#include "formulas/names.hpp"
#include "planner/answer/layout_text.hpp"

namespace plan {
namespace {

enum Track { kCompute, kTp, kCp, kEp, kPp, kDp, kTracks };
constexpr std::array<const char*, kTracks> kTrackNames = {"compute",    "tp exposed", "cp exposed",
                                                          "ep exposed", "pp",         "dp exposed"};

/// A hand-over between ranks: from the end of one operation to the start of another.
struct Key {
  int chunk, micro_batch;
  bool forward;
  auto operator<=>(const Key&) const = default;
};

class Writer {
 public:
  Writer(const Plan& plan, const StepReplay& step, std::int64_t most) : plan_(plan), step_(step) { find_window(most); }

  std::string write() {
    out_ = fmt::format("{{\"displayTimeUnit\":\"ms\",\"otherData\":{},\n\"traceEvents\":[\n",
                       other_data().dump(-1, ' ', false, Json::error_handler_t::replace));
    for (int rank = 0; rank < step_.pipeline.pp; ++rank) name_tracks(rank);
    around_pipeline();
    note_senders();
    for (std::size_t begin = 0; begin < step_.ops.size();) {
      std::size_t end = begin;
      while (end < step_.ops.size() && step_.ops[end].rank == step_.ops[begin].rank) ++end;
      rank_ops(begin, end);
      begin = end;
    }
    out_.pop_back(), out_.pop_back();  // the last comma
    return out_ + "\n]}\n";
  }

 private:
  static double us(Seconds time) { return time.value * 1e6; }
  bool drawn(const ReplayedOp& op) const { return op.end <= cut_from_ || op.start >= cut_to_; }

  /// Where nothing is drawn: the middle, so that `most` operations are left.
  void find_window(std::int64_t most) {
    cut_from_ = cut_to_ = step_.total();
    const auto all = static_cast<std::int64_t>(step_.ops.size());
    if (all <= most) return;
    std::vector<Seconds> starts;
    starts.reserve(step_.ops.size());
    for (const ReplayedOp& op : step_.ops) starts.push_back(op.start);
    std::sort(starts.begin(), starts.end());
    cut_from_ = starts[static_cast<std::size_t>(most * 2 / 3)];
    for (const RankMemory& memory : step_.memory)  // the peaks stay visible
      if (memory.during != PeakDuring::OptimizerStep) cut_from_ = std::max(cut_from_, memory.peak_at);
    cut_to_ = std::max(cut_from_, starts[static_cast<std::size_t>(all - most / 3)]);
  }

  Json other_data() const {
    const Estimate& best = plan_.best;
    Json json = {{"schema", "plan-trace/1"},
                 {"tool", "plan " PLAN_VERSION},
                 {"model", plan_.problem.model.name},
                 {"layout", layout_flag(best.layout)},
                 {"step_time_s", best.step_time.value},
                 {"peak_memory_bytes", best.peak.value},
                 {"peak_stage", best.peak_stage},
                 {"pipeline_scale_ratio", step_.scale},
                 {"operations", step_.ops.size()}};
    const auto left = std::count_if(step_.ops.begin(), step_.ops.end(), [&](const auto& op) { return !drawn(op); });
    json["operations_left_out"] = left;
    json["estimate"] = estimate_json(best);
    return json;
  }

  void meta(int pid, int tid, const char* what, std::string_view value) {
    fmt::format_to(std::back_inserter(out_),
                   "{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"{}\",\"args\":{{\"name\":\"{}\"}}}},\n", pid, tid,
                   what, value);
  }

  void name_tracks(int rank) {
    meta(rank, 0, "process_name", fmt::format("stage {}", rank));
    fmt::format_to(std::back_inserter(out_),
                   "{{\"ph\":\"M\",\"pid\":{0},\"name\":\"process_sort_index\",\"args\":{{\"sort_index\":{0}}}}},\n",
                   rank);
    for (int track = 0; track < kTracks; ++track) meta(rank, track, "thread_name", kTrackNames[track]);
  }

  void slice(int rank, int track, std::string_view text, Seconds start, Seconds end) {
    if (!(end > start)) return;
    fmt::format_to(std::back_inserter(out_),
                   "{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"name\":\"{}\",\"ts\":{:.3f},\"dur\":{:.3f}}},\n", rank,
                   track, text, us(start), us(end) - us(start));
  }

  void counter(int rank, Seconds at, RealBytes bytes) {
    fmt::format_to(
        std::back_inserter(out_),
        "{{\"ph\":\"C\",\"pid\":{},\"name\":\"memory held\",\"ts\":{:.3f},\"args\":{{\"bytes\":{:.0f}}}}},\n", rank,
        us(at), bytes.value);
  }

  void arrow(char phase, std::int64_t id, int rank, int track, Seconds at) {
    fmt::format_to(
        std::back_inserter(out_),
        "{{\"ph\":\"{}\",\"pid\":{},\"tid\":{},\"name\":\"hand-over\",\"cat\":\"pp\",\"id\":{},\"ts\":{:.3f}{}}},\n",
        phase, rank, track, id, us(at), phase == 'f' ? ",\"bp\":\"e\"" : "");
  }

  /// What comes before and after the pipeline, and the peak of a rank that reaches it in the optimizer step.
  void around_pipeline() {
    const Seconds reduce = step_.gather + step_.pipeline_time, optimizer = reduce + step_.reduce;
    const Seconds straggler = optimizer + step_.optimizer;
    for (int rank = 0; rank < step_.pipeline.pp; ++rank) {
      const RankMemory& memory = step_.memory[static_cast<std::size_t>(rank)];
      slice(rank, kDp, "gather parameters", Seconds(0), step_.gather);
      slice(rank, kDp, "reduce gradients", reduce, optimizer);
      slice(rank, kCompute, "optimizer", optimizer, straggler);
      slice(rank, kCompute, "wait for the slowest rank", straggler, straggler + step_.straggler);
      fmt::format_to(std::back_inserter(out_),
                     "{{\"ph\":\"i\",\"s\":\"p\",\"pid\":{},\"tid\":0,\"name\":\"{}\",\"ts\":{:.3f}}},\n", rank,
                     rank == plan_.best.peak_stage ? fmt::format("peak of all stages: {}", plan_.best.peak_instant)
                                                   : std::string("peak"),
                     us(memory.peak_at));
      counter(rank, Seconds(0), memory.steady);
      if (memory.during == PeakDuring::OptimizerStep) counter(rank, optimizer, memory.peak());
      counter(rank, straggler, memory.steady);
    }
  }

  /// Results of operations that another rank takes.
  void note_senders() {
    for (std::size_t i = 0; i < step_.ops.size(); ++i) {
      const PipelineOp& op = step_.ops[i].op;
      const bool pair = op.work == PipelineWork::Pair;
      if (op.work == PipelineWork::Forward || pair) sender_[{op.chunk, op.micro_batch, true}] = i;
      if (op.work == PipelineWork::Backward || op.work == PipelineWork::InputGradient)
        sender_[{op.chunk, op.micro_batch, false}] = i;
      if (pair) sender_[{op.back_chunk, op.back_micro_batch, false}] = i;
    }
  }

  /// A track for hand-overs of a rank on which nothing else runs at that time.
  int lane(std::vector<Seconds>& busy, Seconds start, Seconds end, int rank) {
    for (std::size_t i = 0; i < busy.size(); ++i)
      if (busy[i] <= start) {
        busy[i] = end;
        return i == 0 ? kPp : kTracks + static_cast<int>(i);
      }
    busy.push_back(end);
    const int track = busy.size() == 1 ? kPp : kTracks + static_cast<int>(busy.size()) - 1;
    if (track != kPp) meta(rank, track, "thread_name", fmt::format("pp {}", busy.size()));
    return track;
  }

  /// The input of an operation from another rank: the transfer on the sender's track and an arrow.
  void hand_over(const ReplayedOp& to, int chunk, int micro_batch, bool forward) {
    const auto from = sender_.find({chunk, micro_batch, forward});
    if (from == sender_.end()) return;
    const ReplayedOp& sent = step_.ops[from->second];
    if (sent.rank == to.rank || !drawn(sent)) return;
    arrow('f', next_arrow_, to.rank, kCompute, to.start);
    arrow('s', next_arrow_++, sent.rank, kCompute, last_compute(sent));
  }

  /// A moment inside the compute slice of an operation, where an arrow can hold on.
  Seconds last_compute(const ReplayedOp& op) const {
    const OpParts parts = parts_of(step_, op);
    return op.start + step_.scale * (parts.recompute + parts.work.compute) * 0.999;
  }

  void inputs(const ReplayedOp& to) {
    const PipelineOp& op = to.op;
    const int last = model_chunks(step_.pipeline) - 1;
    const bool pair = op.work == PipelineWork::Pair;
    if ((op.work == PipelineWork::Forward || pair) && op.chunk > 0) hand_over(to, op.chunk - 1, op.micro_batch, true);
    if (op.work == PipelineWork::Forward || op.work == PipelineWork::WeightGradient) return;
    const int chunk = pair ? op.back_chunk : op.chunk;
    if (chunk < last) hand_over(to, chunk + 1, pair ? op.back_micro_batch : op.micro_batch, false);
  }

  static std::string op_name(const PipelineOp& op, bool chunks) {
    const auto part = [&](const char* word, int micro_batch, int chunk) {
      return chunks ? fmt::format("{} {} chunk {}", word, micro_batch, chunk) : fmt::format("{} {}", word, micro_batch);
    };
    switch (op.work) {
      case PipelineWork::Forward: return part("forward", op.micro_batch, op.chunk);
      case PipelineWork::Backward: return part("backward", op.micro_batch, op.chunk);
      case PipelineWork::InputGradient: return part("input gradient", op.micro_batch, op.chunk);
      case PipelineWork::WeightGradient: return part("weight gradient", op.micro_batch, op.chunk);
      case PipelineWork::Pair: break;
    }
    return part("forward", op.micro_batch, op.chunk) + " with " + part("backward", op.back_micro_batch, op.back_chunk);
  }

  void one_op(const ReplayedOp& op) {
    const OpParts parts = parts_of(step_, op);
    const std::string text = op_name(op.op, model_chunks(step_.pipeline) > step_.pipeline.pp);
    // A pair of unequal chunks takes what the schedule gives it; its parts fill that time.
    const Seconds sum = parts.recompute + parts.work.total();
    const double stretch = sum > Seconds() ? (op.end - op.start) / sum : 0;
    Seconds at = op.start;
    const auto part = [&](int track, Seconds time, const std::string& name) {
      const Seconds end = at + time * stretch;
      slice(op.rank, track, name, at, end);
      at = end;
    };
    if (parts.recompute > Seconds()) part(kCompute, parts.recompute, "recompute " + text);
    part(kCompute, parts.work.compute, text);
    part(kTp, parts.work.tp, text);
    part(kCp, parts.work.cp, text);
    part(kEp, parts.work.ep, text);
    inputs(op);
  }

  RealBytes bytes_of(const RankMemory& memory, int rank, double held) const {
    const double most = step_.most_held[static_cast<std::size_t>(rank)];
    return memory.steady + (most > 0 ? memory.activations * held / most : RealBytes());
  }

  void memory_of(const ReplayedOp& op) {
    const RankMemory& memory = step_.memory[static_cast<std::size_t>(op.rank)];
    const bool forward = op.op.work == PipelineWork::Forward;
    const bool alive = memory.during == PeakDuring::Forward    ? forward || op.op.work == PipelineWork::Pair
                       : memory.during == PeakDuring::Backward ? !forward
                                                               : false;
    counter(op.rank, op.start, bytes_of(memory, op.rank, op.held) + (alive ? memory.alive : RealBytes()));
    counter(op.rank, op.end, bytes_of(memory, op.rank, op.held_after));
  }

  /// All operations of one rank, with one slice for what is left out.
  void rank_ops(std::size_t begin, std::size_t end) {
    Seconds before = step_.gather, after = step_.gather + step_.pipeline_time;
    std::int64_t left_out = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const ReplayedOp& op = step_.ops[i];
      if (!drawn(op)) {
        ++left_out;
        continue;
      }
      (left_out == 0 ? before : after) = left_out == 0 ? op.end : std::min(after, op.start);
      one_op(op);
      memory_of(op);
    }
    if (left_out > 0)
      slice(step_.ops[begin].rank, kCompute, fmt::format("{} operations not drawn", left_out), before, after);
    sends(begin, end);
  }

  /// Transfers to other ranks, each as long as a hand-over takes.
  void sends(std::size_t begin, std::size_t end) {
    if (!(step_.hops.slowest().value > 0)) return;
    std::vector<Seconds> busy;
    const int last = model_chunks(step_.pipeline) - 1, rank = step_.ops[begin].rank;
    const auto send = [&](const ReplayedOp& op, int to_chunk, int micro_batch, const char* what) {
      const int to = pipeline_rank(step_.pipeline, to_chunk, micro_batch);
      if (to == rank) return;
      const Seconds arrival = op.end + step_.hops.between(rank, to) * step_.scale;
      slice(rank, lane(busy, op.end, arrival, rank), fmt::format("send {} {}", what, micro_batch), op.end, arrival);
    };
    for (std::size_t i = begin; i < end; ++i) {
      const ReplayedOp& op = step_.ops[i];
      if (!drawn(op)) continue;
      const bool pair = op.op.work == PipelineWork::Pair;
      if ((op.op.work == PipelineWork::Forward || pair) && op.op.chunk < last)
        send(op, op.op.chunk + 1, op.op.micro_batch, "activation");
      if (op.op.work == PipelineWork::Forward || op.op.work == PipelineWork::WeightGradient) continue;
      const int chunk = pair ? op.op.back_chunk : op.op.chunk;
      if (chunk > 0) send(op, chunk - 1, pair ? op.op.back_micro_batch : op.op.micro_batch, "gradient");
    }
  }

  const Plan& plan_;
  const StepReplay& step_;
  Seconds cut_from_{}, cut_to_{};
  std::map<Key, std::size_t> sender_;
  std::int64_t next_arrow_ = 1;
  std::string out_;
};

}  // namespace

std::string trace_report(const Plan& plan, const StepReplay& step, std::int64_t most) {
  return Writer(plan, step, most).write();
}

}  // namespace plan
