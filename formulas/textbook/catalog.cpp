// All formulas by name. Tested by tests/formulas/equations_test.cpp and catalog_test.cpp.
#include "formulas/textbook/catalog.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "formulas/text.hpp"
#include "formulas/textbook/batch.hpp"
#include "formulas/textbook/cost.hpp"
#include "formulas/textbook/efficiency_laws.hpp"
#include "formulas/textbook/loss.hpp"
#include "formulas/textbook/reliability.hpp"
#include "formulas/textbook/rules_of_thumb.hpp"
#include "formulas/textbook/textbook_activations.hpp"
#include "formulas/textbook/textbook_collectives.hpp"
#include "formulas/textbook/textbook_overlap.hpp"
#include "formulas/textbook/textbook_pipeline.hpp"
#include "formulas/textbook/textbook_size.hpp"
#include "formulas/textbook/textbook_states.hpp"
#include "formulas/textbook/textbook_traffic.hpp"

namespace plan {
namespace {

std::string quoted(std::string_view word) {
  std::string text(1, '`');
  text.append(word).push_back('`');
  return text;
}

bool inside(Domain domain, double value) {
  switch (domain) {
    case Domain::Count: return value >= 1 && value == std::floor(value);
    case Domain::Real: return value > 0 && std::isfinite(value);
    case Domain::Amount: return value >= 0 && std::isfinite(value);
    case Domain::Share: return value >= 0 && value <= 1;
  }
  return false;
}

std::string_view domain_words(Domain domain) {
  switch (domain) {
    case Domain::Count: return "a whole number of at least 1";
    case Domain::Real: return "a positive number";
    case Domain::Amount: return "zero or more";
    case Domain::Share: return "between 0 and 1";
  }
  return "";
}

std::string symbol_list(const CatalogEntry& entry) {
  std::string list;
  for (const Symbol& symbol : entry.symbols) {
    if (!list.empty()) list += ", ";
    list += symbol.name;
  }
  return list;
}

/// The symbol that a name in another case means; else all of them.
std::string symbol_meant(const CatalogEntry& entry, std::string_view name) {
  for (const Symbol& symbol : entry.symbols)
    if (same_but_for_case(symbol.name, name)) return "write " + quoted(symbol.name);
  return "its symbols are " + symbol_list(entry);
}

/// Index of a symbol in the entry, or the number of symbols if it has none of that name.
std::size_t symbol_index(const CatalogEntry& entry, std::string_view name) {
  const auto at = std::find_if(entry.symbols.begin(), entry.symbols.end(),
                               [&](const Symbol& symbol) { return symbol.name == name; });
  return static_cast<std::size_t>(at - entry.symbols.begin());
}

Error missing(const Symbol& symbol) {
  std::string message = "no value for " + quoted(symbol.name) + ": " + std::string(symbol.meaning);
  if (!symbol.unit.empty()) message += " [" + std::string(symbol.unit) + "]";
  return {.code = "missing_symbol", .message = message};
}

}  // namespace

std::span<const CatalogGroup> catalog_groups() {
  static const CatalogGroup groups[] = {
      {"size", "Parameters, FLOPs and utilisation", textbook::size_formulas()},
      {"states", "Model states: weights, gradients, optimizer", textbook::state_formulas()},
      {"activations", "Activations and recomputation", textbook::activation_formulas()},
      {"pipeline", "Pipeline schedules", textbook::pipeline_formulas()},
      {"traffic", "Bytes that each parallel axis moves", textbook::traffic_formulas()},
      {"overlap", "Communication left exposed", textbook::overlap_formulas()},
      {"collectives", "Collective operations", textbook::collective_formulas()},
      {"efficiency", "Kernel and collective times", law::efficiency_formulas()},
      {"reliability", "Stragglers, failures and checkpoints", reliability_formulas()},
      {"cost", "Cost and energy", cost_formulas()},
      {"batch", "Batch size", batch_formulas()},
      {"loss", "Expected loss", loss_formulas()},
      {"rules", "Rules of thumb as limits", rule_formulas()},
  };
  return groups;
}

std::span<const CatalogEntry> catalog() {
  static const std::vector<CatalogEntry> all = [] {
    std::vector<CatalogEntry> entries;
    for (const CatalogGroup& group : catalog_groups())
      entries.insert(entries.end(), group.entries.begin(), group.entries.end());
    return entries;
  }();
  return all;
}

const CatalogEntry* find_formula(std::string_view name) {
  for (const CatalogEntry& entry : catalog())
    if (entry.formula.name == name) return &entry;
  return nullptr;
}

Result<std::vector<double>> bind_symbols(const CatalogEntry& entry, std::span<const NamedValue> given) {
  Errors errors;
  std::vector<double> values(entry.symbols.size());
  std::vector<bool> set(entry.symbols.size(), false);
  for (const NamedValue& value : given) {
    const std::size_t i = symbol_index(entry, value.name);
    if (i == entry.symbols.size()) {
      errors.push_back({.code = "unknown_symbol",
                        .message = quoted(entry.formula.name) + " has no symbol " + quoted(value.name),
                        .help = {symbol_meant(entry, value.name)}});
      continue;
    }
    if (set[i]) errors.push_back({.code = "doubled_symbol", .message = quoted(value.name) + " is set twice"});
    if (!inside(entry.symbols[i].domain, value.value))
      errors.push_back(
          {.code = "bad_symbol_value",
           .message = quoted(value.name) + " must be " + std::string(domain_words(entry.symbols[i].domain))});
    values[i] = value.value;
    set[i] = true;
  }
  // A name that is no symbol's may be meant as one that has no value: that one is no second mistake.
  const bool strangers =
      std::any_of(errors.begin(), errors.end(), [](const Error& error) { return error.code == "unknown_symbol"; });
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (set[i]) continue;
    if (entry.symbols[i].required() && !strangers) errors.push_back(missing(entry.symbols[i]));
    values[i] = entry.symbols[i].typical;
  }
  if (!errors.empty()) return fail(std::move(errors));
  return values;
}

}  // namespace plan
