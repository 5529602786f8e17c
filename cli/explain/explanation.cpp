// Prints an equation, its symbols, the numbers put in, and the result. Tested by tests/cli/explanation_test.cpp.
#include "cli/explain/explanation.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "cli/terminal/format.hpp"
#include "cli/terminal/json_list.hpp"

namespace plan {
namespace {

bool starts_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool continues_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

const ExplainedSymbol* find(const Explanation& explanation, std::string_view name) {
  for (const ExplainedSymbol& symbol : explanation.symbols)
    if (symbol.name == name) return &symbol;
  return nullptr;
}

std::string symbol_table(const Explanation& explanation, const Terminal& terminal) {
  std::size_t names = 1, values = 1, meanings = 0;
  for (const ExplainedSymbol& symbol : explanation.symbols) {
    names = std::max(names, symbol.name.size());
    values = std::max(values, symbol_value(symbol.value).size());
    meanings = std::max(meanings, symbol.meaning.size());
  }
  const int left = static_cast<int>(2 + names + 2 + values + 2);
  const int room = terminal.width - left;
  const bool two_columns = static_cast<int>(meanings) + 2 + 16 <= room;
  std::string out;
  for (const ExplainedSymbol& symbol : explanation.symbols) {
    out += fmt::format("  {:<{}}  {:>{}}  ", symbol.name, names, symbol_value(symbol.value), values);
    std::string tail = symbol.meaning;
    if (!symbol.origin.empty())
      tail = two_columns ? fmt::format("{:<{}}  {}", symbol.meaning, meanings, symbol.origin)
                         : fmt::format("{} ({})", symbol.meaning, symbol.origin);
    const bool fits = static_cast<int>(tail.size()) <= room;
    out += (fits ? tail : wrap(tail, terminal.width, left)) + "\n";
  }
  return out;
}

}  // namespace

/// Eight digits: enough to follow the calculation by hand.
std::string symbol_value(double value) { return number_text(value, 8); }

std::string value_text(double value, const std::string& unit) {
  const bool whole = std::fabs(value) < 9e15;
  if (unit == "bytes" && whole) {
    const Bytes bytes = round_bytes(value);
    return fmt::format("{} B = {}", grouped(bytes.value), memory_text(bytes));
  }
  if (unit == "s" || unit == "seconds") return seconds_text(Seconds(value));
  std::string number = number_text(value);
  if (whole && value == std::floor(value) && std::fabs(value) >= 1e5)
    number = fmt::format("{} = {}", grouped(static_cast<std::int64_t>(value)), count_text(value));
  else if (std::fabs(value) >= 1e5)
    number = count_text(value);
  return unit.empty() || unit == "ratio" ? number : number + " " + unit;
}

std::string substituted(const Explanation& explanation) {
  std::string out;
  const std::string& text = explanation.equation;
  for (std::size_t i = 0; i < text.size();) {
    const bool after_digit = i > 0 && std::isdigit(static_cast<unsigned char>(text[i - 1])) != 0;
    if (!starts_name(text[i]) || after_digit) {
      out += text[i++];
      continue;
    }
    std::size_t end = i;
    while (end < text.size() && continues_name(text[end])) ++end;
    const std::string name = text.substr(i, end - i);
    const ExplainedSymbol* symbol = find(explanation, name);
    out += symbol != nullptr ? symbol_value(symbol->value) : name;
    i = end;
  }
  return out;
}

std::string human_explanation(const Explanation& e, const Terminal& terminal) {
  std::string out = fmt::format("{} = {}\n\n  {}\n\n", paint(terminal, Style::Bold, wrap(e.title, terminal.width, 0)),
                                value_text(e.value, e.unit), wrap(e.equation, terminal.width, 4, 2));
  out += symbol_table(e, terminal);
  out += fmt::format("\n  = {}\n  = {}\n", wrap(substituted(e), terminal.width, 4, 4), value_text(e.value, e.unit));
  if (!e.drawing.empty()) out += "\n";
  for (const DrawnRow& row : e.drawing) out += fmt::format("  {}\n", row.words);
  if (!e.source.empty() || !e.notes.empty()) out += "\n";
  if (!e.source.empty()) out += fmt::format("source  {}\n", wrap(e.source, terminal.width, 8));
  for (const std::string& note : e.notes) out += fmt::format("note    {}\n", wrap(note, terminal.width, 8));
  return out;
}

namespace {

Json explanation_json(const Explanation& e) {
  Json symbols = json_list(e.symbols, [](const ExplainedSymbol& s) -> Json {
    return {{"name", s.name}, {"value", s.value}, {"meaning", s.meaning}, {"origin", s.origin}};
  });
  Json json = {{"name", e.name},   {"title", e.title}, {"equation", e.equation}, {"symbols", std::move(symbols)},
               {"value", e.value}, {"unit", e.unit},   {"source", e.source},     {"notes", e.notes}};
  if (!e.drawing.empty()) json["drawing"] = json_list(e.drawing, [](const DrawnRow& row) { return row.words; });
  if (!e.parts.empty()) json["parts"] = json_list(e.parts, explanation_json);
  return json;
}

}  // namespace

Json json_explanation(const Explanation& e) {
  Json json = {{"schema", "plan-formula/1"}};
  json.update(explanation_json(e));
  return json;
}

Json json_explanations(const std::vector<Explanation>& explanations) {
  return {{"schema", "plan-explain/1"}, {"terms", json_list(explanations, explanation_json)}};
}

}  // namespace plan
