// The answer on one screen, most important first. Tested by tests/cli/human_test.cpp and the golden files.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/report/parts/choice_text.hpp"
#include "cli/report/parts/tables.hpp"
#include "cli/report/plan/report.hpp"
#include "cli/request/unstated.hpp"
#include "cli/terminal/format.hpp"
#include "cli/terminal/words.hpp"
#include "planner/answer/layout_text.hpp"
#include "planner/choice/nearest.hpp"
#include "planner/memory/host_memory.hpp"
#include "planner/problem/axes.hpp"

namespace plan {
namespace {

constexpr int kLines = 40;
constexpr int kFewestStages = 3, kMostStages = 8;
constexpr int kFewestTerms = 4, kMostTerms = 10;
constexpr std::size_t kMostRules = 2;
constexpr std::size_t kFewIdeas = 2;  // that stay when reasons give way
/// MFU conventions further apart than this are both printed.
constexpr double kMfuApart = 0.03;

std::string header(const Plan& plan, const RunOptions& options, const Terminal& terminal) {
  const Problem& problem = plan.problem;
  const std::string model = fmt::format("{} ({})", problem.model.name, parameters_text(problem.model));
  const std::string of = plan.idle_gpus > 0 ? fmt::format(" of {}", problem.gpus + plan.idle_gpus) : "";
  std::string hardware = fmt::format("on {}{} x {}", problem.gpus, of, problem.cluster.gpu.name);
  const int node = std::max(problem.cluster.gpus_per_node, 1);
  if (problem.gpus > node && problem.gpus % node == 0)
    hardware += fmt::format(", {} nodes of {}", problem.gpus / node, node);
  if (options.spares > 0) hardware += fmt::format(", {} spare", options.spares);
  const bool one_line = display_width(model) + 1 + display_width(hardware) <= terminal.width;
  return model + (one_line ? " " : "\n") + hardware;
}

/// Facts in a row: "pretrain; adam (...); bf16, MFU against ...".
std::string subject(const Plan& plan, const RunOptions& options, const Terminal& terminal) {
  std::vector<std::string> items;
  for (const Fact& fact : subject_facts(plan, options)) {
    if (fact.usual) continue;
    const bool says_itself = fact.name == "task" || fact.name == "optimizer" || fact.name == "precision";
    items.push_back(says_itself ? fact.text : fact.name + " " + fact.text);
  }
  return wrap(fmt::format("{}", fmt::join(items, "; ")), terminal.width, 0) + "\n";
}

std::string fact_line(const Fact& fact, const Terminal& terminal) {
  return fmt::format("  {:<10} {}\n", fact.name, wrap(fact.text, terminal.width, 13));
}

std::string chosen(const Plan& plan, const Terminal& terminal) {
  std::string out;
  for (const Fact& fact : choice_facts(plan)) out += fact_line(fact, terminal);
  return out;
}

std::string searched(const SearchStats& stats) {
  if (stats.considered <= 1) return "";
  const auto count = [](std::int64_t n) { return count_text(static_cast<double>(n)); };
  return fmt::format("Of {} legal layouts {} fit, {} do not, {} are proven worse\n", count(stats.legal),
                     count(stats.fit), count(stats.legal - stats.fit - stats.pruned), count(stats.pruned));
}

/// "± 12 %", or the range where it leans to one side.
std::string spread_text(double value, double low, double high, int decimals, const Terminal& terminal) {
  if (!(low < value || high > value)) return "";
  const double below = 1 - low / value, above = high / value - 1;
  if (std::fabs(above - below) < 0.015)
    return fmt::format(" {} {:.0f} %", terminal.unicode ? "±" : "+-", 100 * std::max(above, below));
  return fmt::format(" ({:.{}f} to {:.{}f})", low, decimals, high, decimals);
}

std::string step_line(const Estimate& e, bool one_mfu, const Terminal& terminal) {
  const TimeScale scale = time_scale(e.step_time);
  const double factor = scale.factor;
  std::string out = fmt::format("  step time  {:.{}f} {}{}", e.step_time.value * factor, scale.decimals, scale.unit,
                                spread_text(e.step_time.value * factor, e.step_time_low.value * factor,
                                            e.step_time_high.value * factor, scale.decimals, terminal));
  out += fmt::format("    throughput  {} tokens/s", count_text(e.tokens_per_s));
  if (!one_mfu) return out + "\n";
  const std::string mfu = percent(e.mfu.model_causal);
  const bool fits = display_width(out) + 9 + display_width(mfu) <= terminal.width;
  return out + (fits ? "    MFU  " : "\n  MFU        ") + mfu + "\n";
}

Style style_of(Fits fits) { return fits == Fits::AtRisk ? Style::Warn : fits == Fits::Yes ? Style::Good : Style::Bad; }

/// What offloading leaves in the memory of a node.
std::string host_line(const Estimate& e, const Terminal& terminal) {
  if (e.host.value <= 0) return "";
  if (e.host_capacity.value <= 0) return fmt::format("  host       {} GiB of each node's memory\n", gib(e.host));
  const Fits fits = fits_host(e.host, e.host_capacity);
  return fmt::format("  host       {} of {} GiB of each node's memory ({:.0f} %), {}\n", gib(e.host),
                     gib(e.host_capacity), 100 * (e.host / e.host_capacity),
                     paint(terminal, style_of(fits), phrase(fits)));
}

std::string memory_line(const Estimate& e, const Terminal& terminal) {
  const double share = e.capacity.value > 0 ? e.peak / e.capacity : 0;
  std::string out = fmt::format("  memory     {} of {} GiB ({:.0f} %)", gib(e.peak), gib(e.capacity), 100 * share);
  const std::string range = fmt::format(" {} to {} GiB", gib(e.peak_low), gib(e.peak_high));
  const bool interval = e.peak_low < e.peak || e.peak_high > e.peak;
  const Fits fits = fits_gpu(e);
  const bool risky = fits == Fits::AtRisk;
  out += ", " + paint(terminal, style_of(fits), phrase(fits));
  if (risky || interval) out += (risky ? "," : ":") + range;
  return out + "\n";
}

std::string run_line(const Plan& plan, const RunOptions& options) {
  const std::optional<RunCost> run = run_cost(plan, options);
  if (!run) return "";
  std::string out = fmt::format("  whole run  {} tokens in {:.1f} days, {} GPU-hours", count_text(run->tokens),
                                run->time.value / 86400, count_text(run->gpu_hours));
  if (run->usd) out += fmt::format(", {} USD", count_text(*run->usd));
  return out + "\n";
}

std::string failures(const Plan& plan, const RunOptions& options, const Terminal& terminal) {
  std::string out;
  for (const Fact& fact : failure_facts(plan, options))
    if (!fact.usual) out += fact_line(fact, terminal);
  return out;
}

/// Each kind of GPU: its stages, what it works and waits, its memory; and what each would do alone.
std::string pools(const Plan& plan, const Terminal& terminal) {
  if (plan.best.runs.empty()) return "";
  std::string out =
      fmt::format("{}\n  {:<22} {:>6} {:>7} {:>8} {:>6}  memory, GiB\n", paint(terminal, Style::Bold, "Pools"),
                  "GPUs, front to back", "stages", "layers", "busy", "idle");
  for (const PoolRun& run : plan.best.runs) {
    const int last = run.first_stage + run.layout.pp - 1;
    const std::string stages =
        last > run.first_stage ? fmt::format("{}-{}", run.first_stage, last) : fmt::format("{}", last);
    out += fmt::format("  {:<22} {:>6} {:>7} {:>8} {:>6}  {} of {}{}\n", fmt::format("{} x {}", run.gpus, run.gpu),
                       stages, stage_layers_text(run.layout.chunk_layers), step_text(plan, run.busy),
                       percent(run.idle_ratio), gib(run.peak), gib(run.capacity),
                       run.fits == Fits::Yes      ? ""
                       : run.fits == Fits::AtRisk ? ", at risk"
                                                  : ", over");
  }
  for (const PoolAlone& alone : plan.alone) {
    const Pool& pool = plan.problem.pools[static_cast<std::size_t>(alone.pool)];
    const std::string what = fmt::format("{} x {} alone", pool.gpus, pool.cluster.gpu.name);
    out += alone.best ? fmt::format("  {:<22} {}: {}\n", what, step_text(plan, alone.best->step_time),
                                    degrees_text(alone.best->layout))
                      : fmt::format("  {:<22} nothing fits\n", what);
  }
  return out + "\n";
}

/// The stages of each pool with its own capacity.
std::string memory_tables(const Estimate& best, int most_rows, const Terminal& terminal) {
  if (best.runs.empty()) return memory_table(best, most_rows, terminal);
  std::string out;
  for (const PoolRun& run : best.runs) {
    Estimate one;
    one.capacity = run.capacity, one.peak = run.peak, one.fits = run.fits;
    const auto first = best.stages.begin() + run.first_stage;
    one.stages.assign(first, first + run.layout.pp);
    out += memory_table(one, std::max(1, most_rows / static_cast<int>(best.runs.size())), terminal);
  }
  return out;
}

std::string summary(const Plan& plan, const RunOptions& options, const Terminal& terminal) {
  const Estimate& best = plan.best;
  const bool one_mfu = std::fabs(best.mfu.model_full - best.mfu.model_causal) < kMfuApart;
  std::string out = fmt::format("  {}\n", paint(terminal, Style::Bold, axes_text(best, plan.problem.model.moe())));
  out += fmt::format("  {}\n\n", wrap_items(choices(plan.problem, best), terminal.width, 2));
  out += step_line(best, one_mfu, terminal);
  if (!one_mfu)
    out += fmt::format("  MFU        {} counting causal attention, {} counting it in full\n",
                       percent(best.mfu.model_causal), percent(best.mfu.model_full));
  return out + memory_line(best, terminal) + host_line(best, terminal) + run_line(plan, options) +
         failures(plan, options, terminal) + chosen(plan, terminal);
}

/// The first reasons.
std::string why(const Plan& plan, std::size_t most, const Terminal& terminal) {
  const auto end = plan.why.begin() + static_cast<std::ptrdiff_t>(std::min(most, plan.why.size()));
  if (end == plan.why.begin()) return "";
  return fmt::format("{} {}\n", paint(terminal, Style::Bold, "Why:"),
                     wrap(fmt::format("{}", fmt::join(plan.why.begin(), end, "; ")), terminal.width, 5));
}

std::string notes(const Plan& plan, const Terminal& terminal) {
  std::string out;
  for (const Note& note : plan.notes)
    if (!is_shown_above(note) && note.code != "switched_on")  // which is among what is taken by default
      out += paint(terminal, Style::Dim, fmt::format("note: {}", wrap(note.text, terminal.width, 6))) + "\n";
  return out;
}

/// The rules of thumb furthest from their limits; `plan list rules` says why they hold, JSON has the rest.
std::string rules_of_thumb_lines(const Plan& plan, std::size_t most, const Terminal& terminal) {
  std::string out;
  for (std::size_t i = 0; i < plan.thumbs.size() && i < most; ++i)
    out += paint(terminal, Style::Dim, fmt::format("rule: {}", wrap(plan.thumbs[i].text, terminal.width, 6))) + "\n";
  return out;
}

int lines(const std::string& text) { return static_cast<int>(std::count(text.begin(), text.end(), '\n')); }

std::string first_lines(const std::string& text, std::size_t most) {
  std::size_t end = 0;
  for (std::size_t i = 0; i < most && end < text.size(); ++i) end = text.find('\n', end) + 1;
  return text.substr(0, end);
}

/// How much of each the end of the screen says.
struct End {
  std::size_t rules, ideas, reasons;
};

/// From all of it on, what gives way next where the screen is full.
std::vector<End> ends_by_length(const Plan& plan) {
  End end{kMostRules, plan.runners_up.size(), plan.why.size()};
  std::vector<End> all = {end};
  const auto cut = [&](std::size_t& what, std::size_t least) {
    while (what > least) --what, all.push_back(end);
  };
  cut(end.rules, 0), cut(end.ideas, kFewIdeas), cut(end.reasons, 1), cut(end.ideas, 1);
  // A reason before an idea, also where the screen holds neither.
  if (!plan.why.empty()) all.insert(all.end(), {{0, 0, 1}, {0, end.ideas, 0}, {0, 0, 1}});
  return all;
}

/// What comes after the table of the step, of which only the length is open.
class Endings {
 public:
  Endings(const Plan& plan, const Terminal& terminal)
      : plan_(plan),
        terminal_(terminal),
        others_(runners_up_table(plan, terminal)),
        front_(front_table(plan, terminal)),
        notes_(notes(plan, terminal)) {}

