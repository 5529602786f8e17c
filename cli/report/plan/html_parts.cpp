// The parts of a plan's page. Tested by tests/cli/html_test.cpp.
#include "cli/report/plan/html_parts.hpp"
#include "cli/report/plan/explanation_html.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "cli/explain/explain.hpp"
#include "cli/report/page/page.hpp"
#include "cli/report/parts/choice_text.hpp"
#include "cli/report/parts/tables.hpp"
#include "cli/terminal/format.hpp"
#include "cli/terminal/words.hpp"
#include "planner/answer/layout_text.hpp"

namespace plan {
namespace {

constexpr int kMostStageRows = 16;
constexpr int kWholeText = 1000;
constexpr std::array<const char*, 5> kCategories = {"weights", "gradients", "optimizer", "activations", "other"};
constexpr std::array<const char*, 5> kCategoryTerms = {"weights", "grads", "optimizer", "activations", "other"};

std::string memory_bars(const Estimate& e, const std::vector<StageRow>& rows) {
  const double widest = static_cast<double>(std::max(e.capacity, e.peak).value);
  std::string out =
      "<div class=\"bars\">\n<span class=\"dim\">stage</span><span class=\"dim\">GiB</span><span>&nbsp;</span>\n";
  for (const StageRow& row : rows) {
    const std::vector<double> parts = shown_categories(row.memory);
    std::vector<BarPart> bar;
    for (std::size_t i = 0; i < parts.size(); ++i)
      bar.push_back({category_colour(kCategories[i]), parts[i] * kGiB / widest,
                     fmt::format("{} {:.1f} GiB", kCategories[i], parts[i])});
    out += fmt::format("<span>{}</span><span>{}</span>{}\n", stage_name(row), gib(row.memory.total()),
                       svg_bar(bar, static_cast<double>(e.capacity.value) / widest));
  }
  return out + "</div>\n";
}

std::string memory_numbers(const std::vector<StageRow>& rows) {
  HtmlTable table{.head = {"stage", "weights", "grads", "optim", "acts", "other", "total"}, .rows = {}};
  for (const StageRow& row : rows) {
    std::vector<std::string> cells = {stage_name(row)};
    double total = 0;
    for (const double part : shown_categories(row.memory)) cells.push_back(fmt::format("{:.1f}", part)), total += part;
    cells.push_back(fmt::format("{:.1f}", total));
    table.rows.push_back(std::move(cells));
  }
  return html_table(table);
}

std::string against_html(const Plan& plan, const RunnerUp& runner) {
  return escape_html(against_text(plan, runner, kWholeText));
}

std::string degrees(const Plan& plan, const Layout& layout) {
  return escape_html(axis_columns({&layout}, plan.problem.model.moe())[0]);
}

}  // namespace

std::string formula_block(const Plan& plan, std::string_view term, int stage) {
  const Result<Explanation> found = explain(plan, term, stage);
  return found ? html_titled_explanation(*found) : "";
}

std::string formula_details(const Plan& plan, std::string_view term, int stage) {
  const Result<Explanation> found = explain(plan, term, stage);
  if (!found) return "";
  return fmt::format("<details><summary>{} = {}</summary>{}</details>\n", escape_html(found->title),
                     escape_html(value_text(found->value, found->unit)), html_explanation(*found));
}

std::string memory_html(const Plan& plan) {
  const Estimate& e = plan.best;
  const std::vector<StageRow> rows = stage_rows(e.stages, kMostStageRows);
  std::string out = fmt::format("<p>Highest in stage {}{}{}. The line is what the GPU has: {} GiB.</p>\n", e.peak_stage,
                                e.peak_instant.empty() ? "" : ": ", escape_html(e.peak_instant), gib(e.capacity));
  std::vector<std::pair<int, std::string>> legend;
  for (std::size_t i = 0; i < kCategories.size(); ++i)
    legend.emplace_back(category_colour(kCategories[i]), kCategories[i]);
  out += html_legend(legend) + memory_bars(e, rows) + memory_numbers(rows);
  out += formula_details(plan, "memory", e.peak_stage);
  for (const char* term : kCategoryTerms) out += formula_details(plan, term, e.peak_stage);
  return out;
}

std::string time_html(const Plan& plan) {
  const TimeScale scale = time_scale(plan.best.step_time);
  const std::vector<ShownTerm> terms = shown_terms(plan.best);
  if (terms.empty()) return "";
  const double most = std::max(terms[0].time.value, 1e-300);
  std::string out;
  for (const ShownTerm& term : terms) {
    const std::string formula = formula_block(plan, term.word, plan.best.peak_stage);
    out += fmt::format(
        "<details class=\"row\"><summary><span class=\"words\">{}</span><span>{:.{}f} {}</span><span>{:.0f} %</span>{}"
        "</summary>{}</details>\n",
        term.name, term.shown, scale.decimals, scale.unit, term.percent,
        svg_bar({{category_colour(term.name), term.time.value / most, {}}}),
        formula.empty() ? "<div>no equation: it follows from the schedule, drawn below</div>" : formula);
  }
  return out;
}

std::string communication_html(const Plan& plan) {
  const std::vector<Communication>& rows = plan.best.communication;
  if (rows.empty()) return "<p>none: one GPU</p>\n";
  double longest = 1e-300;
  for (const Communication& c : rows) longest = std::max(longest, std::max(c.time, c.exposed).value);
  HtmlTable table{.head = {"message", "over", "times", "sent", "time", "exposed"}, .rows = {}, .text_columns = 2};
  std::string bars = "<div class=\"bars\">\n";
  for (const Communication& c : rows) {
    table.rows.push_back({fmt::format("{} {}", name(c.axis), name(c.op)),
                          fmt::format("{} on {}", c.group.size, escape_html(c.tier)), count_text(std::round(c.count)),
                          traffic_text(c.per_step), seconds_text(c.time), seconds_text(c.exposed)});
    const double hidden = std::max(0.0, (c.time - c.exposed).value) / longest;
    bars += fmt::format("<span>{} {}</span><span>{}</span>{}\n", name(c.axis), name(c.op), seconds_text(c.time),
                        svg_bar({{6, c.exposed.value / longest, "exposed " + seconds_text(c.exposed)},
                                 {4, hidden, "hidden under computation"}}));
  }
  std::string out = "<p class=\"dim\">Of one rank in one step, the slowest stage; time is on the wire.</p>\n" +
                    html_legend({{6, "exposed"}, {4, "hidden under computation"}}) + bars + "</div>\n" +
                    html_table(table);
  for (const char* term : {"tp", "cp", "ep", "pp", "dp"}) out += formula_details(plan, term, plan.best.peak_stage);
  return out;
}

std::string front_html(const Plan& plan) {
  const bool whole = !plan.front.empty();
  if (!whole && plan.runners_up.empty()) return "";
  const TimeScale scale = time_scale(plan.best.step_time);
  Plot plot{.x = {"peak memory, GiB", false},
            .y = {fmt::format("step time, {}", scale.unit), true},
            .points = {},
            .joined = static_cast<int>(plan.front.size()),
            .x_limit = static_cast<double>(plan.best.capacity.value) / kGiB,
            .x_limit_title = "the GPU's memory"};
  const auto add = [&](const Estimate& e, int colour, bool strong = false) {
    const std::string title =
        fmt::format("{}, {} GiB: {}", step_text(plan, e.step_time), gib(e.peak), layout_flag(e.layout));
    plot.points.push_back(
        {static_cast<double>(e.peak.value) / kGiB, e.step_time.value * scale.factor, colour, title, "", strong});
  };
  HtmlTable table{.head = {"step", "memory", "layout"}, .rows = {}, .text_columns = 9};
  for (const Estimate& e : plan.front) {
    add(e, 0);
    table.rows.push_back(
        {step_text(plan, e.step_time), gib(e.peak) + " GiB",
         fmt::format("{}  {}", degrees(plan, e.layout),
                     escape_html(fmt::format("{}", fmt::join(other_choices(plan.best.layout, e.layout), "  "))))});
  }
  for (const RunnerUp& runner : plan.runners_up) add(runner.estimate, 3);
  add(plan.best, 6, true);
  std::string out =
      fmt::format("<p class=\"dim\">{}</p>\n",
                  whole ? "No other layout is both faster and smaller than one on the line; each is the fastest of "
                          "those that need no more memory."
                        : "The best and the runners-up.");
  std::vector<std::pair<int, std::string>> legend = {{6, "best"}};
  if (!plan.runners_up.empty()) legend.emplace_back(3, "other ideas");
  if (whole) legend.emplace_back(0, "the front");
  out += html_legend(legend) + svg_plot(plot);
  if (whole)
    out += fmt::format("<details><summary>the {} layouts of the front</summary><div>{}</div></details>\n",
                       plan.front.size(), html_table(table));
  return out;
}

std::string runners_up_html(const Plan& plan) {
  HtmlTable table{.head = {"", "layout", "against the best", "step", "slower", "90 % of draws", "GiB"},
                  .rows = {},
                  .text_columns = 3};
  for (std::size_t i = 0; i < plan.runners_up.size(); ++i) {
    const RunnerUp& runner = plan.runners_up[i];
    const double slower = runner.estimate.step_time / plan.best.step_time - 1;
    table.rows.push_back({fmt::format("{}", i + 2), degrees(plan, runner.estimate.layout), against_html(plan, runner),
                          step_text(plan, runner.estimate.step_time), signed_percent(slower),
                          difference_text(runner.difference), gib(runner.estimate.peak)});
  }
  return html_table(table);
}

std::string search_html(const Plan& plan) {
  const SearchStats& s = plan.search;
  if (s.considered <= 1) return "";
  HtmlTable table{.head = {"what", "layouts"}, .rows = {}};
  const auto row = [&](const std::string& what, std::int64_t count) { table.rows.push_back({what, grouped(count)}); };
  row("considered", s.considered);
  for (const Rejected& rejected : s.rejected) row("rejected: " + escape_html(rejected.reason), rejected.count);
  row("legal", s.legal);
  row("proven worse by a bound", s.pruned);
  row("do not fit", s.legal - s.fit - s.pruned);
  row("fit", s.fit);
  return fmt::format("<details><summary>best of {} legal layouts</summary><div>{}</div></details>\n",
                     count_text(static_cast<double>(s.legal)), html_table(table));
}

std::string inputs_html(const Plan& plan) {
  HtmlTable table{.head = {"input", "value", "from", "where"}, .rows = {}, .text_columns = 9};
  for (const Input& input : plan.problem.inputs)
    table.rows.push_back(
        {escape_html(input.key), escape_html(input.value), std::string(name(input.origin)), escape_html(input.where)});
  return html_table(table);
}

}  // namespace plan
