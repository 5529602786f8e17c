#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plan {

/// Text made safe inside HTML and attributes; control characters become spaces.
[[nodiscard]] std::string escape_html(std::string_view text);

/// A whole page: one file, no script, no network, light and dark by the reader's preference. `style` is added to the
/// common style sheet, `body` is HTML.
[[nodiscard]] std::string html_page(std::string_view title, std::string_view style, std::string_view body);

/// A headed part of a page with an anchor; nothing for an empty body.
[[nodiscard]] std::string html_section(std::string_view anchor, std::string_view title, std::string_view body);

/// A paragraph a line, of the class `tone`: "dim", "bad".
[[nodiscard]] std::string html_lines(const std::vector<std::string>& lines, std::string_view tone);

/// A table; cells are HTML. The first column is text, the others numbers, unless `text_columns` says more.
struct HtmlTable {
  std::vector<std::string> head{};
  std::vector<std::vector<std::string>> rows{};
  int text_columns = 1;
};
[[nodiscard]] std::string html_table(const HtmlTable& table);

/// The colour of a category, the same on every page and in every bar: of memory ("weights", ...) and of the step
/// ("compute", "tp exposed", ...). What is in neither list is grey.
[[nodiscard]] int category_colour(std::string_view name);

/// One coloured part of a bar, with what it says under the pointer.
struct BarPart {
  int colour = 0;  ///< 0 to 9, the page's palette
  double share = 0;
  std::string title{};
};
/// A bar as wide as its place; parts one after another, shares of the whole width. `mark` draws a line there if it is
/// inside. Text is never scaled: positions are percentages.
[[nodiscard]] std::string svg_bar(const std::vector<BarPart>& parts, double mark = -1);

/// Colours with their names.
[[nodiscard]] std::string html_legend(const std::vector<std::pair<int, std::string>>& entries);

/// A point of a picture.
struct PlotPoint {
  double x = 0, y = 0;
  int colour = 0;
  std::string title{};  ///< under the pointer
  std::string label{};  ///< beside the point
  bool strong = false;
};
struct PlotAxis {
  std::string title;
  bool logarithmic = false;
  bool from_zero = false;  ///< small differences must not look large
};
struct Plot {
  PlotAxis x, y;
  std::vector<PlotPoint> points{};
  int joined = 0;      ///< the first so many points are joined by a line
  double x_limit = 0;  ///< a marked place on the x axis; 0: none
  std::string x_limit_title{};
};
/// Points with axes; fills the width, text never scaled.
[[nodiscard]] std::string svg_plot(const Plot& plot);

/// Round values that label an axis from `low` to `high`, at most `most`.
[[nodiscard]] std::vector<double> axis_ticks(double low, double high, bool logarithmic, int most = 7);

}  // namespace plan
