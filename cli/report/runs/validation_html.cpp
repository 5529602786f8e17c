// Predicted against measured as one page: inline SVG, no script, light and dark, the rows behind the points. Hovering a
// suite in the table shows its points alone. Tested by tests/cli/validation_test.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>
#include <vector>

#include "cli/report/page/page.hpp"
#include "cli/report/runs/validation.hpp"
#include "cli/terminal/format.hpp"

namespace plan {
namespace {

constexpr double kSide = 900;   ///< of the plot, in SVG units
constexpr double kMargin = 70;  ///< for the labels of the axes
constexpr int kColours = 8;
/// Errors drawn as lines beside the diagonal.
constexpr double kBand = 0.1;

constexpr std::string_view kStyle = R"(
svg text{font-size:20px}.same{stroke:var(--ink)}.band{stroke:var(--dim);stroke-dasharray:6 6}
circle{fill-opacity:.55}circle:hover{fill-opacity:1;stroke:var(--ink)}
.t1 td:nth-child(1){white-space:nowrap}.t1 td:nth-child(6){white-space:normal}
td:first-child::before{content:"\25CF ";color:var(--c,transparent)}
)";

constexpr std::string_view kPalette[kColours] = {"#4477aa", "#ee6677", "#228833", "#b8860b",
                                                 "#2aa5c0", "#aa3377", "#888888", "#e07b39"};

/// One point; the suite is its index in the table.
struct Point {
  std::size_t suite;
  const std::string* id;
  Compared pair;
};

/// Logarithmic axis, the same for both directions: whole factors around all the points.
struct ErrorAxis {
  double low = 0, high = 1;  ///< log10

  explicit ErrorAxis(const std::vector<Point>& points) {
    low = HUGE_VAL, high = -HUGE_VAL;
    for (const Point& p : points) {
      low = std::min({low, std::log10(p.pair.measured), std::log10(p.pair.predicted)});
      high = std::max({high, std::log10(p.pair.measured), std::log10(p.pair.predicted)});
    }
    low -= 0.05, high += 0.05;
  }
  double at(double value) const { return (std::log10(value) - low) / (high - low) * kSide; }
  double x(double value) const { return kMargin + at(value); }
  double y(double value) const { return kMargin / 2 + kSide - at(value); }
};

/// 1, 2 and 5 times the powers of ten; powers alone where the axis is long.
std::vector<double> ticks(const ErrorAxis& axis) {
  std::vector<double> out;
  for (int power = static_cast<int>(std::floor(axis.low)); power <= axis.high; ++power)
    for (const int digit : {1, 2, 5}) {
      const double value = digit * std::pow(10.0, power);
      if (std::log10(value) < axis.low || std::log10(value) > axis.high) continue;
      if (digit == 1 || axis.high - axis.low < 3) out.push_back(value);
    }
  return out;
}

/// predicted = ratio * measured, inside the plot.
std::string diagonal(const ErrorAxis& axis, double ratio, std::string_view style) {
  const double shift = std::log10(ratio), low = axis.low - std::min(0.0, shift),
               high = axis.high - std::max(0.0, shift);
  const double from = std::pow(10.0, low), to = std::pow(10.0, high);
  return fmt::format("<line class=\"{}\" x1=\"{:.0f}\" y1=\"{:.0f}\" x2=\"{:.0f}\" y2=\"{:.0f}\"/>\n", style,
                     axis.x(from), axis.y(from * ratio), axis.x(to), axis.y(to * ratio));
}

std::string frame(const ErrorAxis& axis, std::string_view unit) {
  const double left = kMargin, right = kMargin + kSide, top = kMargin / 2, bottom = kMargin / 2 + kSide;
  std::string out;
  for (const double value : ticks(axis)) {
    const std::string text = number_text(value, 3);
    out += fmt::format("<path class=\"axis\" d=\"M{0:.0f} {1:.0f}V{2:.0f}M{3:.0f} {4:.0f}H{5:.0f}\"/>", axis.x(value),
                       top, bottom, left, axis.y(value), right);
    out += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"middle\">{}</text>", axis.x(value), bottom + 24,
                       text);
    out += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"end\">{}</text>\n", left - 6, axis.y(value) + 7,
                       text);
  }
  out += diagonal(axis, 1, "same") + diagonal(axis, 1 + kBand, "band") + diagonal(axis, 1 - kBand, "band");
  out +=
      fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"end\">measured, {}</text>", right, bottom + 50, unit);
  out += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\">predicted, {}; dashes: 10 % off</text>\n", left, top - 10, unit);
  return out;
}