  std::string of(const End& end) const {
    const std::string said =
        why(plan_, end.reasons, terminal_) + notes_ + rules_of_thumb_lines(plan_, end.rules, terminal_);
    std::string out;
    for (const std::string& part : {end.ideas > 0 ? first_lines(others_, end.ideas + 1) : "", front_, said})
      if (!part.empty()) out += "\n" + part;
    return out;
  }

 private:
  const Plan& plan_;
  const Terminal& terminal_;
  std::string others_, front_, notes_;
};

}  // namespace

std::string human_report(const Plan& plan, const RunOptions& options, const Terminal& terminal) {
  const std::string top = header(plan, options, terminal) + "\n" + batch_text(plan.problem.training) + "\n" +
                          dim_lines(unstated_lines(plan.problem), terminal) + subject(plan, options, terminal) +
                          searched(plan.search) + "\n" + summary(plan, options, terminal) + "\n" +
                          pools(plan, terminal);
  const std::string memory_title =
      fmt::format("{}, GiB{}\n", paint(terminal, Style::Bold, "Memory per GPU"),
                  plan.best.peak_instant.empty()
                      ? ""
                      : fmt::format("; highest in stage {}: {}", plan.best.peak_stage, plan.best.peak_instant));
  // What is left of the screen goes to the terms of the step, then to the stages; 3 lines are titles and a blank.
  const int fewest_stages = std::clamp(static_cast<int>(plan.best.stages.size()), 1, kFewestStages);
  const bool long_list = !plan.front.empty();  // which no screen holds
  const Endings endings(plan, terminal);
  std::string bottom;
  int room = 0;
  for (const End& end : ends_by_length(plan)) {
    if (long_list && end.reasons + end.rules > 0) continue;
    bottom = endings.of(long_list ? End{0, plan.runners_up.size(), 0} : end);
    room = kLines - lines(top) - lines(memory_title) - lines(bottom) - 3;
    if (long_list || room >= fewest_stages + kFewestTerms) break;
  }
  const std::string times = time_table(plan.best, std::clamp(room - fewest_stages, kFewestTerms, kMostTerms), terminal);
  const int stages = room - (lines(times) - 1);
  const std::string better = advice_table(plan, terminal);
  return top + memory_title + memory_tables(plan.best, std::clamp(stages, fewest_stages, kMostStages), terminal) +
         "\n" + times + bottom + (better.empty() ? "" : "\n" + better);
}

}  // namespace plan
