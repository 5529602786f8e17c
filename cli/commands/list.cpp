// `plan list`: what is known, with where it comes from. Tested by tests/cli/golden_test.cpp.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

#include "cli/commands/commands.hpp"
#include "cli/explain/explain.hpp"
#include "cli/report/json.hpp"
#include "cli/request/library.hpp"
#include "cli/request/resolve.hpp"
#include "cli/terminal/diagnostic.hpp"
#include "cli/terminal/terminal.hpp"
#include "cli/terminal/words.hpp"
#include "formulas/catalog.hpp"
#include "formulas/rules_of_thumb.hpp"
#include "planner/budget.hpp"
#include "planner/rules/frameworks.hpp"
#include "presets/suggest.hpp"

namespace plan {
namespace {

std::vector<Listed> list_frameworks() {
  std::vector<Listed> rows;
  for (const FrameworkRow& row : frameworks()) rows.push_back({std::string(row.name), std::string(row.help), ""});
  return rows;
}

std::vector<Listed> list_formulas() {
  std::vector<Listed> rows;
  for (const CatalogEntry& entry : catalog())
    rows.push_back({std::string(entry.formula.name), std::string(entry.formula.title), ""});
  return rows;
}

std::vector<Listed> list_terms() {
  std::vector<Listed> rows;
  for (const Term& term : terms()) rows.push_back({std::string(term.name), std::string(term.help), ""});
  return rows;
}

std::vector<Listed> list_limits() {
  std::vector<Listed> rows;
  for (const MetricRow& row : metrics()) rows.push_back({std::string(row.name), std::string(row.help), ""});
  return rows;
}

std::vector<Listed> list_rules() {
  std::vector<Listed> rows;
  for (const RuleOfThumb& rule : rules_of_thumb()) {
    const CatalogEntry* entry = find_formula(rule.formula);
    rows.push_back({std::string(rule.name),
                    fmt::format("{}: {}. Exception: {}. `plan show formula {}`", rule.rule, rule.why, rule.when_false,
                                rule.formula),
                    entry == nullptr ? "" : std::string(entry->formula.source)});
  }
  return rows;
}

struct Listing {
  std::string_view name;
  std::vector<Listed> (*rows)();
};
constexpr Listing kListings[] = {
    {"models", list_models},     {"gpus", list_gpus},   {"clusters", list_clusters}, {"frameworks", list_frameworks},
    {"formulas", list_formulas}, {"rules", list_rules}, {"terms", list_terms},       {"limits", list_limits}};

std::string names_text(const std::vector<Listed>& rows) {
  std::string out;
  for (const Listed& row : rows) out += row.name + "\n";
  return out;
}

std::string table_text(const std::vector<Listed>& rows, const Terminal& terminal) {
  std::size_t names = 0, longest = 0;
  for (const Listed& row : rows) {
    names = std::max(names, row.name.size());
    for (const std::string_view word : split(row.about, " ")) longest = std::max(longest, word.size());
  }
  // A name that is longer than its column pushes its own line alone.
  const auto width = static_cast<std::size_t>(std::max(0, terminal.width));
  names = std::min(names, width > longest + 6 ? width - longest - 2 : 4);
  std::string out;
  for (const Listed& row : rows) {
    const std::string about = row.where.empty() ? row.about : fmt::format("{} ({})", row.about, row.where);
    const auto column = static_cast<int>(names) + 2, own = static_cast<int>(std::max(names, row.name.size())) + 2;
    out += fmt::format("{:<{}}  {}\n", row.name, names, wrap(about, terminal.width, column, own));
  }
  return out;
}

std::string json_text(std::string_view what, const std::vector<Listed>& rows) {
  Json list = Json::array();
  for (const Listed& row : rows) list.push_back({{"name", row.name}, {"about", row.about}});
  Json json = {{"schema", "plan-list/1"}};
  json[std::string(what)] = std::move(list);
  return dump(json);
}

Error unknown_listing(const Args& args) {
  std::vector<std::string_view> names;
  for (const Listing& listing : kListings) names.push_back(listing.name);
  const std::string help = fmt::format("`plan list` takes {}", fmt::join(names, ", "));
  if (args.words.empty()) return {"missing_word", "`plan list` needs to know what to list", {}, {help}};
  Error error{"unknown_list", fmt::format("nothing to list by the name `{}`", args.words[0]), {}, {}};
  suggest(error, args.words[0], names);
  error.help.push_back(help);
  return error;
}

}  // namespace

int run_list(const Args& args, Streams& streams) {
  for (const Listing& listing : kListings) {
    if (args.words.empty() || args.words[0] != listing.name) continue;
    const std::vector<Listed> rows = listing.rows();
    streams.out = wants_json(args) ? json_text(listing.name, rows)
                  : args.names     ? names_text(rows)
                                   : table_text(rows, streams.out_terminal);
    return kYes;
  }
  return report_errors({unknown_listing(args)}, streams);
}

}  // namespace plan
