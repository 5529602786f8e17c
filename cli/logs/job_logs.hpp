#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/logs/measured_run.hpp"
#include "formulas/real_bytes.hpp"
#include "formulas/result.hpp"
#include "planner/answer/estimate.hpp"
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

/// Figures that the job cannot have on its GPUs are of another one: steps that took less time than its FLOPs at their
/// peak, a rate above that peak, more memory than one has. `device`: the most that was seen of a whole GPU.
[[nodiscard]] Errors beyond_gpus(const JobLogs& logs, RealBytes device, const Problem& problem,
                                 const Estimate& planned);

/// What a log prints of its speed that is not of its other figures or not of this job, in sentences.
[[nodiscard]] std::vector<std::string> speeds_apart(const MeasuredLog& log, const Problem& problem);

/// Largest value of a figure of memory in any log; 0: none prints it.
[[nodiscard]] RealBytes most_memory(const std::vector<MeasuredLog>& logs, LogFigure figure);

}  // namespace plan
