// `plan list`: what is known, with where it comes from. Tested by tests/cli/golden_test.cpp.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

#include "cli/commands/commands.hpp"
#include "cli/explain/explain.hpp"
#include "cli/report/plan/json.hpp"
#include "cli/request/library.hpp"
#include "cli/request/resolve.hpp"
#include "cli/request/table/option_table.hpp"
#include "cli/terminal/diagnostic.hpp"
#include "cli/terminal/terminal.hpp"
#include "cli/terminal/words.hpp"
#include "formulas/textbook/catalog.hpp"
#include "formulas/textbook/rules_of_thumb.hpp"
#include "planner/estimate/budget.hpp"
#include "planner/problem/axes.hpp"
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

/// Nouns whose list is elsewhere, in the singular.
constexpr std::pair<std::string_view, std::string_view> kElsewhere[] = {
    {"hardware", "write `plan list gpus`, or `plan list clusters` for those with their networks"},
    {"accelerator", "write `plan list gpus`"},
    {"chip", "write `plan list gpus`"},
    {"device", "write `plan list gpus`"},
    {"tpu", "write `plan list gpus`"},
    {"node", "write `plan list clusters`"},
    {"network", "write `plan list clusters`"},
    {"preset", "presets are models, gpus and clusters: write `plan list models`"},
    {"command", "`plan --help` names the commands and the flags"},
    {"flag", "`plan --help` names the commands and the flags"},
    {"option", "`plan --help` names the commands and the flags"},
    {"metric", "write `plan list limits`"},
    {"equation", "write `plan list formulas`"},
    {"emitter", "`plan emit` names the kinds of files that it writes"}};

/// What `--layout` takes by a noun: its axes, or the words of one of them; empty if it is no such noun.
std::string layout_words(const std::string& noun) {
  std::vector<std::string> axes;
  each_axis([&](const auto& axis) { axes.emplace_back(axis.word); });
  if (same_noun(noun, "layout") || same_noun(noun, "axe") || noun == "axis")
    return fmt::format("`--layout` takes {}", fmt::join(axes, ", "));
  if (same_noun(noun, "schedule"))
    return fmt::format("`--layout schedule=` takes {}", fmt::join(words_of(kScheduleNames), ", "));
  return {};
}

/// The flag of a noun that takes one of some words: `optimizers`, `precision`.
const Option* option_of_noun(const std::string& noun) {
  for (const Option& option : options())
    if (option.words != nullptr && same_noun(noun, option.flag.substr(2))) return &option;
  return nullptr;
}

Error unknown_listing(const Args& args) {
  std::vector<std::string_view> names;
  for (const Listing& listing : kListings) names.push_back(listing.name);
  const std::string help = fmt::format("`plan list` takes {}", fmt::join(names, ", "));
  if (args.words.empty()) return {"missing_word", "`plan list` needs to know what to list", {}, {help}};
  Error error{"unknown_list", fmt::format("nothing to list by the name `{}`", args.words[0]), {}, {}};
  const std::string word = folded(args.words[0]);
  const auto* elsewhere = std::find_if(std::begin(kElsewhere), std::end(kElsewhere),
                                       [&](const auto& row) { return same_noun(word, row.first); });
  if (const Option* option = option_of_noun(word); option != nullptr)
    error.help.push_back(fmt::format("`{}` takes {}", option->flag, fmt::join(option->words(), ", ")));
  else if (const std::string words = layout_words(word); !words.empty())
    error.help.push_back(words);
  else if (elsewhere != std::end(kElsewhere))
    error.help.emplace_back(elsewhere->second);
  else
    suggest(error, args.words[0], names);
  error.help.push_back(help);
  return error;
}

}  // namespace

int run_list(const Args& args, Streams& streams) {
  for (const Listing& listing : kListings) {
    if (args.words.empty() || !same_noun(folded(args.words[0]), listing.name)) continue;
    const std::vector<Listed> rows = listing.rows();
    streams.out = wants_json(args) ? json_text(listing.name, rows)
                  : args.names     ? names_text(rows)
                                   : table_text(rows, streams.out_terminal);
    return kYes;
  }
  return report_errors({unknown_listing(args)}, streams);
}

}  // namespace plan
