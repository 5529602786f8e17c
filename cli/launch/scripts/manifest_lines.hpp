#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "cli/launch/start/launcher.hpp"
#include "cli/terminal/words.hpp"
#include "formulas/text.hpp"
#include "presets/yaml.hpp"

namespace plan::manifest {

/// The lines of the script that is being put together, as many as the file has.
class Lines {
 public:
  explicit Lines(std::string_view text) : file_(split(text, "\n")), script_(file_.size()) {
    for (std::string_view& line : file_) line = trim(line, kBlanks);
  }

  /// One statement more on a line of the file.
  void add(int line, const std::string& statement) {
    std::string& into = at(line);
    into += (into.empty() ? "" : "; ") + statement;
  }
  /// A command whose words have lines of their own, in their order; else all of them on the line of the first.
  void add_command(const std::vector<yaml::Node>& words) {
    const auto above = [](const yaml::Node& a, const yaml::Node& b) { return a.line < b.line; };
    const bool in_order = std::is_sorted(words.begin(), words.end(), above);
    const int first = words.front().line, last = in_order ? words.back().line : first;
    add(first, "");
    for (const yaml::Node& word : words) at(in_order ? word.line : first) += shell_quoted(word.text) + ' ';
    for (int line = first; line < last; ++line) at(line) += '\\';
  }

  /// A text of several lines, where the file has it: behind the line of its `|`.
  void add_text(const yaml::Node& node) {
    if (node.text.empty()) return;
    std::vector<std::string_view> rows = split(node.text, "\n");
    if (rows.back().empty()) rows.pop_back();
    int line = node.line;
    const auto same = [&](int there) {
      return file_[static_cast<std::size_t>(there) - 1] == trim(rows.front(), kBlanks);
    };
    while (line < static_cast<int>(file_.size()) && !same(line)) ++line;
    if (!same(line)) line = node.line;
    for (const std::string_view row : rows) add(line++, std::string(row));
  }

  std::string text() const {
    std::string out;
    for (const std::string& line : script_) out += line + '\n';
    return out;
  }

 private:
  static constexpr std::string_view kBlanks = " \t\r";

  std::string& at(int line) {
    return script_[static_cast<std::size_t>(std::clamp(line, 1, static_cast<int>(script_.size()))) - 1];
  }

  std::vector<std::string_view> file_{};
  std::vector<std::string> script_{};
};

/// A variable that the command has.
void add_variable(Lines& lines, int line, const std::string& name, const std::string& value);
/// Whether a map is a container, or a task, that states a command.
bool has_command(const yaml::Node& map);
/// `command:` and `args:` of one container with its variables; false: it has none.
bool add_container(Lines& lines, const yaml::Node& map);

}  // namespace plan::manifest
