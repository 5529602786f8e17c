// `plan formula NAME --set s=2048,b=1`: a formula by name, with numbers. Tested by tests/cli/formula_test.cpp.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

#include "cli/commands/commands.hpp"
#include "cli/explain/explanation.hpp"
#include "cli/request/formula_lookup.hpp"
#include "cli/request/resolve.hpp"
#include "cli/terminal/diagnostic.hpp"
#include "cli/terminal/format.hpp"
#include "cli/terminal/json_text.hpp"
#include "cli/terminal/number_words.hpp"
#include "cli/terminal/words.hpp"
#include "formulas/text.hpp"
#include "presets/quantity.hpp"
#include "presets/suggest.hpp"

namespace plan {
namespace {

/// A number, with B, G or T for powers of 1000 as in `--tokens`. K and M are powers of 1024 to some flags and of 1000
/// to others, so that nobody can tell.
std::optional<double> setting_number(std::string_view text) {
  constexpr std::pair<char, double> kLetters[] = {{'B', 1e9}, {'G', 1e9}, {'T', 1e12}};
  for (const auto& [letter, size] : kLetters)
    if (text.ends_with(letter))
      if (const auto number = parse_number(trim(text.substr(0, text.size() - 1)))) return *number * size;
  return parse_number(text);
}

/// The numbers that a value may be meant as which is none: K and M are asked about.
std::vector<std::string> meant_values(std::string_view text) {
  const std::optional<double> number =
      text.empty() ? std::nullopt : parse_number(trim(text.substr(0, text.size() - 1)));
  const auto either = [&](double binary, double decimal) {
    return std::vector{number_text(*number * binary, 15), number_text(*number * decimal, 15)};
  };
  if (number && lower_case(text.back()) == 'k') return either(1024, 1e3);
  if (number && lower_case(text.back()) == 'm') return either(1024 * 1024, 1e6);
  if (number && text.back() == '%') return {number_text(*number / 100)};
  std::vector<std::string> numbers = plain_numbers("", text, true);
  std::erase_if(numbers, [](const std::string& plain) { return !setting_number(plain); });
  return numbers;
}

/// What a setting that is none may be meant as: each is taken. `s:2048` and `s2048` have their sign left out.
std::vector<std::string> meant_settings(std::string_view item) {
  constexpr std::string_view kAny = "2048";
  std::size_t sign = std::min(item.find_first_of("=:"), item.size());
  if (sign == item.size() && !setting_number(item))
    while (sign > 0 && std::isdigit(static_cast<unsigned char>(item[sign - 1])) != 0) --sign;
  const std::string_view name = trim(item.substr(0, sign)), text = trim(item.substr(sign), " \t=:");
  if (name.empty() || setting_number(name))
    return {fmt::format("write `--set s={}`, a symbol of the formula and its value", kAny)};
  std::vector<std::string> numbers = setting_number(text) ? std::vector{std::string(text)} : meant_values(text);
  if (numbers.empty()) numbers.emplace_back(kAny);
  for (std::string& plain : numbers) plain = fmt::format("write `--set {}={}`", name, plain);
  return numbers;
}

/// The items between commas; a comma before nothing but digits parts the thousands of one number.
std::vector<std::string_view> setting_items(std::string_view set) {
  std::vector<std::string_view> items;
  for (const std::string_view part : split(set, ",")) {
    const bool digits = !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
    if (digits && !items.empty())
      items.back() = {items.back().data(), static_cast<std::size_t>(part.data() + part.size() - items.back().data())};
    else if (!trim(part).empty())
      items.push_back(trim(part));
  }
  return items;
}

/// `s=2048,b=1` from every --set. The views point into `args`.
Result<std::vector<NamedValue>> read_settings(const Args& args) {
  std::vector<NamedValue> values;
  Errors errors;
  for (const std::string& set : args.set)
    for (const std::string_view item : setting_items(set)) {
      const std::size_t equals = item.find('=');
      const std::optional<double> value =
          equals == std::string_view::npos ? std::nullopt : setting_number(trim(item.substr(equals + 1)));
      if (value)
        values.push_back({trim(item.substr(0, equals)), *value});
      else
        errors.push_back(
            {"bad_number", fmt::format("`--set` needs SYMBOL=NUMBER, got `{}`", item), {}, meant_settings(item)});
    }
  if (!errors.empty()) return fail(std::move(errors));
  return values;
}

bool given(const std::vector<NamedValue>& values, std::string_view name) {
  return std::any_of(values.begin(), values.end(), [&](const NamedValue& v) { return v.name == name; });
}

std::string meaning(const Symbol& symbol) {
  return symbol.unit.empty() ? std::string(symbol.meaning) : fmt::format("{}, {}", symbol.meaning, symbol.unit);
}

Explanation explain_entry(const CatalogEntry& entry, const std::vector<double>& values,
                          const std::vector<NamedValue>& typed) {
  const Formula& formula = entry.formula;
  Explanation out{.name = std::string(formula.name),
                  .title = std::string(formula.title),
                  .equation = std::string(formula.equation),
                  .value = entry.evaluate(values),
                  .unit = std::string(formula.unit),
                  .source = std::string(formula.source)};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Symbol& symbol = entry.symbols[i];
    out.symbols.push_back(
        {std::string(symbol.name), values[i], meaning(symbol), given(typed, symbol.name) ? "--set" : "usual value"});
  }
  if (!formula.note.empty()) out.notes.emplace_back(formula.note);
  if (lowered(out.title).find("utilisation") != std::string::npos && out.unit == "ratio" && out.value > 1)
    out.notes.emplace_back("above 1: nothing does more than all of its peak, so a number or its unit is amiss");
  if (entry.erratum) out.notes.push_back(erratum_note(entry, &values));
  return out;
}

/// `Ring attention` and `zero_1` as the catalogue writes names.
std::string dashed(std::string_view word) {
  std::string out = folded(word);
  std::replace(out.begin(), out.end(), ' ', '-');
  return out;
}

/// Formulas whose name or title has every part of the word in it.
std::vector<std::string_view> formulas_about(const std::string& word) {
  std::vector<std::string_view> found;
  const std::vector<std::string_view> parts = split(word, "-");
  for (const CatalogEntry& entry : catalog()) {
    const std::string about = fmt::format("{} {}", entry.formula.name, dashed(entry.formula.title));
    if (std::all_of(parts.begin(), parts.end(), [&](auto part) { return about.find(part) != std::string::npos; }))
      found.push_back(entry.formula.name);
  }
  return found;
}

}  // namespace

