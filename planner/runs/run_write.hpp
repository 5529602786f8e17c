#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formulas/result.hpp"
#include "planner/runs/catalogue.hpp"
#include "planner/runs/runs.hpp"

namespace plan {

/// What was measured of a job, beside what the job is.
struct MeasuredFigures {
  std::string id{}, suite{}, source{};
  double step_time_s = 0;      ///< 0: not measured
  double peak_memory_gib = 0;  ///< 0: not measured
  std::string memory_kind{};
  /// Seconds of the step by part, of a trace: "compute" and 1.25. They come before the notes as facts.
  std::vector<std::pair<std::string, double>> parts{};
};

/// A job and what was measured of it as a run, in the words of plan-runs(5). What the schema cannot say, so that the
/// run would read back as another job, is an error that names it.
[[nodiscard]] Result<Run> run_of(const Problem& problem, const Layout& layout, const MeasuredFigures& measured,
                                 const Catalogue& catalogue);

/// The runs of a file and one more below them, under the file's own header; with all columns where it is empty.
[[nodiscard]] Result<std::string> with_run(const std::string& text, const std::string& file, const Run& run);

}  // namespace plan
