#pragma once

#include <string>
#include <vector>

#include "cli/terminal/terminal.hpp"
#include "planner/answer/plan.hpp"
#include "planner/choice/next_runs.hpp"

namespace plan {

/// What `plan next` found out.
struct NextReport {
  Plan plan{};
  std::vector<Estimate> layouts{};  ///< the recommended one and those beside it
  Doubt before{};                   ///< of the recommended one, with the runs that were made taken into account
  std::vector<Doubt> against{};     ///< ln(time of each other / time of the recommended)
  std::vector<NextRun> runs{};
  std::vector<std::string> taken{};  ///< runs that were made, by id
  std::vector<Note> skipped{};       ///< runs that say nothing about this job
};

[[nodiscard]] std::string next_text(const NextReport& report, const Terminal& terminal);
[[nodiscard]] std::string next_markdown(const NextReport& report);
/// Schema plan-next/1; every key is in man/plan-json.5.
[[nodiscard]] std::string next_json(const NextReport& report);

}  // namespace plan
