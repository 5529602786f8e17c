#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/report/sweep/comparison.hpp"
#include "formulas/result.hpp"
#include "planner/answer/plan.hpp"

/// Configurations that experts published (tests/published/expert_configs.csv), as problems and layouts.
namespace plan::experts {

/// A line of the table, by column.
using Row = std::map<std::string, std::string>;

[[nodiscard]] std::vector<Row> read_rows(const std::string& path);
[[nodiscard]] int number(const Row& row, const char* key, int otherwise = 0);

/// Is the row for Megatron-LM or a tool that starts it, possible, and complete: are all degrees and batches stated?
[[nodiscard]] bool complete_megatron_row(const Row& row);
/// Preset of the row's GPU; empty for one that has none.
[[nodiscard]] std::string gpu_preset(const Row& row);
/// The problem that the row's layout answers, on `cluster`. Errors name a model without a preset.
[[nodiscard]] Result<Problem> problem_of(const Row& row, const Cluster& cluster);
[[nodiscard]] Layout layout_of(const Row& row, const Problem& problem);

/// The row's plan with the lightest reading of what it leaves open (recompute, types of gradients and moments) that
/// fits; the heaviest saving if none does, nothing if the layout is refused.
[[nodiscard]] std::optional<Plan> lightest_that_fits(Problem problem, const Row& row);

/// An expert's layout and the best one for the same problem.
struct Contest {
  Problem problem{};
  std::string source{};
  Comparison comparison{};  ///< a: the expert, b: plan
  [[nodiscard]] double speedup() const;
};
/// One row a model, GPU and count: measured ones before recipes, and of those the first.
[[nodiscard]] std::vector<Row> groups(const std::vector<Row>& rows);
/// Errors where the expert's layout is refused or nothing fits.
[[nodiscard]] Result<Contest> contest(const Row& row);
/// The contests whose step times differ most, as a Markdown table.
[[nodiscard]] std::string table(std::vector<Contest> contests, std::size_t most);
/// One line of it.
[[nodiscard]] std::string line(const Contest& contest);

}  // namespace plan::experts
