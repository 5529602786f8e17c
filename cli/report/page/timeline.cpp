// The pipeline step as a picture, for the terminal and for pages. Tested by tests/cli/trace_test.cpp.
#include "cli/report/page/timeline.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "cli/report/page/page.hpp"
#include "cli/terminal/format.hpp"
#include "formulas/names.hpp"

namespace plan {
namespace {

constexpr int kTextRanks = 16, kPageRanks = 12, kPageCells = 1600;

Doing doing_of(PipelineWork work) {
  switch (work) {
    case PipelineWork::Forward: return Doing::Forward;
    case PipelineWork::Backward:
    case PipelineWork::InputGradient: return Doing::Backward;
    case PipelineWork::WeightGradient: return Doing::WeightGradient;
    case PipelineWork::Pair: break;
  }
  return Doing::Pair;
}

/// What all ranks do outside the pipeline.
Doing around(const StepReplay& step, Seconds at) {
  const Seconds end = step.gather + step.pipeline_time;
  if (at < step.gather) return Doing::Gather;
  if (at < end) return Doing::Idle;
  if (at < end + step.reduce) return Doing::Reduce;
  return at < end + step.reduce + step.optimizer ? Doing::Optimizer : Doing::Straggler;
}

/// Columns of a terminal line: one per forward where all fit, else as many as there are.
struct Columns {
  int count = 0;
  bool numbered = false;
};
Columns columns_of(const StepReplay& step, int room) {
  double shortest = step.pipeline_time.value;
  for (const ReplayedOp& op : step.ops) shortest = std::min(shortest, (op.end - op.start).value);
  const double needed = step.pipeline_time.value / shortest;
  if (needed <= room) {
    const int times = std::max(1, static_cast<int>(room / needed / 2));  // wider where there is much room
    return {static_cast<int>(std::lround(needed * std::min(times, 2))), true};
  }
  return {room, false};
}

char letter(const TimelineCell& cell, bool numbered) {
  const auto digit = [](int n) { return static_cast<char>('0' + n % 10); };
  const auto small = [](int n) { return static_cast<char>('a' + n % 26); };
  switch (cell.doing) {
    case Doing::Forward: return numbered ? digit(cell.micro_batch) : 'F';
    case Doing::Backward: return numbered ? small(cell.micro_batch) : 'B';
    case Doing::WeightGradient: return numbered ? static_cast<char>('A' + cell.micro_batch % 26) : 'W';
    case Doing::Pair:
      if (!numbered) return 'P';
      return cell.first_part ? digit(cell.micro_batch) : small(cell.back_micro_batch);
    case Doing::Idle:
    case Doing::Gather:
    case Doing::Reduce:
    case Doing::Optimizer:
    case Doing::Straggler: break;
  }
  return '.';
}

/// One row: the letter that most of a column's time has.
std::string row_text(const StepReplay& step, int rank, const Columns& columns) {
  const int samples = columns.numbered ? 1 : 9;
  const std::vector<TimelineCell> cells =
      timeline_cells(step, rank, step.gather, step.gather + step.pipeline_time, columns.count * samples);
  std::string out;
  for (std::size_t i = 0; i < cells.size(); i += static_cast<std::size_t>(samples)) {
    std::string letters;
    for (std::size_t k = 0; k < static_cast<std::size_t>(samples); ++k)
      letters += letter(cells[i + k], columns.numbered);
    out += *std::max_element(letters.begin(), letters.end(), [&](char a, char b) {
      return std::count(letters.begin(), letters.end(), a) < std::count(letters.begin(), letters.end(), b);
    });
  }
  return out;
}

bool splits(const StepReplay& step) { return splits_backward(step.pipeline.schedule); }

bool has_pairs(const StepReplay& step) {
  return std::any_of(step.ops.begin(), step.ops.end(),
                     [](const ReplayedOp& op) { return op.op.work == PipelineWork::Pair; });
}

std::string text_legend(const StepReplay& step, bool numbered) {
  std::string out = numbered ? "digits forward, letters backward" : "F forward, B backward";
  if (splits(step)) out += numbered ? ", capitals weight gradients" : ", W weight gradients";
  if (has_pairs(step) && !numbered) out += ", P both at once";
  return out + ", dots waiting";
}

int colour_of(Doing doing) {
  switch (doing) {
    case Doing::Forward: return 0;
    case Doing::Backward: return 3;
    case Doing::WeightGradient: return 7;
    case Doing::Pair: return 1;
    case Doing::Gather:
    case Doing::Reduce: return 5;
    case Doing::Optimizer: return 2;
    case Doing::Straggler: return 4;
    case Doing::Idle: break;
  }
  return 9;
}

std::string page_row(const StepReplay& step, int rank) {
  const std::vector<TimelineCell> cells = timeline_cells(step, rank, Seconds(0), step.total(), kPageCells);
  std::array<std::string, 10> paths;
  for (std::size_t i = 0; i < cells.size();) {
    std::size_t end = i + 1;
    while (end < cells.size() && cells[end].doing == cells[i].doing) ++end;
    if (cells[i].doing != Doing::Idle)
      paths[static_cast<std::size_t>(colour_of(cells[i].doing))] += fmt::format("M{} 5h{}", i, end - i);
    i = end;
  }
  std::string out = fmt::format(
      "<span>{}</span><svg viewBox=\"0 0 {} 10\" preserveAspectRatio=\"none\" height=\"15\">"
      "<title>stage {}</title>",
      rank, kPageCells, rank);
  for (std::size_t colour = 0; colour < paths.size(); ++colour)
    if (!paths[colour].empty()) out += fmt::format("<path class=\"s{}\" d=\"{}\"/>", colour, paths[colour]);
  return out + "</svg>\n";
}

std::string page_axis(const StepReplay& step) {
  const TimeScale scale = time_scale(step.total());
  std::string out = "<span>&nbsp;</span><svg height=\"18\">";
  const double whole = step.total().value * scale.factor;
  for (const double value : axis_ticks(0, whole, false, 6)) {
    const double at = 100 * value / whole;
    out += fmt::format("<text x=\"{:.2f}%\" y=\"14\" text-anchor=\"{}\">{} {}</text>", at,
                       at < 2    ? "start"
                       : at > 96 ? "end"
                                 : "middle",
                       number_text(value, 4), scale.unit);
  }
  return out + "</svg>\n";
}

}  // namespace

std::vector<TimelineCell> timeline_cells(const StepReplay& step, int rank, Seconds from, Seconds to, int cells) {
  std::vector<TimelineCell> out(static_cast<std::size_t>(cells));
  auto op = std::lower_bound(step.ops.begin(), step.ops.end(), rank,
                             [](const ReplayedOp& a, int wanted) { return a.rank < wanted; });
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Seconds at = from + (to - from) * ((static_cast<double>(i) + 0.5) / cells);
    while (op != step.ops.end() && op->rank == rank && op->end <= at) ++op;
    const bool inside = op != step.ops.end() && op->rank == rank && op->start <= at;
    if (!inside) {
      out[i].doing = around(step, at);
      continue;
    }
    out[i] = {doing_of(op->op.work), op->op.micro_batch, op->op.back_micro_batch,
              (at - op->start).value * 3 < (op->end - op->start).value};
  }
  return out;
}

