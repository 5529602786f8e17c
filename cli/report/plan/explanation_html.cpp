// An explanation for pages and for Markdown documents. Tested by tests/cli/html_test.cpp and tests/cli/walk_test.cpp.
#include <fmt/core.h>

#include "cli/report/page/page.hpp"
#include "cli/report/plan/explanation_html.hpp"

namespace plan {
namespace {

/// Markdown tables break at bars and take stars and underscores for emphasis.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|' || c == '*' || c == '_' || c == '<') out += '\\';
    out += c;
  }
  return out;
}

/// On a page the explanation itself is near: its name is enough.
std::string html_origin(std::string_view origin) {
  constexpr std::string_view kCommand = "plan explain ";
  if (!origin.starts_with(kCommand)) return escape_html(origin);
  return "<code>" + escape_html(origin.substr(kCommand.size())) + "</code>";
}

/// `title`: what comes before the equation, if anything.
std::string html_block(const Explanation& e, const std::string& title) {
  HtmlTable symbols{.head = {"symbol", "value", "what", "from"}, .rows = {}, .text_columns = 9};
  for (const ExplainedSymbol& symbol : e.symbols)
    symbols.rows.push_back({"<code>" + escape_html(symbol.name) + "</code>", symbol_value(symbol.value),
                            escape_html(symbol.meaning), html_origin(symbol.origin)});
  std::string out = fmt::format("<div>{}<pre>{}</pre>\n{}", title, escape_html(e.equation), html_table(symbols));
  out += fmt::format("<pre>= {}\n= {}</pre>\n", escape_html(substituted(e)), escape_html(value_text(e.value, e.unit)));
  for (const DrawnRow& row : e.drawing) {
    std::vector<BarPart> bar;
    for (const DrawnBlock& block : row.blocks) bar.push_back({block.colour, block.share, block.text});
    out += fmt::format("<p><small>{}</small></p>\n{}", escape_html(row.words), bar.empty() ? "" : svg_bar(bar));
  }
  if (!e.source.empty()) out += fmt::format("<p><small>source: {}</small></p>\n", escape_html(e.source));
  for (const std::string& note : e.notes) out += fmt::format("<p><small>{}</small></p>\n", escape_html(note));
  for (const Explanation& part : e.parts)
    out += fmt::format("<details><summary><code>{}</code></summary>{}</details>\n", escape_html(part.name),
                       html_titled_explanation(part));
  return out + "</div>\n";
}

}  // namespace

std::string html_explanation(const Explanation& e) { return html_block(e, ""); }

std::string html_titled_explanation(const Explanation& e) {
  return html_block(e, fmt::format("<p>{}</p>", escape_html(e.title)));
}

std::string markdown_explanation(const Explanation& e) {
  std::string out = fmt::format("### {}: {} = {}\n\n    {}\n\n| symbol | value | what | from |\n|---|--:|---|---|\n",
                                cell(e.name), cell(e.title), value_text(e.value, e.unit), e.equation);
  for (const ExplainedSymbol& s : e.symbols)
    out += fmt::format("| `{}` | {} | {} | {} |\n", s.name, symbol_value(s.value), cell(s.meaning), cell(s.origin));
  out += fmt::format("\n    = {}\n    = {}\n\n", substituted(e), value_text(e.value, e.unit));
  for (const DrawnRow& row : e.drawing) out += fmt::format("    {}\n", row.words);
  if (!e.drawing.empty()) out += "\n";
  if (!e.source.empty()) out += fmt::format("Source: {}\n\n", cell(e.source));
  for (const std::string& note : e.notes) out += fmt::format("Note: {}\n\n", cell(note));
  for (const Explanation& part : e.parts) out += markdown_explanation(part);
  return out;
}

}  // namespace plan
