// A sweep as table, chart, CSV, page and JSON: the same numbers everywhere. Tested by tests/cli/sweep_test.cpp.
#include "cli/report/sweep/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "cli/report/page/page.hpp"
#include "cli/report/parts/choice_text.hpp"
#include "cli/report/parts/tables.hpp"
#include "cli/report/plan/csv.hpp"
#include "cli/report/plan/json.hpp"
#include "cli/report/sweep/sweep_inputs.hpp"
#include "cli/request/unstated.hpp"
#include "cli/terminal/format.hpp"
#include "cli/terminal/json_list.hpp"
#include "cli/terminal/words.hpp"
#include "planner/answer/layout_text.hpp"

namespace plan {
namespace {

constexpr double kTrillion = 1e12;

std::string label(const PlanSweep& sweep, const SweptPlan& point) {
  std::string out;
  for (std::size_t i = 0; i < sweep.axes.size(); ++i)
    out += (i == 0 ? "" : " ") + sweep.axes[i].values[point.at[i]].text;
  return out;
}

std::string axes_title(const PlanSweep& sweep) {
  std::string out;
  for (const SweepAxis& axis : sweep.axes) out += (out.empty() ? "" : " ") + axis.key;
  return out;
}

double usd_per_trillion(const PlanSweep& sweep, const Plan& plan) {
  return gpu_hours(plan.best, paid_gpus(sweep, plan), kTrillion) * price_of(sweep, plan);
}

std::string degrees(const Plan& plan) {
  std::string text = axis_columns({&plan.best.layout}, plan.problem.model.moe())[0];
  text.erase(std::unique(text.begin(), text.end(), [](char a, char b) { return a == ' ' && b == ' '; }), text.end());
  return text;
}

/// A point in the digits that every format prints.
struct Row {
  std::string label{}, step{}, rate{}, mfu{}, memory{}, usd{}, days{}, layout{};
  bool pareto = false;
};

std::vector<Row> rows(const PlanSweep& sweep) {
  std::vector<Row> out;
  for (const SweptPlan& point : sweep.points) {
    Row row{.label = label(sweep, point)};
    if (point.plan) {
      const Estimate& e = point.plan->best;
      const double usd = usd_per_trillion(sweep, *point.plan);
      row.step = seconds_text(e.step_time), row.rate = count_text(e.tokens_per_s);
      row.mfu = percent(e.mfu.model_causal), row.memory = gib(e.peak);
      row.usd = usd > 0 ? count_text(usd) : "";
      row.days = point.run ? fmt::format("{:.1f}", point.run->time.value / 86400) : "";
      row.layout = degrees(*point.plan);
      row.pareto = point.pareto;
    } else {
      row.layout = point.errors.empty() ? "no layout" : point.errors[0].message;
    }
    out.push_back(std::move(row));
  }
  return out;
}

bool has_days(const PlanSweep& sweep) {
  return std::any_of(sweep.points.begin(), sweep.points.end(), [](const SweptPlan& p) { return p.run.has_value(); });
}

std::string deadline_text(const PlanSweep& sweep) {
  if (!sweep.deadline) return "";
  const Deadline& d = *sweep.deadline;
  const std::string run = fmt::format("{} tokens in {} days", count_text(d.tokens), number_text(d.days));
  if (!d.fewest) return fmt::format("{}: no number of GPUs in the sweep is enough", run);
  const auto days = [](const SweptPlan& p) { return fmt::format("{:.1f} days", p.run->time.value / 86400); };
  std::string out =
      fmt::format("{}: {} GPUs ({}, {})", run, d.fewest->plan->problem.gpus, days(*d.fewest), degrees(*d.fewest->plan));
  if (d.next_fewer && d.next_fewer->run)
    out += fmt::format("; {} GPUs take {}", d.next_fewer->plan->problem.gpus, days(*d.next_fewer));
  return out;
}

std::string loss_text(const PlanSweep& sweep, const Loss& loss) {
  const Plan& left = *sweep.points[loss.point].plan;
  std::string out = fmt::format("{} node{} lost: {:.1f} % fewer tokens/s on {} GPUs", loss.nodes,
                                loss.nodes == 1 ? "" : "s", 100 * loss.slower, left.problem.gpus);
  if (loss.replicas)
    out += fmt::format("; {:.1f} % fewer with the layout of all, dp {} and global batch {}", 100 * loss.replicas_slower,
                       loss.replicas->layout.dp, loss.replicas_batch);
  return out;
}

/// Sentences below the table.
std::vector<std::string> sentences(const PlanSweep& sweep) {
  std::vector<std::string> out;
  for (const Loss& loss : sweep.losses) out.push_back(loss_text(sweep, loss));
  if (const std::string deadline = deadline_text(sweep); !deadline.empty()) out.push_back(deadline);
  if (!sweep.sensitivity.empty()) out.push_back(fmt::format("{}", fmt::join(sweep.sensitivity, "; ")));
  return out;
}

std::string title(const PlanSweep& sweep) {
  const std::vector<Input> inputs = common_inputs(sweep);
  return inputs.empty() ? "sweep over " + axes_title(sweep) : job_text(inputs);
}

/// What nobody stated: of every point, then what is not the same at all of them, their frameworks among it.
std::vector<std::string> not_stated(const PlanSweep& sweep) {
  std::vector<std::string> lines = unstated_lines(common_inputs(sweep), unused(sweep));
  if (const std::string text = differing_text(sweep); !text.empty()) lines.push_back(text);
  if (const std::string text = frameworks_text(sweep); !text.empty()) lines.push_back(text);
  return lines;
}

Json loss_json(const Loss& loss) {
  Json json = {{"from", loss.whole}, {"to", loss.point}, {"nodes", loss.nodes}, {"tokens_lost_ratio", loss.slower}};
  if (loss.replicas)
    json["fewer_replicas"] = {{"layout", layout_json(*loss.replicas)},
                              {"global_batch", loss.replicas_batch},
                              {"step_time_s", loss.replicas->step_time.value},
                              {"tokens_lost_ratio", loss.replicas_slower}};
  return json;
}

std::string rate_text(double rate) { return rate >= 1000 ? fmt::format("{:.0f}", rate) : number_text(rate, 4); }

std::string chart(const PlanSweep& sweep, const Terminal& terminal) {
  double best = 0;
  std::size_t width = 4;
  for (const SweptPlan& p : sweep.points) {
    if (p.plan) best = std::max(best, p.plan->best.tokens_per_s_per_gpu);
    width = std::max(width, label(sweep, p).size());
  }
  if (best <= 0) return "";
  std::string out = fmt::format("\n{}\n", paint(terminal, Style::Bold, "Tokens/s a GPU"));
  const int room = std::min(terminal.width, 80) - static_cast<int>(width) - 14;
  for (const SweptPlan& p : sweep.points) {
    if (!p.plan) continue;
    const double rate = p.plan->best.tokens_per_s_per_gpu;
    out += fmt::format("  {:>{}}  {:>8}  {}\n", label(sweep, p), width, rate_text(rate),
                       bar(terminal, rate / best * room));
  }
  return out;
}

}  // namespace

std::string sweep_text(const PlanSweep& sweep, const Terminal& terminal) {
  const std::vector<Row> all = rows(sweep);
  const std::string axes = axes_title(sweep);
  std::size_t width = axes.size();
  for (const Row& row : all) width = std::max(width, row.label.size());
  const bool days = has_days(sweep);
  std::string out = wrap(title(sweep), terminal.width, 2) + "\n";
  out += dim_lines(not_stated(sweep), terminal);
  out += "\n";
  out += fmt::format("  {:>{}} {:>7} {:>8} {:>6} {:>5} {:>7}  layout\n", axes, width, "step",
                     days ? "days" : "tokens/s", "MFU", "GiB", "USD/T");
  for (const Row& row : all) {
    if (row.step.empty()) {
      out += fmt::format("  {:>{}}  {}\n", row.label, width,
                         wrap(row.layout, terminal.width, static_cast<int>(width) + 4));
      continue;
    }
    std::string line =
        fmt::format("{} {:>{}} {:>7} {:>8} {:>6} {:>5} {:>7}  {}", row.pareto ? "*" : " ", row.label, width, row.step,
                    days ? row.days : row.rate, row.mfu, row.memory, row.usd, row.layout);
    if (static_cast<int>(line.size()) > terminal.width) line.resize(static_cast<std::size_t>(terminal.width));
    while (line.back() == ' ') line.pop_back();
    out += line + "\n";
  }
  out +=
      "  USD/T: of a trillion tokens. * no other point is as good in step time, memory,\n"
      "  GPUs and cost at once\n";
  out += chart(sweep, terminal);
  if (!sweep.changes.empty()) out += fmt::format("\n{}\n", paint(terminal, Style::Bold, "Where the layout changes"));
  for (const LayoutChange& change : sweep.changes)
    out += fmt::format("  {}\n", wrap(change.text, terminal.width, 4, 2));
  const std::vector<std::string> below = sentences(sweep);
  if (!below.empty()) out += "\n";
  for (const std::string& sentence : below) out += wrap(sentence, terminal.width, 2, 0) + "\n";
  return out;
}

std::string sweep_csv(const PlanSweep& sweep) {
  const std::string head = csv_layout_head();
  const auto commas = static_cast<std::size_t>(std::count(head.begin(), head.end(), ','));
  std::string out;
  for (const SweepAxis& axis : sweep.axes) out += "swept_" + axis.key + ",";
  const std::vector<DifferingInput> differing = differing_inputs(sweep);
  for (const DifferingInput& input : differing) out += "default_" + input.field + ",";
  const bool frameworks = !frameworks_text(sweep).empty();
  if (frameworks) out += "framework,";
  out += "pareto,days," + head + "\n";
  for (std::size_t at = 0; at < sweep.points.size(); ++at) {
    const SweptPlan& point = sweep.points[at];
    for (std::size_t i = 0; i < sweep.axes.size(); ++i) out += csv_cell(sweep.axes[i].values[point.at[i]].text) + ",";
    for (const DifferingInput& input : differing) out += csv_cell(input.facts[at].value) + ",";
    if (frameworks) out += (point.plan ? framework_of(*point.plan) : "") + ",";
    out +=
        fmt::format("{},{},", point.pareto ? 1 : 0, point.run ? fmt::format("{}", point.run->time.value / 86400) : "");
    if (point.plan)
      out += csv_layout(point.plan->problem, point.plan->best, price_of(sweep, *point.plan), sweep.spares);
    else
      out += std::string(commas, ',');
    out += "\n";
  }
  return out;
}

std::string sweep_markdown(const PlanSweep& sweep) {
  std::string out = fmt::format("## {}\n\n", title(sweep));
  for (const std::string& line : not_stated(sweep)) out += fmt::format("> {}\n\n", line);
  out += fmt::format(
      "| {} | step | tokens/s | MFU | GiB | USD per T tokens | days | layout |\n"
      "|--:|--:|--:|--:|--:|--:|--:|---|\n",
      axes_title(sweep));
  for (const Row& row : rows(sweep))
    out += fmt::format("| {}{} | {} | {} | {} | {} | {} | {} | {} |\n", row.label, row.pareto ? " *" : "", row.step,
                       row.rate, row.mfu, row.memory, row.usd, row.days, row.layout);
  out += "\n";
  for (const LayoutChange& change : sweep.changes) out += fmt::format("- {}\n", change.text);
  for (const std::string& sentence : sentences(sweep)) out += fmt::format("\n{}\n", sentence);
  return out;
}

std::string sweep_html(const PlanSweep& sweep) {
  const SweepAxis& axis = sweep.axes.back();
  const auto plot_of = [&](const char* what, auto value, bool log_y) {
    const bool from_zero = axis.numeric && axis.values.front().number <= 0;
    Plot plot{.x = {axis.key, !from_zero, from_zero}, .y = {what, log_y, !log_y}, .points = {}};
    const std::size_t series = axis.values.size();
    for (std::size_t i = 0; i < sweep.points.size(); ++i) {
      const SweptPlan& p = sweep.points[i];
      if (!p.plan) continue;
      const std::string text = label(sweep, p);
      const double x = axis.numeric ? axis.values[p.at.back()].number : static_cast<double>(p.at.back() + 1);
      plot.points.push_back({x, value(*p.plan), static_cast<int>(i / series % 9), text + ": " + degrees(*p.plan),
                             axis.numeric && (sweep.axes.size() == 1 || p.at.back() + 1 < series) ? "" : text, false});
    }
    plot.joined = sweep.axes.size() == 1 && axis.numeric ? static_cast<int>(plot.points.size()) : 0;
    return svg_plot(plot);
  };
  std::string body = fmt::format("<h1>{}</h1>\n", escape_html(title(sweep)));
  body += html_lines(not_stated(sweep), "dim");
  for (const std::string& sentence : sentences(sweep)) body += fmt::format("<p>{}</p>\n", escape_html(sentence));
  body += html_section("rate", "Throughput",
                       plot_of(
                           "tokens/s", [](const Plan& p) { return p.best.tokens_per_s; }, true));
  body += html_section("efficiency", "Throughput of a GPU",
                       plot_of(
                           "tokens/s a GPU", [](const Plan& p) { return p.best.tokens_per_s_per_gpu; }, false));
  Plot front{.x = {"peak memory, GiB", false}, .y = {"step time, s", true}, .points = {}};
  HtmlTable table{
      .head = {escape_html(axes_title(sweep)), "layout", "step", "tokens/s", "MFU", "GiB", "USD per T tokens"},
      .rows = {},
      .text_columns = 2};
  const std::vector<Row> all = rows(sweep);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Row& row = all[i];
    table.rows.push_back({escape_html(row.label) + (row.pareto ? " *" : ""), escape_html(row.layout), row.step,
                          row.rate, row.mfu, row.memory, row.usd});
    if (sweep.points[i].plan)
      front.points.push_back({static_cast<double>(sweep.points[i].plan->best.peak.value) / kGiB,
                              sweep.points[i].plan->best.step_time.value, row.pareto ? 0 : 4,
                              row.label + ": " + row.step + ", " + row.usd + " USD per T tokens", row.label,
                              row.pareto});
  }
  body +=
      html_section("front", "Memory, step time, GPUs and cost",
                   "<p class=\"dim\">Large points: no other is as good in all four at once.</p>\n" + svg_plot(front));
  body += html_section("points", "Points", html_table(table));
  std::string changes;
  for (const LayoutChange& change : sweep.changes) changes += fmt::format("<li>{}</li>\n", escape_html(change.text));
  body += html_section("changes", "Where the layout changes", changes.empty() ? "" : "<ul>" + changes + "</ul>\n");
  return html_page("plan sweep", "", body);
}

