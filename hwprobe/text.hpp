#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formulas/text.hpp"

namespace plan {

/// Words of a line, separated by blanks.
[[nodiscard]] inline std::vector<std::string_view> words_of_line(std::string_view line) {
  std::vector<std::string_view> words;
  for (std::size_t i = 0; i < line.size();) {
    if (line[i] == ' ' || line[i] == '\t' || line[i] == '\r') {
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < line.size() && line[end] != ' ' && line[end] != '\t' && line[end] != '\r') ++end;
    words.push_back(line.substr(i, end - i));
    i = end;
  }
  return words;
}

/// Lines of a text without their ends.
[[nodiscard]] inline std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return lines;
}

/// A log's line without colours and without the label of the rank that wrote it: `[0] `, `[1,0]<stdout>:`,
/// `[prterun-node01-7@1,0]<stdout>:`, `3: ` of srun, `node01 3: ` of PALS.
[[nodiscard]] inline std::string plain_line(std::string_view line) {
  std::string out;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\x1b') {
      out += line[i];
      continue;
    }
    while (i < line.size() && (line[i] < '@' || line[i] == '[')) ++i;  // to the letter that ends the sequence
  }
  const auto digits = [&](std::size_t at) {
    while (at < out.size() && ((out[at] >= '0' && out[at] <= '9') || out[at] == ',')) ++at;
    return at;
  };
  if (!out.empty() && out[0] == '[') {
    for (const char* stream : {"]<stdout>:", "]<stderr>:"})
      if (const std::size_t end = out.find(stream); end != std::string::npos) return out.substr(end + 10);
    if (const std::size_t end = digits(1); end > 1 && end < out.size() && out[end] == ']') return out.substr(end + 1);
  }
  const std::size_t blank = out.find(' ');
  const bool host = blank != std::string::npos && blank > 0 && out[0] != '#' && digits(0) == 0;
  for (const std::size_t begin : {std::size_t{0}, host ? blank + 1 : std::size_t{0}})
    if (const std::size_t end = digits(begin); end > begin && end < out.size() && out[end] == ':')
      return out.substr(end + 1);
  return out;
}

/// The pieces of a list, the empty ones too.
[[nodiscard]] inline std::vector<std::string> pieces_of(std::string_view list, char between) {
  std::vector<std::string> pieces;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(between, begin), list.size());
    pieces.emplace_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return pieces;
}

/// The first line of a file, as the kernel's small ones are read; empty where there is none.
[[nodiscard]] inline std::string first_line(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// A finite number that is the whole word.
[[nodiscard]] inline std::optional<double> number_in(std::string_view word) {
  const std::optional<double> value = as_number<double>(word);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

}  // namespace plan
