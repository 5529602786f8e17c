#pragma once

#include <string>
#include <vector>

#include "cli/terminal.hpp"
#include "planner/estimate.hpp"
#include "planner/plan.hpp"

namespace plan {

/// A line of the memory table: consecutive stages that show the same numbers.
struct StageRow {
  int first = 0;
  int last = 0;
  StageMemory memory{};  ///< of the largest stage among them
};

/// At most `most` rows: equal neighbours together, then the most alike. The first, the last and the largest stage keep
/// rows of their own as long as there is room.
[[nodiscard]] std::vector<StageRow> stage_rows(const std::vector<StageMemory>& stages, int most);

/// `W G O A x` in proportion, dots for what is free. Cumulative rounding: the parts never exceed the whole.
[[nodiscard]] std::string memory_bar(const StageMemory& memory, Bytes capacity, int columns);

[[nodiscard]] std::string memory_table(const Estimate& estimate, int most_rows, const Terminal& terminal);

/// One term with the word that the table uses for it.
struct NamedTerm {
  const char* name;
  Seconds time;
};
/// In the order of the JSON.
[[nodiscard]] std::vector<NamedTerm> named_terms(const Terms& terms);

[[nodiscard]] std::string time_table(const Estimate& estimate, const Terminal& terminal);

[[nodiscard]] std::string runners_up_table(const Plan& plan, const Terminal& terminal);

/// The front of memory against step time.
[[nodiscard]] std::string front_table(const Plan& plan, const Terminal& terminal);

}  // namespace plan