std::vector<int> drawn_ranks(int ranks, int most) {
  std::vector<int> out;
  if (ranks <= most) {
    for (int rank = 0; rank < ranks; ++rank) out.push_back(rank);
    return out;
  }
  for (int i = 0; i < most; ++i) out.push_back(static_cast<int>(std::lround(i * (ranks - 1.0) / (most - 1.0))));
  return out;
}

std::string timeline_text(const StepReplay& step, const Terminal& terminal) {
  const Pipeline& pipe = step.pipeline;
  const std::vector<int> ranks = drawn_ranks(pipe.pp, kTextRanks);
  const int label = static_cast<int>(fmt::format("{}", pipe.pp - 1).size());
  const Columns columns = columns_of(step, std::min(terminal.width, 80) - 10 - label);
  std::string out = fmt::format("{}, {}: {} stages, {} micro-batches, {}\n", paint(terminal, Style::Bold, "Pipeline"),
                                name(pipe.schedule), pipe.pp, pipe.micro_batches, seconds_text(step.pipeline_time));
  for (const int rank : ranks) {
    out += fmt::format("  stage {:>{}}  ", rank, label);
    out += row_text(step, rank, columns);
    out += "\n";
  }
  out += fmt::format("  {}\n", wrap(fmt::format("{}; a column is {}", text_legend(step, columns.numbered),
                                                seconds_text(step.pipeline_time / static_cast<double>(columns.count))),
                                    std::min(terminal.width, 80), 2, 2));
  if (static_cast<int>(ranks.size()) < pipe.pp)
    out += fmt::format("  {} of {} stages; `--format trace` has every operation\n", ranks.size(), pipe.pp);
  return out;
}

std::string timeline_html(const StepReplay& step) {
  std::vector<std::pair<int, std::string>> legend = {{0, "forward"}, {3, "backward"}};
  if (splits(step)) legend.emplace_back(7, "weight gradients");
  if (has_pairs(step)) legend.emplace_back(1, "forward and backward at once");
  if (step.gather.value + step.reduce.value > 0) legend.emplace_back(5, "gradients and parameters, exposed");
  legend.emplace_back(2, "optimizer");
  if (step.straggler.value > 0) legend.emplace_back(4, "waiting for the slowest rank");
  std::string out = html_legend(legend) + "<div class=\"timeline\">\n";
  const std::vector<int> ranks = drawn_ranks(step.pipeline.pp, kPageRanks);
  for (const int rank : ranks) out += page_row(step, rank);
  out += page_axis(step) + "</div>\n";
  if (static_cast<int>(ranks.size()) < step.pipeline.pp)
    out += fmt::format("<p class=\"dim\">{} of {} stages drawn; <code>--format trace</code> has every operation.</p>\n",
                       ranks.size(), step.pipeline.pp);
  return out;
}

}  // namespace plan
