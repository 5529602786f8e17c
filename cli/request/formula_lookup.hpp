#pragma once

#include <string>
#include <vector>

#include "formulas/result.hpp"
#include "formulas/textbook/catalog.hpp"

namespace plan {

/// A formula by name, or an error with the nearest one.
[[nodiscard]] Result<const CatalogEntry*> lookup_formula(const std::string& name);

/// What a source says instead, as a sentence; empty where none errs. With values of the entry's symbols also the number
/// that its equation gives.
[[nodiscard]] std::string erratum_note(const CatalogEntry& entry, const std::vector<double>* values = nullptr);

}  // namespace plan
