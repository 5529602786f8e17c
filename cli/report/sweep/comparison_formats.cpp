// A comparison for people, for pull requests, as a page and for programs. Tested by tests/cli/comparison_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "cli/report/page/page.hpp"
#include "cli/report/plan/json.hpp"
#include "cli/report/sweep/comparison.hpp"
#include "cli/request/unstated.hpp"
#include "cli/terminal/json_list.hpp"
#include "planner/answer/layout_text.hpp"

namespace plan {
namespace {

constexpr std::size_t kNameColumn = 15;

Style style_of(const ShownEffect& effect) {
  if (effect.verdict == "better") return Style::Good;
  return effect.verdict == "worse" ? Style::Bad : Style::Plain;
}

std::string trimmed(std::string line) {
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line + "\n";
}

std::vector<ChangedChoice> all_changes(const Comparison& c) {
  std::vector<ChangedChoice> out = c.inputs;
  out.insert(out.end(), c.layout.begin(), c.layout.end());
  return out;
}

/// Markdown's own marks in a table cell.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

const char* verdict_word(EffectVerdict verdict) {
  switch (verdict) {
    case EffectVerdict::Same: return "same";
    case EffectVerdict::Better: return "better";
    case EffectVerdict::Worse: return "worse";
    case EffectVerdict::Neither: break;
  }
  return "not_comparable";
}

Json side_json(const ComparedPlan& side) {
  return {{"name", side.name},
          {"inputs", inputs_json(side.inputs)},
          {"unstated", unstated_json(side.inputs)},
          {"unused", notes_json(side.unused)},
          {"best", estimate_json(side.best)}};
}

Json changes_json(const std::vector<ChangedChoice>& changes) {
  return json_list(changes, [](const ChangedChoice& change) -> Json {
    return {{"key", change.key}, {"a", change.a}, {"b", change.b}};
  });
}

const char* unit_of(EffectKind kind) {
  switch (kind) {
    case EffectKind::Time: return "s";
    case EffectKind::Memory: return "bytes";
    case EffectKind::Ratio: return "ratio";
    case EffectKind::Rate: break;
  }
  return "tokens/s";
}

}  // namespace

std::vector<std::string> compared_lines(const Comparison& c) {
  std::vector<Input> both;
  for (const Input& a : c.a.inputs)
    for (const Input& b : c.b.inputs)
      if (a.key == b.key && a.value == b.value) both.push_back(a);
  std::vector<std::string> lines = {job_text(both)};
  const std::vector<std::string> of_a = unstated_lines(c.a.inputs, c.a.unused),
                                 of_b = unstated_lines(c.b.inputs, c.b.unused);
  const auto in = [](const std::vector<std::string>& list, const std::string& line) {
    return std::find(list.begin(), list.end(), line) != list.end();
  };
  for (const std::string& line : of_a) lines.push_back(in(of_b, line) ? line : "A: " + line);
  for (const std::string& line : of_b)
    if (!in(of_a, line)) lines.push_back("B: " + line);
  std::erase(lines, std::string());
  return lines;
}

std::string comparison_text(const Comparison& c, const Terminal& terminal) {
  const SideNames names = side_names(c);
  std::string out;
  for (const std::string& line : compared_lines(c)) out += wrap(line, terminal.width, 2) + "\n";
  out += "\n";
  if (names.letters)
    out += fmt::format("A  {}\nB  {}\n\n", wrap(c.a.name, terminal.width, 3), wrap(c.b.name, terminal.width, 3));
  std::string lead = "what changed";
  for (const ChangedChoice& change : all_changes(c)) {
    const std::string text = fmt::format("{}: {} -> {}", change.key, change.a, change.b);
    out += fmt::format("{:<{}}{}\n", lead, kNameColumn,
                       wrap(text, terminal.width - static_cast<int>(kNameColumn), static_cast<int>(kNameColumn) + 2));
    lead.clear();
  }
  out += trimmed(fmt::format("{:<{}}{}{}", lead, kNameColumn, lead.empty() ? "" : "nothing: ", same_text(c)));
  const std::vector<ShownEffect> effects = shown_effects(c);
  std::size_t width = 9;
  for (const ShownEffect& e : effects)
    width = std::max({width, e.a.size(), e.b.size(), names.a.size(), names.b.size()});
  out += fmt::format("\n{:<{}}  {:>{}}  {:>{}}  {:>12}\n", "", kNameColumn, names.a, width, names.b, width, "change");
  for (const ShownEffect& e : effects) {
    const std::string verdict = paint(terminal, style_of(e), e.verdict);
    out += trimmed(fmt::format("{:<{}}  {:>{}}  {:>{}}  {:>12}  {:>8}  {}", e.name, kNameColumn, e.a, width, e.b, width,
                               e.change, e.relative, verdict));
    // Numbers of parts are printed under the number, units left out.
    for (const ShownEffect::Part& part : e.parts) {
      const std::size_t unit = e.a.size() - e.a.find(' ');
      out += trimmed(fmt::format("  {:<{}}  {:>{}}{:{}}  {:>{}}{:{}}  {:>{}}", part.name, kNameColumn - 2, part.a,
                                 width - unit, "", unit, part.b, width - unit, "", unit, part.change, 12 - unit));
    }
  }
  if (c.difference) out += "\n" + wrap(difference_line(c), terminal.width, 2) + "\n";
  return out;
}

std::string comparison_markdown(const Comparison& c) {
  const SideNames names = side_names(c);
  std::string out = fmt::format("### {} against {}\n\n", cell(c.b.name), cell(c.a.name));
  for (const std::string& line : compared_lines(c)) out += fmt::format("> {}\n\n", line);
  for (const ChangedChoice& change : all_changes(c))
    out += fmt::format("- {}: `{}` -> `{}`\n", change.key, change.a, change.b);
  out += fmt::format("- {}\n\n| | {} | {} | change | | |\n|---|--:|--:|--:|--:|---|\n", same_text(c), cell(names.a),
                     cell(names.b));
  for (const ShownEffect& e : shown_effects(c)) {
    out +=
        fmt::format("| **{}** | **{}** | **{}** | {} | {} | {} |\n", e.name, e.a, e.b, e.change, e.relative, e.verdict);
    for (const ShownEffect::Part& part : e.parts)
      out += fmt::format("| {} | {} | {} | {} | | |\n", part.name, part.a, part.b, part.change);
  }
  if (c.difference) out += fmt::format("\n{}\n", difference_line(c));
  return out;
}

std::string comparison_html(const Comparison& c) {
  const SideNames names = side_names(c);
  std::string body = fmt::format("<h1>{} against {}</h1>\n", escape_html(c.b.name), escape_html(c.a.name));
  body += html_lines(compared_lines(c), "dim");
  if (names.letters) body += fmt::format("<p>A: {}<br>B: {}</p>\n", escape_html(c.a.name), escape_html(c.b.name));
  HtmlTable changes{.head = {"", escape_html(names.a), escape_html(names.b)}, .rows = {}, .text_columns = 9};
  for (const ChangedChoice& change : all_changes(c))
    changes.rows.push_back({escape_html(change.key), escape_html(change.a), escape_html(change.b)});
  body += html_section("changed", "What changed",
                       html_table(changes) + fmt::format("<p class=\"dim\">{}</p>\n", same_text(c)));
  if (c.difference) body += html_lines({difference_line(c)}, "");
  const std::vector<ShownEffect> effects = shown_effects(c);
  std::size_t next = 0;
  for (std::size_t i = 0; i < effects.size(); ++i) {
    const ShownEffect& e = effects[i];
    if (e.name == "fits") {
      body += fmt::format("<p>fits: <b>{} &rarr; {}</b></p>\n", e.a, e.b);
      continue;
    }
    const Effect& raw = c.effects[next++];
    const char* tone = e.verdict == "better" ? "good" : e.verdict == "worse" ? "bad" : "dim";
    std::string part = fmt::format("<p><b>{} &rarr; {}</b> {} {} <span class=\"{}\">{}</span></p>\n", e.a, e.b,
                                   escape_html(e.change), e.relative, tone, e.verdict);
    const double most = std::max({raw.a, raw.b, 1e-300});
    std::vector<BarPart> bar_a, bar_b;
    std::vector<std::pair<int, std::string>> legend;
    for (std::size_t k = 0; k < raw.parts.size(); ++k) {
      const int colour = category_colour(raw.parts[k].name);
      legend.emplace_back(colour, raw.parts[k].name);
      bar_a.push_back({colour, raw.parts[k].a / most, raw.parts[k].name});
      bar_b.push_back({colour, raw.parts[k].b / most, raw.parts[k].name});
    }
    if (!legend.empty())  // a number without parts is said, not drawn
      part +=
          html_legend(legend) +
          fmt::format("<div class=\"bars\"><span>{}</span><span>{}</span>{}<span>{}</span><span>{}</span>{}</div>\n",
                      escape_html(names.a), e.a, svg_bar(bar_a), escape_html(names.b), e.b, svg_bar(bar_b));
    HtmlTable table{.head = {"", escape_html(names.a), escape_html(names.b), "change"}, .rows = {}};
    for (const ShownEffect::Part& row : e.parts) table.rows.push_back({row.name, row.a, row.b, row.change});
    body += html_section("e" + std::to_string(i), e.name, part + html_table(table));
  }
  return html_page("plan compare", "", body);
}

std::string comparison_json(const Comparison& c) {
  const auto part_json = [](const EffectPart& p) -> Json {
    return {{"name", p.name}, {"a", p.a}, {"b", p.b}, {"delta", p.delta()}};
  };
  const auto effect_json = [&](const Effect& e) -> Json {
    return {{"name", e.name},
            {"unit", unit_of(e.kind)},
            {"a", e.a},
            {"b", e.b},
            {"delta", e.delta()},
            {"verdict", verdict_word(e.verdict)},
            {"parts", json_list(e.parts, part_json)}};
  };
  Json out = {{"schema", "plan-compare/1"},
              {"a", side_json(c.a)},
              {"b", side_json(c.b)},
              {"changed_inputs", changes_json(c.inputs)},
              {"changed_layout", changes_json(c.layout)},
              {"effects", json_list(c.effects, effect_json)}};
  if (c.difference) out["difference_ratio"] = difference_json(*c.difference);
  return dump(out);
}

}  // namespace plan
