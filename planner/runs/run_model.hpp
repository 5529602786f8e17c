#pragma once

#include <string>
#include <vector>

#include "formulas/result.hpp"
#include "planner/runs/catalogue.hpp"
#include "planner/runs/runs.hpp"

namespace plan {

/// The model of a run: its preset, with the shape that the row gives it, or else the row's columns. What was taken for
/// something else than a cell says is added to `remarks`.
[[nodiscard]] Result<Model> model_of_run(const Run& run, const Catalogue& catalogue, std::vector<std::string>& remarks);

}  // namespace plan
