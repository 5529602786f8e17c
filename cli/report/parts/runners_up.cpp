// The tables that compare layouts: next best, and the front. Tested by tests/cli/human_test.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cli/report/parts/choice_text.hpp"
#include "cli/report/parts/tables.hpp"
#include "cli/terminal/format.hpp"
#include "planner/answer/layout_text.hpp"

namespace plan {
namespace {

constexpr int kMemoryWidth = 12;  // of the memory, with the blanks around it and the interval

constexpr int kColumns = 5;  // tp cp pp dp ep
constexpr std::array<const char*, kColumns> kAxisWords = {"tp", "cp", "pp", "dp", "ep"};

std::array<std::string, kColumns> axis_values(const Layout& l) {
  const std::string pp = l.vp > 1 ? fmt::format("{}/{}", l.pp, l.vp) : fmt::format("{}", l.pp);
  return {fmt::format("{}", l.tp), fmt::format("{}", l.cp), pp, fmt::format("{}", l.dp), fmt::format("{}", l.ep)};
}

/// The start of a word that is too long for its room.
std::string shortened(const std::string& part, int room) {
  return part.substr(0, static_cast<std::size_t>(std::max(room - 2, 0))) + "..";
}

}  // namespace

std::vector<std::string> axis_columns(const std::vector<const Layout*>& layouts, bool moe) {
  std::array<std::size_t, kColumns> widths{};
  for (const Layout* layout : layouts) {
    const auto values = axis_values(*layout);
    for (std::size_t i = 0; i < kColumns; ++i) widths[i] = std::max(widths[i], values[i].size());
  }
  std::vector<std::string> out;
  for (const Layout* layout : layouts) {
    const auto values = axis_values(*layout);
    std::string row;
    for (std::size_t i = 0; i < kColumns; ++i) {
      if (i == 4 && !moe) continue;
      row += fmt::format("{}{} {:>{}}", i == 0 ? "" : "  ", kAxisWords[i], values[i], widths[i]);
    }
    out.push_back(row);
  }
  return out;
}

std::string against_text(const Plan& plan, const RunnerUp& runner, int room) {
  std::vector<std::string> parts = other_choices(plan.best.layout, runner.estimate.layout);
  if (std::string switches = switches_text(plan, runner.estimate); !switches.empty())
    parts.insert(parts.begin(), std::move(switches));
  const TimeScale scale = time_scale(plan.best.step_time);
  for (const TermDelta& delta : runner.against_best) {
    const std::string number = signed_number(delta.delta.value * scale.factor, scale.decimals);
    if (!reads_zero(number)) parts.push_back(fmt::format("{} {}", delta.term, number));
  }
  std::string out;
  for (const std::string& part : parts) {
    const std::size_t needed = out.size() + (out.empty() ? 0 : 1) + part.size();
    const bool fits = static_cast<int>(needed) <= room;
    if (!fits && !out.empty()) break;
    out.append(out.empty() ? "" : " ").append(fits ? part : shortened(part, room));
  }
  return out;
}

std::string step_text(const Plan& plan, Seconds step) {
  const TimeScale scale = time_scale(plan.best.step_time);
  return fmt::format("{:.{}f} {}", step.value * scale.factor, scale.decimals, scale.unit);
}

std::string switches_text(const Plan& plan, const Estimate& other) {
  const std::vector<std::string>& on = other.switches;
  if (on == plan.best.switches) return "";
  return on.empty() ? fmt::format("without {}", fmt::join(plan.best.switches, ", "))
                    : fmt::format("with {}", fmt::join(on, ", "));
}

std::string runners_up_table(const Plan& plan, const Terminal& terminal) {
  if (plan.runners_up.empty()) return "";
  std::vector<const Layout*> layouts;
  std::size_t step_width = 4, interval_width = 9;
  for (const RunnerUp& runner : plan.runners_up) {
    layouts.push_back(&runner.estimate.layout);
    interval_width = std::max(interval_width, difference_text(runner.difference).size());
    step_width = std::max(step_width, step_text(plan, runner.estimate.step_time).size());
  }
  const std::vector<std::string> axes = axis_columns(layouts, plan.problem.model.moe());
  const std::size_t rank_width = fmt::format("{}", plan.runners_up.size() + 1).size();
  const std::size_t lead = 2 + rank_width + 2 + axes[0].size() + 2 + step_width;
  const int ratios = static_cast<int>(interval_width) + kMemoryWidth;
  const int room = terminal.width - static_cast<int>(lead) - ratios;
  const char* against = room >= 16 ? "  against the best" : room >= 7 ? "  against" : "";
  std::string out = fmt::format("{}{:>{}}{:>{}}{}\n", paint(terminal, Style::Bold, "Other ideas"), "step", lead - 11,
                                "memory", ratios - 2, against);
  for (std::size_t i = 0; i < plan.runners_up.size(); ++i) {
    const RunnerUp& runner = plan.runners_up[i];
    std::string row = fmt::format("  {:>{}}  {}  {:>{}}  {:>{}}  {:>6}  ", i + 2, rank_width, axes[i],
                                  step_text(plan, runner.estimate.step_time), step_width,
                                  difference_text(runner.difference), interval_width, gib(runner.estimate.peak));
    row += against_text(plan, runner, room);
    while (!row.empty() && row.back() == ' ') row.pop_back();
    out += row + "\n";
  }
  return out;
}

std::string front_table(const Plan& plan, const Terminal& terminal) {
  if (plan.front.empty()) return "";
  std::vector<const Layout*> layouts;
  for (const Estimate& estimate : plan.front) layouts.push_back(&estimate.layout);
  const std::vector<std::string> axes = axis_columns(layouts, plan.problem.model.moe());
  std::string out = fmt::format("{}: no other layout is both faster and smaller\n",
                                paint(terminal, Style::Bold, "Step time against memory"));
  for (std::size_t i = 0; i < plan.front.size(); ++i) {
    const Estimate& estimate = plan.front[i];
    std::string row = fmt::format("  {:>9}  {:>5} GiB  {}  mb {}", step_text(plan, estimate.step_time),
                                  gib(estimate.peak), axes[i], estimate.layout.micro_batch);
    Layout same_batch = estimate.layout;
    same_batch.micro_batch = plan.best.layout.micro_batch;
    for (const std::string& choice : other_choices(plan.best.layout, same_batch)) {
      if (display_width(row) + 2 + static_cast<int>(choice.size()) > terminal.width) {  // rows must not read the same
        out += row + "\n";
        row = std::string(22, ' ');
      }
      row += "  " + choice;
    }
    out += row + "\n";
  }
  return out;
}

std::vector<ShownAdvice> shown_advice(const Plan& plan) {
  std::vector<ShownAdvice> rows;
  if (!plan.advice) return rows;
  for (const Advice& one : *plan.advice) {
    std::string layout = axis_columns({&one.fastest.layout}, one.problem.model.moe())[0];
    layout.erase(std::unique(layout.begin(), layout.end(), [](char a, char b) { return a == ' ' && b == ' '; }),
                 layout.end());
    if (!one.fastest.switches.empty()) layout += fmt::format("  {}", fmt::join(one.fastest.switches, " "));
    rows.push_back(
        {one.change, signed_percent(one.faster), one.cheaper ? signed_percent(-*one.cheaper) : "", std::move(layout)});
  }
  return rows;
}

std::string advice_table(const Plan& plan, const Terminal& terminal) {
  if (!plan.advice) return "";
  const std::vector<ShownAdvice> rows = shown_advice(plan);
  if (rows.empty()) return "No single change of the job is worth half a percent\n";
  std::string out = fmt::format("{}\n", paint(terminal, Style::Bold, "One change at a time"));
  out += fmt::format("  {:<44} {:>9} {:>9}\n", "", "tokens/s", "USD/token");
  for (const ShownAdvice& row : rows) {
    if (row.change.size() > 44) out += fmt::format("  {}\n", wrap(row.change, terminal.width - 2, 4));
    out += fmt::format("  {:<44} {:>9} {:>9}", row.change.size() > 44 ? "" : row.change, row.faster, row.cheaper);
    while (out.back() == ' ') out.pop_back();
    out += fmt::format("\n    {}\n", row.layout);
  }
  return out;
}

}  // namespace plan
