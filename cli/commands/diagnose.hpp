#pragma once

#include <string>

#include "cli/logs/job_logs.hpp"
#include "cli/report/runs/diagnosis.hpp"
#include "cli/request/table/args.hpp"
#include "cli/terminal/streams.hpp"

namespace plan {

/// What was predicted for the job that the flags, launch files or the log itself state.
[[nodiscard]] Result<DiagnosisReport> planned_report(const Args& args);

/// Fills in what was measured, by the logs and by all other files, and diagnoses it. Errors are of the files.
[[nodiscard]] Errors measure_report(const Args& args, const Result<JobLogs>& logs, DiagnosisReport& report);

/// The report in the format that was asked for.
[[nodiscard]] std::string diagnosis_in_format(const Args& args, const DiagnosisReport& report,
                                              const Terminal& terminal);

/// `--follow`: reads on while the log grows, and prints again as steps come.
int follow_log(const Args& args, Streams& streams);

}  // namespace plan
