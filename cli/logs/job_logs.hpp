#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/logs/measured_run.hpp"
#include "formulas/real_bytes.hpp"
#include "formulas/result.hpp"
#include "planner/estimate.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// The logs of one job, each of them of a rank or of the whole.
struct JobLogs {
  std::vector<MeasuredLog> logs{};
  std::optional<Steady> step{};      ///< seconds, of the first log that has steps
  std::vector<Evidence> evidence{};  ///< of all logs, and of ranks whose steps are longer than the others'
};

/// Reads logs. One that prints another global batch than the job has is an error: it is of another run.
[[nodiscard]] Result<JobLogs> read_job_logs(const std::vector<std::string>& files, const Problem& problem);

/// Does so with logs that were read already.
[[nodiscard]] Result<JobLogs> job_logs(std::vector<MeasuredLog> logs, const Problem& problem);

/// The time of a step, from whatever the log prints of its speed.
[[nodiscard]] std::optional<Steady> step_of(const MeasuredLog& log, const Problem& problem);

/// Steps that took less time than the job's FLOPs at its GPUs' peak are of another job.
[[nodiscard]] std::optional<Error> too_fast(const JobLogs& logs, const Problem& problem, const Estimate& planned);

/// Largest value of a figure of memory in any log; 0: none prints it.
[[nodiscard]] RealBytes most_memory(const std::vector<MeasuredLog>& logs, LogFigure figure);

}  // namespace plan
