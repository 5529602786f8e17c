// What `plan next` prints. Tested by tests/cli/next_test.cpp.
#include "cli/report/runs/next.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "cli/report/parts/choice_text.hpp"
#include "cli/report/plan/json.hpp"
#include "cli/request/unstated.hpp"
#include "cli/terminal/format.hpp"
#include "cli/terminal/json_list.hpp"
#include "planner/answer/layout_text.hpp"

namespace plan {
namespace {

/// "5.60 to 7.10 s".
std::string interval_text(const Estimate& estimate, const Doubt& doubt) {
  const Interval factors = doubt.interval();
  return fmt::format("{} to {}", seconds_text(estimate.step_time * factors.low),
                     seconds_text(estimate.step_time * factors.high));
}

/// Half the width of the interval, as a share of its middle.
double half_width(const Doubt& doubt) {
  const Interval factors = doubt.interval();
  return (factors.high - factors.low) / (factors.high + factors.low);
}

/// The flags that make the run, in two pieces: the job, and the layout, whose word cannot be broken.
std::pair<std::string, std::string> flags_of(const NextReport& report, const NextRun& run) {
  const Problem& problem = report.plan.problem;
  return {fmt::format("--model {} --gpus {} --gpu {} --seq {} --global-batch {}", problem.model.name, run.problem.gpus,
                      problem.cluster.gpu.name, problem.training.seq, run.problem.training.global_batch),
          "--layout " + layout_flag(run.estimate.layout)};
}

std::string now_text(const NextReport& report) {
  const Estimate& best = report.layouts.front();
  return fmt::format("a step of the recommended layout takes {}: ± {:.1f} %, in nine of ten cases",
                     interval_text(best, report.before), 100 * half_width(report.before));
}

/// Layouts that may well be faster than the recommended one.
int undecided(const NextReport& report) {
  int open = 0;
  for (const Doubt& doubt : report.against) open += doubt.interval().low < 1 ? 1 : 0;
  return open;
}

std::string undecided_text(const NextReport& report) {
  if (report.against.empty()) return "no other layout was reported beside it";
  return fmt::format("{} of the {} layouts beside it may be faster", undecided(report), report.against.size());
}

constexpr std::string_view kAfter =
    "Take them in: `plan diagnose --log out.log --append own.csv`, then `plan next own.csv` with the same flags";

Json doubt_json(const Estimate& estimate, const Doubt& doubt) {
  const Interval factors = doubt.interval();
  return {{"step_time_s", estimate.step_time.value * std::exp(doubt.mean)},
          {"step_time_low_s", estimate.step_time.value * factors.low},
          {"step_time_high_s", estimate.step_time.value * factors.high},
          {"half_width_ratio", half_width(doubt)}};
}

}  // namespace

std::string next_text(const NextReport& report, const Terminal& terminal) {
  const Problem& problem = report.plan.problem;
  std::string out =
      fmt::format("{} on {} x {}: which short runs would tell most\n", paint(terminal, Style::Bold, problem.model.name),
                  problem.gpus, problem.cluster.gpu.name);
  out += dim_lines(unstated_lines(problem), terminal);
  out += fmt::format("  {}\n\n", axes_text(report.layouts.front(), problem.model.moe()));
  if (!report.taken.empty())
    out += fmt::format("After {}:\n", wrap(fmt::format("{}", fmt::join(report.taken, ", ")), terminal.width, 6));
  out += wrap(fmt::format("Now {}; {}.", now_text(report), undecided_text(report)), terminal.width, 4) + "\n\n";
  if (report.runs.empty()) out += "No run on these GPUs or fewer would tell a tenth of what is left to know.\n";
  for (std::size_t i = 0; i < report.runs.size(); ++i) {
    const NextRun& run = report.runs[i];
    out += fmt::format(
        "  {}  {} steps in {:.0f} min on {} GPUs, {:.1f} GPU-hours\n     then ± {:.1f} %, and {:.0f} % of the doubt is "
        "left\n",
        i + 1, run.steps, run.minutes, run.problem.gpus, run.gpu_hours(), 100 * half_width(run.reference),
        100 * run.open);
    const auto& [job, layout] = flags_of(report, run);
    out += fmt::format("     {}\n     {}\n", wrap(job, terminal.width, 7, 5), wrap(layout, terminal.width, 7, 5));
  }
  if (!report.runs.empty())
    out += fmt::format("\nThen a step takes {} where the runs show what is expected.\n{}\n",
                       interval_text(report.layouts.front(), report.runs.back().reference),
                       wrap(kAfter, terminal.width, 4));
  for (const Note& note : report.skipped) out += fmt::format("note: {}\n", wrap(note.text, terminal.width, 6));
  return out;
}

std::string next_markdown(const NextReport& report) {
  const Problem& problem = report.plan.problem;
  std::string out = fmt::format("## {} on {} x {}: which short runs would tell most\n\n", problem.model.name,
                                problem.gpus, problem.cluster.gpu.name);
  out += quoted_lines(unstated_lines(problem));
  out += fmt::format("Now {}; {}.\n\n", now_text(report), undecided_text(report));
  out += "| run | GPUs | minutes | GPU-hours | then | doubt left |\n|---|--:|--:|--:|--:|--:|\n";
  for (const NextRun& run : report.runs)
    out += fmt::format("| `{} {}` | {} | {:.0f} | {:.1f} | ± {:.1f} % | {:.0f} % |\n", flags_of(report, run).first,
                       flags_of(report, run).second, run.problem.gpus, run.minutes, run.gpu_hours(),
                       100 * half_width(run.reference), 100 * run.open);
  for (const Note& note : report.skipped) out += fmt::format("\n{}\n", note.text);
  return out;
}

std::string next_json(const NextReport& report) {
  const Problem& problem = report.plan.problem;
  Json json = {{"schema", "plan-next/1"},
               {"model", problem.model.name},
               {"gpus", problem.gpus},
               {"layout", layout_flag(report.layouts.front().layout)},
               {"now", doubt_json(report.layouts.front(), report.before)},
               {"undecided", undecided(report)}};
  json["against"] = Json::array();
  for (std::size_t i = 0; i < report.against.size(); ++i) {
    const Interval factors = report.against[i].interval();
    json["against"].push_back({{"layout", layout_flag(report.layouts[i + 1].layout)},
                               {"ratio", std::exp(report.against[i].mean)},
                               {"ratio_low", factors.low},
                               {"ratio_high", factors.high}});
  }
  json["runs"] = json_list(report.runs, [&](const NextRun& run) -> Json {
    return {{"layout", layout_flag(run.estimate.layout)},
            {"gpus", run.problem.gpus},
            {"global_batch", run.problem.training.global_batch},
            {"steps", run.steps},
            {"minutes", run.minutes},
            {"gpu_hours", run.gpu_hours()},
            {"step_time_s", run.estimate.step_time.value},
            {"then", doubt_json(report.layouts.front(), run.reference)},
            {"left_ratio", run.open}};
  });
  json["taken"] = report.taken;
  json["unstated"] = unstated_json(problem.inputs);
  json["unused"] = notes_json(problem.unused);
  json["notes"] = notes_json(report.skipped);
  return dump(json);
}

}  // namespace plan
