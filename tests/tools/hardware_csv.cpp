#include "tests/tools/hardware_csv.hpp"

#include <cctype>
#include <cstdlib>
#include <fstream>

namespace plan::derive {
namespace {

std::vector<std::string> split_csv(const std::string& line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
      cells.back() += '"';
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      cells.emplace_back();
    } else if (c != '\r') {
      cells.back() += c;
    }
  }
  return cells;
}

double number(const std::string& text) { return text.empty() ? 0 : std::strtod(text.c_str(), nullptr); }

}  // namespace

std::vector<Row> read_hardware(const std::string& path) {
  std::vector<Row> rows;
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);  // header
  while (std::getline(file, line)) {
    const std::vector<std::string> c = split_csv(line);
    if (c.size() < 11) continue;
    rows.push_back({c[0], c[1], c[2], c[3], c[4], c[5], c[7], c[9], c[10], number(c[6]), number(c[8]) * 1e-6});
  }
  return rows;
}

std::map<std::string, double> numbers(const std::string& shape) {
  std::map<std::string, double> found;
  std::string key;
  int anonymous = 0;
  for (std::size_t i = 0; i < shape.size();) {
    if (std::isdigit(static_cast<unsigned char>(shape[i])) == 0) {
      const bool separator = shape[i] == ' ' || shape[i] == ';' || shape[i] == 'x';
      if (separator)
        key.clear();
      else if (shape[i] != '=')
        key += shape[i];
      ++i;
      continue;
    }
    char* end = nullptr;
    const double value = std::strtod(shape.c_str() + i, &end);
    found[key.empty() ? std::to_string(anonymous++) : key] = value;
    i = static_cast<std::size_t>(end - shape.c_str());
    key.clear();
  }
  return found;
}

}  // namespace plan::derive
