#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/explain/term_names.hpp"
#include "cli/request/run_cost.hpp"
#include "cli/terminal/terminal.hpp"
#include "planner/answer/estimate.hpp"
#include "planner/answer/plan.hpp"

namespace plan {

/// A line of the memory table: consecutive stages that show the same numbers.
struct StageRow {
  int first = 0;
  int last = 0;
  StageMemory memory{};  ///< of the largest stage among them
};

/// At most `most` rows: equal neighbours together, then the most similar. The first, the last and the largest stage
/// keep rows of their own as long as there is room.
[[nodiscard]] std::vector<StageRow> stage_rows(const std::vector<StageMemory>& stages, int most);

/// `W G O A x` in proportion, dots for what is free. Cumulative rounding: the parts never exceed the whole.
[[nodiscard]] std::string memory_bar(const StageMemory& memory, Bytes capacity, int columns);

/// "3" or "1-7".
[[nodiscard]] std::string stage_name(const StageRow& row);

[[nodiscard]] std::string memory_table(const Estimate& estimate, int most_rows, const Terminal& terminal);

/// The five categories of the screen in tenths of a GiB, weights first; they add up to the rounded total.
[[nodiscard]] std::vector<double> shown_categories(const StageMemory& memory);

/// A term as tables print it: all of them add up in the digits shown.
struct ShownTerm {
  const char* name;
  const char* word;  ///< of `plan explain`
  Seconds time;
  double shown = 0;    ///< in the unit of time_scale(step time)
  double percent = 0;  ///< of the step, whole
};
/// Terms that are not zero, largest first.
[[nodiscard]] std::vector<ShownTerm> shown_terms(const Estimate& estimate);

[[nodiscard]] std::string time_table(const Estimate& estimate, int most_rows, const Terminal& terminal);

/// "671B parameters, 37B active".
[[nodiscard]] std::string parameters_text(const Model& model);
/// "sequence 8192, global batch 2048 = 16.8M tokens per step".
[[nodiscard]] std::string batch_text(const Training& training);

/// A figure of the answer with its interval, or with what else there is to it.
struct Headline {
  std::string name{}, value{}, more{};
  std::optional<Fits> fits{};  ///< of memory
};
/// Step time, throughput, MFU, memory, and the whole run where it is asked for.
[[nodiscard]] std::vector<Headline> headlines(const Plan& plan, const RunOptions& options);

/// A step time in the unit of the plan's best.
[[nodiscard]] std::string step_text(const Plan& plan, Seconds step);
/// Which switches another layout than the best has on, if they are not the best one's: "with --cuda-graphs attn".
[[nodiscard]] std::string switches_text(const Plan& plan, const Estimate& other);

/// The degrees of layouts, columns aligned: "tp 2  cp 8  pp 64/2  dp  16"; ep only where experts
/// exist.
[[nodiscard]] std::vector<std::string> axis_columns(const std::vector<const Layout*>& layouts, bool moe);

/// What separates a runner-up from the best, as much as fits into `room` columns.
[[nodiscard]] std::string against_text(const Plan& plan, const RunnerUp& runner, int room);

[[nodiscard]] std::string runners_up_table(const Plan& plan, const Terminal& terminal);

/// What changes of the job are worth, in the units of the screen.
struct ShownAdvice {
  std::string change, faster, cheaper, layout;
};
[[nodiscard]] std::vector<ShownAdvice> shown_advice(const Plan& plan);
[[nodiscard]] std::string advice_table(const Plan& plan, const Terminal& terminal);

/// The front of memory against step time.
[[nodiscard]] std::string front_table(const Plan& plan, const Terminal& terminal);

}  // namespace plan
