#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <vector>

namespace plan {

/// Lines of a preset file, each data line with its source behind it, comments aligned.
class Lines {
 public:
  explicit Lines(std::string_view source) : source_(source) {}

  /// A line without a source: header, section.
  void plain(std::string text) { lines_.push_back({std::move(text), false}); }
  void data(int indent, std::string_view key, std::string_view value) {
    lines_.push_back({fmt::format("{:{}}{}: {}", "", indent, key, value), true});
  }
  void flag(int indent, std::string_view key, bool value) { data(indent, key, value ? "yes" : "no"); }

  [[nodiscard]] std::string text() const {
    std::size_t width = 0;
    for (const Line& line : lines_)
      if (line.data && line.text.size() > width && line.text.size() <= 60) width = line.text.size();
    std::string out;
    bool first = true;
    for (const Line& line : lines_) {
      if (line.data && !source_.empty()) {
        out += fmt::format("{:{}}  # {}\n", line.text, width, first ? source_ : "same");
        first = false;
      } else {
        out += line.text + "\n";
      }
    }
    return out;
  }

 private:
  struct Line {
    std::string text;
    bool data;
  };
  std::string source_;
  std::vector<Line> lines_{};
};

}  // namespace plan
