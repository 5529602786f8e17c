#pragma once

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "formulas/result.hpp"
#include "formulas/textbook/catalog_entry.hpp"

namespace plan {

/// Every formula that `plan formula` and `plan list formulas` know, by subject.
///
/// To add a family: beside its functions write a `Formula` record for each and an array of `Symbol`s, put
/// `entry<function>(kRecord, kSymbols)` of each into an array, declare `std::span<const CatalogEntry>
/// my_formulas()` in its header and add one line to `kGroups` in catalog.cpp. The equation test then covers it.
[[nodiscard]] std::span<const CatalogGroup> catalog_groups();

/// Every entry of the catalog, group after group.
[[nodiscard]] std::span<const CatalogEntry> catalog();

/// nullptr if there is no formula of that name.
[[nodiscard]] const CatalogEntry* find_formula(std::string_view name);

struct NamedValue {
  std::string_view name;
  double value = 0;
};

/// Values of the entry's symbols from the ones given by name; what is not given takes its typical value.
/// Fails on unknown, doubled or missing symbols and on values outside the symbol's domain.
[[nodiscard]] Result<std::vector<double>> bind_symbols(const CatalogEntry& entry, std::span<const NamedValue> given);

}  // namespace plan