Result<const CatalogEntry*> lookup_formula(const std::string& typed) {
  const std::string name = dashed(typed);
  const CatalogEntry* entry = find_formula(name);
  if (entry != nullptr) return entry;
  std::vector<std::string_view> names;
  for (const CatalogEntry& known : catalog()) names.push_back(known.formula.name);
  constexpr std::size_t kMostNamed = 12;
  Error error{"unknown_formula", fmt::format("unknown formula `{}`", typed), {}, {}};
  const std::string near = nearest_name(name, names);
  const std::vector<std::string_view> about = formulas_about(name);
  if (!near.empty()) error.help.push_back(fmt::format("a formula with a similar name exists: `{}`", near));
  if (!about.empty() && about.size() <= kMostNamed)
    error.help.push_back(fmt::format("formulas about it: {}", fmt::join(about, ", ")));
  error.help.push_back("list all with `plan list formulas`");
  return fail(error);
}

std::string erratum_note(const CatalogEntry& entry, const std::vector<double>* values) {
  const Erratum& wrong = entry.erratum;
  if (!wrong) return "";
  if (wrong.evaluate == nullptr) return fmt::format("{} says \"{}\": {}", wrong.where, wrong.equation, wrong.why);
  std::string what(wrong.equation);
  if (values != nullptr && !parse_number(wrong.equation))  // "4 = 4" tells nothing
    what += fmt::format(" = {}", value_text(wrong.evaluate(*values), std::string(entry.formula.unit)));
  return fmt::format("{} has {} instead: {}", wrong.where, what, wrong.why);
}

int run_formula(const Args& args, Streams& streams) {
  if (args.words.empty())
    return report_errors({{"missing_word", "`plan formula` needs a name", {}, {"list all with `plan list formulas`"}}},
                         streams);
  const Result<const CatalogEntry*> entry = lookup_formula(args.words[0]);
  if (!entry) return report_errors(entry.error(), streams);
  const Result<std::vector<NamedValue>> typed = read_settings(args);
  if (!typed) return report_errors(typed.error(), streams);
  Result<std::vector<double>> values = bind_symbols(**entry, *typed);
  if (!values) {
    values.error().front().help.push_back(
        fmt::format("see its symbols with `plan show formula {}`", (*entry)->formula.name));
    return report_errors(values.error(), streams);
  }
  const Explanation explanation = explain_entry(**entry, *values, *typed);
  streams.out =
      wants_json(args) ? dump(json_explanation(explanation)) : human_explanation(explanation, streams.out_terminal);
  return kYes;
}

}  // namespace plan