std::string picture(std::string_view title, std::string_view unit, const std::vector<Point>& points) {
  if (points.empty()) return {};
  const ErrorAxis axis(points);
  std::string out = fmt::format("<h2>{}</h2>\n<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}\">\n",
                                title, kSide + kMargin + 20, kSide + kMargin * 1.5, title);
  out += frame(axis, unit);
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Point& p = points[i];
    if (i == 0 || points[i - 1].suite != p.suite)
      out += fmt::format("{}<g class=\"u u{}\" fill=\"{}\">\n", i == 0 ? "" : "</g>\n", p.suite,
                         kPalette[p.suite % kColours]);
    out += fmt::format("<circle cx=\"{:.0f}\" cy=\"{:.0f}\" r=\"5\"><title>{} {} {}</title></circle>\n",
                       axis.x(p.pair.measured), axis.y(p.pair.predicted), escape_html(*p.id),
                       number_text(p.pair.measured, 3), signed_percent(p.pair.error()));
  }
  return out + "</g>\n</svg>\n";
}

std::string time_cells(const ErrorScore& e) {
  if (e.n == 0) return "<td></td><td></td><td></td><td></td>";
  return fmt::format("<td>{}</td><td>{}</td><td>{}</td><td>{}</td>", e.n, percent(e.median_ape), percent(e.p90_ape),
                     signed_percent(e.bias));
}

/// A suite's memory errors by kind, one cell.
std::string memory_cell(const SuiteScore& score) {
  std::string text;
  for (const auto& [kind, e] : score.memory)
    text += fmt::format("{}{} {}, median {}", text.empty() ? "" : "; ", e.n, escape_html(kind), percent(e.median_ape));
  return fmt::format("<td>{}</td>", text);
}

std::string table(const Validation& validation) {
  std::string out =
      "<table class=\"t1\"><tr><th>suite</th><th>step times</th><th>median "
      "error</th><th>p90</th><th>bias</th><th>memory</th></tr>\n";
  std::size_t i = 0;
  for (const auto& [name, score] : validation.suites) {
    out += fmt::format("<tr id=\"r{}\"><td style=\"--c:{}\">{}</td>{}{}</tr>\n", i, kPalette[i % kColours],
                       escape_html(name), time_cells(score.step_time), memory_cell(score));
    ++i;
  }
  return out + fmt::format("<tr><td>overall, by suite</td>{}{}</tr></table>\n",
                           time_cells(validation.overall.step_time), memory_cell(validation.overall));
}

}  // namespace

std::string validation_html(const Validation& validation) {
  std::vector<Point> times, memories;
  for (const ScoredRun& run : validation.runs) {
    if (!run.reason.empty()) continue;
    const auto suite =
        static_cast<std::size_t>(std::distance(validation.suites.begin(), validation.suites.find(run.run.suite)));
    if (run.step_time && run.step_time->predicted > 0) times.push_back({suite, &run.run.id, *run.step_time});
    if (run.memory && run.memory->predicted > 0) {
      const Compared& m = *run.memory;
      memories.push_back({suite, &run.run.id, {m.measured / kGiB, m.predicted / kGiB, m.low / kGiB, m.high / kGiB}});
    }
  }
  const auto by_suite = [](const Point& a, const Point& b) { return a.suite < b.suite; };
  std::stable_sort(times.begin(), times.end(), by_suite);
  std::stable_sort(memories.begin(), memories.end(), by_suite);

  std::string style(kStyle);
  for (std::size_t i = 0; i < validation.suites.size(); ++i)
    style += fmt::format("body:has(#r{0}:hover) .u:not(.u{0}){{opacity:.05}}\n", i);
  std::string out = fmt::format("<h1>Predicted against measured</h1>\n<p>{} runs, {} scored.</p>\n",
                                validation.runs.size(), validation.scored);
  out += table(validation);
  out += picture("Step time", "s", times);
  out += picture("Peak memory", "GiB", memories);
  return html_page("plan validate", style, out);
}

}  // namespace plan
