#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/request/sources/request.hpp"
#include "formulas/result.hpp"
#include "planner/estimate/budget.hpp"

namespace plan {

/// One job of a budget file, its words unread but for the limits. Names of files are as seen from where plan runs.
struct BudgetJob {
  std::string name{};
  Place place{};                                     ///< where the job begins
  std::map<std::string, Word, std::less<>> words{};  ///< model, seq, gpus, gpu, layout, baseline, ...
  std::vector<Word> from{};                          ///< launch files that make up this job
  Budget budget{};                                   ///< memory.fit first
};

/// A `budget: 1` file.
struct BudgetFile {
  std::string file{};
  std::vector<BudgetJob> jobs{};
};

/// Keys of a job that are a single word, in the order of plan-budget(5).
[[nodiscard]] const std::vector<std::string_view>& budget_words();

/// Reads a budget file, strictly: every mistake at once, each with its place. `each: GLOB` becomes one job a file.
[[nodiscard]] Result<BudgetFile> read_budget_file(const std::string& path);
/// Reads a budget from the text of a file that messages call `path`.
[[nodiscard]] Result<BudgetFile> read_budget_text(std::string text, const std::string& path);

/// Files that a shell pattern matches, sorted; `base` is the folder that relative ones start from.
[[nodiscard]] std::vector<std::string> matching_files(const std::string& pattern, const std::string& base);

}  // namespace plan
