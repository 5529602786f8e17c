#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/logs/job_logs.hpp"
#include "formulas/result.hpp"
#include "planner/answer/estimate.hpp"
#include "planner/estimate/budget.hpp"

namespace plan {

/// What a run showed of itself, as far as limits can be held against it.
struct MeasuredJob {
  std::string files{};           ///< "out.log", "rank0.log, rank1.log"
  std::optional<Steady> step{};  ///< seconds
  RealBytes peak{};              ///< of the fullest GPU that was seen; 0: not seen
  /// What `peak` was seen as: "device", "reserved", "allocated", or "out of memory".
  std::string peak_kind{};
  RealBytes unseen{};  ///< what of `peak` is predicted: what its kind leaves out
  std::optional<OutOfMemory> out_of_memory{};
  double no_number = 0;               ///< lines of the logs whose loss or gradient is none
  std::vector<std::string> speeds{};  ///< what the logs print of their speed that does not belong together
};

/// Reads logs of the job, and CSV files of nvidia-smi beside them. `planned`: what was predicted for the job, for what
/// an allocator's figures leave out.
[[nodiscard]] Result<MeasuredJob> measured_job(const std::vector<std::string>& logs,
                                               const std::vector<std::string>& smi, const Problem& problem,
                                               const Estimate& planned);

/// Did the run show this metric?
[[nodiscard]] bool shows(const MeasuredJob& measured, Metric metric);

/// The estimate with all that was measured in the place of what was predicted.
[[nodiscard]] Estimate as_measured(Estimate planned, const MeasuredJob& measured);

/// "12 steps of out.log, 3 of warm-up left out".
[[nodiscard]] std::string measured_text(const MeasuredJob& measured);

}  // namespace plan
