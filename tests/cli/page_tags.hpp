#pragma once

#include <cctype>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace plan::pages {

/// An element's beginning or end on a page, and the text that follows it.
struct Tag {
  std::string name{};  ///< "rect", "/table"
  std::map<std::string, std::string> at{};
  std::string text{};

  [[nodiscard]] double number(const std::string& attribute) const { return std::stod(at.at(attribute)); }
  /// The colour that its class names, -1 if none: f for areas, s for lines.
  [[nodiscard]] int colour() const {
    const auto found = at.find("class");
    if (found == at.end() || found->second.size() != 2) return -1;
    const char kind = found->second[0], digit = found->second[1];
    return (kind == 'f' || kind == 's') && digit >= '0' && digit <= '9' ? digit - '0' : -1;
  }
};

inline std::string unescaped(std::string text) {
  const std::pair<std::string_view, std::string_view> words[] = {
      {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&nbsp;", " "}, {"&amp;", "&"}};
  for (const auto& [from, to] : words)
    for (std::size_t i = text.find(from); i != std::string::npos; i = text.find(from, i + to.size()))
      text.replace(i, from.size(), to);
  return text;
}

inline std::vector<Tag> tags_of(std::string_view page) {
  std::vector<Tag> out;
  for (std::size_t i = page.find('<'); i != std::string_view::npos;) {
    std::size_t end = i + 1;
    for (bool quoted = false; end < page.size() && (quoted || page[end] != '>'); ++end)
      if (page[end] == '"') quoted = !quoted;
    const std::string_view inside = page.substr(i + 1, end - i - 1);
    Tag tag;
    tag.name = inside.substr(0, inside.find_first_of(" \n"));
    for (std::size_t equal = inside.find("=\""); equal != std::string_view::npos;) {
      const std::size_t close = inside.find('"', equal + 2), blank = inside.find_last_of(" \n", equal);
      tag.at[std::string(inside.substr(blank + 1, equal - blank - 1))] =
          unescaped(std::string(inside.substr(equal + 2, close - equal - 2)));
      equal = inside.find("=\"", close);
    }
    i = page.find('<', end);
    if (end + 1 < page.size())
      tag.text = unescaped(std::string(page.substr(end + 1, i == std::string_view::npos ? i : i - end - 1)));
    out.push_back(std::move(tag));
  }
  return out;
}

/// The part of a page under an anchor; empty if it has none.
inline std::string section_of(const std::string& page, const std::string& anchor) {
  const std::size_t begin = page.find("<section id=\"" + anchor + "\"");
  return begin == std::string::npos ? "" : page.substr(begin, page.find("</section>", begin) - begin);
}

/// The names of colours that the first legend of a part gives.
inline std::map<int, std::string> legend_of(const std::vector<Tag>& tags) {
  std::map<int, std::string> out;
  bool inside = false;
  int colour = -1;
  for (const Tag& tag : tags) {
    if (tag.name == "div") inside = out.empty() && tag.at.count("class") > 0 && tag.at.at("class") == "legend";
    if (tag.name == "/div") inside = false;
    if (inside && tag.name == "rect") colour = tag.colour();
    if (inside && tag.name == "/svg") out[colour] = tag.text;
  }
  return out;
}

/// What a cell says, without the elements in it, table by table and row by row, heads too.
inline std::vector<std::vector<std::vector<std::string>>> tables_of(const std::string& page) {
  std::vector<std::vector<std::vector<std::string>>> out;
  bool cell = false;
  for (const Tag& tag : tags_of(page)) {
    if (tag.name == "table") out.emplace_back();
    if (tag.name == "tr") out.back().emplace_back();
    if (tag.name == "td" || tag.name == "th") out.back().back().emplace_back(), cell = true;
    if (tag.name == "/td" || tag.name == "/th") cell = false;
    if (cell) out.back().back().back() += tag.text;
  }
  return out;
}

/// The same of Markdown: its lines of bars.
inline std::vector<std::vector<std::vector<std::string>>> markdown_tables(const std::string& text) {
  std::vector<std::vector<std::vector<std::string>>> out;
  bool before = false;
  for (std::size_t i = 0; i < text.size();) {
    const std::string line = text.substr(i, text.find('\n', i) - i);
    i += line.size() + 1;
    const bool row = line.starts_with("|");
    if (row && !before) out.emplace_back();
    before = row;
    if (!row || line.starts_with("|--") || line.starts_with("|:-")) continue;
    std::vector<std::string> cells;
    for (std::size_t at = 1; at < line.size();) {
      const std::size_t bar = line.find('|', at);
      if (bar == std::string::npos) break;
      std::string cell = line.substr(at, bar - at);
      while (!cell.empty() && cell.front() == ' ') cell.erase(0, 1);
      while (!cell.empty() && cell.back() == ' ') cell.pop_back();
      cells.push_back(cell);
      at = bar + 1;
    }
    out.back().push_back(std::move(cells));
  }
  return out;
}

}  // namespace plan::pages