std::string sweep_json(const PlanSweep& sweep) {
  Json points = Json::array();
  const std::vector<DifferingInput> differing = differing_inputs(sweep);
  const auto point_json = [&](std::size_t index) {
    const SweptPlan& p = sweep.points[index];
    Json json = Json::object();
    Json at = Json::object();
    for (std::size_t i = 0; i < sweep.axes.size(); ++i) at[sweep.axes[i].key] = sweep.axes[i].values[p.at[i]].text;
    json["at"] = std::move(at);
    std::vector<Unstated> own;
    for (const DifferingInput& input : differing)
      if (!input.facts[index].field.empty()) own.push_back(input.facts[index]);
    json["unstated"] = unstated_json(own);
    if (p.plan) {
      json["gpus"] = p.plan->problem.gpus;
      json["framework"] = framework_of(*p.plan);
      json["best"] = estimate_json(p.plan->best);
      json["gpu_hours_per_T_tokens"] = gpu_hours(p.plan->best, paid_gpus(sweep, *p.plan), kTrillion);
      if (const double usd = usd_per_trillion(sweep, *p.plan); usd > 0) json["usd_per_T_tokens"] = usd;
      if (p.run) json["days"] = p.run->time.value / 86400;
      if (p.run && p.run->goodput) json["expected_days"] = p.run->expected_time().value / 86400;
      json["pareto"] = p.pareto;
    } else if (!p.errors.empty()) {
      json["error"] = {{"code", p.errors[0].code}, {"text", p.errors[0].message}};
    }
    return json;
  };
  for (std::size_t i = 0; i < sweep.points.size(); ++i) points.push_back(point_json(i));
  Json changes = json_list(sweep.changes, [](const LayoutChange& c) -> Json {
    return {{"from", c.from}, {"to", c.to}, {"text", c.text}};
  });
  Json json = {{"schema", "plan-sweep/1"},
               {"points", std::move(points)},
               {"changes", std::move(changes)},
               {"sensitivity", sweep.sensitivity}};
  json["unstated"] = unstated_json(common_inputs(sweep));
  json["unused"] = notes_json(unused(sweep));
  if (!sweep.losses.empty()) json["losses"] = json_list(sweep.losses, loss_json);
  if (sweep.deadline) {
    Json found = {{"days", sweep.deadline->days}, {"tokens", sweep.deadline->tokens}};
    if (sweep.deadline->fewest) found["fewest_gpus"] = sweep.deadline->fewest->plan->problem.gpus;
    if (sweep.deadline->fewest) found["takes_days"] = sweep.deadline->fewest->run->time.value / 86400;
    json["deadline"] = std::move(found);
  }
  return dump(json);
}

}  // namespace plan
