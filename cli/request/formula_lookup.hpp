#pragma once

#include <string>

#include "formulas/catalog.hpp"
#include "formulas/result.hpp"

namespace plan {

/// A formula by name, or an error with the nearest one.
[[nodiscard]] Result<const CatalogEntry*> lookup_formula(const std::string& name);

}  // namespace plan
