// Points between two axes as inline SVG. Positions are percentages of the width and fixed heights, so that the picture
// follows the page and its text keeps its size. Tested by tests/cli/html_test.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "cli/report/page/page.hpp"
#include "cli/terminal/format.hpp"

namespace plan {
namespace {

constexpr double kTop = 28, kHeight = 320, kBottom = kTop + kHeight;  ///< px
constexpr double kLeft = 9, kRight = 96;                              ///< % of the width

/// Values mapped to 0..1; linearly where one of them has no logarithm.
struct AxisScale {
  double low = 0, high = 1;
  bool logarithmic = false;

  AxisScale(double from, double to, bool log) : low(from), high(to), logarithmic(log && from > 0) {
    if (logarithmic) low = std::log10(low), high = std::log10(high);
    const double room = std::max(0.04 * (high - low), 1e-9 + 0.02 * std::fabs(high));
    low -= room, high += room;
    if (!logarithmic && from >= 0) low = std::max(low, 0.0);
  }
  double at(double value) const { return ((logarithmic ? std::log10(value) : value) - low) / (high - low); }
  double value(double at) const { return logarithmic ? std::pow(10.0, at) : at; }
};

/// Ticks are round: "500 k", where a count in a sentence reads "500.0 k", does not reach past the margin of a phone.
std::string tick_text(double value) {
  if (std::fabs(value) < 1e5) return number_text(value, 3);
  std::string text = count_text(value);
  const std::size_t point = text.find('.'), unit = text.find(' ');
  if (point == std::string::npos || unit == std::string::npos) return text;
  const std::size_t last = text.find_last_not_of('0', unit - 1);
  return text.erase(last == point ? point : last + 1, unit - (last == point ? point : last + 1));
}

std::string frame(const Plot& plot, const AxisScale& x, const AxisScale& y) {
  std::string out;
  for (const double value : axis_ticks(x.value(x.low), x.value(x.high), x.logarithmic, 6)) {
    const double at = kLeft + (kRight - kLeft) * x.at(value);
    out += fmt::format(
        "<line class=\"axis\" x1=\"{0:.2f}%\" x2=\"{0:.2f}%\" y1=\"{1}\" y2=\"{2}\"/>"
        "<text x=\"{0:.2f}%\" y=\"{3}\" text-anchor=\"middle\">{4}</text>\n",
        at, kTop, kBottom, kBottom + 16, tick_text(value));
  }
  for (const double value : axis_ticks(y.value(y.low), y.value(y.high), y.logarithmic)) {
    const double at = kBottom - kHeight * y.at(value);
    out += fmt::format(
        "<line class=\"axis\" x1=\"{0}%\" x2=\"{1}%\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>"
        "<text x=\"{3}%\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
        kLeft, kRight, at, kLeft - 1, at + 4, tick_text(value));
  }
  return out + fmt::format("<text x=\"{}%\" y=\"{}\" text-anchor=\"end\">{}</text><text x=\"0\" y=\"10\">{}</text>\n",
                           kRight, kBottom + 34, escape_html(plot.x.title), escape_html(plot.y.title));
}

}  // namespace

std::vector<double> axis_ticks(double low, double high, bool logarithmic, int most) {
  std::vector<double> out;
  if (!(high > low)) return {low};
  if (logarithmic && low > 0 && high / low > 5) {
    const double decades = std::log10(high / low);
    for (int power = static_cast<int>(std::floor(std::log10(low))); power <= std::log10(high); ++power)
      for (const int digit : {1, 2, 5}) {
        const double value = digit * std::pow(10.0, power);
        if (value >= low && value <= high && (digit == 1 || 3 * decades <= most)) out.push_back(value);
      }
    const auto stride = (out.size() + static_cast<std::size_t>(most) - 1) / static_cast<std::size_t>(most);
    std::vector<double> thinned;
    for (std::size_t i = 0; i < out.size(); i += std::max<std::size_t>(stride, 1)) thinned.push_back(out[i]);
    return thinned;
  }
  const double rough = (high - low) / most, power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0})
    if (factor * power >= rough) step = factor * power;
  for (double value = std::ceil(low / step) * step; value <= high * (1 + 1e-12); value += step) out.push_back(value);
  return out;
}

std::string svg_plot(const Plot& plot) {
  if (plot.points.empty()) return "";
  double x_low = plot.points[0].x, x_high = x_low, y_low = plot.points[0].y, y_high = y_low;
  for (const PlotPoint& point : plot.points) {
    x_low = std::min(x_low, point.x), x_high = std::max(x_high, point.x);
    y_low = std::min(y_low, point.y), y_high = std::max(y_high, point.y);
  }
  if (plot.x_limit > 0) x_high = std::max(x_high, plot.x_limit);
  if (plot.y.from_zero) y_low = std::min(y_low, 0.0);
  const AxisScale x(x_low, x_high, plot.x.logarithmic), y(y_low, y_high, plot.y.logarithmic);
  const auto left = [&](double value) { return kLeft + (kRight - kLeft) * x.at(value); };
  const auto top = [&](double value) { return kBottom - kHeight * y.at(value); };
  std::string out = fmt::format("<svg height=\"{}\" role=\"img\" aria-label=\"{}\">\n", kBottom + 40,
                                escape_html(plot.y.title + " against " + plot.x.title));
  out += frame(plot, x, y);
  if (plot.x_limit > 0)
    out += fmt::format(
        "<line class=\"mark\" x1=\"{0:.2f}%\" x2=\"{0:.2f}%\" y1=\"{1}\" y2=\"{2}\"/>"
        "<text x=\"{0:.2f}%\" dx=\"-5\" y=\"{3}\" text-anchor=\"end\">{4}</text>\n",
        left(plot.x_limit), kTop, kBottom, kTop + 12, escape_html(plot.x_limit_title));
  for (std::size_t i = 1; i < static_cast<std::size_t>(plot.joined); ++i) {
    const PlotPoint &a = plot.points[i - 1], &b = plot.points[i];
    out += fmt::format("<line class=\"join\" x1=\"{:.2f}%\" y1=\"{:.1f}\" x2=\"{:.2f}%\" y2=\"{:.1f}\"/>\n", left(a.x),
                       top(a.y), left(b.x), top(b.y));
  }
  for (const PlotPoint& point : plot.points) {
    const bool right = left(point.x) < 70;
    out += fmt::format("<circle class=\"f{}\" cx=\"{:.2f}%\" cy=\"{:.1f}\" r=\"{}\"><title>{}</title></circle>",
                       point.colour, left(point.x), top(point.y), point.strong ? 7 : 4, escape_html(point.title));
    if (!point.label.empty())
      out += fmt::format("<text x=\"{:.2f}%\" y=\"{:.1f}\" dx=\"{}\" text-anchor=\"{}\">{}</text>", left(point.x),
                         top(point.y) + 4, right ? 10 : -10, right ? "start" : "end", escape_html(point.label));
    out += "\n";
  }
  return out + "</svg>\n";
}

}  // namespace plan
